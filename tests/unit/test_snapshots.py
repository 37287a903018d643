"""The processes of a job are kept as they were, whatever they are called."""

from pathlib import Path

import pytest

from jobtop.core.measure.snapshot import ProcessRow, Snapshot
from jobtop.core.model import Job
from jobtop.store.database import Database, open_to_read
from jobtop.store.jobs import Jobs
from jobtop.store.samples.packed import pack, unpack
from jobtop.store.samples.snapshots import Snapshots
from records import HOSTILE_TEXTS, running_job
from support import ROOT


@pytest.fixture
def job(database: Database) -> Job:
    return Jobs(database).insert(running_job())


def seq(job: Job) -> int:
    assert job.seq is not None
    return job.seq


def row(pid: int, command: str = "python train.py") -> ProcessRow:
    return ProcessRow(pid, 1, command, 12.345678, 98.76, 2**40, 3, 77.125, "R")


def test_rows_come_back_as_they_were(database: Database, job: Job) -> None:
    unknown = ProcessRow(2, 1, "", 0.0, None, None, 0, 0.001, "Z")
    Snapshots(database).keep(seq(job), 10.5, [row(1), unknown])
    assert Snapshots(database).latest(job) == Snapshot(10.5, (row(1), unknown))


@pytest.mark.parametrize("text", HOSTILE_TEXTS.values(), ids=HOSTILE_TEXTS)
def test_any_command_survives(database: Database, job: Job, text: str) -> None:
    snapshots = Snapshots(database)
    snapshots.keep(seq(job), 1.0, [row(1, text)])
    found = snapshots.latest(job)
    assert found is not None
    assert found.members[0].command == text


def test_the_newest_at_or_before_a_moment_is_found(database: Database, job: Job) -> None:
    other = Jobs(database).insert(running_job())
    snapshots = Snapshots(database)
    snapshots.keep_all([(seq(job), float(moment), [row(moment)]) for moment in (0, 10, 20)])
    snapshots.keep(seq(other), 15.0, [row(15)])
    assert snapshots.at(job, -1.0) is None
    for moment, expected in ((0.0, 0), (9.9, 0), (10.0, 10), (19.0, 10), (99.0, 20)):
        assert snapshots.at(job, moment) == Snapshot(float(expected), (row(expected),))
    assert snapshots.latest(job) == snapshots.at(job, 20.0)
    assert (snapshots.moments(job), snapshots.moments(other)) == ([0.0, 10.0, 20.0], [15.0])


def test_one_moment_has_one_snapshot(database: Database, job: Job) -> None:
    snapshots = Snapshots(database)
    snapshots.keep_all([(seq(job), 1.0, [row(1)]), (seq(job), 1.0, [row(2)]), (seq(job), 2.0, [])])
    assert snapshots.moments(job) == [1.0, 2.0]
    assert snapshots.at(job, 1.5) == Snapshot(1.0, (row(2),))
    assert snapshots.latest(job) == Snapshot(2.0, ())


def test_a_job_that_is_gone_stops_no_other(database: Database, job: Job) -> None:
    gone = Jobs(database).insert(running_job())
    snapshots = Snapshots(database)
    snapshots.keep(seq(gone), 1.0, [row(1)])
    Jobs(database).delete(gone)
    snapshots.keep_all([(seq(gone), 2.0, [row(1)]), (seq(job), 2.0, [row(1)])])
    assert (snapshots.moments(gone), snapshots.moments(job)) == ([], [2.0])


def test_a_damaged_one_is_passed_over(database: Database, job: Job) -> None:
    snapshots = Snapshots(database)
    snapshots.keep_all([(seq(job), 1.0, [row(1)]), (seq(job), 2.0, [row(2)])])
    with database.writing() as connection:
        connection.execute("UPDATE snapshots SET members = substr(members, 1, 20) WHERE elapsed = 2")
    assert snapshots.latest(job) == Snapshot(1.0, (row(1),))


def test_columns_of_a_later_version_are_left_out(database: Database, job: Job) -> None:
    Snapshots(database).keep(seq(job), 1.0, [row(1)])
    with database.writing() as connection:
        (data,) = connection.execute("SELECT members FROM snapshots").fetchone()
        kept = unpack(data)
        grown = {"columns": [*kept["columns"], "mood"], "rows": [[*values, "fine"] for values in kept["rows"]]}
        connection.execute("UPDATE snapshots SET members = ?", (pack(grown),))
    assert Snapshots(database).latest(job) == Snapshot(1.0, (row(1),))


def test_a_store_from_before_has_none(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    path.write_bytes((ROOT / "tests/data/store-v1.db").read_bytes())
    database = open_to_read(path)
    job = running_job(seq=1)
    assert (Snapshots(database).latest(job), Snapshots(database).moments(job)) == (None, [])
    database.close()
