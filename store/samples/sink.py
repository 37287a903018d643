"""Write the samples of an engine to the store, from the engine's writer thread; a job may not be in the store yet."""

from __future__ import annotations

import json
import os
import time
from functools import partial

from jobtop.core.errors import StoreBusy, StoreReplaced
from jobtop.core.measure.collectors.proc import identify
from jobtop.core.measure.live.newest_gpus import NewestGpus
from jobtop.core.procfs import boot_id
from jobtop.core.record import replace
from jobtop.store.database import open_to_write
from jobtop.store.files import is_network
from jobtop.store.jobs import Event, Jobs
from jobtop.store.samples.hosts import HostRecord
from jobtop.store.samples.series import SeriesStore
from jobtop.store.samples.snapshots import Snapshots

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from typing import TypeVar

    from jobtop.core.config import Config
    from jobtop.core.measure.collectors.host.reading import HostSample
    from jobtop.core.measure.sampler import Batch
    from jobtop.core.model import Job, Sample
    from jobtop.core.paths import StatePaths
    from jobtop.store.alerts.alert_rows import StoredAlert
    from jobtop.store.database import Database
    from jobtop.store.samples.devices import DeviceRecord
    from jobtop.store.samples.named import NamedRecord
    from jobtop.store.upkeep.background_retention import BackgroundRetention

    T = TypeVar("T")

PATIENCE_SECONDS = 1.0
LOCAL_PACE_SECONDS, NETWORK_PACE_SECONDS = 1.0, 10.0
HEARTBEAT_SECONDS = 10.0
BY_JOB = ("samples", "snapshots", "named")  # parts of a batch with rows that begin with the key of a job
RETENTION_SECONDS = 60.0  # an engine prunes old jobs only when it has run for this long
ENDED_SEALED = 4  # jobs of a killed writer to seal at the start


class StoreSink:
    """Writes samples and events of jobs, of the host and of devices; raises StoreBusy if nothing was written.

    With `are_recorded`, jobs are in the store before they are sampled: a job that is not was deleted. With `config`,
    the sink also prunes old jobs. `record_of` gives the current record of a job, for a store that was replaced.
    `tell_of` gets the alerts with a new state, in the transaction that stores them.
    """

    def __init__(
        self,
        paths: StatePaths,
        network: bool | None,
        are_recorded: bool = False,
        config: Config | None = None,
        record_of: Callable[[str], Job | None] | None = None,
        tell_of: Callable[[Database, list[StoredAlert]], None] | None = None,
    ) -> None:
        self.paths, self.network, self.are_recorded, self.config = paths, network, are_recorded, config
        self.record_of, self.tell_of = record_of, tell_of
        self.lost: dict[str, float] = {}
        self.watched: Collection[str] = ()
        shared = is_network(paths.store) if network is None else network
        self.pace_seconds = NETWORK_PACE_SECONDS if shared else LOCAL_PACE_SECONDS
        self._database: Database | None = None
        self._seqs: dict[str, int] = {}
        self._kept_until: dict[str, float] = {}
        self._is_replaced = False
        self._heartbeat_at = -float("inf")
        self._has_sealed_ended = False
        self._records_host = False
        self._gpus = NewestGpus()
        self._retention: BackgroundRetention | None = None
        self._retention_due = time.monotonic() + RETENTION_SECONDS

    def keep(self, batches: list[Batch]) -> None:
        """Write all batches in one transaction, or nothing."""
        self.write(partial(self._keep_batches, batches))
        self._kept_until.update((key, sample.elapsed) for batch in batches for key, sample in batch.samples)

    def write(self, write: Callable[[Database], T]) -> T:
        """Write, and return what `write` returns; if the store was replaced, add the jobs to the new one and retry.

        Raises StoreReplaced if the store is replaced once more: the numbers of jobs are of a store that is gone.
        """
        try:
            return self._write_once(write)
        except StoreReplaced:
            return self._write_once(write)

    def _write_once(self, write: Callable[[Database], T]) -> T:
        database = self._open()
        try:
            if self._is_replaced:
                self._add_jobs_again(database)
            return write(database)
        except StoreReplaced:
            self._is_replaced = True
            raise

    def _add_jobs_again(self, database: Database) -> None:
        """Add the sampled jobs to the store that replaced another, and note in `lost` which samples it lacks."""
        self._reset(database)
        self._records_host, self._has_sealed_ended, self._retention = False, False, None
        seqs: dict[str, int] = {}
        for key in self._seqs:
            job = self.record_of(key) if self.record_of is not None else None
            row = Jobs(database).reinsert(job) if job is not None else None
            if row is None or row.seq is None:
                continue
            seqs[key] = row.seq
            newest, until = self.series.newest(row.seq, 1), self._kept_until.get(key, 0.0)
            if (newest[-1].elapsed if newest else 0.0) < until:
                self.lost[key] = until
        self._seqs, self._is_replaced = seqs, False

    def _keep_batches(self, batches: list[Batch], database: Database) -> None:
        unknown = _job_keys(batches).difference(self._seqs)
        if unknown and self.are_recorded:
            batches = [self._without_deleted_jobs(batch) for batch in batches]
        elif unknown:
            for key in unknown:
                self._seq(key)
        seqs = self._seqs
        rows = [(seqs[key], sample) for batch in batches for key, sample in batch.samples]
        try:
            with database.writing():
                self._keep(database, rows, batches)
        except BaseException:
            held_until = self.host.held_until
            self._reset(database)  # their memory has samples that were not written
            self.host.held_until = held_until
            raise

    def _without_deleted_jobs(self, batch: Batch) -> Batch:
        kept = {name: [row for row in getattr(batch, name) if self._is_stored(row[0])] for name in BY_JOB}
        events = [row for row in batch.events if not isinstance(row[0], str) or self._is_stored(row[0])]
        alerts = [row for row in batch.alerts if not isinstance(row.owner, str) or self._is_stored(row.owner)]
        return replace(batch, **kept, events=events, alerts=alerts)

    def _keep(self, database: Database, rows: list[tuple[int, Sample]], batches: list[Batch]) -> None:
        if rows:
            self.series.append(rows)
            self._write_heartbeats(database)
        for batch in batches:
            for key, elapsed, members in batch.snapshots:
                self.snapshots.keep(self._seq(key), elapsed, members)
            if batch.named:
                self._named(database).append(
                    [(self._seq(key), name, elapsed, value) for key, name, elapsed, value in batch.named]
                )
            self._gpus.see(batch.devices, batch.products)
            if batch.host is not None and self._records_host:
                self._keep_host(*batch.host)
            if batch.devices and self._records_host and self.host.holds_lease():
                self._devices(database).append(batch.devices)
            if batch.events:
                self._keep_events(database, batch)
            if batch.alerts:
                self._keep_alerts(database, batch)

    def _keep_events(self, database: Database, batch: Batch) -> None:
        """Write the events of jobs, and those of the host and of devices if this process records the host."""
        happened = [
            (self._seq(owner), Event(at, kind, detail))
            for owner, at, kind, detail in batch.events
            if isinstance(owner, str)
        ]
        Jobs(database).add_events(happened)
        if len(happened) < len(batch.events) and self._records_host and self.host.holds_lease():
            from jobtop.store.events import MachineEvents

            MachineEvents(database).add(
                (owner, Event(at, kind, detail))
                for owner, at, kind, detail in batch.events
                if not isinstance(owner, str)
            )

    def _keep_alerts(self, database: Database, batch: Batch) -> None:
        """Write the changes of alerts; those of the host and its devices if this process records the host."""
        from jobtop.store.alerts.alert_rows import AlertStore

        has_host = self._records_host and self.host.holds_lease()
        changes = [change for change in batch.alerts if has_host or isinstance(change.owner, str)]
        changed = AlertStore(database).apply(changes, self._seq)
        if changed and self.tell_of is not None:
            self.tell_of(database, changed)

    def open_alerts(self, key: str | None) -> list[StoredAlert]:
        """The alerts that an earlier engine left open: of a job, or without a key of the host and its devices."""
        from jobtop.store.alerts.alert_rows import AlertStore

        alerts = AlertStore(self._open())
        if key is None:
            return alerts.open_of_machine(boot_id())
        return alerts.open_alerts(self._seqs[key]) if self._is_stored(key) else []

    def _keep_host(self, elapsed: float, before: HostSample, after: HostSample) -> None:
        from jobtop.core.measure.collectors.host.reading import host_detail, host_frame

        frame = host_frame(before, after)
        self.host.append([(elapsed, after.values | {"cpu.percent": frame.cpu.percent})])
        self.host.keep_detail(elapsed, host_detail(frame, after.uptime_seconds) | self._gpus.detail(elapsed))

    def may_record_host(self) -> bool:
        """Take or renew the lease of the host: one process records it. Return whether this process may."""
        self._records_host = self.write(lambda _: self.host.lease(identify(os.getpid())))
        return self._records_host

    def step(self) -> bool:
        """Do one unit of housekeeping; return whether there is more to do."""
        return self.write(self._step)

    def _step(self, _: Database) -> bool:
        if not self._has_sealed_ended:
            self._has_sealed_ended = True
            self.series.seal_ended(ENDED_SEALED)
        is_behind = (
            self.series.step()
            or (self._records_host and self.host.step())
            or (self._records_host and self.devices is not None and self.devices.step())
            or (self.named is not None and self.named.step())
        )
        if not is_behind and self.config is not None and time.monotonic() >= self._retention_due:
            self._prune(self.config)
        return is_behind

    def _prune(self, config: Config) -> None:
        """Prune for some milliseconds, unless another process does."""
        if self._retention is None:
            from jobtop.store.upkeep.background_retention import BackgroundRetention

            self._retention = BackgroundRetention(self._open(), self.paths, config)
        self._retention_due = time.monotonic() + self._retention.work()

    def finish(self, key: str) -> None:
        """Seal all samples of a job that has ended."""
        self.write(partial(self._finish, key))
        for by_job in (self._kept_until, self.lost):
            by_job.pop(key, None)

    def _finish(self, key: str, database: Database) -> None:
        if not self.are_recorded or self._is_stored(key):
            seq = self._seq(key)
            self.series.seal(seq)
            with database.reading() as connection:
                has_named = connection.execute("SELECT 1 FROM named WHERE job_seq = ? LIMIT 1", (seq,)).fetchone()
            if has_named is not None:
                self._named(database).seal(seq)

    def close(self) -> None:
        if self._database is None:
            return
        if self._database.is_in_place():  # a store that was deleted is not created again to release a lease
            if self._retention is not None:
                self._retention.end()
            if self._records_host:
                self.host.release(identify(os.getpid()))
        self._database.close()

    def _open(self) -> Database:
        if self._database is None:
            self._database = open_to_write(self.paths, self.network, PATIENCE_SECONDS)
            self._reset(self._database)
        return self._database

    def _reset(self, database: Database) -> None:
        """Forget what the last writes left in memory."""
        self.series, self.snapshots, self.host = SeriesStore(database), Snapshots(database), HostRecord(database)
        self.devices: DeviceRecord | None = None
        self.named: NamedRecord | None = None

    def _devices(self, database: Database) -> DeviceRecord:
        """The record of devices, imported at its first use: it would slow the start of every job."""
        if self.devices is None:
            from jobtop.store.samples.devices import DeviceRecord

            self.devices = DeviceRecord(database)
        return self.devices

    def _named(self, database: Database) -> NamedRecord:
        """The record of named series, imported at its first use."""
        if self.named is None:
            from jobtop.store.samples.named import NamedRecord

            self.named = NamedRecord(database)
        return self.named

    def _seq(self, key: str) -> int:
        """The number of a job; StoreBusy if its recorder has not written it yet."""
        if not self._is_stored(key):
            raise StoreBusy(f"job {key[:8]} is not in {self.paths.store} yet")
        return self._seqs[key]

    def _is_stored(self, key: str) -> bool:
        if key not in self._seqs:
            with self._open().reading() as connection:
                row = connection.execute("SELECT seq FROM jobs WHERE id = ?", (key,)).fetchone()
            if row is not None:
                self._seqs[key] = row[0]
        return key in self._seqs

    def _write_heartbeats(self, database: Database) -> None:
        """Write every ten seconds that the jobs of the engine are being sampled."""
        now = time.monotonic()
        if now - self._heartbeat_at >= HEARTBEAT_SECONDS:
            self._heartbeat_at = now
            seqs = [self._seqs[key] for key in list(self.watched) if key in self._seqs]
            with database.writing() as connection:
                connection.execute(
                    "UPDATE jobs SET heartbeat = ? WHERE seq IN (SELECT value FROM json_each(?))",
                    (time.time(), json.dumps(seqs)),
                )


def _job_keys(batches: list[Batch]) -> set[str]:
    """The keys of all jobs that batches have rows of."""
    keys = {key for batch in batches for key, _ in batch.samples}
    for batch in batches:
        keys.update(key for key, *_ in batch.snapshots)
        keys.update(key for key, *_ in batch.named)
        keys.update(owner for owner, *_ in batch.events if isinstance(owner, str))
        keys.update(change.owner for change in batch.alerts if isinstance(change.owner, str))
    return keys
