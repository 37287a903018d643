"""A job's own cgroups where memory is counted by version 1: their processes, what they count, and their removal."""

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from jobtop.core.measure.collectors.limits.source import LimitSource
from jobtop.core.measure.target import Target
from jobtop.core.model import Identity, Job, Status
from jobtop.core.paths import StatePaths, hostname
from jobtop.core.run.supervisor import new_id
from jobtop.lifecycle.explaining import read_kernel_log
from jobtop.store.database import open_to_write
from jobtop.store.jobs import Jobs
from running import CGROUPS, Run, descendants, ended, is_alive, kill_if_alive, running, show
from running import nothing_is_left as nothing_is_left
from support import Jobtop, require, wait_for

MEBIBYTE = 1024 * 1024
LIMIT_BYTES = 96 * MEBIBYTE
HOG = "held = []\nwhile True: held.append(bytearray(b'x' * 1048576))"
HOLD_TWICE = """
import os
held = bytearray(80 * 1048576)
def touch(): held[::4096] = b"x" * len(held[::4096])
touch()
if os.fork() == 0:
    touch()
    os._exit(0)
os.wait()
"""
TREE = "sleep 60 & sleep 60 & echo ready; wait"
ENTER = 'echo $$ > "$0/cgroup.procs" && exec "$@"'

pytestmark = pytest.mark.usefixtures("root")


@pytest.fixture(scope="module")
def memory() -> Path:
    """Our own cgroup in the memory tree of version 1."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            return Path(f"{CGROUPS}/memory{path}")
    require("cgroup-v1", "memory is not counted by cgroup version 1 on this machine")


@pytest.fixture
def limited(memory: Path) -> Iterator[Path]:
    """A cgroup that holds little memory; to be entered by what a test starts."""
    directory = memory / f"limited-{uuid.uuid4()}"
    directory.mkdir()
    try:
        (directory / "memory.limit_in_bytes").write_text(str(LIMIT_BYTES))
        yield directory
    finally:
        wait_for(lambda: not (directory / "cgroup.procs").read_text())
        directory.rmdir()


def inside(directory: Path, jobtop: Jobtop, *args: str) -> subprocess.CompletedProcess[str]:
    """jobtop, called from within a cgroup."""
    command = ["sh", "-c", ENTER, str(directory), *jobtop.command(*args)]
    return subprocess.run(command, env=jobtop.env, cwd=jobtop.home, capture_output=True, text=True, timeout=60)


def own_cgroups(job_id: str) -> list[Path]:
    """Where a job has its own cgroup."""
    return [Path(folder) for folder, _, _ in os.walk(CGROUPS) if os.path.basename(folder) == f"jobtop-{job_id}"]


def members(directory: Path) -> set[int]:
    return set(map(int, (directory / "cgroup.procs").read_text().split()))


def job_of(run: Run) -> str:
    """The id of a job, once its tree says that it is ready."""
    assert run.process.stdout is not None
    assert run.process.stdout.readline() == b"ready\n"
    return str(run.record()["id"])


def test_the_members_of_a_job_are_in_its_cgroups_and_its_shim_is_not(jobtop: Jobtop, memory: Path) -> None:
    with running(jobtop, "--", "sh", "-c", TREE) as run:
        job_id = job_of(run)
        below_shim = set(descendants(run.shim()))
        places = own_cgroups(job_id)
        assert memory / f"jobtop-{job_id}" in places
        for place in places:
            assert members(place) == below_shim
        assert len(below_shim) == 3
        run.send(signal.SIGTERM)
        assert run.end() == 143
    assert own_cgroups(job_id) == []


def test_a_job_inside_a_job_has_its_cgroups_inside(jobtop: Jobtop, memory: Path) -> None:
    inner = jobtop.command("run", "--external-id", "inner", "--quiet", "--", "sh", "-c", TREE)
    with running(jobtop, "--quiet", "--", *inner) as run:
        outer_id, inner_id = job_of(run), str(show(jobtop, "inner")["id"])
        assert memory / f"jobtop-{outer_id}" / f"jobtop-{inner_id}" in own_cgroups(inner_id)
        assert all(place.parent.name == f"jobtop-{outer_id}" for place in own_cgroups(inner_id))
        run.send(signal.SIGTERM)
        run.end()
    assert ended(jobtop, "inner")["parent_id"] == outer_id
    assert own_cgroups(outer_id) == own_cgroups(inner_id) == []


@pytest.mark.parametrize(("program", "code"), [("/no/such/program", 127), ("/dev/null", 126)])
def test_a_command_that_cannot_be_started_leaves_no_cgroup(
    jobtop: Jobtop, memory: Path, program: str, code: int
) -> None:
    assert jobtop("run", "--external-id", "broken", "--", program).returncode == code
    assert own_cgroups(show(jobtop, "broken")["id"]) == []


def test_a_job_whose_run_was_killed_takes_its_cgroups_along_when_it_ends(jobtop: Jobtop, memory: Path) -> None:
    with running(jobtop, "--", "sh", "-c", TREE) as run:
        job_id, shim = job_of(run), run.shim()
        run.process.kill()
        run.process.wait()
        assert members(memory / f"jobtop-{job_id}") == set(descendants(shim))
        for pid in descendants(shim):
            kill_if_alive(pid)
        wait_for(lambda: not is_alive(shim))
        assert own_cgroups(job_id) == []
    assert show(jobtop, job_id)["signal"] == signal.SIGKILL


def test_a_verb_removes_the_cgroups_that_a_killed_shim_left(jobtop: Jobtop, memory: Path) -> None:
    with running(jobtop, "--", "sh", "-c", TREE) as run:
        job_id, shim = job_of(run), run.shim()
        orphans = descendants(shim)
        kill_if_alive(shim)
        run.end()
        lost = show(jobtop, job_id)
        assert lost["status"] == "lost"
        assert own_cgroups(job_id), "the cgroups have to stay while they have processes"
        for pid in orphans:
            kill_if_alive(pid)
        wait_for(lambda: not any(map(is_alive, orphans)))
        wait_for(lambda: show(jobtop, job_id) and own_cgroups(job_id) == [])
    assert "supervisor died" in str(lost["reason"])
    assert lost["resource_usage"]["memory_cgroup_peak_bytes"] > 0
    if (CGROUPS / "unified").is_dir():
        assert lost["sources"]["cpu"] == "cgroup"
        assert lost["resource_usage"]["cpu_total_seconds"] > 0


def test_a_detached_job_takes_its_cgroups_along_when_it_ends(jobtop: Jobtop, memory: Path) -> None:
    gate = jobtop.home / "gate"
    os.mkfifo(gate)
    job_id = jobtop("run", "--detach", "--", "sh", "-c", f": < {gate}").stdout.strip()
    assert memory / f"jobtop-{job_id}" in own_cgroups(job_id)
    gate.write_bytes(b"")
    wait_for(lambda: own_cgroups(job_id) == [])
    assert ended(jobtop, job_id)["status"] == "success"


def test_cgroups_made_for_a_job_that_never_began_are_removed(jobtop: Jobtop, memory: Path) -> None:
    job_id = new_id()
    made = memory / f"jobtop-{job_id}"
    made.mkdir()
    job = Job(job_id, "n", ("true",), hostname(), "u", "/", Status.RUNNING, submitted_at=time.time() - 3600)
    with closing(open_to_write(StatePaths(jobtop.state, hostname()))) as database:
        Jobs(database).insert(job)
    assert show(jobtop, job_id)["status"] == "error"
    assert not made.exists()


def test_the_peak_of_the_cgroup_is_that_of_all_processes_together(jobtop: Jobtop, memory: Path) -> None:
    command = (sys.executable, "-S", "-c", HOLD_TWICE)
    assert jobtop("run", "--external-id", "two", "--", *command).returncode == 0
    usage = show(jobtop, "two")["resource_usage"]
    assert 150 * MEBIBYTE < usage["memory_cgroup_peak_bytes"] < 220 * MEBIBYTE
    # That of one, or what a sample saw of both.
    assert 80 * MEBIBYTE < usage["memory_peak_bytes"] < 180 * MEBIBYTE


def test_the_limits_of_a_process_are_those_of_its_cgroup_its_affinity_and_its_files(limited: Path) -> None:
    command = ["sh", "-c", ENTER, str(limited), "sh", "-c", "ulimit -Sn 77; echo; exec sleep 60"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            os.sched_setaffinity(process.pid, {min(os.sched_getaffinity(0))})
            target = Target(Identity("", 1, None), 0.0, main=Identity("", process.pid, None))
            found = LimitSource(cores=2).collect({"job": target}).jobs["job"]
        finally:
            process.kill()
    assert found["limit.memory"] == LIMIT_BYTES
    assert (found["limit.cpus"], found["limit.fds"]) == (1.0, 77)


def test_an_oom_kill_in_the_job_s_cgroup_is_told(jobtop: Jobtop, limited: Path) -> None:
    finished = inside(limited, jobtop, "run", "--external-id", "hog", "--", sys.executable, "-S", "-c", HOG)
    assert finished.returncode == 137, finished.stderr
    job = show(jobtop, "hog")
    assert job["status"] == "failed"
    assert job["reason"] == "killed by SIGKILL: the kernel's OOM killer, oom_kill +1"
    assert job["flags"] == ["oom_killed"]
    assert job["signal"] == signal.SIGKILL
    assert job["resource_usage"]["oom_kills"] == 1
    assert job["sources"]["oom_kills"] == "cgroup"
    assert 0.5 * LIMIT_BYTES < job["resource_usage"]["memory_cgroup_peak_bytes"] <= LIMIT_BYTES


def test_an_oom_kill_of_a_child_is_told_beside_the_exit_code(jobtop: Jobtop, limited: Path) -> None:
    script = f'{sys.executable} -S -c "{HOG}"; exit 3'
    assert inside(limited, jobtop, "run", "--external-id", "parent", "--shell", "--", script).returncode == 3
    job = show(jobtop, "parent")
    assert job["reason"] == "exit code 3; the kernel's OOM killer ended 1 of its processes"
    assert job["flags"] == ["oom_killed"]


def test_without_an_own_cgroup_the_kernel_log_makes_an_oom_kill_certain(jobtop: Jobtop, limited: Path) -> None:
    options = ("--set", "monitor.without=cgroup", "run", "--external-id", "hog")
    assert inside(limited, jobtop, *options, "--", sys.executable, "-S", "-c", HOG).returncode == 137
    job = show(jobtop, "hog")
    if read_kernel_log():
        assert job["reason"] == "killed by SIGKILL: the kernel's OOM killer (kernel log)"
        assert job["flags"] == ["oom_killed"]
        assert job["findings"]["evidence"][0]["source"] == "kernel log"
    else:
        assert job["reason"] == "killed by SIGKILL; the kernel's OOM killer was active around it, oom_kill +1"
        assert job["flags"] == []
    assert job["resource_usage"]["oom_kills"] is None
    assert job["sources"]["cpu"] == "rusage"


@pytest.mark.parametrize(
    ("script", "reason"), [("exit 137", "exit code 137"), ("kill -9 $$", "killed by SIGKILL")], ids=["exit", "signal"]
)
def test_neither_exit_code_137_nor_a_signal_alone_is_called_oom(
    jobtop: Jobtop, memory: Path, script: str, reason: str
) -> None:
    assert jobtop("run", "--external-id", "it", "--shell", "--", script).returncode == 137
    job = show(jobtop, "it")
    assert (job["reason"], job["flags"], job["resource_usage"]["oom_kills"]) == (reason, [], 0)


def test_a_job_that_could_not_enter_its_cgroup_is_counted_otherwise(jobtop: Jobtop) -> None:
    """Below a threaded cgroup new ones are invalid: they can be made, but no process can be moved there."""
    tree = CGROUPS / "unified"
    if not (tree / "cgroup.procs").exists():
        require("cgroup-v1", "there is no tree of version 2 beside version 1")
    directory = tree / f"threaded-{uuid.uuid4()}"
    directory.mkdir()
    try:
        (directory / "cgroup.type").write_text("threaded")
        spin = "import time\nwhile time.process_time() < 0.3: pass"
        finished = inside(directory, jobtop, "run", "--external-id", "it", "--", sys.executable, "-S", "-c", spin)
        assert finished.returncode == 0, finished.stderr
        assert show(jobtop, "it")["resource_usage"]["cpu_total_seconds"] == pytest.approx(0.32, rel=0.2)
    finally:
        wait_for(lambda: not (directory / "cgroup.threads").read_text())
        directory.rmdir()
