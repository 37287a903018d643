"""A verb with verbs of its own, each imported only when it is called."""

import importlib
from collections.abc import Callable, Mapping

import click

from jobtop.core.errors import VERB_LIKENESS, did_you_mean
from jobtop.core.units import printable


class VerbGroup(click.Group):
    """A group of verbs: `verbs` has, for each, its module in `package` and its function.

    Help, docs and completion come from the function. With a default, options without a verb are those of that verb;
    with `default_takes_words`, other words are too. Those in `reads_stores` take --store.
    """

    package: str
    verbs: Mapping[str, str]
    default: str | None = None
    default_takes_words = False
    reads_stores: tuple[str, ...] = ()

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.verbs)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in self.verbs:
            return None
        module, _, function = self.verbs[name].partition(":")
        command: click.Command = getattr(importlib.import_module(f"{self.package}.{module}"), function)
        if name in self.reads_stores:
            from jobtop.cli.main import STORE_OPTION

            if STORE_OPTION not in command.params:
                command.params.append(STORE_OPTION)
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(
            ctx, [self.default, *args] if self.default and self._is_of_default(ctx, args) else args
        )

    def _is_of_default(self, ctx: click.Context, args: list[str]) -> bool:
        if not args:
            return not (self.default_takes_words and ctx.resilient_parsing)
        if args[0] in ("-h", "--help"):
            return False
        # While a shell completes the first word, it may become a verb.
        is_word = self.default_takes_words and args[0] not in self.verbs and not ctx.resilient_parsing
        return is_word or (args[0].startswith("-") and not (self.default_takes_words and ctx.resilient_parsing))

    def invoke(self, ctx: click.Context) -> object:
        if not ctx.invoked_subcommand and not ctx.args and not getattr(ctx, "_protected_args", ()):
            ctx.fail(f"which verb? There are {', '.join(self.verbs)}")
        return super().invoke(ctx)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in self.verbs:
            hint = did_you_mean(args[0], self.verbs, VERB_LIKENESS) or f"; there are {', '.join(self.verbs)}"
            ctx.fail(f'there is no verb "{ctx.info_name} {printable(args[0])}"{hint}')
        return super().resolve_command(ctx, args)


def verb_group(
    package: str,
    verbs: Mapping[str, str],
    default: str | None = None,
    default_takes_words: bool = False,
    reads_stores: tuple[str, ...] = (),
) -> Callable[[Callable[..., None]], click.Group]:
    """Make a group of a function, which has its help."""
    fields = {
        "package": package,
        "verbs": verbs,
        "default": default,
        "default_takes_words": default_takes_words,
        "reads_stores": reads_stores,
    }
    return click.group(cls=type("Verbs", (VerbGroup,), fields), no_args_is_help=False)
