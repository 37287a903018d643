"""`jobtop containers list`: the containers of all engines with what they use, once or again and again."""

import os
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import click

from jobtop.cli.app import App
from jobtop.cli.text.container_lines import EMPTY_CSV_ROW, container_json, is_wanted, page
from jobtop.cli.text.screen import Screen, can_paint
from jobtop.cli.text.tables import STREAM, print_records, stream_format_options, truncate
from jobtop.cli.values import Duration
from jobtop.cli.verbs.containers.choices import (
    complete_container,
    engine_option,
    project_option,
    refuse_unknown_project,
)
from jobtop.cli.verbs.containers.group import VERBS
from jobtop.cli.verbs.files import SHORTEST_SECONDS, wait_for_end
from jobtop.core.errors import VERB_LIKENESS, EngineError, JobtopError, UsageError, did_you_mean
from jobtop.core.measure.collectors.docker.endpoints import endpoints
from jobtop.core.measure.collectors.docker.finding import open_engines
from jobtop.core.measure.collectors.docker.monitor import ContainerMonitor
from jobtop.core.measure.collectors.docker.remedies import RESTART
from jobtop.core.measure.collectors.docker.snapshot import ContainerRow, Containers, EngineState
from jobtop.core.record import record, replace
from jobtop.core.units import printable
from jobtop.store.jobs import Jobs

ENGINE_SECONDS = 2.0  # for the first answer of an engine: a verb answers within 3 s
READING_SECONDS = 10.0  # for two readings of each container, once the engines have answered
ONE_LOOK_SECONDS = 0.5  # between the two readings of a list that is printed once
NOTE_SECONDS = 1.0  # then a note says what is waited for
STEP_SECONDS = 0.1
CLEAR_LINE = "\r\x1b[K"


@record
class Choice:
    """Which containers are listed."""

    words: tuple[str, ...]
    project: str | None
    every: bool

    def rows(self, now: Containers) -> list[ContainerRow]:
        return [row for row in now.rows if is_wanted(row, self.words, self.project, self.every)]


@click.command("list")
@click.argument("words", nargs=-1, metavar="[WORD]...", shell_complete=complete_container)
@click.option("-a", "--all", "every", is_flag=True, help="Also containers that do not run.")
@project_option
@engine_option
@click.option("-f", "--follow", is_flag=True, help="Read again and again; on a terminal, until q is pressed.")
@click.option("--interval", type=Duration(), help="Time between two readings; with --follow 1s by default, else 500ms.")
@stream_format_options("Short for --format json; with --follow for --format jsonl.")
@click.pass_obj
def list_(app: App, /, style: str, engine_name: str | None, interval: float | None, follow: bool, **chosen: Any) -> int:
    """List containers with what they use: CPU, memory, network, block I/O, processes. A WORD is a part of names.

    CPU and rates are those between two readings. CPU of 100 % is one core; memory is without page cache.
    """
    style = ("jsonl" if follow else "json") if style == STREAM else style
    if interval is not None and interval < SHORTEST_SECONDS:
        raise UsageError(f"--interval has to be at least {SHORTEST_SECONDS:g}s")
    if follow and style in ("json", "csv"):
        raise UsageError("--follow is for the table and for --format jsonl")
    choice = Choice(**chosen)
    open_engines(app.environ, engine_name)  # raises if there is none, or none of this name
    interval = interval or (1.0 if follow else ONE_LOOK_SECONDS)
    with opened_monitor(app, engine_name, interval, choice.every) as monitor:
        first = settled(monitor)
        raise_if_silent(first.engines)
        listing = Listing(app, choice, style)
        if not follow:
            listing.warn_of_engines(first)
            if choice.project is not None and not any(row.container.project == choice.project for row in first.rows):
                refuse_unknown_project(app, choice.project, engine_name)
            listing.print(first)
        elif style == "table" and can_paint():
            with Screen() as screen:
                screen.paint(lambda columns: [*listing.screen_lines(monitor.snapshot(), columns)])
                while not screen.wait(interval):
                    screen.paint(lambda columns: [*listing.screen_lines(monitor.snapshot(), columns)])
        else:
            for now in snapshots(monitor, first, interval):
                listing.warn_of_engines(now)
                listing.print(now)
    return 0


@contextmanager
def opened_monitor(app: App, engine_name: str | None, interval: float, every: bool) -> Iterator[ContainerMonitor]:
    """Return a monitor of all engines, or of one."""

    def find() -> list[Any]:
        return [endpoint for endpoint in endpoints(app.environ) if engine_name in (None, endpoint.name)]

    with ContainerMonitor(app.environ, interval, every, find=find) as monitor:
        yield monitor


def settled(monitor: ContainerMonitor) -> Containers:
    """Wait until engines have answered and containers were read twice, not for ever; a note says so after a second."""
    begun, has_note = time.monotonic(), False
    while not monitor.settle(STEP_SECONDS):
        waited, now = time.monotonic() - begun, monitor.snapshot()
        is_asked = bool(now.engines) and all(engine.is_asked for engine in now.engines)
        if waited > (READING_SECONDS if is_asked else ENGINE_SECONDS):
            break
        if waited > NOTE_SECONDS and not has_note and os.isatty(2):
            has_note = True
            names = ", ".join(engine.name for engine in now.engines if not engine.is_asked)
            print(f"waiting for {printable(names) or 'a second reading'} …", end="", file=sys.stderr, flush=True)
    if has_note:
        print(CLEAR_LINE, end="", file=sys.stderr, flush=True)
    now = monitor.snapshot()
    return replace(now, engines=tuple(map(with_problem, now.engines)))


def snapshots(monitor: ContainerMonitor, first: Containers, interval: float) -> Iterator[Containers]:
    """Yield the first snapshot and then, for ever, one after each interval; none twice."""
    now = first
    while True:
        yield now
        due = now.at + interval
        while now.at < due - interval / 4:  # a little early is better than an interval late
            wait_for_end(min(STEP_SECONDS, interval / 4), ())
            now = monitor.snapshot()


def with_problem(engine: EngineState) -> EngineState:
    """Return an engine that has not answered yet with that as its problem."""
    if engine.is_asked or engine.problem is not None:
        return engine
    return replace(engine, problem=f"{engine.name} ({engine.url}) does not answer within 2 s ({RESTART})")


def raise_if_silent(engines: Sequence[EngineState]) -> None:
    """EngineError with what was tried and each remedy, if no engine answers."""
    problems = [engine.problem for engine in engines if engine.problem is not None]
    if len(problems) == len(engines):
        raise EngineError(problems[0] if len(problems) == 1 else f"no container engine answers: {'; '.join(problems)}")


class Listing:
    """Prints snapshots; problems of engines are printed when they change."""

    def __init__(self, app: App, choice: Choice, style: str) -> None:
        self.app, self.choice, self.style = app, choice, style
        self._patterns = tuple(app.config.texts("run.redact"))
        self._problems: set[str] = set()
        self._store = open_store(app)

    def warn_of_engines(self, now: Containers) -> None:
        """Warn of engines that do not answer, once each time they stop to."""
        problems = {engine.problem for engine in now.engines if engine.problem is not None}
        for problem in sorted(problems - self._problems):
            self.app.warn(problem)
        self._problems = problems

    def print(self, now: Containers) -> None:
        if self.style == "table":
            columns = shutil.get_terminal_size().columns if os.isatty(1) else None
            print("\n".join(self.lines(now, columns)))
        else:
            print_records(self.style, self.records(now), empty=EMPTY_CSV_ROW)
        sys.stdout.flush()

    def screen_lines(self, now: Containers, columns: int) -> Iterator[str]:
        """Yield the problems of engines and the page, for a terminal on which nothing else may be printed."""
        problems = (engine.problem for engine in now.engines if engine.problem is not None)
        yield from (truncate(printable(problem), columns) for problem in problems)
        yield from self.lines(now, columns)

    def lines(self, now: Containers, columns: int | None) -> Iterator[str]:
        """Yield the page; without containers the reason."""
        rows = self.choice.rows(now)
        if rows:
            yield from page(rows, self._jobs(rows), now.at, columns)
        else:
            yield empty_text(self.choice, now)

    def records(self, now: Containers) -> list[dict[str, Any]]:
        rows = self.choice.rows(now)
        urls, jobs = {engine.name: engine.url for engine in now.engines}, self._jobs(rows)
        return [container_json(row, urls.get(row.container.engine), jobs, now.at, self._patterns) for row in rows]

    def _jobs(self, rows: Sequence[ContainerRow]) -> Mapping[str, str]:
        """Return the jobs that run in containers or are attached to them, by the ids of containers."""
        if self._store is None:
            return {}
        try:
            live = [job for job in self._store.live_and_recent(0)[0] if job.kind == "container"]
        except JobtopError:
            return {}
        by_pid = {job.shim.pid: job.id for job in live if job.shim is not None}
        found = {row.container.id: by_pid.get(row.container.pid or 0) for row in rows}
        return {container_id: job_id for container_id, job_id in found.items() if job_id is not None}


def open_store(app: App) -> Jobs | None:
    """Return this host's jobs; None if there are none or they cannot be read."""
    try:
        return app.jobs() if app.has_store() else None
    except JobtopError:
        return None


def empty_text(choice: Choice, now: Containers) -> str:
    """Return why no container is listed."""
    names = ", ".join(printable(engine.name) for engine in now.engines if engine.problem is None)
    if choice.words:
        hint = did_you_mean(choice.words[0], VERBS, VERB_LIKENESS)
        said = " or ".join(f'"{printable(word)}"' for word in choice.words)
        return f"No container with {said} in its name{hint}" + ("" if choice.every else " (--all: also ended ones)")
    if choice.project is not None:
        ended = "" if choice.every else " (--all: also ended ones)"
        return f'No container of the compose project "{printable(choice.project)}" runs{ended}'
    if choice.every:
        return f"No containers: {names} has none" if "," not in names else f"No containers: {names} have none"
    return f"No containers run ({names} {'answers' if ',' not in names else 'answer'}; --all: also ended ones)"
