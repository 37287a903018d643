"""Derives the record of an ended job from the facts that its shim reports: status, reason, totals, sources. Pure."""

import errno
import os
from collections.abc import Iterator

from jobtop.core.errors import ExitCode
from jobtop.core.measure.collectors import cgroup
from jobtop.core.model import ENDS, Job, Limits, Monitor, Status, StopRequest, Usage
from jobtop.core.procfs import signals
from jobtop.core.record import record, replace
from jobtop.core.run.facts import Facts, Started
from jobtop.core.units import format_bytes, format_duration

SHORTEST_LOOK_SECONDS = 0.01  # right after its exec a process has not mapped its libraries yet
KEY_SECONDS = 0.5  # a job that fails this soon after Ctrl-C failed because of it
POSSIBLE_SLACK, POSSIBLE_SLACK_SECONDS = 0.02, 0.1  # clocks are not read at the same time
CTRL_C = "Ctrl-C"  # typed into the terminal of the job, which may read it as a key
BLOCK_BYTES = 512  # the unit of ru_inblock and ru_oublock
REACHED_SHARE = 0.95  # a job this close to its limit reached it: the kernel charges memory in large steps
NOT_SAMPLED = "limits: the job was not sampled, so its memory limit was not enforced"
BOTH, BY_SAMPLES = "cgroup+rusage", "+sampled"  # sources of CPU time
DIFFERENCE_SECONDS, DIFFERENCE_SHARE = 0.05, 0.02
OVER_LIMIT = "over_limit"
IMPOSSIBLE = "impossible_cpu"
IMPOSSIBLE_RATE = "cpu.percent:"
UNREAD_MEMORY = "memory_peak: samples"
SAMPLED = (IMPOSSIBLE_RATE, UNREAD_MEMORY, "samples:")  # entries of `incomplete` that only samples can cause
FLOOR_SLACK_BYTES = 1024 * 1024  # RSS counters are batched per CPU since Linux 6.2; up to 0.7 MiB was measured


def begin(job: Job, started: Started) -> Job:
    """The record of a job that has been started."""
    status = Status.RUNNING if job.status is Status.QUEUED else job.status
    job = replace(job, status=status, pid=started.main.pid, shim=started.shim)
    return replace(job, start_time=started.start_time, start_boottime=started.start_boottime)


def conclude(job: Job, facts: Facts) -> Job:
    """The record of a job that has ended. While descendants run it is not settled: the shim reports again at their end.

    The second report completes the totals and changes nothing else.
    """
    start, end, last = (facts.moment(key) for key in ("start", "end", "last"))
    settled, had_ended = facts.integer("final") == 1, job.status in ENDS - {Status.LOST}
    if not had_ended:
        ended = end if facts.integer("left") or "status" not in facts else last
        seconds = round(max(0.0, ended[1] - start[1]), 6)
        job = replace(job, start_time=start[0], duration_seconds=seconds, end_time=start[0] + seconds)
    job = replace(job, settled=settled)
    if "exec_error" in facts:
        return _not_started(job, facts)
    before = job
    counted = last if settled or "counted" not in facts else facts.moment("counted")
    seconds = counted[1] - start[1]
    cpu = _cpu(before if had_ended else None, facts)
    job = replace(job, usage=_usage(job.usage, job.limits, facts, cpu, seconds), monitor=_monitor(job, facts))
    job = replace(job, sources=_sources(facts, cpu), incomplete=_incomplete(job, facts, cpu))
    job = with_storage(replace(job, flags=_flags(job, facts)), facts.get("cgroup.io.stat", ""))
    job = _check_cpu(_with_sampled_peak(job, before), seconds)
    return job if had_ended else _with_status(job, facts)


def over_at_once(job: Job) -> Job:
    """The record of a job that ended before its first sample: start and end count as two samples with the mean CPU."""
    mean = job.usage.cpu_percent_mean
    job = replace(job, usage=replace(job.usage, samples=2, cpu_percent_min=mean, cpu_percent_peak=mean))
    return watched(job)


def watched(job: Job, over_bytes: int | None = None) -> Job:
    """The record of a job that was sampled; `over_bytes` is its memory when it exceeded its limit."""
    job = replace(job, incomplete=tuple(entry for entry in job.incomplete if entry != NOT_SAMPLED))
    if OVER_LIMIT not in job.flags:
        return job
    return replace(job, reason=_over_words(job, max(over_bytes or 0, job.usage.memory_peak_bytes or 0)))


def lost(job: Job, why: str, moment: float | None) -> Job:
    """The record of a job with an unknown end, because its shim was killed."""
    return replace(job, status=Status.LOST, reason=why, end_time=moment, settled=True)


def lost_with(job: Job, why: str, counted: cgroup.Reading) -> Job:
    """The record of a lost job, with the counters of its cgroup."""
    job = replace(lost(job, why, None), incomplete=("all: jobtop's supervisor of the job died",))
    usage = replace(job.usage, memory_cgroup_peak_bytes=counted.memory_peak_bytes, oom_kills=counted.oom_kills)
    if counted.cpu_user_seconds is None or counted.cpu_system_seconds is None:
        return replace(job, usage=usage)
    usage = replace(
        usage,
        cpu_user_seconds=counted.cpu_user_seconds,
        cpu_system_seconds=counted.cpu_system_seconds,
        cpu_total_seconds=counted.cpu_user_seconds + counted.cpu_system_seconds,
    )
    return replace(job, usage=usage, sources={"cpu": "cgroup"})


def with_storage(job: Job, io_stat: str) -> Job:
    """The record with what the cgroup of the job has read and written on each device, if it tells."""
    if not io_stat:
        return job
    from jobtop.core.measure.collectors.storage import storage_by_device

    devices = storage_by_device({"io.stat": io_stat})
    return replace(job, findings=job.findings | {"storage": devices}) if devices else job


def never_started(job: Job, why: str) -> Job:
    return replace(job, status=Status.ERROR, error=why, reason=why, settled=True)


def exit_code(job: Job) -> int:
    """The exit code of `run` for a finished job."""
    if job.status is Status.TIMEOUT:
        return ExitCode.TIMED_OUT
    if job.signal is not None:
        return 128 + job.signal
    return ExitCode.FAILED if job.exit_code is None else job.exit_code


def signal_name(number: int) -> str:
    from signal import Signals  # not at the top: making its enumerations takes 0.6 ms

    try:
        return Signals(number).name
    except ValueError:  # real-time signals have no names
        return f"signal {number}"


def _not_started(job: Job, facts: Facts) -> Job:
    stage, number = facts.exec_error()
    why, code = os.strerror(number), ExitCode.NOT_EXECUTABLE
    command = job.command[0] if job.command else job.name
    if stage == "cwd":
        error, code = f"cannot enter {job.cwd}: {why}", ExitCode.FAILED
    elif stage == "priority":
        error, code = f"its --nice, --ionice or --cpus cannot be set: {why}", ExitCode.FAILED
    elif stage == "start":
        from jobtop.core.run.start_problems import explanation

        error, code = f"cannot start a process: {explanation(number) or why}", ExitCode.FAILED
    elif stage == "interpreter":
        error = f"{command}: the interpreter that its first line names does not exist"
    elif number == errno.ENOENT:
        error, code = _not_found(command), ExitCode.NOT_FOUND
    else:
        error = f"{command}: {why}"
    return replace(job, status=Status.ERROR, error=error, reason=error, exit_code=int(code))


def _not_found(name: str) -> str:
    """The error for a command that does not exist, with a hint at what may have been meant."""
    hint = ""
    if " " in name or name in ("cd", "export", "source", "ulimit", "alias", "set", "eval"):
        hint = " (for what a shell understands: jobtop run --shell -- …)"
    elif "=" in name:
        hint = " (variables go before: jobtop run --env NAME=VALUE -- …)"
    return (name or "''") + ": command not found" + hint


def _with_status(job: Job, facts: Facts) -> Job:
    """The record with status, exit code, signal and the reason in words."""
    raw = facts.integer("status")
    code, number = (None, os.WTERMSIG(raw)) if os.WIFSIGNALED(raw) else (os.WEXITSTATUS(raw), None)
    job = replace(job, exit_code=code, signal=number)
    ended = (
        "exit code 0" if code == 0 else f"exit code {code}" if number is None else f"killed by {signal_name(number)}"
    )
    killed = _killed_words(facts)
    cause = facts.get("stop")
    if cause == "timeout":
        limit = format_duration(job.limits.timeout_seconds)
        return replace(job, status=Status.TIMEOUT, reason=f"stopped after its timeout of {limit}{killed}")
    if (request := _request(job, cause)) is not None:
        how = "" if number is not None and request.endswith(f" by {signal_name(number)}") else f": {ended}"
        return replace(job, status=Status.CANCELLED, reason=f"{request}{how}{killed}")
    if OVER_LIMIT in job.flags:
        return replace(job, status=Status.FAILED, reason=_over_words(job, job.usage.memory_peak_bytes or 0))
    oom = _oom_words(job, number, facts)
    if code == 0 and not oom:
        return replace(job, status=Status.SUCCESS, reason=None)
    return replace(job, status=Status.SUCCESS if code == 0 else Status.FAILED, reason=f"{ended}{oom}")


def _request(job: Job, cause: str | None) -> str | None:
    """In words, which request ended the job; None if it ended by itself, or an interrupt had no effect."""
    asked: StopRequest | None = job.stop_request
    if cause == "signal":
        return f"stopped by {asked.by}" if asked is not None else "stopped by SIGTERM to its supervisor"
    if asked is None:
        return None
    if asked.by.startswith("jobtop"):
        return f"stopped by {asked.by}"
    if asked.by == CTRL_C:
        died_of_it = job.signal in (signals.SIGINT, signals.SIGQUIT) or job.exit_code in (130, 131)
        at_once = job.end_time is not None and job.end_time - asked.at <= KEY_SECONDS and job.exit_code != 0
        return "interrupted by Ctrl-C" if died_of_it or at_once else None
    soon = job.end_time is not None and job.end_time - asked.at <= job.grace_seconds
    return f"interrupted by {asked.by}" if soon and (job.exit_code != 0 or job.signal is not None) else None


def _killed_words(facts: Facts) -> str:
    killed = facts.every("killed")
    if not killed:
        return ""
    names = [f"{name or '?'} ({pid})" for pid, _, name in (entry.partition(" ") for entry in killed)]
    shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    return f"; had to be killed: {shown}"


def _over_words(job: Job, used: int) -> str:
    limit = job.limits.memory_bytes or 0
    held = f"{format_bytes(used)} used, " if used > limit else ""
    return f"stopped: {held}over its memory limit of {format_bytes(limit)} (enforced by sampling)"


def _oom_words(job: Job, number: int | None, facts: Facts) -> str:
    kills = job.usage.oom_kills
    if kills:
        limit = (
            f"over its memory limit of {format_bytes(job.limits.memory_bytes)}" if _reached_limit(job, facts) else ""
        )
        if number == signals.SIGKILL:
            return f": {limit} (oom_kill +{kills})" if limit else f": the kernel's OOM killer, oom_kill +{kills}"
        return f"; the kernel's OOM killer ended {kills} of its processes" + (f", {limit}" if limit else "")
    around = _ambient_oom(facts)
    if kills is None and around and number == signals.SIGKILL:
        return f"; the kernel's OOM killer was active around it, oom_kill +{around}"
    return ""


def _reached_limit(job: Job, facts: Facts) -> bool:
    """Whether the job reached its own memory limit, not an outer limit and not the memory of the machine."""
    limit, peak = job.limits.memory_bytes, job.usage.memory_cgroup_peak_bytes or 0
    if limit is None or not facts.limits().get("memory", "").startswith("cgroup"):
        return False
    return peak >= REACHED_SHARE * limit or cgroup.pairs(facts.get("cgroup.memory.events", "")).get("oom", 0) > 0


def _ambient_oom(facts: Facts) -> int | None:
    """OOM kills in the cgroup around jobtop while the job ran."""
    after = cgroup.oom_count(facts.get("cgroup.oom_around", ""))
    return after - facts.integer("oom_before") if after is not None and "oom_before" in facts else None


def _cgroup(facts: Facts) -> cgroup.Reading:
    prefix = "cgroup."
    return cgroup.reading({key.removeprefix(prefix): facts[key] for key in facts if key.startswith(prefix)})


@record
class Cpu:
    """CPU time of the whole job, and its source."""

    user_seconds: float
    system_seconds: float
    source: str

    @property
    def total_seconds(self) -> float:
        return self.user_seconds + self.system_seconds


def _cpu(before: Job | None, facts: Facts) -> Cpu:
    """The largest of three counts: of the cgroup, of rusage, and of the record `before`.

    No count is too large, but each can be too small: a process can leave the cgroup, and rusage misses children for
    which their parent did not wait.
    """
    own, rusage = _cgroup(facts), (facts.number("utime"), facts.number("stime"))
    counted = [Cpu(*rusage, "rusage")]
    if own.cpu_user_seconds is not None and own.cpu_system_seconds is not None:
        counted = [Cpu(own.cpu_user_seconds, own.cpu_system_seconds, BOTH), Cpu(*rusage, BOTH)]
    if before is not None and before.usage.cpu_user_seconds is not None:
        kept = before.usage.cpu_user_seconds, before.usage.cpu_system_seconds or 0.0
        counted.append(Cpu(*kept, before.sources.get("cpu", counted[0].source)))
    return max(counted, key=lambda cpu: cpu.total_seconds)


def _usage(before: Usage, limits: Limits, facts: Facts, cpu: Cpu, seconds: float) -> Usage:
    """All totals; `seconds` is the time during which the CPU time was used."""
    own = _cgroup(facts)
    total, cpus = cpu.total_seconds, limits.cpus or before.cpus_allowed
    chars_known = facts.integer("chars_missing") < facts.integer("reaped")
    return replace(
        before,
        cpu_user_seconds=cpu.user_seconds,
        cpu_system_seconds=cpu.system_seconds,
        cpu_total_seconds=total,
        cpu_efficiency=total / (seconds * cpus) if cpus and seconds > 0 else None,
        cpu_percent_mean=100 * total / seconds if seconds > 0 else None,
        memory_peak_bytes=_memory_peak(facts)[0],
        memory_cgroup_peak_bytes=own.memory_peak_bytes,
        io_read_bytes=facts.integer("inblock") * BLOCK_BYTES,
        io_write_bytes=facts.integer("oublock") * BLOCK_BYTES,
        io_read_chars=facts.integer("rchar") if chars_known else None,
        io_write_chars=facts.integer("wchar") if chars_known else None,
        faults_minor=facts.integer("minflt"),
        faults_major=facts.integer("majflt"),
        switches_voluntary=facts.integer("nvcsw"),
        switches_involuntary=facts.integer("nivcsw"),
        processes_seen=facts.integer("seen"),
        processes_peak=facts.integer("peak"),
        threads_peak=facts.integer("threads"),
        oom_kills=own.oom_kills,
    )


def _check_cpu(job: Job, seconds: float) -> Job:
    """Flag a CPU time that is impossible on this machine; the total is kept, but no percentages are derived."""
    total, possible = job.usage.cpu_total_seconds or 0.0, (os.cpu_count() or 1) * seconds
    if total <= possible * (1 + POSSIBLE_SLACK) + POSSIBLE_SLACK_SECONDS:
        return _with_bounds(job)
    why = f"cpu: {format_duration(total)} are more than {os.cpu_count()} cores give in {format_duration(seconds)}"
    usage = replace(job.usage, cpu_efficiency=None, cpu_percent_mean=None)
    flags = tuple(sorted({*job.flags, IMPOSSIBLE}))
    return replace(job, usage=usage, flags=flags, incomplete=(*job.incomplete, why))


def _with_bounds(job: Job) -> Job:
    """Extend minimum and peak to include the mean: descendants that were left running are counted but not sampled."""
    mean, least, greatest = job.usage.cpu_percent_mean, job.usage.cpu_percent_min, job.usage.cpu_percent_peak
    if mean is None or least is None or greatest is None:
        return job
    return replace(
        job, usage=replace(job.usage, cpu_percent_min=min(least, mean), cpu_percent_peak=max(greatest, mean))
    )


def _with_sampled_peak(job: Job, before: Job) -> Job:
    """Keep the sampled memory peak of all processes together if it is larger than the new one."""
    peak = before.usage.memory_peak_bytes
    if peak is None or peak <= (job.usage.memory_peak_bytes or 0):
        return job
    sources = job.sources | {"memory_peak": before.sources.get("memory_peak", "pss")}
    return replace(job, usage=replace(job.usage, memory_peak_bytes=peak), sources=sources)


def _memory_peak(facts: Facts) -> tuple[int | None, str]:
    """The memory peak of the largest process, and its source; ru_maxrss starts at the size of the forked shim."""
    maxrss, floor, seen = (facts.integer(key) for key in ("maxrss", "floor", "hwm"))
    if maxrss > floor + FLOOR_SLACK_BYTES:
        return max(maxrss, seen), "rusage"
    looked, lived = facts.number("looked", 0.0), facts.moment("last")[1] - facts.moment("start")[1]
    if seen and looked >= max(SHORTEST_LOOK_SECONDS, lived / 2):
        return seen, "vmhwm"
    return (maxrss, "rusage_floor") if maxrss else (None, "none")


def _sources(facts: Facts, cpu: Cpu) -> dict[str, str]:
    own = _cgroup(facts)
    sources = {
        "cpu": cpu.source,
        "memory_peak": _memory_peak(facts)[1],
        "io": "rusage",
        "io_chars": "proc",
        "processes": "census",
    }
    if own.oom_kills is not None:
        sources["oom_kills"] = "cgroup"
    if held := dict.fromkeys(how for how in facts.limits().values() if not how.startswith("nothing")):
        sources["limits"] = "+".join(held)
    return sources


def _incomplete(job: Job, facts: Facts, cpu: Cpu) -> tuple[str, ...]:
    """In words, which totals are incomplete and which limits were not enforced, and why."""
    limits = facts.limits()
    missing = [f"limits: {why}" for how in limits.values() if (why := how.partition("nothing: ")[2])]
    if limits.get("memory") == "sampling" and job.usage.samples is None:
        missing.append(NOT_SAMPLED)
    own = _cgroup(facts)
    counted = own.cpu_user_seconds is not None
    if own.cpu_user_seconds is not None and own.cpu_system_seconds is not None:
        missing += _left_cgroup(own.cpu_user_seconds + own.cpu_system_seconds, facts)
    if "discarding" in facts:
        why = f"{facts['discarding']} does not wait for its children (SIGCHLD), so the kernel discards what they used"
        missing += [f"{what}: {why}" for what in ("cpu", "memory_peak", "io") if what != "cpu" or not counted]
    if facts.get("subreaper") == "0":
        missing.append("cpu: orphans cannot be adopted on this system")
    if facts.integer("chars_missing"):
        unseen = facts.integer("chars_missing")
        missing.append(f"io_chars: {unseen} {'process' if unseen == 1 else 'processes'} ended unseen")
    if facts.integer("final") == 0:
        left = facts.integer("left")
        descendants = "1 descendant was" if left == 1 else f"{left} descendants were"
        missing.append(f"all: {descendants} left running; the totals are completed when the last one ends")
    if "agent_error" in facts:
        why = facts["agent_error"]
        missing.append(
            f"samples: the recorder of the job was killed, and no agent could be started to continue ({why})"
        )
    if "output_error" in facts:
        missing.append(f"output: it could not be written to its destination ({facts['output_error']})")
    missing += [f"log: {why}" for why in dict.fromkeys(facts.every("log_error"))]
    missing += [entry for entry in job.incomplete if entry.startswith(SAMPLED)]
    return with_note_on_sampled_cpu(cpu.source, tuple(missing))


def _left_cgroup(counted_seconds: float, facts: Facts) -> Iterator[str]:
    """Report that a process left the cgroup of the job: rusage has more CPU time than the cgroup."""
    total = facts.number("utime") + facts.number("stime") - facts.number("before_cgroup", 0.0)
    if is_far_more(total, counted_seconds):
        outside, all_of_it = format_duration(total - counted_seconds), format_duration(total)
        yield f"cpu: the job's cgroup has not counted {outside} of {all_of_it}: a process left it (kept from rusage)"


def is_far_more(seconds: float, others: float) -> bool:
    """Whether a count exceeds another count of the same CPU time by more than rounding."""
    return seconds - others > max(DIFFERENCE_SECONDS, DIFFERENCE_SHARE * seconds)


def with_note_on_sampled_cpu(source: str, incomplete: tuple[str, ...]) -> tuple[str, ...]:
    """`incomplete` with an entry for CPU time that only samples have seen."""
    if not source.endswith(BY_SAMPLES) or any(entry.startswith(("cpu:", "all:")) for entry in incomplete):
        return incomplete
    return (*incomplete, "cpu: samples saw more than the kernel reported to any parent")


def _flags(job: Job, facts: Facts) -> tuple[str, ...]:
    flags = set(job.flags) - {IMPOSSIBLE}
    if any(entry.startswith(IMPOSSIBLE_RATE) for entry in job.incomplete):
        flags.add(IMPOSSIBLE)
    if facts.integer("left"):
        flags.add("left_running")
    if job.usage.oom_kills:
        flags.add("oom_killed")
    if facts.every("killed"):
        flags.add("had_to_be_killed")
    if facts.get("stop") == "limit" and os.WIFSIGNALED(facts.integer("status")):
        flags.add(OVER_LIMIT)
    return tuple(sorted(flags))


def _monitor(job: Job, facts: Facts) -> Monitor:
    cpu_seconds = max(facts.number("own_cpu") + facts.number("recorder_cpu", 0.0), job.monitor.cpu_seconds or 0.0)
    rss_bytes = max(facts.integer("own_rss") + facts.integer("recorder_rss", 0), job.monitor.rss_bytes or 0)
    return replace(job.monitor, cpu_seconds=cpu_seconds, rss_bytes=rss_bytes)
