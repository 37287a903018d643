"""The agent, with real processes: it comes by itself, watches jobs, is killed, has successors, and leaves."""

import json
import os
import random
import resource
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agents import DEADLINE, Line, Load, agents_of, kill, kill_with_spares, line
from jobtop.core.clock import BOOTTIME
from jobtop.core.model import Job
from jobtop.core.run.request import Request
from jobtop.core.shim.revival import SETTLED_SECONDS
from jobtop.lifecycle.agent import GAP_SECONDS
from jobtop.lifecycle.start import start_and_stay
from records import assert_one_line, call
from running import descendants, is_alive, kill_if_alive, nothing_is_left, processes_of, running
from support import Jobtop, wait_for

__all__ = ["line", "nothing_is_left"]

MIB = 1 << 20
QUICK = ("--interval", "0.1s")


def agent_verb(*words: str) -> str:
    """What `jobtop agent …` prints; it has to succeed."""
    answer = call("agent", *words)
    assert (answer.returncode, answer.stderr) == (0, "")
    return answer.stdout


def detached(jobtop: Jobtop, line: Line, load: Load, *options: str) -> Job:
    """A job that was started by a process which is gone."""
    started = jobtop("run", "--detach", *QUICK, *options, "--", *load.command)
    assert (started.returncode, started.stderr) == (0, "")
    return line.jobs.find(started.stdout.strip())


def gone(line: Line) -> None:
    """Wait until no agent is there."""
    wait_for(lambda: not agents_of(line.paths.root), DEADLINE)


# Coming and going.


def test_a_detached_job_is_watched_by_an_agent_that_comes_by_itself_and_leaves(jobtop: Jobtop, line: Line) -> None:
    load = Load(jobtop.home / "load", 0.8, "3", 64)
    job = detached(jobtop, line, load)
    agent = line.new_agent()
    assert line.becomes(job, "running").recorder in (None, agent.identity)
    done = line.ended(job)
    load.check(done)
    usage = done.usage
    assert usage.samples is not None
    assert usage.samples >= 3
    assert usage.cpu_percent_min is not None
    assert 0 <= usage.cpu_percent_min <= (usage.cpu_percent_mean or 0) <= (usage.cpu_percent_peak or 0)
    assert usage.memory_min_bytes is not None
    assert usage.memory_min_bytes <= (usage.memory_mean_bytes or 0) <= (usage.memory_peak_bytes or 0)
    assert 64 * MIB < (usage.memory_peak_bytes or 0) < 96 * MIB
    assert done.monitor.cpu_seconds is not None
    assert "unsampled" not in line.kinds(job)
    gone(line)
    assert line.agent() is None
    assert f"agent {agent.identity.pid} leaves" in line.log()
    assert line.paths.agent.read_text() == ""


def test_the_verbs_start_show_and_stop_it(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOBTOP_AGENT_IDLE", "5m")
    none = call("agent", "status")
    assert (none.returncode, none.stdout) == (1, "no agent; 0 running, 0 queued\n")
    assert json.loads(call("agent", "status", "--json").stdout)["pid"] is None
    assert_one_line(call("agent", "stop").stderr, "no agent")
    line.submit(("true",), not_before=time.time() + 3600)
    said = agent_verb("start")
    (pid,) = agents_of(line.paths.root)
    assert said == agent_verb("start") == f"agent {pid} serves {line.paths.store}\n"
    assert agent_verb("status").startswith(f"agent {pid} for ")
    assert agent_verb("status").endswith("; 0 running, 1 queued\n")
    shown = json.loads(agent_verb("status", "--json"))
    since = shown.pop("since")
    assert shown == {"schema_version": 1, "pid": pid, "running": 0, "queued": 1}
    assert since.endswith("Z")
    second = call("agent", "run")
    assert second.returncode == 1
    assert_one_line(second.stderr, "another agent", str(line.paths.store), "jobtop agent status")
    stopped = call("agent", "stop")
    assert (stopped.returncode, stopped.stdout) == (0, "")
    assert_one_line(stopped.stderr, "1 job waits", "jobtop agent start")
    assert not is_alive(pid)
    gone(line)
    assert line.statuses() == {"queued": 1}


def test_an_agent_is_no_part_of_a_job(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOBTOP_JOB_ID", "outer")
    for verb in ("start", "run"):
        refused = call("agent", verb)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert_one_line(refused.stderr, "agent", "part of a job")


def test_the_unit_starts_the_agent_of_this_store(line: Line) -> None:
    unit = agent_verb("unit").splitlines()
    assert unit[0] == "[Unit]"
    (start,) = (row for row in unit if row.startswith("ExecStart="))
    assert start.endswith(f" -m jobtop --set store.dir={line.paths.root} agent run")
    assert "KillMode=process" in unit, "or systemd would end the jobs with the agent"


# Being killed.


def test_an_agent_that_is_killed_has_a_successor_without_a_request(jobtop: Jobtop, line: Line) -> None:
    load = Load(jobtop.home / "load", 0.3, "137", 16, waits=True)
    job = detached(jobtop, line, load)
    first = line.new_agent()
    wait_for(lambda: line.now(job).recorder == first.identity, DEADLINE)
    kill(first)
    second = line.new_agent(first)
    wait_for(lambda: line.now(job).recorder == second.identity, DEADLINE)
    load.let_end()
    load.check(line.ended(job))
    assert line.kinds(job).count("exited") == 1


def test_unmonitored_jobs_go_on_and_the_next_agent_adopts_them(jobtop: Jobtop, line: Line) -> None:
    """Of a killed agent, and of a killed `run`."""
    left = Load(jobtop.home / "left", 0.4, "SIGKILL", 32, waits=True)
    attended = Load(jobtop.home / "attended", 0.4, "137", 48, waits=True)
    with running(jobtop, "--no-ui", *QUICK, "--", *attended.command, start_new_session=True) as run:
        attended.begins()
        jobs = {left: detached(jobtop, line, left), attended: line.jobs.find(run.reference)}
        wait_for(lambda: line.now(jobs[attended]).recorder, DEADLINE)
        run.process.kill()
        run.end()
        first = line.new_agent()
        for job in jobs.values():
            wait_for(lambda job=job: line.now(job).recorder == first.identity, DEADLINE)  # type: ignore[misc]
        left.begins()
        adopted_at = time.monotonic()
        # Until their shims are content with the agent: they would start another.
        wait_for(lambda: time.monotonic() - adopted_at > SETTLED_SECONDS + 1.0)
        kill_with_spares(first)
        killed_at = time.clock_gettime(BOOTTIME)
        wait_for(lambda: time.clock_gettime(BOOTTIME) - killed_at > GAP_SECONDS + 0.5)
        assert line.agent() is None
        assert all(is_alive(load.pids[0]) for load in jobs)
        line.call_agent()
        second = line.new_agent(first)
        for load, job in jobs.items():
            wait_for(lambda job=job: line.now(job).recorder == second.identity, DEADLINE)  # type: ignore[misc]
            load.let_end()
        for load, job in jobs.items():
            done = line.ended(job)
            load.check(done)
            (gap,) = (event.detail for event in line.jobs.events(job) if event.kind == "unsampled")
            age = killed_at - (done.start_boottime or 0.0)
            assert gap["until"] - gap["since"] > GAP_SECONDS
            assert age - 2 <= gap["since"] <= age
            assert (done.usage.memory_peak_bytes or 0) > (32 if load is left else 48) * MIB
            assert (done.usage.samples or 0) > 2


def test_after_a_reboot_a_job_is_lost_with_what_is_known_of_it_and_tried_again(jobtop: Jobtop, line: Line) -> None:
    """Its pids may belong to other processes by then: only the boot id tells."""
    load = Load(jobtop.home / "load", 0.05, "0", 16, waits=True)
    job = line.submit(load.command, retries=1)
    line.call_agent()
    line.becomes(job, "running")
    wait_for(lambda: samples_of(line, job) > 1, DEADLINE)
    first = line.new_agent()
    shim = line.now(job).shim
    assert shim is not None
    os.kill(first.identity.pid, signal.SIGSTOP)
    spares = set(descendants(first.identity.pid)) - {shim.pid, *descendants(shim.pid)}
    for pid in spares:
        kill_if_alive(pid)
    kill(first)
    boot_differently(line, job, shim.boot)
    line.call_agent()
    lost = line.becomes(job, "lost")
    assert lost.reason is not None
    assert "supervisor died" in lost.reason
    assert (lost.exit_code, lost.signal) == (None, None)
    assert (lost.usage.memory_peak_bytes or 0) > 16 * MIB
    wait_for(lambda: (queued := line.now(job).queue) is not None and queued.retried_by, DEADLINE)
    os.kill(shim.pid, signal.SIGTERM)  # only now: what its shim leaves would be its end
    wait_for(lambda: len(load.pids) == 2, DEADLINE)
    load.let_end()
    again = line.ended(line.queue.last_attempt(line.now(job)))
    assert again.id != job.id
    assert (again.status, again.queue and again.queue.attempt) == ("success", 2)


def samples_of(line: Line, job: Job) -> int:
    with line.database.reading() as connection:
        sql = "SELECT count(*) FROM head WHERE job_seq = ?"
        return int(connection.execute(sql, (job.seq,)).fetchone()[0])


def boot_differently(line: Line, job: Job, boot: str) -> None:
    """As if the machine had been started anew since the job was."""
    started = line.paths.job(job.id) / "started"
    started.write_text(started.read_text().replace(boot, "another-boot"))
    with line.database.writing() as connection:
        connection.execute(
            "UPDATE jobs SET shim_boot = 'another-boot', recorder_boot = 'another-boot' WHERE id = ?", (job.id,)
        )


# One of them, whoever calls.


@pytest.mark.parametrize("rounds", [4, pytest.param(200, marks=[pytest.mark.soak, pytest.mark.timeout(1200)])])
def test_two_consoles_and_a_submitter_that_call_at_once_get_one_agent(
    line: Line, monkeypatch: pytest.MonkeyPatch, rounds: int
) -> None:
    monkeypatch.setenv("JOBTOP_AGENT_IDLE", "5m")
    root = line.paths.root
    for number in range(1, rounds + 1):
        together([lambda: run_now(root)] * 2 + [lambda: submit_some(root)])
        agent = line.new_agent()
        wait_for(lambda: agents_of(root) == [agent.identity.pid], DEADLINE)  # noqa: B023
        assert line.log().count(" serves ") == number, line.log()
        line.drained()
        os.kill(agent.identity.pid, signal.SIGTERM)
        gone(line)
    assert line.statuses() == {"success": 5 * rounds}


def together(actions: list[Callable[[], None]]) -> None:
    """All at one moment; what goes wrong in one of them is the failure."""
    barrier, problems = threading.Barrier(len(actions)), []

    def act(action: Callable[[], None]) -> None:
        barrier.wait()
        try:
            action()
        except BaseException as error:  # noqa: BLE001
            problems.append(error)

    threads = [threading.Thread(target=act, args=(action,)) for action in actions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems, problems


def run_now(root: Path) -> None:
    """What the form of a console does."""
    own = Line(root)
    start_and_stay(own.paths, own.config, Request(("true",), "/"), pytest.fail)
    own.close()


def submit_some(root: Path) -> None:
    own = Line(root)
    for _ in range(3):
        own.submit(("true",))
        own.call_agent()
    own.close()


@pytest.mark.parametrize("rounds", [8, pytest.param(200, marks=[pytest.mark.soak, pytest.mark.timeout(1200)])])
def test_a_job_that_comes_as_the_agent_leaves_is_not_left_behind(home: Path, line: Line, rounds: int) -> None:
    dice = random.Random(rounds)
    loads = [Load(home.parent / f"job-{number}") for number in range(rounds)]
    for load in loads:
        job = line.submit(load.command)
        line.call_agent()
        line.ended(job)
        leaves_at = time.monotonic() + dice.choice([0.0, dice.uniform(0, 0.25)])
        wait_for(lambda: line.agent() is None or time.monotonic() > leaves_at)  # noqa: B023
    gone(line)
    assert [len(load.pids) for load in loads] == [1] * rounds


# Trouble.


def test_jobs_that_cannot_start_are_errors_and_the_others_go_on(home: Path, line: Line) -> None:
    load = Load(home.parent / "load")
    forgotten = line.submit(load.command)
    line.paths.spec(forgotten.id).unlink()
    garbled = line.submit(load.command)
    line.paths.spec(garbled.id).write_text("{")
    missing = line.submit(("/no/such/program",))
    nowhere = line.submit(load.command, cwd="/no/such/place")
    good = line.submit(load.command)
    line.call_agent()
    load.check(line.ended(good))
    for job, words in (
        (forgotten, "spec_days"),
        (garbled, "spec_days"),
        (missing, "/no/such/program: command not found"),
        (nowhere, "cannot enter /no/such/place"),
    ):
        done = line.ended(job)
        assert done.status == "error"
        assert words in (done.reason or "")
    gone(line)


def test_an_agent_without_jobs_leaves_when_its_store_is_deleted(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOBTOP_AGENT_IDLE", "5m")
    line.call_agent()
    line.new_agent()
    shutil.rmtree(line.paths.root)
    gone(line)
    assert not line.paths.root.exists()


def test_a_job_that_was_deleted_under_the_agent_affects_no_other(jobtop: Jobtop, line: Line) -> None:
    deleted, other = (Load(jobtop.home / name, waits=True) for name in ("deleted", "other"))
    jobs = [line.submit(load.command) for load in (deleted, other)]
    line.call_agent()
    for job, load in zip(jobs, (deleted, other), strict=True):
        line.becomes(job, "running")
        load.begins()
    line.jobs.delete(line.now(jobs[0]))
    deleted.let_end()
    wait_for(lambda: not is_alive(deleted.pids[0]))
    other.let_end()
    other.check(line.ended(jobs[1]))
    later = Load(jobtop.home / "later")
    job = line.submit(later.command)
    line.call_agent()
    later.check(line.ended(job))
    gone(line)
    assert "ERROR" not in line.log()


def test_an_agent_that_cannot_write_its_store_goes_on_when_it_can(
    jobtop: Jobtop, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JOBTOP_AGENT_IDLE", "5m")
    running_load, waiting_load = Load(jobtop.home / "running", 0.2, "3", waits=True), Load(jobtop.home / "waiting")
    first = line.submit(running_load.command)
    line.call_agent()
    agent = line.new_agent()
    line.becomes(first, "running")
    before = resource.prlimit(agent.identity.pid, resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
    second = line.submit(waiting_load.command)
    line.call_agent()
    running_load.let_end()
    wait_for(lambda: " ERROR agent: " in line.log(), DEADLINE)
    assert (line.now(first).status, line.now(second).status) == ("running", "queued")
    resource.prlimit(agent.identity.pid, resource.RLIMIT_FSIZE, before)
    running_load.check(line.ended(first))
    waiting_load.check(line.ended(second))
    assert line.agent() == agent
    assert line.log().count(" ERROR agent: ") <= 3, line.log()
    assert agent_verb("stop") == ""


def test_an_agent_that_fails_of_itself_says_so_and_is_not_started_again_and_again(jobtop: Jobtop, line: Line) -> None:
    broken = "import jobtop.lifecycle.agent as broken; broken.Agent._record_ends = lambda _: 1 / 0"
    code = f"{broken}; from jobtop.__main__ import main; main()"
    line.submit(("true",), not_before=time.time() + 3600)
    failed = subprocess.run(
        [jobtop.python, "-c", code, "--set", f"store.dir={line.paths.root}", "agent", "run"],
        env=jobtop.env,
        capture_output=True,
        text=True,
    )
    assert failed.returncode == 125
    assert "a bug in jobtop: ZeroDivisionError" in failed.stderr
    wait_for(lambda: not processes_of(jobtop))
    assert line.log().count(" serves ") == 1
