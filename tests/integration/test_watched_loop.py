"""ResourceMonitor in loops without Lightning, with its real sampler: numbers of known loads, and how its job ends."""

import csv
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support import ROOT, Jobtop

MIB = 1 << 20
# The first batch waits for the first reading; each uses a known amount of CPU and storage.
LOOP = """
import multiprocessing, os, sys, time
import jobtop.watching
from jobtop import ResourceMonitor

jobtop.watching.SAMPLING_SECONDS = 0.5

def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass

def waited_for_reading(monitor):
    end = time.monotonic() + 60
    while "cpu_percent" not in monitor.collect() and time.monotonic() < end:
        time.sleep(0.05)
"""
KNOWN = """
with ResourceMonitor(log_interval=1, memory_threshold=0.0001) as monitor:
    for number in monitor.watch(range(3)):
        if number == 0:
            waited_for_reading(monitor)
        worker = multiprocessing.get_context("fork").Process(target=burn, args=(0.3,))
        worker.start()
        worker.join()
        with open("data", "wb") as file:
            file.write(os.urandom(8 << 20))
            os.fsync(file.fileno())
    print("metrics", sorted(monitor.get_io_metrics()))
"""
ENDS = {
    "ran through": ("list(ResourceMonitor().watch(range(3)))", "success", 0),
    "left early": ("for number in ResourceMonitor().watch(range(3)): break", "unknown", 0),
    "exception": ("for number in ResourceMonitor().watch(range(3)): raise ValueError('no data')", "error", 1),
    "exception in with": ("with ResourceMonitor() as monitor: raise ValueError('no data')", "error", 1),
}


def run(jobtop: Jobtop, program: str) -> subprocess.CompletedProcess[str]:
    (jobtop.home / "train.py").write_text(program)
    return subprocess.run(
        [sys.executable, "train.py"], cwd=jobtop.home, env={**jobtop.env}, capture_output=True, text=True, timeout=100
    )


def only_job(jobtop: Jobtop) -> dict[str, Any]:
    (job,) = json.loads(jobtop("history", "--json").stdout)
    return dict(job)


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_a_watched_loop_has_the_numbers_of_its_processes(jobtop: Jobtop) -> None:
    finished = run(jobtop, LOOP + KNOWN)
    assert finished.returncode == 0, finished.stderr
    assert re.search(r"\[Resources\] Batch 2:\n(  GPU .*\n)*  CPU: \d", finished.stdout), finished.stdout
    assert "[Resources] ⚠️ ALERTS:\n  - High memory usage: " in finished.stdout
    written = rows(jobtop.home / "resource_logs/epoch_0.csv")
    assert [row["step"] for row in written] == ["0", "1", "2"]
    assert all(0 <= float(row["io_wait_pct"]) <= 100 for row in written)
    job = only_job(jobtop)
    usage = job["resource_usage"]
    assert (job["name"], job["script"], job["status"]) == ("train", "train.py", "success")
    assert usage["cpu_total_seconds"] > 0.9  # of the three workers
    assert usage["io_write_bytes"] >= 24 * MIB


@pytest.mark.parametrize("case", ENDS)
def test_a_job_ends_as_its_program_does(jobtop: Jobtop, case: str) -> None:
    code, status, returncode = ENDS[case]
    finished = run(jobtop, f"from jobtop import ResourceMonitor\n{code}\n")
    assert (finished.returncode, only_job(jobtop)["status"]) == (returncode, status), finished.stderr


def test_the_example_of_the_page_runs(jobtop: Jobtop) -> None:
    page = (ROOT / "docs/lightning.md").read_text(encoding="utf-8")
    (example,) = [code for code in re.findall(r"(?ms)^```python\n(.*?)^```$", page) if "monitor.watch" in code]
    finished = run(jobtop, example)
    assert finished.returncode == 0, finished.stderr
    assert only_job(jobtop)["status"] == "success"
