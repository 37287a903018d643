"""Values over time of the devices of a machine: GPUs, disks, interfaces, cores. A device belongs to a boot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from jobtop.core.measure.derive import Frame
from jobtop.core.measure.device import Device
from jobtop.core.metrics import DEVICE_SCOPES, Scope, columns
from jobtop.core.model import Job, Sample
from jobtop.core.record import record
from jobtop.store.database import Database
from jobtop.store.jobs import stored_text
from jobtop.store.rows import is_number
from jobtop.store.samples.head import DEVICES
from jobtop.store.samples.hosts import series_around, this_boot
from jobtop.store.samples.joined import Number, Series
from jobtop.store.samples.series import SeriesStore
from jobtop.store.schema import has_tables_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

Reading = tuple[Device, float, Mapping[str, Number | None]]


@record
class StoredDevice:
    """A device of one boot, as a store has it; `boot_time` is in seconds since the epoch."""

    seq: int
    kind: str
    name: str
    boot: str
    boot_time: float

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of its kind; all that a device can have if the catalogue does not know the kind."""
        return columns(Scope(self.kind)) if self.kind in DEVICE_SCOPES else DEVICES.keys


class DeviceRecord:
    """The devices of the machines of one store. Only the holder of the host's lease may append."""

    def __init__(self, database: Database, boot: int | None = None) -> None:
        """`boot` is the number of the boot to append to; by default that of this one."""
        self.database = database
        self.store = SeriesStore(database, DEVICES)
        self._boot = boot
        self._numbers: dict[Device, int] = {}
        self._has_ended_boots = True  # until none is found: their writer may have been killed

    def append(self, readings: Iterable[Reading]) -> None:
        """Append readings of devices of this boot, each with its seconds since the boot; other keys are dropped.

        After a transaction that failed, make a new DeviceRecord: this one has numbers that are not in the store.
        """
        with self.database.writing() as connection:
            rows = [
                (self.number(connection, device), Sample(at, tuple(values.get(key) for key in DEVICES.keys)))
                for device, at, values in readings
            ]
            self.store.append(rows)

    def number(self, connection: sqlite3.Connection, device: Device) -> int:
        """The number of a device of this boot; its row is created if there is none. Needs a write transaction."""
        if device not in self._numbers:
            if self._boot is None:
                self._boot = this_boot(self.database)
            row = (self._boot, stored_text(device.kind), stored_text(device.name))
            sql = "INSERT OR IGNORE INTO devices (host_seq, kind, name) VALUES (?, CAST(? AS TEXT), CAST(? AS TEXT))"
            connection.execute(sql, row)
            sql = "SELECT seq FROM devices WHERE host_seq = ? AND kind = CAST(? AS TEXT) AND name = CAST(? AS TEXT)"
            self._numbers[device] = int(connection.execute(sql, row).fetchone()[0])
        return self._numbers[device]

    def devices(self, boot: str | None = None) -> list[StoredDevice]:
        """The devices of a boot, or of the last boot, by kind and in the order of their first samples."""
        with self.database.reading() as connection:
            return _devices(connection, boot)

    def series(
        self,
        device: StoredDevice,
        keys: Sequence[str],
        start: float | None = None,
        end: float | None = None,
        max_points: int | None = None,
    ) -> Series:
        """Values of a device between two times in seconds since its boot, as `SeriesStore.series` gives them."""
        return self.store.series(device.seq, keys, start, end, max_points)

    def around(
        self,
        job: Job,
        device: Device,
        keys: Sequence[str],
        start: float | None = None,
        end: float | None = None,
        max_points: int | None = None,
    ) -> Series:
        """Values of a device in seconds since the start of a job; by default while the job ran."""
        return series_around(self.store, self._number_around(job, device), job, keys, start, end, max_points)

    def last_around(
        self, job: Job, device: Device, keys: Sequence[str], until: float = float("inf"), fresh_seconds: float = 15.0
    ) -> dict[str, Number | None]:
        """The last gauges of a device until a moment since the start of a job; None if they were older than that."""
        owner, begin = self._number_around(job, device), job.start_boottime
        samples = [] if owner is None or begin is None else self.store.newest(owner, 1, begin + until, keys)
        is_fresh = bool(samples) and (
            until == float("inf") or samples[-1].elapsed >= (begin or 0.0) + until - fresh_seconds
        )
        return dict(zip(keys, samples[-1].values, strict=True)) if is_fresh else dict.fromkeys(keys)

    def newest(self, boot: str | None = None) -> dict[StoredDevice, Frame]:
        """The newest sample of each device of a boot, or of the last boot: counters as rates, times since the boot."""
        found = {}
        for device in self.devices(boot):
            frame = self.store.frame_at(device.seq, float("inf"))
            if frame is not None:
                found[device] = Frame(frame.elapsed, {key: frame.values[key] for key in device.keys})
        return found

    def step(self) -> bool:
        """Do one unit of housekeeping, first on the samples of earlier boots; return whether there is more to do."""
        if self._has_ended_boots:
            self._has_ended_boots = self.store.seal_ended(1) > 0
            return True
        return self.store.step()

    def _number_around(self, job: Job, device: Device) -> int | None:
        with self.database.reading() as connection:
            if job.shim is None or not has_tables_of(connection, DEVICES.since_version):
                return None
            row = connection.execute(
                "SELECT devices.seq FROM devices JOIN hosts ON hosts.seq = host_seq"
                " WHERE boot = ? AND kind = CAST(? AS TEXT) AND devices.name = CAST(? AS TEXT)",
                (job.shim.boot, stored_text(device.kind), stored_text(device.name)),
            ).fetchone()
        return None if row is None else int(row[0])


def _devices(connection: sqlite3.Connection, boot: str | None) -> list[StoredDevice]:
    if not has_tables_of(connection, DEVICES.since_version):
        return []
    which = "hosts.seq = (SELECT max(seq) FROM hosts)" if boot is None else "boot = ?"
    rows = connection.execute(
        "SELECT devices.seq, kind, devices.name, boot, boot_time FROM devices JOIN hosts ON hosts.seq = host_seq"
        f" WHERE {which} ORDER BY kind, devices.seq",
        () if boot is None else (boot,),
    )
    return [StoredDevice(*row) for row in rows if is_number(row[4]) and {str}.issuperset(map(type, row[1:4]))]
