"""Measures storing samples: bytes per sample, CPU time per tick of 1,000 jobs, and CPU time to read a day."""

import gc
import gzip
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from benchmarks.installation import Installation
from benchmarks.report import BenchmarkResult
from benchmarks.series import KEYS, json_line, rows, samples
from jobtop.core.job_id import JobId
from jobtop.core.measure.engine import STEPS_PER_BATCH
from jobtop.core.metrics import JOB_COLUMNS
from jobtop.core.model import Job, Sample, Status
from jobtop.core.paths import StatePaths
from jobtop.core.series.blocks import encode, merge
from jobtop.store.database import Database, open_to_write
from jobtop.store.jobs import Jobs
from jobtop.store.samples.sealed import BLOCK_SAMPLES, MERGED_BLOCKS
from jobtop.store.samples.series import SeriesStore

T = TypeVar("T")

HOST = "bench"
JOBS, SECONDS_OF_A_DAY = 1000, 86_400
HOUR, FIVE_MINUTES = 3600, 300
TICKS = (MERGED_BLOCKS + 1) * BLOCK_SAMPLES


def measure_storage(_tools: Installation, work: Path, rounds: int) -> Iterator[BenchmarkResult]:
    yield from measure_size()
    yield from measure_ticks(work)
    gc.freeze()
    yield from measure_reading(work, rounds)
    gc.unfreeze()


def measure_size() -> Iterator[BenchmarkResult]:
    """Measure an hour of the 24 metrics in small and in merged blocks, compared with compressed JSON Lines."""
    kept = list(samples(HOUR))
    small = []
    for start in range(0, HOUR, BLOCK_SAMPLES):
        part = kept[start : start + BLOCK_SAMPLES]
        ids = range(start * JOBS, (start + BLOCK_SAMPLES) * JOBS, JOBS)
        small.append(encode(JOB_COLUMNS, ids, [sample.elapsed for sample in part], [sample.values for sample in part]))
    large = [merge(small[start : start + MERGED_BLOCKS]) for start in range(0, len(small), MERGED_BLOCKS)]
    lines = "".join(json_line(elapsed, row) for elapsed, row in rows(HOUR))
    gzipped = len(gzip.compress(lines.encode()))
    sealed, merged = (sum(map(len, packed)) / HOUR for packed in (small, large))
    yield BenchmarkResult("a sealed sample of 24 metrics", "bytes", [sealed], bound=26)
    yield BenchmarkResult("  in a merged block", "bytes", [merged], bound=26)
    yield BenchmarkResult("  against JSON Lines", "bytes", [sealed], [gzipped / HOUR], "gzip", bound=0.5)


def measure_ticks(work: Path) -> Iterator[BenchmarkResult]:
    """Measure storing 1,000 jobs that started together as an engine's writer does: a batch per tick, then steps."""
    database = open_to_write(StatePaths(work / "ticks", HOST))
    jobs, store = new_jobs(database, JOBS), SeriesStore(database)
    made = list(samples(JOBS + TICKS))
    gc.collect()
    gc.freeze()  # the benchmark's own objects are not the writer's garbage
    append_seconds: list[float] = []
    step_seconds: list[float] = []
    tick_seconds: list[float] = []
    for tick in range(TICKS):
        batch = [(job, made[tick + number]) for number, job in enumerate(jobs)]
        append_seconds.append(cpu_seconds(partial(store.append, batch))[0])
        steps: list[float] = []
        is_behind = True
        while is_behind and len(steps) < STEPS_PER_BATCH:
            spent, is_behind = cpu_seconds(store.step)
            steps.append(spent)
        step_seconds += steps
        tick_seconds.append(append_seconds[-1] + sum(steps))
    gc.unfreeze()
    database.close()
    # The first append also creates 1,000 rows.
    yield BenchmarkResult("1,000 jobs' samples appended, CPU time", "seconds", append_seconds[1:], bound=0.008)
    slowest = max(*append_seconds[1:], *step_seconds)
    yield BenchmarkResult("  the slowest append or step of housekeeping", "seconds", [slowest], bound=0.015)
    yield BenchmarkResult("  a tick with its housekeeping", "seconds", tick_seconds[BLOCK_SAMPLES:])


def measure_reading(work: Path, rounds: int) -> Iterator[BenchmarkResult]:
    """Measure sealing, merging and reading a day of samples, one per second."""
    database = open_to_write(StatePaths(work / "day", HOST))
    (job,) = new_jobs(database, 1)
    store = SeriesStore(database)
    batch: list[tuple[int, Sample]] = []
    step_seconds: list[float] = []
    for sample in samples(SECONDS_OF_A_DAY):
        batch.append((job, sample))
        if len(batch) == BLOCK_SAMPLES:
            store.append(batch)
            batch, is_behind = [], True
            while is_behind:
                spent, is_behind = cpu_seconds(store.step)
                step_seconds.append(spent)

    def time_of(keys: Sequence[str], start: float | None = None, max_points: int | None = None) -> list[float]:
        read = partial(store.series, job, keys, start, None, max_points)
        return [cpu_seconds(read)[0] for _ in range(rounds)]

    what = "a day at one second"
    yield BenchmarkResult(f"{what}, the slowest step of housekeeping", "seconds", [max(step_seconds)], bound=0.015)
    yield BenchmarkResult(f"{what}, memory at 600 points", "seconds", time_of(["mem.used"], max_points=600), bound=0.06)
    yield BenchmarkResult(
        f"{what}, CPU % at 600 points", "seconds", time_of(["cpu.percent"], max_points=600), bound=0.06
    )
    late = float(SECONDS_OF_A_DAY - FIVE_MINUTES)
    yield BenchmarkResult(f"{what}, all metrics of five minutes", "seconds", time_of(KEYS, start=late), bound=0.02)
    database.close()


def cpu_seconds(call: Callable[[], T]) -> tuple[float, T]:
    """Return the CPU time of a call, which does not depend on other load, and its result."""
    begin = time.process_time()
    answer = call()
    return time.process_time() - begin, answer


def new_jobs(database: Database, count: int) -> list[int]:
    """Insert `count` running jobs; return their sequence numbers."""
    jobs = Jobs(database)
    kept = [
        jobs.insert(Job(JobId(str(uuid.UUID(int=number))), "bench", ("true",), HOST, "bench", "/", Status.RUNNING))
        for number in range(count)
    ]
    return [job.seq for job in kept if job.seq is not None]
