"""What follows from what a shim left: every branch from its facts to the record."""

import errno
import os
import signal

import pytest

from jobtop.core.errors import ExitCode
from jobtop.core.measure.collectors.cgroup import Reading
from jobtop.core.model import Identity, Job, Limits, Status, StopRequest, Usage
from jobtop.core.record import replace
from jobtop.core.run import outcome
from jobtop.core.run.facts import Facts, Started
from jobtop.core.run.outcome import conclude
from jobtop.core.run.start_problems import TOO_MANY
from records import numbered_id

ID = numbered_id(7)

MEBIBYTE = 1024 * 1024
CORES = os.cpu_count() or 1
START = 1_700_000_000.0
ENDED = {
    "version": 1,
    "final": 1,
    "status": 0,
    "start": f"{START} 100.0",
    "end": f"{START + 10} 110.0",
    "last": f"{START + 10} 110.0",
    "utime": 3.0,
    "stime": 1.0,
    "minflt": 11,
    "majflt": 12,
    "inblock": 8,
    "oublock": 16,
    "nvcsw": 13,
    "nivcsw": 14,
    "maxrss": 100 * MEBIBYTE,
    "floor": 6 * MEBIBYTE,
    "hwm": 0,
    "looked": 8.0,
    "rchar": 1000,
    "wchar": 2000,
    "chars_missing": 0,
    "reaped": 3,
    "seen": 4,
    "peak": 2,
    "threads": 5,
    "left": 0,
    "subreaper": 1,
    "own_cpu": 0.02,
    "own_rss": 9 * MEBIBYTE,
}
JOB = Job(ID, "n", ("./solver", "-x"), "atlas", "u", "/data", Status.RUNNING, usage=Usage(cpus_allowed=2.0))


def facts(**changes: object) -> Facts:
    """What a shim tells of an ordinary end, with changes; None leaves a line out, a list repeats one."""
    rows = ENDED | {key.replace("__", "."): value for key, value in changes.items()}
    items = [(key, item) for key, value in rows.items() for item in (value if isinstance(value, list) else [value])]
    return Facts("".join(f"{key} {escaped(str(item))}\n" for key, item in items if item is not None))


def escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def killed_by(number: int) -> int:
    return number


def exited(code: int) -> int:
    return code << 8


def asked(by: str, seconds_before_end: float) -> Job:
    return replace(JOB, stop_request=StopRequest(by, START + 10 - seconds_before_end))


def test_a_line_with_breaks_and_backslashes_is_read_as_it_was() -> None:
    text = "a\\b\nc\\nd\\\\"
    assert facts(killed=text)["killed"] == text


def test_a_repeated_line_is_kept_each_time() -> None:
    told = facts(killed=["1 a", "2 b"])
    assert told["killed"] == "1 a"
    assert told.every("killed") == ["1 a", "2 b"]
    assert told.every("never") == []
    assert len(told) == len(list(told)) == len(ENDED) + 1


def test_what_started_tells_who_runs() -> None:
    begun = Facts(
        f"version 1\nboot b\nshim 10 200\nmain 11 None\nstart {START} 1.0\nsubreaper 1\ncgroup /a/jobtop-7\n"
    ).started()
    assert begun == Started(Identity("b", 10, 200), Identity("b", 11, None), START, 1.0, ("/a/jobtop-7",))
    job = outcome.begin(JOB, begun)
    assert (job.pid, job.shim, job.start_time, job.start_boottime) == (11, Identity("b", 10, 200), START, 1.0)


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (exited(0), (Status.SUCCESS, 0, None, None)),
        (exited(7), (Status.FAILED, 7, None, "exit code 7")),
        (exited(137), (Status.FAILED, 137, None, "exit code 137")),
        (killed_by(signal.SIGKILL), (Status.FAILED, None, 9, "killed by SIGKILL")),
        (killed_by(signal.SIGSEGV) | 0x80, (Status.FAILED, None, 11, "killed by SIGSEGV")),
        (killed_by(signal.SIGTERM), (Status.FAILED, None, 15, "killed by SIGTERM")),
        (killed_by(40), (Status.FAILED, None, 40, "killed by signal 40")),
    ],
)
def test_an_end_becomes_status_code_signal_and_reason(
    status: int, expected: tuple[Status, int | None, int | None, str | None]
) -> None:
    job = conclude(JOB, facts(status=status))
    assert (job.status, job.exit_code, job.signal, job.reason) == expected
    assert job.settled
    assert job.flags == job.incomplete == ()


def test_times_are_counted_on_a_clock_that_cannot_be_set() -> None:
    job = conclude(JOB, facts(end=f"{START + 7210} 110.0", last=f"{START - 3600} 112.5"))
    assert job.start_time == START
    assert job.duration_seconds == 12.5
    assert job.end_time == START + 12.5


def test_every_total_is_taken_over() -> None:
    usage = conclude(JOB, facts()).usage
    assert usage == Usage(
        cpu_user_seconds=3.0,
        cpu_system_seconds=1.0,
        cpu_total_seconds=4.0,
        cpu_efficiency=0.2,
        cpu_percent_mean=40.0,
        cpus_allowed=2.0,
        memory_peak_bytes=100 * MEBIBYTE,
        io_read_bytes=4096,
        io_write_bytes=8192,
        io_read_chars=1000,
        io_write_chars=2000,
        faults_minor=11,
        faults_major=12,
        switches_voluntary=13,
        switches_involuntary=14,
        processes_seen=4,
        processes_peak=2,
        threads_peak=5,
    )


def test_efficiency_is_against_what_was_declared() -> None:
    job = conclude(replace(JOB, limits=Limits(cpus=4)), facts())
    assert job.usage.cpu_efficiency == pytest.approx(0.1)


def test_a_job_without_duration_has_no_rates() -> None:
    usage = conclude(JOB, facts(end=f"{START} 100.0", last=f"{START} 100.0")).usage
    assert (usage.cpu_efficiency, usage.cpu_percent_mean, usage.cpu_total_seconds) == (None, None, 4.0)


def test_what_watching_cost_is_told() -> None:
    monitor = conclude(JOB, facts()).monitor
    assert (monitor.cpu_seconds, monitor.rss_bytes) == (0.02, 9 * MEBIBYTE)


@pytest.mark.parametrize(
    ("told", "error", "code"),
    [
        (f"exec {errno.ENOENT}", "./solver: command not found", ExitCode.NOT_FOUND),
        (f"exec {errno.EACCES}", "./solver: Permission denied", ExitCode.NOT_EXECUTABLE),
        (f"exec {errno.E2BIG}", "./solver: Argument list too long", ExitCode.NOT_EXECUTABLE),
        (f"cwd {errno.EACCES}", "cannot enter /data: Permission denied", ExitCode.FAILED),
        (
            f"priority {errno.EPERM}",
            "its --nice, --ionice or --cpus cannot be set: Operation not permitted",
            ExitCode.FAILED,
        ),
        (f"start {errno.EAGAIN}", f"cannot start a process: {TOO_MANY}", ExitCode.FAILED),
        (f"start {errno.EIO}", "cannot start a process: Input/output error", ExitCode.FAILED),
    ],
)
def test_a_command_that_could_not_be_started_is_an_error_with_no_totals(told: str, error: str, code: int) -> None:
    job = conclude(JOB, facts(exec_error=told, status=exited(127)))
    assert (job.status, job.error, job.reason, job.exit_code) == (Status.ERROR, error, error, code)
    assert job.usage == JOB.usage
    assert outcome.exit_code(job) == code


def test_a_shim_that_could_not_even_fork_has_no_status_to_tell() -> None:
    job = conclude(JOB, facts(exec_error=f"start {errno.EAGAIN}", status=None))
    assert job.status is Status.ERROR


def test_a_timeout_says_how_long_it_was_and_what_had_to_be_killed() -> None:
    job = replace(JOB, limits=Limits(timeout_seconds=90))
    done = conclude(job, facts(status=killed_by(9), stop="timeout", killed=["11 python", "12 "]))
    assert done.status is Status.TIMEOUT
    assert done.reason == "stopped after its timeout of 1m30s; had to be killed: python (11), ? (12)"
    assert done.flags == ("had_to_be_killed",)
    assert outcome.exit_code(done) == ExitCode.TIMED_OUT


def test_of_many_killed_a_few_are_named() -> None:
    done = conclude(asked("SIGTERM", 5), facts(stop="signal", killed=[f"{pid} sh" for pid in range(1, 9)]))
    named = ", ".join(f"sh ({pid})" for pid in range(1, 6))
    assert done.reason == f"stopped by SIGTERM: exit code 0; had to be killed: {named} and 3 more"


@pytest.mark.parametrize(
    ("job", "status", "stop", "reason"),
    [
        (JOB, killed_by(15), "signal", "stopped by SIGTERM to its supervisor: killed by SIGTERM"),
        (asked("SIGTERM", 1), exited(0), "signal", "stopped by SIGTERM: exit code 0"),
        (asked("jobtop stop", 1), killed_by(15), "signal", "stopped by jobtop stop: killed by SIGTERM"),
        (asked("jobtop kill", 60), killed_by(9), None, "stopped by jobtop kill: killed by SIGKILL"),
        (asked("SIGINT", 1), killed_by(2), None, "interrupted by SIGINT"),
        (asked("SIGINT", 9), exited(1), None, "interrupted by SIGINT: exit code 1"),
    ],
)
def test_an_end_that_was_requested_is_cancelled(job: Job, status: int, stop: str | None, reason: str) -> None:
    done = conclude(job, facts(status=status, stop=stop))
    assert (done.status, done.reason) == (Status.CANCELLED, reason)


@pytest.mark.parametrize(
    ("job", "status", "expected"),
    [
        (asked("SIGINT", 11), exited(1), (Status.FAILED, "exit code 1")),
        (asked("SIGINT", 1), exited(0), (Status.SUCCESS, None)),
        (asked("SIGHUP", 3600), killed_by(11), (Status.FAILED, "killed by SIGSEGV")),
    ],
    ids=["lived through", "finished well", "long ago"],
)
def test_an_interrupt_that_did_not_end_the_job_is_not_its_reason(
    job: Job, status: int, expected: tuple[Status, str | None]
) -> None:
    done = conclude(job, facts(status=status))
    assert (done.status, done.reason) == expected


def test_ending_what_outlived_the_main_process_does_not_change_its_result() -> None:
    done = conclude(JOB, facts(stop="after_exit", killed=["11 sleep"]))
    assert (done.status, done.reason, done.flags) == (Status.SUCCESS, None, ("had_to_be_killed",))


def test_a_job_with_descendants_left_is_over_but_not_settled() -> None:
    first = conclude(JOB, facts(final=0, left=2, last=f"{START + 10} 110.0"))
    assert (first.status, first.settled, first.flags) == (Status.SUCCESS, False, ("left_running",))
    assert first.incomplete == (
        "all: 2 descendants were left running; the totals are completed when the last one ends",
    )

    last = conclude(first, facts(utime=30.0, status=exited(0), last=f"{START + 60} 160.0"))
    assert (last.status, last.settled, last.flags, last.incomplete) == (Status.SUCCESS, True, ("left_running",), ())
    assert (last.duration_seconds, last.end_time) == (10.0, START + 10)
    assert last.usage.cpu_total_seconds == 31.0
    assert last.usage.cpu_percent_mean == pytest.approx(100 * 31 / 60)


def test_descendants_that_compute_after_a_short_main_process_are_not_impossible() -> None:
    over = f"{START + 0.01} 100.01"
    first = conclude(
        JOB, facts(final=0, left=1, utime=1.0, stime=0.0, end=over, last=over, counted=f"{START + 1} 101.0")
    )
    assert first.flags == ("left_running",)
    assert first.duration_seconds == pytest.approx(0.01)
    assert (first.usage.cpu_percent_mean, first.usage.cpu_efficiency) == pytest.approx((100, 0.5))


def test_a_doubt_goes_when_the_totals_are_completed() -> None:
    much = CORES * 10.0 + 5
    first = conclude(JOB, facts(final=0, left=1, utime=much))
    assert "impossible_cpu" in first.flags
    assert first.usage.cpu_percent_mean is None
    last = conclude(first, facts(utime=much, last=f"{START + 60} 160.0"))
    assert (last.flags, last.incomplete) == (("left_running",), ())
    assert last.usage.cpu_percent_mean == pytest.approx(100 * (much + 1) / 60)


def test_what_samples_said_stays_when_the_totals_are_completed() -> None:
    told = ("cpu.percent: 3.0 s more than the cores could give were held back", "samples: disk full")
    first = replace(conclude(JOB, facts(final=0, left=1)), incomplete=told, flags=("impossible_cpu", "left_running"))
    last = conclude(first, facts())
    assert (last.incomplete, last.flags) == (told, first.flags)


def test_a_total_does_not_fall_when_it_is_completed() -> None:
    first = conclude(JOB, facts(final=0, left=1))
    sampled = replace(first.usage, cpu_user_seconds=7.0, cpu_total_seconds=8.0)
    first = replace(first, usage=sampled, sources=first.sources | {"cpu": "rusage+sampled"})
    last = conclude(first, facts(last=f"{START + 16} 116.0"))
    assert (last.usage.cpu_total_seconds, last.sources["cpu"]) == (8.0, "rusage+sampled")
    assert last.usage.cpu_percent_mean == pytest.approx(50)


def test_stopping_what_was_left_running_does_not_undo_a_success() -> None:
    first = conclude(JOB, facts(final=0, left=1))
    asked_later = replace(first, stop_request=StopRequest("jobtop stop", START + 50))
    last = conclude(asked_later, facts(stop="signal", last=f"{START + 60} 160.0"))
    assert (last.status, last.reason) == (Status.SUCCESS, None)


def test_a_lost_job_whose_end_turns_up_is_judged_by_it() -> None:
    lost = outcome.lost(JOB, "not known", START + 3)
    assert (lost.status, lost.reason, lost.end_time, lost.settled) == (Status.LOST, "not known", START + 3, True)
    found = conclude(lost, facts(status=exited(3)))
    assert (found.status, found.reason, found.exit_code) == (Status.FAILED, "exit code 3", 3)


def test_a_lost_job_keeps_what_its_cgroup_counted() -> None:
    lost = outcome.lost_with(JOB, "gone", Reading(2.0, 1.0, 4096, 0))
    assert (lost.status, lost.reason, lost.sources) == (Status.LOST, "gone", {"cpu": "cgroup"})
    assert lost.usage.cpu_total_seconds == 3.0
    assert (lost.usage.memory_cgroup_peak_bytes, lost.usage.oom_kills) == (4096, 0)
    assert lost.incomplete == ("all: jobtop's supervisor of the job died",)


def test_a_lost_job_keeps_what_a_cgroup_without_cpu_time_counted() -> None:
    lost = outcome.lost_with(JOB, "gone", Reading(None, None, 4096, 1))
    assert (lost.usage.memory_cgroup_peak_bytes, lost.usage.oom_kills) == (4096, 1)
    assert lost.usage.cpu_total_seconds is None


def test_a_lost_job_without_a_cgroup_has_no_totals() -> None:
    lost = outcome.lost_with(JOB, "gone", Reading())
    assert (lost.usage, lost.sources) == (JOB.usage, {})


def test_a_job_that_never_started_is_an_error() -> None:
    job = outcome.never_started(JOB, "too late")
    assert (job.status, job.error, job.reason, job.settled) == (Status.ERROR, "too late", "too late", True)
    assert outcome.exit_code(job) == ExitCode.FAILED


@pytest.mark.parametrize(
    ("job", "code"),
    [
        (replace(JOB, status=Status.SUCCESS, exit_code=0), 0),
        (replace(JOB, status=Status.FAILED, exit_code=7), 7),
        (replace(JOB, status=Status.FAILED, signal=9), 137),
        (replace(JOB, status=Status.TIMEOUT, signal=15), ExitCode.TIMED_OUT),
        (replace(JOB, status=Status.LOST), ExitCode.FAILED),
    ],
)
def test_run_passes_on_what_a_shell_would(job: Job, code: int) -> None:
    assert outcome.exit_code(job) == code


@pytest.mark.parametrize(
    ("status", "events", "reason", "flags"),
    [
        (killed_by(9), "oom_kill 1", "killed by SIGKILL: the kernel's OOM killer, oom_kill +1", ("oom_killed",)),
        (exited(3), "oom_kill 2", "exit code 3; the kernel's OOM killer ended 2 of its processes", ("oom_killed",)),
        (exited(0), "oom_kill 1", "exit code 0; the kernel's OOM killer ended 1 of its processes", ("oom_killed",)),
        (killed_by(9), "oom_kill 0", "killed by SIGKILL", ()),
    ],
)
def test_oom_is_said_on_the_evidence_of_the_job_s_own_cgroup(
    status: int, events: str, reason: str, flags: tuple[str, ...]
) -> None:
    job = conclude(JOB, facts(status=status, cgroup__memory__events=f"low 0\n{events}\n"))
    assert (job.reason, job.flags) == (reason, flags)
    assert job.status is (Status.SUCCESS if status == 0 else Status.FAILED)
    assert job.sources["oom_kills"] == "cgroup"


@pytest.mark.parametrize(
    ("status", "changes", "reason"),
    [
        (
            killed_by(9),
            {"oom_before": 4, "cgroup__oom_around": "oom_kill 6"},
            "killed by SIGKILL; the kernel's OOM killer was active around it, oom_kill +2",
        ),
        (killed_by(9), {"oom_before": 4, "cgroup__oom_around": "oom_kill 4"}, "killed by SIGKILL"),
        (killed_by(9), {"oom_before": 4, "cgroup__oom_around": ""}, "killed by SIGKILL"),
        (killed_by(9), {"cgroup__oom_around": "oom_kill 4"}, "killed by SIGKILL"),
        (exited(137), {"oom_before": 4, "cgroup__oom_around": "oom_kill 6"}, "exit code 137"),
        (
            killed_by(9),
            {"oom_before": 4, "cgroup__oom_around": "oom_kill 6", "cgroup__memory__events": "oom_kill 0"},
            "killed by SIGKILL",
        ),
    ],
)
def test_oom_kills_around_the_job_are_only_a_hint(status: int, changes: dict[str, object], reason: str) -> None:
    job = conclude(JOB, facts(status=status, **changes))
    assert (job.reason, job.flags) == (reason, ())


@pytest.mark.parametrize(
    ("maxrss", "floor", "hwm", "expected"),
    [
        (100, 6, 0, (100, "rusage")),
        (100, 6, 120, (120, "rusage")),
        (7, 6.5, 3, (3, "vmhwm")),
        (6, 6, 4, (4, "vmhwm")),
        (6, 6, 0, (6, "rusage_floor")),
        (0, 0, 0, (None, "none")),
    ],
)
def test_a_memory_mark_at_its_floor_is_not_the_job_s_own(
    maxrss: float, floor: float, hwm: float, expected: tuple[int | None, str]
) -> None:
    marks = {name: int(size * MEBIBYTE) for name, size in (("maxrss", maxrss), ("floor", floor), ("hwm", hwm))}
    job = conclude(JOB, facts(**marks))
    size = None if expected[0] is None else expected[0] * MEBIBYTE
    assert (job.usage.memory_peak_bytes, job.sources["memory_peak"]) == (size, expected[1])


@pytest.mark.parametrize(
    ("looked", "seconds", "source"),
    [(0.004, 0.005, "rusage_floor"), (3.0, 10.0, "rusage_floor"), (6.0, 10.0, "vmhwm"), (0.4, 0.5, "vmhwm")],
)
def test_a_mark_of_the_living_counts_only_if_it_was_read_late_enough(
    looked: float, seconds: float, source: str
) -> None:
    end = f"{START + seconds} {100.0 + seconds}"
    job = conclude(JOB, facts(maxrss=6 * MEBIBYTE, hwm=12288, looked=looked, end=end, last=end))
    assert job.sources["memory_peak"] == source
    assert job.usage.memory_peak_bytes == (12288 if source == "vmhwm" else 6 * MEBIBYTE)


CPU_STAT = "usage_usec 8000000\nuser_usec 6000000\nsystem_usec 2000000\n"


def test_cpu_time_comes_from_the_cgroup_where_there_is_one() -> None:
    job = conclude(JOB, facts(cgroup__cpu__stat=CPU_STAT, cgroup__memory__peak="8192\n"))
    assert (job.usage.cpu_user_seconds, job.usage.cpu_system_seconds) == (6.0, 2.0)
    assert job.usage.cpu_total_seconds == 8.0
    assert job.usage.memory_cgroup_peak_bytes == 8192
    assert job.sources["cpu"] == "cgroup+rusage"
    assert job.incomplete == ()


def test_cpu_time_of_a_process_that_left_the_cgroup_is_kept_and_said() -> None:
    job = conclude(JOB, facts(utime=9.0, stime=3.0, cgroup__cpu__stat=CPU_STAT))
    assert (job.usage.cpu_user_seconds, job.usage.cpu_system_seconds, job.usage.cpu_total_seconds) == (9.0, 3.0, 12.0)
    assert job.sources["cpu"] == "cgroup+rusage"
    (why,) = job.incomplete
    assert why.startswith("cpu: ")
    assert "left" in why


@pytest.mark.parametrize(("rusage", "cgroup"), [(8.1, 8.0), (0.13, 0.09), (3.0, 8.0)])
def test_what_two_sources_round_or_only_the_cgroup_knows_is_the_larger_and_complete(
    rusage: float, cgroup: float
) -> None:
    stat = f"usage_usec {cgroup * 1e6:.0f}\nuser_usec {cgroup * 1e6:.0f}\nsystem_usec 0\n"
    job = conclude(JOB, facts(utime=rusage, stime=0.0, cgroup__cpu__stat=stat))
    assert job.usage.cpu_total_seconds == pytest.approx(max(rusage, cgroup))
    assert (job.sources["cpu"], job.incomplete) == ("cgroup+rusage", ())


def test_children_that_the_kernel_forgot_are_said_to_be_missing() -> None:
    job = conclude(JOB, facts(discarding="daemon"))
    why = "daemon does not wait for its children (SIGCHLD), so the kernel discards what they used"
    assert job.incomplete == (f"cpu: {why}", f"memory_peak: {why}", f"io: {why}")
    assert job.sources["cpu"] == "rusage"


def test_with_a_cgroup_forgotten_children_miss_no_cpu_time() -> None:
    job = conclude(JOB, facts(discarding="daemon", cgroup__cpu__stat=CPU_STAT))
    assert [entry.partition(":")[0] for entry in job.incomplete] == ["memory_peak", "io"]


def test_without_a_subreaper_totals_are_incomplete() -> None:
    assert conclude(JOB, facts(subreaper=0)).incomplete == ("cpu: orphans cannot be adopted on this system",)


def test_characters_of_some_processes_may_be_missing() -> None:
    job = conclude(JOB, facts(chars_missing=2))
    assert job.usage.io_read_chars == 1000
    assert job.incomplete == ("io_chars: 2 processes ended unseen",)
    assert conclude(JOB, facts(chars_missing=1)).incomplete == ("io_chars: 1 process ended unseen",)


def test_characters_of_no_process_at_all_are_absent() -> None:
    usage = conclude(JOB, facts(chars_missing=3, rchar=0, wchar=0)).usage
    assert (usage.io_read_chars, usage.io_write_chars) == (None, None)


def test_a_log_that_could_not_be_kept_is_told() -> None:
    job = conclude(JOB, facts(log_error=["No space left on device", "Input/output error"]))
    assert job.incomplete == ("log: No space left on device", "log: Input/output error")


def test_every_signal_has_a_name_or_a_number() -> None:
    assert outcome.signal_name(signal.SIGUSR1) == "SIGUSR1"
    assert outcome.signal_name(signal.SIGRTMIN + 3) == f"signal {signal.SIGRTMIN + 3}"


LIMITED = replace(JOB, limits=Limits(memory_bytes=200 * MEBIBYTE, enforced=True))
KILLED = int(signal.SIGKILL)
BY_CGROUP = {"limit": "memory cgroup v1", "cgroup__memory.max_usage_in_bytes": 200 * MEBIBYTE}


def oom(count: int) -> dict[str, object]:
    return {"cgroup__memory.oom_control": f"oom_kill_disable 0\noom_kill {count}\n"}


def test_an_oom_kill_at_its_own_limit_names_the_limit() -> None:
    job = conclude(LIMITED, facts(status=KILLED, **BY_CGROUP, **oom(1)))
    assert job.status is Status.FAILED
    assert job.reason == "killed by SIGKILL: over its memory limit of 200.0 MiB (oom_kill +1)"
    assert (job.flags, job.sources["limits"], job.incomplete) == (("oom_killed",), "cgroup v1", ())


def test_an_oom_kill_of_a_child_at_the_job_s_limit_names_both() -> None:
    job = conclude(LIMITED, facts(status=3 << 8, **BY_CGROUP, **oom(2)))
    ended = "exit code 3; the kernel's OOM killer ended 2 of its processes"
    assert job.reason == f"{ended}, over its memory limit of 200.0 MiB"


@pytest.mark.parametrize("peak", [100 * MEBIBYTE, None], ids=["below", "unknown"])
def test_an_oom_kill_below_the_limit_is_not_blamed_on_it(peak: int | None) -> None:
    changes = BY_CGROUP | {"cgroup__memory.max_usage_in_bytes": peak}
    job = conclude(LIMITED, facts(status=KILLED, **changes, **oom(1)))
    assert job.reason == "killed by SIGKILL: the kernel's OOM killer, oom_kill +1"


def test_version_2_says_itself_that_the_limit_was_reached() -> None:
    events = {"cgroup__memory.events": "max 12\noom 1\noom_kill 2\n"}
    job = conclude(LIMITED, facts(status=KILLED, limit="memory cgroup v2", **events))
    assert job.reason == "killed by SIGKILL: over its memory limit of 200.0 MiB (oom_kill +2)"


def test_a_job_stopped_by_who_sampled_it_has_failed_and_says_how_much_it_held() -> None:
    told = facts(status=KILLED, stop="limit", limit="memory sampling", memory_limit=200 * MEBIBYTE)
    job = conclude(LIMITED, told)
    assert (job.status, job.signal, job.flags) == (Status.FAILED, signal.SIGKILL, ("over_limit",))
    assert job.reason == "stopped: over its memory limit of 200.0 MiB (enforced by sampling)"
    assert outcome.exit_code(job) == 137
    job = outcome.watched(job, over_bytes=253 * MEBIBYTE)
    assert job.reason == "stopped: 253.0 MiB used, over its memory limit of 200.0 MiB (enforced by sampling)"
    assert (job.sources["limits"], job.incomplete) == ("sampling", ())


def test_a_job_that_ended_by_itself_before_the_kill_is_judged_by_its_end() -> None:
    job = conclude(LIMITED, facts(stop="limit", limit="memory sampling"))
    assert (outcome.watched(job).status, job.reason, job.flags) == (Status.SUCCESS, None, ())


def test_a_limit_is_not_enforced_if_the_job_was_not_sampled() -> None:
    job = conclude(LIMITED, facts(limit="memory sampling"))
    (missing,) = job.incomplete
    assert "not sampled" in missing
    assert outcome.over_at_once(job).incomplete == ()
    seen = replace(LIMITED, usage=replace(JOB.usage, samples=9), status=Status.SUCCESS)
    assert conclude(seen, facts(limit="memory sampling")).incomplete == ()


def test_what_could_not_be_made_to_hold_is_said() -> None:
    job = conclude(LIMITED, facts(limit=["memory cgroup v2", "cpus nothing: only whole ones"]))
    assert (job.sources["limits"], job.incomplete) == ("cgroup v2", ("limits: only whole ones",))
    job = conclude(LIMITED, facts(limit=["memory cgroup v1", "cpus affinity"]))
    assert job.sources["limits"] == "cgroup v1+affinity"


def test_who_samples_a_job_learns_from_its_start_what_to_hold() -> None:
    begun = {"version": 1, "boot": "b", "shim": "50 100", "main": "51 101", "start": f"{START} 100.0", "subreaper": 1}
    told = Facts("".join(f"{key} {value}\n" for key, value in begun.items()) + "memory_limit 4096\n")
    assert told.started().memory_limit == 4096
