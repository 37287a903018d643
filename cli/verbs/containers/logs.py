"""`jobtop containers logs`: prints the output of containers, all of it, what matches, or new lines as they come."""

from collections.abc import Callable, Iterable
from contextlib import closing
from typing import Any

import click

from jobtop.cli.app import App
from jobtop.cli.text.container_output import JsonPrinter, LinePrinter, TextPrinter
from jobtop.cli.values import Count, PastMoment
from jobtop.cli.verbs.containers.choices import Found, containers_named, names_options
from jobtop.core.errors import BadValue, EngineError, ExitCode, UsageError
from jobtop.core.measure.collectors.docker.log_lines import (
    LogLine,
    LogRequest,
    followed_lines,
    line_matcher,
    line_text,
    log_lines,
    merged_lines,
)


@click.command()
@names_options
@click.option("-f", "--follow", is_flag=True, help="Print new lines until the containers have ended.")
@click.option("--grep", "pattern", metavar="RE", help="Only lines that match a regular expression; (?i)… ignores case.")
@click.option("--since", type=PastMoment(), help="Only lines since a time: 10m, 2h, 2026-11-15T14:30.")
@click.option("--tail", type=Count(0), metavar="N", help="Only the last N lines of each container, before --grep.")
@click.option("-t", "--timestamps", is_flag=True, help="Print the time of each line.")
@click.option("--raw", is_flag=True, help="Print the bytes of each line unchanged, with all control characters.")
@click.option("--json", "as_json", is_flag=True, help="Print the lines as JSON Lines.")
@click.pass_obj
def logs(app: App, /, names: tuple[str, ...], engine_name: str | None, project: str | None, **options: Any) -> int:
    """Print the output of containers: standard output to standard output, standard error to standard error.

    The lines of several containers are in the order of time, each after the name of its container; with --follow they
    are printed as they come. Control characters are shown and have no effect.
    """
    if options["raw"] and options["as_json"]:
        raise UsageError("--raw is for text: leave it out with --json")
    matches = matcher(options["pattern"])
    with containers_named(app, names, engine_name, project) as found:
        is_many = len(found) > 1 or project is not None
        with_times = options["timestamps"] or options["as_json"] or (is_many and not options["follow"])
        wanted = LogRequest(options["since"], options["tail"], options["follow"], with_times)
        colors = app.uses_color(1), app.uses_color(2)
        containers = [container for _, container in found]
        printer = (
            JsonPrinter()
            if options["as_json"]
            else TextPrinter(containers, is_many, options["timestamps"], options["raw"], colors)
        )
        with closing(lines_of(found, wanted)) as lines:
            return print_lines(app, lines, matches, printer)


def matcher(pattern: str | None) -> Callable[[str], bool] | None:
    try:
        return None if pattern is None else line_matcher(pattern)
    except BadValue as error:
        raise UsageError(f"--grep: {error}") from None


def lines_of(found: list[Found], wanted: LogRequest) -> Any:
    """Return a generator of the lines of one container, or of several: past ones by time, new ones as they come."""
    if len(found) == 1:
        return log_lines(*found[0], wanted)
    return followed_lines(found, wanted) if wanted.follow else merged_lines(found, wanted)


def print_lines(
    app: App,
    lines: Iterable[LogLine | EngineError],
    matches: Callable[[str], bool] | None,
    printer: LinePrinter,
) -> int:
    """Print the lines that match; warn if there is none, so that an empty answer is not taken for a fault."""
    read = printed = 0
    code = ExitCode.OK
    for line in lines:
        if isinstance(line, EngineError):
            app.warn(str(line))
            code = ExitCode.FAILED
            continue
        read += 1
        if matches is None or matches(line_text(line.data)):
            printed += 1
            printer.print(line)
    if not printed and code is ExitCode.OK:
        app.warn(f"none of {read} lines matches --grep" if read else "there is no output")
    return code
