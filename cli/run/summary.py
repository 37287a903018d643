"""The summary that `run` prints after a job."""

from jobtop.core.model import Job, Status
from jobtop.core.text.usage_text import (
    GLYPHS,
    NO_SAMPLES,
    cpu_text,
    gpu_text,
    incomplete_lines,
    memory_text,
    network_text,
)
from jobtop.core.units import format_bytes, format_duration, printable

COLORS = {Status.SUCCESS: "32", Status.RUNNING: "36", Status.PAUSED: "33", Status.QUEUED: "36", Status.UNKNOWN: "2"}


def colored(text: str, status: Status, color: bool) -> str:
    return f"\x1b[{COLORS.get(status, '31')}m{text}\x1b[0m" if color else text


def summary(job: Job, color: bool, cost: str | None = None) -> str:
    """Return how the job ended, what it used, and which verb shows more."""
    usage = job.usage
    state = colored(f"{GLYPHS[job.status]} {job.status}", job.status, color)
    head = f"jobtop: {printable(job.name)}  {state} after {format_duration(job.duration_seconds)}"
    lines = [head + (f" ({printable(job.reason)})" if job.reason else "")]
    lines.append(f"  cpu     {cpu_text(job)}")
    lines.append(f"  memory  {memory_text(job)}")
    lines.append(f"  storage {format_bytes(usage.io_read_bytes)} read, {format_bytes(usage.io_write_bytes)} written")
    lines += [f"  network {network}"] if (network := network_text(job)) is not None else []
    lines += [f"  gpu     {gpu}"] if (gpu := gpu_text(job)) is not None else []
    lines += [f"  cost    {cost}"] if cost is not None else []
    lines += [f"  {'note   ' if why.startswith(NO_SAMPLES) else 'missing'} {why}" for why in incomplete_lines(job)]
    if job.seq is not None:
        lines.append(f"  more    jobtop show {job.id[:8]}")
    return "\n".join(lines)
