"""`jobtop top`: the processes and threads of one job, live, or as they were last seen."""

import os
import select
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import replace

import click

from jobtop.cli.app import App
from jobtop.cli.completion import job_ids
from jobtop.cli.text.processes import NO_ROW, SORTS, Moment, page, rows, shape
from jobtop.cli.text.screen import LONGEST_WAIT_SECONDS, Screen, is_screen
from jobtop.cli.text.tables import format_options, print_shapes
from jobtop.cli.values import Duration
from jobtop.cli.verbs.control import looked_up
from jobtop.core.errors import StoreError, UsageError
from jobtop.core.measure.collectors.proc import is_alive
from jobtop.core.measure.live_processes import LiveProcesses, ProcessLine
from jobtop.core.measure.target import target_in
from jobtop.core.model import Job
from jobtop.core.procfs import HAS_PROC
from jobtop.lifecycle.reconcile import current
from jobtop.store.jobs import Jobs
from jobtop.store.samples.snapshots import Snapshots

FIRST_SECONDS = 0.5  # between the two readings that the first percentages are made of
SHORTEST_SECONDS = 0.1
END_SECONDS = 10.0  # within which a record is finished once the shim is gone
POLL_SECONDS = 0.05


@click.command()
@click.argument("reference", metavar="ID", shell_complete=job_ids)
@click.option("--interval", type=Duration(), default="1s", help="Between two refreshes; 1s by default.")
@click.option("--once", is_flag=True, help="Print it once.")
@click.option("--count", type=click.IntRange(1), metavar="N", help="End after so many refreshes.")
@click.option("--threads/--no-threads", help="The threads of processes that have more than one, too.")
@click.option("--sort", type=click.Choice(list(SORTS)), help="A list in this order; without it, a tree.")
@format_options
@click.pass_obj
def top(
    app: App,
    reference: str,
    interval: float,
    once: bool,
    count: int | None,
    threads: bool,
    sort: str | None,
    style: str,
) -> int:
    """Show the processes of a job: live on a terminal, until the job ends or q is pressed, else once.

    100 % CPU is one core. Of a job that does not run here: its processes as they were last seen.
    """
    if count is not None and (once or style in ("json", "csv")):
        raise UsageError("--count is for the table and for --format jsonl, without --once")
    if interval < SHORTEST_SECONDS:
        raise UsageError(f"--interval has to be at least {SHORTEST_SECONDS:g}s")
    ((jobs, job),) = looked_up(app, (reference,))

    def show(moment: Moment) -> None:
        if style == "table":
            columns = shutil.get_terminal_size().columns if os.isatty(1) else None
            print("\n".join(page(moment, sort, app.colored(1), columns)))
        else:
            print_shapes(style, rows(moment) if style == "csv" else [shape(moment)], single=True, empty=NO_ROW)
        sys.stdout.flush()

    if job.host != app.paths.host or job.shim is None or not is_alive(job.shim):
        show(last_seen(jobs, job))
        return 0
    if not HAS_PROC:
        raise UsageError("the processes of a job can only be seen where there is a /proc")
    with closing(Source(app, jobs, job, threads)) as source:
        if style == "table" and not once and is_screen():
            last = on_screen(app, source, interval, count, sort)
            if last is not None:
                show(last)
        else:
            source.read()
            endless = style == "jsonl" and not once
            follow(source, interval, count or (None if endless else 1), show, wait_for_any)
    return 0


def on_screen(app: App, source: "Source", interval: float, count: int | None, sort: str | None) -> Moment | None:
    """Paint until it is over; the last moment, or None if the user has left."""
    with Screen() as screen:

        def paint(moment: Moment) -> None:
            screen.paint(lambda columns: list(page(moment, sort, app.colored(1), columns)))

        paint(source.read())
        return follow(source, interval, count, paint, screen.wait)


def follow(
    source: "Source",
    interval: float,
    count: int | None,
    show: Callable[[Moment], None],
    wait: Callable[[float, Sequence[int]], bool],
) -> Moment | None:
    """Read and show every `interval` until the job is over or it was done `count` times; None if told to leave."""
    due = time.monotonic() + min(interval, FIRST_SECONDS)
    shown = 0
    while not wait(due - time.monotonic(), source.ends):
        moment = source.read()
        show(moment)
        shown += 1
        if not moment.live or shown == count:
            return moment
        due = max(due + interval, time.monotonic())
    return None


def wait_for_any(seconds: float, descriptors: Sequence[int]) -> bool:
    """Until the time is over or one of them has news; nobody can ask us to leave."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    poll.poll(1000 * min(max(0.0, seconds), LONGEST_WAIT_SECONDS))
    return False


class Source:
    """A job that runs on this host, read again and again; `ends` has news when it is over."""

    def __init__(self, app: App, jobs: Jobs, job: Job, with_threads: bool) -> None:
        assert job.shim is not None
        self.app, self.jobs, self.job, self.shim = app, jobs, job, job.shim
        self.ends: list[int] = []
        with suppress(OSError, AttributeError):  # gone by now, or not to be had here: the next reading tells
            self.ends.append(os.pidfd_open(self.shim.pid))
        target = target_in(app.paths.job(job.id), job)
        assert target is not None
        self.closeup = LiveProcesses(target, app.config.texts("run.redact"), with_threads)
        self.last: Moment | None = None

    def read(self) -> Moment:
        """What there is now; once the shim is gone, who was there last, and how the job ended."""
        reading = self.closeup.read()
        live = is_alive(self.shim) and not reading.over
        self.job = self._current(patience_seconds=0.0 if live else END_SECONDS)
        if not live and self.last is not None:
            return replace(self.last, job=self.job, live=False)
        moment = Moment(self.job, reading.processes, reading.frame.elapsed, reading.frame.values, live)
        self.last = moment if moment.processes else self.last
        return moment

    def close(self) -> None:
        self.closeup.close()
        for descriptor in self.ends:
            os.close(descriptor)

    def _current(self, patience_seconds: float) -> Job:
        """The record as it stands; whoever records the job may take a moment to write its end."""
        deadline = time.monotonic() + patience_seconds
        while True:
            with suppress(StoreError):
                self.job = current(self.jobs, self.app.paths, self.job)
            if self.job.status.ended or time.monotonic() >= deadline:
                return self.job
            time.sleep(POLL_SECONDS)


def last_seen(jobs: Jobs, job: Job) -> Moment:
    """What the store has of the processes of a job."""
    snapshot = Snapshots(jobs.database).latest(job)
    return Moment(job) if snapshot is None else Moment(job, tuple(map(ProcessLine, snapshot.members)), snapshot.elapsed)
