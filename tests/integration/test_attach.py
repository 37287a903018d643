"""Processes that run already, watched and acted on as a job, by root and by a user without privileges."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from records import NO_PROCESS, assert_one_line, call
from running import descendants, ended, is_alive, kill_if_alive, nothing_is_left, show, state
from support import Jobtop, wait_for

__all__ = ["nothing_is_left"]
pytestmark = pytest.mark.usefixtures("nothing_is_left")
OFTEN = {"JOBTOP_MONITOR_INTERVAL": "0.1s", "JOBTOP_RUN_GRACE": "0.2s"}
MIB = 1 << 20
ROUNDING = 0.025  # of children's user and of their system time to 10 ms each
# It has waited for a child, and holds less than it once did; another child lives on. At a line of input both go on;
# it reports what it used, and then waits to be released.
LOAD = """
import os, resource, sys, time
def burn(seconds):
    until = time.process_time() + seconds
    while time.process_time() < until: pass
def used():
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
held = b"x" * (120 << 20)
del held
if os.fork() == 0: burn(0.2); os._exit(0)
os.wait()
go, went = os.pipe()
if os.fork() == 0: burn(0.1); os.close(went); os.read(go, 1); burn(0.1); os._exit(0)
burn(0.3)
print("ready", flush=True)
sys.stdin.readline()
os.close(went)
burn(0.1)
os.wait()
print(used(), flush=True)
sys.stdin.readline()
"""
# The child does not end when it is told to.
STUBBORN = """
import os, signal, sys
if os.fork() == 0: signal.signal(signal.SIGTERM, signal.SIG_IGN); print("ready", flush=True)
sys.stdin.readline()
"""


class Load:
    """A process that jobtop did not start."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process, self.pid = process, process.pid

    def says(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline().strip()

    def go_on(self) -> None:
        assert self.process.stdin
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()

    @property
    def mark_bytes(self) -> int:
        """The kernel's high-water mark of its memory."""
        with open(f"/proc/{self.pid}/status") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM:"))


@contextmanager
def loaded(jobtop: Jobtop, code: str) -> Iterator[Load]:
    """A load of whoever calls this jobtop, once it is ready."""
    words = [*jobtop.prefix, jobtop.python, "-I", "-S", "-c", code]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=jobtop.home) as process:
        load = Load(process)
        try:
            assert load.says() == "ready"
            yield load
        finally:
            for pid in (process.pid, *descendants(process.pid)):
                kill_if_alive(pid)


def attached(jobtop: Jobtop, load: Load, *words: str) -> str:
    """The id of the job that the load is from now on."""
    done = jobtop("attach", str(load.pid), *words, env=OFTEN)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


def samples(jobtop: Jobtop, job: str) -> list[dict[str, Any]]:
    printed = jobtop("metrics", job, "--no-follow", "--format", "jsonl").stdout
    return [json.loads(line) for line in printed.splitlines()]


def cpu_seconds(sample: dict[str, Any]) -> float:
    return float((sample["cpu"]["user"] or 0.0) + (sample["cpu"]["system"] or 0.0))


def test_what_a_load_used_is_counted_since_it_began(unprivileged: Jobtop) -> None:
    jobtop = unprivileged
    with loaded(jobtop, LOAD) as load:
        job = attached(jobtop, load, "--name", "load", "--tag", "a=b", "--note", "met")
        wait_for(lambda: samples(jobtop, job)[1:])
        top = json.loads(jobtop("top", job, "--once", "--json").stdout)
        rows = [(row["pid"], row["parent"]) for row in top["processes"]]
        assert rows == [(load.pid, os.getpid()), (descendants(load.pid)[0], load.pid)]
        mark = load.mark_bytes
        load.go_on()
        used = float(load.says())
        wait_for(lambda: cpu_seconds(samples(jobtop, job)[-1]) > used - ROUNDING)
        load.go_on()
        record = ended(jobtop, job)
        curve = samples(jobtop, job)
    assert (record["status"], record["exit_code"], record["flags"]) == ("unknown", None, ["attached"])
    assert record["reason"] == "it ended; its exit status is not known, since jobtop did not start it"
    assert (record["name"], record["tags"], record["note"], record["pid"]) == ("load", {"a": "b"}, "met", load.pid)
    usage = record["resource_usage"]
    assert usage["cpu_total_seconds"] == pytest.approx(used, abs=ROUNDING)
    assert usage["memory_peak_bytes"] == pytest.approx(mark, rel=0.03)
    assert usage["memory_peak_bytes"] > 120 * MIB
    assert usage["processes_peak"] == 2
    assert record["sources"]["cpu"] == "sampled"
    assert [entry.partition(" in its last ")[0] for entry in record["incomplete"]] == ["all: what it did"]
    totals = [cpu_seconds(sample) for sample in curve]
    assert totals[0] == 0
    assert totals == sorted(totals)
    assert 0.9 * used > totals[1] > 0.6 * used  # of the time before it was met


def test_a_stop_ends_the_whole_tree_and_all_else_is_as_with_any_job(jobtop: Jobtop) -> None:
    with loaded(jobtop, STUBBORN) as load:
        job = attached(jobtop, load)
        pids = [load.pid, *descendants(load.pid)]
        again = jobtop("attach", str(pids[1]))
        assert again.returncode == 2
        assert again.stderr.startswith(f"jobtop: process {pids[1]} already belongs to job {job[:8]} ")
        assert jobtop("pause", job).returncode == 0
        assert {state(pid) for pid in pids} == {"T"}
        assert show(jobtop, job)["status"] == "paused"
        assert jobtop("rm", job).returncode == 2
        assert jobtop("resume", job).returncode == 0
        assert "T" not in {state(pid) for pid in pids}
        assert jobtop("stop", job).returncode == 0
        assert not any(map(is_alive, pids))
    record = show(jobtop, job)
    assert record["status"] == "cancelled"
    assert record["reason"].startswith("stopped by jobtop stop; its exit status is not known")
    for verb in ("logs", "retry"):
        refused = jobtop(verb, job)
        assert (refused.returncode, "jobtop did not start it" in refused.stderr) == (2, True)
    assert jobtop("rm", job).returncode == 0


def test_who_waits_is_told_that_the_end_is_not_known_though_the_agent_was_killed(jobtop: Jobtop) -> None:
    with (
        loaded(jobtop, STUBBORN) as load,
        jobtop.start("attach", "--wait", str(load.pid), env=OFTEN) as waiting,
    ):
        assert waiting.stdout
        job = waiting.stdout.readline().strip()
        wait_for(lambda: samples(jobtop, job)[1:])
        agent = json.loads(jobtop("agent", "status", "--json").stdout)["pid"]
        os.kill(agent, signal.SIGKILL)
        assert show(jobtop, job)["status"] == "running"
        load.end()
        _, words = waiting.communicate(timeout=30)
    assert waiting.returncode == 1
    assert_one_line(words, f"job {job[:8]}: ", "exit status is not known")
    assert show(jobtop, job)["resource_usage"]["cpu_total_seconds"] > 0


def test_a_shell_can_be_watched_by_an_agent_that_is_not_below_it(jobtop: Jobtop) -> None:
    command = " ".join(jobtop.command("attach", "$$"))
    words = ["sh", "-c", f"{command}; echo ready; read line"]
    environment, pipe = {**jobtop.env, **OFTEN}, subprocess.PIPE
    with subprocess.Popen(words, env=environment, cwd=jobtop.home, text=True, stdin=pipe, stdout=pipe) as shell:
        assert shell.stdout
        job = shell.stdout.readline().strip()
        assert shell.stdout.readline() == "ready\n"
        wait_for(lambda: samples(jobtop, job)[1:])
        agent = json.loads(jobtop("agent", "status", "--json").stdout)["pid"]
        assert agent not in descendants(shell.pid)
        wait_for(lambda: samples(jobtop, job)[-1]["proc"]["count"] == 1)
        assert shell.stdin
        shell.stdin.write("\n")
    assert ended(jobtop, job)["status"] == "unknown"


@pytest.mark.usefixtures("home")
def test_what_cannot_be_watched_is_one_line_and_nothing_is_recorded() -> None:
    for pid, why in (
        (NO_PROCESS, "there is no process"),
        (os.getpid(), "a part of jobtop"),
        (0, "at least 1"),
    ):
        refused = call("attach", str(pid))
        assert (refused.returncode, refused.stdout) == (2, "")
        assert why in refused.stderr
        assert refused.stderr.count("\n") == 1
    assert json.loads(call("history", "--json").stdout) == []


@pytest.mark.usefixtures("root")
def test_a_process_of_another_user_that_cannot_be_read_is_refused(unprivileged: Jobtop) -> None:
    refused = unprivileged("attach", str(os.getpid()))
    assert refused.returncode == 2
    assert_one_line(refused.stderr, f"process {os.getpid()} ", "as root")
