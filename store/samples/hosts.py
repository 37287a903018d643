"""The samples of the host, recorded by one engine at a time, and read in seconds since the start of a job."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence

from jobtop.core.measure.collectors.proc import is_alive
from jobtop.core.measure.derive import derive
from jobtop.core.metrics import Scope
from jobtop.core.model import Identity, Job, Sample
from jobtop.core.procfs import boot_id
from jobtop.core.record import record, replace
from jobtop.store.database import Database
from jobtop.store.leases import LEASE_SECONDS, Lease, now_since_boot
from jobtop.store.rows import is_number
from jobtop.store.samples.head import HOSTS
from jobtop.store.samples.joined import Joined, Number, Series
from jobtop.store.samples.packed import pack, unpack
from jobtop.store.samples.sealed import samples_after
from jobtop.store.samples.series import SeriesStore
from jobtop.store.schema import has_tables_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from typing import Any

LEASE = "host"
DETAIL_SECONDS = 10.0
FRESH_SECONDS = 3.0  # older or less frequent samples are not shown as current
KEPT_READINGS = 75
SILENT_SECONDS = 60.0  # on a network file system, samples are committed every ten seconds


@record
class Detail:
    """The values of a host that have no columns, at one time; `at` is in seconds since the epoch."""

    at: float
    elapsed: float
    values: dict[str, Any]


class HostRecord:
    """The samples of the host of one store; only the process that holds the lease may record."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.series = SeriesStore(database, HOSTS)
        self._seq: int | None = None
        self._lease = Lease(database, LEASE)
        self._has_ended_boots = True  # until none is found: their writer may have been killed

    def lease(self, me: Identity, seconds: float = LEASE_SECONDS) -> bool:
        """Take or renew the lease; return whether this process holds it. The lease of a dead process is free."""
        return self._lease.take(me, seconds)

    def release(self, me: Identity) -> None:
        """Give the lease up, so that another process can take it."""
        self._lease.release(me)

    @property
    def held_until(self) -> float:
        """When the lease of this process expires, in seconds since the boot."""
        return self._lease.held_until

    @held_until.setter
    def held_until(self, until: float) -> None:
        self._lease.held_until = until

    def append(self, readings: Sequence[tuple[float, dict[str, Number | None]]]) -> bool:
        """Append readings, each with its seconds since the boot; False, and no change, if the lease expired."""
        if not self.holds_lease() or not readings:
            return False
        owner = self._this_boot()
        self.series.append(
            [(owner, Sample(at, tuple(values.get(key) for key in HOSTS.keys))) for at, values in readings]
        )
        return True

    def keep_detail(self, elapsed: float, detail: dict[str, Any]) -> bool:
        """Store values that have no columns, one row for every ten seconds; False if the lease expired."""
        if not self.holds_lease():
            return False
        owner, begin = self._this_boot(), elapsed // DETAIL_SECONDS * DETAIL_SECONDS
        with self.database.writing() as connection:
            connection.execute("DELETE FROM host_details WHERE host_seq = ? AND elapsed >= ?", (owner, begin))
            sql = "INSERT INTO host_details SELECT seq, ?, ? FROM hosts WHERE seq = ?"
            connection.execute(sql, (elapsed, pack(detail), owner))
        return True

    def latest_detail(self) -> Detail | None:
        """The newest detail, which may be old; None if there is none."""
        with self.database.reading() as connection:
            return _detail(connection, "", ())

    def detail_at(self, job: Job, elapsed: float) -> Detail | None:
        """The newest detail at or before a time in seconds since the start of a job; None if there is none."""
        if job.shim is None or job.start_boottime is None:
            return None
        with self.database.reading() as connection:
            found = _detail(
                connection, "WHERE boot = ? AND elapsed <= ?", (job.shim.boot, elapsed + job.start_boottime)
            )
        return None if found is None else replace(found, elapsed=found.elapsed - job.start_boottime)

    def around(
        self,
        job: Job,
        keys: Sequence[str],
        start: float | None = None,
        end: float | None = None,
        max_points: int | None = None,
    ) -> Series:
        """The samples of the host in seconds since the start of a job; by default while the job ran."""
        return series_around(self.series, self._boot_of(job), job, keys, start, end, max_points)

    def step(self) -> bool:
        """Do one unit of housekeeping, first on the samples of earlier boots; return whether there is more to do."""
        if self._has_ended_boots:
            self._has_ended_boots = self.series.seal_ended(1) > 0
            return True
        return self.series.step()

    def holds_lease(self) -> bool:
        """Whether this process holds the lease, and it has not expired."""
        return self._lease.is_held()

    def _this_boot(self) -> int:
        if self._seq is None:
            self._seq = this_boot(self.database)
        return self._seq

    def _boot_of(self, job: Job) -> int | None:
        with self.database.reading() as connection:
            if job.shim is None or not has_tables_of(connection, HOSTS.since_version):
                return None
            row = connection.execute("SELECT seq FROM hosts WHERE boot = ?", (job.shim.boot,)).fetchone()
        return None if row is None else int(row[0])


def series_around(
    store: SeriesStore,
    owner: int | None,
    job: Job,
    keys: Sequence[str],
    start: float | None = None,
    end: float | None = None,
    max_points: int | None = None,
) -> Series:
    """The series of a boot or a device in seconds since the start of a job; by default while the job ran."""
    begin = job.start_boottime
    if begin is None or owner is None:
        return Joined(store.layout, keys).series(None, None, None)
    end = job.duration_seconds if end is None else end
    found = store.series(owner, keys, begin + (start or 0.0), None if end is None else begin + end, max_points)
    return replace(found, times=[round(elapsed - begin, 6) for elapsed in found.times])


def this_boot(database: Database) -> int:
    """The number of this machine's current boot; its row is created if there is none."""
    return boot_number(database, boot_id(), time.time() - now_since_boot())


def boot_number(database: Database, boot: str, boot_time: float) -> int:
    """The number of a boot of this store's host; its row is created if there is none."""
    with database.writing() as connection:
        connection.execute(
            "INSERT INTO hosts (boot, boot_time, name) VALUES (?, ?, ?)"
            " ON CONFLICT (boot) DO UPDATE SET name = coalesce(name, excluded.name)",
            (boot, boot_time, database.path.stem),
        )
        return int(connection.execute("SELECT seq FROM hosts WHERE boot = ?", (boot,)).fetchone()[0])


@record
class HostNow:
    """The newest sample of this host, counters as rates, and the CPU percentages of the last samples."""

    age_seconds: float
    values: dict[str, Number | None]
    detail: dict[str, Any]
    cpu: tuple[Number | None, ...]


class HostTail:
    """Follows the samples of this host, as long as the process that holds the lease runs and records often enough."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._boot = boot_id()
        self._holder: Identity | None = None
        self._held_until = -float("inf")
        self._readings: deque[Sample] = deque(maxlen=KEPT_READINGS)
        self._last_id = 0
        self._detail: Detail | None = None

    def poll(self) -> None:
        """Read new samples."""
        with self.database.reading() as connection:
            if not has_tables_of(connection, HOSTS.since_version):
                return
            sql = "SELECT boot, pid, start, until FROM leases WHERE name = ? AND boot = ?"
            lease = connection.execute(sql, (LEASE, self._boot)).fetchone()
            self._holder = None if lease is None else Identity(lease["boot"], lease["pid"], lease["start"])
            if lease is None:
                self._readings.clear()
                return
            self._held_until = lease["until"]
            host = connection.execute("SELECT seq FROM hosts WHERE boot = ?", (self._boot,)).fetchone()
            if host is None:
                return
            # From 0, not from the last block: rows that were sealed and not deleted yet are good too.
            rows = samples_after(connection, HOSTS, host[0], 0, HOSTS.keys, self._last_id, newest=KEPT_READINGS)
            if rows:
                self._readings.extend(sample for _, sample in rows)
                self._last_id = rows[-1][0]
                self._detail = _detail(connection, "WHERE boot = ?", (self._boot,))

    def now(self) -> HostNow | None:
        """The current values of this host; None if no process records them, or not often enough."""
        if self._holder is None or self._detail is None or len(self._readings) < 2:
            return None
        before, after = self._readings[-2], self._readings[-1]
        now = now_since_boot()
        is_fresh = now - after.elapsed < FRESH_SECONDS and after.elapsed - before.elapsed < FRESH_SECONDS
        if not is_fresh or now >= self._held_until or not is_alive(self._holder):
            return None
        position = HOSTS.keys.index("cpu.percent")
        return HostNow(
            now - after.elapsed,
            derive(before, after, Scope.HOST).values,
            self._detail.values,
            tuple(reading.values[position] for reading in self._readings),
        )


def not_measured_since(database: Database, host: str, is_here: bool, now: float) -> float | None:
    """When a host was last measured, if no process measures it any more; None if one does, or none ever did.

    Whether the process that records it lives is known on the host itself (`is_here`). Of another host it counts that
    no sample came for a minute.
    """
    with database.reading() as connection:
        newest = _detail(connection, "WHERE hosts.name = CAST(? AS TEXT)", (host,))
        sql = "SELECT boot, pid, start, until FROM leases WHERE name = ? AND boot = ? AND until > ?"
        lease = connection.execute(sql, (LEASE, boot_id(), now_since_boot())).fetchone() if is_here else None
    if lease is not None and is_alive(Identity(lease["boot"], lease["pid"], lease["start"])):
        return None
    return None if newest is None or (not is_here and now - newest.at < SILENT_SECONDS) else newest.at


def _detail(connection: sqlite3.Connection, where: str, values: tuple[object, ...]) -> Detail | None:
    """The newest detail that meets a condition."""
    if not has_tables_of(connection, HOSTS.since_version):
        return None
    row = connection.execute(
        "SELECT boot_time, elapsed, detail FROM host_details JOIN hosts ON seq = host_seq"
        f" {where} ORDER BY host_seq DESC, elapsed DESC LIMIT 1",
        values,
    ).fetchone()
    values_of_row = None if row is None else unpacked_detail(row["detail"])
    if values_of_row is None or not is_number(row["boot_time"]) or not is_number(row["elapsed"]):
        return None
    return Detail(row["boot_time"] + row["elapsed"], row["elapsed"], values_of_row)


def unpacked_detail(data: bytes) -> dict[str, Any] | None:
    """Unpack the values of a detail; None if they are damaged."""
    unpacked = unpack(data)
    return unpacked if type(unpacked) is dict else None
