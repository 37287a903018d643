"""`jobtop run` as click knows it: for the help, the completion, and to say what is wrong."""

import signal
from typing import Any

import click
from click.shell_completion import CompletionItem

from jobtop.cli.app import App
from jobtop.cli.run.launch import run as launch
from jobtop.cli.run.options import RUN, Option, read_value
from jobtop.core.errors import BadValue


class Value(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """What an option's own reader makes of a word."""

    def __init__(self, option: Option) -> None:
        self.option, self.name = option, option.key

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        words = (self.option.metavar or "").split("|")
        return [CompletionItem(word) for word in words if len(words) > 1 and word.startswith(incomplete)]

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return read_value(self.option, value)
        except BadValue as error:
            raise click.UsageError(str(error), ctx) from None


def click_option(option: Option) -> click.Option:
    """The same option for click."""
    if option.metavar is None:
        return click.Option([option.name, *([option.short] if option.short else [])], is_flag=True, help=option.help)
    kind = Value(option)
    return click.Option([option.name], type=kind, multiple=option.repeated, metavar=option.metavar, help=option.help)


@click.pass_obj
def callback(app: App, /, command: tuple[str, ...], **options: Any) -> int:
    """Run COMMAND and record exactly what it cost, whatever it does with its children.

    Output, standard input, signals and the exit code pass through.
    """
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # a job has to be recorded whoever stops reading
    return launch(app, command, options)


command_words = click.Argument(["command"], nargs=-1, type=click.UNPROCESSED, metavar="COMMAND [ARGUMENT]…")
run = click.Command(
    "run",
    callback=callback,
    help=callback.__doc__,
    params=[*map(click_option, RUN), command_words],
    options_metavar="[OPTIONS] [--]",
    context_settings={"allow_interspersed_args": False},
)
