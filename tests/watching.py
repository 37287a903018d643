"""Runs with samples that a test looks at, while they run and afterwards."""

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jobtop.core.errors import StoreError, UnknownJob
from jobtop.core.measure.snapshot import Snapshot
from jobtop.core.metrics import JOB_COLUMNS
from jobtop.core.model import Job, Sample
from jobtop.core.paths import StatePaths
from jobtop.store.database import Database, open_to_read
from jobtop.store.jobs import Jobs
from jobtop.store.samples.curves import Curves
from jobtop.store.samples.series import SeriesStore
from jobtop.store.samples.snapshots import Snapshots
from records import HERE
from support import Jobtop

DEADLINE = 60.0
QUICK = ("--interval", "0.1s")


@dataclass
class Watched:
    """A run in progress, and when it is over what it left."""

    jobtop: Jobtop
    process: subprocess.Popen[bytes]
    errors: Path
    notes: dict[str, Any] = field(default_factory=dict)
    record: Mapping[str, Any] = field(default_factory=dict)

    @property
    def usage(self) -> Mapping[str, Any]:
        usage: Mapping[str, Any] = self.record["resource_usage"]
        return usage

    @property
    def stderr(self) -> str:
        return self.errors.read_text()

    @contextmanager
    def store(self) -> Iterator[Database]:
        database = open_to_read(StatePaths(self.jobtop.state, HERE).store)
        try:
            yield database
        finally:
            database.close()

    @property
    def job(self) -> Job:
        with self.store() as database:
            return Jobs(database).find(self.errors.stem)

    def samples(self) -> list[Sample]:
        """All of them, as people see them."""
        with self.store() as database:
            return Curves(database).follow(self.job, None).samples

    def stored(self) -> list[Sample]:
        """Those that were taken and kept; none as long as there is no store."""
        try:
            with self.store() as database:
                return SeriesStore(database).samples(self.job.seq or -1)
        except (StoreError, UnknownJob):
            return []

    def snapshots(self) -> list[Snapshot]:
        with self.store() as database:
            kept = Snapshots(database)
            found = [kept.at(self.job, moment) for moment in kept.moments(self.job)]
            return [snapshot for snapshot in found if snapshot is not None]

    def events(self) -> list[str]:
        """The kinds of events of the job."""
        with self.store() as database:
            return [event.kind for event in Jobs(database).events(self.job)]

    def rows(self, table: str) -> int:
        with self.store() as database, database.reading() as connection:
            return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


def values(samples: list[Sample], key: str) -> list[float]:
    """What is known of a key."""
    place = JOB_COLUMNS.index(key)
    return [value for one in samples if (value := one.values[place]) is not None]


def cpu_times(samples: list[Sample]) -> list[float]:
    return [
        user + system for user, system in zip(values(samples, "cpu.user"), values(samples, "cpu.system"), strict=True)
    ]


@contextmanager
def begun(jobtop: Jobtop, name: str, *options: str, command: Sequence[str]) -> Iterator[Watched]:
    """A run that nothing keeps from sampling as often as it was asked to; at the end of the block its input ends."""
    record, errors = jobtop.home / f"{name}.json", jobtop.home / f"{name}.err"
    words = ("--set", "monitor.budget=1", "run", "--quiet", "--external-id", name, "--record", str(record))
    with errors.open("wb") as file:
        process = subprocess.Popen(
            [*jobtop.command(*words, *options), "--", *command],
            env=jobtop.env,
            cwd=jobtop.home,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=file,
        )
    watched = Watched(jobtop, process, errors)
    with process:
        yield watched
    if record.exists():
        watched.record = json.loads(record.read_text())
