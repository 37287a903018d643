"""Measures pruning a million old samples: how late an engine samples meanwhile, and the size of the file afterwards."""

import json
import os
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from itertools import pairwise
from pathlib import Path

from benchmarks.installation import Installation, environment
from benchmarks.report import BenchmarkResult, MeasurementError
from benchmarks.series import samples
from benchmarks.stopwatch import LONGEST_SECONDS, wait_for_orphans
from jobtop.core.job_id import JobId
from jobtop.core.model import Job, Kept, Status
from jobtop.core.paths import StatePaths, hostname
from jobtop.core.record import replace
from jobtop.store.database import Database, open_to_read, open_to_write
from jobtop.store.jobs import Jobs
from jobtop.store.samples.sealed import BLOCK_SAMPLES
from jobtop.store.samples.series import SeriesStore

JOBS, SAMPLES = 50, 20_000
INTERVAL, DAY = 0.1, 86_400.0
ALONE_SECONDS, INSIDE_SECONDS = 10.0, 20.0
MAX_LATENESS, MAX_SIZE_RATIO = 0.05, 1.15
# Runs jobtop with an engine that starts retention at once instead of after a minute.
EARLY_RETENTION = """
import sys
from jobtop.store.samples import sink
sink.RETENTION_SECONDS = 0.0
from jobtop.__main__ import main
sys.exit(main())
"""


def measure_retention(tools: Installation, work: Path, _rounds: int) -> Iterator[BenchmarkResult]:
    """Measure by how much ticks of an engine, at 0.1 s, are late: alone, while it prunes, and during `jobtop prune`."""
    home = work / "retention"
    paths = StatePaths(home / "state", hostname())
    env = environment(home)
    home.mkdir()
    jobtop = [tools.tool("jobtop")]
    alone = tick_lateness(jobtop, env, paths, lambda: time.sleep(ALONE_SECONDS))
    fill(paths)
    inside = tick_lateness(
        [tools.tool("python"), "-c", EARLY_RETENTION], env, paths, lambda: time.sleep(INSIDE_SECONDS)
    )
    spent: list[float] = []
    pruned = tick_lateness(jobtop, env, paths, lambda: spent.append(pruning_seconds(jobtop, env, home)))
    what = f"{JOBS * SAMPLES:,} samples pruned"
    yield BenchmarkResult(f"{what}, the latest tick of an engine", "seconds", [max(pruned)], bound=MAX_LATENESS)
    yield BenchmarkResult("  of an engine that prunes itself", "seconds", [max(inside)], bound=MAX_LATENESS)
    yield BenchmarkResult("  of an engine that is alone", "seconds", [max(alone)])
    yield BenchmarkResult("  wall time", "seconds", spent)
    yield compare_file_size(paths, home)


def fill(paths: StatePaths) -> None:
    """Store jobs that ended ten days ago: one with its own samples, the others with copies of its blocks."""
    database = open_to_write(paths)
    first, *others = [new_job(database, paths.host, number) for number in range(JOBS)]
    store = SeriesStore(database)
    batch = []
    for sample in samples(SAMPLES):
        batch.append((first, sample))
        if len(batch) == BLOCK_SAMPLES:
            store.append(batch)
            batch = []
            while store.step():
                pass
    store.append(batch)
    store.seal(first)
    columns = "first_elapsed, last_elapsed, last_id, samples, data"
    with database.writing() as connection:
        for other in others:
            connection.execute(
                "INSERT INTO series SELECT ?, sealed_until, 0 FROM series WHERE job_seq = ?", (other, first)
            )
            connection.execute(
                f"INSERT INTO blocks (job_seq, {columns}) SELECT ?, {columns} FROM blocks WHERE job_seq = ?",
                (other, first),
            )
    database.close()


def new_job(database: Database, host: str, number: int) -> int:
    end = time.time() - 10 * DAY
    job = Job(JobId(str(uuid.UUID(int=number))), "old", ("true",), host, "bench", "/", Status.SUCCESS, settled=True)
    job = replace(job, start_time=end - SAMPLES, end_time=end, duration_seconds=float(SAMPLES))
    return Jobs(database).insert(job).seq or 0


def tick_lateness(
    jobtop: Sequence[str], env: Mapping[str, str], paths: StatePaths, meanwhile: Callable[[], object]
) -> list[float]:
    """Return for each tick of an engine by how much its distance from the previous one exceeded the interval."""
    with engine(jobtop, env) as name:
        meanwhile()
    with closing(open_to_read(paths.store)) as database:
        job = Jobs(database).find(name)
        moments = [sample.elapsed for sample in SeriesStore(database).samples(job.seq or 0)]
    if len(moments) < ALONE_SECONDS / INTERVAL / 2:
        raise MeasurementError(f"an engine took only {len(moments)} samples")
    # The first sample is taken when the job starts, not on the grid.
    return [after - before - INTERVAL for before, after in pairwise(moments[1:-1])]


@contextmanager
def engine(jobtop: Sequence[str], env: Mapping[str, str]) -> Iterator[str]:
    """Run a sampled job; yield its external id."""
    name = f"engine-{time.monotonic_ns()}"
    # With a budget it would sample less often among many processes, which would look like late ticks.
    command = [
        *jobtop,
        "--set",
        "monitor.budget=1",
        "run",
        "--no-ui",
        "--quiet",
        "--interval",
        str(INTERVAL),
        "--external-id",
        name,
        "--",
    ]
    load = ["sleep", str(LONGEST_SECONDS)]
    process = subprocess.Popen([*command, *load], env=env, cwd=env["HOME"], stdin=subprocess.DEVNULL)
    try:
        time.sleep(2.0)
        yield name
    finally:
        process.terminate()
        process.wait()
        wait_for_orphans()


def pruning_seconds(jobtop: Sequence[str], env: Mapping[str, str], home: Path) -> float:
    begin = time.perf_counter()
    done = subprocess.run([*jobtop, "prune", "--json"], env=env, cwd=home, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - begin
    if done.returncode != 0 or not json.loads(done.stdout)["samples"]:
        raise MeasurementError(f"jobtop prune exited with {done.returncode}: {done.stderr.strip() or done.stdout}")
    return seconds


def compare_file_size(paths: StatePaths, home: Path) -> BenchmarkResult:
    """Compare the size of the file with that of a vacuumed copy."""
    with closing(open_to_read(paths.store)) as database, database.reading() as connection:
        whole = connection.execute("SELECT count(*) FROM jobs WHERE kept = ? AND name = 'old'", (Kept.WHOLE,))
        if whole.fetchone()[0]:
            raise MeasurementError("jobtop prune left old jobs whole")
    copy = home / "copy.db"
    with closing(open_to_write(paths)) as database, database.alone() as connection:
        connection.execute("VACUUM INTO ?", (str(copy),))
    sizes = [os.path.getsize(paths.store)], [os.path.getsize(copy)]
    return BenchmarkResult(
        "  the file then, against a copy of what is in it", "bytes", *sizes, "copied", bound=MAX_SIZE_RATIO
    )
