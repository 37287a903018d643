"""Jobs in the formats of workflow systems: Snakemake's benchmark file, Nextflow's trace file. Pure.

As those systems define them (Snakemake 9 `benchmark.py`; Nextflow `TraceRecord`); there, MB is 1024 × 1024 bytes.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from jobtop.core.model import Job, Status
from jobtop.core.record import record
from jobtop.core.units import printable

MIB = 1024 * 1024
SNAKEMAKE_COLUMNS = "s h:m:s max_rss max_vms max_uss max_pss io_in io_out mean_load cpu_time".split()
NEXTFLOW_COLUMNS = (
    "task_id hash native_id name status exit submit duration realtime %cpu peak_rss peak_vmem rchar wchar".split()
)
STATUSES = {
    Status.QUEUED: "SUBMITTED",
    Status.RUNNING: "RUNNING",
    Status.PAUSED: "RUNNING",
    Status.SUCCESS: "COMPLETED",
    Status.FAILED: "FAILED",
    Status.TIMEOUT: "FAILED",
    Status.ERROR: "FAILED",
    Status.LOST: "FAILED",
    Status.CANCELLED: "ABORTED",
}


@record
class MemoryPeaks:
    """The largest sampled sums over a job's processes; None is not known."""

    rss: float | None = None
    vms: float | None = None
    pss: float | None = None


def snakemake_row(job: Job, peaks: MemoryPeaks) -> list[str]:
    """Return a row of a Snakemake benchmark file; unknown values are NA. USS is never measured."""
    usage, seconds = job.usage, job.duration_seconds
    resident = _largest(peaks.rss, usage.memory_peak_bytes)
    load = None if not seconds or usage.cpu_total_seconds is None else 100 * usage.cpu_total_seconds / seconds
    sizes = (resident, peaks.vms, None, peaks.pss, usage.io_read_bytes, usage.io_write_bytes)
    return [
        _decimals(seconds),
        "NA" if seconds is None else _clock(seconds),
        *(_decimals(None if size is None else size / MIB) for size in sizes),
        _decimals(load),
        _decimals(usage.cpu_total_seconds),
    ]


def nextflow_row(job: Job, peaks: MemoryPeaks) -> list[str]:
    """Return a row of a Nextflow trace file with its default fields; unknown values are `-`."""
    usage, seconds = job.usage, job.duration_seconds
    whole = None if job.submitted_at is None or job.end_time is None else job.end_time - job.submitted_at
    load = None if not seconds or usage.cpu_total_seconds is None else 100 * usage.cpu_total_seconds / seconds
    code = job.exit_code if job.signal is None else 128 + job.signal
    return [
        _integer(job.seq),
        f"{job.id[:2]}/{job.id[2:8]}",
        _integer(job.pid),
        printable(job.name) or "-",
        STATUSES.get(job.status, "-"),
        _integer(code),
        "-" if job.submitted_at is None else _date(job.submitted_at),
        _duration(whole),
        _duration(seconds),
        "-" if load is None else f"{load:.1f}%",
        *map(_size, (_largest(peaks.rss, usage.memory_peak_bytes), peaks.vms)),
        *map(_size, (usage.io_read_chars, usage.io_write_chars)),
    ]


def _largest(*values: float | None) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _decimals(value: float | None) -> str:
    return "NA" if value is None else f"{value:.2f}"


def _clock(seconds: float) -> str:
    """Format seconds as `0:05:30` or `1 day, 2:03:04`."""
    return str(timedelta(seconds=int(seconds)))


def _integer(value: int | None) -> str:
    return "-" if value is None else str(value)


def _date(at: float) -> str:
    return datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def _duration(seconds: float | None) -> str:
    """Format seconds as `224ms`, `13.2s`, `6m 44s` or `1d 2h`."""
    if seconds is None or seconds < 0:
        return "-"
    if seconds < 1:
        return f"{int(seconds * 1000)}ms"
    if seconds < 60:
        return f"{seconds:.1f}".removesuffix(".0") + "s"
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    parts = ((days, "d"), (hour, "h"), (minute, "m"), (second, "s"))
    return " ".join(f"{value}{unit}" for value, unit in parts if value)


def _size(size: float | None) -> str:
    """Format bytes as `3.1 MB`, `177 KB`, `540 B` or `0`."""
    if size is None:
        return "-"
    if size <= 0:
        return "0"
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1024:
            return f"{size:.1f}".removesuffix(".0") + f" {unit}"
        size /= 1024
    return f"{size:.1f}".removesuffix(".0") + " TB"
