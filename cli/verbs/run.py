"""`jobtop run` as a click command: for its help, its completion and its error messages."""

import signal
from collections.abc import Callable, Iterable
from typing import Any

import click
from click.shell_completion import CompletionItem

from jobtop.cli.app import App
from jobtop.cli.run.launch import run as launch
from jobtop.cli.run.options import RUN, Option, parse_option_value
from jobtop.core.errors import BadValue


class OptionValue(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """A click type that parses values with the option's own parser."""

    def __init__(self, option: Option) -> None:
        self.option, self.name = option, option.key

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        choices = (self.option.metavar or "").split("|")
        return [CompletionItem(choice) for choice in choices if len(choices) > 1 and choice.startswith(incomplete)]

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return parse_option_value(self.option, value)
        except BadValue as error:
            raise click.UsageError(str(error), ctx) from None


def click_option(option: Option) -> click.Option:
    """Return the click option for a row of the table."""
    if option.metavar is None:
        return click.Option([option.name, *([option.short] if option.short else [])], is_flag=True, help=option.help)
    kind = OptionValue(option)
    return click.Option([option.name], type=kind, multiple=option.repeated, metavar=option.metavar, help=option.help)


@click.pass_obj
def callback(app: App, /, command: tuple[str, ...], **options: Any) -> int:
    """Run COMMAND and record exactly what it used, including all its descendants.

    Output, standard input, signals and the exit code pass through.
    """
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # the job is recorded even if the reader of our output goes away
    return launch(app, command, options)


command_words = click.Argument(["command"], nargs=-1, type=click.UNPROCESSED, metavar="COMMAND [ARGUMENT]…")


def job_command(name: str, callback: Callable[..., int], options: Iterable[click.Option]) -> click.Command:
    """Return a verb that takes options, then the command of a job; options of that command are left alone."""
    return click.Command(
        name,
        callback=callback,
        help=callback.__doc__,
        params=[*options, command_words],
        options_metavar="[OPTIONS] [--]",
        context_settings={"allow_interspersed_args": False},
    )


run = job_command("run", callback, map(click_option, RUN))
