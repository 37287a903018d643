"""`jobtop connections`: shows the sockets that a job has open, with what they carried and how fast."""

import os
import shutil
import sys
from collections.abc import Callable
from functools import lru_cache

import click

from jobtop.cli.app import App
from jobtop.cli.completion import complete_job_id
from jobtop.cli.text.connection_lists import EMPTY_CSV_ROW, ConnectionListing, csv_rows, listing_json, page
from jobtop.cli.text.screen import Screen, can_paint
from jobtop.cli.text.tables import format_options, print_records
from jobtop.cli.values import Duration
from jobtop.cli.verbs.control import find_latest
from jobtop.cli.verbs.files import SHORTEST_SECONDS, repeat, wait_for_end
from jobtop.core.errors import UsageError
from jobtop.core.measure.collectors.proc import is_alive
from jobtop.core.measure.live.connections import ConnectionReader
from jobtop.core.measure.target import live_target
from jobtop.core.model import Job
from jobtop.core.procfs import HAS_PROC
from jobtop.store.references import FORMS_HELP


@click.command(epilog=FORMS_HELP)
@click.argument("reference", metavar="ID", shell_complete=complete_job_id)
@click.option("--resolve", is_flag=True, help="Show names of hosts instead of addresses: asks the name servers.")
@click.option("-f", "--follow", is_flag=True, help="Read again until the job ends; on a terminal, until q is pressed.")
@click.option("--interval", type=Duration(), default="1s", help="Time between two readings; 1s by default.")
@format_options
@click.pass_obj
def connections(app: App, reference: str, resolve: bool, follow: bool, interval: float, style: str) -> int:
    """Show the sockets that a job has open: TCP with bytes and rates, UDP and UNIX without.

    Of an ended job, the totals in its record are shown.
    """
    if interval < SHORTEST_SECONDS:
        raise UsageError(f"--interval has to be at least {SHORTEST_SECONDS:g}s")
    if follow and style in ("json", "csv"):
        raise UsageError("--follow is for the table and for --format jsonl")
    ((_, job),) = find_latest(app, (reference,))
    name_of = lru_cache(4096)(resolved) if resolve else str

    def show(listing: ConnectionListing) -> None:
        if style == "table":
            columns = shutil.get_terminal_size().columns if os.isatty(1) else None
            print("\n".join(page(listing, columns, name_of)))
        elif style == "csv":
            print_records(style, csv_rows(listing, name_of), empty=EMPTY_CSV_ROW)
        else:
            print_records(style, [listing_json(listing, name_of)], single=True)
        sys.stdout.flush()

    if job.host != app.paths.host or job.shim is None or not is_alive(job.shim):
        show(ConnectionListing(job, is_here=job.host == app.paths.host))
        return 0
    if not HAS_PROC:
        raise UsageError("the connections of a job can only be seen where there is a /proc")
    read = opened_reader(app, job)
    read()  # rates are known from the second reading on
    if follow and style == "table" and can_paint():
        with Screen() as screen:

            def paint(listing: ConnectionListing) -> None:
                screen.paint(lambda columns: list(page(listing, columns, name_of)))

            repeat(job.shim, interval, True, read, paint, screen.wait)
    else:
        repeat(job.shim, interval, follow, read, show, wait_for_end)
    return 0


def opened_reader(app: App, job: Job) -> Callable[[], ConnectionListing]:
    """Return a function that reads the sockets of a job that runs here."""
    target = live_target(app.paths.job(job.id), job)
    reader = ConnectionReader(target, app.config.texts("run.redact"))
    return lambda: ConnectionListing(job, reader.read())


def resolved(address: str) -> str:
    """Return the name of a host and the port; the address if it has no name."""
    import socket

    host, _, port = address.rpartition(":")
    if not port.isdigit():
        return address
    try:
        name, _ = socket.getnameinfo((host.strip("[]"), int(port)), socket.NI_NUMERICSERV)
    except (OSError, UnicodeError):
        return address
    return f"{name}:{port}" if ":" not in name else address
