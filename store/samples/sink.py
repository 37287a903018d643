"""What an engine samples, into the store: opened by the thread that writes, for jobs that may not be in it yet."""

from __future__ import annotations

import os
import time
from functools import partial

from jobtop.core.errors import StoreBusy, StoreReplaced
from jobtop.core.measure.collectors.proc import identify
from jobtop.core.record import replace
from jobtop.store.database import open_to_write
from jobtop.store.files import is_network
from jobtop.store.jobs import Event, Jobs
from jobtop.store.samples.hosts import HostRecord
from jobtop.store.samples.series import SeriesStore
from jobtop.store.samples.snapshots import Snapshots

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from jobtop.core.config import Config
    from jobtop.core.measure.collectors.host import HostSample
    from jobtop.core.measure.sampler import Batch
    from jobtop.core.model import Job, Sample
    from jobtop.core.paths import StatePaths
    from jobtop.store.database import Database
    from jobtop.store.samples.devices import DeviceRecord
    from jobtop.store.samples.named import NamedRecord
    from jobtop.store.upkeep.background_retention import BackgroundRetention

    T = TypeVar("T")

PATIENCE_SECONDS = 1.0
LOCAL_PACE_SECONDS, NETWORK_PACE_SECONDS = 1.0, 10.0
HEARTBEAT_SECONDS = 10.0
BY_JOB = ("samples", "snapshots", "named")  # parts of a batch whose rows begin with the key of a job
RETENTION_SECONDS = 60.0  # a short job has no time for what is old
ENDED_SEALED = 4  # jobs whose writer was killed, looked after by the next


class StoreSink:
    """Keeps what an engine samples of jobs, the machine and devices; raises StoreBusy while nothing of it is kept yet.

    `are_recorded`: jobs are in the store before they are sampled, so one that is not was deleted. With `config` it also
    deletes what is old. `known` is the record of a job as its recorder has it, for a store that was replaced.
    """

    def __init__(
        self,
        paths: StatePaths,
        network: bool | None,
        are_recorded: bool = False,
        config: Config | None = None,
        known: Callable[[str], Job | None] | None = None,
    ) -> None:
        self.paths, self.network, self.are_recorded, self.config = paths, network, are_recorded, config
        self.known = known
        self.lost: dict[str, float] = {}
        shared = is_network(paths.store) if network is None else network
        self.pace_seconds = NETWORK_PACE_SECONDS if shared else LOCAL_PACE_SECONDS
        self._database: Database | None = None
        self._seqs: dict[str, int] = {}
        self._kept_until: dict[str, float] = {}
        self._is_replaced = False
        self._beat_at = -float("inf")
        self._looked_after = False
        self._records_host = False
        self._shift: BackgroundRetention | None = None
        self._retains_at = time.monotonic() + RETENTION_SECONDS

    def keep(self, batches: list[Batch]) -> None:
        """All of it or nothing, in one transaction."""
        self._written(partial(self._keep_batches, batches))
        self._kept_until.update((key, sample.elapsed) for batch in batches for key, sample in batch.samples)

    def _written(self, write: Callable[[Database], T]) -> T:
        """What a write answers; where the store was deleted or replaced, its jobs are put into the new one first.

        StoreReplaced if that happens again meanwhile: the numbers of jobs are those of a store that is gone.
        """
        try:
            return self._write_once(write)
        except StoreReplaced:
            return self._write_once(write)

    def _write_once(self, write: Callable[[Database], T]) -> T:
        database = self._open()
        try:
            if self._is_replaced:
                self._put_again(database)
            return write(database)
        except StoreReplaced:
            self._is_replaced = True
            raise

    def _put_again(self, database: Database) -> None:
        """Keep our jobs in the store that is there now, and note until when their samples are not in it."""
        self._begin(database)
        self._records_host, self._looked_after, self._shift = False, False, None
        seqs: dict[str, int] = {}
        for key in self._seqs:
            job = self.known(key) if self.known is not None else None
            row = Jobs(database).reinsert(job) if job is not None else None
            if row is None or row.seq is None:
                continue
            seqs[key] = row.seq
            newest, until = self.series.newest(row.seq, 1), self._kept_until.get(key, 0.0)
            if (newest[-1].elapsed if newest else 0.0) < until:
                self.lost[key] = until
        self._seqs, self._is_replaced = seqs, False

    def _keep_batches(self, batches: list[Batch], database: Database) -> None:
        if self.are_recorded:
            batches = [self._of_those_there(batch) for batch in batches]
        for key in {key for batch in batches for key, _ in batch.samples} - self._seqs.keys():
            self._seq(key)
        seqs = self._seqs
        rows = [(seqs[key], sample) for batch in batches for key, sample in batch.samples]
        for batch in batches:
            for owner, *_ in (*batch.snapshots, *batch.named, *batch.events):
                if isinstance(owner, str):
                    self._seq(owner)
        try:
            with database.writing():
                self._keep(database, rows, batches)
        except BaseException:
            held_until = self.host.held_until
            self._begin(database)  # what they remember was not kept
            self.host.held_until = held_until
            raise

    def _of_those_there(self, batch: Batch) -> Batch:
        keys = {row[0] for name in BY_JOB for row in getattr(batch, name)} | {row[0] for row in batch.events}
        if keys <= self._seqs.keys():
            return batch
        kept = {name: [row for row in getattr(batch, name) if self._is_there(row[0])] for name in BY_JOB}
        events = [row for row in batch.events if not isinstance(row[0], str) or self._is_there(row[0])]
        return replace(batch, **kept, events=events)

    def _keep(self, database: Database, rows: list[tuple[int, Sample]], batches: list[Batch]) -> None:
        if rows:
            self.series.append(rows)
            self._beat(database, rows)
        for batch in batches:
            for key, elapsed, members in batch.snapshots:
                self.snapshots.keep(self._seq(key), elapsed, members)
            if batch.named:
                self._named(database).append(
                    [(self._seq(key), name, elapsed, value) for key, name, elapsed, value in batch.named]
                )
            if batch.host is not None and self._records_host:
                self._keep_host(*batch.host)
            if batch.devices and self._records_host and self.host.holds_lease():
                self._devices(database).append(batch.devices)
            if batch.events:
                self._keep_events(database, batch)

    def _keep_events(self, database: Database, batch: Batch) -> None:
        """Keep what happened to jobs, and to the machine and its devices if this process records them."""
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

    def _keep_host(self, elapsed: float, before: HostSample, after: HostSample) -> None:
        from jobtop.core.measure.collectors.host import host_detail, host_frame

        frame = host_frame(before, after)
        self.host.append([(elapsed, after.values | {"cpu.percent": frame.cpu.percent})])
        self.host.keep_detail(elapsed, host_detail(frame, after.uptime_seconds))

    def may_record_host(self) -> bool:
        """Whether nobody else on this machine records it: one is enough."""
        self._records_host = self._written(lambda _: self.host.lease(identify(os.getpid())))
        return self._records_host

    def step(self) -> bool:
        return self._written(self._step)

    def _step(self, _: Database) -> bool:
        if not self._looked_after:
            self._looked_after = True
            self.series.seal_ended(ENDED_SEALED)
        is_behind = (
            self.series.step()
            or (self._records_host and self.host.step())
            or (self._records_host and self.devices is not None and self.devices.step())
            or (self.named is not None and self.named.step())
        )
        if not is_behind and self.config is not None and time.monotonic() >= self._retains_at:
            self._retain(self.config)
        return is_behind

    def _retain(self, config: Config) -> None:
        """Let go of a little that is old, if it is our turn."""
        if self._shift is None:
            from jobtop.store.upkeep.background_retention import BackgroundRetention

            self._shift = BackgroundRetention(self._open(), self.paths, config)
        self._retains_at = time.monotonic() + self._shift.work()

    def finish(self, key: str) -> None:
        self._written(partial(self._finish, key))
        for known in (self._kept_until, self.lost):
            known.pop(key, None)

    def _finish(self, key: str, database: Database) -> None:
        if not self.are_recorded or self._is_there(key):
            seq = self._seq(key)
            self.series.seal(seq)
            with database.reading() as connection:
                has_named = connection.execute("SELECT 1 FROM named WHERE job_seq = ? LIMIT 1", (seq,)).fetchone()
            if has_named is not None:
                self._named(database).seal(seq)

    def close(self) -> None:
        if self._database is None:
            return
        if self._database.is_in_place():  # a store that was deleted is not made again for a good-bye
            if self._shift is not None:
                self._shift.end()
            if self._records_host:
                self.host.release(identify(os.getpid()))
        self._database.close()

    def _open(self) -> Database:
        if self._database is None:
            self._database = open_to_write(self.paths, self.network, PATIENCE_SECONDS)
            self._begin(self._database)
        return self._database

    def _begin(self, database: Database) -> None:
        self.series, self.snapshots, self.host = SeriesStore(database), Snapshots(database), HostRecord(database)
        self.devices: DeviceRecord | None = None
        self.named: NamedRecord | None = None

    def _devices(self, database: Database) -> DeviceRecord:
        """The record of devices, imported when there is one: few short jobs have any."""
        if self.devices is None:
            from jobtop.store.samples.devices import DeviceRecord

            self.devices = DeviceRecord(database)
        return self.devices

    def _named(self, database: Database) -> NamedRecord:
        if self.named is None:
            from jobtop.store.samples.named import NamedRecord

            self.named = NamedRecord(database)
        return self.named

    def _seq(self, key: str) -> int:
        """The number of a job; StoreBusy while its record waits for the store too."""
        if not self._is_there(key):
            raise StoreBusy(f"job {key[:8]} is not in {self.paths.store} yet")
        return self._seqs[key]

    def _is_there(self, key: str) -> bool:
        if key not in self._seqs:
            with self._open().reading() as connection:
                row = connection.execute("SELECT seq FROM jobs WHERE id = ?", (key,)).fetchone()
            if row is not None:
                self._seqs[key] = row[0]
        return key in self._seqs

    def _beat(self, database: Database, rows: list[tuple[int, Sample]]) -> None:
        """Say that somebody watches these jobs."""
        now = time.monotonic()
        if now - self._beat_at >= HEARTBEAT_SECONDS:
            self._beat_at = now
            with database.writing() as connection:
                connection.executemany(
                    "UPDATE jobs SET heartbeat = ? WHERE seq = ?",
                    [(time.time(), seq) for seq in {seq for seq, _ in rows}],
                )
