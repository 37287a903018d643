"""The words about connections of a job that the verb and the console share."""

from __future__ import annotations

from jobtop.core.units import ABSENT, format_bytes, number_of, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jobtop.core.measure.live_connections import ConnectionLine, LiveConnections
    from jobtop.core.model import Job


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
    if not live.denied:
        return None
    who = number_of(live.denied, "process", "processes")
    return f"the sockets of {who} cannot be read (another user's; try as that user or as root)"


def not_live_text(job: Job, is_here: bool) -> str:
    """Why no connections of a job can be shown, and what is known instead."""
    if job.start_time is None and job.queue is not None:
        return "it was not run" if job.status.ended else "it is queued and has no connections yet (jobtop queue)"
    if not is_here and not job.status.ended:
        return f"it runs on {printable(job.host)}: its connections can only be seen there"
    if not job.status.ended:
        return "its processes are not known, so its connections cannot be seen"
    return f"connections are only known while a job runs; {totals_text(job)}"


def totals_text(job: Job) -> str:
    received, sent = job.usage.net_rx_bytes, job.usage.net_tx_bytes
    if received is None or sent is None:
        return "it is not known how much it received and sent"
    source = f" ({printable(job.sources['network'])})" if "network" in job.sources else ""
    return f"it received {format_bytes(received)} and sent {format_bytes(sent)}{source}"
