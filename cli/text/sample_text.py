"""Text made from the samples of a job: lines for `jobtop show`, and warnings about missing samples."""

import time

from jobtop.cli.app import App
from jobtop.core.metrics import find_metric
from jobtop.core.model import Job
from jobtop.core.series.drawing import make_curve, sparkline
from jobtop.core.text.job_text import (
    ENDPOINT_SAMPLES,
    are_samples_deleted,
    deletion_text,
    is_thinned,
    not_monitored_text,
)
from jobtop.core.text.limits_used import FACT_KEYS, LimitFacts, facts_of_record, facts_of_series
from jobtop.core.text.memory_text import WITHOUT_FILES
from jobtop.core.text.metric_text import Number, format_value
from jobtop.core.units import format_bytes, format_duration
from jobtop.store.database import Database
from jobtop.store.jobs import Jobs
from jobtop.store.samples.curves import Curves
from jobtop.store.samples.so_far import CPU_TIMES, cpu_so_far, memory_so_far

# The metrics in the line of current values, each with its noun in singular and plural.
CURRENT_METRICS = {
    "cpu.percent": ("CPU", "CPU"),
    "mem.used": ("", ""),
    "proc.count": ("process", "processes"),
    "proc.threads": ("thread", "threads"),
}
ANONYMOUS = "mem.anon"  # known if the memory of a job is read from its cgroup
CURVE_WIDTH = 40
MIN_CURVE_SAMPLES = 3  # fewer samples are only the start and the end
STALE_SECONDS = 15.0  # old jobs are sampled every ten seconds


class SampleText:
    """Text from the samples of one job; text about a job without samples is returned unchanged."""

    def __init__(self, app: App, curves: Curves, job: Job) -> None:
        keys = dict.fromkeys((*CURRENT_METRICS, *CPU_TIMES, ANONYMOUS, *FACT_KEYS))
        series = curves.series(job, tuple(keys))
        warn_of_damage(app, job, series.damaged)
        self.job, self.times, self.values = job, series.times, series.values
        self.draws = app.environ.get("TERM") != "dumb"
        self.newest: dict[str, Number] = {}
        if self.times and not job.status.ended:
            self.newest = {key: values[-1] for key, values in self.values.items() if values[-1] is not None}

    def now(self) -> str | None:
        """Return what a running job uses now, or used at its last sample; None if it has ended or has no samples."""
        text = [
            f"{format_value(find_metric(key), self.newest[key])} {one if self.newest[key] == 1 else more}".rstrip()
            for key, (one, more) in CURRENT_METRICS.items()
            if key in self.newest
        ]
        if not text or self.job.start_time is None:
            return None
        age = time.time() - self.job.start_time - self.times[-1]
        return ", ".join(text) + (f" ({format_duration(age)} ago)" if age > STALE_SECONDS else "")

    def cpu(self, text: str) -> str:
        if (seconds := cpu_so_far(self.job, self.values)) is not None:
            text = f"{format_duration(seconds)} so far"
        return self._with_curve("cpu.percent", text)

    def memory(self, text: str) -> str:
        if (peak := memory_so_far(self.job, self.values)) is not None:
            is_anonymous = any(value is not None for value in self.values[ANONYMOUS])
            text = f"{format_bytes(peak)} peak so far{f', {WITHOUT_FILES}' if is_anonymous else ''}"
        return self._with_curve("mem.used", text)

    def limits(self) -> LimitFacts:
        """Return the limits of the job, and what it used of them at most, so far or until its end."""
        if self.job.status.ended:
            return facts_of_record(self.job)
        return facts_of_series(self.values, self.times[-1] if self.times else 0.0)

    def _with_curve(self, key: str, text: str) -> str:
        """Return the text with the curve as a line of bars below it, followed by its minimum and its peak."""
        curve = make_curve(find_metric(key), self.times, self.values[key])
        known = curve.known()
        if len(known) < MIN_CURVE_SAMPLES or not self.draws:
            return text
        least, peak = (format_value(curve.metric, value) for value in (min(known), max(known)))
        return f"{text}\n{sparkline(curve, CURVE_WIDTH)}  {least} to {peak}"


def warn_if_never_sampled(app: App, curves: Curves, job: Job) -> None:
    """Warn if a job has no samples: why, and how to get some."""
    if job.seq is not None and curves.store.count(job.seq):
        return
    if job.start_time is None and job.queue is not None:
        never = "was not run" if job.status.ended else "is queued (jobtop queue says why)"
        app.warn(f"job {job.id[:8]} {never}, so there are no samples")
    elif job.status.ended:
        app.warn(f"job {job.id[:8]} {no_samples_reason(curves, job)}")
    elif (why := not_monitored_text(job)) is not None:
        app.warn(f"job {job.id[:8]} is {why}, so there are no samples")
    else:
        app.warn(f"no samples of job {job.id[:8]} yet")


def warn_if_thinned(app: App, job: Job) -> None:
    if is_thinned(job):
        app.warn(f"job {job.id[:8]} is old: a row is a minute, not a sample (jobtop pin keeps all samples)")


def deleted_text(database: Database, job: Job) -> str:
    """Return that samples and output of a job were deleted, when, and by which setting or verb."""
    events = Jobs(database).events(job)
    return deletion_text((event.at, event.kind, event.detail) for event in events)


def no_samples_reason(curves: Curves, job: Job) -> str:
    samples = job.usage.samples
    if are_samples_deleted(job):
        deleted = deleted_text(curves.store.database, job)
        return f"has no samples left: they were {deleted}; jobtop show has its totals (jobtop pin keeps all data)"
    if samples is None:
        return "was never sampled, so only its totals are known (jobtop run samples unless --no-monitor is given)"
    if samples > ENDPOINT_SAMPLES:
        return "was sampled without keeping the curve; minimum, mean and peak are in jobtop show --json"
    return "ended before it could be sampled, so only its totals are known"


def warn_of_damage(app: App, job: Job, damaged: int) -> None:
    if damaged:
        app.warn(f"{damaged} samples of job {job.id[:8]} are damaged and left out")
