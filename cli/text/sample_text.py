"""The samples of a job in words: what they add to `jobtop show`, and what there is to say where some are missing."""

import time

from jobtop.cli.app import App
from jobtop.core.metrics import find_metric
from jobtop.core.model import Job
from jobtop.core.series.drawing import make_curve, sparkline
from jobtop.core.text.job_text import ENDS, is_thinned, was_let_go
from jobtop.core.text.metric_text import Number, format_value
from jobtop.core.units import format_bytes, format_duration
from jobtop.store.samples.curves import Curves

# What is said of now: a metric, and what it is called for one and for more.
NOW = {
    "cpu.percent": ("CPU", "CPU"),
    "mem.used": ("", ""),
    "proc.count": ("process", "processes"),
    "proc.threads": ("thread", "threads"),
}
CPU_TIMES = ("cpu.user", "cpu.system")
CURVE_WIDTH = 40
FEWEST_SAMPLES = 3  # of which a curve says more than its ends
LATE_SECONDS = 15.0  # a job in its old age is looked at every ten


class Seen:
    """The samples of one job; words for a job that was never sampled stay as they are."""

    def __init__(self, app: App, curves: Curves, job: Job) -> None:
        series = curves.series(job, (*NOW, *CPU_TIMES))
        warn_of_damage(app, job, series.damaged)
        self.job, self.times, self.values = job, series.times, series.values
        self.draws = app.environ.get("TERM") != "dumb"
        self.newest: dict[str, Number] = {}
        if self.times and not job.status.ended:
            self.newest = {key: values[-1] for key, values in self.values.items() if values[-1] is not None}

    def now(self) -> str | None:
        """What a job that runs uses now, or used when it was last seen."""
        words = [
            f"{format_value(find_metric(key), self.newest[key])} {one if self.newest[key] == 1 else more}".rstrip()
            for key, (one, more) in NOW.items()
            if key in self.newest
        ]
        if not words or self.job.start_time is None:
            return None
        age = time.time() - self.job.start_time - self.times[-1]
        return ", ".join(words) + (f" ({format_duration(age)} ago)" if age > LATE_SECONDS else "")

    def cpu(self, words: str) -> str:
        if self.newest.keys() >= set(CPU_TIMES):
            words = f"{format_duration(sum(self.newest[key] for key in CPU_TIMES))} so far"
        return self._with_curve("cpu.percent", words)

    def memory(self, words: str) -> str:
        known = [value for value in self.values["mem.used"] if value is not None]
        if self.newest and known:
            words = f"{format_bytes(max(known))} peak so far"
        return self._with_curve("mem.used", words)

    def _with_curve(self, key: str, words: str) -> str:
        """The words, and below them the curve as a line of bars, its least and its peak behind it."""
        curve = make_curve(find_metric(key), self.times, self.values[key])
        known = curve.known()
        if len(known) < FEWEST_SAMPLES or not self.draws:
            return words
        least, peak = (format_value(curve.metric, value) for value in (min(known), max(known)))
        return f"{words}\n{sparkline(curve, CURVE_WIDTH)}  {least} to {peak}"


def warn_if_never_sampled(app: App, curves: Curves, job: Job) -> None:
    """Say why there is no curve, and how to have one."""
    if job.seq is not None and curves.store.count(job.seq):
        return
    if job.start_time is None and job.queue is not None:
        never = "was not run" if job.status.ended else "waits for its turn (jobtop queue says why)"
        app.warn(f"job {job.id[:8]} {never}, so there are no samples")
    elif job.status.ended:
        app.warn(f"job {job.id[:8]} {why_no_curve(job)}")
    else:
        app.warn(f"no samples of job {job.id[:8]} yet (one run with --no-monitor gets none)")


def warn_if_thinned(app: App, job: Job) -> None:
    if is_thinned(job):
        app.warn(f"job {job.id[:8]} is old: a row is a minute, not a sample (jobtop pin keeps jobs whole)")


def why_no_curve(job: Job) -> str:
    samples = job.usage.samples
    if was_let_go(job):
        return "is old: its samples were let go, its totals are in jobtop show (jobtop pin keeps jobs whole)"
    if samples is None:
        return "was never sampled, so only its totals are known (jobtop run samples unless --no-monitor is given)"
    if samples > ENDS:
        return "was sampled without keeping the curve; least, mean and peak are in jobtop show --json"
    return "was over before it could be sampled, so only its totals are known"


def warn_of_damage(app: App, job: Job, damaged: int) -> None:
    if damaged:
        app.warn(f"{damaged} samples of job {job.id[:8]} are damaged and left out")
