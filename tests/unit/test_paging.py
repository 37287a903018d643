"""Pages of the history: every job is on one page, in the order of all jobs."""

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobtop.core.model import Job, Status, Usage
from jobtop.core.paths import StatePaths
from jobtop.core.query.filter import parse
from jobtop.core.record import replace
from jobtop.store.database import open_to_write
from jobtop.store.jobs import Jobs, Query
from jobtop.store.listing import read_order
from jobtop.store.ordering import SORT_KEYS
from records import HERE, call, kept_jobs, made_job, running_job

COUNT = 60
NOW = 1_700_000_100.0
NAMES = ("train", "Train", "caf\udce9", "日本", "")


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jobs]:
    """Jobs of which many have the same numbers, and some none."""
    kept = Jobs(open_to_write(StatePaths(tmp_path_factory.mktemp("paging"), HERE)))
    with kept.database.writing():
        for job in varied_jobs():
            kept.insert(job)
    yield kept
    kept.database.close()


def varied_jobs() -> Iterator[Job]:
    chance = random.Random(0)
    for number in range(COUNT):
        few = chance.choice((None, 1, 2, 3))
        usage = Usage(cpu_total_seconds=few, cpu_efficiency=few, memory_peak_bytes=few, io_read_bytes=few)
        yield made_job(
            name=chance.choice(NAMES),
            tool=chance.choice((None, "make", "Make", "pytorch")),
            host=f"h{number % 3}",
            status=chance.choice((Status.SUCCESS, Status.FAILED)),
            exit_code=few,
            start_time=None if few is None else NOW - few,
            end_time=few,
            duration_seconds=few,
            usage=replace(usage, io_write_bytes=chance.choice((None, 7))),
            tags={"even": ""} if number % 2 else {},
        )


def paged(jobs: Jobs, query: Query, size: int) -> list[int | None]:
    """The numbers of all jobs of a query, page by page."""
    found: list[int | None] = []
    while page := jobs.select(replace(query, limit=size, after=found[-1] if found else None)):
        assert len(page) <= size
        found += [job.seq for job in page]
    return found


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("sort", SORT_KEYS)
def test_all_pages_have_all_jobs_in_order(jobs: Jobs, sort: str, reverse: bool) -> None:
    query = Query(sort=sort, reverse=reverse, limit=None)
    whole = [job.seq for job in jobs.select(query)]
    assert len(whole) == COUNT
    assert list(read_order(jobs.database, query).seqs) == whole
    assert paged(jobs, query, 7) == whole


@pytest.mark.parametrize(
    "query",
    [
        Query(statuses=("failed",), since=NOW - 2),
        Query(tool="make"),
        Query(name_glob="[Tt]*", filter=parse("host:h1", NOW)),
        Query(tag="even"),
        Query(filter=parse("train -exit=2", NOW)),
    ],
    ids=["status and since", "tool", "name and host", "tag", "words"],
)
@pytest.mark.parametrize("sort", ["begun", "seq", "start", "memory", "duration", "io", "name"])
def test_pages_of_a_filter_have_its_jobs_in_order(jobs: Jobs, query: Query, sort: str) -> None:
    query = replace(query, sort=sort, limit=None)
    whole = [job.seq for job in jobs.select(query)]
    assert 1 < len(whole) < COUNT
    assert paged(jobs, query, 3) == whole


def test_a_page_does_not_change_while_jobs_are_added(home: Path) -> None:
    ids = [job.id for job in kept_jobs(home, *(made_job(start_time=float(number)) for number in range(6)))][::-1]
    first = json.loads(call("history", "--sort", "start", "--limit", "2", "--json").stdout)
    kept_jobs(home, *(made_job(start_time=99.0) for _ in range(3)))
    second = json.loads(call("history", "--sort", "start", "--limit", "2", "--page-after", ids[1][:8], "--json").stdout)
    assert [job["id"] for job in (*first, *second)] == ids[:4]


def test_the_page_after_the_last_job_is_empty_and_after_an_unknown_one_an_error(home: Path) -> None:
    (job,) = kept_jobs(home, running_job(status=Status.CANCELLED))
    assert "No more matching jobs" in call("history", "--page-after", job.id).stdout
    unknown = call("history", "--page-after", "ffffffff")
    assert (unknown.returncode, unknown.stdout) == (2, "")
    assert '"ffffffff" is not a job' in unknown.stderr


def plans_of(jobs: Jobs, query: Query) -> list[str]:
    """How SQLite finds the jobs of a query, for each time it is asked."""
    asked: list[str] = []
    with jobs.database.reading() as connection:
        connection.set_trace_callback(asked.append)
    jobs.select(query)
    with jobs.database.reading() as connection:
        connection.set_trace_callback(None)
        sought = [connection.execute(f"EXPLAIN QUERY PLAN {sql}") for sql in asked if "NULLS LAST" in sql]
        return [" / ".join(row["detail"] for row in rows) for rows in sought]


@pytest.mark.parametrize("sort", ["start", "memory", "duration"])
def test_a_page_is_found_by_walking_an_index_from_its_start(jobs: Jobs, sort: str) -> None:
    plan, *_ = plans_of(jobs, Query(statuses=("success",), sort=sort, after=COUNT // 2))
    column = SORT_KEYS[sort]
    index = "jobs_in_short" if sort == "start" else f"jobs_by_{sort}"
    assert f"SEARCH jobs USING COVERING INDEX {index} ({column}<?)" in plan


def test_the_newest_jobs_are_those_that_began_last(home: Path) -> None:
    times = {"today": (5.0, 6.0), "waits": (7.0, None), "imported": (None, 3.0), "unknown": (None, None)}
    for name, (submitted_at, start_time) in times.items():
        kept_jobs(home, made_job(name=name, submitted_at=submitted_at, start_time=start_time))
    found = json.loads(call("history", "--json").stdout)
    assert [job["name"] for job in found] == ["waits", "today", "imported", "unknown"]
    assert [job.split()[1] for job in call("history", "--sort", "seq").stdout.splitlines()[1:]] == list(times)[::-1]


@pytest.mark.parametrize("query", [Query(), Query(after=COUNT // 2), Query(reverse=True)], ids=["first", "next", "old"])
def test_a_page_of_the_newest_is_found_by_walking_an_index(jobs: Jobs, query: Query) -> None:
    first, *_ = plans_of(jobs, replace(query, sort="begun"))
    assert "jobs USING INDEX jobs_by_begun" in first
    assert first.count("USE TEMP B-TREE") == 1, "only the few that were chosen are sorted"


@pytest.mark.parametrize("line", ["train", "-exit=2", "host:h1", "since:1d"])
@pytest.mark.parametrize("reverse", [False, True])
def test_pages_of_the_newest_matching_jobs_are_in_order_however_far_away(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch, line: str, reverse: bool
) -> None:
    query = Query(filter=parse(line, NOW), sort="begun", reverse=reverse, limit=None)
    whole = [job.seq for job in jobs.select(query)]
    known = {job.seq: job.start_time or job.submitted_at for job in jobs.select(Query(limit=None))}
    assert whole == sorted(whole, key=lambda seq: (known[seq], seq), reverse=not reverse)
    monkeypatch.setattr("jobtop.store.ordering.NEAR_JOBS", 5)
    assert paged(jobs, query, 3) == whole
