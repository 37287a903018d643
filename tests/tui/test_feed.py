"""The feed: what anyone runs into the opened stores is shown, whatever happens to their files."""

from pathlib import Path

import pytest

from jobtop.core.metrics import JOB_COLUMNS
from jobtop.core.model import Sample, Status
from jobtop.core.paths import StatePaths
from jobtop.core.record import replace
from jobtop.store.database import open_to_write
from jobtop.store.jobs import Jobs
from jobtop.store.series import SeriesStore
from jobtop.tui import feed
from jobtop.tui.feed import Feed
from jobtop.tui.view import View
from records import HERE, made_job, running_job


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StatePaths:
    monkeypatch.setattr(feed, "LOCAL_POLL_SECONDS", 0.0)
    return StatePaths(tmp_path / "state", HERE)


def looking_at(paths: StatePaths) -> Feed:
    return Feed([paths.store], lambda _: None)


def names(view: View) -> list[str]:
    return sorted(row.job.name for row in view.rows)


def test_a_store_that_is_not_there_is_said_and_found_when_it_comes(paths: StatePaths) -> None:
    looking = looking_at(paths)
    assert "no such store" in str(looking.look().stores[0].problem)
    database = open_to_write(paths)
    Jobs(database).insert(running_job(name="first"))
    view = looking.look()
    assert (names(view), view.stores[0].problem) == (["first"], None)
    database.close()


def test_changes_of_anyone_are_seen_and_samples_with_them(paths: StatePaths) -> None:
    database = open_to_write(paths)
    jobs = Jobs(database)
    job = jobs.insert(running_job(name="live"))
    assert job.seq is not None
    looking = looking_at(paths)
    before = looking.look()
    assert [(row.now, row.job.status) for row in before.rows] == [(None, Status.RUNNING)]
    values = {"cpu.user": 1.0, "cpu.system": 0.0, "mem.used": 7}
    SeriesStore(database).append([(job.seq, Sample(1.0, tuple(values.get(key) for key in JOB_COLUMNS)))])
    seen = looking.look()
    assert seen.version > before.version
    assert seen.rows[0].now is not None
    assert seen.rows[0].now.memory_bytes == 7
    assert looking.look().version == seen.version
    jobs.change(job.id, lambda row: (replace(row, status=Status.FAILED, duration_seconds=2.0), ()))
    jobs.insert(made_job(name="other"))
    assert names(looking.look()) == ["live", "other"]
    database.close()


def test_only_the_newest_of_those_that_ended_stay(paths: StatePaths) -> None:
    database = open_to_write(paths)
    jobs = Jobs(database)
    looking = looking_at(paths)
    looking.look()
    for number in range(feed.RECENT + 5):
        jobs.insert(made_job(name=f"{number:03}", end_time=float(number)))
    assert names(looking.look()) == [f"{number:03}" for number in range(5, feed.RECENT + 5)]
    assert names(looking_at(paths).look()) == [f"{number:03}" for number in range(5, feed.RECENT + 5)]
    database.close()


def test_a_store_deleted_replaced_or_damaged_while_open_is_said_and_recovers(paths: StatePaths) -> None:
    database = open_to_write(paths)
    Jobs(database).insert(running_job(name="old"))
    looking = looking_at(paths)
    assert names(looking.look()) == ["old"]
    database.close()
    for file in paths.root.glob(f"{paths.store.name}*"):
        file.unlink()
    assert "no such store" in str(looking.look().stores[0].problem)
    paths.store.write_bytes(b"not a database, but of some length" * 100)
    assert looking.look().stores[0].problem
    paths.store.unlink()
    database = open_to_write(paths)
    Jobs(database).insert(running_job(name="new"))
    view = looking.look()
    assert (names(view), view.stores[0].problem) == (["new"], None)
    database.close()
