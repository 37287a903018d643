"""`jobtop help [VERB]`: prints the help of jobtop, of a verb or of the filter language."""

import click

from jobtop.core.errors import UsageError, did_you_mean

FILTERS = "filters"
TOPICS = {FILTERS: "The words that select jobs: in history, stats, export, wait, stop, rm and the console."}


def complete_topic(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    group = ctx.find_root().command
    verbs = group.list_commands(ctx) if isinstance(group, click.Group) else []
    return [name for name in (*verbs, *TOPICS) if name.startswith(incomplete)]


@click.command()
@click.argument("words", nargs=-1, metavar="[VERB]", shell_complete=complete_topic)
@click.pass_context
def help_(ctx: click.Context, /, words: tuple[str, ...]) -> int:
    """Print the help of a verb; without one, all verbs. `jobtop help filters` explains how to select jobs."""
    root = ctx.find_root()
    if words == (FILTERS,):
        click.echo(filters_help())
        return 0
    command, context = root.command, root
    for word in words:
        found = command.get_command(context, word) if isinstance(command, click.Group) else None
        if found is None:
            names = command.list_commands(context) if isinstance(command, click.Group) else []
            topics = TOPICS if command is root.command else {}
            raise UsageError(f'there is no verb "{word}"{did_you_mean(word, (*names, *topics))}; jobtop help lists all')
        command, context = found, click.Context(found, info_name=word, parent=context)
    click.echo(command.get_help(context))
    if not words:
        click.echo(f"\nMore: jobtop help VERB, jobtop help {FILTERS}")
    return 0


def filters_help() -> str:
    """Return what the filter language has, as its own module describes it."""
    from jobtop.core.query.filter import LANGUAGE

    return f"{TOPICS[FILTERS]}\n\n" + LANGUAGE.replace("\b\n", "").strip("\n")
