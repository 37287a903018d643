"""`jobtop containers`: the group of its verbs, each imported only when it is called; without a verb it lists them."""

import importlib

import click

DEFAULT = "list"
READS_STORES = ("advise",)  # take --store
# A verb of this group is one row: its module and its function. Help, docs and completion come from the function.
VERBS = {
    "list": "listing:list_",
    "logs": "logs:logs",
    "inspect": "inspect:inspect",
    "stop": "acting:stop",
    "restart": "acting:restart",
    "pause": "acting:pause",
    "resume": "acting:resume",
    "advise": "advise:advise_",
}


class ContainerVerbs(click.Group):
    """A group that imports a verb only when it is called; other words and options are those of `list`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in VERBS:
            return None
        module, _, function = VERBS[name].partition(":")
        command: click.Command = getattr(importlib.import_module(f"jobtop.cli.verbs.containers.{module}"), function)
        if name in READS_STORES:
            from jobtop.cli.main import STORE_OPTION

            if STORE_OPTION not in command.params:
                command.params.append(STORE_OPTION)
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        is_other = not args or args[0] not in (*VERBS, "-h", "--help")
        # While a shell completes the first word, it may become a verb.
        return super().parse_args(ctx, [DEFAULT, *args] if is_other and not ctx.resilient_parsing else args)


@click.group(cls=ContainerVerbs)
def containers() -> None:
    """Show the containers of Docker and Podman with what they use, read their output, act on them, and advise limits.

    Without a verb, list them. NAME is a name or the beginning of an id, in any engine; ENGINE/NAME chooses the engine.
    """
