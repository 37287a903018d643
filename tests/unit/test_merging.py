"""Merged stores have every job once, with all its rows, however often they are merged."""

import json
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from jobtop.core.measure.device import Device
from jobtop.core.measure.snapshot import ProcessRow
from jobtop.core.metrics import JOB_COLUMNS
from jobtop.core.model import Identity, Job, Queued, Status
from jobtop.core.paths import StatePaths
from jobtop.core.record import replace
from jobtop.store.database import Database, open_to_write
from jobtop.store.events import MachineEvents
from jobtop.store.jobs import Event, Jobs, Query
from jobtop.store.samples.devices import DeviceRecord
from jobtop.store.samples.hosts import HostRecord
from jobtop.store.samples.named import NamedRecord
from jobtop.store.samples.series import SeriesStore
from jobtop.store.samples.snapshots import Snapshots
from jobtop.store.schema import TABLES
from jobtop.store.upkeep.merging import Merged, merge
from records import HERE, NO_PROCESS, assert_one_line, call, damage_pages, kept_jobs, made_job, running_job
from sampled import steady

GPU = Device("gpu", "0\udcff")
OLD = Path(__file__).parents[1] / "data" / "store-v1.db"


@pytest.fixture
def stores(home: Path, tmp_path: Path) -> Iterator[tuple[Database, Database]]:
    """This host's store, with a job of its own, and that of another."""
    target, source = open_to_write(StatePaths(home, HERE)), open_to_write(StatePaths(tmp_path, "other"))
    Jobs(target).insert(made_job(name="target"))
    yield target, source
    target.close()
    source.close()


def add_job(database: Database, job: Job, samples: int = 0, is_sealed: bool = False) -> Job:
    """A job with samples, an event, a mark and a snapshot."""
    kept = Jobs(database).insert(replace(job, host="other"), Event(1.0, "started", {"pid": 7}))
    assert kept.seq is not None
    Jobs(database).add_log_marks(kept, [(1.0, 10, None), (2.0, 20, 5)])
    Snapshots(database).keep(kept.seq, 1.0, [ProcessRow(7, 1, "sh", 0.5, 10.0, 4096, 1, 2.0, "S")])
    series = SeriesStore(database)
    series.append([(kept.seq, one) for one in steady(samples)])
    if is_sealed:
        series.seal(kept.seq)
    return kept


def all_of(database: Database, job_id: str) -> tuple[object, ...]:
    """All that is kept of a job."""
    jobs = Jobs(database)
    job = jobs.find(job_id)
    assert job.seq is not None
    return (
        replace(job, seq=None),
        jobs.events(job),
        jobs.log_marks(job),
        Snapshots(database).latest(job),
        SeriesStore(database).series(job.seq, JOB_COLUMNS),
    )


def dump(database: Database) -> list[tuple[object, ...]]:
    with database.reading() as connection:
        return [tuple(row) for table in TABLES for row in connection.execute(f"SELECT * FROM {table}")]


@pytest.mark.parametrize("samples", [0, 7, 120, 300])
@pytest.mark.parametrize("is_sealed", [False, True])
def test_a_job_is_merged_with_all_its_rows(stores: tuple[Database, Database], samples: int, is_sealed: bool) -> None:
    target, source = stores
    names = ("first", "caf\udce9", "last")
    kept = [add_job(source, made_job(name=name), samples, is_sealed) for name in names]
    assert merge(target, source.path, HERE) == Merged(source.path, added=3)
    for job in kept:
        SeriesStore(source).seal(job.seq or 0)  # to the resolution of a block
        assert all_of(target, job.id) == all_of(source, job.id)
    assert [job.name for job in Jobs(target).select(Query(reverse=True))] == ["target", *names]


def test_merging_again_changes_nothing(stores: tuple[Database, Database]) -> None:
    target, source = stores
    for number in range(220):
        add_job(source, made_job(), number % 3)
    assert merge(target, source.path, HERE).added == 220
    before = dump(target)
    assert merge(target, source.path, HERE) == Merged(source.path, known=220)
    assert dump(target) == before


def test_a_job_that_ran_is_completed_once_it_has_ended(stores: tuple[Database, Database]) -> None:
    target, source = stores
    job = add_job(source, running_job(), 130)
    assert merge(target, source.path, HERE).added == 1
    assert Jobs(target).find(job.id).status is Status.RUNNING
    Jobs(source).change(
        job.id, lambda row: (replace(row, status=Status.FAILED, settled=True), [Event(9.0, "exited", {})])
    )
    series = SeriesStore(source)
    series.append([(job.seq or 0, one) for one in steady(140)[130:]])
    series.seal(job.seq or 0)
    assert merge(target, source.path, HERE) == Merged(source.path, completed=1)
    assert all_of(target, job.id) == all_of(source, job.id)
    older = running_job(id=job.id, host="other")
    third = open_to_write(StatePaths(source.path.parent, "third"))
    Jobs(third).insert(older)
    assert merge(target, third.path, HERE) == Merged(third.path, known=1)
    third.close()


def test_jobs_of_this_host_are_not_overwritten_and_queued_jobs_are_not_merged(
    stores: tuple[Database, Database],
) -> None:
    target, source = stores
    running = Jobs(target).insert(running_job())
    Jobs(source).insert(replace(running, status=Status.FAILED, settled=True))
    waiting = running_job(status=Status.QUEUED, recorder=None, queue=Queued(), host="other")
    Jobs(source).insert(waiting)
    assert merge(target, source.path, HERE) == Merged(source.path, known=1, waiting=1)
    assert Jobs(target).find(running.id).status is Status.RUNNING


def test_samples_of_a_merged_job_that_come_later_are_seen(stores: tuple[Database, Database]) -> None:
    target, source = stores
    job = add_job(source, running_job(), 130)
    merge(target, source.path, HERE)
    merged = Jobs(target).find(job.id)
    series = SeriesStore(target)
    series.append([(merged.seq or 0, one) for one in steady(140)[130:]])
    assert series.series(merged.seq or 0, ["proc.count"]).times == [float(number) for number in range(1, 141)]


def test_host_samples_are_merged_and_this_boot_stays_the_latest(
    stores: tuple[Database, Database], monkeypatch: pytest.MonkeyPatch
) -> None:
    target, source = stores
    me = Identity("their boot", NO_PROCESS, 1)
    for database, boot in ((source, "their boot"), (target, "our boot")):
        monkeypatch.setattr("jobtop.store.samples.hosts.boot_id", lambda boot=boot: boot)
        host = HostRecord(database)
        assert host.lease(replace(me, boot=boot))
        assert host.append([(1000.0 + number, {"cpu.percent": float(number)}) for number in range(150)])
        assert host.keep_detail(1001.0, {"of": boot})
    job = add_job(source, made_job(shim=me, start_boottime=1000.0, duration_seconds=140.0))
    for _ in range(2):
        assert merge(target, source.path, HERE).problem is None
    keys = ["cpu.percent"]
    around = HostRecord(target).around(Jobs(target).find(job.id), keys)
    assert len(around.times) > 100
    assert around == HostRecord(source).around(job, keys)
    latest = HostRecord(target).latest_detail()
    assert latest is not None
    assert latest.values == {"of": "our boot"}


@pytest.mark.parametrize("is_sealed", [False, True])
def test_devices_of_a_host_and_named_series_of_a_job_are_merged(
    stores: tuple[Database, Database], monkeypatch: pytest.MonkeyPatch, is_sealed: bool
) -> None:
    target, source = stores
    jobs = []
    for database, boot, util in ((target, "our boot", 1), (source, "their boot", 50)):
        monkeypatch.setattr("jobtop.store.samples.hosts.boot_id", lambda boot=boot: boot)
        jobs.append(job := add_job(database, made_job(name=boot), 5))
        named, devices = NamedRecord(database), DeviceRecord(database)
        named.append([(job.seq or 0, name, float(at), at + util) for name in ("loss", "step") for at in range(150)])
        devices.append([(GPU, float(at), {"gpu.util": at % util}) for at in range(150)])
        MachineEvents(database).add([(None, Event(2.0, "alert", {})), (GPU, Event(1.0, "alert", {"of": boot}))])
        if is_sealed:
            named.seal(job.seq or 0)
            devices.store.seal(devices.devices()[0].seq)
    for added, known in ((1, 0), (0, 1)):
        assert merge(target, source.path, HERE) == Merged(source.path, added=added, known=known)
    for origin, boot, job in zip(stores, ("our boot", "their boot"), jobs, strict=True):
        merged = Jobs(target).find(job.id)
        for name in ("loss", "step"):
            series = NamedRecord(target).series(merged, name)
            assert (len(series.times), series) == (150, NamedRecord(origin).series(job, name))
        (device,), (before,) = DeviceRecord(target).devices(boot), DeviceRecord(origin).devices(boot)
        series = DeviceRecord(target).series(device, ["gpu.util"])
        assert (len(series.times), series) == (150, DeviceRecord(origin).series(before, ["gpu.util"]))
        assert [event.detail for event in MachineEvents(target).of_device(device)] == [{"of": boot}]
        assert len(MachineEvents(target).of_host(boot=boot)) == 1
    assert call("store", "check").returncode == 0


def test_a_store_of_the_first_version_is_merged(home: Path, tmp_path: Path) -> None:
    shutil.copy(OLD, tmp_path / "old.db")
    into = tmp_path / "all.db"
    answer = call("store", "merge", str(tmp_path / "old.db"), "--into", str(into), "--json")
    with closing(sqlite3.connect(tmp_path / "old.db")) as old:
        count = old.execute("SELECT count(*) FROM jobs").fetchone()[0]
    assert (answer.returncode, json.loads(answer.stdout)[0]["added"]) == (0, count)
    assert call("store", "check", str(into)).returncode == 0
    assert not home.exists()


def test_unreadable_files_are_named_and_the_others_are_merged(home: Path, tmp_path: Path) -> None:
    files = tmp_path / "files"
    kept_jobs(files, *(made_job(host="good", note="n" * 500) for _ in range(30)))
    good = StatePaths(files, HERE).store
    for name in ("newer", "pages"):
        shutil.copy(good, files / f"{name}.db")
    damage_pages(files / "pages.db")
    newer = sqlite3.connect(files / "newer.db")
    newer.execute("PRAGMA user_version = 99")
    newer.close()
    (files / "garbage.db").write_bytes(b"garbage" * 1000)
    answer = call("store", "merge", str(files), str(tmp_path / "missing.db"), "--json")
    done = {Path(one["path"]).name: (one["added"], one["problem"] is not None) for one in json.loads(answer.stdout)}
    assert answer.returncode == 1
    assert done == {
        good.name: (30, False),
        **dict.fromkeys(("garbage.db", "missing.db", "newer.db", "pages.db"), (0, True)),
    }
    assert answer.stderr.count("left out: ") == 4
    assert call("store", "check").returncode == 0
    assert not list(home.glob("*.suspect"))


def test_nothing_is_merged_into_the_store_of_another_host(home: Path, tmp_path: Path) -> None:
    kept_jobs(home, made_job())
    source = tmp_path / "node07.db"
    kept_jobs(tmp_path, made_job(host="node07"))
    StatePaths(tmp_path, HERE).store.rename(source)
    answer = call("store", "merge", str(home), "--into", str(source))
    assert answer.returncode == 2
    assert_one_line(answer.stderr, "--into", str(source), "node07")
    renamed = source.rename(tmp_path / "all.db")
    assert call("store", "merge", str(home), "--into", str(renamed)).returncode == 0


def test_a_store_is_not_merged_into_itself(home: Path) -> None:
    kept_jobs(home, made_job())
    store = str(StatePaths(home, HERE).store)
    answer = call("store", "merge", store)
    assert answer.returncode == 1
    assert_one_line(answer.stderr, "left out", store)
    assert call("store", "merge", str(home)).returncode == 2
    assert call("store", "merge", str(home), "--into", str(home / "no-suffix")).returncode == 2
