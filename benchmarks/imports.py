"""What moving in costs: 100,000 jobs of Keystone, against reading their file with `json.loads`."""

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
from benchmarks.report import MeasurementError, Result
from benchmarks.stopwatch import in_turns
from jobtop.core.paths import StatePaths
from jobtop.store.database import open_to_write
from jobtop.store.transfer.imports import ImportCounts, batches, enlarge_cache, find_sources, insert_batch
from jobtop.store.transfer.values import ImportContext

T = TypeVar("T")

JOBS = 100_000
NOW, GAP_SECONDS = 1_750_000_000.0, 300.0
TOOLS = ("fenicsx", "lammps", "openfoam", "gromacs")


def measure_imports(_tools: Installation, work: Path, rounds: int) -> Iterator[Result]:
    """All of it, from looking for files to the last commit; the second time, when every job is known, too."""
    lines = work / "jobs_history.jsonl"
    with lines.open("w") as file:
        file.writelines(map(keystone_line, range(JOBS)))
    store = work / "imported"
    taken = in_turns({"ours": partial(import_anew, lines, store), "theirs": partial(parse, lines)}, rounds)
    yield Result(
        f"{JOBS:,} jobs of Keystone imported", "seconds", taken["ours"], taken["theirs"], "json.loads", bound=10
    )
    again, kept = cpu_seconds(partial(import_all, lines, store))
    if kept != ImportCounts(known=JOBS):
        raise MeasurementError(f"the second import took {kept}")
    yield Result("  once more, when all are known", "seconds", [again])


def import_anew(lines: Path, store: Path) -> float:
    shutil.rmtree(store, ignore_errors=True)
    spent, kept = cpu_seconds(partial(import_all, lines, store))
    if kept != ImportCounts(jobs=JOBS):
        raise MeasurementError(f"{kept} of {JOBS} jobs were imported")
    return spent


def import_all(lines: Path, store: Path) -> ImportCounts:
    """As the verb does it."""
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
    """What a call costs, whatever else the machine does and whatever was left to collect, and what it returns."""
    gc.collect()
    begin = time.process_time()
    answer = call()
    return time.process_time() - begin, answer


def keystone_line(number: int) -> str:
    """A line of its history, the same each time."""
    chance = random.Random(number)
    begun, duration = NOW - GAP_SECONDS * (JOBS - number), round(chance.lognormvariate(4, 1.5), 2)
    has_failed = chance.random() < 0.1
    user, system = round(duration * chance.random(), 2), round(duration * chance.random() / 10, 2)
    start, end = (datetime.fromtimestamp(at, UTC).replace(tzinfo=None) for at in (begun, begun + duration))
    shape = {
        "task_id": str(uuid.UUID(int=chance.getrandbits(128), version=4)),
        "tool": chance.choice(TOOLS),
        "script": f"case_{chance.randrange(1000)}.py",
        "params": {"mesh_size": chance.choice((32, 64, 128)), "seed": number},
        "start_time": start.isoformat(timespec="microseconds"),
        "end_time": end.isoformat(timespec="microseconds"),
        "duration_seconds": duration,
        "status": "failed" if has_failed else "success",
        "returncode": int(has_failed),
        "resource_usage": {
            "cpu_user_seconds": user,
            "cpu_system_seconds": system,
            "cpu_total_seconds": round(user + system, 2),
            "memory_peak_mb": round(chance.lognormvariate(6, 1), 2),
        },
        "error": "Simulation failed with non-zero exit code" if has_failed else None,
        "has_result": not has_failed,
    }
    return json.dumps(shape) + "\n"
