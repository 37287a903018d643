"""`jobtop files`: shows the files that a job has open, or those that an ended job read and wrote most."""

import os
import select
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeVar

import click

from jobtop.cli.app import App
from jobtop.cli.completion import complete_job_id
from jobtop.cli.text.file_lists import EMPTY_CSV_ROW, FileListing, csv_rows, listing_json, page
from jobtop.cli.text.screen import LONGEST_WAIT_SECONDS, Screen, can_paint
from jobtop.cli.text.tables import format_options, print_records
from jobtop.cli.values import Duration
from jobtop.cli.verbs.control import find_latest
from jobtop.core.errors import UsageError
from jobtop.core.measure.collectors.proc import is_alive
from jobtop.core.measure.live.files import FileReader
from jobtop.core.measure.target import live_target
from jobtop.core.model import Identity, Job
from jobtop.core.procfs import HAS_PROC
from jobtop.store.references import FORMS_HELP

SHORTEST_SECONDS = 0.1
T = TypeVar("T")


@click.command(epilog=FORMS_HELP)
@click.argument("reference", metavar="ID", shell_complete=complete_job_id)
@click.option("--all", "has_all", is_flag=True, help="Also show devices, libraries and files of the system.")
@click.option("-f", "--follow", is_flag=True, help="Read again until the job ends; on a terminal, until q is pressed.")
@click.option("--interval", type=Duration(), default="1s", help="Time between two readings; 1s by default.")
@format_options
@click.pass_obj
def files(app: App, reference: str, has_all: bool, follow: bool, interval: float, style: str) -> int:
    """Show the files that a job has open: how far each is read or written, how fast, and the time left.

    Of an ended job, the files that it read and wrote most are shown, as its record has them.
    """
    if interval < SHORTEST_SECONDS:
        raise UsageError(f"--interval has to be at least {SHORTEST_SECONDS:g}s")
    if follow and style in ("json", "csv"):
        raise UsageError("--follow is for the table and for --format jsonl")
    ((_, job),) = find_latest(app, (reference,))

    def show(listing: FileListing) -> None:
        if style == "table":
            columns = shutil.get_terminal_size().columns if os.isatty(1) else None
            print("\n".join(page(listing, columns)))
        elif style == "csv":
            print_records(style, csv_rows(listing), empty=EMPTY_CSV_ROW)
        else:
            print_records(style, [listing_json(listing)], single=True)
        sys.stdout.flush()

    if job.host != app.paths.host or job.shim is None or not is_alive(job.shim):
        show(FileListing(job, is_here=job.host == app.paths.host))
        return 0
    if not HAS_PROC:
        raise UsageError("the open files of a job can only be seen where there is a /proc")
    read = opened_reader(app, job, has_all)
    read()  # rates are known from the second reading on
    if follow and style == "table" and can_paint():
        with Screen() as screen:

            def paint(listing: FileListing) -> None:
                screen.paint(lambda columns: list(page(listing, columns)))

            repeat(job.shim, interval, True, read, paint, screen.wait)
    else:
        repeat(job.shim, interval, follow, read, show, wait_for_end)
    return 0


def opened_reader(app: App, job: Job, has_all: bool) -> Callable[[], FileListing]:
    """Return a function that reads the open files of a job that runs here."""
    target = live_target(app.paths.job(job.id), job)
    reader = FileReader(target, str(app.paths.root), has_all, app.config.texts("run.redact"))
    return lambda: FileListing(job, reader.read())


def repeat(
    shim: Identity,
    interval: float,
    follow: bool,
    read: Callable[[], T],
    show: Callable[[T], None],
    wait: Callable[[float, Sequence[int]], bool],
) -> None:
    """Read and show every `interval` until the job ends or the user leaves; without `follow` once."""
    ends: list[int] = []
    with suppress(OSError, AttributeError):  # the shim is gone, or there are no pidfds: `is_alive` notices
        ends.append(os.pidfd_open(shim.pid))
    try:
        due = time.monotonic() + interval
        while not wait(due - time.monotonic(), ends):
            listing = read()
            show(listing)
            if not follow or not is_alive(shim):
                return
            due = max(due + interval, time.monotonic())
    finally:
        for descriptor in ends:
            os.close(descriptor)


def wait_for_end(seconds: float, descriptors: Sequence[int]) -> bool:
    """Wait for the time or for the end of the job; always False, since no key can ask to leave."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    poll.poll(1000 * min(max(0.0, seconds), LONGEST_WAIT_SECONDS))
    return False
