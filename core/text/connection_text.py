"""The words about connections of a job that the verb and the console share."""

from __future__ import annotations

from jobtop.core.text.unread_text import denied_words, unread_text
from jobtop.core.units import ABSENT, format_bytes, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jobtop.core.measure.live.connections import ConnectionLine, LiveConnections
    from jobtop.core.model import Job

NOT_MEASURED = "not measured"  # how `sources.network` begins if nothing could be read


def amount_text(size: int | None, rate: float | None) -> str:
    """Bytes of a connection, and bytes a second if any move: `5.0 MiB (1.2 MiB/s)`."""
    if size is None:
        return ABSENT
    return f"{format_bytes(size)} ({format_bytes(rate)}/s)" if rate else format_bytes(size)


def pid_text(line: ConnectionLine) -> str:
    more = f" +{line.processes - 1}" if line.processes > 1 else ""
    return f"{line.pid}{more}"


def denied_text(live: LiveConnections) -> str | None:
    """That the sockets of some processes cannot be read; None if all could."""
    return denied_words(live.denied, "sockets")


def not_live_text(job: Job, is_here: bool) -> str:
    """Why no connections of a job can be shown, and what is known instead."""
    unread = unread_text(job, is_here, "connections")
    return unread or f"connections are only known while a job runs; {totals_text(job)}"


def no_traffic_text(job: Job) -> str:
    """Why a job that has ended has no totals: not measured, or measured and no connection was seen."""
    source = job.sources.get("network")
    if source is None:
        return "not known: it was not measured, or no connection was seen"
    return printable(source) if source.startswith(NOT_MEASURED) else f"no connection was seen ({printable(source)})"


def totals_text(job: Job) -> str:
    received, sent = job.usage.net_rx_bytes, job.usage.net_tx_bytes
    if received is None or sent is None:
        return f"how much it received and sent: {no_traffic_text(job)}"
    source = f" ({printable(job.sources['network'])})" if "network" in job.sources else ""
    return f"it received {format_bytes(received)} and sent {format_bytes(sent)}{source}"
