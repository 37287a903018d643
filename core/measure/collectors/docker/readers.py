"""The readers of all containers of one engine: by their cgroups where these can be read here, else by the engine."""

from __future__ import annotations

import time

from jobtop.core.measure.collectors.docker.cgroup_numbers import CgroupNumbers
from jobtop.core.measure.collectors.docker.cgroup_paths import cgroup_mounts, container_cgroups
from jobtop.core.measure.collectors.docker.model import PAUSED, RUNNING
from jobtop.core.measure.collectors.docker.snapshot import CGROUP, STATS_API, ContainerRow
from jobtop.core.measure.collectors.docker.stats_reader import StatsReader
from jobtop.core.measure.collectors.docker.usage import UsageTrack, limit_values
from jobtop.core.measure.target import Target
from jobtop.core.model import Identity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from jobtop.core.measure.collectors.docker.model import Container, ContainerEvent, Endpoint
    from jobtop.core.measure.collectors.docker.usage import Usage

MOST_KEPT_OPEN = 40  # containers; the files of more are opened for each reading
MISSED_READINGS = 3  # until the cgroups of a container are looked for again
NOT_RUNNING = "it does not run"
NOT_YET = "the engine was not asked yet"


class ContainerReader:
    """One start of one container: its cgroups, or None if the engine is asked, and what was read."""

    def __init__(self, container: Container, proc: str) -> None:
        self.start = start_of(container)
        directories: tuple[str, ...] = ()
        if container.pid is not None:
            directories = container_cgroups(container.pid, container.id, proc, cgroup_mounts(proc))
        self.numbers = CgroupNumbers(container, directories, proc) if directories else None
        self.target = Target(Identity("", container.pid or 0, None), 0.0, True, directories)  # for sources of GPUs
        self.track = UsageTrack()
        self.read_at: float | None = None
        self.taken: Usage | None = None  # the last answer of the engine that is in the track

    def close(self) -> None:
        if self.numbers is not None:
            self.numbers.close()


class EngineReaders:
    """Reads the containers of one engine; a hanging engine delays nothing, since its answers come from a thread."""

    def __init__(self, endpoint: Endpoint, proc: str = "/proc") -> None:
        self._endpoint, self._proc = endpoint, proc
        self._readers: dict[str, ContainerReader] = {}
        self._stats: StatsReader | None = None

    def rows(
        self, containers: list[Container], events: Callable[[str], tuple[ContainerEvent, ...]]
    ) -> list[ContainerRow]:
        """A row of each container, with new numbers of those that run."""
        running = {container.id: container for container in containers if container.state in (RUNNING, PAUSED)}
        for key in [key for key in self._readers if key not in running]:
            self._readers.pop(key).close()
        asked = []
        for key, container in running.items():
            reader = self._readers.get(key)
            if reader is None or reader.start != start_of(container):
                if reader is not None:
                    reader.close()
                reader = self._readers[key] = ContainerReader(container, self._proc)
            if reader.numbers is None:
                asked.append(key)
        self._ask(asked)
        is_many = len(running) > MOST_KEPT_OPEN
        return [self._row(container, events(container.id), is_many) for container in containers]

    def targets(self) -> dict[str, Target]:
        """The containers whose processes are seen here, by id."""
        return {key: reader.target for key, reader in self._readers.items() if reader.numbers is not None}

    def close(self) -> None:
        for reader in self._readers.values():
            reader.close()
        self._readers = {}
        if self._stats is not None:
            self._stats.close()

    def _ask(self, ids: list[str]) -> None:
        if self._stats is None and ids:
            self._stats = StatsReader(self._endpoint)
        if self._stats is not None:
            self._stats.ids = ids

    def _row(self, container: Container, events: tuple[ContainerEvent, ...], is_many: bool) -> ContainerRow:
        limits = limit_values(container.limits)
        reader = self._readers.get(container.id)
        if reader is None:
            return ContainerRow(container, limits, why_absent=NOT_RUNNING, events=events)
        usage, why = self._read(container, reader, is_many)
        track = reader.track
        if usage is None:
            return ContainerRow(container, limits, history=track.history, why_absent=why, events=events)
        percent = {} if track.cpu_percent is None else {"cpu.percent": track.cpu_percent}
        return ContainerRow(
            container=container,
            values={**usage.values, **percent, **limits},
            rates=track.rates,
            working_set_bytes=usage.working_set_bytes,
            memory_peak_bytes=usage.memory_peak_bytes,
            history=track.history,
            source=STATS_API if reader.numbers is None else CGROUP,
            absent=usage.absent,
            read_at=reader.read_at,
            events=events,
        )

    def _read(self, container: Container, reader: ContainerReader, is_many: bool) -> tuple[Usage | None, str | None]:
        """The newest reading of a container, or why there is none."""
        if reader.numbers is None:
            usage, why = (None, NOT_YET) if self._stats is None else self._stats.newest(container.id)
            if usage is not None and usage is not reader.taken:
                reader.taken, reader.read_at = usage, time.time()
                reader.track.add(usage)
            elif usage is None and why is not None and why != NOT_YET:
                reader.track.miss()
            return (reader.track.last, why) if usage is not None else (None, why)
        usage = reader.numbers.read()
        if is_many:
            reader.numbers.close()
        if usage is None:
            reader.track.miss()
            return None, "its cgroup is gone: it is ending"
        reader.read_at = time.time()
        reader.track.add(usage)
        return reader.track.last, None


def start_of(container: Container) -> tuple[int | None, float | None]:
    """What differs between two starts of a container."""
    return container.pid, container.started_at
