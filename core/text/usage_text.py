"""What a job used, as one line for each resource: CPU, memory, network, GPU; and what is missing in its totals."""

from jobtop.core.model import Job, Status
from jobtop.core.text.connection_text import no_traffic_text
from jobtop.core.text.memory_text import WITH_FILES, counts_mapped_files, is_peak_upper_bound
from jobtop.core.units import format_bytes, format_duration, format_percent, printable

GLYPHS = {
    Status.QUEUED: "◌",
    Status.RUNNING: "●",
    Status.PAUSED: "‖",
    Status.SUCCESS: "✓",
    Status.FAILED: "✗",
    Status.TIMEOUT: "◷",
    Status.CANCELLED: "■",
    Status.ERROR: "!",
    Status.LOST: "?",
    Status.UNKNOWN: "?",
}
LEAST_TRAFFIC_BYTES = 64 * 1024  # that the summary mentions
GAP, NO_SAMPLES = "samples: none for ", "no samples for "  # as recorded, and as printed


def incomplete_lines(job: Job) -> list[str]:
    """Return which totals are incomplete, a line for each reason."""
    by_reason: dict[str, list[str]] = {}
    for entry in job.incomplete:
        what, _, why = entry.partition(": ")
        by_reason.setdefault(why, []).append(what)
    lines = [printable(f"{', '.join(what)}: {why}") for why, what in by_reason.items()]
    return [NO_SAMPLES + line.removeprefix(GAP) if line.startswith(GAP) else line for line in lines]


def network_text(job: Job, with_source: bool = False) -> str | None:
    """Return what the job received and sent, and for `show` how that is known; None if it is not worth a line."""
    received, sent = job.usage.net_rx_bytes, job.usage.net_tx_bytes
    if received is None or sent is None:
        return no_traffic_text(job) if with_source and job.status.ended and job.usage.samples else None
    if received + sent < LEAST_TRAFFIC_BYTES and not with_source:
        return None
    source = f" ({printable(job.sources['network'])})" if with_source and "network" in job.sources else ""
    return f"{format_bytes(received)} received, {format_bytes(sent)} sent{source}"


def cpu_text(job: Job) -> str:
    usage = job.usage
    if usage.cpu_total_seconds is None:
        return "–"
    cpus = job.limits.cpus or usage.cpus_allowed
    kind = "declared" if job.limits.cpus else "allowed"
    share = f", {format_percent(usage.cpu_efficiency)} of {cpus:g} {kind}" if cpus else ""
    parts = f"{format_duration(usage.cpu_user_seconds)} user, {format_duration(usage.cpu_system_seconds)} system"
    return f"{format_duration(usage.cpu_total_seconds)} ({parts}){share}"


def memory_peak(job: Job) -> str:
    """Return the memory peak; marked `≤` where only an upper bound is known, as of very short jobs."""
    bound = "≤ " if is_peak_upper_bound(job) else ""
    return bound + format_bytes(job.usage.memory_peak_bytes)


def covers_all_processes(job: Job) -> bool:
    """Return whether the peak is of all processes together: there was only one, or the job was sampled."""
    return (job.usage.processes_peak or 0) <= 1 or (job.usage.samples or 0) > 2


def memory_text(job: Job) -> str:
    peak, declared = job.usage.memory_peak_bytes, job.limits.memory_bytes
    if peak is None:
        return "–"
    text = f"{memory_peak(job)} peak{'' if covers_all_processes(job) else ' in one process'}"
    text += f" {WITH_FILES}" if counts_mapped_files(job) else ""
    if declared:
        text += f", {format_percent(peak / declared)} of {format_bytes(declared)} declared"
        limit = "its limit" if job.limits.enforced else "what it asked for"
        text += f", {format_bytes(peak - declared)} above {limit}" if exceeded_declared_memory(job) else ""
    return text


def gpu_text(job: Job) -> str | None:
    """Return what the job used of GPUs; None if no GPU knew of it."""
    usage, parts = job.usage, []
    if usage.gpu_util_mean is not None and usage.gpu_util_peak is not None:
        parts.append(
            f"{format_percent(usage.gpu_util_mean / 100)} mean, {format_percent(usage.gpu_util_peak / 100)} peak"
        )
    if usage.gpu_memory_peak_bytes is not None:
        parts.append(f"{format_bytes(usage.gpu_memory_peak_bytes)} memory peak")
    if usage.energy_gpu_joules is not None:
        from jobtop.core.text.metric_text import format_si

        parts.append(format_si(usage.energy_gpu_joules, "J"))
    return ", ".join(parts) or None


def exceeded_declared_memory(job: Job) -> bool:
    """Return whether the job certainly used more memory than it declared; an enforcing cgroup rules that out."""
    peak, declared = job.usage.memory_peak_bytes, job.limits.memory_bytes
    is_exact = not is_peak_upper_bound(job)
    is_enforced = job.sources.get("limits", "").startswith("cgroup")
    return bool(declared and peak and peak > declared and is_exact and not is_enforced)
