"""Devices, named series and events of the machine in a store that is merged, copied, checked, described and pruned."""

import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from jobtop.core.measure.device import Device
from jobtop.core.metrics import VALUE
from jobtop.core.model import Job, Kept, Sample
from jobtop.core.paths import StatePaths
from jobtop.core.record import replace
from jobtop.core.retention import Policy
from jobtop.store.database import APPLICATION_ID, Database, open_to_write
from jobtop.store.events import MachineEvents
from jobtop.store.jobs import Event, Jobs
from jobtop.store.samples import hosts
from jobtop.store.samples.devices import DeviceRecord, StoredDevice
from jobtop.store.samples.head import DEVICES, HOSTS, LAYOUTS, NAMED
from jobtop.store.samples.hosts import boot_number
from jobtop.store.samples.named import NamedRecord
from jobtop.store.samples.packed import pack
from jobtop.store.samples.series import SeriesStore
from jobtop.store.schema import MIGRATIONS
from jobtop.store.upkeep.checking import check
from jobtop.store.upkeep.merging import Merged, merge
from jobtop.store.upkeep.retention import Retention
from records import HERE, call, made_job, running_job
from sampled import steady

DAY = 86400.0
POLICY = Policy(7 * DAY, 90 * DAY)
BOOT, GPU, CORE = "boot of another", Device("gpu", "0"), Device("core", "3")


@pytest.fixture
def stores(home: Path, tmp_path: Path) -> Iterator[tuple[Database, Database]]:
    """This host's store, and that of another."""
    target, source = open_to_write(StatePaths(home, HERE)), open_to_write(StatePaths(tmp_path, "other"))
    yield target, source
    target.close()
    source.close()


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is recorded is of a boot of another machine."""
    monkeypatch.setattr(hosts, "boot_id", lambda: BOOT)


def record_machine(database: Database, seconds: int, first: int = 0) -> None:
    """Seconds of two devices, and an event of each and of the machine."""
    record = DeviceRecord(database)
    for second in range(first, first + seconds):
        record.append([(GPU, float(second), {"gpu.util": second}), (CORE, float(second), {"cpu.percent": 1.5})])
    boot = hosts.this_boot(database)
    SeriesStore(database, HOSTS).append([(boot, sample_of_host(second)) for second in range(first + seconds)])
    MachineEvents(database).add([(None, Event(1.0, "suspended", {})), (GPU, Event(2.0, "alert", {"text": "hot"}))])


def sample_of_host(second: int) -> Sample:
    return Sample(float(second), tuple(second for _ in HOSTS.keys))


def record_names(database: Database, job: Job, count: int) -> None:
    record = NamedRecord(database)
    for number in range(count):
        record.append([(job.seq or 0, "loss", float(number), 1 / (number + 1)), (job.seq or 0, "step", number, number)])


def machine(database: Database, boot: str = BOOT) -> dict[tuple[str, str], tuple[object, ...]]:
    """All that is kept of the devices of a boot."""
    record, events = DeviceRecord(database), MachineEvents(database)

    def contents(device: StoredDevice) -> tuple[object, ...]:
        return record.series(device, DEVICES.keys), events.of_device(device)

    return {(device.kind, device.name): contents(device) for device in record.devices(boot)}


def names(database: Database, job: Job) -> dict[str, object]:
    record, kept = NamedRecord(database), Jobs(database).find(job.id)
    return {name: record.series(kept, name) for name in record.names(kept)}


@pytest.mark.parametrize("count", [5, 130])
@pytest.mark.usefixtures("elsewhere")
def test_devices_names_and_events_come_along_when_stores_are_merged(
    stores: tuple[Database, Database], count: int
) -> None:
    target, source = stores
    other = Jobs(target).insert(made_job(name="target"))
    record_names(target, other, 7)
    job = Jobs(source).insert(made_job(host="other"))
    record_names(source, job, count)
    record_machine(source, count)
    before = names(target, other)
    assert merge(target, source.path, HERE) == Merged(source.path, added=1)
    assert names(target, job) == names(source, job) != {}
    assert machine(target) == machine(source) != {}
    assert MachineEvents(target).of_host(boot=BOOT) == [Event(1.0, "suspended", {})]
    assert names(target, other) == before
    with target.reading() as connection:
        assert connection.execute("SELECT name FROM hosts WHERE boot = ?", (BOOT,)).fetchone()[0] == "other"
    assert list(check(target.path)) == []
    assert merge(target, source.path, HERE) == Merged(source.path, known=1)
    assert machine(target) == machine(source)


@pytest.mark.usefixtures("elsewhere")
def test_a_machine_that_was_recorded_longer_is_taken_again(stores: tuple[Database, Database]) -> None:
    target, source = stores
    record_machine(source, 100)
    merge(target, source.path, HERE)
    record_machine(source, 100, first=100)
    merge(target, source.path, HERE)
    assert machine(target) == machine(source)
    assert len(MachineEvents(target).of_host(boot=BOOT)) == 2
    with target.reading() as connection:
        assert connection.execute("SELECT count(*) FROM devices").fetchone()[0] == 2


@pytest.mark.usefixtures("elsewhere")
def test_a_store_that_is_merged_goes_on_with_greater_ids(stores: tuple[Database, Database]) -> None:
    target, source = stores
    record_machine(source, 300)
    job = Jobs(source).insert(running_job(host="other", shim=None))
    record_names(source, replace(job, seq=job.seq), 300)
    with source.writing() as connection:
        connection.execute("UPDATE jobs SET shim_pid = 1")
    merge(target, source.path, HERE)
    own = Jobs(target).insert(running_job())
    record_names(target, own, 10)
    assert names(target, own) != {}
    assert {len(series.times) for series in names(target, own).values()} == {10}  # type: ignore[attr-defined]


def test_a_machine_of_a_store_without_devices_is_merged(stores: tuple[Database, Database], tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for step in MIGRATIONS[: DEVICES.since_version - 1]:
            connection.executescript(step)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {DEVICES.since_version - 1}")
        connection.execute("INSERT INTO hosts VALUES (1, ?, 5.0)", (BOOT,))
        connection.execute("INSERT INTO host_details VALUES (1, 2.0, ?)", (pack({}),))
    assert merge(stores[0], path, HERE) == Merged(path)
    with stores[0].reading() as connection:
        assert connection.execute("SELECT boot, name FROM hosts JOIN host_details ON seq = host_seq").fetchall() != []


DAMAGED = {
    "device_blocks": "UPDATE device_blocks SET data = x'00' WHERE id = 1",
    "named_blocks": "UPDATE named_blocks SET samples = samples + 1 WHERE id = 1",
    "device_head": "UPDATE device_head SET elapsed = 1e15 WHERE id = (SELECT max(id) FROM device_head)",
    "devices": "INSERT INTO devices SELECT 99, host_seq, kind, name || '' FROM devices LIMIT 1",
    "events": "UPDATE events SET detail = '[]' WHERE host_seq IS NOT NULL",
    "events of two": "UPDATE events SET job_seq = 1 WHERE device_seq IS NOT NULL",
}


@pytest.mark.parametrize("kind", DAMAGED)
@pytest.mark.usefixtures("elsewhere")
def test_damaged_rows_of_devices_and_names_are_left_out_and_counted(
    stores: tuple[Database, Database], kind: str
) -> None:
    target, source = stores
    job = Jobs(source).insert(made_job(host="other"))
    record_names(source, job, 130)
    record_machine(source, 130)
    for layout in (DEVICES, NAMED):
        SeriesStore(source, layout).seal(1)
    with source.alone() as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(
            "UPDATE sqlite_master SET sql = replace(sql, 'UNIQUE (host_seq, kind, name)', 'UNIQUE (seq)')"
        )
        connection.execute("PRAGMA writable_schema = RESET")
        connection.execute(DAMAGED[kind])
    done = merge(target, source.path, HERE)
    count = 2 if kind == "events of two" else 1  # once for each of its owners
    assert (done.problem, done.added, done.damaged_rows) == (None, 1, count)
    assert done.damaged_tables == f"{count} in {kind.split(maxsplit=1)[0]}"
    assert list(check(target.path)) == []


@pytest.mark.usefixtures("elsewhere")
def test_a_check_names_damaged_blocks_by_their_device_or_job(home: Path, stores: tuple[Database, Database]) -> None:
    target, _ = stores
    job = Jobs(target).insert(made_job(name="train"))
    record_names(target, job, 130)
    record_machine(target, 130)
    for layout in (DEVICES, NAMED):
        SeriesStore(target, layout).seal(1)
    assert list(check(target.path)) == []
    with target.writing() as connection:
        connection.execute("UPDATE device_blocks SET data = x'0000'")
        connection.execute("UPDATE named_blocks SET data = x'0000'")
        connection.execute("INSERT INTO device_head (device_seq, elapsed, gpu_util) VALUES (1, 1.0, 'x')")
    found = {(problem.where, problem.job_id, problem.name) for problem in check(target.path)}
    assert found == {
        ("device_blocks", None, "gpu 0"),
        ("named_blocks", job.id, "train"),
        ("device_head", None, None),
    }
    assert call("store", "check").returncode == 1


@pytest.mark.usefixtures("elsewhere")
def test_info_counts_devices_names_and_samples_that_are_lists(home: Path, stores: tuple[Database, Database]) -> None:
    target, _ = stores
    jobs = [Jobs(target).insert(running_job()) for _ in range(5)]
    record_names(target, jobs[0], 130)
    SeriesStore(target, NAMED).seal(1)
    record_machine(target, 20)
    one = steady(1)[0]
    store = SeriesStore(target)
    for second in range(10):
        store.append([(job.seq or 0, replace(one, elapsed=float(second))) for job in jobs])
    store.seal(jobs[0].seq or 0)
    found = json.loads(call("store", "info", "--json").stdout)
    assert (found["raw_samples"], found["sealed_samples"]) == (40, 10)
    assert (found["device_samples"], found["named_samples"], found["machine_samples"]) == (40, 260, 20)
    assert {"devices", "named series"} <= found["bytes_by_kind"].keys()
    assert not {layout.head for layout in LAYOUTS} & found["bytes_by_kind"].keys()


@pytest.mark.usefixtures("elsewhere")
def test_a_backup_has_them(home: Path, tmp_path: Path, stores: tuple[Database, Database]) -> None:
    target, _ = stores
    job = Jobs(target).insert(made_job())
    record_names(target, job, 130)
    record_machine(target, 130)
    assert call("store", "backup", str(tmp_path / "copy" / f"{HERE}.db")).returncode != 0
    directory = tmp_path / "copied"
    directory.mkdir(mode=0o700)
    assert call("store", "backup", str(directory / f"{HERE}.db")).returncode == 0
    copy = open_to_write(StatePaths(directory, HERE))
    assert (machine(copy), names(copy, job)) == (machine(target), names(target, job))
    copy.close()


def pruned(database: Database, paths: StatePaths, is_dry: bool = False) -> Retention:
    retention = Retention(database, paths, POLICY, is_dry)
    while retention.step():
        pass
    return retention


def aged(database: Database, days: float, count: int = 600) -> Job:
    """A job that ended so long ago, with a named series."""
    begun = time.time() - days * DAY
    job = Jobs(database).insert(made_job(start_time=begun, submitted_at=begun, end_time=begun + count, settled=True))
    record = NamedRecord(database)
    record.append([(job.seq or 0, "loss", float(second), second / 7) for second in range(count)])
    record.seal(job.seq or 0)
    return job


def test_named_series_age_with_their_job(home: Path, stores: tuple[Database, Database]) -> None:
    target, _ = stores
    new, old, oldest = (aged(target, days) for days in (1.0, 10.0, 100.0))
    assert pruned(target, StatePaths(home, HERE), is_dry=True).report.samples == 1200
    report = pruned(target, StatePaths(home, HERE)).report
    assert report.samples == 1200
    record = NamedRecord(target)
    assert [Jobs(target).find(job.id).kept for job in (new, old, oldest)] == [Kept.WHOLE, Kept.MINUTES, Kept.RECORD]
    assert [record.names(job) for job in (new, old, oldest)] == [["loss"], ["loss"], []]
    assert len(record.series(new, "loss").times) == 600
    minutes = record.series(old, "loss")
    assert len(minutes.times) <= 44
    assert max(value for value in minutes.values[VALUE] if value is not None) == 599 / 7
    with target.reading() as connection:
        assert connection.execute("SELECT count(DISTINCT named_seq) FROM named_blocks").fetchone()[0] == 2
        assert connection.execute("SELECT count(*) FROM named_head").fetchone()[0] == 0


def test_devices_age_with_their_host_and_old_empty_ones_go(home: Path, stores: tuple[Database, Database]) -> None:
    target, _ = stores
    now = time.time()
    boots = {age: boot_number(target, f"boot {age}", now - age * DAY) for age in (100, 10, 0)}
    with target.writing() as connection:
        for age, boot in boots.items():
            for kind, name in (("gpu", "0"), ("core", "1")):
                connection.execute("INSERT INTO devices (host_seq, kind, name) VALUES (?, ?, ?)", (boot, kind, name))
            for device, owner in ((0, "host_seq"), (1, "device_seq")):
                seq = connection.execute("SELECT max(seq) FROM devices").fetchone()[0] if device else boot
                sql = f"INSERT INTO events ({owner}, at, kind, detail) VALUES (?, ?, 'alert', '{{}}')"
                connection.execute(sql, (seq, now - age * DAY))
        devices = [row[0] for row in connection.execute("SELECT seq FROM devices ORDER BY seq")]
    store = SeriesStore(target, DEVICES)
    values = tuple(7 for _ in DEVICES.keys)
    store.append([(seq, Sample(float(second), values)) for second in range(600) for seq in devices])
    pruned(target, StatePaths(home, HERE))
    record = DeviceRecord(target)
    found = {age: [store.count(device.seq) for device in record.devices(f"boot {age}")] for age in boots}
    assert found == {100: [], 10: [10, 10], 0: [600, 600]}
    assert len(MachineEvents(target).of_host()) == 2
    with target.reading() as connection:
        assert connection.execute("SELECT count(*) FROM events").fetchone()[0] == 4
    assert list(check(target.path)) == []


def test_a_job_that_is_removed_takes_its_names_along(home: Path, stores: tuple[Database, Database]) -> None:
    target, _ = stores
    job = aged(target, 1.0)
    assert call("rm", job.id).returncode == 0
    with target.reading() as connection:
        for table in ("named", "named_series", "named_blocks"):
            assert connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] == 0
    assert list(check(target.path)) == []
