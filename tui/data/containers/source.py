"""Where the pages of containers get everything from: the engines of this machine, or those of the demo."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from signal import SIGKILL
from typing import TYPE_CHECKING, Any, Protocol

from jobtop.core.measure.collectors.docker.endpoints import endpoints, tried_places
from jobtop.core.measure.collectors.docker.log_lines import LogLine, LogRequest, log_lines

if TYPE_CHECKING:
    from jobtop.core.measure.collectors.docker.client import Engine
    from jobtop.core.measure.collectors.docker.model import Container, Endpoint
    from jobtop.core.measure.collectors.docker.snapshot import Containers
    from jobtop.core.measure.snapshot import ProcessRow

ACT_SECONDS = 10.0  # for an answer, beyond the grace period


class Act(StrEnum):
    """What the console can do to a container."""

    STOP = "stop"
    KILL = "kill"
    RESTART = "restart"
    PAUSE = "pause"
    RESUME = "resume"


class Monitor(Protocol):
    """Watches all containers until it is closed; `snapshot` never waits."""

    def snapshot(self) -> Containers: ...

    def close(self) -> None: ...


class FollowedLog(Protocol):
    """The lines of a container, the newest last; with those that come, until it ends or another thread closes it."""

    def __iter__(self) -> Iterator[LogLine]: ...

    def close(self) -> None: ...


class ProcessReader(Protocol):
    """Reads the processes of a container again and again; EngineError if they cannot be read."""

    def read(self) -> list[ProcessRow]: ...


class ContainerSource(Protocol):
    """Engines and their containers. All methods except `monitor` and `tried_places` may wait: call them in a thread."""

    def monitor(self, every: bool, interval_seconds: float) -> Monitor:
        """A monitor that has been started; with `every` it also lists containers that do not run."""
        ...

    def past(self) -> Iterable[Containers]:
        """What was seen before the monitor was started, the oldest first; engines remember nothing."""
        ...

    def tried_places(self) -> Sequence[str]:
        """Where engines are looked for, in words."""
        ...

    def inspect(self, endpoint: Endpoint, container: Container) -> dict[str, Any]:
        """All that the engine says about a container, with its secrets; EngineError."""
        ...

    def follow_log(self, endpoint: Endpoint, container: Container, tail: int) -> FollowedLog:
        """The last lines of a container, and those that come."""
        ...

    def processes(self, endpoint: Endpoint, container: Container, secret: Sequence[str]) -> ProcessReader:
        """A reader of its processes; values of arguments that match `secret` are hidden."""
        ...

    def act(self, endpoint: Endpoint, container: Container, act: Act) -> None:
        """Do something to a container; EngineError if the engine refuses."""
        ...


class EngineSource:
    """The engines of this machine, found by the environment; each call has a connection of its own."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = dict(environ)

    def monitor(self, every: bool, interval_seconds: float) -> Monitor:
        from jobtop.core.measure.collectors.docker.monitor import ContainerMonitor

        return ContainerMonitor(self._environ, interval_seconds, every, find=lambda: endpoints(self._environ)).start()

    def past(self) -> Iterable[Containers]:
        return ()

    def tried_places(self) -> Sequence[str]:
        return tried_places(self._environ)

    def inspect(self, endpoint: Endpoint, container: Container) -> dict[str, Any]:
        with opened(endpoint) as engine:
            return engine.raw(container.id)

    def follow_log(self, endpoint: Endpoint, container: Container, tail: int) -> FollowedLog:
        return EngineLog(endpoint, container, tail)

    def processes(self, endpoint: Endpoint, container: Container, secret: Sequence[str]) -> ProcessReader:
        from jobtop.core.measure.live.container_processes import ContainerProcesses

        found = ContainerProcesses(container, secret)
        return found if found.is_visible else ListedByEngine(endpoint, container, secret)

    def act(self, endpoint: Endpoint, container: Container, act: Act) -> None:
        from jobtop.lifecycle.containers.grace import grace_of

        with opened(endpoint, ACT_SECONDS) as engine:
            match act:
                case Act.STOP:
                    engine.stop(container.id, grace_of(engine, container.id))
                case Act.RESTART:
                    engine.restart(container.id, grace_of(engine, container.id))
                case Act.KILL:
                    engine.kill(container.id, SIGKILL)
                case Act.PAUSE:
                    engine.pause(container.id)
                case Act.RESUME:
                    engine.unpause(container.id)


class EngineLog:
    """The log of a container, read by one thread and closed by another."""

    def __init__(self, endpoint: Endpoint, container: Container, tail: int) -> None:
        self._engine = opened(endpoint)
        self._container, self._tail = container, tail

    def __iter__(self) -> Iterator[LogLine]:
        wanted = LogRequest(tail=self._tail, follow=True, with_times=True)
        yield from log_lines(self._engine, self._container, wanted)

    def close(self) -> None:
        self._engine.close()


class ListedByEngine:
    """The processes of a container as its engine lists them, since they are not visible here."""

    def __init__(self, endpoint: Endpoint, container: Container, secret: Sequence[str]) -> None:
        self._endpoint, self._container, self._secret = endpoint, container, secret

    def read(self) -> list[ProcessRow]:
        from jobtop.core.measure.live.container_processes import listed_processes

        with opened(self._endpoint) as engine:
            return listed_processes(*engine.top(self._container.id), self._secret)


def opened(endpoint: Endpoint, timeout_seconds: float | None = None) -> Engine:
    from jobtop.core.measure.collectors.docker.client import ANSWER_SECONDS, Engine

    return Engine(endpoint, timeout_seconds or ANSWER_SECONDS)
