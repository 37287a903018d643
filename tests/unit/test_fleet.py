"""Several stores read as one history: one order, pages, references, and unreadable stores left out."""

import random
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from jobtop.core.errors import AmbiguousJob, RowDamaged, StoreDamaged, UnknownJob, UsageError
from jobtop.core.job_id import JobId
from jobtop.core.model import Job, Status, Usage
from jobtop.core.paths import StatePaths
from jobtop.core.query.filter import parse
from jobtop.core.record import replace
from jobtop.store.database import open_to_read, open_to_write
from jobtop.store.fleet import Fleet
from jobtop.store.jobs import Jobs, Query
from jobtop.store.listing import merge_key
from jobtop.store.ordering import SORT_KEYS
from jobtop.store.query_sql import querying
from records import damage_pages, made_job

HOSTS = ("alpha", "beta", "gamma")
COUNT = 40


def keep(root: Path, host: str, *jobs: Job) -> Path:
    paths = StatePaths(root, host)
    with closing(open_to_write(paths)) as database:
        for job in jobs:
            Jobs(database).insert(job)
    return paths.store


class Opener:
    """Makes fleets, and closes all of them."""

    def __init__(self) -> None:
        self.opened: list[Jobs] = []

    def __call__(self, *paths: Path, warn: Callable[[str], None] = pytest.fail, are_named: bool = True) -> Fleet:
        return Fleet({path: partial(self.open, path) for path in paths}, warn, are_named)

    def open(self, path: Path) -> Jobs:
        self.opened.append(Jobs(open_to_read(path)))
        return self.opened[-1]


@pytest.fixture(scope="module")
def fleet_of() -> Iterator[Opener]:
    opener = Opener()
    yield opener
    for store in opener.opened:
        store.database.close()


def varied_jobs() -> Iterator[Job]:
    """Jobs of which many have the same numbers, and some none."""
    chance = random.Random(0)
    for number in range(COUNT):
        few = chance.choice((None, 1, 2, 3))
        usage = Usage(cpu_total_seconds=few, memory_peak_bytes=few, io_read_bytes=few, io_write_bytes=few)
        yield made_job(
            id=f"{number:08x}-0000-4000-8000-000000000000",
            name=chance.choice(("train", "Train", "caf\udce9", "")),
            tool=chance.choice((None, "make", "pytorch")),
            host=HOSTS[number % len(HOSTS)],
            exit_code=few,
            submitted_at=chance.choice((None, 5.0, 6.0)),
            start_time=few,
            duration_seconds=few,
            usage=replace(usage, cpu_efficiency=few),
        )


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory, fleet_of: Opener) -> Fleet:
    root, jobs = tmp_path_factory.mktemp("fleet"), list(varied_jobs())
    paths = [keep(root, host, *(job for job in jobs if job.host == host)) for host in HOSTS]
    return fleet_of(*paths)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("sort", SORT_KEYS)
def test_pages_of_several_stores_have_all_jobs_in_one_order(fleet: Fleet, sort: str, reverse: bool) -> None:
    query = Query(sort=sort, reverse=reverse, limit=None)
    whole = [job.id for _, job in fleet.select(query)]
    assert sorted(whole) == [job.id for job in varied_jobs()]
    pages: list[str] = []
    while page := fleet.select(replace(query, limit=7), pages[-1] if pages else None):
        assert len(page) <= 7
        pages += [job.id for _, job in page]
    assert pages == whole
    keys = {job.id: key for store in fleet.stores for job, key in sorted_by(store, sort)}
    known = [keys[job_id] for job_id in whole if keys[job_id] is not None]
    assert known == sorted(known, reverse=not reverse)
    assert [keys[job_id] is None for job_id in whole] == [False] * len(known) + [True] * (COUNT - len(known))


def sorted_by(store: Jobs, sort: str) -> list[tuple[Job, Any]]:
    with querying(store.database, Query(sort=sort, limit=None)) as (connection, _, _):
        keys = dict(map(tuple, connection.execute(f"SELECT seq, {merge_key(sort)} FROM jobs").fetchall()))
    return [(job, keys[job.seq]) for job in store.select(Query(limit=None))]


def test_a_job_that_is_in_two_files_is_listed_and_counted_once(tmp_path: Path, fleet_of: Opener) -> None:
    first, both, last = (made_job(submitted_at=float(at), host="alpha") for at in (1, 2, 3))
    paths = keep(tmp_path, "alpha", first, both), keep(tmp_path, "archive", both, last)
    fleet = fleet_of(*paths)
    assert [job.id for _, job in fleet.select(Query(limit=3))] == [last.id, both.id, first.id]
    assert [job.id for _, job in fleet.select(Query(limit=1), both.id)] == [first.id]
    assert len(fleet.figures(None, "tool")) == fleet.count(Query(limit=1)) == 3
    assert fleet.find(both.id)[0].database.path == paths[0]
    assert fleet_of(*reversed(paths)).find(both.id)[0].database.path == paths[0]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("sort", ["begun", "memory", "status", "name", "seq"])
def test_pages_over_stores_that_share_jobs_have_each_once_and_end(
    tmp_path: Path, fleet_of: Opener, sort: str, reverse: bool
) -> None:
    jobs = [replace(job, host="alpha") for job in varied_jobs()]
    same = [replace(made_job(start_time=2.0, submitted_at=2.0), host="alpha") for _ in range(12)]
    shared = [*jobs, *same]
    paths = keep(tmp_path, "alpha", *shared), keep(tmp_path, "all", *reversed(shared), made_job(host="beta"))
    for fleet in (fleet_of(*paths), fleet_of(*reversed(paths))):
        query = Query(sort=sort, reverse=reverse, limit=5)
        pages: list[str] = []
        while page := fleet.select(query, pages[-1] if pages else None):
            pages += [job.id for _, job in page]
            assert len(pages) <= len(shared) + 1
        assert len(set(pages)) == len(pages) == len(shared) + 1
        assert pages == [job.id for _, job in fleet.select(replace(query, limit=None))]


def test_only_the_best_copy_of_a_job_in_two_files_is_used(tmp_path: Path, fleet_of: Opener) -> None:
    ended = made_job(host="alpha", start_time=1.0, end_time=9.0)
    lost = made_job(host="alpha", start_time=2.0, status=Status.LOST)
    then = [replace(ended, status=Status.RUNNING, end_time=None), replace(lost, status=Status.RUNNING)]
    paths = keep(tmp_path, "alpha", ended, lost), keep(tmp_path, "aaa", *then)
    for fleet in (fleet_of(*paths), fleet_of(*reversed(paths))):
        assert [job.status for _, job in fleet.select(Query())] == ["lost", "success"]
        for query in (Query(statuses=("running",)), Query(filter=parse("status:running", 0.0))):
            assert (fleet.select(query), fleet.count(query)) == ([], 0)
        assert fleet.count(Query()) == 2
        assert sorted(row[1] for row in fleet.figures(None, "tool")) == ["lost", "success"]
        assert fleet.figures(None, "tool", parse("status:running", 0.0)) == []
        assert fleet.find(ended.id)[1].status == "success"


def test_the_copy_of_a_live_job_with_the_latest_heartbeat_is_shown(tmp_path: Path, fleet_of: Opener) -> None:
    job = made_job(host="alpha", start_time=1.0, status=Status.RUNNING)
    paths = keep(tmp_path, "alpha", job), keep(tmp_path, "later", replace(job, status=Status.PAUSED))
    for path, heard in zip(paths, (5.0, 6.0), strict=True):
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("UPDATE jobs SET heartbeat = ?", (heard,))
    assert [job.status for _, job in fleet_of(*paths).select(Query())] == ["paused"]


def test_a_job_is_found_in_whichever_store_it_is(tmp_path: Path, fleet_of: Opener) -> None:
    ones = [
        made_job(id=JobId(f"abcd000{number}-0000-4000-8000-000000000000"), host=host)
        for number, host in enumerate(HOSTS)
    ]
    named = made_job(external_id="abcd", host="beta")
    fleet = fleet_of(
        keep(tmp_path, "alpha", ones[0]), keep(tmp_path, "beta", ones[1], named), keep(tmp_path, "gamma", ones[2])
    )
    store, job = fleet.find("abcd0002")
    assert (store.database.path.stem, job.id) == ("gamma", ones[2].id)
    assert fleet.find("abcd")[1].id == named.id
    with pytest.raises(AmbiguousJob, match=r"several.*alpha.*beta.*gamma"):
        fleet.find("abcd0")
    with pytest.raises(UnknownJob, match=r'"ffff".* 3 stores'):
        fleet.find("ffff")


def test_an_unreadable_store_is_named_in_one_line_and_the_others_are_read(tmp_path: Path, fleet_of: Opener) -> None:
    sound = keep(tmp_path, "sound", made_job(host="sound"))
    newer, torn = keep(tmp_path, "newer", made_job()), keep(tmp_path, "torn", made_job(), made_job())
    with closing(sqlite3.connect(newer)) as connection:
        connection.execute("PRAGMA user_version = 99")
    damage_pages(torn)
    garbage = tmp_path / "garbage.db"
    garbage.write_text("no database " * 100)
    said: list[str] = []
    fleet = fleet_of(newer, torn, garbage, tmp_path / "gone.db", sound, warn=said.append)
    assert [job.host for _, job in fleet.select(Query())] == ["sound"]
    assert [job.host for _, job in fleet.select(Query())] == ["sound"]
    assert len(said) == 4
    for path, words in (
        (newer, "newer jobtop"),
        (torn, "damaged"),
        (garbage, "not a store"),
        (tmp_path / "gone.db", "no"),
    ):
        assert [line for line in said if line.startswith(f"left out: {path}: ") and words in line]


def test_a_damaged_row_leaves_out_only_that_row(tmp_path: Path, fleet_of: Opener) -> None:
    wrong, right = made_job(host="odd"), made_job(host="even")
    sound, odd = keep(tmp_path, "sound", made_job(host="sound")), keep(tmp_path, "odd", wrong, right)
    with closing(sqlite3.connect(odd)) as connection, connection:
        connection.execute("UPDATE jobs SET status = 'dancing' WHERE id = ?", (wrong.id,))
    said: list[str] = []
    fleet = fleet_of(odd, sound, warn=said.append)
    assert {job.host for _, job in fleet.select(Query())} == {"sound", "even"}
    assert said == []
    assert "dancing" in next(iter(fleet.stores[0].database.damaged))
    with pytest.raises(RowDamaged, match="dancing"):
        fleet.find(wrong.id)
    assert fleet.find(right.id)[1].host == "even"


def test_it_is_a_usage_error_if_no_store_can_be_read(tmp_path: Path, fleet_of: Opener) -> None:
    said: list[str] = []
    with pytest.raises(UsageError, match="none of the stores"):
        fleet_of(tmp_path / "a.db", tmp_path / "b.db", warn=said.append)
    assert len(said) == 2
    with pytest.raises(UsageError, match=r"a\.db.*no such store"):
        fleet_of(tmp_path / "a.db")
    damaged = keep(tmp_path, "torn", made_job())
    damage_pages(damaged)
    with pytest.raises(StoreDamaged):
        fleet_of(damaged, are_named=False).select(Query())
    with pytest.raises(UsageError):
        fleet_of(damaged).select(Query())


def test_a_filter_selects_hosts_of_several_stores(fleet: Fleet) -> None:
    found = fleet.select(Query(filter=parse("host:beta", 0.0), limit=None))
    assert {job.host for _, job in found} == {"beta"}
    assert len(found) == sum(job.host == "beta" for job in varied_jobs())
    assert {job.status for _, job in found} == {Status.SUCCESS}
