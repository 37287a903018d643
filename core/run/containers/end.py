"""Derives the record of an ended container that jobtop did not start: its exit code is what its engine says. Pure."""

from __future__ import annotations

from jobtop.core.analysis.evidence import FINDING, Cause, Evidence, Source
from jobtop.core.measure.collectors import cgroup
from jobtop.core.model import Job, Status
from jobtop.core.record import fields, record, replace
from jobtop.core.run.attached import NEVER_SEEN, with_sampled_totals
from jobtop.core.run.outcome import signal_name
from jobtop.core.units import format_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from jobtop.core.measure.observation import Observation

OOM_KILLED = "oom_killed"  # a flag
SIGNAL_CODES = range(129, 160)  # engines report 128 + the number of the signal that ended the first process
IN_CGROUP = "cgroup"


@record
class ContainerEnd:
    """How a container ended, as far as its engine and its cgroup tell.

    `why_unknown` says why there is no exit code; without both, the engine was not asked yet.
    """

    exit_code: int | None = None
    finished_at: float | None = None
    is_oom_killed: bool | None = None
    error: str | None = None
    restarts: int | None = None
    health: str | None = None
    why_unknown: str | None = None
    cgroup: dict[str, str] | None = None  # the files of cgroup.EVIDENCE, read right after the exit
    seen_at: float | None = None  # when a process of jobtop noticed the exit

    @property
    def is_answered(self) -> bool:
        return self.exit_code is not None or self.why_unknown is not None

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in fields(ContainerEnd)}


TYPES: dict[str, tuple[type, ...]] = {
    "exit_code": (int,),
    "restarts": (int,),
    "finished_at": (int, float),
    "seen_at": (int, float),
    "is_oom_killed": (bool,),
    "cgroup": (dict,),
    **dict.fromkeys(("error", "health", "why_unknown"), (str,)),
}


def end_from(shape: Any) -> ContainerEnd:
    """The inverse of `to_json`; a value of the wrong type counts as absent."""
    pairs = shape.items() if type(shape) is dict else ()
    values = {key: value for key, value in pairs if type(value) in TYPES.get(key, ())}
    if "cgroup" in values:
        values["cgroup"] = {key: text for key, text in values["cgroup"].items() if type(text) is str}
    return ContainerEnd(**values)


def ended(job: Job, end: ContainerEnd, observation: Observation | None, last_seen: float | None = None) -> Job:
    """The record of a container that has ended; `last_seen` is for one whose end no process noticed."""
    job = _with_times(job, end, last_seen)
    counted = cgroup.reading(end.cgroup or {})
    job = replace(_with_status(job, end), settled=True, incomplete=(NEVER_SEEN,))
    if observation is not None:
        job = with_sampled_totals(job, observation)
    job = _with_counted(job, counted)
    if observation is not None:
        job = observation.of(job)
    peak = job.metrics.get("mem.cgroup", {}).get("peak") or 0
    if peak > (job.usage.memory_cgroup_peak_bytes or 0):
        job = replace(job, usage=replace(job.usage, memory_cgroup_peak_bytes=round(peak)))
    return _with_oom(job, end)


def _with_times(job: Job, end: ContainerEnd, last_seen: float | None) -> Job:
    start = job.start_time or 0.0
    moments = (end.finished_at, end.seen_at, last_seen, job.submitted_at)
    moment = max(start, next((each for each in moments if each is not None), start))
    seconds = round(moment - start, 6)
    return replace(job, end_time=start + seconds, duration_seconds=seconds)


def _with_status(job: Job, end: ContainerEnd) -> Job:
    code, asked = end.exit_code, job.stop_request
    if code is None:
        how = "it ended" if asked is None else f"stopped by {asked.by}"
        status = Status.UNKNOWN if asked is None else Status.CANCELLED
        return replace(job, status=status, reason=f"{how}; its exit status is not known: {end.why_unknown}")
    words = exit_words(code)
    if asked is not None:
        return replace(job, status=Status.CANCELLED, exit_code=code, reason=f"stopped by {asked.by}: {words}")
    if end.error:
        words = f"{words}: {end.error}"
    if code == 0:
        return replace(job, status=Status.SUCCESS, exit_code=code, reason=None)
    return replace(job, status=Status.FAILED, exit_code=code, reason=words)


def exit_words(code: int) -> str:
    """Such as `exit code 137, which is 128 + SIGKILL`."""
    return f"exit code {code}" + (f", which is 128 + {signal_name(code - 128)}" if code in SIGNAL_CODES else "")


def _with_counted(job: Job, counted: cgroup.Reading) -> Job:
    """The record with what the cgroup had counted right after the exit; that is not less than the last sample."""
    usage = job.usage
    if counted.memory_peak_bytes is not None:
        usage = replace(usage, memory_cgroup_peak_bytes=counted.memory_peak_bytes)
    if counted.oom_kills is not None:
        usage = replace(usage, oom_kills=max(counted.oom_kills, usage.oom_kills or 0))
    job = replace(job, usage=usage)
    user, system = counted.cpu_user_seconds, counted.cpu_system_seconds
    if user is None or system is None or user + system < (usage.cpu_total_seconds or 0.0):
        return job
    seconds, cpus = job.duration_seconds or 0.0, job.limits.cpus or usage.cpus_allowed
    usage = replace(
        usage,
        cpu_user_seconds=user,
        cpu_system_seconds=system,
        cpu_total_seconds=user + system,
        cpu_percent_mean=100 * (user + system) / seconds if seconds > 0 else None,
        cpu_efficiency=(user + system) / (seconds * cpus) if cpus and seconds > 0 else None,
    )
    # The cgroup has no counters of what processes read and wrote: that is known until the last sample.
    incomplete = tuple(f"io: {entry.removeprefix('all: ')}" for entry in job.incomplete)
    return replace(job, usage=usage, sources=job.sources | {"cpu": IN_CGROUP}, incomplete=incomplete)


def _with_oom(job: Job, end: ContainerEnd) -> Job:
    """The record with the evidence that the kernel's OOM killer ended processes of the container."""
    kills = job.usage.oom_kills
    if not kills and not end.is_oom_killed:
        return job
    limit = job.limits.memory_bytes
    cause = f"over its memory limit of {format_bytes(limit)}" if limit is not None else "the kernel's OOM killer"
    told = f"oom_kill +{kills}" if kills else "the engine says so"
    job = replace(job, flags=tuple(sorted({*job.flags, OOM_KILLED})))
    if job.status is Status.FAILED:
        job = replace(job, reason=f"{job.reason}: {cause} ({told})")
    elif job.status is Status.SUCCESS:
        job = replace(job, reason=f"the kernel's OOM killer ended some of its processes ({told})")
    return job


def with_engine_evidence(job: Job, end: ContainerEnd) -> Job:
    """The record with what the engine says about the OOM killer, if no counter tells."""
    if job.usage.oom_kills or not end.is_oom_killed:
        return job
    seen = Evidence(Cause.OUT_OF_MEMORY, "the engine says that the kernel's OOM killer ended it", Source.CGROUP)
    return replace(job, findings=job.findings | {FINDING: [seen.to_json(), *job.findings.get(FINDING, ())]})
