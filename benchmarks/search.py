"""Measures finding jobs among 100,000: four queries, compared with a scan of JSON Lines, and a page at the end."""

import json
import random
import time
import uuid
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.installation import Installation
from benchmarks.report import BenchmarkResult, MeasurementError
from benchmarks.stopwatch import measure_in_turns
from jobtop.core.clock import iso
from jobtop.core.job_id import JobId
from jobtop.core.model import Job, Status, Usage
from jobtop.core.paths import StatePaths
from jobtop.core.query.filter import parse
from jobtop.core.record import replace
from jobtop.store.database import open_to_write
from jobtop.store.jobs import Jobs, Query
from jobtop.store.search import update_index
from jobtop.store.upkeep.description import KINDS, table_bytes

FEW, MANY, ROWS = 10_000, 100_000, 50
NOW, DAY = 1_750_000_000.0, 86_400.0
SCANS = 3
TOOLS = ("pytorch", "make", "snakemake", "blast", None)
HOSTS = tuple(f"node{number:02}" for number in range(8))
STATUSES = (Status.SUCCESS,) * 16 + (Status.FAILED, Status.FAILED, Status.TIMEOUT, Status.CANCELLED)
SINCE = iso(NOW - 30 * DAY) or ""
Shape = dict[str, Any]
QUESTIONS: dict[str, tuple[Query, Callable[[Shape], bool], Callable[[Shape], Any]]] = {
    "tool and status by start time": (
        Query(tool="pytorch", statuses=("failed",), sort="start", limit=ROWS),
        lambda job: job["tool"] == "pytorch" and job["status"] == "failed",
        lambda job: job["start_time"],
    ),
    "status and since by peak memory": (
        Query(statuses=("success",), since=NOW - 30 * DAY, sort="memory", limit=ROWS),
        lambda job: job["status"] == "success" and job["start_time"] >= SINCE,
        lambda job: job["resource_usage"]["memory_peak_bytes"],
    ),
    "name and host by duration": (
        Query(name_glob="train-*", filter=parse("host:node03", NOW), sort="duration", limit=ROWS),
        lambda job: fnmatchcase(job["name"], "train-*") and job["host"] == "node03",
        lambda job: job["duration_seconds"],
    ),
    "a word in names, commands and notes, the newest": (
        Query(filter=parse("diverged", NOW), sort="begun", limit=ROWS),
        lambda job: any("diverged" in text.lower() for text in (job["name"], job["note"] or "", *job["command"])),
        lambda job: job["start_time"],
    ),
}


def measure_search(_tools: Installation, work: Path, rounds: int) -> Iterator[BenchmarkResult]:
    """Measure each query; MeasurementError if store and scan find different jobs."""
    few, many = make_store(work / "few", FEW), make_store(work / "many", MANY)
    lines = work / "jobs.jsonl"
    with lines.open("w") as file:
        file.writelines(json.dumps(job.to_json()) + "\n" for job in generate_jobs(MANY))
    made = [seconds(partial(update_index, jobs.database, float("inf"))) for jobs in (few, many)]
    yield BenchmarkResult(f"an index of the words of {MANY:,} jobs made", "seconds", made[1:])
    for name, (query, matches, key) in QUESTIONS.items():
        if [job.id for job in many.select(query)] != [job["id"] for job in scan(lines, matches, key)]:
            raise MeasurementError(f"{name}: the store and the scan find different jobs")
        scans = [seconds(partial(scan, lines, matches, key)) for _ in range(SCANS)]
        taken = measure_in_turns(
            {store: partial(seconds, partial(jobs.select, query)) for store, jobs in (("few", few), ("many", many))},
            rounds,
        )
        slow = [median(scans)] * rounds
        yield BenchmarkResult(
            f"{ROWS} of {MANY:,} jobs: {name}", "seconds", taken["many"], slow, "JSON Lines", bound=1 / 50
        )
        yield BenchmarkResult("  against 10,000 jobs", "seconds", taken["many"], taken["few"], "of 10,000", bound=2)
    yield from measure_pages(many, rounds)
    yield from measure_index(many)
    for jobs in (few, many):
        jobs.database.close()


def measure_pages(jobs: Jobs, rounds: int) -> Iterator[BenchmarkResult]:
    """Measure the last page by memory, and a query with few matches: both have to walk an index to its end."""
    query = Query(sort="memory", limit=ROWS)
    last = jobs.select(replace(query, reverse=True))[-1].seq
    far = replace(query, after=last)
    few = Query(name_glob="train-123", filter=parse("host:node03", NOW), sort="duration", limit=ROWS)
    taken = measure_in_turns(
        {
            name: partial(seconds, partial(jobs.select, asked))
            for name, asked in (("first", query), ("far", far), ("few", few))
        },
        rounds,
    )
    yield BenchmarkResult(
        "  the last page of all by memory", "seconds", taken["far"], taken["first"], "the first", bound=1.5
    )
    yield BenchmarkResult("  a name that few have, and a host, by duration", "seconds", taken["few"])


def measure_index(jobs: Jobs) -> Iterator[BenchmarkResult]:
    """Compare the size of the search index with that of the jobs and their other indexes."""
    with jobs.database.reading() as connection:
        sizes, _ = table_bytes(connection)
    index_bytes = sum(size for table, size in sizes.items() if KINDS.get(table) == "search")
    yield BenchmarkResult("  the index of words", "bytes", [index_bytes], [sizes["jobs"]], "the jobs", bound=0.3)


def seconds(call: Callable[[], object]) -> float:
    """Return the CPU time of a call, which does not depend on other load."""
    begin = time.process_time()
    call()
    return time.process_time() - begin


def scan(lines: Path, matches: Callable[[Shape], bool], key: Callable[[Shape], Any]) -> list[Shape]:
    """Find jobs in a file of JSON Lines."""
    with lines.open() as file:
        found = [job for job in map(json.loads, file) if matches(job)]
    return sorted(found, key=key, reverse=True)[:ROWS]


def make_store(root: Path, count: int) -> Jobs:
    """Make a store of `count` jobs."""
    jobs = Jobs(open_to_write(StatePaths(root, "bench")))
    with jobs.database.writing():
        for job in generate_jobs(count):
            jobs.insert(job)
    return jobs


def generate_jobs(count: int) -> Iterator[Job]:
    """Yield two years of jobs, the same each time; all have different start times, durations and memory peaks."""
    rng = random.Random(0)
    for number in range(count):
        begun = NOW - 730 * DAY * (1 - number / count)
        duration = round(rng.lognormvariate(5, 2), 6) + number * 1e-6
        memory = round(rng.lognormvariate(20, 1.5)) * MANY + number
        usage = Usage(cpu_total_seconds=duration * rng.random() * 4, memory_peak_bytes=memory, samples=1)
        name = f"{rng.choice(('train', 'align', 'render', 'test'))}-{rng.randrange(1000)}"
        yield Job(
            JobId(str(uuid.UUID(int=rng.getrandbits(128), version=4))),
            name,
            ("python", f"{name}.py", "--seed", str(number)),
            rng.choice(HOSTS),
            "ada",
            "/home/ada/project",
            rng.choice(STATUSES),
            tool=rng.choice(TOOLS),
            submitted_at=begun,
            start_time=begun,
            end_time=begun + duration,
            duration_seconds=duration,
            usage=usage,
            tags={"team": rng.choice(("red", "blue"))},
            note=rng.choice((None,) * 99 + ("the loss Diverged again",)),
            settled=True,
        )
