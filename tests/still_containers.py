"""Containers for the console that never change by themselves: a test says which, and sees what is done to them."""

import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from jobtop.core.errors import EngineError
from jobtop.core.measure.collectors.docker.client import STDOUT
from jobtop.core.measure.collectors.docker.log_lines import LogLine
from jobtop.core.measure.collectors.docker.model import Container, ContainerLimits, Endpoint, EngineInfo
from jobtop.core.measure.collectors.docker.snapshot import CGROUP, ContainerRow, Containers, EngineState
from jobtop.core.measure.snapshot import ProcessRow
from jobtop.core.record import fields, replace
from jobtop.tui.data.containers.source import Act

AT = 1_790_000_000.0
MIB = 1 << 20
DOCKER = EngineState("docker", "unix:///run/docker.sock", EngineInfo("Docker", "27.3.1", "1.47"), origin="socket")
PODMAN = EngineState("podman", "unix:///run/podman.sock", EngineInfo("Podman", "5.2.3", "1.41"), origin="socket")
PROJECT, SERVICE = "com.docker.compose.project", "com.docker.compose.service"


def still_row(name: str, number: int = 1, project: str | None = None, **values: Any) -> ContainerRow:
    """A container that uses 12.5 % of a core and 64 MiB of 128."""
    labels = {} if project is None else {PROJECT: project, SERVICE: name}
    container = Container(
        *("docker", f"{number:x}".rjust(64, "a"), name, "running", "box:1"),
        command=("sleep", "9"),
        started_at=AT - 60.0,
        created_at=AT - 61.0,
        restarts=0,
        labels=labels,
        limits=ContainerLimits(memory_bytes=128 * MIB),
    )
    rates = {"net.rx_bytes": 1024.0, "net.tx_bytes": 0.0, "io.read_bytes": 0.0, "io.write_bytes": 2048.0}
    numbers: dict[str, int | float] = {"cpu.percent": 12.5, "mem.used": 64 * MIB, "proc.threads": 3}
    row = ContainerRow(container, numbers, rates, source=CGROUP, read_at=AT)
    own = {key: value for key, value in values.items() if key in fields(ContainerRow)}
    return replace(row, container=replace(container, **{k: v for k, v in values.items() if k not in own}), **own)


class StillContainers:
    """A source that shows `now`; `done` has what was done to containers, `monitors` those that are not closed."""

    def __init__(self, *rows: ContainerRow, engines: Sequence[EngineState] = (DOCKER,), at: float = AT) -> None:
        self.now = Containers(tuple(engines), rows, at)
        self.done: list[tuple[Act, str]] = []
        self.refusal: str | None = None
        self.lines: list[bytes] = [b"first line", b"second line"]
        self.answer: dict[str, Any] = {"Id": "abc", "Config": {"Env": ["PASSWORD=hunter2", "COLOR=blue"]}}
        self.monitors: list[StillMonitor] = []
        self.every: list[bool] = []
        self.listed: list[ProcessRow] = [ProcessRow(7, 1, "sleep 9", 0.1, 1.0, MIB, 1, 60.0, "S")]

    def monitor(self, every: bool, interval_seconds: float) -> "StillMonitor":
        self.every.append(every)
        self.monitors.append(StillMonitor(self))
        return self.monitors[-1]

    def past(self) -> Iterable[Containers]:
        return ()

    def tried_places(self) -> Sequence[str]:
        return ("DOCKER_HOST (not set)", "/run/docker.sock")

    def inspect(self, endpoint: Endpoint, container: Container) -> dict[str, Any]:
        self._refuse()
        return self.answer

    def follow_log(self, endpoint: Endpoint, container: Container, tail: int) -> "StillLog":
        return StillLog(self, container)

    def processes(self, endpoint: Endpoint, container: Container, secret: Sequence[str]) -> "StillContainers":
        self._refuse()
        return self

    def read(self) -> list[ProcessRow]:
        return self.listed

    def act(self, endpoint: Endpoint, container: Container, act: Act) -> None:
        self._refuse()
        self.done.append((act, container.name))

    def show(self, *rows: ContainerRow, engines: Sequence[EngineState] | None = None) -> None:
        """Show other containers from now on."""
        self.now = Containers(self.now.engines if engines is None else tuple(engines), rows, self.now.at + 1.0)

    def _refuse(self) -> None:
        if self.refusal is not None:
            raise EngineError(self.refusal)


class StillMonitor:
    def __init__(self, source: StillContainers) -> None:
        self.source = source

    def snapshot(self) -> Containers:
        return self.source.now

    def close(self) -> None:
        self.source.monitors.remove(self)


class StillLog:
    """The lines of the source, and then nothing until it is closed."""

    def __init__(self, source: StillContainers, container: Container) -> None:
        self._source, self._container, self._closed = source, container, threading.Event()

    def __iter__(self) -> Iterator[LogLine]:
        self._source._refuse()
        for line in self._source.lines:
            yield LogLine(self._container, STDOUT, AT, line)
        self._closed.wait(60.0)

    def close(self) -> None:
        self._closed.set()
