"""Derives the record of an ended container job: from its shim when and why, from its container how and how much. Pure.

The shim counts the runner, which is no part of the job: its counts are replaced by those of the container's cgroups.
"""

from __future__ import annotations

from jobtop.core.errors import ExitCode
from jobtop.core.measure.collectors import cgroup
from jobtop.core.model import ENDS, Status
from jobtop.core.procfs import signals
from jobtop.core.record import replace
from jobtop.core.run import outcome
from jobtop.core.run.containers.file import Told, with_finding
from jobtop.core.run.facts import ENDED, Facts
from jobtop.core.shim.facts import text_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from jobtop.core.model import Job, Limits
    from jobtop.core.run.containers.file import ContainerFile
    from jobtop.core.run.facts import Started

# Facts about the runner. The others are about the job as a whole.
OF_RUNNER = frozenset(
    "utime stime minflt majflt inblock oublock nvcsw nivcsw maxrss floor hwm rchar wchar chars_missing reaped seen peak"
    " threads".split()
)
DROPPED = frozenset("limit memory_limit oom_before before_cgroup discarding subreaper killed looked".split())
ENDS_OF_RUNNER = ("end", "last")
LATE_SECONDS = 2.0  # an engine usually needs less from the exit of a container to its answer
BY_CGROUP, MARK = "cgroup", "vmhwm"
NEVER_READ = "the counters of the container could not be read at its end"
OUTPUT_CUT = "output: its engine could not say what the container wrote last"
NOT_TOLD = "exit status unknown: "


def conclude_with(file: ContainerFile) -> Callable[[Job, Facts], Job]:
    """The function that derives the record from the facts of the shim and this container."""
    return lambda job, facts: conclude(job, facts, file)


def conclude(job: Job, facts: Facts, file: ContainerFile) -> Job:
    """The record of a container job that has ended."""
    told = _with_signal(file.told or Told(), job)
    had_ended = job.status in ENDS - {Status.LOST}
    amended = _amended(facts, file, told, job.limits)
    done = _with_usage(with_finding(outcome.conclude(job, amended), file), file)
    if told.is_output_whole is False:
        done = replace(done, incomplete=(*done.incomplete, OUTPUT_CUT))
    if had_ended:
        return done
    if told.failure is not None:
        return _not_started(done, told, facts)
    if told.exit_code is None and done.status not in (Status.CANCELLED, Status.TIMEOUT):
        why = NOT_TOLD + (told.error or "the engine did not say it")
        return replace(done, status=Status.LOST, exit_code=None, signal=None, reason=why)
    return done


def completed(job: Job, file: ContainerFile) -> Job:
    """The record after samples were added, with the memory peak that its runner has seen if that is higher.

    It is always without mapped files, however short the container was: the largest mark of a process has them. A
    container that reached its limit held that much: the kernel drops page cache first.
    """
    charged, limit = job.usage.memory_cgroup_peak_bytes or 0, job.limits.memory_bytes
    seen, how = job.usage.memory_peak_bytes or 0, job.sources.get("memory_peak", "")
    if how == MARK:
        seen, how = round(job.metrics.get("mem.used", {}).get("peak") or 0), BY_CGROUP
    peak, source = max((seen, how), (file.peak_bytes or 0, BY_CGROUP))
    if job.usage.oom_kills and limit and charged >= outcome.REACHED_SHARE * limit and charged > peak:
        peak, source = charged, BY_CGROUP
    sources = {key: value for key, value in job.sources.items() if key != "memory_peak"}
    sources |= {"memory_peak": source} if peak else {}
    return replace(job, usage=replace(job.usage, memory_peak_bytes=peak or None), sources=sources)


def facts_without_shim(started: Started, file: ContainerFile, now: float) -> Facts:
    """The facts that a shim would have left, after it was killed and its container has ended."""
    told = file.told or Told()
    seconds = max(0.0, (told.finished_at or now) - started.start_time)
    start = f"{started.start_time:.6f} {started.start_boottime:.6f}"
    end = f"{started.start_time + seconds:.6f} {started.start_boottime + seconds:.6f}"
    facts: dict[str, object] = {"version": 1, "final": 1, "status": 0, "start": start, "end": end, "last": end}
    facts |= dict.fromkeys(OF_RUNNER, 0)
    facts |= {"left": 0, "own_cpu": 0.0, "own_rss": 0}
    return Facts(text_of(facts).decode("utf-8", "surrogateescape"), ENDED)


def _amended(facts: Facts, file: ContainerFile, told: Told, limits: Limits) -> Facts:
    """The facts of the shim with those of the container in place of those of the runner."""
    kept = [key for key in facts if key not in OF_RUNNER | DROPPED and not key.startswith("cgroup.")]
    replaced = ("status", *ENDS_OF_RUNNER)
    rows: list[dict[str, object]] = [{key: value} for key in kept if key not in replaced for value in facts.every(key)]
    rows += [{key: 0} for key in sorted(OF_RUNNER)]
    rows += _moments(facts, file.exited_boottime)
    if "exec_error" not in facts:
        rows.append({"status": _raw_status(facts, told)})
    declared = (("memory", limits.memory_bytes), ("cpus", limits.cpus), ("pids", limits.pids))
    rows += [{"limit": f"{name} cgroup"} for name, value in declared if value]
    if told.killed is not None:
        rows.append({"killed": told.killed})
    rows += [{f"cgroup.{name}": text} for name, text in _with_oom(file.texts, told).items()]
    text = b"".join(text_of(row) for row in rows)
    return Facts(text.decode("utf-8", "surrogateescape"), ENDED)


def _moments(facts: Facts, exited_boottime: float | None) -> list[dict[str, object]]:
    """When the job ended: with its runner, or when its container exited if the engine said so much later."""
    found: list[dict[str, object]] = []
    for key in ENDS_OF_RUNNER:
        if key in facts:
            wall, boottime = facts.moment(key)
            late = 0.0 if exited_boottime is None else boottime - max(exited_boottime, facts.moment("start")[1])
            late = late if late > LATE_SECONDS else 0.0
            found.append({key: f"{wall - late:.6f} {boottime - late:.6f}"})
    return found


def _with_signal(told: Told, job: Job) -> Told:
    """137 and 143 after a request to stop the job are signals: an engine does not tell them from exit codes."""
    number = (told.exit_code or 0) - 128
    if told.signal is None and job.stop_request is not None and number in (signals.SIGKILL, signals.SIGTERM):
        return replace(told, signal=number)
    return told


def _raw_status(facts: Facts, told: Told) -> int:
    """The status as wait4 would return it of the container."""
    if told.signal is not None:
        return told.signal
    if told.exit_code is not None:
        return (told.exit_code & 0xFF) << 8
    return facts.integer("status", int(signals.SIGKILL))


def _with_oom(texts: dict[str, str], told: Told) -> dict[str, str]:
    """The texts with at least one OOM kill if the engine knows of one: a cgroup of version 1 is gone by then."""
    name = "memory.events" if "memory.events" in texts else "memory.oom_control"
    if not told.is_oom_killed or cgroup.oom_count(texts.get(name, "")):
        return texts
    return texts | {name: "oom_kill 1\n"}


def _with_usage(job: Job, file: ContainerFile) -> Job:
    """The record without the totals that would be those of the runner; samples fill some of these gaps."""
    counted = cgroup.reading(file.texts)
    unknown = ["memory_peak_bytes", "io_read_bytes", "io_write_bytes", "io_read_chars", "io_write_chars"]
    unknown += ["faults_minor", "faults_major", "switches_voluntary", "switches_involuntary"]
    unknown += ["processes_seen", "processes_peak", "threads_peak"]
    sources = {key: how for key, how in job.sources.items() if key in ("oom_kills", "limits")}
    incomplete = tuple(entry for entry in job.incomplete if not entry.startswith(("io_chars:", "cpu:")))
    if counted.cpu_user_seconds is None:
        unknown += ["cpu_user_seconds", "cpu_system_seconds", "cpu_total_seconds", "cpu_efficiency", "cpu_percent_mean"]
        incomplete = (*incomplete, f"cpu: {NEVER_READ}")
    else:
        sources["cpu"] = BY_CGROUP
    usage = replace(job.usage, **dict.fromkeys(unknown), **_storage(file.texts))
    if usage.io_write_bytes is not None:
        sources["io"] = BY_CGROUP
    return replace(job, usage=usage, sources=sources, incomplete=incomplete)


def _storage(texts: dict[str, str]) -> dict[str, int]:
    """The bytes that io.stat has counted over all devices; version 1 counts nothing until a device has a throttle."""
    if "io.stat" not in texts:
        return {}
    words = [word.partition("=") for word in texts["io.stat"].split()]
    sums = {
        key: sum(cgroup.number(value) or 0 for name, _, value in words if name == key) for key in ("rbytes", "wbytes")
    }
    return {"io_read_bytes": sums["rbytes"], "io_write_bytes": sums["wbytes"]}


def _not_started(job: Job, told: Told, facts: Facts) -> Job:
    """The record of a job with a container that could not be started."""
    if facts.get("stop"):
        return job
    error = told.error or "the container could not be started"
    code = told.failure if told.failure is not None else int(ExitCode.FAILED)
    return replace(job, status=Status.ERROR, error=error, reason=error, exit_code=code, signal=None)
