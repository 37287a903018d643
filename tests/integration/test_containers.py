"""Jobs in containers of real engines: their numbers are true, their limits hold, and nothing of them is left."""

import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from container_jobs import IN_IMAGE, PYTHON, WITH_PYTHON, cleared, containers_of_jobs, engine
from engines import IMAGE, RealEngine
from running import nothing_is_left, running, show, the_log
from support import Jobtop
from terminal import terminal

__all__ = ["engine", "nothing_is_left"]

MIB = 1 << 20
LOAD = """
import os, sys, time
held = b"x" * (150 << 20)
with open("/tmp/written", "wb") as file:
    for _ in range(32): file.write(held[:1 << 20])
    file.flush()
    os.fsync(file.fileno())
while time.process_time() < 2: pass
words = dict(line.split(":") for line in open("/proc/self/status"))
print(time.process_time(), *(int(words[name].split()[0]) * 1024 for name in ("RssAnon", "VmHWM")), flush=True)
os._exit(3)
"""
SHORT = "import os, time\nwhile time.process_time() < 0.2: pass\nprint(time.process_time(), flush=True)\nos._exit(0)"
# Burns a second of CPU time, and says how much longer that took.
HALF = "import time\nbegan = time.monotonic()\nwhile time.process_time() < 1: pass\nprint(time.monotonic() - began - 1)"
# As many sleepers as may be, then says how many there were.
CROWD = "n=0; while [ $n -lt 30 ]; do sleep 5 & n=$((n + 1)); echo $n; done"


@pytest.fixture
def contained(jobtop: Jobtop, engine: RealEngine) -> Iterator[Jobtop]:
    with cleared(jobtop, engine) as found:
        yield found


def test_the_numbers_of_a_known_load_are_true(contained: Jobtop) -> None:
    finished = contained("run", "--external-id", "load", *WITH_PYTHON, "--", *PYTHON, LOAD)
    assert finished.returncode == 3, finished.stderr
    cpu_seconds, anonymous_bytes, resident_bytes = map(float, finished.stdout.split())
    job = show(contained, "load")
    usage = job["resource_usage"]
    assert (job["kind"], job["status"], job["exit_code"]) == ("container", "failed", 3)
    assert usage["cpu_total_seconds"] == pytest.approx(cpu_seconds, rel=0.02)
    # Pages of the interpreter's files, which other processes share, count in part.
    assert anonymous_bytes * 0.97 <= usage["memory_peak_bytes"] <= resident_bytes * 1.03
    assert usage["io_write_bytes"] == pytest.approx(32 * MIB, rel=0.02)
    assert job["findings"]["container"]["image"] == IMAGE
    assert the_log(contained, "load") == finished.stdout


def test_a_life_of_a_third_of_a_second_is_exact(contained: Jobtop) -> None:
    finished = contained("run", "--external-id", "short", *WITH_PYTHON, "--", *PYTHON, SHORT)
    assert finished.returncode == 0, finished.stderr
    job = show(contained, "short")
    if not job["incomplete"]:
        measured = job["resource_usage"]["cpu_total_seconds"]
        assert measured == pytest.approx(float(finished.stdout), abs=0.06)  # the runtime starts it in there
    assert contained("show", "short").returncode == 0


def test_a_kill_by_the_memory_limit_is_a_failure_with_evidence(contained: Jobtop) -> None:
    command = (*PYTHON, "held = b'x' * (200 << 20)")
    finished = contained("run", "--external-id", "oom", "--memory", "64M", *WITH_PYTHON, "--", *command)
    assert finished.returncode == 128 + signal.SIGKILL, finished.stderr
    job = show(contained, "oom")
    assert job["status"] == "failed"
    assert job["resource_usage"]["oom_kills"] >= 1
    assert "memory" in (job["reason"] or job["error"] or "").lower()
    assert job["limits"]["enforced"]


def test_limits_hold(contained: Jobtop) -> None:
    half = contained("run", "--external-id", "half", "--cpus", "0.5", *WITH_PYTHON, "--", *PYTHON, HALF)
    assert half.returncode == 0, half.stderr
    assert float(half.stdout) > 0.5  # seconds more than its CPU time of a second, less the burst at the start
    assert show(contained, "half")["resource_usage"]["cpu_total_seconds"] >= 1.0
    crowd = contained("run", "--external-id", "crowd", "--pids", "10", *IN_IMAGE, "--", "sh", "-c", CROWD)
    assert crowd.returncode != 0
    assert int(crowd.stdout.split()[-1]) <= 10
    assert show(contained, "crowd")["limits"]["pids"] == 10


def test_input_and_signals_reach_the_container(contained: Jobtop) -> None:
    echoed = contained("run", *IN_IMAGE, "--", "sh", "-c", "cat; echo done >&2", stdin="one\ntwo\n")
    assert (echoed.returncode, echoed.stdout) == (0, "one\ntwo\n")
    assert "done\n" in echoed.stderr
    script = "trap 'echo usr1; exit 6' USR1; echo ready; while :; do sleep 0.05; done"
    with running(contained, "--quiet", *IN_IMAGE, "--", "sh", "-c", script) as run:
        run.reads(b"ready")
        run.send(signal.SIGUSR1)
        run.reads(b"usr1")
        assert run.end() == 6


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_ends_a_program_that_has_no_handler_for_it(contained: Jobtop, number: signal.Signals) -> None:
    with running(contained, "--quiet", *IN_IMAGE, "--", "sh", "-c", "echo ready; exec sleep 60") as run:
        run.reads(b"ready")
        began = time.monotonic()
        run.send(number)
        assert run.end() == 128 + number
    assert time.monotonic() - began < 6
    job = show(contained, "the-job")
    status = "failed" if number is signal.SIGUSR1 else "cancelled"  # which is no request to stop
    assert (job["status"], job["signal"], job["flags"]) == (status, number, [])


def test_ctrl_c_at_a_terminal_ends_a_program_that_has_no_handler_for_it(contained: Jobtop) -> None:
    with terminal(contained) as shell:
        shell.enter(f"$J run --no-ui {' '.join(IN_IMAGE)} -- sh -c 'echo in''side; exec sleep 60'; echo code=$?")
        shell.shows("inside")
        shell.press("C-c")
        shell.shows("code=130")


def test_a_stopped_job_ends_with_its_container(contained: Jobtop) -> None:
    script = "trap 'echo asked; exit 8' TERM; echo ready; while :; do sleep 0.05; done"
    with running(contained, "--quiet", *IN_IMAGE, "--", "sh", "-c", script) as run:
        run.reads(b"ready")
        assert contained("stop", "the-job").returncode == 0
        run.reads(b"asked")
        run.end()
    assert show(contained, "the-job")["exit_code"] == 8


def test_a_job_keeps_its_container_if_asked(contained: Jobtop, engine: RealEngine, tmp_path: Path) -> None:
    assert contained("run", "--keep", *IN_IMAGE, "--", "true").returncode == 0
    (kept,) = containers_of_jobs(contained, engine)
    assert kept["State"] == "exited"
    engine.remove(kept["Id"])


@pytest.mark.parametrize(
    ("command", "code"), [(("no-such-command",), 127), (("/etc/passwd",), 126)], ids=["not found", "not executable"]
)
def test_a_command_that_cannot_start_is_told_as_a_shell_would(
    contained: Jobtop, command: tuple[str, ...], code: int
) -> None:
    finished = contained("run", "--external-id", "bad", *IN_IMAGE, "--", *command)
    assert finished.returncode == code, finished.stderr
    assert show(contained, "bad")["status"] == "error"
    absent = contained("run", "--image", "absent:1", "--pull", "never", "--", "true")
    assert absent.returncode == 125
    assert "absent:1" in absent.stderr


def test_a_python_program_runs_a_job_in_a_container(contained: Jobtop) -> None:
    program = f"import jobtop\njob = jobtop.run(['echo', 'hello'], image={IMAGE!r}, memory='64M', capture_output=True)"
    program += "\nprint(job.kind, job.status, job.limits.enforced, job.stdout)"
    finished = subprocess.run(
        [contained.python, "-c", program], env=dict(contained.env), capture_output=True, text=True, timeout=60
    )
    assert finished.stdout == "container success True hello\n\n", finished.stderr
