"""`ResourceProfiler` and `ContainerResourceMonitor`: Keystone's profiler on jobtop's tracked blocks."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from jobtop.core.track.keystone import PARTS, PROFILER, chosen_parts, complete_profile, with_nan

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from jobtop.lifecycle.containers.beside import ContainerWatch
    from jobtop.tracking import Block

__all__ = ["ContainerResourceMonitor", "ResourceProfiler", "get_profiler"]

logger = logging.getLogger(__name__)
SHORTEST_SECONDS = 0.1
OF_HOST = frozenset({"cpu", "memory", "network"})  # metrics that are read of the machine


class ResourceProfiler:
    """Measures this process, the machine, its GPUs and a container between two calls, as Keystone's class does.

    `metrics` chooses parts of the profile: cpu, memory, process_cpu, process_memory, io, gpu, network, container; what
    is not chosen is not read. A process of its own takes the readings, every `sampling_interval` seconds. Any number of
    profilers may run at once. In jobtop's history a profile is a job of the tool `ResourceProfiler`.
    """

    def __init__(self, sampling_interval: float = 0.5, metrics: Iterable[str] | None = None) -> None:
        if not sampling_interval >= SHORTEST_SECONDS:
            raise ValueError(f"sampling_interval is {sampling_interval}: the shortest one is {SHORTEST_SECONDS} s")
        self.sampling_interval = float(sampling_interval)
        self.metrics = None if metrics is None else checked_metrics(metrics)
        self._block: Block | None = None
        self._container: ContainerWatch | None = None
        self._lock = threading.Lock()

    @property
    def is_profiling(self) -> bool:
        return self._block is not None

    def start_profiling(self, container_name: str | None = None) -> None:
        """Begin; with `container_name`, also what this container uses."""
        with self._lock:
            if self._block is not None:
                logger.warning("This profiler runs already: stop_profiling ends it")
                return
            self._start(container_name)

    def stop_profiling(self) -> dict[str, Any]:
        """End, and return the profile; a number that is not known is NaN. Empty if `start_profiling` was not called."""
        with self._lock:
            block, self._block = self._block, None
            container, self._container = self._container, None
        if block is None:
            logger.warning("This profiler does not run: start_profiling starts it")
            return {}
        record = block.close()
        stats = {} if container is None else container.close()
        if container is not None and container.problem is not None:
            logger.warning("The profile has no numbers of the container: %s", container.problem)
        found = complete_profile(block.profile, record, self.sampling_interval, stats)
        return with_nan(chosen_parts(found, self.metrics))  # type: ignore[no-any-return]

    def _start(self, container_name: str | None) -> None:
        from jobtop.tracking import open_block

        if container_name is not None and (self.metrics is None or "container" in self.metrics):
            from jobtop.lifecycle.containers.beside import ContainerWatch

            # Before the block, and ended after it: its process is none of what is profiled.
            self._container = ContainerWatch(str(container_name), self.sampling_interval)
        self._block = open_block(
            "profile", tool=PROFILER, interval=self.sampling_interval, profile=True, without=left_out(self.metrics)
        )


class ContainerResourceMonitor:
    """Profiles with what one container uses: a container of Docker or Podman, by its name or id."""

    def __init__(self, container_name: str, sampling_interval: float = 0.5) -> None:
        self.container_name = container_name
        self.profiler = ResourceProfiler(sampling_interval)

    def start_monitoring(self) -> None:
        """Begin; the container may start later."""
        self.profiler.start_profiling(self.container_name)

    def stop_monitoring(self) -> dict[str, Any]:
        """End, and return the profile; `container_stats` is empty if the container did not run meanwhile."""
        return self.profiler.stop_profiling()

    def get_container_info(self) -> dict[str, Any]:
        """What the engine says about the container now: id, status, image, limits …; empty if it does not know it."""
        from jobtop.lifecycle.containers.beside import read_container_info

        info, problem = read_container_info(str(self.container_name))
        if problem is not None:
            logger.warning("Nothing is known about the container %s: %s", self.container_name, problem)
        return info


def checked_metrics(metrics: Iterable[str]) -> frozenset[str]:
    """Names of parts of a profile; ValueError for any other."""
    if isinstance(metrics, str):
        metrics = [metrics]
    chosen = frozenset(metrics)
    for name in chosen:
        if name not in PARTS:
            raise ValueError(f'metrics: "{name}" is no part of a profile: use {", ".join(PARTS)}')
    return chosen


def left_out(metrics: frozenset[str] | None) -> tuple[str, ...]:
    """The sources that no chosen part needs."""
    if metrics is None:
        return ()
    return (*(() if metrics & OF_HOST else ("host",)), *(() if "gpu" in metrics else ("gpu",)))


_shared: list[ResourceProfiler] = []
_creating = threading.Lock()


def get_profiler() -> ResourceProfiler:
    """The profiler that a whole program shares."""
    with _creating:
        if not _shared:
            _shared.append(ResourceProfiler())
        return _shared[0]
