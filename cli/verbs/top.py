"""`jobtop top`: shows the processes and threads of one job, live or from its last snapshot."""

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
from jobtop.cli.completion import complete_job_id
from jobtop.cli.text.processes import EMPTY_CSV_ROW, SORTS, ProcessListing, csv_rows, listing_json, page
from jobtop.cli.text.screen import LONGEST_WAIT_SECONDS, Screen, can_paint
from jobtop.cli.text.tables import format_options, print_records
from jobtop.cli.values import Count, Duration
from jobtop.cli.verbs.control import find_latest
from jobtop.core.errors import StoreError, UsageError
from jobtop.core.measure.collectors.proc import is_alive
from jobtop.core.measure.live.processes import LiveProcesses, ProcessLine
from jobtop.core.measure.target import live_target
from jobtop.core.model import Job
from jobtop.core.procfs import HAS_PROC
from jobtop.lifecycle.reconcile import current
from jobtop.store.jobs import Jobs
from jobtop.store.references import FORMS_HELP
from jobtop.store.samples.snapshots import Snapshots

FIRST_SECONDS = 0.5  # between the two reads that give the first percentages
SHORTEST_SECONDS = 0.1
END_SECONDS = 10.0  # how long to wait for the record of a job after its shim has exited
POLL_SECONDS = 0.05


@click.command(epilog=FORMS_HELP)
@click.argument("reference", metavar="ID", shell_complete=complete_job_id)
@click.option("--interval", type=Duration(), default="1s", help="Time between two refreshes; 1s by default.")
@click.option("--once", is_flag=True, help="Print one listing and exit.")
@click.option("--count", type=Count(1), metavar="N", help="Exit after N refreshes.")
@click.option("--threads/--no-threads", help="Also list the threads of multi-threaded processes.")
@click.option("--sort", type=click.Choice(list(SORTS)), help="A sorted list; by default a tree.")
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
    """Show the processes of a job: live on a terminal, until the job ends or you press q; otherwise once.

    100 % CPU is one core. Of a job that does not run on this host, the last snapshot is shown.
    """
    if count is not None and (once or style in ("json", "csv")):
        raise UsageError("--count is for the table and for --format jsonl, without --once")
    if interval < SHORTEST_SECONDS:
        raise UsageError(f"--interval has to be at least {SHORTEST_SECONDS:g}s")
    ((jobs, job),) = find_latest(app, (reference,))

    def show(listing: ProcessListing) -> None:
        if style == "table":
            columns = shutil.get_terminal_size().columns if os.isatty(1) else None
            print("\n".join(page(listing, sort, app.uses_color(1), columns)))
        else:
            print_records(
                style,
                csv_rows(listing) if style == "csv" else [listing_json(listing)],
                single=True,
                empty=EMPTY_CSV_ROW,
            )
        sys.stdout.flush()

    if job.host != app.paths.host or job.shim is None or not is_alive(job.shim):
        show(last_snapshot(jobs, job, threads))
        return 0
    if not HAS_PROC:
        raise UsageError("the processes of a job can only be seen where there is a /proc")
    with closing(FollowedJob(app, jobs, job, threads)) as followed_job:
        if style == "table" and not once and can_paint():
            last = follow_on_screen(app, followed_job, interval, count, sort)
            if last is not None:
                show(last)
        else:
            followed_job.read()
            endless = style == "jsonl" and not once
            follow(followed_job, interval, count or (None if endless else 1), show, wait_for_input)
    return 0


def follow_on_screen(
    app: App, followed_job: "FollowedJob", interval: float, count: int | None, sort: str | None
) -> ProcessListing | None:
    """Paint until the job ends; return the last listing, None if the user has left."""
    with Screen() as screen:

        def paint(listing: ProcessListing) -> None:
            screen.paint(lambda columns: list(page(listing, sort, app.uses_color(1), columns)))

        paint(followed_job.read())
        return follow(followed_job, interval, count, paint, screen.wait)


def follow(
    followed_job: "FollowedJob",
    interval: float,
    count: int | None,
    show: Callable[[ProcessListing], None],
    wait: Callable[[float, Sequence[int]], bool],
) -> ProcessListing | None:
    """Read and show every `interval` until the job ends or `count` is reached; None if the user has left."""
    due = time.monotonic() + min(interval, FIRST_SECONDS)
    refreshes = 0
    while not wait(due - time.monotonic(), followed_job.end_descriptors):
        listing = followed_job.read()
        show(listing)
        refreshes += 1
        if not listing.live or refreshes == count:
            return listing
        due = max(due + interval, time.monotonic())
    return None


def wait_for_input(seconds: float, descriptors: Sequence[int]) -> bool:
    """Wait for the time or for a readable descriptor; always False, since no key can ask to leave."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    poll.poll(1000 * min(max(0.0, seconds), LONGEST_WAIT_SECONDS))
    return False


class FollowedJob:
    """A job that runs on this host, read repeatedly; `end_descriptors` become readable when its shim exits."""

    def __init__(self, app: App, jobs: Jobs, job: Job, with_threads: bool) -> None:
        assert job.shim is not None
        self.app, self.jobs, self.job, self.shim = app, jobs, job, job.shim
        self.end_descriptors: list[int] = []
        with suppress(OSError, AttributeError):  # the shim is gone, or there are no pidfds: the next read notices
            self.end_descriptors.append(os.pidfd_open(self.shim.pid))
        target = live_target(app.paths.job(job.id), job)
        self.closeup = LiveProcesses(target, app.config.texts("run.redact"), with_threads)
        self.last_listing: ProcessListing | None = None

    def read(self) -> ProcessListing:
        """Read the processes; once the shim is gone, return the last ones with the job's outcome."""
        reading = self.closeup.read()
        live = is_alive(self.shim) and not reading.over
        self.job = self._current(patience_seconds=0.0 if live else END_SECONDS)
        if not live and self.last_listing is not None:
            return replace(self.last_listing, job=self.job, live=False)
        listing = ProcessListing(self.job, reading.processes, reading.frame.elapsed, reading.frame.values, live)
        self.last_listing = listing if listing.processes else self.last_listing
        return listing

    def close(self) -> None:
        self.closeup.close()
        for descriptor in self.end_descriptors:
            os.close(descriptor)

    def _current(self, patience_seconds: float) -> Job:
        """Return the job's record; waits up to `patience_seconds` for its end to be written."""
        deadline = time.monotonic() + patience_seconds
        while True:
            with suppress(StoreError):
                self.job = current(self.jobs, self.app.paths, self.job)
            if self.job.status.ended or time.monotonic() >= deadline:
                return self.job
            time.sleep(POLL_SECONDS)


def last_snapshot(jobs: Jobs, job: Job, with_threads: bool) -> ProcessListing:
    """Return the last snapshot of a job's processes in the store, if asked with their busiest threads."""
    snapshot = Snapshots(jobs.database).latest(job)
    if snapshot is None:
        return ProcessListing(job)
    lines = [ProcessLine(row, threads=row.busiest if with_threads else ()) for row in snapshot.members]
    return ProcessListing(job, tuple(lines), snapshot.elapsed)
