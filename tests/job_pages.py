"""Jobs in a store with everything that can be recorded, opened on their screens."""

import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from pathlib import Path

from jobtop.core.measure.snapshot import ProcessRow
from jobtop.core.model import Job, Limits, Sample, Usage
from jobtop.core.paths import StatePaths
from jobtop.store.database import Database, open_to_write
from jobtop.store.jobs import Event, Jobs
from jobtop.store.samples.series import SeriesStore
from jobtop.store.samples.snapshots import Snapshots
from jobtop.tui.screens.job.screen import JobScreen
from records import HERE, made_job, running_job
from sampled import steady
from visiting import Visitor, visit

START = 1_700_000_000.5
Scene = Callable[[Visitor, JobScreen], Awaitable[None]]


def process(pid: int, parent: int, command: str, memory: int = 1 << 20) -> ProcessRow:
    return ProcessRow(pid, parent, command, 1.0, 12.5, memory, 2, 60.0, "R")


class Made:
    """A job in a store, with everything that can be recorded."""

    def __init__(self, root: Path, job: Job, samples: Sequence[Sample] = (), sealed: bool = False) -> None:
        self.paths = StatePaths(root, HERE)
        self.database: Database = open_to_write(self.paths)
        self.jobs, self.series = Jobs(self.database), SeriesStore(self.database)
        begun = Event(START, "started", {"pid": 4711})
        self.job = self.jobs.insert(job, Event(START - 0.25, "submitted", {}), begun)
        self.sample(samples)
        if sealed:
            self.series.seal(self.seq)

    @property
    def seq(self) -> int:
        assert self.job.seq is not None
        return self.job.seq

    @property
    def directory(self) -> Path:
        directory = self.paths.job(self.job.id)
        directory.mkdir(parents=True, exist_ok=True)
        return directory

    def sample(self, samples: Sequence[Sample]) -> None:
        if samples:
            self.series.append([(self.seq, one) for one in samples])

    def happened(self, *events: Event) -> "Made":
        self.jobs.add_events([(self.seq, event) for event in events])
        return self

    def wrote(self, stdout: bytes = b"", stderr: bytes = b"", marks: str = "") -> "Made":
        for name, data in (("stdout.log", stdout), ("stderr.log", stderr), ("marks", marks.encode())):
            with (self.directory / name).open("ab") as file:
                file.write(data)
        return self

    def had(self, elapsed: float, *rows: ProcessRow) -> "Made":
        Snapshots(self.database).keep(self.seq, elapsed, rows)
        return self

    def open(self, scene: Scene, size: tuple[int, int] = (160, 42), moment: float | None = None) -> None:
        """Run a scene on the job's screen."""

        async def perform(visitor: Visitor) -> None:
            screen = JobScreen(self.job.id, moment)
            screen.read_seconds = 0.1
            await visitor.console.push_screen(screen)
            await visitor.until(lambda: screen.job_view is not None or screen.problem is not None)
            await visitor.pilot.pause()
            await scene(visitor, screen)

        with closing(self.database):
            visit(self.paths.root, perform, size)


def recent(**values: object) -> Job:
    """A job that started twenty seconds ago."""
    return running_job(start_time=time.time() - 20.0, **values)


def finished(root: Path, **values: object) -> Made:
    """A job of ten minutes with half a core, one MiB more every second, and everything else."""
    ended = {
        "duration_seconds": 600.0,
        "end_time": START + 600,
        "limits": Limits(cpus=2, memory_bytes=1 << 30),
        "usage": Usage(cpu_total_seconds=300.0, memory_peak_bytes=600 << 20, cpu_percent_mean=50.0, processes_peak=2),
    }
    made = Made(root, made_job(**ended | values), steady(599))
    made.happened(Event(START + 600, "exited", {"status": str(made.job.status), "reason": made.job.reason}))
    lines = b"".join(b"line %03d\n" % number for number in range(600))
    made.wrote(lines, marks="".join(f"{number + 1}.0 {9 * (number + 1)} 0\n" for number in range(600)))
    return made.had(10.0, process(7, 1, "/bin/early")).had(500.0, process(7, 1, "/bin/late"), process(8, 7, "child"))
