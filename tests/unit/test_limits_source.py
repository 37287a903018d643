"""The limits of jobs on captured cgroup trees: the tightest of all on the way up, read rarely, absent where unknown."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from jobtop.core.analysis.process_limits import ProcessLimit, process_limit
from jobtop.core.measure.collectors.job_cgroup import CgroupReader
from jobtop.core.measure.collectors.limits.reading import CapturedLimits, KernelLimits, LimitSet
from jobtop.core.measure.collectors.limits.source import IDLE_TICKS, MOST_JOBS, PAUSE_TICKS, LimitSource
from jobtop.core.measure.collectors.process_source import ProcessSource
from jobtop.core.model import Limits
from limited import LIMITS, PID, LimitedMachine, limited_target
from processes import FakeProc
from support import wait_for

MIB, GIB = 1 << 20, 1 << 30
SCOPE = "user.slice/user-1000.slice/user@1000.service/app.slice/run-u12.scope"
SESSION = "user.slice/user-1000.slice/session-3.scope"


def test_in_version_2_the_tightest_limit_on_the_way_up_counts(tmp_path: Path) -> None:
    machine = LimitedMachine(tmp_path, "v2")
    machine.put(SCOPE, {"cpu.max": "max 100000", "memory.max": "max", "pids.max": "4915"})
    machine.put(SCOPE.rpartition("/")[0], {"cpu.max": "150000 100000", "memory.max": str(2 * GIB), "pids.max": "max"})
    machine.put("user.slice", {"cpu.max": "400000 100000", "memory.max": str(GIB), "pids.max": "10000"})
    assert machine.found() == LimitSet(1.5, GIB, 4915)


def test_version_1_has_a_tree_for_each(tmp_path: Path) -> None:
    machine = LimitedMachine(tmp_path, "v1")
    machine.put("cpu,cpuacct", {"cpu.cfs_quota_us": "-1", "cpu.cfs_period_us": "100000"})
    machine.put("cpu,cpuacct/user.slice", {"cpu.cfs_quota_us": "50000", "cpu.cfs_period_us": "100000"})
    machine.put(f"memory/{SESSION}", {"memory.limit_in_bytes": "9223372036854771712"})
    machine.put("memory/user.slice", {"memory.limit_in_bytes": str(512 * MIB)})
    machine.put(f"pids/{SESSION}", {"pids.max": "max"})
    machine.put("pids/user.slice/user-1000.slice", {"pids.max": "333"})
    assert machine.found() == LimitSet(0.5, 512 * MIB, 333)


def test_a_container_sees_its_limits_at_the_root_of_its_tree(tmp_path: Path) -> None:
    machine = LimitedMachine(tmp_path, "container")
    machine.put("", {"cpu.max": "200000 100000", "memory.max": str(GIB), "pids.max": "100"})
    assert machine.found() == LimitSet(2.0, GIB, 100)


@pytest.mark.parametrize("name", ["none", "outside-mount", "v1-all-in-one", "hybrid"])
def test_what_is_not_mounted_or_not_there_is_no_limit(tmp_path: Path, name: str) -> None:
    assert LimitedMachine(tmp_path, name).found() == LimitSet()


@pytest.mark.parametrize("text", ["", "x", "max", "-1", "1e9", "9" * 30])
def test_a_torn_file_is_no_limit(tmp_path: Path, text: str) -> None:
    machine = LimitedMachine(tmp_path, "container")
    machine.put("", {"cpu.max": text, "memory.max": text, "pids.max": text})
    assert machine.found() == LimitSet()
    machine.put("", {"cpu.max": "5 0"})
    assert machine.found().cpus is None
    machine.put_process(PID, cgroup="torn\n0:\n")
    assert machine.found() == LimitSet()


def test_affinity_open_files_and_what_was_asked_for_count_too(tmp_path: Path) -> None:
    machine = LimitedMachine(tmp_path, "container")
    machine.put("", {"memory.max": str(4 * GIB), "cpu.max": "600000 100000"})
    machine.put_process(PID, status="Name:\tx\nCpus_allowed_list:\t0-2,5\n", limits=LIMITS.format(1024))
    assert machine.values(limited_target()) == {"limit.cpus": 4.0, "limit.memory": 4 * GIB, "limit.fds": 1024}
    asked = limited_target(declared=Limits(cpus=2.0, memory_bytes=GIB))
    assert machine.values(asked) == {"limit.cpus": 2.0, "limit.memory": GIB, "limit.fds": 1024}
    assert machine.values(limited_target(memory=2 * GIB))["limit.memory"] == 2 * GIB
    machine.put_process(PID, status="Cpus_allowed_list:\t0-7\n", limits=LIMITS.format("unlimited"))
    assert machine.values(limited_target()) == {"limit.cpus": 6.0, "limit.memory": 4 * GIB}


def test_limits_that_the_job_lowered_are_in_its_findings_with_those_of_its_start(tmp_path: Path) -> None:
    space = "Max address space         {}            unlimited            bytes\n"
    machine = LimitedMachine(tmp_path, "none")
    machine.put_process(1, limits=LIMITS.format(1024) + space.format("unlimited"))
    machine.put_process(PID, limits=LIMITS.format(1024) + space.format("unlimited"))
    source, jobs = machine.source(), {"job": limited_target()}
    assert source.collect(jobs).remarks == {}
    machine.put_process(PID, limits=LIMITS.format(20) + space.format(512 * MIB))
    told = [remarks for _ in range(3 * PAUSE_TICKS) for remarks in source.collect(jobs).remarks.values()]
    (findings,) = (remarks.findings for remarks in told)
    assert process_limit(findings, "open_files") == ProcessLimit("open_files", 1024, 20)
    assert process_limit(findings, "address_space") == ProcessLimit("address_space", None, 512 * MIB)


def test_limits_of_a_shim_that_cannot_be_read_are_not_compared(tmp_path: Path) -> None:
    machine = LimitedMachine(tmp_path, "none")
    machine.put_process(PID, limits=LIMITS.format(20))
    assert machine.source().collect({"job": limited_target()}).remarks == {}


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        (
            "SLURM_JOB_ID=7\0SLURM_CPUS_ON_NODE=3\0SLURM_MEM_PER_NODE=2048\0",
            {"limit.cpus": 3.0, "limit.memory": 2 * GIB},
        ),
        ("SLURM_JOB_ID=7\0SLURM_CPUS_ON_NODE=2\0SLURM_MEM_PER_CPU=512\0", {"limit.cpus": 2.0, "limit.memory": GIB}),
        ("SLURM_JOB_ID=7\0SLURM_MEM_PER_NODE=0\0", {}),
        ("SLURM_CPUS_ON_NODE=3\0", {}),
        ("SLURM_JOB_ID=7\0SLURM_CPUS_ON_NODE=x\0SLURM_MEM_PER_CPU=512\0", {}),
    ],
)
def test_what_slurm_allotted_is_a_limit(tmp_path: Path, environ: str, expected: dict[str, float]) -> None:
    machine = LimitedMachine(tmp_path, "none")
    machine.put_process(PID, environ=environ)
    assert machine.values(limited_target()) == expected


def test_a_job_whose_process_is_gone_keeps_what_was_known(tmp_path: Path) -> None:
    machine = LimitedMachine(tmp_path, "none")
    assert machine.values(limited_target(99, Limits(cpus=1.0))) == {}


def test_a_job_is_read_every_tenth_tick_and_told_only_if_its_limits_changed(tmp_path: Path) -> None:
    machine = LimitedMachine(tmp_path, "container")
    machine.put("", {"memory.max": str(GIB)})
    source, jobs = machine.source(), {"job": limited_target()}
    assert source.collect(jobs).jobs == {"job": {"limit.memory": GIB}}
    machine.put("", {"memory.max": str(2 * GIB)})
    answers = [source.collect(jobs).jobs for _ in range(2 * PAUSE_TICKS)]
    assert answers[: PAUSE_TICKS - 1] == [{}] * (PAUSE_TICKS - 1)
    assert [answer for answer in answers if answer] == [{"job": {"limit.memory": 2 * GIB}}]


def test_many_jobs_are_read_in_turn_and_forgotten_ones_no_more(tmp_path: Path) -> None:
    machine = LimitedMachine(tmp_path, "container")
    machine.put("", {"memory.max": str(GIB)})
    source, jobs = machine.source(), {f"job {number}": limited_target() for number in range(3 * MOST_JOBS)}
    source.forget("job 0")
    told = [len(source.collect(jobs).jobs) for _ in range(4)]
    assert told == [MOST_JOBS, MOST_JOBS, MOST_JOBS, 0]
    source.forget("job 0")
    jobs.pop("job 0")
    machine.put("", {"memory.max": str(2 * GIB)})
    later = [key for _ in range(2 * PAUSE_TICKS) for key in source.collect(dict(jobs)).jobs]
    assert sorted(later) == sorted(jobs)


def test_denied_forks_are_counted_by_the_cgroup_of_the_job(tmp_path: Path) -> None:
    (tmp_path / "pids.events").write_text("max 3\n")
    reader = CgroupReader([str(tmp_path)])
    assert reader.read()[0] == {"proc.forks_denied": 3}
    (tmp_path / "pids.events").write_text("")
    assert reader.read()[0] == {}
    reader.close()


def test_an_idle_job_is_read_less_often_until_a_process_runs(tmp_path: Path) -> None:
    fake = FakeProc(tmp_path / "proc")
    fake.put(1, 0, start=5)
    fake.put(PID, 1, cpu=1.0)
    limits = tmp_path / "proc" / str(PID) / "limits"
    processes = ProcessSource(fake.table())
    source, jobs = LimitSource(str(tmp_path / "proc"), processes), {"job": limited_target()}

    def told(ticks: int) -> list[float]:
        answers = []
        for _ in range(ticks):
            processes.collect(jobs)
            answers += [values["limit.fds"] for values in source.collect(jobs).jobs.values()]
        return answers

    limits.write_text(LIMITS.format(1024))
    assert told(3 * PAUSE_TICKS) == [1024]
    limits.write_text(LIMITS.format(512))
    fake.put(PID, 1, cpu=2.0)
    assert told(PAUSE_TICKS) == [512], "it has run"
    limits.write_text(LIMITS.format(256))
    assert told(2 * PAUSE_TICKS) == []
    assert told(IDLE_TICKS) == [256], "another process may have set that"
    processes.close()


def test_the_kernel_and_the_files_of_a_process_say_the_same() -> None:
    lower = "import resource as r; r.setrlimit(r.RLIMIT_NOFILE, (20, 30)); r.setrlimit(r.RLIMIT_AS, (1 << 31, 1 << 31))"
    with subprocess.Popen([sys.executable, "-c", f"{lower}; input()"], stdin=subprocess.PIPE) as process:
        wait_for(lambda: CapturedLimits("/proc").soft_limits([process.pid]).get("address_space") == 1 << 31)
        for pid in (process.pid, os.getpid(), 1):
            assert KernelLimits().soft_limits([pid]) == CapturedLimits("/proc").soft_limits([pid])
            for cores in (1, 2, 10_000):
                assert KernelLimits().affinity(pid, cores) == CapturedLimits("/proc").affinity(pid, cores)
        both = KernelLimits().soft_limits([os.getpid(), process.pid])
        assert both == {"open_files": 20, "address_space": 1 << 31}
        process.communicate(b"\n")
    assert KernelLimits().soft_limits([process.pid]) == {}
    assert KernelLimits().affinity(process.pid, 2) is None
