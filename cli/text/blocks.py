"""One sample of a job as a block of lines, in sections, every value with its unit; unknown values are left out."""

from collections.abc import Iterator
from datetime import datetime

from jobtop.core.metrics import Kind, Metric, Scope, metrics_of
from jobtop.core.model import Job, Limits
from jobtop.core.series.readings import SampleReading
from jobtop.core.text.limits_used import is_only_asked, memory_share_text, open_files_text
from jobtop.core.text.metric_text import Number, format_rate, format_value
from jobtop.core.units import ABSENT, format_bytes, format_duration, format_percent

SECTIONS = {
    "cpu": "CPU",
    "mem": "Memory",
    "io": "I/O",
    "proc": "Processes",
    "net": "Network",
    "gpu": "GPU",
    "energy": "Energy",
}
# Short labels for the most common metrics; the others use their title from the catalogue.
LABELS = {
    "cpu.percent": "Usage",
    "cpu.user": "User Time",
    "cpu.system": "System Time",
    "cpu.throttled": "Throttled",
    "mem.used": "Current",
    "mem.anon": "Anonymous",
    "mem.file": "File Cache",
    "io.read_bytes": "Read",
    "io.write_bytes": "Write",
    "proc.count": "Count",
    "proc.threads": "Threads",
    "proc.fds": "Open FDs",
    "proc.forks_denied": "Processes Refused",
}
# Gauges that are shown as a share of a limit, if the job has that limit.
LIMITS = {
    "cpu.percent": "limit.cpus",
    "mem.used": "limit.memory",
    "proc.count": "limit.pids",
    "proc.threads": "limit.pids",  # which counts threads
    "proc.fds": "limit.fds",
}


def block(job: Job, reading: SampleReading) -> str:
    """Return the block of one sample, followed by an empty line."""
    lines = [f"═══ Metrics Sample at {clock_time(job, reading)} ═══", f"Job ID: {job.id}"]
    lines.append(f"Elapsed: {format_duration(reading.elapsed)}")
    if reading.seconds_since is not None:
        lines.append(f"Sample Interval: {format_duration(reading.seconds_since)}")
    for prefix, title in SECTIONS.items():
        section = list(section_lines(prefix, reading, job.limits))
        if section:
            lines += ["", f"{title}:", *section]
    return "\n".join([*lines, ""])


def clock_time(job: Job, reading: SampleReading) -> str:
    """Return the local time of a sample, without its date."""
    if job.start_time is None:
        return ABSENT
    return datetime.fromtimestamp(job.start_time + reading.elapsed).astimezone().strftime("%H:%M:%S")


def section_lines(prefix: str, reading: SampleReading, declared: Limits) -> Iterator[str]:
    for metric in metrics_of(Scope.JOB):
        if not metric.key.startswith(f"{prefix}."):
            continue
        value = reading.values[metric.key]
        if value is not None:
            label = LABELS.get(metric.key, metric.title[:1].upper() + metric.title[1:])
            yield f"  {label}: {value_text(metric, value, reading, declared)}"
        if metric.key == "mem.used" and reading.memory_peak is not None:
            yield f"  Peak: {format_bytes(reading.memory_peak)}"


def value_text(metric: Metric, value: Number, reading: SampleReading, declared: Limits) -> str:
    """Return a gauge with its limit, if there is one; a counter as its rate and its total."""
    text = format_value(metric, value)
    if metric.kind is Kind.COUNTER:
        rate = reading.rates[metric.key]
        return f"{text} in total" if rate is None else f"{format_rate(metric, rate)}, {text} in total"
    limit = reading.values.get(LIMITS.get(metric.key, ""))
    if not limit:
        return text
    match metric.key:
        case "cpu.percent":
            asked = " asked for" if is_only_asked(declared, "limit.cpus", limit) else ""
            return (
                f"{text} ({format_percent(value / limit / 100)} of {limit:g} {'CPU' if limit == 1 else 'CPUs'}{asked})"
            )
        case "mem.used":
            return f"{text} ({memory_share_text(value, limit, declared)})"
        case "proc.fds":
            return open_files_text(value, limit, reading.values.get("proc.count"))
        case "proc.threads":
            return f"{text} ({format_percent(value / limit)} of the limit of processes)"
    return f"{text} (max: {limit:g})"
