"""The record of a block that has ended, from the counters of its process. Pure."""

from __future__ import annotations

from jobtop.core.model import Status
from jobtop.core.record import record, replace
from jobtop.core.units import format_bytes, format_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jobtop.core.model import Job
    from jobtop.core.track.counters import Counters
    from jobtop.core.track.ledger import OwnCpu

STATUSES = {str(status): status for status in Status if status.ended}
SHARED = "of the whole process"  # memory and I/O cannot be divided among the blocks of one process
MATERIAL_SECONDS, MATERIAL_SHARE = 0.05, 0.02  # less is not worth an entry in `incomplete`
RSS_SHARE = 0.03


@record
class BlockEnd:
    """How a block ended, and what was counted for it."""

    status: Status
    duration_seconds: float
    before: Counters
    after: Counters
    own: OwnCpu
    children: tuple[float, float] | None  # user and system seconds; None if that is not known
    live_io: dict[str, int]  # of the children that still run
    unassigned_seconds: float = 0.0
    exit_code: int | None = None
    error: str | None = None
    reason: str | None = None
    notes: tuple[str, ...] = ()  # for `incomplete`


def ended_block(job: Job, end: BlockEnd) -> Job:
    """The record with status, times and totals."""
    duration = max(0.0, end.duration_seconds)
    job = replace(
        job,
        status=end.status,
        exit_code=end.exit_code,
        error=end.error,
        reason=end.reason,
        duration_seconds=round(duration, 6),
        end_time=(job.start_time or 0.0) + round(duration, 6),
        settled=True,
    )
    job = _with_cpu(job, end, duration)
    before, after = end.before, end.after
    usage = replace(
        job.usage,
        faults_minor=after.faults_minor - before.faults_minor,
        faults_major=after.faults_major - before.faults_major,
        switches_voluntary=after.switches_voluntary - before.switches_voluntary,
        switches_involuntary=after.switches_involuntary - before.switches_involuntary,
    )
    sources = dict(job.sources)
    if before.io and after.io:
        grown = {key: after.io[key] - before.io[key] + end.live_io.get(key, 0) for key in after.io}
        usage = replace(
            usage,
            io_read_bytes=grown["io.read_bytes"],
            io_write_bytes=grown["io.write_bytes"],
            io_read_chars=grown["io.read_chars"],
            io_write_chars=grown["io.write_chars"],
        )
        source = f"proc, {SHARED}" if end.own.has_overlapped else "proc"
        sources |= {"io": source, "io_chars": source}
    return _with_memory(replace(job, usage=usage, sources=sources), end)


def _with_cpu(job: Job, end: BlockEnd, duration: float) -> Job:
    own, incomplete = end.own, [*job.incomplete, *end.notes]
    user, system = own.user_seconds, own.system_seconds
    if end.children is None:
        incomplete.append("cpu: its child processes are not counted: they could not be told from those of other blocks")
    else:
        user, system = user + end.children[0], system + end.children[1]
    total = user + system
    if own.divided_seconds > max(MATERIAL_SECONDS, MATERIAL_SHARE * total):
        shared = format_duration(own.divided_seconds)
        incomplete.append(f"cpu: {shared} of it are of threads that were divided among several open blocks")
    if end.unassigned_seconds > max(MATERIAL_SECONDS, MATERIAL_SHARE * total):
        missed = format_duration(end.unassigned_seconds)
        incomplete.append(f"cpu: {missed} of short child processes may belong to this or to another open block")
    if own.shares_thread:
        incomplete.append("cpu: other blocks were open in the same thread: child processes may be those of another one")
    cpus = job.limits.cpus or job.usage.cpus_allowed
    mean = total / duration if duration > 0 else None
    usage = replace(
        job.usage,
        cpu_user_seconds=user,
        cpu_system_seconds=system,
        cpu_total_seconds=total,
        cpu_percent_mean=None if mean is None else 100 * mean,
        cpu_efficiency=mean / cpus if cpus and mean is not None else None,
    )
    source = "rusage, divided by threads" if own.has_overlapped else "rusage"
    return replace(job, usage=usage, sources=job.sources | {"cpu": source}, incomplete=tuple(incomplete))


def _with_memory(job: Job, end: BlockEnd) -> Job:
    """The peak of the process: its high-water mark if that rose in the block, else the most that is known."""
    before, after = end.before, end.after
    has_risen = (after.high_bytes or 0) > (before.high_bytes or 0)
    known = [size for size in (before.resident_bytes, after.resident_bytes) if size]
    if has_risen:
        peak, source = after.high_bytes, "vmhwm"
    elif known:
        peak, source = max(known), "rss"
    else:
        return job
    usage = replace(job.usage, memory_peak_bytes=peak)
    return replace(job, usage=usage, sources=job.sources | {"memory_peak": source})


def with_exact_cpu(sampled: Job, exact: Job) -> Job:
    """The record with samples, and the CPU totals of counters: those of samples may be rounded up."""
    names = ("cpu_user_seconds", "cpu_system_seconds", "cpu_total_seconds", "cpu_percent_mean", "cpu_efficiency")
    usage = replace(sampled.usage, **{name: getattr(exact.usage, name) for name in names})
    incomplete = (*exact.incomplete, *(entry for entry in sampled.incomplete if not entry.startswith("cpu:")))
    incomplete = tuple(dict.fromkeys(incomplete))
    return replace(sampled, usage=usage, sources=sampled.sources | {"cpu": exact.sources["cpu"]}, incomplete=incomplete)


def label_memory(job: Job, end: BlockEnd) -> Job:
    """The record, after samples were added, says that its memory is of the whole process, and what may be missing."""
    peak, high = job.usage.memory_peak_bytes, end.after.high_bytes
    sources, incomplete = dict(job.sources), job.incomplete
    if "memory_peak" in sources:
        sources["memory_peak"] = f"{sources['memory_peak']}, {SHARED}"
    is_bounded = high is not None and high == end.before.high_bytes and peak is not None
    if is_bounded and not job.usage.samples and (high or 0) > (peak or 0) * (1 + RSS_SHARE):
        why = f"memory: not sampled: the peak may have been up to {format_bytes(high)}, the most of the process before"
        incomplete = (*incomplete, why)
    return replace(job, sources=sources, incomplete=incomplete)
