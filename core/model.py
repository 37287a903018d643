"""What a job is: what was asked, how it stands, what it used. Plain frozen data and its JSON shape."""

from __future__ import annotations

from enum import StrEnum

from jobtop.core.clock import from_iso, iso
from jobtop.core.job_id import JobId
from jobtop.core.record import as_dict, fields, fresh, record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self, TypeVar

    T = TypeVar("T")
    Rank = tuple[int, bool, float]

SCHEMA_VERSION = 1
BEAT_SECONDS = 20.0  # at most between two signs of life of who watches a job, on a network file system too
MISSED_BEATS = 3


class Status(StrEnum):
    """Where a job stands; `error` never ran, `lost` ran and nobody kept its end, `unknown` came from elsewhere."""

    QUEUED = "queued"
    RUNNING = "running"
    PAUSED = "paused"
    SUCCESS = "success"
    FAILED = "failed"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    ERROR = "error"
    LOST = "lost"
    UNKNOWN = "unknown"

    @property
    def ended(self) -> bool:
        return self not in LIVE

    def may_become(self, other: Status) -> bool:
        """Whether the step is legal: forwards only, an end is final, but the lost may turn up."""
        return other in NEXT.get(self, ENDS if self is Status.LOST else frozenset())


LIVE = frozenset({Status.QUEUED, Status.RUNNING, Status.PAUSED})
AT_WORK = frozenset({Status.RUNNING, Status.PAUSED})
ENDS = frozenset(Status) - LIVE
NEXT: dict[Status, frozenset[Status]] = {
    Status.QUEUED: frozenset({Status.RUNNING, Status.PAUSED, Status.CANCELLED, Status.ERROR, Status.LOST}),
    Status.RUNNING: ENDS | {Status.PAUSED},
    Status.PAUSED: ENDS | {Status.RUNNING, Status.QUEUED},
}


class Kept(StrEnum):
    """What is left of a job that ended: every sample, one-minute roll-ups of them, or the record alone."""

    WHOLE = "whole"
    MINUTES = "minutes"
    RECORD = "record"


@record
class Identity:
    """A process for ever: pids are reused, and start times repeat after a boot."""

    boot: str
    pid: int
    start: int | None


@record
class Limits:
    """What was declared for a job; only `timeout_seconds`, or `enforced`, makes any of it hold."""

    cpus: float | None = None
    memory_bytes: int | None = None
    runtime_seconds: float | None = None
    gpus: int | None = None
    timeout_seconds: float | None = None
    enforced: bool = False


@record
class Usage:
    """What a job used. None is not known, never none used."""

    cpu_user_seconds: float | None = None
    cpu_system_seconds: float | None = None
    cpu_total_seconds: float | None = None
    cpu_efficiency: float | None = None
    cpu_percent_mean: float | None = None
    cpu_percent_min: float | None = None
    cpu_percent_peak: float | None = None
    cpus_allowed: float | None = None
    memory_peak_bytes: int | None = None
    memory_mean_bytes: int | None = None
    memory_min_bytes: int | None = None
    memory_cgroup_peak_bytes: int | None = None
    io_read_bytes: int | None = None
    io_write_bytes: int | None = None
    io_read_chars: int | None = None
    io_write_chars: int | None = None
    faults_minor: int | None = None
    faults_major: int | None = None
    switches_voluntary: int | None = None
    switches_involuntary: int | None = None
    processes_seen: int | None = None
    processes_peak: int | None = None
    threads_peak: int | None = None
    oom_kills: int | None = None
    samples: int | None = None


@record
class Minute:
    """What is left of the samples of a minute beside their mean, by key: the extremes of gauges and of rates."""

    samples: int
    least: dict[str, float | int | None]
    greatest: dict[str, float | int | None]
    last: dict[str, float | int | None]


@record
class Sample:
    """What was read of a job at a moment: counters as they stood, in the order of `JOB_COLUMNS`; absent is None.

    Or what is left of a `minute`: gauges are its mean then.
    """

    elapsed: float
    values: tuple[float | int | None, ...]
    minute: Minute | None = None


@record
class Monitor:
    """How the job was watched and what that cost; `thinned`: the budget made us read the dear files less often."""

    interval_seconds: float | None = None
    cpu_seconds: float | None = None
    rss_bytes: int | None = None
    longest_interval_seconds: float | None = None
    thinned: bool | None = None


@record
class StopRequest:
    """That somebody asked the job to end: by which word or signal, and when."""

    by: str
    at: float


@record
class Queued:
    """How a job waits, or waited, for its turn; `after` are the ids of jobs that have to succeed first."""

    priority: int = 0
    group: str | None = None
    after: tuple[str, ...] = ()
    not_before: float | None = None
    retries: int = 0  # left
    attempt: int = 1
    retry_of: str | None = None
    retried_by: str | None = None
    is_forced: bool = False  # it may ask for more than this host has
    gpus: tuple[str, ...] = ()  # given to it

    def to_json(self) -> dict[str, Any]:
        return as_dict(self) | {"after": list(self.after), "gpus": list(self.gpus), "not_before": iso(self.not_before)}


@record
class JobSpec:
    """Everything needed to run a job, and to run it again; holds secrets, so it is kept apart from the record."""

    id: JobId
    command: tuple[str, ...]
    cwd: str
    env: dict[str, str]
    grace_seconds: float = 10.0
    after_exit: str = "leave"
    log_max_bytes: int = 256 * 1024 * 1024
    timeout_seconds: float | None = None
    pty: bool = False
    detached: bool = False
    is_watched: bool = True
    interval_seconds: float | None = None  # between samples; None: by the age of the job
    hold_memory_bytes: int | None = None  # what is to be made to hold
    hold_cpus: float | None = None
    nice: int | None = None
    ionice: str | None = None  # CLASS[:LEVEL]

    def to_json(self) -> dict[str, Any]:
        return as_dict(self) | {"command": list(self.command), "schema_version": SCHEMA_VERSION}


@record
class Job:
    """The record of a job, as every verb, the console and the store know it. Moments are seconds since the epoch."""

    id: JobId
    name: str
    command: tuple[str, ...]
    host: str
    user: str
    cwd: str
    status: Status
    seq: int | None = None
    external_id: str | None = None
    parent_id: str | None = None
    tool: str | None = None
    script: str | None = None
    params: dict[str, Any] = fresh(default_factory=dict)
    tags: dict[str, str] = fresh(default_factory=dict)
    note: str | None = None
    pid: int | None = None
    reason: str | None = None
    flags: tuple[str, ...] = ()
    exit_code: int | None = None
    signal: int | None = None
    error: str | None = None
    submitted_at: float | None = None
    start_time: float | None = None
    end_time: float | None = None
    duration_seconds: float | None = None
    limits: Limits = Limits()
    usage: Usage = Usage()
    sources: dict[str, str] = fresh(default_factory=dict)
    incomplete: tuple[str, ...] = ()
    monitor: Monitor = Monitor()
    metrics: dict[str, dict[str, float | None]] = fresh(default_factory=dict)
    start_boottime: float | None = None
    queue: Queued | None = None
    grace_seconds: float = 10.0
    shim: Identity | None = None
    recorder: Identity | None = None
    stop_request: StopRequest | None = None
    settled: bool = False
    pinned: bool = False
    kept: Kept = Kept.WHOLE
    kind: str = "process"  # which file of lifecycle/kinds/ acts on it
    environment: dict[str, str] = fresh(default_factory=dict)  # the variables kept with the record, redacted
    last_heard: float | None = None  # a sign of life of who watches it; nobody watches a job that is not sampled

    def is_stale(self, now: float, host: str) -> bool | None:
        """Whether a job that lives by its record was not heard of for long; None if nothing ever was.

        Of a job of the host that looks after those of its store more is known than the record says.
        """
        if self.status not in AT_WORK or self.host == host:
            return False
        return is_silent(self.last_heard, self.monitor.interval_seconds, now)

    def to_json(self, is_stale: bool | None = False) -> dict[str, Any]:
        """The contract: keys only get added."""
        return {
            "schema_version": SCHEMA_VERSION,
            **{key: getattr(self, key) for key in ("id", "seq", "external_id", "parent_id", "name", "tool", "script")},
            "command": list(self.command),
            **{key: getattr(self, key) for key in ("params", "tags", "note", "host", "user", "cwd", "pid")},
            "status": str(self.status),
            "reason": self.reason,
            "flags": list(self.flags),
            **{key: getattr(self, key) for key in ("exit_code", "signal", "error")},
            **{key: iso(getattr(self, key)) for key in MOMENTS},
            "duration_seconds": self.duration_seconds,
            "limits": as_dict(self.limits),
            "resource_usage": as_dict(self.usage),
            "sources": self.sources,
            "incomplete": list(self.incomplete),
            "monitor": as_dict(self.monitor),
            "metrics": self.metrics,
            "queue": None if self.queue is None else self.queue.to_json(),
            "pinned": self.pinned,
            "kept": str(self.kept),
            "kind": self.kind,
            "environment": self.environment,
            "stale": is_stale,
            "last_heard": iso(self.last_heard),
        }

    @classmethod
    def from_json(cls, shape: dict[str, Any]) -> Self:
        """The inverse of `to_json`; keys this version does not know are left out."""
        plain = set(fields(cls)) & shape.keys() - {"limits", "monitor", "queue", "last_heard", *MOMENTS}
        values = {key: shape[key] for key in plain}
        values |= {key: tuple(shape[key]) for key in ("command", "flags", "incomplete")}
        values |= {key: from_iso(shape[key]) for key in MOMENTS}
        values |= {
            "id": JobId(shape["id"]),
            "status": Status(shape["status"]),
            "limits": known(Limits, shape["limits"]),
            "usage": known(Usage, shape["resource_usage"]),
            "monitor": known(Monitor, shape["monitor"]),
            "queue": queued_from(shape.get("queue")),
            "kept": Kept(shape.get("kept", Kept.WHOLE)),
            "last_heard": from_iso(shape.get("last_heard")),
        }
        return cls(**values)


def knowledge(
    status: str, settled: bool, last_heard: float | None, begun: float | None, end_time: float | None
) -> Rank:
    """The greater, the more a copy of a job tells: how it ended, that it did, all it used, when it was last seen."""
    if status in LIVE:
        return 0, settled, max(last_heard or 0.0, begun or 0.0)
    return 1 if status in (Status.LOST, Status.UNKNOWN) else 2, settled, end_time or 0.0


def is_silent(last_heard: float | None, interval_seconds: float | None, now: float) -> bool | None:
    """Whether several signs of life of who looks so often are missing; None if there never was one."""
    if last_heard is None:
        return None
    return now - last_heard > MISSED_BEATS * max(BEAT_SECONDS, interval_seconds or 0.0)


def queued_from(shape: dict[str, Any] | None) -> Queued | None:
    """The inverse of `Queued.to_json`."""
    if shape is None:
        return None
    moment = shape.get("not_before")
    lists = {key: tuple(shape.get(key) or ()) for key in ("after", "gpus")}
    return known(Queued, shape | lists | {"not_before": None if moment is None else from_iso(moment)})


MOMENTS = ("submitted_at", "start_time", "end_time")


def known(kind: type[T], shape: dict[str, Any]) -> T:
    """A record from those keys of a mapping that it has."""
    names = fields(kind)
    return kind(**{key: value for key, value in shape.items() if key in names})
