"""`jobtop help [VERB]`: prints the help of jobtop, of a verb or of the filter language."""

import click

from jobtop.core.errors import VERB_LIKENESS, UsageError, did_you_mean

IDS, FILTERS = "ids", "filters"
TOPICS = {
    IDS: "The words that name one job: in show, logs, rerun, stop and all verbs that take an ID or a JOB.",
    FILTERS: "The words that select jobs: in history, stats, export, wait, stop, rm and the console.",
}


def complete_topic(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    group = ctx.find_root().command
    verbs = group.list_commands(ctx) if isinstance(group, click.Group) else []
    return [name for name in (*verbs, *TOPICS) if name.startswith(incomplete)]


@click.command()
@click.argument("words", nargs=-1, metavar="[VERB]", shell_complete=complete_topic)
@click.pass_context
def help_(ctx: click.Context, /, words: tuple[str, ...]) -> int:
    """Print the help of a verb; without one, all verbs.

    `jobtop help ids` explains how to name a job, `jobtop help filters` how to select jobs.
    """
    root = ctx.find_root()
    if len(words) == 1 and words[0] in TOPICS:
        click.echo(topic_help(words[0]))
        return 0
    command, context = root.command, root
    for word in words:
        found = command.get_command(context, word) if isinstance(command, click.Group) else None
        if found is None:
            names = command.list_commands(context) if isinstance(command, click.Group) else []
            topics = TOPICS if command is root.command else {}
            hint = did_you_mean(word, (*names, *topics), VERB_LIKENESS)
            raise UsageError(f'there is no verb "{word}"{hint}; jobtop help lists all')
        command, context = found, click.Context(found, info_name=word, parent=context)
    click.echo(command.get_help(context))
    if not words:
        click.echo(f"\nMore: jobtop help VERB, jobtop help {IDS}, jobtop help {FILTERS}")
    return 0


def topic_help(topic: str) -> str:
    """Return the help of a topic, as the module that reads such words describes it."""
    from jobtop.core.query.filter import LANGUAGE
    from jobtop.store.references import FORMS_HELP

    text = {IDS: FORMS_HELP, FILTERS: LANGUAGE}[topic]
    return f"{TOPICS[topic]}\n\n" + text.replace("\b\n", "").strip("\n")
