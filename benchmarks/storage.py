"""What keeping samples costs: bytes a sample, CPU time a tick of 1,000 jobs, and how fast a day is read."""

import gzip
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from benchmarks.installation import Installation
from benchmarks.report import Result
from benchmarks.series import KEYS, json_line, rows, samples
from jobtop.core.blocks import encode
from jobtop.core.metrics import JOB_COLUMNS
from jobtop.core.model import Job, Sample, Status
from jobtop.core.paths import StatePaths
from jobtop.store.database import Database, open_to_write
from jobtop.store.jobs import Jobs
from jobtop.store.series import BLOCK_SAMPLES, SeriesStore

HOST = "bench"
JOBS, SECONDS_OF_A_DAY = 1000, 86_400
HOUR, FIVE_MINUTES = 3600, 300
TICKS_WITH_SEALS = 2 * BLOCK_SAMPLES


def measure_storage(_tools: Installation, work: Path, rounds: int) -> Iterator[Result]:
    yield from measure_size()
    yield from measure_ticks(work)
    yield from measure_reading(work, rounds)


def measure_size() -> Iterator[Result]:
    """An hour of the 24 metrics, against the same as JSON Lines."""
    kept = list(samples(HOUR))
    sealed = 0
    for start in range(0, HOUR, BLOCK_SAMPLES):
        part = kept[start : start + BLOCK_SAMPLES]
        ids = range(start * JOBS, (start + BLOCK_SAMPLES) * JOBS, JOBS)
        sealed += len(encode(JOB_COLUMNS, ids, [sample.elapsed for sample in part], [sample.values for sample in part]))
    lines = "".join(json_line(elapsed, row) for elapsed, row in rows(HOUR))
    gzipped = len(gzip.compress(lines.encode()))
    yield Result("a sealed sample of 24 metrics", "bytes", [sealed / HOUR], bound=26)
    yield Result("  against JSON Lines", "bytes", [sealed / HOUR], [gzipped / HOUR], "gzip", bound=0.5)


def measure_ticks(work: Path) -> Iterator[Result]:
    """1,000 jobs that began together; the ticks that seal are those from the 120th on, and the slowest counts."""
    database = open_to_write(StatePaths(work / "ticks", HOST))
    jobs, store = new_jobs(database, JOBS), SeriesStore(database)
    made = list(samples(JOBS + BLOCK_SAMPLES + TICKS_WITH_SEALS))
    append_seconds, tick_seconds = [], []
    for tick in range(BLOCK_SAMPLES + TICKS_WITH_SEALS):
        batch = [(job, made[tick + number]) for number, job in enumerate(jobs)]
        begin = time.process_time()
        store.append(batch)
        appended = time.process_time()
        sealed = store.seal_due()
        store.trim()
        append_seconds.append(appended - begin)
        if sealed:
            tick_seconds.append(time.process_time() - begin)
    database.close()
    # The first one makes 1,000 rows besides.
    yield Result("1,000 jobs' samples appended, CPU time", "seconds", append_seconds[1:], bound=0.008)
    yield Result("  with seals and trimming, the slowest tick", "seconds", [max(tick_seconds)], bound=0.015)
    yield Result("  with seals and trimming, the usual tick", "seconds", tick_seconds)


def measure_reading(work: Path, rounds: int) -> Iterator[Result]:
    """A day of seconds, sealed but for its end."""
    database = open_to_write(StatePaths(work / "day", HOST))
    (job,) = new_jobs(database, 1)
    store = SeriesStore(database)
    batch: list[tuple[int, Sample]] = []
    for sample in samples(SECONDS_OF_A_DAY):
        batch.append((job, sample))
        if len(batch) == BLOCK_SAMPLES:
            store.append(batch)
            store.seal_due()
            store.trim()
            batch = []
    store.append(batch)

    def time_of(keys: Sequence[str], start: float | None = None, max_points: int | None = None) -> list[float]:
        return [seconds(lambda: store.series(job, keys, start, None, max_points)) for _ in range(rounds)]

    what = "a day at one second"
    yield Result(f"{what}, memory at 600 points", "seconds", time_of(["mem.used"], max_points=600), bound=0.06)
    yield Result(f"{what}, CPU % at 600 points", "seconds", time_of(["cpu.percent"], max_points=600), bound=0.06)
    late = float(SECONDS_OF_A_DAY - FIVE_MINUTES)
    yield Result(f"{what}, all metrics of five minutes", "seconds", time_of(KEYS, start=late), bound=0.02)
    database.close()


def seconds(call: Callable[[], object]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def new_jobs(database: Database, count: int) -> list[int]:
    """So many running jobs, by their numbers."""
    jobs = Jobs(database)
    kept = [
        jobs.insert(Job(f"{number:032x}", "bench", ("true",), HOST, "bench", "/", Status.RUNNING))
        for number in range(count)
    ]
    return [job.seq for job in kept if job.seq is not None]
