"""The engines of the demo: the same interface as real ones, with values that depend on the time alone."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from jobtop.core.clock import iso
from jobtop.core.errors import EngineError
from jobtop.core.measure.collectors.docker.client import STDERR, STDOUT
from jobtop.core.measure.collectors.docker.log_lines import LogLine
from jobtop.core.measure.collectors.docker.model import (
    JOB_LABEL,
    Container,
    ContainerEvent,
    Endpoint,
    EngineInfo,
)
from jobtop.core.measure.collectors.docker.snapshot import (
    CGROUP,
    ContainerRow,
    Containers,
    EngineState,
    GpuUse,
)
from jobtop.core.measure.snapshot import ProcessRow
from jobtop.tui.data.containers.source import Act, FollowedLog, Monitor, ProcessReader
from jobtop.tui.demo.container_data import CONTAINERS, DOCKER, PODMAN, DemoContainer

PAST_SECONDS = 300
LINE_SECONDS = 0.5  # between two looks for new lines
REFUSAL = "this is a demo: its containers cannot be changed"
PROJECT, SERVICE = "com.docker.compose.project", "com.docker.compose.service"
ENGINES = (
    EngineState(DOCKER, "unix:///var/run/docker.sock", EngineInfo("Docker", "27.3.1", "1.47"), origin="socket"),
    EngineState(PODMAN, "unix:///run/podman/podman.sock", EngineInfo("Podman", "5.2.3", "1.41"), origin="socket"),
)


class DemoContainers:
    """A simulated source of containers; `jobs` are ids of demo jobs by name."""

    def __init__(self, jobs: Mapping[str, str]) -> None:
        self._jobs, self._started = dict(jobs), time.time()

    def monitor(self, every: bool, interval_seconds: float) -> Monitor:
        return DemoMonitor(self, every)

    def past(self) -> Iterable[Containers]:
        now = int(time.time())
        return [self.at(float(moment), False) for moment in range(now - PAST_SECONDS, now)]

    def tried_places(self) -> Sequence[str]:
        return [engine.url for engine in ENGINES]

    def at(self, moment: float, every: bool) -> Containers:
        """All containers at a moment."""
        listed = [each for each in CONTAINERS if every or each.exit_code is None]
        rows = (self._row(each, moment) for each in sorted(listed, key=lambda each: (each.engine, each.name)))
        return Containers(ENGINES, tuple(rows), moment)

    def inspect(self, endpoint: Endpoint, container: Container) -> dict[str, Any]:
        return answer_of(container, demo_of(container))

    def follow_log(self, endpoint: Endpoint, container: Container, tail: int) -> FollowedLog:
        return DemoLog(container, tail)

    def processes(self, endpoint: Endpoint, container: Container, secret: Sequence[str]) -> ProcessReader:
        return DemoProcesses(container)

    def act(self, endpoint: Endpoint, container: Container, act: Act) -> None:
        raise EngineError(REFUSAL)

    def _row(self, each: DemoContainer, at: float) -> ContainerRow:
        container = self._container(each)
        happened = tuple(
            ContainerEvent(self._started - ago, action, detail, container.id, dict(each.attributes))
            for ago, action, detail in each.events
        )
        if each.state not in ("running", "paused"):
            return ContainerRow(container, why_absent="it does not run", events=happened)
        share = each.cpu_curve.at(at)
        values: dict[str, int | float] = {
            "cpu.percent": round(each.cpu_percent * share, 2),
            "mem.used": int(each.memory * each.memory_curve.at(at - self._started + PAST_SECONDS)),
            "proc.threads": each.threads,
            "proc.count": len(each.processes),
        }
        rates = {
            "net.rx_bytes": each.received * share,
            "net.tx_bytes": each.sent * share,
            "io.read_bytes": each.read * (1 - share),
            "io.write_bytes": each.written * (1 - share),
        }
        gpus: tuple[GpuUse, ...] = ()
        if each.gpu_percent is not None:
            gpus = (GpuUse("GPU 0", each.gpu_percent * share, int(each.gpu_memory or 0)),)
            values |= {"gpu.util": each.gpu_percent * share, "gpu.mem_used": int(each.gpu_memory or 0)}
        return ContainerRow(
            *(container, values, rates),
            memory_peak_bytes=int(each.memory * 1.04),
            gpus=gpus,
            source=CGROUP,
            read_at=at,
            events=happened,
        )

    def _container(self, each: DemoContainer) -> Container:
        labels = {JOB_LABEL: self._jobs[each.job]} if each.job in self._jobs else {}
        if each.project is not None and each.service is not None:
            labels = {PROJECT: each.project, SERVICE: each.service}
        is_over = each.exit_code is not None
        return Container(
            *(each.engine, id_of(each.name), each.name, each.state, each.image),
            command=tuple(each.command.split()),
            health=each.health,
            created_at=self._started - each.age - 40.0,
            started_at=self._started - each.age - 39.0,
            finished_at=self._started - each.age if is_over else None,
            exit_code=each.exit_code,
            is_oom_killed=each.is_oom_killed,
            restarts=each.restarts,
            pid=int(id_of(each.name)[:4], 16) if each.state in ("running", "paused") else None,
            labels=labels,
            limits=each.limits,
        )


class DemoMonitor:
    """The snapshots of the demo: a new one each second."""

    def __init__(self, source: DemoContainers, every: bool) -> None:
        self._source, self._every = source, every
        self._newest = source.at(time.time(), every)

    def snapshot(self) -> Containers:
        now = time.time()
        if now - self._newest.at >= 1.0:
            self._newest = self._source.at(now, self._every)
        return self._newest

    def close(self) -> None:
        """Nothing is open."""


class DemoLog:
    """Lines that depend on the time alone."""

    def __init__(self, container: Container, tail: int) -> None:
        self._container, self._each = container, demo_of(container)
        self._tail, self._closed = min(tail, 400), threading.Event()

    def __iter__(self) -> Iterator[LogLine]:
        pace, last = self._each.seconds_per_line, 0
        ends = self._container.finished_at
        while not self._closed.is_set():
            newest = int((time.time() if ends is None else ends) / pace)
            for number in range(max(last, newest - self._tail) + 1, newest + 1):  # after a sleep only the newest
                if number * pace >= (self._container.started_at or 0.0):
                    yield self._line(number, number * pace)
            last = newest
            if ends is not None:
                return
            self._closed.wait(LINE_SECONDS)

    def _line(self, number: int, at: float) -> LogLine:
        template = self._each.lines[number % len(self._each.lines)]
        text = template.format(n=number % 9000, x=120 + number * 37 % 800, y=10 + number * 7 % 89)
        is_error = text.startswith(("ERROR", "Error", "WARN"))
        return LogLine(self._container, STDERR if is_error else STDOUT, at, text.encode())

    def close(self) -> None:
        self._closed.set()


class DemoProcesses:
    """The processes of a container, with their shares of what it uses."""

    def __init__(self, container: Container) -> None:
        self._container, self._each = container, demo_of(container)

    def read(self) -> list[ProcessRow]:
        each, first, now = self._each, self._container.pid or 1, time.time()
        load = each.cpu_percent * each.cpu_curve.at(now)
        age = now - (self._container.started_at or now)
        return [
            ProcessRow(
                first + number,
                first if depth else 1,
                command,
                load * cpu * age / 100,
                load * cpu,
                int(each.memory * memory),
                max(1, each.threads // len(each.processes)),
                max(1.0, age - number),
                "S",
            )
            for number, (depth, command, cpu, memory) in enumerate(each.processes)
        ]


def id_of(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()


def demo_of(container: Container) -> DemoContainer:
    return next(each for each in CONTAINERS if each.name == container.name)


def answer_of(container: Container, each: DemoContainer) -> dict[str, Any]:
    """What `docker inspect` says, as far as it is of interest."""
    limits = each.limits
    return {
        "Id": container.id,
        "Name": f"/{container.name}",
        "Created": iso(container.created_at),
        "Path": container.command[0],
        "Args": list(container.command[1:]),
        "State": {
            "Status": container.state,
            "Pid": container.pid or 0,
            "ExitCode": each.exit_code or 0,
            "OOMKilled": each.is_oom_killed,
            "StartedAt": iso(container.started_at),
            **({"Health": {"Status": each.health, "FailingStreak": 3}} if each.health else {}),
        },
        "Image": f"sha256:{id_of(each.image)}",
        "RestartCount": each.restarts,
        "HostConfig": {
            "Memory": limits.memory_bytes or 0,
            "NanoCpus": round((limits.cpus or 0) * 1e9),
            "PidsLimit": limits.pids,
            "RestartPolicy": {"Name": "unless-stopped", "MaximumRetryCount": 0},
        },
        "Config": {
            "Image": each.image,
            "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin", *each.environment],
            "Labels": dict(container.labels),
        },
        "NetworkSettings": {"Networks": {f"{each.project or 'bridge'}_default": {"IPAddress": "10.0.3.12"}}},
    }
