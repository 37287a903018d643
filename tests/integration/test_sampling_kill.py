"""`kill -9` of a run at any moment: its samples are whole and once, and the next verb finishes the record with them."""

import random
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from jobtop.core.shim import BOOTTIME
from running import PYTHON, ended, nothing_is_left
from support import Jobtop, wait_for
from watching import DEADLINE, QUICK, Watched, begun, cpu_times, values

__all__ = ["nothing_is_left"]

MIB = 1 << 20
# Says that it runs, and goes on until it is told to end.
STEADY = """
import os, sys, time
memory = bytearray(b"x") * (32 << 20)
open(sys.argv[1] + ".began", "w").close()
until = time.monotonic() + 60
while not os.path.exists(sys.argv[1] + ".end") and time.monotonic() < until:
    spun = time.process_time() + 0.002
    while time.process_time() < spun: pass
    time.sleep(0.01)
"""


@pytest.mark.parametrize("rounds", [1, pytest.param(40, marks=pytest.mark.soak)])
def test_a_run_killed_at_any_moment_loses_two_seconds_of_samples_at_most(jobtop: Jobtop, rounds: int) -> None:
    """Five at once in one store."""
    for number in range(rounds):
        names = [f"{number}-{place}" for place in range(5)]
        with ThreadPoolExecutor(len(names)) as pool:
            killed = dict(zip(names, pool.map(lambda name: kill_in_time(jobtop, name), names), strict=True))
        for name, last_moment in killed.items():
            check_killed(jobtop, name, last_moment)


def kill_in_time(jobtop: Jobtop, name: str) -> float:
    """Kill a run after a random part of its life; how old its job was then."""
    folder = jobtop.home / name
    with begun(jobtop, name, *QUICK, command=(*PYTHON, STEADY, str(folder))) as run:
        wait_for(folder.with_suffix(".began").exists, DEADLINE)
        time.sleep(random.uniform(0, 2.5))
        run.process.kill()
        moment = time.clock_gettime(BOOTTIME)
    assert run.process.returncode == -signal.SIGKILL
    start = wait_for(lambda: run.job.start_boottime, DEADLINE)
    return moment - start


def check_killed(jobtop: Jobtop, name: str, age_seconds: float) -> None:
    """Every sample whole and once, up to two seconds before the kill; the next verb finishes the record with them."""
    run = Watched(jobtop, None, jobtop.home / f"{name}.err")  # type: ignore[arg-type]
    with run.store() as database, database.reading() as connection:
        assert database.notice is None
        assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    samples = run.stored()
    moments = [one.elapsed for one in samples]
    assert moments == sorted(set(moments))
    assert age_seconds - (moments[-1] if moments else 0.0) <= 2.0
    for key in ("cpu.user", "cpu.system", "mem.rss", "mem.used", "proc.count"):
        assert len(values(samples, key)) == len(samples), key
    assert cpu_times(samples) == sorted(cpu_times(samples))
    (jobtop.home / f"{name}.end").touch()
    record = ended(jobtop, name)
    assert (record["status"], record["exit_code"]) == ("success", 0)
    if samples:
        usage = record["resource_usage"]
        assert usage["samples"] == len(samples) + 2
        used = values(samples, "mem.used")
        assert min(used) <= usage["memory_mean_bytes"] <= usage["memory_peak_bytes"] < 64 * MIB
        assert usage["memory_peak_bytes"] > 32 * MIB, "the peak is the kernel's: it knows what no sample saw"
        assert 0 <= usage["cpu_percent_min"] <= record["metrics"]["cpu.percent"]["mean"] <= usage["cpu_percent_peak"]
