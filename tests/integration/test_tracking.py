"""Tracked blocks of real Python programs: what they used, how they ended, and what is left of them."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support import Jobtop, wait_for

BEGIN = """
import json, os, subprocess, sys, threading, time
import jobtop
from jobtop.tracking import open_block, track

BURN = "import time\\nwhile time.process_time() < {}: pass"

def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end: pass

def burn_in_child(seconds):
    subprocess.run([sys.executable, "-I", "-S", "-c", BURN.format(seconds)], check=True)
"""


def run_program(jobtop: Jobtop, text: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a program that tracks blocks, to its end; warnings are errors in it."""
    return subprocess.run(
        [*jobtop.prefix, jobtop.python, "-W", "error", "-c", BEGIN + text, *words],
        env=dict(jobtop.env),
        cwd=jobtop.home,
        capture_output=True,
        text=True,
        timeout=120,
    )


def blocks_of(jobtop: Jobtop) -> dict[str, dict[str, Any]]:
    """The records in the history, by name."""
    listed = jobtop("history", "--json", "--limit", "100")
    assert listed.returncode == 0, listed.stderr
    return {job["name"]: job for job in json.loads(listed.stdout)}


def cpu_of(job: dict[str, Any]) -> float:
    seconds = job["resource_usage"]["cpu_total_seconds"]
    assert isinstance(seconds, float)
    return seconds


def test_a_block_has_the_cost_of_its_process_and_of_the_children_that_it_started(jobtop: Jobtop) -> None:
    done = run_program(
        jobtop,
        """
burn(0.3)
burn_in_child(0.3)
with track("etl", tool="spark", params={"lr": 0.1}, tags={"exp": "7"}) as block:
    burn(1.0)
    burn_in_child(1.0)
with track("memory"):
    held = bytearray(150 << 20)
print(json.dumps(block.record))
""",
    )
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    stored = blocks_of(jobtop)["etl"]
    assert record == {key: stored[key] for key in record} | {"last_heard": record["last_heard"]}
    assert cpu_of(record) == pytest.approx(2.0, rel=0.01, abs=0.02)
    held = blocks_of(jobtop)["memory"]["resource_usage"]["memory_peak_bytes"]
    assert 0 < held - record["resource_usage"]["memory_peak_bytes"] - (150 << 20) < 8 << 20
    assert "whole process" in record["sources"]["memory_peak"]
    assert (record["kind"], record["status"], record["exit_code"], record["tool"]) == ("python", "success", 0, "spark")
    assert (record["params"], record["tags"], record["incomplete"]) == ({"lr": 0.1}, {"exp": "7"}, [])


def test_two_blocks_at_once_count_each_thread_and_each_child_once(jobtop: Jobtop) -> None:
    done = run_program(
        jobtop,
        """
def work(name, own, child):
    with track(name):
        burn(own)
        burn_in_child(child)

threads = [threading.Thread(target=work, args=each) for each in (("a", 0.5, 1.0), ("b", 1.0, 2.0))]
for thread in threads: thread.start()
for thread in threads: thread.join()
""",
    )
    assert done.returncode == 0, done.stderr
    found = blocks_of(jobtop)
    assert cpu_of(found["a"]) == pytest.approx(1.5, rel=0.01, abs=0.03)
    assert cpu_of(found["b"]) == pytest.approx(3.0, rel=0.01, abs=0.03), done.stderr
    assert found["a"]["incomplete"] == found["b"]["incomplete"] == []


def test_a_thread_that_a_block_started_counts_for_it_while_another_block_is_open(jobtop: Jobtop) -> None:
    done = run_program(
        jobtop,
        """
from concurrent.futures import ThreadPoolExecutor

def pool():
    with track("pool"), ThreadPoolExecutor(2) as executor:
        list(executor.map(burn, [0.4, 0.4]))

def sleeper(leave):
    with track("sleeper"): leave.wait()

leave = threading.Event()
other = threading.Thread(target=sleeper, args=(leave,)); other.start()
pool(); leave.set(); other.join()
""",
    )
    assert done.returncode == 0, done.stderr
    found = blocks_of(jobtop)
    assert cpu_of(found["pool"]) == pytest.approx(0.8, rel=0.02, abs=0.03)
    assert cpu_of(found["sleeper"]) < 0.05, done.stderr


def test_a_block_inside_of_another_is_its_child_and_a_part_of_it(jobtop: Jobtop) -> None:
    done = run_program(
        jobtop,
        """
with track("outer"):
    burn(0.2)
    with track("inner"):
        burn(0.3)
        burn_in_child(0.3)
""",
    )
    assert done.returncode == 0, done.stderr
    found = blocks_of(jobtop)
    assert found["inner"]["parent_id"] == found["outer"]["id"]
    assert cpu_of(found["inner"]) == pytest.approx(0.6, rel=0.02, abs=0.02)
    assert cpu_of(found["outer"]) == pytest.approx(0.8, rel=0.02, abs=0.03)


ENDS = {
    "with track('x'): raise ValueError('no such mesh')": (1, "error", None, "no such mesh"),
    "with track('x'): sys.exit(3)": (3, "failed", 3, "3"),
    "with track('x'): sys.exit()": (0, "success", 0, None),
    "with track('x') as block: block.set_status('timeout', error='too slow')": (0, "timeout", None, "too slow"),
    "with track('x'): raise KeyboardInterrupt": (-signal.SIGINT, "cancelled", None, "Ctrl-C"),
    "open_block('x')": (0, "unknown", None, "interpreter"),
    "block = open_block('x'); block.close('failed', 9); block.close('success')": (0, "failed", 9, None),
    "with track('x'):\n    if os.fork() == 0: sys.exit(5)\n    os.wait()": (0, "success", 0, None),
    "with track('x'): os.kill(os.getpid(), signal.SIGKILL)": (-signal.SIGKILL, "lost", None, "exited"),
    "with track('x'): os._exit(7)": (7, "lost", None, "exited"),
}


@pytest.mark.parametrize("program", ENDS, ids=range(len(ENDS)))
def test_each_way_to_leave_a_block_has_a_record_and_leaves_no_process(jobtop: Jobtop, program: str) -> None:
    code, status, exit_code, word = ENDS[program]
    done = run_program(jobtop, "import signal\n" + program, "word of this test")
    assert done.returncode == code, done.stderr
    wait_for(lambda: not samplers(jobtop))
    job = blocks_of(jobtop)["x"]
    assert (job["status"], job["exit_code"]) == (status, exit_code)
    assert (word is None and job["reason"] is None) or word in job["reason"]


def samplers(jobtop: Jobtop) -> list[int]:
    """The sampler processes of this test's state directory."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"jobtop.lifecycle.tracking.sampler" in words and str(jobtop.state).encode() in words:
            found.append(int(pid))
    return found


def test_a_killed_process_leaves_the_numbers_until_its_last_sample(jobtop: Jobtop) -> None:
    program = BEGIN + "with track('long', interval=0.1):\n    while True: burn(0.05); time.sleep(0.05)"
    process = subprocess.Popen([jobtop.python, "-c", program], env=dict(jobtop.env), cwd=jobtop.home)
    try:
        wait_for(lambda: len(jobtop("metrics", "long", "--no-follow").stdout.splitlines()) > 5, 60)
    finally:
        process.kill()
        process.wait()
    wait_for(lambda: not samplers(jobtop), 30)
    job = blocks_of(jobtop)["long"]
    assert job["status"] == "lost"
    assert job["resource_usage"]["samples"] > 5
    assert cpu_of(job) > 0
    assert job["incomplete"]


def test_a_killed_sampler_costs_the_curve_and_not_the_totals(jobtop: Jobtop) -> None:
    program = """
with track("robust", interval=0.1) as block:
    while block.latest() is None: time.sleep(0.01)
    print("ready", flush=True)
    sys.stdin.read()
    burn(0.5)
with track("next", interval=0.1) as block:
    while block.latest() is None: time.sleep(0.01)
"""
    with subprocess.Popen(
        [jobtop.python, "-W", "error", "-c", BEGIN + program],
        env=dict(jobtop.env),
        cwd=jobtop.home,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        (sampler,) = samplers(jobtop)
        os.kill(sampler, signal.SIGKILL)
        process.communicate(timeout=60)
    assert process.returncode == 0
    found = blocks_of(jobtop)
    assert cpu_of(found["robust"]) >= 0.5
    assert any("sampler" in entry for entry in found["robust"]["incomplete"])
    assert found["next"]["incomplete"] == []


def test_a_store_that_cannot_be_written_changes_nothing_in_the_program(jobtop: Jobtop) -> None:
    jobtop.state.write_text("this is no directory")
    done = run_program(
        jobtop,
        """
import logging
logging.basicConfig()
with track("x") as block:
    answer = 42
print(answer, block.record["status"])
""",
    )
    assert (done.returncode, done.stdout) == (0, "42 success\n")
    assert "not in the history" in done.stderr


def test_decorated_functions_and_coroutines_are_blocks_of_their_own(jobtop: Jobtop) -> None:
    done = run_program(
        jobtop,
        """
import asyncio

@track
def load(value): return value + 1

@track("serve", tags={"a": "b"})
def serve(): return load(1)

@track
async def answer():
    await asyncio.sleep(0)
    return serve()

print(asyncio.run(answer()))
""",
    )
    assert (done.returncode, done.stdout) == (0, "2\n"), done.stderr
    found = blocks_of(jobtop)
    assert found.keys() == {"load", "serve", "answer"}
    assert found["load"]["parent_id"] == found["serve"]["id"]
    assert found["serve"]["parent_id"] == found["answer"]["id"]


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_of_multiprocessing_count_and_record_nothing_themselves(jobtop: Jobtop, method: str) -> None:
    file = jobtop.home / "program.py"
    file.write_text(
        BEGIN
        + """
import multiprocessing
if __name__ == "__main__":
    with track("parallel"):
        context = multiprocessing.get_context(sys.argv[1])
        workers = [context.Process(target=burn, args=(0.4,)) for _ in range(2)]
        for worker in workers: worker.start()
        for worker in workers: worker.join()
""",
    )
    done = subprocess.run([sys.executable, str(file), method], env=dict(jobtop.env), cwd=jobtop.home, check=False)
    assert done.returncode == 0
    found = blocks_of(jobtop)
    assert found.keys() == {"parallel"}
    assert cpu_of(found["parallel"]) >= 0.8
    assert cpu_of(found["parallel"]) < (1.0 if method == "fork" else 2.0)


def test_a_block_can_be_stopped_from_outside(jobtop: Jobtop) -> None:
    program = BEGIN + "with track('endless'):\n    time.sleep(600)"
    with subprocess.Popen([jobtop.python, "-c", program], env=dict(jobtop.env), cwd=jobtop.home) as process:
        wait_for(lambda: "running" in jobtop("history").stdout, 60)
        assert jobtop("stop", "endless").returncode == 0
    assert process.returncode == -signal.SIGTERM
    wait_for(lambda: not samplers(jobtop), 30)
    assert blocks_of(jobtop)["endless"]["status"] == "cancelled"


def test_descriptors_that_the_program_closes_and_uses_again_stay_its_own(jobtop: Jobtop) -> None:
    done = run_program(
        jobtop,
        """
import socket
with track("a") as first:
    while first.latest() is None: time.sleep(0.01)
    os.closerange(3, 1000)
    files = [open("notes", "w") for _ in range(20)]
    a, b = socket.socketpair()
with track("b"): pass
for file in files: file.write("mine"); file.close()
b.setblocking(False)
try: print(b.recv(100))
except BlockingIOError: print("nothing")
a.close(); b.close()
""",
    )
    assert (done.returncode, done.stdout) == (0, "nothing\n"), done.stderr
    assert {job["status"] for job in blocks_of(jobtop).values()} == {"success"}


def test_a_locked_store_delays_the_program_a_little_and_the_record_comes_later(jobtop: Jobtop) -> None:
    done = run_program(
        jobtop,
        """
import glob, logging, sqlite3
logging.basicConfig()
with track("a"): pass
other = sqlite3.connect(glob.glob(os.environ["JOBTOP_HOME"] + "/*.db")[0], isolation_level=None)
other.execute("BEGIN IMMEDIATE")
began = time.monotonic()
with track("b"): burn(0.2)
print(time.monotonic() - began < 15)
other.execute("ROLLBACK"); other.close()
""",
    )
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr
    assert cpu_of(blocks_of(jobtop)["b"]) == pytest.approx(0.2, abs=0.02)


def test_one_object_of_track_can_be_entered_several_times_at_once(jobtop: Jobtop) -> None:
    done = run_program(
        jobtop,
        """
tracking = track("again")
with tracking as outer, tracking as inner: pass
def enter(barrier):
    with tracking: barrier.wait()
barrier = threading.Barrier(2)
threads = [threading.Thread(target=enter, args=(barrier,)) for _ in range(2)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(inner.record["parent_id"] == outer.id, jobtop.tracking.current_block())
""",
    )
    assert (done.returncode, done.stdout) == (0, "True None\n"), done.stderr
    listed = json.loads(jobtop("history", "--json", "--limit", "100").stdout)
    assert [job["status"] for job in listed] == ["success"] * 4


def test_generators_are_tracked_while_they_run_and_classes_are_refused(jobtop: Jobtop) -> None:
    done = run_program(
        jobtop,
        """
@track
def rows():
    burn(0.3)
    yield 1
print(list(rows()))
try: track(type("Model", (), {}))
except TypeError as error: print("refused")
""",
    )
    assert (done.returncode, done.stdout) == (0, "[1]\nrefused\n"), done.stderr
    assert cpu_of(blocks_of(jobtop)["rows"]) == pytest.approx(0.3, abs=0.02)


@pytest.mark.parametrize("interval", ["'soon'", "0", "-1", "0.01"])
def test_an_interval_that_is_none_is_refused_before_anything_is_recorded(jobtop: Jobtop, interval: str) -> None:
    done = run_program(jobtop, f"track('x', interval={interval}).__enter__()")
    assert done.returncode == 1
    assert "ValueError: interval" in done.stderr
    assert not list(jobtop.state.glob("*.db"))


def test_blocks_of_tasks_in_one_thread_say_that_their_time_was_divided(jobtop: Jobtop) -> None:
    done = run_program(
        jobtop,
        """
import asyncio
async def work(name, seconds):
    with track(name):
        for _ in range(10):
            burn(seconds / 10)
            await asyncio.sleep(0)
async def both(): await asyncio.gather(work("a", 0.2), work("b", 0.6))
asyncio.run(both())
""",
    )
    assert done.returncode == 0, done.stderr
    found = blocks_of(jobtop)
    assert cpu_of(found["a"]) + cpu_of(found["b"]) == pytest.approx(0.8, rel=0.02, abs=0.02)
    assert all(any("divided" in entry for entry in job["incomplete"]) for job in found.values())
