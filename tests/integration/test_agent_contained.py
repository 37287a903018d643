"""What hangs or goes wrong with one job is that job's trouble: the agent goes on with the others."""

import ctypes
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agents import DEADLINE, Line, Load, agents_of, kill, line
from jobtop.core.model import Job
from jobtop.core.record import replace
from jobtop.core.run.facts import read_started
from jobtop.lifecycle.kinds.process import SILENT_DIRECTORY, SILENT_SHIM
from jobtop.lifecycle.queue_runner import SILENT_PROGRAM
from records import assert_one_line, call
from running import children, is_alive, nothing_is_left
from support import Jobtop, require, wait_for

__all__ = ["line", "nothing_is_left"]

MNT_DETACH = 2
VIGILANT = "import jobtop.lifecycle.agent as agent; agent.RECONCILE_SECONDS = 0.2"
IMPATIENT = "import jobtop.lifecycle.queue_runner as starter; starter.START_SECONDS = 0.3"


@pytest.fixture
def dead(tmp_path: Path) -> Iterator[Path]:
    """A directory on a file system with a server that never answers, until the test ends or releases it."""
    try:
        server = os.open("/dev/fuse", os.O_RDWR)
    except OSError as error:
        require("fuse", f"/dev/fuse cannot be opened: {error.strerror}")
    place, libc = tmp_path / "dead", ctypes.CDLL(None, use_errno=True)
    place.mkdir()
    options = f"fd={server},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()}"
    if libc.mount(b"dead", bytes(place), b"fuse", 0, options.encode()) != 0:
        os.close(server)
        require("fuse", f"it cannot be mounted: {os.strerror(ctypes.get_errno())}")
    os.set_inheritable(server, False)
    yield place
    libc.umount2(bytes(place), MNT_DETACH)
    os.close(server)


@contextmanager
def agent_with(jobtop: Jobtop, line: Line, code: str) -> Iterator["subprocess.Popen[bytes]"]:
    """An agent that is a little different; it has to leave in order."""
    words = ["--set", f"store.dir={line.paths.root}", "--set", "agent.idle=5m", "agent", "run"]
    started = [jobtop.python, "-c", f"{code}; from jobtop.__main__ import main; main()", *words]
    with subprocess.Popen(started, env=jobtop.env) as agent:
        try:
            wait_for(lambda: line.agent() or agent.poll() is not None, DEADLINE)
            yield agent
        finally:
            agent.terminate()
    assert agent.returncode == 0


def due_now(line: Line, job: Job) -> None:
    """Wait no longer with a job that was put off."""
    line.jobs.change(
        job.id, lambda row: (replace(row, queue=replace(row.queue, not_before=None)) if row.queue else row, ())
    )


def put_off(line: Line, job: Job) -> Job:
    """The job, once it waits again."""
    return wait_for(lambda: now if (now := line.now(job)).reason is not None else None, DEADLINE)


# What hangs.


def test_a_working_directory_that_hangs_keeps_no_other_job_from_starting(
    jobtop: Jobtop, line: Line, dead: Path
) -> None:
    hanging, beside, later = (Load(jobtop.home / name) for name in ("hanging", "beside", "later"))
    stuck, other = line.submit(hanging.command, cwd=str(dead)), line.submit(beside.command)
    with agent_with(jobtop, line, IMPATIENT):
        beside.check(line.ended(other))
        waiting = put_off(line, stuck)
        assert (waiting.status, waiting.reason, waiting.recorder) == ("queued", SILENT_DIRECTORY, None)
        assert f"{SILENT_DIRECTORY}; until " in call("queue").stdout
        after = line.submit(later.command)
        line.call_agent()
        later.check(line.ended(after))
        assert hanging.pids == []
        ctypes.CDLL(None).umount2(bytes(dead), MNT_DETACH)
        due_now(line, stuck)
        line.call_agent()
        done = line.ended(stuck)
        hanging.check(done)
        assert (done.cwd, done.reason) == (str(dead), None)
        assert line.kinds(stuck) == ["submitted", "put_off", "started", "exited"]


def test_a_program_that_hangs_as_it_is_executed_counts_as_running_and_can_be_killed(
    jobtop: Jobtop, line: Line, dead: Path
) -> None:
    beside = Load(jobtop.home / "beside")
    stuck, other = line.submit((str(dead / "program"),)), line.submit(beside.command)
    with agent_with(jobtop, line, IMPATIENT):
        beside.check(line.ended(other))
        line.becomes(stuck, "running")
        wait_for(lambda: "stalled" in line.kinds(stuck), DEADLINE)
        assert SILENT_PROGRAM in line.log()
        assert call("kill", stuck.id) == (0, f"killed {stuck.name} {stuck.id[:8]}\n", "")
        killed = line.ended(stuck)
        assert (killed.status, killed.signal) == ("cancelled", signal.SIGKILL)


def test_a_shim_that_stands_still_is_set_aside_and_its_job_is_started_by_another(jobtop: Jobtop, line: Line) -> None:
    loads = [Load(jobtop.home / name) for name in ("first", "second")]
    with agent_with(jobtop, line, IMPATIENT) as agent:
        (spare,) = wait_for(lambda: children(agent.pid), DEADLINE)
        os.kill(spare, signal.SIGSTOP)
        jobs = [line.submit(load.command) for load in loads]
        line.call_agent()
        loads[1].check(line.ended(jobs[1]))
        assert put_off(line, jobs[0]).reason == SILENT_SHIM
        wait_for(lambda: not is_alive(spare), DEADLINE)
        due_now(line, jobs[0])
        line.call_agent()
        loads[0].check(line.ended(jobs[0]))


# What goes wrong.


def test_an_end_that_cannot_be_read_waits_for_a_better_word_and_the_others_go_on(jobtop: Jobtop, line: Line) -> None:
    garbled, other = (Load(jobtop.home / name, waits=True) for name in ("garbled", "other"))
    jobs = [line.submit(load.command) for load in (garbled, other)]
    with agent_with(jobtop, line, VIGILANT) as agent:
        for job, load in zip(jobs, (garbled, other), strict=True):
            line.becomes(job, "running")
            load.begins()
        end = line.paths.job(jobs[0].id) / "ended"
        end.write_text("version 1\nown_rss 1\n")
        other.let_end()
        other.check(line.ended(jobs[1]))
        assert line.now(jobs[0]).status == "running", "its supervisor may say better things yet"
        garbled.let_end()
        wait_for(lambda: not is_alive(garbled.pids[0]))
        garbled.check(line.ended(jobs[0]))
        assert agent.poll() is None
    assert "Traceback" not in line.log()


def test_a_job_whose_supervisor_is_gone_and_whose_end_cannot_be_read_is_over(jobtop: Jobtop, line: Line) -> None:
    load = Load(jobtop.home / "load", waits=True)
    job = line.submit(load.command)
    with agent_with(jobtop, line, VIGILANT) as agent:
        line.becomes(job, "running")
        main = load.begins()
        (line.paths.job(job.id) / "ended").write_text("version 1\nown_rss 1\n")
        shim = line.now(job).shim
        assert shim is not None
        os.kill(shim.pid, signal.SIGSTOP)
        for pid in (main, shim.pid):
            os.kill(pid, signal.SIGKILL)
        done = line.ended(job)
        assert done.status == "lost"
        assert done.reason is not None
        assert "ended: final is missing" in done.reason
        assert agent.poll() is None
        again = Load(jobtop.home / "again")
        next_one = line.submit(again.command)
        line.call_agent()
        again.check(line.ended(next_one))
        wait_for(lambda: line.now(job).settled, DEADLINE)


def test_a_lost_job_with_processes_in_its_cgroup_is_settled_once_they_have_exited(jobtop: Jobtop, line: Line) -> None:
    load = Load(jobtop.home / "load", waits=True)
    job = line.submit(load.command)
    with agent_with(jobtop, line, VIGILANT) as agent:
        line.becomes(job, "running")
        load.begins()
        started = read_started(line.paths.job(job.id))
        assert started is not None
        os.kill(started.shim.pid, signal.SIGKILL)
        lost = line.ended(job)
        assert (lost.status, lost.settled) == ("lost", not started.cgroups)
        load.let_end()
        wait_for(lambda: line.now(job).settled, DEADLINE)
        assert agent.poll() is None


def test_a_job_that_cannot_be_told_to_a_shim_is_an_error_and_the_others_go_on(jobtop: Jobtop, line: Line) -> None:
    load = Load(jobtop.home / "load")
    wrong, good = line.submit(load.command), line.submit(load.command)
    file = line.paths.spec(wrong.id)
    file.write_text(file.read_text().replace('"cwd": "/"', '"cwd": 5'))
    with agent_with(jobtop, line, VIGILANT) as agent:
        load.check(line.ended(good))
        done = line.ended(wrong)
        assert done.status == "error"
        assert (done.reason or "").startswith("a bug in jobtop: TypeError")
        wait_for(lambda: len(children(agent.pid)) == 1, DEADLINE)
        assert agent.poll() is None


# What it was told.


def test_an_agent_has_the_settings_it_was_started_with_and_so_has_its_successor(line: Line) -> None:
    def words(pid: int) -> list[str]:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")

    started = call("--set", "agent.idle=4m", "agent", "start")
    assert (started.returncode, started.stderr) == (0, "")
    first = line.new_agent()
    assert "agent.idle=4m" in words(first.identity.pid)
    late = call("--set", "agent.idle=1m", "agent", "start")
    assert_one_line(late.stderr, f"agent {first.identity.pid} ", "settings", "jobtop agent stop")
    wait_for(lambda: line.paths.agent.read_text().strip() == str(first.identity.pid), DEADLINE)
    kill(first)
    second = line.new_agent(first)
    assert "agent.idle=4m" in words(second.identity.pid)
    assert call("agent", "stop") == (0, "", "")
    wait_for(lambda: not agents_of(line.paths.root), DEADLINE)
