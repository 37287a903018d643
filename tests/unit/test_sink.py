"""What an engine samples, in the store: all of a call or nothing of it, once, and for jobs that come into it late."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from jobtop.core.clock import BOOTTIME
from jobtop.core.errors import StoreBusy, StoreReplaced
from jobtop.core.measure.collectors.host.reading import open_host
from jobtop.core.measure.sampler import Batch
from jobtop.core.measure.snapshot import ProcessRow
from jobtop.core.model import Job
from jobtop.core.paths import StatePaths
from jobtop.store.database import Database, open_to_read, open_to_write
from jobtop.store.jobs import Jobs
from jobtop.store.samples import sink as sink_module
from jobtop.store.samples.head import HOSTS
from jobtop.store.samples.series import SeriesStore
from jobtop.store.samples.sink import StoreSink
from jobtop.store.samples.snapshots import Snapshots
from records import HERE, kept_jobs, running_job
from sampled import steady

ROW = ProcessRow(51, 50, "train", 1.5, 50.0, 1 << 20, 1, 3.0, "R")


@pytest.fixture
def job(paths: StatePaths) -> Job:
    return kept_jobs(paths.root, running_job())[0]


@pytest.fixture
def sink(paths: StatePaths, monkeypatch: pytest.MonkeyPatch) -> Iterator[StoreSink]:
    monkeypatch.setattr(sink_module, "PATIENCE_SECONDS", 0.01)
    made = StoreSink(paths, network=False)
    yield made
    made.close()


def batches(job: Job, count: int, first: int = 1) -> list[Batch]:
    return [Batch([(job.id, one)]) for one in steady(first + count - 1)[first - 1 :]]


def moments(paths: StatePaths, job: Job) -> list[float]:
    """When the samples of a job are that are in the store."""
    database = open_to_read(paths.store)
    try:
        assert job.seq is not None
        return [one.elapsed for one in SeriesStore(database).samples(job.seq)]
    finally:
        database.close()


def held(paths: StatePaths) -> sqlite3.Connection:
    """Another connection that holds the store until it is closed."""
    connection = sqlite3.connect(paths.store, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    return connection


def test_what_is_sampled_is_kept_in_its_order(paths: StatePaths, sink: StoreSink, job: Job) -> None:
    sink.keep(batches(job, 3))
    sink.keep(batches(job, 2, first=4))
    assert moments(paths, job) == [1.0, 2.0, 3.0, 4.0, 5.0]


def test_samples_of_a_job_that_is_not_in_the_store_yet_can_be_kept_later(paths: StatePaths, sink: StoreSink) -> None:
    late = running_job()
    known = kept_jobs(paths.root, running_job())[0]
    both = [*batches(known, 1), *batches(late, 2)]
    with pytest.raises(StoreBusy, match=r"is not in .* yet"):
        sink.keep(both)
    assert moments(paths, known) == [], "or it would be there twice"
    (late,) = kept_jobs(paths.root, late)
    sink.keep(both)
    assert (moments(paths, known), moments(paths, late)) == ([1.0], [1.0, 2.0])


def test_a_job_that_was_deleted_keeps_no_other_from_being_kept(paths: StatePaths) -> None:
    first, second, third = kept_jobs(paths.root, running_job(), running_job(), running_job())
    sink = StoreSink(paths, network=False, are_recorded=True)
    sink.keep([*batches(first, 1), *batches(second, 1)])
    database = open_to_write(paths)
    for job in (second, third):
        Jobs(database).delete(job)
    database.close()
    news = [*batches(first, 1, first=2), *batches(third, 1), Batch(snapshots=[(second.id, 2.0, [ROW])])]
    sink.keep(news)
    sink.finish(third.id)
    sink.close()
    assert moments(paths, first) == [1.0, 2.0]


def test_a_store_that_another_process_holds_gets_all_of_it_later(paths: StatePaths, sink: StoreSink, job: Job) -> None:
    sink.keep(batches(job, 1))
    other = held(paths)
    with pytest.raises(StoreBusy):
        sink.keep(batches(job, 2, first=2))
    other.close()
    sink.keep(batches(job, 3, first=2))
    assert moments(paths, job) == [1.0, 2.0, 3.0, 4.0]


@pytest.mark.parametrize("what", ["_write_heartbeats", "_keep_host"])
def test_a_store_that_becomes_busy_half_way_has_nothing_twice(
    paths: StatePaths, sink: StoreSink, job: Job, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    assert sink.may_record_host()
    host = open_host()
    reading = host.collect()
    all_of_it = [
        *batches(job, 2),
        Batch(snapshots=[(job.id, 2.0, [ROW])], host=(time.clock_gettime(BOOTTIME), reading, host.collect())),
    ]

    def busy(*_: object) -> None:
        raise StoreBusy("another process was quicker")

    with monkeypatch.context() as patch:
        patch.setattr(StoreSink, what, busy)
        with pytest.raises(StoreBusy):
            sink.keep(all_of_it)
    assert moments(paths, job) == []
    sink.keep(all_of_it)
    sink.keep(batches(job, 1, first=3))
    assert moments(paths, job) == [1.0, 2.0, 3.0]
    database = open_to_read(paths.store)
    assert Snapshots(database).moments(job) == [2.0]
    database.close()


def test_a_block_is_sealed_after_a_call_that_failed(paths: StatePaths, sink: StoreSink, job: Job) -> None:
    """What a writer remembers of a job is what is in the store, not what it tried to put there."""
    sink.keep(batches(job, 100))
    other = held(paths)
    with pytest.raises(StoreBusy):
        sink.keep(batches(job, 100, first=101))
    other.close()
    sink.keep(batches(job, 200, first=101))
    while sink.step():
        pass
    sink.finish(job.id)
    assert moments(paths, job) == [float(number) for number in range(1, 301)]


def test_a_store_that_is_replaced_twice_at_once_has_the_samples_of_the_right_job(
    paths: StatePaths, tmp_path: Path, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = StatePaths(tmp_path / "other", HERE)
    (neighbour,) = kept_jobs(other.root, running_job())
    assert neighbour.seq == job.seq
    sink = StoreSink(paths, network=False, record_of=lambda _: job)
    sink.keep(batches(job, 1))
    add_jobs_again = StoreSink._add_jobs_again

    def put_and_replaced(self: StoreSink, database: Database) -> None:
        add_jobs_again(self, database)
        if other.store.exists():
            other.store.rename(paths.store)

    monkeypatch.setattr(StoreSink, "_add_jobs_again", put_and_replaced)
    for file in paths.root.glob("*.db*"):
        file.unlink()
    with suppress(StoreReplaced):  # then the engine tries again
        sink.keep(batches(job, 1, first=2))
    sink.keep(batches(job, 1, first=3))
    sink.close()
    database = open_to_read(paths.store)
    found = Jobs(database).find(job.id)
    database.close()
    assert found.seq != neighbour.seq
    assert moments(paths, neighbour) == []
    assert moments(paths, found)[-1] == 3.0


def heartbeat(paths: StatePaths, job: Job) -> float | None:
    database = open_to_read(paths.store)
    with database.reading() as connection:
        row = connection.execute("SELECT heartbeat FROM jobs WHERE seq = ?", (job.seq,)).fetchone()
    database.close()
    return None if row[0] is None else float(row[0])


def test_a_watched_job_has_a_heartbeat_but_not_at_every_sample(
    paths: StatePaths, sink: StoreSink, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert heartbeat(paths, job) is None
    sink.watched = (job.id,)
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    began = time.time()
    sink.keep(batches(job, 1))
    first = heartbeat(paths, job)
    assert first is not None
    assert began <= first <= time.time()
    now[0] += 9.0
    sink.keep(batches(job, 1, first=2))
    assert heartbeat(paths, job) == first
    now[0] += 1.0
    sink.keep(batches(job, 1, first=3))
    again = heartbeat(paths, job)
    assert again is not None
    assert again > first


def test_what_happened_to_the_watching_is_in_the_timeline(paths: StatePaths, sink: StoreSink, job: Job) -> None:
    sink.keep([*batches(job, 1), Batch(events=[(job.id, 1.5, "suspended", {"seconds": 3600.0})])])
    database = open_to_read(paths.store)
    events = [(one.kind, one.detail) for one in Jobs(database).events(job)]
    database.close()
    assert ("suspended", {"seconds": 3600.0}) in events


def test_only_one_of_two_records_the_machine(paths: StatePaths, sink: StoreSink, job: Job) -> None:
    host = open_host()
    first, second = host.collect(), host.collect()
    sink.keep([Batch(host=(100.0, first, second))])
    assert host_samples(paths) == 0, "it has not asked whether it may"
    assert sink.may_record_host()
    sink.keep([Batch(host=(time.clock_gettime(BOOTTIME), first, second))])
    assert host_samples(paths) == 1


def host_samples(paths: StatePaths) -> int:
    database = open_to_read(paths.store)
    with database.reading() as connection:
        count = connection.execute(f"SELECT count(*) FROM {HOSTS.head}").fetchone()[0]
    database.close()
    return int(count)


def test_nothing_is_opened_by_who_kept_nothing(paths: StatePaths) -> None:
    StoreSink(paths, network=False).close()
    assert not paths.root.exists()


@pytest.mark.parametrize(("network", "seconds"), [(False, 1.0), (True, 10.0)])
def test_what_others_share_is_written_less_often(paths: StatePaths, network: bool, seconds: float) -> None:
    assert StoreSink(paths, network).pace_seconds == seconds
