"""stop, kill, pause, resume, wait, rm: on running, detached, ended and unknown jobs."""

import json
import os
import re
import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from records import HERE, call, this_process
from running import descendants, is_alive, nothing_is_left, pids_in, running, show, state
from support import Jobtop, wait_for
from terminal import terminal

__all__ = ["nothing_is_left"]
pytestmark = pytest.mark.usefixtures("home")

# Two processes, each of which notes its pid and then counts into a file, line by line.
COUNTING = """
import os, sys, time
os.fork()
with open("pids", "a") as file:
    file.write(f"{os.getpid()}\\n")
while True:
    with open(f"count-{os.getpid()}", "a") as file:
        file.write("x")
    time.sleep(0.01)
"""
IGNORING = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
with open("pids", "a") as file:
    file.write(f"{os.getpid()}\\n")
time.sleep(600)
"""
OBEYING = """
import signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
print("begun", flush=True)
while True:
    signal.pause()
"""

DONE = {"stop": "stopped", "kill": "killed", "pause": "paused", "resume": "resumed", "rm": "deleted"}


def started(jobtop: Jobtop, *args: str) -> str:
    """The id of a detached job."""
    done = jobtop("run", "--detach", *args)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


def python(jobtop: Jobtop, program: str, processes: int, *options: str) -> tuple[str, list[int]]:
    """A detached job and the pids of its processes, once all have told them."""
    job = started(jobtop, *options, "--", jobtop.python, "-I", "-S", "-c", program)
    pids = jobtop.home / "pids"
    return job, wait_for(lambda: found if len(found := pids_in(pids)) == processes else None, 30)


def says(code: int, *args: str) -> str:
    """What a verb says on standard error, when it exits with this code and names on standard output what it changed."""
    answer = call(*args)
    assert answer.returncode == code, answer.stderr
    done = DONE.get(args[0])
    assert all(re.fullmatch(rf"{done} .* [0-9a-f]{{8}}", line) for line in answer.stdout.splitlines()), answer.stdout
    assert bool(answer.stdout) == (done is not None and not answer.stderr), answer.stdout
    return answer.stderr


def shown(reference: str) -> dict[str, Any]:
    """The record of a job."""
    record: dict[str, Any] = json.loads(call("show", reference, "--json").stdout)
    return record


def test_a_detached_job_is_stopped_and_the_record_says_by_whom(jobtop: Jobtop) -> None:
    job, pids = python(jobtop, COUNTING, 2)
    assert says(0, "stop", job[:8]) == ""
    assert not any(map(is_alive, pids))
    record = shown(job)
    assert (record["status"], record["signal"], record["exit_code"]) == ("cancelled", signal.SIGTERM, None)
    assert record["reason"] == "stopped by jobtop stop: killed by SIGTERM"
    assert record["resource_usage"]["cpu_total_seconds"] > 0
    assert "is not running (cancelled)" in says(0, "stop", job)


def test_what_ignores_a_stop_is_killed_after_its_grace(jobtop: Jobtop) -> None:
    job, (pid,) = python(jobtop, IGNORING, 1, "--grace", "0.3s")
    name = Path(f"/proc/{pid}/comm").read_text().strip()
    assert says(0, "stop", job) == ""
    assert not is_alive(pid)
    record = shown(job)
    assert (record["status"], record["signal"], record["flags"]) == ("cancelled", signal.SIGKILL, ["had_to_be_killed"])
    assert record["reason"].endswith(f"; had to be killed: {name} ({pid})")


def test_a_detached_job_is_killed_at_once(jobtop: Jobtop) -> None:
    job, (pid,) = python(jobtop, IGNORING, 1, "--grace", "10m")
    assert says(0, "kill", job) == ""
    assert not is_alive(pid)
    record = shown(job)
    assert (record["status"], record["signal"]) == ("cancelled", signal.SIGKILL)
    assert record["reason"] == "stopped by jobtop kill: killed by SIGKILL"


@pytest.mark.parametrize(("verb", "code"), [("stop", 143), ("kill", 137)])
def test_a_job_in_the_foreground_is_ended_from_elsewhere(jobtop: Jobtop, verb: str, code: int) -> None:
    with running(jobtop, "--quiet", "--", "sh", "-c", "echo begun; sleep 600") as run:
        run.reads(b"begun")
        assert says(0, verb, run.reference) == ""
        assert run.end() == code
        record = shown(run.reference)
    assert record["status"] == "cancelled"
    assert record["reason"].startswith(f"stopped by jobtop {verb}: ")


def test_a_stop_is_over_when_the_record_says_so(jobtop: Jobtop) -> None:
    with running(jobtop, "--quiet", "--", "sh", "-c", "echo begun; sleep 600") as run:
        run.reads(b"begun")
        assert says(0, "stop", run.reference) == ""
        assert shown(run.reference)["status"] == "cancelled"
        run.end()


def test_several_jobs_are_stopped_in_one_call(jobtop: Jobtop) -> None:
    jobs = [started(jobtop, "--", "sleep", "600") for _ in range(3)]
    assert says(0, "stop", *jobs, jobs[0]) == ""
    assert {shown(job)["status"] for job in jobs} == {"cancelled"}


def test_two_stops_at_once_lose_neither_the_job_nor_the_reason(jobtop: Jobtop) -> None:
    job, _ = python(jobtop, COUNTING, 2)
    stops = [jobtop.start("stop", job) for _ in range(4)]
    for stop in stops:
        _, words = stop.communicate(timeout=60)
        assert stop.returncode == 0, words
        assert "bug in jobtop" not in words
    record = shown(job)
    assert (record["status"], record["reason"]) == ("cancelled", "stopped by jobtop stop: killed by SIGTERM")


def test_a_stop_ends_what_an_ended_job_left_running_and_not_how_it_ended(jobtop: Jobtop) -> None:
    script = "sleep 600 > /dev/null 2>&1 & echo $! > pids; exit 3"
    assert jobtop("run", "--quiet", "--external-id", "left", "--", "sh", "-c", script).returncode == 3
    (pid,) = pids_in(jobtop.home / "pids")
    before = shown("left")
    assert (before["status"], before["flags"]) == ("failed", ["left_running"])
    assert is_alive(pid)
    assert "still running" in says(2, "rm", "left")
    assert says(0, "stop", "left") == ""
    assert not is_alive(pid)
    after = shown("left")
    assert [after[key] for key in ("status", "reason", "exit_code", "duration_seconds")] == [
        before[key] for key in ("status", "reason", "exit_code", "duration_seconds")
    ]
    assert after["incomplete"] == []


def counts(home: Path) -> dict[str, int]:
    return {file.name: file.stat().st_size for file in home.glob("count-*")}


def test_a_paused_job_stands_still_and_a_resumed_one_goes_on(jobtop: Jobtop) -> None:
    job, pids = python(jobtop, COUNTING, 2)
    wait_for(lambda: len(counts(jobtop.home)) == 2 or None)
    assert says(0, "pause", job) == ""
    assert [state(pid) for pid in pids] == ["T", "T"]
    assert shown(job)["status"] == "paused"
    before = counts(jobtop.home)
    assert "‖ paused" in call("history").stdout
    assert says(0, "pause", job) == ""
    assert counts(jobtop.home) == before
    assert says(0, "resume", job) == ""
    assert shown(job)["status"] == "running"
    wait_for(lambda: all(size > before[name] for name, size in counts(jobtop.home).items()) or None)
    assert says(0, "pause", job) == ""
    assert says(0, "stop", job) == ""
    assert shown(job)["status"] == "cancelled"
    timeline = [line.split()[-1] for line in call("show", job).stdout.splitlines()]
    assert timeline.count("paused") == 2
    assert timeline.count("resumed") == 1


def test_wait_tells_by_its_exit_code_whether_all_succeeded(jobtop: Jobtop) -> None:
    good = started(jobtop, "--", "sh", "-c", "while [ ! -e go ]; do sleep 0.01; done")
    bad = started(jobtop, "--", "false")
    wait = jobtop.start("wait", good)
    assert "false" in says(1, "wait", bad)
    assert wait.poll() is None
    (jobtop.home / "go").touch()
    assert wait.communicate(timeout=60) == ("", "")
    assert wait.returncode == 0
    assert says(0, "wait", good, good) == ""
    assert says(1, "wait", good, bad).count("\n") == 1


def test_wait_ends_when_the_supervisor_of_the_job_is_killed(jobtop: Jobtop) -> None:
    job, pids = python(jobtop, IGNORING, 1)
    wait = jobtop.start("wait", job)
    kill_shim(jobtop, job)
    os.kill(pids[0], signal.SIGKILL)
    out, words = wait.communicate(timeout=60)
    assert out == ""
    assert "lost" in words
    assert wait.returncode == 1
    assert shown(job)["status"] == "lost"


def kill_shim(jobtop: Jobtop, job: str) -> None:
    started_file = (jobtop.state / "jobs" / job / "started").read_text()
    (shim,) = (line.split()[1] for line in started_file.splitlines() if line.startswith("shim "))
    os.kill(int(shim), signal.SIGKILL)


def test_an_ended_job_is_removed_with_all_that_belongs_to_it(jobtop: Jobtop) -> None:
    kept, gone = (started(jobtop, "--", "echo", word) for word in ("kept", "gone"))
    assert says(0, "wait", kept, gone) == ""
    assert says(0, "rm", gone) == ""
    assert not (jobtop.state / "jobs" / gone).exists()
    assert not (jobtop.state / "specs" / f"{gone}.json").exists()
    assert [job["id"] for job in json.loads(call("history", "--json").stdout)] == [kept]
    assert gone in says(2, "rm", gone)
    assert call("logs", kept).stdout == "kept\n"
    connection = sqlite3.connect(jobtop.state / f"{HERE}.db")
    assert connection.execute("SELECT count(DISTINCT job_seq), max(job_seq) FROM events").fetchone() == (1, 1)
    connection.close()


def test_a_running_job_is_not_removed_nor_what_was_named_with_it(jobtop: Jobtop) -> None:
    ended, alive = started(jobtop, "--", "true"), started(jobtop, "--", "sleep", "600")
    assert says(0, "wait", ended) == ""
    refusal = says(2, "rm", ended, alive)
    assert f"jobtop stop {alive[:8]}" in refusal
    assert refusal.count("\n") == 1
    assert shown(ended)["status"] == "success"
    assert shown(alive)["status"] == "running"
    assert says(0, "kill", alive) == ""


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    """A process that has nothing to do with any job."""
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process
        process.kill()


def change_row(jobtop: Jobtop, job: str, **values: Any) -> None:
    connection = sqlite3.connect(jobtop.state / f"{HERE}.db")
    names = ", ".join(f"{name} = ?" for name in values)
    connection.execute(f"UPDATE jobs SET {names} WHERE id = ?", (*values.values(), job))
    connection.commit()
    connection.close()


@pytest.mark.parametrize("verb", ["stop", "kill", "pause"])
def test_a_process_that_has_the_pid_of_a_supervisor_is_not_touched(
    jobtop: Jobtop, bystander: subprocess.Popen[bytes], verb: str
) -> None:
    job = started(jobtop, "--", "true")
    assert says(0, "wait", job) == ""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    change_row(jobtop, job, shim_pid=bystander.pid, shim_start=1, shim_boot=boot)
    assert "is not running" in says(0, verb, job)
    change_row(jobtop, job, shim_pid=os.getppid(), shim_boot="another boot")
    assert "is not running" in says(0, verb, job)
    assert state(bystander.pid) == "S"


def test_a_running_job_whose_supervisor_was_another_process_is_not_signalled(jobtop: Jobtop) -> None:
    with running(jobtop, "--quiet", "--", "sh", "-c", "echo begun; sleep 600") as run:
        run.reads(b"begun")
        job = shown(run.reference)["id"]
        members = descendants(run.shim())
        connection = sqlite3.connect(jobtop.state / f"{HERE}.db")
        (start,) = connection.execute("SELECT shim_start FROM jobs").fetchone()
        connection.close()
        change_row(jobtop, job, shim_start=start + 1)
        assert "is not running" in says(0, "stop", job)
        assert all(map(is_alive, members))
        change_row(jobtop, job, shim_start=start)
        assert says(0, "stop", job) == ""
        run.end()


@pytest.mark.parametrize("verb", ["stop", "kill"])
def test_a_stop_before_run_has_recorded_the_start_finds_the_job(jobtop: Jobtop, verb: str) -> None:
    job, (pid,) = python(jobtop, IGNORING, 1, "--grace", "0.1s")
    us = this_process()
    unknown = dict.fromkeys(("pid", "shim_boot", "shim_pid", "shim_start", "start_time"))
    change_row(jobtop, job, recorder_boot=us.boot, recorder_pid=us.pid, recorder_start=us.start, **unknown)
    assert says(0, verb, job) == ""
    assert not is_alive(pid)


def test_a_job_of_another_host_is_not_acted_on(jobtop: Jobtop) -> None:
    job = started(jobtop, "--", "true")
    assert says(0, "wait", job) == ""
    change_row(jobtop, job, host="elsewhere")
    for verb in ("stop", "kill", "pause", "resume"):
        assert "elsewhere" in says(2, verb, job)


def test_a_stop_while_run_records_is_in_the_reason(jobtop: Jobtop) -> None:
    for _ in range(3):
        with running(jobtop, "--quiet", "--", jobtop.python, "-I", "-S", "-c", OBEYING) as run:
            run.reads(b"begun")
            assert says(0, "stop", run.reference) == ""
            run.end()
            record = shown(run.reference)
            assert says(0, "rm", record["id"]) == ""
        assert (record["status"], record["reason"]) == ("cancelled", "stopped by jobtop stop: exit code 0")


def test_an_unprivileged_user_controls_jobs_too(unprivileged: Jobtop) -> None:
    job, pids = python(unprivileged, COUNTING, 2)
    assert unprivileged("pause", job).returncode == 0
    assert [state(pid) for pid in pids] == ["T", "T"]
    assert unprivileged("stop", job).returncode == 0
    assert not any(map(is_alive, pids))
    assert show(unprivileged, job)["status"] == "cancelled"


def test_a_filter_stops_its_running_jobs_after_a_yes_and_leaves_others(jobtop: Jobtop) -> None:
    one, two, other = (started(jobtop, "--name", name, *tags, "--", "sleep", "600") for name, *tags in SLEEPERS)
    done = jobtop("run", "--tag", "batch=1", "--name", "over", "--", "true")
    assert done.returncode == 0
    refused = jobtop("stop", "tag:batch")
    assert refused.returncode == 2
    assert ["one" in refused.stderr, "two" in refused.stderr, "over" in refused.stderr] == [True, True, False]
    assert "--yes" in refused.stderr.splitlines()[-1]
    assert {shown(job)["status"] for job in (one, two, other)} == {"running"}
    removed = jobtop("rm", "tag:batch", "--yes")
    assert (removed.returncode, removed.stdout.split()[:2]) == (0, ["deleted", "over"])
    with terminal(jobtop) as shell:
        shell.enter("$J stop tag:batch; echo code=$?")
        shell.shows("Stop 2 jobs?")
        shell.enter("n")
        shell.shows("code=1")
        assert {shown(job)["status"] for job in (one, two, other)} == {"running"}
        shell.enter("$J stop tag:batch; echo again=$?")
        wait_for(lambda: shell.screen().count("Stop 2 jobs?") == 2, 20)
        shell.enter("y")
        shell.shows("again=0")
        assert f"stopped one {one[:8]}" in shell.screen()
    assert [shown(job)["status"] for job in (one, two, other)] == ["cancelled", "cancelled", "running"]
    assert jobtop("kill", "other").stdout == f"killed other {other[:8]}\n"


SLEEPERS = (("one", "--tag", "batch=1"), ("two", "--tag", "batch=1"), ("other",))
