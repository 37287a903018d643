"""The record of a job: its request, its status, its usage. Frozen data classes and their JSON form."""

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
BEAT_SECONDS = 20.0  # the most between two heartbeats of a recorder, also on a network file system
MISSED_BEATS = 3


class Status(StrEnum):
    """The status of a job. `error`: it did not start; `lost`: it ran, and its end is not known; `unknown`: imported."""

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
        """Whether this is a final status."""
        return self not in LIVE

    def may_become(self, other: Status) -> bool:
        """Whether a job may change to another status: an end is final, except that a lost job may be found again."""
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
    """What retention has kept of a job: all samples, one sample a minute, or only the record."""

    WHOLE = "whole"
    MINUTES = "minutes"
    RECORD = "record"


@record
class Identity:
    """Identifies one process: pids are reused, and start times repeat after a boot."""

    boot: str
    pid: int
    start: int | None


@record
class Limits:
    """The declared limits of a job. Only `timeout_seconds` is always enforced, others only with `enforced`."""

    cpus: float | None = None
    memory_bytes: int | None = None
    runtime_seconds: float | None = None
    gpus: int | None = None
    timeout_seconds: float | None = None
    enforced: bool = False
    pids: int | None = None  # processes and threads at the same time; only in containers


@record
class Usage:
    """The resources that a job used. None means not known, never zero."""

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
    gpu_util_mean: float | None = None
    gpu_util_peak: float | None = None
    gpu_memory_peak_bytes: int | None = None
    energy_gpu_joules: float | None = None
    energy_cpu_joules: float | None = None
    net_rx_bytes: int | None = None
    net_tx_bytes: int | None = None


@record
class Minute:
    """The extremes and last values of one minute of samples, by key; the extremes of a counter are rates."""

    samples: int
    least: dict[str, float | int | None]
    greatest: dict[str, float | int | None]
    last: dict[str, float | int | None]


@record
class Sample:
    """The values of a job at one moment, in the order of `JOB_COLUMNS`: gauges, and counters as totals since the start.

    With `minute`, a roll-up of one minute: gauges are means.
    """

    elapsed: float
    values: tuple[float | int | None, ...]
    minute: Minute | None = None


@record
class Monitor:
    """How a job was sampled, and the cost of that; `thinned`: the budget made expensive reads less frequent."""

    interval_seconds: float | None = None
    cpu_seconds: float | None = None
    rss_bytes: int | None = None
    longest_interval_seconds: float | None = None
    thinned: bool | None = None


@record
class StopRequest:
    """A request to stop a job: the verb or signal, and the time."""

    by: str
    at: float


@record
class RetryRule:
    """Which exit codes are tried again, how often, and what is run before; no codes: every failure."""

    exit_codes: tuple[int, ...] = ()
    recovery_script: str | None = None
    max_retries: int = 3

    def fits(self, exit_code: int | None) -> bool:
        return not self.exit_codes or exit_code in self.exit_codes

    def to_json(self) -> dict[str, Any]:
        return as_dict(self) | {"exit_codes": list(self.exit_codes)}


@record
class Queued:
    """The queue entry of a job: `after` are the ids of jobs that have to succeed first, `after_end` only to end."""

    priority: int = 0
    group: str | None = None
    slots: int | None = None  # how many jobs of its group may run at once, if jobtop group does not say
    after: tuple[str, ...] = ()
    after_end: tuple[str, ...] = ()
    not_before: float | None = None
    retries: int = 0  # left
    attempt: int = 1
    retry_of: str | None = None
    retried_by: str | None = None
    is_forced: bool = False  # it may request more than this host has
    gpus: tuple[str, ...] = ()  # assigned to it

    def to_json(self) -> dict[str, Any]:
        lists = {"after": list(self.after), "after_end": list(self.after_end), "gpus": list(self.gpus)}
        return as_dict(self) | lists | {"not_before": iso(self.not_before)}


@record
class JobSpec:
    """Everything that is needed to run a job. It may contain secrets, so it is stored apart from the record."""

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
    interval_seconds: float | None = None  # between samples; None: depends on the age of the job
    keeps_series: bool = True  # its samples are stored; else only their summary
    hold_memory_bytes: int | None = None  # the enforced limits
    hold_cpus: float | None = None
    nice: int | None = None
    ionice: str | None = None  # CLASS[:LEVEL]
    container: dict[str, Any] | None = None  # the order of a container, see core/run/containers/order.py
    retry_rules: tuple[RetryRule, ...] = ()  # which failures of a queued job are tried again; none: all of them

    def to_json(self) -> dict[str, Any]:
        rules = [rule.to_json() for rule in self.retry_rules]
        return as_dict(self) | {"command": list(self.command), "retry_rules": rules, "schema_version": SCHEMA_VERSION}


@record
class Job:
    """The record of a job, for the verbs, the console and the store. Times are seconds since the epoch."""

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
    kind: str = "process"  # the module of lifecycle/kinds/ that controls it
    environment: dict[str, str] = fresh(default_factory=dict)  # the variables kept with the record, redacted
    limited_by: str | None = None  # what limited it most: a word of core/analysis/
    findings: dict[str, Any] = fresh(default_factory=dict)  # lists that are no series: files, storage devices, evidence
    last_heard: float | None = None  # the last heartbeat of its recorder; a job that is not sampled has none

    def is_stale(self, now: float, host: str) -> bool | None:
        """Whether a job should be running but its recorder has sent no heartbeat for long; None if it never sent one.

        `host` is the host that checks its own jobs: its jobs are never stale.
        """
        if self.status not in AT_WORK or self.host == host:
            return False
        return is_silent(self.last_heard, self.monitor.interval_seconds, now)

    def to_json(self, is_stale: bool | None = False) -> dict[str, Any]:
        """The job as JSON. Keys may be added, but never changed or removed."""
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
            "limited_by": self.limited_by,
            "findings": self.findings,
            "stale": is_stale,
            "last_heard": iso(self.last_heard),
        }

    @classmethod
    def from_json(cls, shape: dict[str, Any]) -> Self:
        """The inverse of `to_json`; unknown keys are ignored."""
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
    """The rank of a copy of a job: a known outcome is best, then any end, then final totals, then the latest time."""
    if status in LIVE:
        return 0, settled, max(last_heard or 0.0, begun or 0.0)
    return 1 if status in (Status.LOST, Status.UNKNOWN) else 2, settled, end_time or 0.0


def is_silent(last_heard: float | None, interval_seconds: float | None, now: float) -> bool | None:
    """Whether several heartbeats of a recorder with this interval are missing; None if it never sent one."""
    if last_heard is None:
        return None
    return now - last_heard > MISSED_BEATS * max(BEAT_SECONDS, interval_seconds or 0.0)


def queued_from(shape: dict[str, Any] | None) -> Queued | None:
    """The inverse of `Queued.to_json`."""
    if shape is None:
        return None
    moment = shape.get("not_before")
    lists = {key: tuple(shape.get(key) or ()) for key in ("after", "after_end", "gpus")}
    return known(Queued, shape | lists | {"not_before": None if moment is None else from_iso(moment)})


def spec_from(shape: dict[str, Any]) -> JobSpec:
    """The inverse of `JobSpec.to_json`."""
    rules = tuple(map(retry_rule_from, shape.get("retry_rules") or ()))
    return known(JobSpec, shape | {"command": tuple(shape["command"]), "retry_rules": rules})


def retry_rule_from(shape: dict[str, Any]) -> RetryRule:
    """The inverse of `RetryRule.to_json`."""
    return known(RetryRule, shape | {"exit_codes": tuple(shape.get("exit_codes") or ())})


MOMENTS = ("submitted_at", "start_time", "end_time")


def known(kind: type[T], shape: dict[str, Any]) -> T:
    """A record from a mapping; keys that are not fields are ignored."""
    names = fields(kind)
    return kind(**{key: value for key, value in shape.items() if key in names})
