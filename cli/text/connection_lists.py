"""The connections of a job as a page of text, as JSON and as CSV rows."""

from collections.abc import Callable, Iterator
from typing import Any

from jobtop.cli.text.tables import TableColumn, table, truncate
from jobtop.core.measure.live.connections import ConnectionLine, LiveConnections
from jobtop.core.model import SCHEMA_VERSION, Job
from jobtop.core.record import as_dict, fields, record
from jobtop.core.text.connection_text import amount_text, denied_text, not_live_text, pid_text
from jobtop.core.units import printable

EMPTY_CSV_ROW = dict.fromkeys(("job_id", *fields(ConnectionLine)))
WIDEST_ADDRESS = 60
COLUMNS = (
    TableColumn("PROTO"),
    TableColumn("LOCAL", widest=WIDEST_ADDRESS),
    TableColumn("REMOTE", widest=WIDEST_ADDRESS),
    TableColumn("STATE"),
    TableColumn("RECEIVED", right=True),
    TableColumn("SENT", right=True),
    TableColumn("PID", right=True),
    TableColumn("COMMAND", widest=120),
)


@record
class ConnectionListing:
    """A job and its open sockets; None if they cannot be seen."""

    job: Job
    live: LiveConnections | None = None
    is_here: bool = True


def page(listing: ConnectionListing, columns: int | None, name_of: Callable[[str], str]) -> Iterator[str]:
    """Yield a line per socket, none wider than the terminal; `name_of` may turn addresses into names."""
    live = listing.live
    if live is None:
        yield not_live_text(listing.job, listing.is_here)
        return
    if (denied := denied_text(live)) is not None:
        yield denied
    if live.problem is not None:
        yield f"bytes are not known: {printable(live.problem)}"
    if not live.connections:
        if not live.denied:
            yield "no sockets are open"
        return
    rows = [
        (
            *(line.protocol, printable(name_of(line.local)), printable(name_of(line.remote)) if line.remote else ""),
            *(line.state, amount_text(line.received_bytes, line.receive_rate)),
            *(amount_text(line.sent_bytes, line.send_rate), pid_text(line), printable(line.command or "")),
        )
        for line in live.connections
    ]
    for text in table(COLUMNS, rows).split("\n"):
        yield text if columns is None else truncate(text, columns)


def listing_json(listing: ConnectionListing, name_of: Callable[[str], str]) -> dict[str, Any]:
    live, job = listing.live, listing.job
    return {
        "schema_version": SCHEMA_VERSION,
        "job_id": job.id,
        "name": job.name,
        "status": str(job.status),
        "live": live is not None,
        "denied_processes": None if live is None else live.denied,
        "received_bytes": job.usage.net_rx_bytes,
        "sent_bytes": job.usage.net_tx_bytes,
        "source": job.sources.get("network"),
        "connections": None if live is None else rows_of(live, name_of),
    }


def csv_rows(listing: ConnectionListing, name_of: Callable[[str], str]) -> list[dict[str, Any]]:
    rows = [] if listing.live is None else rows_of(listing.live, name_of)
    return [{"job_id": listing.job.id} | row for row in rows]


def rows_of(live: LiveConnections, name_of: Callable[[str], str]) -> list[dict[str, Any]]:
    rows = []
    for line in live.connections:
        row = as_dict(line) | {"local": name_of(line.local), "remote": name_of(line.remote) if line.remote else None}
        rows.append({key: round(value, 6) if isinstance(value, float) else value for key, value in row.items()})
    return rows
