"""Devices of a machine, and names that jobs chose, have series as jobs and the machine have."""

import random
import time
from pathlib import Path

import pytest

from jobtop.core.errors import BadValue, StoreBusy
from jobtop.core.measure.device import Device
from jobtop.core.measure.sampler import Batch
from jobtop.core.metrics import VALUE, Kind, find_metric, steps
from jobtop.core.model import Identity, Job, Sample
from jobtop.core.paths import StatePaths
from jobtop.core.procfs import boot_id
from jobtop.core.record import replace
from jobtop.store.database import Database, open_to_read
from jobtop.store.events import MachineEvents
from jobtop.store.jobs import Event, Jobs
from jobtop.store.samples import hosts
from jobtop.store.samples.devices import DeviceRecord
from jobtop.store.samples.head import DEVICES, HOSTS, JOBS, LAYOUTS, NAMED, Layout
from jobtop.store.samples.named import NamedRecord
from jobtop.store.samples.rollup import drop_some, roll_some
from jobtop.store.samples.series import SeriesStore
from jobtop.store.samples.sink import StoreSink
from records import NO_PROCESS, made_job, running_job
from support import ROOT

GPU, DISK = Device("gpu", "0"), Device("disk", "sd\udcff")


def job_begun(at: float, **values: object) -> Job:
    return made_job(shim=Identity(boot_id(), NO_PROCESS, 1), start_boottime=at, **values)


def owner_of(database: Database, layout: Layout) -> int:
    """An owner of this kind that is in the store."""
    job = Jobs(database).insert(running_job())
    assert job.seq is not None
    with database.writing() as connection:
        if layout is JOBS:
            return job.seq
        host = hosts.this_boot(database)
        if layout is HOSTS:
            return host
        if layout is DEVICES:
            return DeviceRecord(database).number(connection, GPU)
        NamedRecord(database).append([(job.seq, "loss", 0.0, 1.0)])
        connection.execute("DELETE FROM named_head")
        return int(connection.execute("SELECT max(seq) FROM named").fetchone()[0])


def made_samples(chance: random.Random, layout: Layout, count: int) -> list[Sample]:
    """Samples in the resolution of their metrics, counters growing, some values absent."""
    values: dict[str, float] = dict.fromkeys(layout.keys, 0.0)
    made, elapsed = [], 0.0
    absent = set(chance.sample(layout.keys, len(layout.keys) // 2))
    for _ in range(count):
        elapsed = round(elapsed + chance.choice((0.1, 1.0, 1.0, 5.0)), 3)
        for key in layout.keys:
            grows = key != VALUE and find_metric(key).kind is Kind.COUNTER
            step = 1 if key == VALUE else steps(key)
            drawn = chance.random() if key == VALUE else chance.randrange(10**6) / step
            values[key] = round(values[key] + drawn, 6) if grows else drawn
        row = tuple(None if key in absent or chance.random() < 0.02 else values[key] for key in layout.keys)
        made.append(Sample(elapsed, row))
    return made


@pytest.mark.parametrize("layout", LAYOUTS, ids=[layout.owners for layout in LAYOUTS])
@pytest.mark.parametrize("seed", range(4))
def test_what_goes_in_comes_out_of_head_blocks_and_merged_blocks(database: Database, layout: Layout, seed: int) -> None:
    chance = random.Random(seed)
    owner, store = owner_of(database, layout), SeriesStore(database, layout)
    made = made_samples(chance, layout, chance.choice((1, 119, 700, 4100)))
    place = 0
    while place < len(made):
        size = chance.choice((1, 3, 50, 130))
        store.append([(owner, one) for one in made[place : place + size]])
        place += size
        for _ in range(chance.choice((0, 1, 30))):
            store.step()
        if chance.random() < 0.05:
            store = SeriesStore(database, layout)  # as after a kill
    assert store.samples(owner) == made
    assert [one.elapsed for one in store.follow(owner).samples] == [one.elapsed for one in made]
    assert store.count(owner) == len(made)
    assert store.newest(owner, 3) == made[-3:]
    store.seal(owner)
    assert SeriesStore(database, layout).samples(owner) == made
    key = layout.keys[0]
    thinned = store.series(owner, [key], max_points=20)
    whole = [one.values[0] for one in made if one.values[0] is not None]
    if whole:
        assert {min(whole), max(whole)} <= set(thinned.values[key])


@pytest.mark.parametrize("layout", LAYOUTS, ids=[layout.owners for layout in LAYOUTS])
def test_minutes_of_every_owner_keep_extremes_and_totals_and_go(database: Database, layout: Layout) -> None:
    owner, store = owner_of(database, layout), SeriesStore(database, layout)
    made = made_samples(random.Random(1), layout, 1500)
    made = [Sample(one.elapsed, tuple(value or 0 for value in one.values)) for one in made]
    counters = [key for key in layout.keys if key != VALUE and find_metric(key).kind is Kind.COUNTER]
    for place, key in enumerate(layout.keys):
        if key in counters:
            grown = sorted(one.values[place] or 0 for one in made)
            made = [
                Sample(one.elapsed, (*one.values[:place], value, *one.values[place + 1 :]))
                for one, value in zip(made, grown, strict=True)
            ]
    store.append([(owner, one) for one in made])
    store.seal(owner)
    while roll_some(database, layout, owner):
        pass
    rolled = store.series(owner, layout.keys)
    assert store.count(owner) < len(made) / 5
    for place, key in enumerate(layout.keys):
        values = [one.values[place] for one in made]
        if key in counters:
            assert rolled.values[key][-1] == values[-1], key
        else:
            found = [value for value in rolled.values[key] if value is not None]
            assert min(found) == min(value for value in values if value is not None), key
            assert max(found) == max(value for value in values if value is not None), key
    assert drop_some(database, layout, owner) > 0
    assert store.count(owner) == 0


def test_devices_are_listed_with_their_kind_and_name_and_read_in_the_seconds_of_a_job(database: Database) -> None:
    record = DeviceRecord(database)
    assert (record.devices(), record.newest()) == ([], {})
    for second in range(1000, 1300):
        readings: list[tuple[Device, float, dict[str, float | int | None]]] = [
            (GPU, float(second), {"gpu.util": second % 100, "energy.gpu": 2.0 * second, "no.such.key": 1}),
            (DISK, float(second), {}),
        ]
        record.append(readings)
    found = record.devices()
    assert [(one.kind, one.name, one.boot) for one in found] == [
        ("disk", "sd\udcff", boot_id()),
        ("gpu", "0", boot_id()),
    ]
    job = job_begun(1100.5, duration_seconds=20.0)
    around = record.around(job, GPU, ["gpu.util", "gpu.temp"])
    assert around.times == [second + 0.5 for second in range(20)]
    assert around.values == {"gpu.util": [second % 100 for second in range(1101, 1121)], "gpu.temp": [None] * 20}
    assert record.around(job, GPU, ["gpu.util"], 4.0, 6.0).values["gpu.util"] == [5, 6]
    assert record.series(found[1], ["gpu.util"], 1298.0).times == [1298.0, 1299.0]
    assert len(record.series(found[1], ["gpu.util"], max_points=10).times) <= 10
    newest = {device.name: frame for device, frame in record.newest().items()}
    assert (newest["0"].elapsed, newest["0"].values["gpu.util"], newest["0"].values["energy.gpu"]) == (1299.0, 99, 2.0)
    assert "gpu.temp" in newest["0"].values
    with pytest.raises(BadValue):
        record.around(job, GPU, ["gpu.utl"])


def test_the_newest_values_of_a_device_that_was_sealed_are_read_from_its_blocks(database: Database) -> None:
    record = DeviceRecord(database)
    record.append([(GPU, float(second), {"gpu.util": second}) for second in range(240)])
    (gpu,) = record.devices()
    record.store.seal(gpu.seq)
    record.append([(DISK, float(second), {}) for second in range(100)])
    assert record.newest()[gpu].values["gpu.util"] == 239


def test_a_device_of_another_boot_is_another_device(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    DeviceRecord(database).append([(GPU, 1.0, {"gpu.util": 1}), (GPU, 2.0, {"gpu.util": 2})])
    first = boot_id()
    monkeypatch.setattr(hosts, "boot_id", lambda: "the next boot")
    after = DeviceRecord(database)
    after.append([(GPU, 1.0, {"gpu.util": 7})])
    assert [device.boot for device in after.devices()] == ["the next boot"]
    (before,) = after.devices(first)
    assert after.series(before, ["gpu.util"]).values["gpu.util"] == [1, 2]
    while after.step():
        pass
    with database.reading() as connection:
        assert connection.execute("SELECT count(*) FROM device_blocks").fetchone()[0] == 1, "the first boot is over"
        assert connection.execute("SELECT count(*) FROM device_head").fetchone()[0] == 1
    job = job_begun(0.0, duration_seconds=9.0)
    assert after.around(job, GPU, ["gpu.util"]).values["gpu.util"] == [1, 2]
    later = replace(job, shim=Identity("the next boot", 1, 1))
    assert after.around(later, GPU, ["gpu.util"]).values["gpu.util"] == [7]
    for other in (replace(job, shim=None), replace(job, start_boottime=None), replace(job, shim=Identity("no", 1, 1))):
        assert after.around(other, GPU, ["gpu.util"]).times == []


def test_a_job_has_the_names_it_chose_and_their_values_exactly(database: Database) -> None:
    record = NamedRecord(database)
    first, second = (Jobs(database).insert(running_job()) for _ in range(2))
    assert first.seq is not None
    assert second.seq is not None
    losses = [1 / (number + 1) for number in range(300)]
    for number, loss in enumerate(losses):
        record.append(
            [(first.seq, "loss", float(number), loss), (first.seq, "épo\udcffch", number + 0.5, number // 100)]
        )
    record.append([(second.seq, "loss", 0.0, float("nan")), (second.seq, "loss", 1.0, float("inf"))])
    assert (record.names(first), record.names(second)) == (["loss", "épo\udcffch"], ["loss"])
    for _ in range(3):
        found = record.series(first, "loss")
        assert (found.times, found.values) == ([float(number) for number in range(300)], {VALUE: losses})
        record.seal(first.seq)
    assert record.newest(first) == {"loss": (299.0, losses[-1]), "épo\udcffch": (299.5, 2)}
    assert record.series(second, "loss").values == {VALUE: [None, None]}
    assert record.series(first, "no such name").times == []
    assert record.names(made_job()) == []


def test_moments_of_a_name_never_go_back(database: Database) -> None:
    job, record = Jobs(database).insert(running_job()), NamedRecord(database)
    record.append([(job.seq or 0, "loss", elapsed, elapsed) for elapsed in (5.0, 3.0, 6.0)])
    found = record.series(job, "loss")
    assert (found.times, found.values[VALUE]) == ([5.0, 5.0, 6.0], [5, 3, 6])


def test_names_of_a_job_that_is_deleted_go_with_it(database: Database) -> None:
    job, other, record = (
        Jobs(database).insert(running_job()),
        Jobs(database).insert(running_job()),
        NamedRecord(database),
    )
    for second in range(130):
        record.append([(one.seq or 0, "loss", float(second), second) for one in (job, other)])
    while record.step():
        pass
    Jobs(database).delete(job)
    record.append([(job.seq or 0, "loss", 200.0, 1.0), (job.seq or 0, "new", 200.0, 1.0)])
    assert (record.names(job), len(record.series(other, "loss").times)) == ([], 130)
    record.store.trim(10_000)
    with database.reading() as connection:
        owners = connection.execute(
            "SELECT named_seq FROM named_head UNION SELECT named_seq FROM named_blocks UNION SELECT named_seq FROM"
            " named_series UNION SELECT seq FROM named"
        ).fetchall()
    assert len(owners) == 1


def test_a_sink_keeps_devices_and_names_with_the_samples(paths: StatePaths, database: Database) -> None:
    job = Jobs(database).insert(running_job())
    sink = StoreSink(paths, network=False, are_recorded=True)
    batch = Batch(
        devices=[(GPU, 5.0, {"gpu.util": 50})],
        named=[(job.id, "loss", 1.0, 0.25), ("gone", "loss", 1.0, 1.0)],
        events=[
            (job.id, 1.0, "one", {}),
            (None, 2.0, "two", {}),
            (GPU, 3.0, "three", {"a": 1}),
            ("gone", 1.0, "x", {}),
        ],
    )
    sink.keep([batch])
    record, events = DeviceRecord(database), MachineEvents(database)
    assert (record.devices(), events.of_host()) == ([], []), "it has not asked whether it may record the machine"
    assert sink.may_record_host()
    sink.keep([batch])
    (gpu,) = record.devices()
    assert record.series(gpu, ["gpu.util"]).values["gpu.util"] == [50]
    assert NamedRecord(database).series(job, "loss").values[VALUE] == [0.25, 0.25]
    assert [one.kind for one in Jobs(database).events(job)] == ["one", "one"]
    assert events.of_host() == [Event(2.0, "two", {})]
    assert events.of_host(2.5) == events.of_host(boot="another") == []
    assert events.of_host(1.0, boot_id()) == [Event(2.0, "two", {})]
    assert events.of_device(gpu) == [Event(3.0, "three", {"a": 1})]
    sink.finish(job.id)
    while sink.step():
        pass
    sink.close()
    with database.reading() as connection:
        for layout, count in ((NAMED, 1), (DEVICES, 0)):
            assert connection.execute(f"SELECT count(*) FROM {layout.blocks}").fetchone()[0] == count


def test_events_of_the_machine_survive_a_store_that_was_busy(
    paths: StatePaths, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = StoreSink(paths, network=False)
    assert sink.may_record_host()
    batch = Batch(events=[(None, time.time(), "alert", {})], devices=[(GPU, 1.0, {"gpu.util": 1})])

    def busy(*_: object) -> None:
        raise StoreBusy("busy")

    with monkeypatch.context() as patch:
        patch.setattr(MachineEvents, "add", busy)
        with pytest.raises(StoreBusy):
            sink.keep([batch])
    assert (MachineEvents(database).of_host(), DeviceRecord(database).devices()) == ([], [])
    sink.keep([batch])
    sink.close()
    assert len(MachineEvents(database).of_host()) == 1
    assert len(DeviceRecord(database).devices()) == 1


def test_a_store_from_before_has_no_devices_and_no_names(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    path.write_bytes((ROOT / "tests/data/store-v1.db").read_bytes())
    database = open_to_read(path)
    record, job = DeviceRecord(database), job_begun(0.0)
    assert (record.devices(), record.newest(), record.around(job, GPU, ["gpu.util"]).times) == ([], {}, [])
    assert (NamedRecord(database).names(job), MachineEvents(database).of_host()) == ([], [])
    database.close()
