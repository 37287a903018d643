"""The feed shows the jobs of all opened stores, whatever happens to the files of the stores."""

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from types import MappingProxyType

import pytest

from jobtop.core.metrics import JOB_COLUMNS
from jobtop.core.model import Identity, Job, Sample, Status
from jobtop.core.paths import StatePaths
from jobtop.core.procfs import boot_id
from jobtop.core.record import replace
from jobtop.store.database import Database, open_to_write
from jobtop.store.jobs import Jobs
from jobtop.store.leases import now_since_boot
from jobtop.store.samples.hosts import HostRecord
from jobtop.store.samples.series import SeriesStore
from jobtop.tui.data import feed as feed_module
from jobtop.tui.data import reader
from jobtop.tui.data.feed import Feed
from jobtop.tui.data.view import JobRow, MachineMoment, MachineView, View
from jobtop.tui.demo.demo import demo
from records import NO_PROCESS, made_job, running_job, this_process
from support import ROOT, open_files, wait_for


@pytest.fixture
def paths(paths: StatePaths, monkeypatch: pytest.MonkeyPatch) -> StatePaths:
    """The files of this host, for a feed that never waits."""
    monkeypatch.setattr(feed_module, "LOCAL_POLL_SECONDS", 0.0)
    monkeypatch.setattr(feed_module, "NETWORK_POLL_SECONDS", 0.0)
    monkeypatch.setattr(reader, "PATIENCE_SECONDS", 0.01)
    return paths


MakeFeed = Callable[..., Feed]


@pytest.fixture
def make_feed() -> Iterator[MakeFeed]:
    """A function that makes the feed of a store; all feeds are closed at the end."""
    with ExitStack() as opened:

        def made(paths: StatePaths, network: bool | None = None) -> Feed:
            feed = Feed([paths.store], lambda _: None, network=network)
            opened.callback(feed.close)
            return feed

        yield made


def names(view: View) -> list[str]:
    return sorted(row.job.name for row in view.rows)


def test_a_missing_store_is_reported_and_found_when_it_appears(paths: StatePaths, make_feed: MakeFeed) -> None:
    feed = make_feed(paths)
    assert "no such store" in str(feed.read_view().stores[0].problem)
    database = open_to_write(paths)
    Jobs(database).insert(running_job(name="first"))
    view = feed.read_view()
    assert (names(view), view.stores[0].problem) == (["first"], None)
    database.close()


def test_changes_by_other_processes_are_seen_and_so_are_samples(paths: StatePaths, make_feed: MakeFeed) -> None:
    database = open_to_write(paths)
    jobs = Jobs(database)
    job = jobs.insert(running_job(name="live"))
    assert job.seq is not None
    feed = make_feed(paths)
    before = feed.read_view()
    assert [(row.now, row.job.status) for row in before.rows] == [(None, Status.RUNNING)]
    values = {"cpu.user": 1.0, "cpu.system": 0.0, "mem.used": 7}
    SeriesStore(database).append([(job.seq, Sample(1.0, tuple(values.get(key) for key in JOB_COLUMNS)))])
    seen = feed.read_view()
    assert seen.version > before.version
    assert seen.rows[0].now is not None
    assert seen.rows[0].now.memory_bytes == 7
    assert feed.read_view().version == seen.version
    jobs.change(job.id, lambda row: (replace(row, status=Status.FAILED, duration_seconds=2.0), ()))
    jobs.insert(made_job(name="other"))
    assert names(feed.read_view()) == ["live", "other"]
    database.close()


def append_samples(database: Database, seq: int, seconds: Iterable[int]) -> None:
    """Store one sample of a job for each of these seconds since its start."""
    readings = [(second, {"cpu.user": second / 2, "cpu.system": 0.0, "mem.used": second}) for second in seconds]
    SeriesStore(database).append(
        [(seq, Sample(float(second), tuple(map(values.get, JOB_COLUMNS)))) for second, values in readings]
    )


def fields_of(value: object) -> tuple[object, ...]:
    """What a record or a container holds; nothing for any other value."""
    if isinstance(value, Mapping):
        return *value.keys(), *value.values()
    if type(value).__module__.startswith("jobtop."):
        return tuple(getattr(value, name) for name in getattr(type(value), "__slots__", ()))
    return tuple(value) if isinstance(value, Iterable) and not isinstance(value, str) else ()


def contents(value: object) -> object:
    """A copy of everything that can be reached from a value."""
    return type(value), tuple(map(contents, fields_of(value))) or repr(value)


def containers(value: object) -> Iterator[object]:
    """Every record and container that can be reached from a value, without the inside of a job's record."""
    held = fields_of(value)
    if not isinstance(value, Job):
        yield from [value] if held else ()
        for item in held:
            yield from containers(item)


def test_a_view_that_was_handed_over_does_not_change_when_samples_come(
    paths: StatePaths, database: Database, make_feed: MakeFeed
) -> None:
    busy, idle = (Jobs(database).insert(running_job(name=name)).seq or 0 for name in ("busy", "idle"))
    host = HostRecord(database)
    assert host.lease(this_process())
    feed = make_feed(paths)
    for seq in (busy, idle):
        append_samples(database, seq, range(1, 20))
    record_machine(host, 2.0, 1.0)
    handed_over = feed.read_view()
    assert [row.last_minute is not None for row in handed_over.rows] == [True, True]
    assert handed_over.machine is not None
    before = contents(handed_over)
    append_samples(database, busy, range(20, 120))
    record_machine(host, 0.5)
    later = feed.read_view()
    assert contents(handed_over) == before
    assert contents(later) != before
    then, now = ({row.job.name: row.last_minute for row in view.rows} for view in (handed_over, later))
    assert now["busy"] != then["busy"]
    assert now["idle"] is then["idle"]  # without a new sample it is not copied again


def test_everything_in_a_view_is_immutable(paths: StatePaths, database: Database, make_feed: MakeFeed) -> None:
    append_samples(database, Jobs(database).insert(running_job()).seq or 0, range(1, 20))
    host = HostRecord(database)
    assert host.lease(this_process())
    record_machine(host, 2.0, 1.0)
    feed = make_feed(paths)
    recorded = feed.read_view()
    host.release(this_process())
    wait_for(lambda: feed.read_view().machine != recorded.machine)
    with demo(1_700_000_000.0) as made, closing(Feed([made.paths.store], print, machine=made.machine)) as of_demo:
        views = recorded, feed.read_view(), of_demo.read_view()
    assert all(view.rows and view.machine is not None for view in views)
    kinds = {type(found) for view in views for found in containers(view)}
    records = {kind for kind in kinds if kind.__setattr__ is not object.__setattr__}
    assert {View, JobRow, MachineView, MachineMoment} <= records
    assert kinds - records <= {tuple, bytes, MappingProxyType}


def test_only_the_newest_ended_jobs_are_kept(paths: StatePaths, make_feed: MakeFeed) -> None:
    database = open_to_write(paths)
    jobs = Jobs(database)
    feed = make_feed(paths)
    feed.read_view()
    for number in range(feed_module.ENDED_KEPT + 5):
        jobs.insert(made_job(name=f"{number:03}", end_time=float(number)))
    assert names(feed.read_view()) == [f"{number:03}" for number in range(5, feed_module.ENDED_KEPT + 5)]
    assert names(make_feed(paths).read_view()) == [f"{number:03}" for number in range(5, feed_module.ENDED_KEPT + 5)]
    database.close()


def test_a_store_deleted_replaced_or_damaged_while_open_is_reported_and_recovers(
    paths: StatePaths, make_feed: MakeFeed
) -> None:
    database = open_to_write(paths)
    Jobs(database).insert(running_job(name="old"))
    feed = make_feed(paths)
    assert names(feed.read_view()) == ["old"]
    database.close()
    for file in paths.root.glob(f"{paths.store.name}*"):
        file.unlink()
    assert "no such store" in str(feed.read_view().stores[0].problem)
    paths.store.write_bytes(b"not a database, but of some length" * 100)
    assert feed.read_view().stores[0].problem
    paths.store.unlink()
    database = open_to_write(paths)
    Jobs(database).insert(running_job(name="new"))
    view = feed.read_view()
    assert (names(view), view.stores[0].problem) == (["new"], None)
    database.close()


def test_a_removed_job_is_no_longer_shown(paths: StatePaths, database: Database, make_feed: MakeFeed) -> None:
    kept = [Jobs(database).insert(made_job(name=name)) for name in "ab"]
    feed = make_feed(paths)
    assert names(feed.read_view()) == ["a", "b"]
    Jobs(database).delete(kept[0])
    assert names(feed.read_view()) == ["b"]


def test_a_store_of_the_first_version_is_followed_too(paths: StatePaths, make_feed: MakeFeed) -> None:
    paths.root.mkdir()
    paths.store.write_bytes((ROOT / "tests/data/store-v1.db").read_bytes())
    feed = make_feed(paths)
    before = names(feed.read_view())
    assert before
    with closing(sqlite3.connect(paths.store)) as connection, connection:
        connection.execute("UPDATE jobs SET name = 'renamed' WHERE seq = 1")
    assert "renamed" in names(feed.read_view())
    assert len(before) == len(feed.read_view().rows)


def test_a_store_upgraded_by_a_newer_jobtop_while_open_is_reported(
    paths: StatePaths, database: Database, make_feed: MakeFeed
) -> None:
    Jobs(database).insert(made_job())
    feed = make_feed(paths)
    assert feed.read_view().stores[0].problem is None
    with database.writing() as connection:
        connection.execute("PRAGMA user_version = 99")
    assert "upgrade jobtop" in str(feed.read_view().stores[0].problem)


def test_rows_that_cannot_be_read_are_reported(paths: StatePaths, database: Database, make_feed: MakeFeed) -> None:
    Jobs(database).insert(made_job(name="odd"))
    feed = make_feed(paths)
    with database.writing() as connection:
        connection.execute("UPDATE jobs SET status = 'nonsense', touched = touched + 1")
    view = feed.read_view()
    assert "status" in str(view.stores[0].notice)
    assert names(view) == []


def test_a_store_on_the_network_is_read_again_when_its_file_was_written(paths: StatePaths, make_feed: MakeFeed) -> None:
    with closing(open_to_write(paths, network=True)) as database:
        job = Jobs(database).insert(running_job(name="a"))
        feed = make_feed(paths, network=True)
        before = feed.read_view()
        assert names(before) == ["a"]
        times = os.stat(paths.store)
        Jobs(database).change(job.id, lambda row: (replace(row, name="b"), ()))
        assert os.stat(paths.store).st_size == times.st_size
        os.utime(paths.store, ns=(times.st_atime_ns, times.st_mtime_ns))
        assert names(feed.read_view()) == ["a"]
        os.utime(paths.store)
        assert names(feed.read_view()) == ["b"]


def test_stores_are_polled_at_their_own_rate_unless_requested_now(
    paths: StatePaths, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed_module, "LOCAL_POLL_SECONDS", 3600.0)
    monkeypatch.setattr(feed_module, "NETWORK_POLL_SECONDS", 3600.0)
    views: list[View] = []
    for network in (False, True):
        feed = Feed([paths.store], views.append, refresh_seconds=3600.0, network=network)
        feed.start()
        wait_for(lambda: bool(views))
        Jobs(database).insert(made_job(name="new"))
        assert names(feed.read_view()) == names(views[-1])
        feed.poll_now()
        wait_for(lambda: len(views[-1].rows) > len(views[0].rows))
        feed.stop()
        views.clear()


def test_a_busy_store_keeps_its_rows_and_is_reported_only_after_a_while(
    paths: StatePaths, monkeypatch: pytest.MonkeyPatch, make_feed: MakeFeed
) -> None:
    with closing(open_to_write(paths, network=True)) as database:
        job = Jobs(database).insert(running_job(name="a"))
        feed = make_feed(paths, network=True)
        assert names(feed.read_view()) == ["a"]
        Jobs(database).change(job.id, lambda row: (replace(row, name="b"), ()))
        with closing(sqlite3.connect(paths.store, isolation_level=None)) as holder:
            holder.execute("BEGIN EXCLUSIVE")
            view = feed.read_view()
            assert (names(view), view.stores[0].problem) == (["a"], None)
            monkeypatch.setattr(feed_module, "BUSY_SECONDS", 0.0)
            view = feed.read_view()
            assert names(view) == ["a"]
            assert "another program" in str(view.stores[0].problem)
        view = feed.read_view()
        assert (names(view), view.stores[0].problem) == (["b"], None)


def test_a_store_that_cannot_be_written_is_read_and_its_changes_are_seen(
    paths: StatePaths, monkeypatch: pytest.MonkeyPatch, make_feed: MakeFeed
) -> None:
    access = os.access
    with closing(open_to_write(paths)) as database:
        Jobs(database).insert(made_job(name="a"))
    with monkeypatch.context() as only_read:
        only_read.setattr(os, "access", lambda path, mode: mode != os.W_OK and access(path, mode))
        feed = make_feed(paths)
        view = feed.read_view()
        assert (names(view), view.stores[0].problem) == (["a"], None)
        assert "is read as it was" in str(view.stores[0].notice)
    with closing(open_to_write(paths)) as database:
        Jobs(database).insert(made_job(name="b"))
    view = feed.read_view()
    assert (names(view), view.stores[0].notice) == (["a", "b"], None)


def record_machine(host: HostRecord, *moments: float) -> None:
    """Record readings of the last seconds; the used memory tells them apart."""
    now = now_since_boot()
    for ago in moments:
        reading: dict[str, float | int | None] = {
            "mem.used": int(100 * ago),
            "cpu.percent": 60.0,
            "disk.read_bytes": int(1000 * (10 - ago)),
        }
        assert host.append([(now - ago, reading)])
        assert host.keep_detail(now - ago, {"cores": {"0": [60.0, 0.0, 0.0], "1": [0.0, 0.0, 0.0]}})


def shown(feed: Feed) -> tuple[object, ...]:
    machine = feed.read_view().machine
    return () if machine is None else (machine.values["mem.used"], machine.cpu_line)


def test_the_machine_is_shown_as_an_engine_records_it(
    paths: StatePaths, database: Database, make_feed: MakeFeed
) -> None:
    host = HostRecord(database)
    assert host.lease(this_process())
    feed = make_feed(paths)
    record_machine(host, 2.0, 1.0)
    machine = feed.read_view().machine
    assert machine is not None
    assert machine.name == os.uname().nodename.split(".")[0]
    assert machine.values["mem.used"] == 100
    assert machine.values["disk.read_bytes"] == pytest.approx(1000.0)
    assert (machine.cpu_line, list(machine.detail["cores"])) == ((30.0, 30.0), ["0", "1"])
    record_machine(host, 0.5)
    assert shown(feed) == (50, (30.0, 30.0, 30.0))


@pytest.mark.parametrize("case", ["released", "dead", "of another boot", "stale", "seldom", "ran out"])
def test_a_machine_that_no_engine_records_is_read_by_the_console(
    paths: StatePaths, database: Database, case: str, make_feed: MakeFeed
) -> None:
    me, host = this_process(), HostRecord(database)
    holders = {"dead": Identity(boot_id(), NO_PROCESS, 1), "of another boot": replace(me, boot="another")}
    assert host.lease(holders.get(case, me))
    record_machine(host, *{"stale": (9.0, 8.0), "seldom": (9.0, 1.0)}.get(case, (2.0, 1.0)))
    if case == "released":
        host.release(me)
    elif case == "ran out":
        with database.writing() as connection:
            connection.execute("UPDATE leases SET until = ?", (now_since_boot(),))
    feed = make_feed(paths)
    wait_for(lambda: feed.read_view().machine is not None)
    assert shown(feed)[0] not in (100, 800)


def test_after_the_engine_ends_the_console_continues_its_readings(
    paths: StatePaths, database: Database, make_feed: MakeFeed
) -> None:
    host = HostRecord(database)
    assert host.lease(this_process())
    feed = make_feed(paths)
    record_machine(host, 2.0, 1.0)
    assert shown(feed) == (100, (30.0, 30.0))
    host.release(this_process())
    first = feed.read_view().machine
    assert first is not None
    assert first.values["mem.used"] == 100

    def read_by_console() -> MachineView | None:
        machine = feed.read_view().machine
        return machine if machine is not None and len(machine.cpu_line) > 2 else None

    machine_read = wait_for(read_by_console)
    assert machine_read.cpu_line[:2] == (30.0, 30.0)
    assert machine_read.values["mem.used"] != 100


@pytest.mark.parametrize("is_readonly", [False, True])
def test_jobs_are_indexed_only_by_a_console_that_may_write(
    paths: StatePaths, database: Database, is_readonly: bool
) -> None:
    with database.writing():
        for number in range(600):
            Jobs(database).insert(made_job(name=f"job-{number}"))
    feed = Feed([paths.store], lambda _: None, own=paths, is_readonly=is_readonly)
    feed._finish_records()
    with database.reading() as connection:
        (indexed,) = connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'search'").fetchone()
    assert bool(indexed) is not is_readonly


def test_a_feed_that_is_closed_has_no_file_open(paths: StatePaths, database: Database, make_feed: MakeFeed) -> None:
    places = paths.root, Path("/proc")
    database.close()
    before = [*map(open_files, places)]
    feed = make_feed(paths)
    feed.read_view()
    feed.read_view()
    assert all(len(open_files(place)) > len(known) for place, known in zip(places, before, strict=True))
    feed.close()
    assert [*map(open_files, places)] == before


def test_the_time_of_a_lost_job_stands_still(paths: StatePaths, make_feed: MakeFeed) -> None:
    with closing(open_to_write(paths)) as database:
        jobs = Jobs(database)
        jobs.insert(running_job(name="seen", status=Status.LOST, settled=True, duration_seconds=9.5))
        jobs.insert(running_job(name="unseen", status=Status.LOST, settled=True))
    elapsed = {row.job.name: row.elapsed for row in make_feed(paths).read_view().rows}
    assert elapsed == {"seen": 9.5, "unseen": None}
