"""The memory and CPU limits that the recorded runs of a container suggest, each with its reason. Pure.

Few runs, or short ones, suggest nothing: what is missing is said instead.
"""

from __future__ import annotations

import math

from jobtop.core.analysis.advice import MEMORY_FACTOR
from jobtop.core.analysis.limiting import THROTTLED_LEAST, THROTTLED_SHARE
from jobtop.core.analysis.reasons import OOM_KILLED
from jobtop.core.analysis.statistics import percentile
from jobtop.core.clock import iso
from jobtop.core.model import SCHEMA_VERSION, Status
from jobtop.core.record import record
from jobtop.core.run.containers.facts import ATTACHED, container_facts
from jobtop.core.units import format_bytes, format_duration, format_percent, number_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from jobtop.core.model import Job

FEWEST_RUNS = 6  # that ended well, or still run …
LEAST_SECONDS = 3 * 3600.0  # … or this much time in all runs
FEWEST_SAMPLES = 100  # in all runs
HEADROOM = 1.2  # above what was seen: the next run may need a little more
MORE_AFTER_OOM = 100 << 20  # at least, in bytes
NEARLY = 0.95  # samples of a container at its limit differ from it a little
MORE_CPUS = 1.5  # of a limit that held the container back: what it would have used is not known
CPU_PERCENTILE = 95
SMALLEST_MEMORY, SMALLEST_STEP = 16 << 20, 4 << 20  # engines refuse limits below 6 MiB
STEPS = 16  # memory is rounded up by at most this part of it
CPU_STEPS = 20  # in one CPU
OVER_LIMIT = "over_limit"  # the flag of a job that jobtop itself ended at its limit
UPPER_BOUND = "rusage_floor"  # the source of a memory peak that may be too large, as of very short jobs
COUNTED = frozenset({Status.SUCCESS, Status.CANCELLED, Status.RUNNING, Status.PAUSED})


@record
class Subject:
    """What is advised: a compose service, a container that was attached to, or the containers of jobs of one name."""

    name: str
    project: str | None = None
    is_job: bool = False  # jobtop started its containers

    @property
    def title(self) -> str:
        return f"{self.project}/{self.name}" if self.project is not None else self.name


@record
class Run:
    """One run: its record, with what it used so far while it runs, and what its samples say.

    `cpu` are pairs of seconds and the CPUs that were busy on average in that time.
    """

    job: Job
    cpu: tuple[tuple[float, float], ...] = ()
    samples: int = 0
    throttled_share: float | None = None  # of the time
    memory_limit: float | None = None
    cpu_limit: float | None = None

    @property
    def is_oom_killed(self) -> bool:
        return bool(self.job.usage.oom_kills) or bool({OOM_KILLED, OVER_LIMIT} & {*self.job.flags})

    @property
    def memory_peak(self) -> int | None:
        """The memory peak; None if only an upper bound of it is known."""
        is_bound = self.job.sources.get("memory_peak") == UPPER_BOUND
        return None if is_bound else self.job.usage.memory_peak_bytes

    @property
    def cpu_peak(self) -> float | None:
        """The most CPUs that were busy from one sample to the next."""
        percent = self.job.usage.cpu_percent_peak
        known = [cpus for _, cpus in self.cpu] + ([] if percent is None else [percent / 100])
        return max(known, default=None)


@record
class Amount:
    """An advised limit or reservation: bytes or CPUs, and why."""

    value: float
    reason: str


@record
class ContainerAdvice:
    """What to ask for; without an amount the data does not suggest one, and `missing` says what is needed for it."""

    subject: Subject
    images: tuple[str, ...]
    runs: int
    counted_runs: int
    seconds: float
    samples: int
    first: float | None
    last: float | None
    missing: tuple[str, ...] = ()
    memory_limit: Amount | None = None
    memory_reservation: Amount | None = None
    cpu_limit: Amount | None = None
    cpu_reservation: Amount | None = None

    @property
    def is_refused(self) -> bool:
        return self.memory_limit is None and self.cpu_limit is None

    def to_json(self) -> dict[str, Any]:
        amounts = {
            "memory_limit_bytes": self.memory_limit,
            "memory_reservation_bytes": self.memory_reservation,
            "cpus_limit": self.cpu_limit,
            "cpus_reservation": self.cpu_reservation,
        }
        return {
            "schema_version": SCHEMA_VERSION,
            "name": self.subject.name,
            "project": self.subject.project,
            "images": list(self.images),
            "runs": self.runs,
            "runs_counted": self.counted_runs,
            "seconds": self.seconds,
            "samples": self.samples,
            "first": iso(self.first),
            "last": iso(self.last),
            "missing": list(self.missing),
            **{key: None if amount is None else amount.value for key, amount in amounts.items()},
            "reasons": {key: amount.reason for key, amount in amounts.items() if amount is not None},
        }


def subject_of(job: Job) -> Subject | None:
    """What the advice for a job's container is about; None if it did not run in one."""
    facts = container_facts(job)
    if facts is None:
        return None
    if facts.service is not None:
        return Subject(facts.service, facts.project)
    is_attached = ATTACHED in job.flags
    return Subject((facts.name if is_attached else None) or job.name, facts.project, not is_attached)


def is_named(job: Job, name: str) -> bool:
    """Whether a name means the container of a job, its service, its project, or the job itself."""
    subject, facts = subject_of(job), container_facts(job)
    if subject is None or facts is None:
        return False
    return name in (subject.name, subject.title, facts.project, facts.name, job.name)


def advise(subject: Subject, runs: Sequence[Run], host_cpus: float | None = None) -> ContainerAdvice:
    """The limits that some runs suggest, the newest run first; `host_cpus` is the most that an engine accepts."""
    missing, killed = tuple(missing_data(runs)), [run for run in runs if run.is_oom_killed]
    starts = [run.job.start_time for run in runs if run.job.start_time is not None]
    images = dict.fromkeys(facts.image for run in runs if (facts := container_facts(run.job)) and facts.image)
    amounts: dict[str, Amount | None] = {}
    if not missing or killed:
        amounts["memory_limit"] = _memory_limit(runs, killed)
    if not missing:
        amounts["memory_reservation"] = _memory_reservation(runs)
        amounts["cpu_limit"] = _cpu_limit(runs, host_cpus)
        amounts["cpu_reservation"] = _cpu_reservation(runs, amounts["cpu_limit"])
    return ContainerAdvice(
        subject=subject,
        images=tuple(images),
        runs=len(runs),
        counted_runs=sum(_is_counted(run) for run in runs),
        seconds=_seconds(runs),
        samples=sum(run.samples for run in runs),
        first=min(starts, default=None),
        last=max(starts, default=None),
        missing=missing,
        **amounts,
    )


def missing_data(runs: Sequence[Run]) -> Iterable[str]:
    """Yield what is needed for advice beyond what there is; nothing if there is enough."""
    counted, seconds = sum(_is_counted(run) for run in runs), _seconds(runs)
    if counted < FEWEST_RUNS and seconds < LEAST_SECONDS:
        yield (
            f"it needs {FEWEST_RUNS} runs that did not fail, or {format_duration(LEAST_SECONDS)} in all runs,"
            f" and has {number_of(counted, 'such run')} and {format_duration(seconds)}"
        )
    samples = sum(run.samples for run in runs)
    if samples < FEWEST_SAMPLES:
        yield f"it needs {FEWEST_SAMPLES} samples and has {samples}: let it run longer, or more often"
    if all(run.memory_peak is None for run in runs):
        yield "no run has a known memory peak"


def _is_counted(run: Run) -> bool:
    """Whether a run shows what the container needs: one that failed may have ended too early."""
    return run.job.status in COUNTED and run.memory_peak is not None


def _seconds(runs: Sequence[Run]) -> float:
    return sum(run.job.duration_seconds or 0.0 for run in runs)


def _memory_limit(runs: Sequence[Run], killed: Sequence[Run]) -> Amount | None:
    """The highest peak with headroom; after an OOM kill, more than the limit or the peak at which it was killed."""
    by_peak = max((run for run in runs if run.memory_peak), key=lambda run: run.memory_peak or 0, default=None)
    wanted, reason = 0.0, ""
    if by_peak is not None and (peak := by_peak.memory_peak):
        wanted = peak * HEADROOM
        reason = f"the highest peak was {format_bytes(peak)}, without page cache (run {by_peak.job.id[:8]}), {_more()}"
    shown = max((run.memory_peak or 0 for run in runs if not run.is_oom_killed), default=0)
    for run in killed:
        had = max(run.memory_limit or 0, run.memory_peak or 0)
        # A run that used more than this and was not killed has shown about how much is needed.
        enough = max(had * MEMORY_FACTOR, had + MORE_AFTER_OOM if shown <= had else 0)
        if had and enough > wanted:
            at = "its limit of" if (run.memory_limit or 0) >= NEARLY * had else "a peak of"
            wanted = enough
            reason = f"run {run.job.id[:8]} was killed for lack of memory at {at} {format_bytes(had)}; it needs more"
    return Amount(rounded_memory(wanted), reason) if wanted else None


def _memory_reservation(runs: Sequence[Run]) -> Amount | None:
    peaks = sorted(run.memory_peak for run in runs if run.memory_peak)
    if not peaks:
        return None
    half = percentile(peaks, 50)
    what = f"half of {len(peaks)} runs had a peak of" if len(peaks) > 1 else "the peak of its run was"
    return Amount(rounded_memory(half), f"{what} {format_bytes(half)}{' or less' if len(peaks) > 1 else ''}")


def _cpu_limit(runs: Sequence[Run], host_cpus: float | None) -> Amount | None:
    """The most CPUs that were busy, with headroom; more than a limit that held the container back."""
    busiest = max((run for run in runs if run.cpu_peak), key=lambda run: run.cpu_peak or 0.0, default=None)
    if busiest is None or not (peak := busiest.cpu_peak):
        return None
    wanted = peak * HEADROOM
    reason = f"at most {peak:.2f} CPUs were busy from one sample to the next (run {busiest.job.id[:8]}), {_more()}"
    for run in runs:
        if run.cpu_limit and _is_throttled(run) and run.cpu_limit * MORE_CPUS > wanted:
            wanted = run.cpu_limit * MORE_CPUS
            reason = (
                f"its limit of {run.cpu_limit:g} CPUs held run {run.job.id[:8]} back"
                f" ({format_percent(run.throttled_share)} of the time); it can use more"
            )
    if host_cpus is not None and wanted > host_cpus:
        return Amount(host_cpus, f"{reason}; the host has no more than {host_cpus:g}")
    return Amount(rounded_cpus(wanted), reason)


def _cpu_reservation(runs: Sequence[Run], limit: Amount | None) -> Amount | None:
    """What was enough for 95 % of the time; without curves, the highest mean of a run."""
    weights = [pair for run in runs for pair in run.cpu]
    if weights:
        used = weighted_percentile(weights, CPU_PERCENTILE)
        reason = f"in {CPU_PERCENTILE} % of the time at most {used:.2f} CPUs were busy"
    else:
        means = [run.job.usage.cpu_percent_mean for run in runs if run.job.usage.cpu_percent_mean is not None]
        if not means:
            return None
        used = max(means) / 100
        reason = f"{used:.2f} CPUs were busy on average in the busiest run; its samples are not kept"
    value = rounded_cpus(used)
    return Amount(value if limit is None else min(value, limit.value), reason)


def _is_throttled(run: Run) -> bool:
    """Whether the CPU limit held a run back so much that its CPU use says little; the rule of `limited by`."""
    throttled, used = run.throttled_share or 0.0, (run.job.usage.cpu_percent_mean or 0.0) / 100
    return throttled >= THROTTLED_LEAST and throttled >= THROTTLED_SHARE * (used + throttled)


def _more() -> str:
    return f"{format_percent(HEADROOM - 1).replace('.0', '')} more for the next run"


def rounded_memory(size: float) -> int:
    """A size rounded up to MiB that are easy to read, by at most a sixteenth of it or 4 MiB; at least 16 MiB."""
    size = max(size, SMALLEST_MEMORY)
    step = max(SMALLEST_STEP, 1 << int(math.log2(size / STEPS)))
    return -int(-size // step) * step


def rounded_cpus(cpus: float) -> float:
    """CPUs rounded up to steps of 0.05; at least one step."""
    return max(1, math.ceil(cpus * CPU_STEPS - 1e-9)) / CPU_STEPS


def weighted_percentile(pairs: Iterable[tuple[float, float]], percent: float) -> float:
    """The smallest value that is not exceeded in `percent` % of the time; pairs are of seconds and values."""
    ordered = sorted(pairs, key=lambda pair: pair[1])
    enough, seconds = percent / 100 * sum(pair[0] for pair in ordered), 0.0
    for weight, value in ordered:
        seconds += weight
        if seconds >= enough - 1e-9:
            return value
    return ordered[-1][1]
