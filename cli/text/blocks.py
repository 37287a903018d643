"""One sample of a job as a block of lines, by sections, every line with its unit; what is not known is left out."""

from collections.abc import Iterator
from datetime import datetime

from jobtop.core.metrics import Kind, Metric, Scope, metrics_of
from jobtop.core.model import Job
from jobtop.core.series.readings import Reading
from jobtop.core.text.metric_text import Number, format_rate, format_value
from jobtop.core.units import format_bytes, format_duration, format_percent

SECTIONS = {
    "cpu": "CPU",
    "mem": "Memory",
    "io": "I/O",
    "proc": "Processes",
    "net": "Network",
    "gpu": "GPU",
    "energy": "Energy",
}
# The short words of the field; anything else is called by its title.
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
}
# What a gauge is compared with, where the job has such a limit.
LIMITS = {"cpu.percent": "limit.cpus", "mem.used": "limit.memory", "proc.count": "limit.pids"}


def block(job: Job, reading: Reading) -> str:
    """The block of one sample, an empty line behind it."""
    lines = [f"═══ Metrics Sample at {clock(job, reading)} ═══", f"Job ID: {job.id}"]
    lines.append(f"Elapsed: {format_duration(reading.elapsed)}")
    if reading.seconds_since is not None:
        lines.append(f"Sample Interval: {format_duration(reading.seconds_since)}")
    for prefix, title in SECTIONS.items():
        section = list(section_lines(prefix, reading))
        if section:
            lines += ["", f"{title}:", *section]
    return "\n".join([*lines, ""])


def clock(job: Job, reading: Reading) -> str:
    at = (job.start_time or 0.0) + reading.elapsed
    return datetime.fromtimestamp(at).astimezone().strftime("%H:%M:%S")


def section_lines(prefix: str, reading: Reading) -> Iterator[str]:
    for metric in metrics_of(Scope.JOB):
        if not metric.key.startswith(f"{prefix}."):
            continue
        value = reading.values[metric.key]
        if value is not None:
            label = LABELS.get(metric.key, metric.title[:1].upper() + metric.title[1:])
            yield f"  {label}: {value_words(metric, value, reading)}"
        if metric.key == "mem.used" and reading.memory_peak is not None:
            yield f"  Peak: {format_bytes(reading.memory_peak)}"


def value_words(metric: Metric, value: Number, reading: Reading) -> str:
    """A gauge, beside its limit if there is one; a counter by its rate and what it stands at."""
    words = format_value(metric, value)
    if metric.kind is Kind.COUNTER:
        rate = reading.rates[metric.key]
        return f"{words} in total" if rate is None else f"{format_rate(metric, rate)}, {words} in total"
    limit = reading.values.get(LIMITS.get(metric.key, ""))
    if not limit:
        return words
    if metric.key == "cpu.percent":
        return f"{words} ({format_percent(value / limit / 100)} of {limit:g} CPUs)"
    if metric.key == "mem.used":
        return f"{words} ({format_percent(value / limit)} of {format_bytes(limit)})"
    return f"{words} (max: {limit:g})"
