"""The container monitor: every container of every engine of this machine, with what it uses. Nothing is stored."""

from __future__ import annotations

import os
import threading
import time

from jobtop.core.measure.collectors.docker.endpoints import endpoints
from jobtop.core.measure.collectors.docker.engine_watch import EngineWatch
from jobtop.core.measure.collectors.docker.gpu_numbers import NO_PROCESS, ContainerGpus
from jobtop.core.measure.collectors.docker.readers import NOT_YET, EngineReaders
from jobtop.core.measure.collectors.docker.snapshot import CGROUP, Containers
from jobtop.core.measure.sources import Options
from jobtop.core.record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jobtop.core.measure.collectors.docker.gpu_numbers import GpuNumbers
    from jobtop.core.measure.collectors.docker.model import Endpoint
    from jobtop.core.measure.collectors.docker.snapshot import ContainerRow

DISCOVERY_SECONDS = 5.0  # between two looks for engines that appeared
SHORTEST_PASS_SECONDS = 0.1  # however many events come
LONGEST_END_SECONDS = 0.3  # that `close` waits for a thread


class ContainerMonitor:
    """Finds engines, follows their events and reads their containers, in threads of its own.

    `snapshot` returns what is known and never waits. Use it as a context manager, or call `start` and `close`.
    With `every`, containers that do not run are listed too.
    """

    def __init__(
        self,
        environ: Mapping[str, str] | None = None,
        interval_seconds: float = 1.0,
        every: bool = False,
        proc: str = "/proc",
        find: Callable[[], list[Endpoint]] | None = None,
    ) -> None:
        named = dict(os.environ if environ is None else environ)
        self._find = find or (lambda: endpoints(named))
        self._interval_seconds, self._every, self._proc = interval_seconds, every, proc
        self._watches: dict[str, EngineWatch] = {}  # by url
        self._readers: dict[str, EngineReaders] = {}
        self._gpus: ContainerGpus | None = None
        self._snapshot = Containers(at=time.time())
        self._passes = 0
        self._stopped, self._news = threading.Event(), threading.Event()
        self._passed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="jobtop-containers", daemon=True)

    def start(self) -> ContainerMonitor:
        self._thread.start()
        return self

    def __enter__(self) -> ContainerMonitor:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def snapshot(self) -> Containers:
        """The newest state; it never waits."""
        return self._snapshot

    def settle(self, timeout_seconds: float) -> bool:
        """Wait until all engines have answered or failed, and running containers have been read twice; False: not yet.

        For verbs that print once.
        """
        with self._passed:
            return self._passed.wait_for(self._is_settled, timeout_seconds)

    def close(self) -> None:
        """End all threads; one whose engine hangs ends by itself as soon as that answers or times out."""
        self._stopped.set()
        self._news.set()
        for watch in list(self._watches.values()):
            watch.stop()
        if self._thread.is_alive():
            self._thread.join(LONGEST_END_SECONDS)

    def _is_settled(self) -> bool:
        now = self._snapshot
        is_read = all(
            row.values.get("cpu.percent") is not None
            or row.why_absent not in (None, NOT_YET)
            or row.container.state != "running"
            for row in now.rows
        )
        return self._passes > 0 and all(engine.is_asked for engine in now.engines) and is_read

    def _run(self) -> None:
        discover_at = 0.0
        try:
            while not self._stopped.is_set():
                began = time.monotonic()
                if began >= discover_at:
                    discover_at = began + DISCOVERY_SECONDS
                    self._discover()
                self._pass()
                self._stopped.wait(SHORTEST_PASS_SECONDS)
                self._news.wait(max(0.0, began + self._interval_seconds - time.monotonic()))
                if self._news.is_set() and not self._stopped.is_set():
                    self._news.clear()
        finally:
            for watch in self._watches.values():
                watch.stop()
            for readers in self._readers.values():
                readers.close()
            if self._gpus is not None:
                self._gpus.close()
            for watch in self._watches.values():
                watch.join(LONGEST_END_SECONDS)

    def _discover(self) -> None:
        for endpoint in self._find():
            if endpoint.url not in self._watches and not self._stopped.is_set():
                watch = EngineWatch(endpoint, self._every, self._news.set)
                self._watches[endpoint.url] = watch
                self._readers[endpoint.url] = EngineReaders(endpoint, self._proc)
                watch.start()

    def _pass(self) -> None:
        """Read all containers, and publish a new snapshot."""
        rows: list[ContainerRow] = []
        for url, watch in self._watches.items():
            containers = sorted(watch.containers.values(), key=lambda container: (container.name, container.id))
            found = self._readers[url].rows(containers, watch.events)
            # Without an answer of the engine only a cgroup shows that a container still runs.
            rows += [row for row in found if row.source == CGROUP or watch.state.problem is None]
        states = tuple(watch.state for watch in self._watches.values())
        self._snapshot = Containers(states, tuple(self._with_gpus(rows)), time.time())
        with self._passed:
            self._passes += 1
            self._passed.notify_all()

    def _with_gpus(self, rows: list[ContainerRow]) -> list[ContainerRow]:
        if self._gpus is None:
            if not rows:
                return rows
            self._gpus = ContainerGpus(Options(proc=self._proc))
        if self._gpus.is_empty:
            return rows
        targets = {key: target for readers in self._readers.values() for key, target in readers.targets().items()}
        numbers = self._gpus.read(targets)
        return [with_gpu(row, numbers.get(row.container.id)) if row.source == CGROUP else row for row in rows]


def with_gpu(row: ContainerRow, found: GpuNumbers | None) -> ContainerRow:
    """A row with what the container uses of GPUs, or why that is not known."""
    if found is None:
        return replace(row, absent=row.absent | {"gpu": NO_PROCESS})
    return replace(row, values=row.values | found.values, gpus=found.gpus)
