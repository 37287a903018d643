"""What the console knows of containers: the newest snapshot, and what each container used since the page was opened."""

from __future__ import annotations

import threading
from array import array
from collections import deque
from collections.abc import Iterator
from math import isnan, nan
from typing import TYPE_CHECKING, NamedTuple

from jobtop.core.measure.collectors.docker.snapshot import Containers

if TYPE_CHECKING:
    from jobtop.core.measure.collectors.docker.snapshot import ContainerRow, EngineState
    from jobtop.tui.data.containers.source import ContainerSource, Monitor

VALUES = ("cpu.percent", "mem.used", "gpu.util")
RATES = ("net.rx_bytes", "net.tx_bytes", "io.read_bytes", "io.write_bytes")
TRACKED = (*VALUES, *RATES)
MOST_MOMENTS, MOST_OF_OPENED = 600, 7200  # of each container; of the one that is shown alone
MINUTE_SECONDS = 60.0
Key = tuple[str, str]  # of a container: the name of its engine, and its id


class Curve(NamedTuple):
    """Moments in seconds since the epoch, and the values of one metric; None where it was not known."""

    times: list[float]
    values: list[float | None]


class Track:
    """What one container used: a moment and the tracked values in each entry."""

    def __init__(self) -> None:
        self._moments: deque[array[float]] = deque(maxlen=MOST_MOMENTS)

    def add(self, at: float, row: ContainerRow) -> None:
        if self._moments and at <= self._moments[-1][0]:
            return
        found = [row.values.get(key) for key in VALUES] + [row.rates.get(key) for key in RATES]
        self._moments.append(array("d", [at, *(nan if value is None else value for value in found)]))

    def keep_longer(self) -> None:
        """Keep what comes from now on for hours."""
        if self._moments.maxlen != MOST_OF_OPENED:
            self._moments = deque(self._moments, maxlen=MOST_OF_OPENED)

    def keep_usual(self) -> None:
        if self._moments.maxlen != MOST_MOMENTS:
            self._moments = deque(self._moments, maxlen=MOST_MOMENTS)

    def curve(self, key: str) -> Curve:
        place = TRACKED.index(key) + 1
        values = [None if isnan(moment[place]) else moment[place] for moment in self._moments]
        return Curve([moment[0] for moment in self._moments], values)

    def last_minute(self, key: str) -> tuple[tuple[float, ...], tuple[float | None, ...]]:
        """The moments and values of the last minute before the newest moment."""
        place = TRACKED.index(key) + 1
        newest: list[array[float]] = []
        for moment in reversed(self._moments):
            if moment[0] < self._moments[-1][0] - MINUTE_SECONDS:
                break
            newest.append(moment)
        newest.reverse()
        values = tuple(None if isnan(moment[place]) else moment[place] for moment in newest)
        return tuple(moment[0] for moment in newest), values


class ContainerFeed:
    """Runs the monitor while a page of containers is visible. Only the thread of the console calls it."""

    def __init__(self, source: ContainerSource, interval_seconds: float = 1.0) -> None:
        self.source, self._interval_seconds = source, interval_seconds
        self.every = False  # whether containers that do not run are listed
        self.now = Containers()
        self._monitor: Monitor | None = None
        self._taken: Containers | None = None
        self._tracks: dict[Key, Track] = {}

    @property
    def is_running(self) -> bool:
        return self._monitor is not None

    def start(self) -> None:
        """Watch containers; what is known stays known until the engines have answered."""
        if self._monitor is not None:
            return
        if not self._tracks:
            for before in self.source.past():
                self._remember(before)
        self._monitor = self.source.monitor(self.every, self._interval_seconds)

    def stop(self) -> None:
        """Stop watching; the threads of the monitor end by themselves."""
        monitor, self._monitor, self._taken = self._monitor, None, None
        if monitor is not None:
            # Its end waits a moment for threads that wait for an engine.
            threading.Thread(target=monitor.close, name="jobtop-containers-end", daemon=True).start()

    def list_every(self, every: bool) -> None:
        """List also containers that do not run, or only those that run."""
        if every != self.every:
            self.every = every
            if self._monitor is not None:
                self.stop()
                self.start()

    def look(self) -> bool:
        """Take the newest snapshot; whether it is another one."""
        found = self._monitor.snapshot() if self._monitor is not None else None
        if found is None or found is self._taken:
            return False
        self._taken = found
        if not is_answered(found) and self.now.rows and not found.rows:
            return False  # the monitor has just been started
        self.now = found
        self._remember(found)
        return True

    def row(self, key: Key) -> ContainerRow | None:
        return next((row for row in self.now.rows if row.key == key), None)

    def engine(self, name: str) -> EngineState | None:
        return next((engine for engine in self.now.engines if engine.name == name), None)

    def track(self, key: Key) -> Track:
        """What a container used since the monitor was started first."""
        return self._tracks.get(key) or Track()

    def _remember(self, found: Containers) -> None:
        for row in found.rows:
            if row.read_at is not None and row.values:
                self._tracks.setdefault(row.key, Track()).add(row.read_at, row)
        if len(self._tracks) > 2 * len(found.rows) + 100:
            known = {row.key for row in found.rows}
            self._tracks = {key: track for key, track in self._tracks.items() if key in known}


def is_answered(found: Containers) -> bool:
    """Whether every engine has answered or failed."""
    return all(engine.is_asked for engine in found.engines) and bool(found.engines)


def answering(found: Containers) -> Iterator[EngineState]:
    """The engines without a problem that have answered."""
    return (engine for engine in found.engines if engine.is_asked and engine.problem is None)
