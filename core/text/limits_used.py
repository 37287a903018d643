"""What a job uses of its limits, as text: memory and processes in percent, open files as `45 of 1 024`."""

from __future__ import annotations

from jobtop.core.record import record
from jobtop.core.text.metric_text import format_count
from jobtop.core.units import format_bytes, format_percent, number_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jobtop.core.model import Job, Limits

    Number = float | int

LIMIT_KEYS = ("limit.cpus", "limit.memory", "limit.pids", "limit.fds")
USED_KEYS = ("mem.used", "proc.count", "proc.threads", "proc.fds")
FACT_KEYS = (*LIMIT_KEYS, *USED_KEYS, "cpu.throttled", "proc.forks_denied")
SAME_CPUS = 0.001  # samples keep thousandths of a core


@record
class LimitFacts:
    """The limits of a job, and what it used of them at a moment, or at most; None is not known."""

    cpus: Number | None = None
    memory_bytes: Number | None = None
    pids: Number | None = None
    files: Number | None = None
    memory_used: Number | None = None
    processes: Number | None = None
    threads: Number | None = None
    files_open: Number | None = None
    throttled_share: float | None = None  # of the time
    forks_denied: Number | None = None


def facts_of_values(values: Mapping[str, Number | None], throttled_share: float | None = None) -> LimitFacts:
    """The facts of one sample."""
    return LimitFacts(
        cpus=values.get("limit.cpus"),
        memory_bytes=values.get("limit.memory"),
        pids=values.get("limit.pids"),
        files=values.get("limit.fds"),
        memory_used=values.get("mem.used"),
        processes=values.get("proc.count"),
        threads=values.get("proc.threads"),
        files_open=values.get("proc.fds"),
        throttled_share=throttled_share,
        forks_denied=values.get("proc.forks_denied"),
    )


def facts_of_record(job: Job) -> LimitFacts:
    """The facts of a job that has ended: its tightest limits, and its peaks."""
    known: dict[str, Number | None] = {key: job.metrics.get(key, {}).get("min") for key in LIMIT_KEYS}
    known |= {key: job.metrics.get(key, {}).get("peak") for key in USED_KEYS}
    if job.kind == "container" and job.usage.memory_peak_bytes:  # looked at more often than it was sampled
        known["mem.used"] = max(known["mem.used"] or 0, job.usage.memory_peak_bytes)
    refused = job.metrics.get("proc.forks_denied", {}).get("mean")
    if refused is not None and job.duration_seconds is not None:
        known["proc.forks_denied"] = round(refused * job.duration_seconds)
    return facts_of_values(known, job.metrics.get("cpu.throttled", {}).get("mean"))


def facts_of_series(values: Mapping[str, Sequence[Number | None]], elapsed: float) -> LimitFacts:
    """The facts of a running job: its limits of now, and its peaks so far; counters are totals."""

    def known(key: str) -> list[Number]:
        return [value for value in values.get(key, ()) if value is not None]

    newest = {key: known(key)[-1] for key in (*LIMIT_KEYS, "proc.forks_denied") if known(key)}
    peaks = {key: max(known(key)) for key in USED_KEYS if known(key)}
    throttled = known("cpu.throttled")[-1:]
    return facts_of_values(newest | peaks, throttled[0] / elapsed if throttled and elapsed > 0 else None)


def is_only_asked(declared: Limits, key: str, limit: Number) -> bool:
    """Whether a limit is what the job asked for, and nothing enforces it."""
    asked = {"limit.cpus": declared.cpus, "limit.memory": declared.memory_bytes}.get(key)
    return not declared.enforced and asked is not None and abs(asked - limit) < SAME_CPUS


def memory_share_text(used: Number, limit: Number, declared: Limits) -> str:
    """Return memory as `50.0 % of 1.0 GiB`; `asked for` if nothing enforces that."""
    asked = " asked for" if is_only_asked(declared, "limit.memory", limit) else ""
    return f"{format_percent(used / limit)} of {format_bytes(limit)}{asked}"


def open_files_text(files: Number, limit: Number | None, processes: Number | None) -> str:
    """Return open files as `45 of 1 024`; the limit is of each process, so of several it says so."""
    if limit is None:
        return format_count(files)
    if processes == 1:
        return f"{format_count(files)} of {format_count(limit)}"
    return f"{format_count(files)} (limit of each process: {format_count(limit)})"


def limits_line(facts: LimitFacts, declared: Limits) -> str | None:
    """Return the limits that hold, with what was used of each at most; those that were only asked for are left out."""
    parts = []
    if facts.cpus is not None and not is_only_asked(declared, "limit.cpus", facts.cpus):
        parts.append(f"{facts.cpus:g} {'CPU' if facts.cpus == 1 else 'CPUs'}")
    if facts.memory_bytes and not is_only_asked(declared, "limit.memory", facts.memory_bytes):
        parts.append(f"{format_bytes(facts.memory_bytes)} memory{_peak(facts.memory_used, facts.memory_bytes)}")
    if facts.pids:
        parts.append(f"{format_count(facts.pids)} processes and threads{_peak(facts.threads, facts.pids)}")
    if facts.files:
        used = "" if facts.files_open is None else f" (peak {format_count(facts.files_open)} in all)"
        parts.append(f"{format_count(facts.files)} open files in each process{used}")
    if facts.forks_denied:
        parts.append(f"{number_of(facts.forks_denied, 'process', 'processes')} refused")
    return ", ".join(parts) or None


def throttled_line(facts: LimitFacts) -> str | None:
    """Return for how much of the time the CPU limit held the job back; None if it never did."""
    return f"{format_percent(facts.throttled_share)} of the time" if facts.throttled_share else None


def _peak(used: Number | None, limit: Number) -> str:
    return "" if used is None else f" (peak {format_percent(used / limit)})"
