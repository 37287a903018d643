"""Measures 200 hosts of 50 jobs each: the lists of the console, a refresh without changes, and `history`.

All data is in the page cache, so CPU time is measured: other load on the machine does not matter.
"""

import asyncio
import gc
import random
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

from benchmarks.installation import Installation
from benchmarks.report import BenchmarkResult, MeasurementError
from jobtop.core.job_id import JobId
from jobtop.core.model import Job, Status, Usage
from jobtop.core.paths import StatePaths
from jobtop.store.database import open_to_read, open_to_write
from jobtop.store.fleet import Fleet
from jobtop.store.jobs import Jobs, Query
from jobtop.tui.data.feed import Feed
from jobtop.tui.data.history_rows import PastJobs
from jobtop.tui.data.reader import StoreReader

HOSTS, JOBS, ROWS = 200, 50, 50
NOW = 1_750_000_000.0
CONSOLE_COLLECTS = 200_000, 50, 1000  # the console's garbage collection thresholds
LIST_SECONDS, REFRESH_SECONDS = 0.3, 0.02


def measure_hosts(_tools: Installation, work: Path, rounds: int) -> Iterator[BenchmarkResult]:
    stores = make_stores(work / "hosts")
    before = gc.get_threshold()
    gc.set_threshold(*CONSOLE_COLLECTS)
    lists = [asyncio.run(measure_history(stores)) for _ in range(rounds)]
    jobs = [measure_dashboard(stores) for _ in range(rounds)]
    gc.set_threshold(*before)
    what = f"console, {HOSTS} hosts of {JOBS} jobs"
    for name, taken in (("the history", lists), ("the dashboard", jobs)):
        yield BenchmarkResult(f"{what}: {name}", "seconds", [first for first, _ in taken], bound=LIST_SECONDS)
        yield BenchmarkResult(
            "  again, nothing changed", "seconds", [again for _, again in taken], bound=REFRESH_SECONDS
        )
    yield BenchmarkResult("  jobtop history, in-process", "seconds", [measure_verb(stores) for _ in range(rounds)])


async def measure_history(stores: list[Path]) -> tuple[float, float]:
    """Measure reading the list until the visible lines are ready, and reading it again."""
    reader = StoreReader()
    past = PastJobs(reader, stores)

    async def listed() -> float:
        begin = time.process_time()
        await past.read(Query(limit=None))
        rows = past.rows(NOW)
        shown = rows.window(0, ROWS)
        taken = time.process_time() - begin
        check_lists(len(rows) == HOSTS * JOBS and len(shown) == ROWS and not past.problems)
        return taken

    try:
        return await listed(), await listed()
    finally:
        past.close()
        reader.close()


def measure_dashboard(stores: list[Path]) -> tuple[float, float]:
    """Measure reading the live and recent jobs of all hosts, and reading them again."""
    begin = time.process_time()
    feed = Feed(stores, print, machine=NoMachine())
    for store in feed.stores:
        store.jobs_only = True  # as when the console opens
    shown = feed.read_view()
    first = time.process_time() - begin
    check_lists(len(shown.rows) > HOSTS and not any(state.problem for state in shown.stores))
    again = seconds(lambda: feed.read_view(at_once=True))
    feed.close()
    return first, again


class NoMachine:
    """Replaces the machine: only jobs are read."""

    def read(self) -> None:
        return None


def measure_verb(stores: list[Path]) -> float:
    """Measure the query of `jobtop history`."""
    begin = time.process_time()
    fleet = Fleet({path: lambda path=path: Jobs(open_to_read(path)) for path in stores}, print)  # type: ignore[misc]
    found = fleet.select(Query(limit=10))
    taken = time.process_time() - begin
    check_lists(len(found) == 10)
    for store in fleet.stores:
        store.database.close()
    return taken


def seconds(call: Callable[[], object]) -> float:
    begin = time.process_time()
    call()
    return time.process_time() - begin


def check_lists(holds: bool) -> None:
    if not holds:
        raise MeasurementError("the lists of 200 hosts were not what is in their stores")


def make_stores(root: Path) -> list[Path]:
    """Make a store per host; most jobs have ended, some run."""
    rng = random.Random(0)
    for number in range(HOSTS):
        paths = StatePaths(root, f"node{number:03}")
        with closing(open_to_write(paths)) as database, database.writing():
            for turn in range(JOBS):
                Jobs(database).insert(make_job(rng, paths.host, turn >= JOBS - 2))
    return sorted(root.glob("*.db"))


def make_job(rng: random.Random, host: str, runs: bool) -> Job:
    begun, duration = NOW - rng.random() * 1e6, rng.random() * 1000
    return Job(
        JobId(str(uuid.UUID(int=rng.getrandbits(128)))),
        f"job-{rng.randrange(100)}",
        ("python", "train.py"),
        host,
        "ada",
        "/home/ada",
        Status.RUNNING if runs else Status.SUCCESS,
        submitted_at=begun,
        start_time=begun,
        end_time=None if runs else begun + duration,
        duration_seconds=None if runs else duration,
        usage=Usage() if runs else Usage(cpu_total_seconds=duration, memory_peak_bytes=round(duration * 1e6)),
        settled=not runs,
    )
