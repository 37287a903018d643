"""The description of a simulated job: its curves, processes and output, and how its earlier runs ended."""

from __future__ import annotations

from enum import StrEnum

from jobtop.core.model import Limits, Queued
from jobtop.core.record import fresh, record, replace

MIB, GIB = 1 << 20, 1 << 30
HOUR, DAY = 3600.0, 86400.0
NO_LIMITS = Limits()


@record
class LevelCurve:
    """Levels 0 to 9 over some seconds, repeated or once, with straight lines between them."""

    levels: str
    seconds: float
    repeats: bool = True

    def at(self, moment: float) -> float:
        """The value at a moment, from 0.0 to 1.0."""
        last = len(self.levels) - 1
        turns = moment / self.seconds
        place = (turns % 1.0 if self.repeats else min(turns, 1.0)) * last
        left = int(place)
        low, high = int(self.levels[left]), int(self.levels[min(left + 1, last)])
        return (low + (high - low) * (place - left)) / 9


@record
class DemoProcess:
    """A process of a job, or several equal ones: its depth in the tree, and its share of the job's usage."""

    command: str
    depth: int = 0
    cpu: float = 1.0
    memory: float = 1.0
    threads: int = 1
    count: int = 1


@record
class DemoAlert:
    """An alert of a rule that comes with jobtop, so many seconds after the start of the job; it may be over since."""

    after: float
    rule: str
    text: str
    value: float
    lasts: float | None = None  # seconds; None: it still fires
    is_pending: bool = False
    is_acknowledged: bool = False


@record
class DemoJob:
    """A simulated job: the cores and bytes at the maximum of its curves, and its output."""

    name: str
    command: str
    tool: str
    cores: float
    memory: float
    cpu_curve: LevelCurve = LevelCurve("88", 60)
    memory_curve: LevelCurve = LevelCurve("599999", 120, repeats=False)
    noise: float = 0.05
    read_rate: float = 0.0
    write_rate: float = 0.0
    gpu: int | None = None
    gpu_percent: float = 0.0
    gpu_memory: float = 0.0
    limits: Limits = NO_LIMITS
    flags: tuple[str, ...] = ()
    tags: dict[str, str] = fresh(default_factory=dict)
    params: dict[str, object] = fresh(default_factory=dict)
    processes: tuple[DemoProcess, ...] = ()
    output_lines: tuple[str, ...] = ()
    error_lines: tuple[str, ...] = ()
    seconds_per_line: float = 2.0
    alerts: tuple[DemoAlert, ...] = ()
    queue: Queued = Queued()

    @property
    def tree(self) -> tuple[DemoProcess, ...]:
        return self.processes or (DemoProcess(self.command),)


class End(StrEnum):
    """How a run ended, as a letter in `EarlierRuns.ends`."""

    SUCCESS = "s"
    FAILED = "f"
    CRASHED = "k"
    OOM = "o"
    TIMEOUT = "t"
    CANCELLED = "c"
    LOST = "l"
    ERROR = "e"


@record
class EarlierRuns:
    """The earlier runs of a job: how many, how often, how long, and how they ended, newest first."""

    demo_job: DemoJob
    runs: int
    every: float
    seconds: float
    ends: str = "s"
    spread: float = 0.15
    trend: float = 0.0
    newest: float = HOUR
    tried: dict[str, tuple[object, ...]] = fresh(default_factory=dict)  # params that vary from run to run

    def job_at(self, place: int) -> DemoJob:
        """The job as it was `place` runs ago."""
        chosen = {name: values[place % len(values)] for name, values in self.tried.items()}
        command = self.demo_job.command
        for name, value in chosen.items():
            command = command.replace(f"--{name} {self.demo_job.params[name]}", f"--{name} {value}")
        return replace(self.demo_job, command=command, params=self.demo_job.params | chosen)
