"""Measures monitoring a mostly idle job at one second: CPU time of all of jobtop, compared with con-duct."""

import json
import multiprocessing
import resource
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks.installation import Installation, environment
from benchmarks.report import BenchmarkResult, MeasurementError
from benchmarks.stopwatch import adopt_orphans, wall_seconds

CHILDREN, SECONDS = 50, 25
MAX_PROCESSES = 400  # on the machine, including kernel threads and both jobs
TOLERANCE = 0.2  # between jobtop's own cost in the record and as the kernel counts it

# Each child runs a little every 20 seconds, one after the other; the file gets what all of them used.
LOAD = """\
import os, resource, sys, time
seconds, children, path = float(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
end = time.monotonic() + seconds
for number in range(children):
    if not os.fork():
        wake = time.monotonic() + 20 * number / children
        while wake < end:
            time.sleep(max(0, wake - time.monotonic()))
            sum(range(2000))
            wake += 20
        time.sleep(max(0, end - time.monotonic()))
        os._exit(0)
for _ in range(children):
    os.wait()
used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
with open(path, "w") as file:
    file.write(str(sum(one.ru_utime + one.ru_stime for one in used)))
os._exit(0)
"""


@dataclass(frozen=True, slots=True)
class Pair:
    """CPU seconds of both, jobtop's own cost in its record, and the largest number of processes on the machine."""

    ours: float
    others: float
    recorded: float | None
    processes: int


def measure_watching(tools: Installation, work: Path, rounds: int) -> Iterator[BenchmarkResult]:
    """Measure both at the same time; a second run with a job that ends at once shows the cost of start and end."""
    whole = [side_by_side(tools, work, SECONDS) for _ in range(rounds)]
    brief = [side_by_side(tools, work, 0) for _ in range(rounds)]
    refuse_busy_machine(max(pair.processes for pair in whole))
    ours, others, rival = [pair.ours for pair in whole], [pair.others for pair in whole], "con-duct"
    our_start, their_start = [pair.ours for pair in brief], [pair.others for pair in brief]
    what = f"watching {CHILDREN + 1} mostly idle processes for {SECONDS} s, CPU time"
    yield BenchmarkResult(what, "seconds", ours, others, rival, bound=0.25)
    yield BenchmarkResult("  of which to start and to end", "seconds", our_start, their_start, rival)
    yield BenchmarkResult(
        "  of which to watch", "seconds", differences(ours, our_start), differences(others, their_start), rival
    )
    yield compare_recorded([pair.recorded for pair in whole], ours)


def refuse_busy_machine(processes: int) -> None:
    """Refuse a machine with many processes: con-duct reads all; 1,000 more make it cost 2.3 times, jobtop 1.3."""
    if processes > MAX_PROCESSES:
        raise MeasurementError(f"{processes} processes on this machine would count against con-duct: ask again later")


def compare_recorded(recorded_seconds: Sequence[float | None], measured: Sequence[float]) -> BenchmarkResult:
    """Compare the cost in jobtop's record with the measured cost."""
    what, rival = "  as its record has it", "measured"
    for record, kernel in zip(recorded_seconds, measured, strict=True):
        if record is None or abs(record - kernel) > TOLERANCE * kernel:
            return BenchmarkResult(
                what, "seconds", rival=rival, problem=f"the record says {record} s, it was {kernel:.3f} s"
            )
    return BenchmarkResult(
        what, "seconds", [record for record in recorded_seconds if record is not None], measured, rival
    )


def differences(all_: Sequence[float], parts: Sequence[float]) -> list[float]:
    return [whole - part for whole, part in zip(all_, parts, strict=True)]


def side_by_side(tools: Installation, work: Path, seconds: float) -> Pair:
    """Run jobtop and con-duct at the same time, each with its own job of `seconds`."""
    load = [sys.executable, "-I", "-S", "-c", LOAD, str(seconds), str(CHILDREN)]
    record = work / "record.json"
    jobtop = [tools.tool("jobtop"), "run", "--no-ui", "--record", str(record), "--"]
    duct = [tools.tool("con-duct"), "run", "-p", str(work / "duct-watching-"), "--clobber"]
    duct += ["--sample-interval", "1", "--report-interval", str(SECONDS)]
    processes = 0
    with ProcessPoolExecutor(2, multiprocessing.get_context("fork")) as pool:
        ours = pool.submit(own_cpu_seconds, [*jobtop, *load], work / "load-of-jobtop", work)
        others = pool.submit(own_cpu_seconds, [*duct, *load], work / "load-of-duct", work)
        while wait([ours, others], timeout=1.0).not_done:
            processes = max(processes, len(psutil.pids()))
    recorded = json.loads(record.read_text())["monitor"]["cpu_seconds"]
    return Pair(ours.result(), others.result(), recorded, processes)


def own_cpu_seconds(command: Sequence[str], used: Path, work: Path) -> float:
    """Return the CPU time of a command and all its descendants, without that of the job, which reports its own."""
    adopt_orphans()
    before = children_cpu_seconds()
    wall_seconds([*command, str(used)], environment(work), work)
    return children_cpu_seconds() - before - float(used.read_text())


def children_cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
