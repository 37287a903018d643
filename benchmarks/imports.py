"""Measures the import of 100,000 Keystone jobs, compared with reading their file with `json.loads`."""

import gc
import json
import random
import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TypeVar

from benchmarks.installation import Installation
from benchmarks.report import BenchmarkResult, MeasurementError
from benchmarks.stopwatch import measure_in_turns
from jobtop.core.paths import StatePaths
from jobtop.store.database import open_to_write
from jobtop.store.transfer.imports import ImportCounts, batches, enlarge_cache, find_sources, insert_batch
from jobtop.store.transfer.values import ImportContext

T = TypeVar("T")

JOBS = 100_000
NOW, GAP_SECONDS = 1_750_000_000.0, 300.0
TOOLS = ("fenicsx", "lammps", "openfoam", "gromacs")


def measure_imports(_tools: Installation, work: Path, rounds: int) -> Iterator[BenchmarkResult]:
    """Measure the import from finding the files to the last commit, and a second one in which every job is known."""
    lines = work / "jobs_history.jsonl"
    with lines.open("w") as file:
        file.writelines(map(keystone_line, range(JOBS)))
    store = work / "imported"
    taken = measure_in_turns(
        {"ours": partial(import_into_new_store, lines, store), "other": partial(parse, lines)}, rounds
    )
    yield BenchmarkResult(
        f"{JOBS:,} jobs of Keystone imported", "seconds", taken["ours"], taken["other"], "json.loads", bound=10
    )
    again, kept = cpu_seconds(partial(import_all, lines, store))
    if kept != ImportCounts(known=JOBS):
        raise MeasurementError(f"the second import took {kept}")
    yield BenchmarkResult("  once more, when all are known", "seconds", [again])


def import_into_new_store(lines: Path, store: Path) -> float:
    shutil.rmtree(store, ignore_errors=True)
    spent, kept = cpu_seconds(partial(import_all, lines, store))
    if kept != ImportCounts(jobs=JOBS):
        raise MeasurementError(f"{kept} of {JOBS} jobs were imported")
    return spent


def import_all(lines: Path, store: Path) -> ImportCounts:
    """Import a file as the verb does."""
    database = open_to_write(StatePaths(store, "bench"))
    enlarge_cache(database)
    intake, kept = ImportContext(), ImportCounts()
    for source in find_sources([lines]).sources:
        for batch in batches(source.jobs(intake)):
            kept += insert_batch(database, batch)
    database.close()
    return kept


def parse(lines: Path) -> float:
    def parse_all() -> int:
        with lines.open() as file:
            return sum(1 for _ in map(json.loads, file))

    return cpu_seconds(parse_all)[0]


def cpu_seconds(call: Callable[[], T]) -> tuple[float, T]:
    """Return the CPU time of a call, after a garbage collection, and its result."""
    gc.collect()
    begin = time.process_time()
    answer = call()
    return time.process_time() - begin, answer


def keystone_line(number: int) -> str:
    """Return a line of Keystone's history, the same each time."""
    rng = random.Random(number)
    begun, duration = NOW - GAP_SECONDS * (JOBS - number), round(rng.lognormvariate(4, 1.5), 2)
    has_failed = rng.random() < 0.1
    user, system = round(duration * rng.random(), 2), round(duration * rng.random() / 10, 2)
    start, end = (datetime.fromtimestamp(at, UTC).replace(tzinfo=None) for at in (begun, begun + duration))
    shape = {
        "task_id": str(uuid.UUID(int=rng.getrandbits(128), version=4)),
        "tool": rng.choice(TOOLS),
        "script": f"case_{rng.randrange(1000)}.py",
        "params": {"mesh_size": rng.choice((32, 64, 128)), "seed": number},
        "start_time": start.isoformat(timespec="microseconds"),
        "end_time": end.isoformat(timespec="microseconds"),
        "duration_seconds": duration,
        "status": "failed" if has_failed else "success",
        "returncode": int(has_failed),
        "resource_usage": {
            "cpu_user_seconds": user,
            "cpu_system_seconds": system,
            "cpu_total_seconds": round(user + system, 2),
            "memory_peak_mb": round(rng.lognormvariate(6, 1), 2),
        },
        "error": "Simulation failed with non-zero exit code" if has_failed else None,
        "has_result": not has_failed,
    }
    return json.dumps(shape) + "\n"
