"""The full-text index changes no result, follows every change, and may be missing or damaged."""

from pathlib import Path

import pytest

from jobtop.core.model import Job
from jobtop.core.paths import StatePaths
from jobtop.core.query.filter import parse, quoted
from jobtop.core.record import replace
from jobtop.store import search
from jobtop.store.database import Database, open_to_read, open_to_write
from jobtop.store.filtering import filter_terms
from jobtop.store.jobs import SEQ_IN_LIST, Jobs, Query
from jobtop.store.upkeep.checking import check
from jobtop.store.upkeep.compaction import vacuum
from jobtop.store.upkeep.copying import backup
from jobtop.store.upkeep.description import describe
from jobtop.store.upkeep.merging import merge
from records import HERE, HOSTILE_TEXTS, made_job

NOW = 1_700_100_000.0
JOBS = 40


@pytest.fixture(autouse=True)
def few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "MANY_CHANGES", 10)
    monkeypatch.setattr(search, "JOBS_AT_ONCE", 7)


@pytest.fixture
def database(database: Database) -> Database:
    """The store of this host, with jobs to search by name and command."""
    with database.writing():
        for number in range(JOBS):
            Jobs(database).insert(made_job(name=f"job-{number:03}", command=("make", f"target-{number}")))
    return database


def names(database: Database, line: str) -> list[str]:
    return [job.name for job in Jobs(database).select(Query(filter=parse(line, NOW), limit=None))]


def known(database: Database, line: str) -> int | None:
    """How many jobs have to be looked at; None if that are all."""
    wanted = parse(line, NOW)
    with database.reading() as connection:
        found = search.candidates(connection, wanted.conditions)
        with filter_terms(connection, wanted) as terms:
            assert (SEQ_IN_LIST in [sql for sql, _ in terms]) is (found is not None)
    return None if found is None else len(found)


def change(database: Database, name: str, **values: str) -> None:
    (job,) = Jobs(database).select(Query(name_glob=name))
    Jobs(database).change(job.id, lambda before: (replace(before, **values), ()))


def tables(database: Database) -> set[str]:
    with database.reading() as connection:
        return {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE name LIKE 'search%'")}


def test_a_word_is_found_without_reading_all_jobs(database: Database) -> None:
    assert known(database, "target-17") is None
    assert names(database, "TARGET-17") == ["job-017"]
    assert known(database, "target-17") == 1
    assert names(database, "'make target-3' -job-003 -3?") == []
    assert names(database, "'make target-3' -39 since:7d") == [f"job-{n:03}" for n in (*range(38, 29, -1), 3)]


@pytest.mark.parametrize("line", ["ta", "-target-17", "t?r*g", "host:target-17", "id:target"])
def test_conditions_that_the_index_cannot_narrow_are_tested_for_all_jobs(database: Database, line: str) -> None:
    names(database, "target-17")
    assert known(database, line) is None
    assert len(names(database, line)) in (0, JOBS - 1, JOBS)


def test_an_index_is_made_for_many_jobs_only_and_by_words_only(database: Database) -> None:
    search.MANY_CHANGES = JOBS + 1
    assert names(database, "target-17") == ["job-017"]
    search.MANY_CHANGES = 10
    assert len(names(database, "status:success")) == JOBS
    assert tables(database) == set()


def test_changed_jobs_are_found_by_their_new_text(database: Database) -> None:
    assert names(database, "diverged") == []
    change(database, "job-005", note="it Diverged")
    Jobs(database).insert(made_job(name="new", command=("true",)))
    assert names(database, "diverged") == ["job-005"]
    assert names(database, "note:*iverge*") == ["job-005"]
    assert known(database, "diverged") == 2
    for number in range(20):
        change(database, "job-005", note=f"try {number}")
        Jobs(database).insert(made_job(name=f"more-{number:03}"))
    assert names(database, "diverged") == []
    assert names(database, "'try 19'") == ["job-005"]
    assert known(database, "diverged") == 0


def test_a_read_only_search_uses_an_outdated_index_and_reads_the_rest(database: Database) -> None:
    reader = open_to_read(database.path)
    assert names(reader, "target-17") == ["job-017"]
    assert tables(reader) == set()
    names(database, "target-17")
    for number in range(20):
        Jobs(database).insert(made_job(name=f"more-{number:03}"))
    assert names(reader, "more-017") == ["more-017"]
    assert known(reader, "target-17") == 21
    reader.close()


def test_the_text_of_a_deleted_job_is_deleted_from_the_index(database: Database) -> None:
    names(database, "target-17")
    (job,) = Jobs(database).select(Query(name_glob="job-017"))
    Jobs(database).delete(job)
    assert names(database, "target-17") == []
    with database.reading() as connection:
        assert connection.execute("SELECT count(*) FROM search WHERE text LIKE '%target-17%'").fetchone()[0] == 0


def test_jobs_from_before_changes_were_counted_are_all_indexed(database: Database) -> None:
    with database.writing() as connection:
        connection.execute("UPDATE jobs SET touched = 0")
    assert names(database, "target-17") == ["job-017"]
    assert known(database, "target-17") == 1
    assert [known(database, f"job-{number:03}") for number in range(JOBS)] == [1] * JOBS


@pytest.mark.parametrize(
    "text", [*HOSTILE_TEXTS.values(), '"', '" OR "x', "a*", "NEAR(a b)", "text:x", "x\0yz", "-- ;"]
)
def test_hostile_words_are_only_searched_for(database: Database, text: str) -> None:
    names(database, "target-17")
    Jobs(database).insert(made_job(name="hostile", command=("echo", f"before{text}after")))
    for number in range(10):
        Jobs(database).insert(made_job(name=f"more-{number}"))
    assert "hostile" in names(database, "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'")
    assert names(database, f"name:hostile command:{quoted(f'*{text}*')}") == ["hostile"]
    assert known(database, "hostile") == 1


def test_words_are_found_without_an_index_too(database: Database) -> None:
    names(database, "target-17")
    with database.writing() as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("UPDATE sqlite_master SET sql = replace(sql, 'fts5', 'no_module') WHERE name = 'search'")
    without = open_to_write(StatePaths(database.path.parent, HERE))
    assert names(without, "target-17") == ["job-017"]
    Jobs(without).insert(made_job(name="new"))
    assert names(without, "new") == ["new"]
    assert describe(without.path).integrity == "ok"
    assert list(check(without.path)) == []
    without.close()


def test_a_damaged_index_changes_no_answer(database: Database) -> None:
    names(database, "target-17")
    with database.writing() as connection:
        connection.execute("DELETE FROM search_data WHERE id > 10")
    fresh = open_to_write(StatePaths(database.path.parent, HERE))
    assert known(fresh, "target-17") is None
    assert names(fresh, "target-17") == ["job-017"]
    fresh.close()


def test_a_store_with_an_index_is_copied_merged_checked_and_vacuumed(database: Database, tmp_path: Path) -> None:
    names(database, "target-17")
    copy = tmp_path / "copies" / "copy.db"
    copy.parent.mkdir()
    backup(database, copy)
    assert list(check(copy)) == []
    assert describe(copy).bytes_by_kind["search"] > 0
    other = open_to_write(StatePaths(tmp_path / "other", HERE))
    assert merge(other, copy).added == JOBS
    assert names(other, "target-17") == ["job-017"]
    assert known(other, "target-17") == 1
    vacuum(other, is_full=True)
    assert known(other, "target-17") == 1
    other.close()


def test_a_full_disk_stops_no_search(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    with database.alone() as connection:
        connection.execute("PRAGMA query_only = ON")
    assert names(database, "target-17") == ["job-017"]
    assert tables(database) == set()


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("sort", ["seq", "begun"])
@pytest.mark.parametrize("line", ["job", "-job-003", "target-17", "status:success"])
def test_pages_of_found_jobs_follow_one_another(
    database: Database, line: str, sort: str, reverse: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobtop.store.ordering.NEAR_JOBS", 5)
    monkeypatch.setattr("jobtop.store.ordering.FEW_CANDIDATES", 2)
    jobs, query = Jobs(database), Query(filter=parse(line, NOW), sort=sort, limit=3, reverse=reverse)
    found: list[Job] = []
    while page := jobs.select(replace(query, after=found[-1].seq if found else None)):
        found += page
    assert found == jobs.select(replace(query, limit=None))
    assert found
