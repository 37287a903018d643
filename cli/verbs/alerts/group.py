"""`jobtop alerts`: the group of its verbs, each imported only when it is called; without a verb it lists alerts."""

import importlib

import click

from jobtop.core.errors import VERB_LIKENESS, did_you_mean
from jobtop.core.units import printable

DEFAULT = "list"
READS_STORES = ("list", "test")  # take --store
# A verb of this group is one row: its module and its function. Help, docs and completion come from the function.
VERBS = {
    "list": "listing:list_",
    "rules": "rules:rules",
    "ack": "ack:ack",
    "mute": "mute:mute",
    "unmute": "mute:unmute",
    "arm": "arm:arm",
    "disarm": "arm:disarm",
    "send": "send:send",
    "try-action": "try_action:try_action",
    "test": "replay:test",
}


class AlertVerbs(click.Group):
    """A group that imports a verb only when it is called; options without a verb are those of `list`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in VERBS:
            return None
        module, _, function = VERBS[name].partition(":")
        command: click.Command = getattr(importlib.import_module(f"jobtop.cli.verbs.alerts.{module}"), function)
        if name in READS_STORES:
            from jobtop.cli.main import STORE_OPTION

            if STORE_OPTION not in command.params:
                command.params.append(STORE_OPTION)
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        is_option = bool(args) and args[0].startswith("-") and args[0] not in ("-h", "--help")
        return super().parse_args(ctx, [DEFAULT, *args] if not args or is_option else args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in VERBS:
            hint = did_you_mean(args[0], VERBS, VERB_LIKENESS) or f"; there are {', '.join(VERBS)}"
            ctx.fail(f'there is no verb "alerts {printable(args[0])}"{hint}')
        return super().resolve_command(ctx, args)


@click.group(cls=AlertVerbs)
def alerts() -> None:
    """List alerts, acknowledge and mute them, send messages that wait, and let rules act on jobs.

    Without a verb, alerts are listed.
    """
