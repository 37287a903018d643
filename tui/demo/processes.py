"""The processes of the simulated machine: those of its jobs, and others."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from math import sin

from jobtop.core.measure.collectors.members import TICK_SECONDS
from jobtop.core.measure.live.machine_processes import MachineProcess, ProcessMoment
from jobtop.core.record import record
from jobtop.tui.demo.demo_job import GIB, MIB
from jobtop.tui.demo.load import OTHERS_CORES, UPTIME_SECONDS, Load
from jobtop.tui.demo.record import BOOT

ROOT, USER = (0, "root"), (1000, "ada")
BUSY_PERCENT = 20


@record
class DemoOther:
    """A process that belongs to no job: its share of what such processes use."""

    pid: int
    parent: int
    owner: tuple[int, str]
    command: str
    cpu: float = 0.0
    memory: float | None = 8 * MIB
    threads: int = 1
    seconds: float = UPTIME_SECONDS - 9.0


OTHERS = (
    DemoOther(1, 0, ROOT, "/sbin/init", 0.001, 12 * MIB),
    DemoOther(2, 0, ROOT, "[kthreadd]", memory=None),
    DemoOther(14, 2, ROOT, "[ksoftirqd/0]", 0.004, None),
    DemoOther(88, 2, ROOT, "[kworker/u32:1-events]", 0.01, None),
    DemoOther(412, 1, ROOT, "/usr/lib/systemd/systemd-journald", 0.01, 38 * MIB),
    DemoOther(731, 1, ROOT, "/usr/bin/dockerd -H fd://", 0.05, 96 * MIB, 24),
    DemoOther(744, 1, ROOT, "/usr/bin/containerd", 0.02, 54 * MIB, 18),
    DemoOther(802, 1, ROOT, "sshd: /usr/sbin/sshd -D [listener]"),
    DemoOther(901, 1, (114, "postgres"), "/usr/lib/postgresql/16/bin/postgres -D /srv/pg", 0.01, 180 * MIB),
    DemoOther(933, 901, (114, "postgres"), "postgres: autovacuum worker shop", 0.36, 420 * MIB, 1, 96.0),
    DemoOther(1201, 1, (119, "prometheus"), "/usr/bin/prometheus --storage.tsdb.path=/srv/tsdb", 0.08, 710 * MIB, 21),
    DemoOther(2410, 802, USER, "sshd: ada@pts/0", seconds=5400.0),
    DemoOther(2411, 2410, USER, "-bash", seconds=5400.0),
    DemoOther(2502, 2411, USER, "nvim finetune.py", 0.02, 61 * MIB, 3, 2400.0),
    DemoOther(3107, 1, (1001, "grace"), "jupyter-lab --no-browser", 0.02, 150 * MIB, 4, 70000.0),
    DemoOther(
        3160, 3107, (1001, "grace"), "python -m ipykernel_launcher -f kernel-7.json", 0.4, 2.1 * GIB, 17, 61000.0
    ),
)


class DemoProcessSource:
    """The processes of the demo; `loads` are the runs that are live now."""

    boot = BOOT

    def __init__(self, loads: Callable[[], Sequence[Load]]) -> None:
        self._loads, self._opened_at = loads, time.time()
        self._starts: dict[int, int] = {}  # by pid: the time of a simulated job is not exactly ours

    def open(self, secret: Sequence[str]) -> DemoProcessSource:
        return self

    def read(self) -> ProcessMoment:
        at = UPTIME_SECONDS + time.time() - self._opened_at
        found = [made(other, at) for other in OTHERS]
        for load in self._loads():
            start = self._starts.setdefault(load.pid, round((at - load.elapsed) / TICK_SECONDS))
            found += of_load(load, start, at)
        return ProcessMoment(at, tuple(found))

    def close(self) -> None:
        """Nothing is open."""


def made(other: DemoOther, at: float) -> MachineProcess:
    percent = 100 * OTHERS_CORES * other.cpu * swing(other.pid, at)
    start = round((UPTIME_SECONDS - other.seconds) / TICK_SECONDS)
    memory, is_kernel = other.memory, other.memory is None
    return MachineProcess(
        *(other.pid, start, other.parent, *other.owner, state_of(percent), other.command, other.command, percent),
        memory_bytes=None if memory is None else int(memory),
        threads=other.threads,
        is_kernel=is_kernel,
    )


def of_load(load: Load, start: int, at: float) -> Iterator[MachineProcess]:
    """The processes of a job; the pids are those that its own screen shows."""
    above, count = [load.pid - 1], 0
    for process in load.demo_job.tree:
        del above[process.depth + 1 :]
        pid = load.pid
        for _ in range(process.count):
            pid = load.pid + 3 * count
            count += 1
            percent = 0.0 if load.is_paused else 100 * load.cores * process.cpu * swing(pid, at)
            state = "T" if load.is_paused else state_of(percent)
            yield MachineProcess(
                *(pid, start, above[-1], *USER, state, process.command, process.command, percent),
                memory_bytes=int(load.memory * process.memory),
                threads=process.threads,
                is_kernel=False,
            )
        above.append(pid)


def swing(pid: int, at: float) -> float:
    """A factor around 1 that changes every second."""
    return 1 + 0.1 * sin(pid + int(at))


def state_of(percent: float) -> str:
    return "R" if percent > BUSY_PERCENT else "S"
