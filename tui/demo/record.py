"""The records of simulated jobs: live ones, ended ones, and their events, samples and output."""

from __future__ import annotations

import shlex
import signal
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from random import Random

from jobtop.core.job_id import JobId
from jobtop.core.measure.job_gpus import GPU_KEYS, series_name
from jobtop.core.measure.snapshot import ProcessRow
from jobtop.core.metrics import JOB_COLUMNS
from jobtop.core.model import Identity, Job, Monitor, Sample, Status, StopRequest, Usage
from jobtop.core.record import replace
from jobtop.core.units import format_duration
from jobtop.lifecycle.kinds.process import DIED
from jobtop.store.jobs import Event
from jobtop.tui.demo.data import EARLIER_RUNS
from jobtop.tui.demo.demo_job import DemoJob, EarlierRuns, End
from jobtop.tui.demo.load import CORES, HOST, UPTIME_SECONDS, Load

BOOT = "de300000-0000-4000-8000-000000000000"
FIRST_PID, PIDS_APART = 214_006, 61
USERS = ("ada", "grace", "linus")
SOURCES = {"cpu": "cgroup", "memory_peak": "cgroup", "io": "rusage", "processes": "census"}
FEWEST_SAMPLES, MOST_SAMPLES = 6, 24
SAMPLES_PER_SNAPSHOT = 8


@dataclass(slots=True)
class DemoRun:
    """One run of a simulated job, with all that is recorded of it."""

    job: Job
    load: Load
    events: list[Event]
    samples: list[Sample] = field(default_factory=list)
    snapshots: list[tuple[float, list[ProcessRow]]] = field(default_factory=list)
    output: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    marks: list[tuple[float, int, int]] = field(default_factory=list)
    written: int = 0

    @property
    def number(self) -> int:
        """The job's number in the store."""
        assert self.job.seq is not None
        return self.job.seq

    def age(self, now: float) -> float:
        """Seconds since the start; negative before the start or while the job is queued."""
        return -1.0 if self.job.start_time is None else now - self.job.start_time

    def clear(self) -> None:
        """Drop what has been written to the store."""
        for taken in (self.events, self.samples, self.snapshots, self.output, self.errors, self.marks):
            taken.clear()

    def add_sample(self, sample: Sample, lines: int) -> None:
        """Add the next sample, and the lines of output written since the last."""
        self.samples.append(sample)
        for _ in range(lines):
            self.output.append(line := self.load.line())
            self.written += len(line.encode()) + 1
        if lines:
            self.marks.append((sample.elapsed, self.written, 0))

    def write_errors(self, sample: Sample) -> None:
        """Write the job's last lines to standard error."""
        self.errors += self.load.demo_job.error_lines
        self.marks.append((sample.elapsed + 0.001, self.written, sum(len(line.encode()) + 1 for line in self.errors)))

    def gpu_rows(self) -> Iterator[tuple[int, str, float, float]]:
        """What it uses of its GPU: the number of the job, the name of a series, the moment and the value."""
        gpu = self.load.demo_job.gpu
        for sample in self.samples if gpu is not None else ():
            for key in GPU_KEYS:
                value = sample.values[JOB_COLUMNS.index(key)]
                if value is not None:
                    yield self.number, series_name(key, str(gpu)), sample.elapsed, value

    def take_snapshot(self) -> None:
        """Add a snapshot of the current processes."""
        self.snapshots.append((self.load.elapsed, self.load.processes()))


def new_run(demo_job: DemoJob, number: int, submitted: float, boot_time: float, started: float | None) -> DemoRun:
    """The record of a new job; without a start time it is queued."""
    chance = Random(f"{demo_job.name} {number}")
    job_id = JobId(str(uuid.UUID(int=chance.getrandbits(128), version=4)))
    pid = FIRST_PID + PIDS_APART * number
    job = Job(
        job_id,
        demo_job.name,
        words(demo_job.command),
        HOST,
        USERS[len(demo_job.name) % len(USERS)],
        f"/home/{USERS[len(demo_job.name) % len(USERS)]}/{demo_job.tags.get('project', 'work')}",
        Status.QUEUED if started is None else Status.RUNNING,
        tool=demo_job.tool,
        params=demo_job.params,
        tags=demo_job.tags,
        flags=demo_job.flags,
        pid=None if started is None else pid,
        submitted_at=submitted,
        start_time=started,
        start_boottime=None if started is None else max(0.0, started - boot_time),
        limits=demo_job.limits,
        usage=Usage(cpus_allowed=float(CORES)),
        monitor=Monitor(interval_seconds=1.0),
        shim=None if started is None else Identity(BOOT, pid - 1, 100 * number),
        queue=demo_job.queue if started is None else None,
        settled=True,  # otherwise the next verb would look for its processes
    )
    events = [Event(submitted, "submitted", {})]
    if started is not None:
        events.append(Event(started, "started", {"pid": pid}))
    return DemoRun(job, Load(demo_job, f"{demo_job.name} {number}", pid), events)


@lru_cache
def words(command: str) -> tuple[str, ...]:
    return tuple(shlex.split(command))


def past_runs(now: float) -> list[DemoRun]:
    """All earlier runs, oldest first."""
    runs = [run for earlier in EARLIER_RUNS for run in past_runs_of(earlier, now)]
    return sorted(runs, key=begun)


def begun(run: DemoRun) -> float:
    """When a run started, or was submitted if it has not started."""
    return run.job.start_time or run.job.submitted_at or 0.0


def past_runs_of(earlier: EarlierRuns, now: float) -> Iterator[DemoRun]:
    """The earlier runs of one job, newest first."""
    chance = Random(f"runs of {earlier.demo_job.name}")
    for place in range(earlier.runs):
        end = End(earlier.ends[place % len(earlier.ends)])
        age = 1 - earlier.trend * place / earlier.runs  # earlier runs were shorter
        seconds = earlier.seconds * age * (1 + earlier.spread * (2 * chance.random() - 1))
        seconds *= {End.SUCCESS: 1.0, End.OOM: 1.0}.get(end, 0.2 + 0.6 * chance.random())
        if end is End.ERROR:
            seconds = 0.004
        elif end is End.TIMEOUT:
            seconds = earlier.demo_job.limits.timeout_seconds or seconds
        ended = now - earlier.newest - place * earlier.every * (0.96 + 0.08 * chance.random())
        size = 1.0 if end is End.OOM else age * (0.78 + 0.22 * chance.random())
        number = 1000 + len(earlier.demo_job.command) * 31 + place * 997
        yield past_run(earlier.job_at(place), number, ended, seconds, end, now - UPTIME_SECONDS, size)


def past_run(
    demo_job: DemoJob, number: int, ended: float, seconds: float, end: End, boot_time: float, size: float
) -> DemoRun:
    """One ended run."""
    started = ended - seconds
    run = new_run(demo_job, number, started - 0.12, boot_time, started)
    run.load = Load(demo_job, f"{demo_job.name} {number}", run.load.pid, seconds, size)
    if end is End.ERROR:
        run.job = replace(run.job, pid=None, shim=None)
        del run.events[1:]
    else:
        count = max(FEWEST_SAMPLES, min(MOST_SAMPLES, int(seconds / 40)))
        for place in range(1, count + 1):
            run.add_sample(run.load.advance(seconds / count), 1)
            if place % SAMPLES_PER_SNAPSHOT == 0 or place == count:
                run.take_snapshot()
        if end in (End.FAILED, End.CRASHED):
            run.write_errors(run.samples[-1])
    run.job = finished_job(run.job, run.samples, ended, seconds, end)
    if run.job.stop_request is not None:
        run.events.append(Event(run.job.stop_request.at, "stop_requested", {"by": run.job.stop_request.by}))
    kind = {End.LOST: "lost", End.ERROR: "error"}.get(end, "exited")
    detail = {"reason": run.job.reason} | ({"status": str(run.job.status)} if kind == "exited" else {})
    run.events.append(Event(ended, kind, detail))
    return run


def finished_job(job: Job, samples: list[Sample], ended: float, seconds: float, end: End) -> Job:
    """The finished record: how the job ended, and what it used according to its last sample."""
    job = replace(job, **end_fields(job, ended, end))
    if end is End.ERROR:
        return replace(job, end_time=ended, duration_seconds=round(seconds, 6))
    if end is not End.LOST:
        job = replace(job, end_time=ended, duration_seconds=round(seconds, 6), sources=SOURCES)
    last = dict(zip(JOB_COLUMNS, samples[-1].values, strict=True))
    user, system = last["cpu.user"] or 0.0, last["cpu.system"] or 0.0
    memory = [sample.values[MEMORY] or 0 for sample in samples]
    spreads = {"cpu.percent": spread(cpu_percents(samples)), "mem.used": spread(memory)}
    usage = replace(
        job.usage,
        cpu_user_seconds=user,
        cpu_system_seconds=system,
        cpu_total_seconds=user + system,
        cpu_efficiency=(user + system) / (seconds * (job.limits.cpus or CORES)),
        cpu_percent_mean=100 * (user + system) / seconds,
        cpu_percent_min=spreads["cpu.percent"]["min"],
        cpu_percent_peak=spreads["cpu.percent"]["peak"],
        memory_peak_bytes=max(memory),
        memory_mean_bytes=round(sum(memory) / len(memory)),
        memory_min_bytes=min(memory),
        io_read_bytes=last["io.read_bytes"],
        io_write_bytes=last["io.write_bytes"],
        faults_minor=int(40 * seconds),
        faults_major=0,
        switches_voluntary=int(210 * seconds),
        switches_involuntary=int(14 * seconds),
        processes_seen=last["proc.count"],
        processes_peak=last["proc.count"],
        threads_peak=last["proc.threads"],
        oom_kills=int(end is End.OOM),
        samples=len(samples),
    )
    return replace(job, usage=usage, metrics=spreads)


MEMORY = JOB_COLUMNS.index("mem.used")
USER, SYSTEM = JOB_COLUMNS.index("cpu.user"), JOB_COLUMNS.index("cpu.system")


def cpu_percents(samples: Sequence[Sample]) -> list[float]:
    """The CPU percentages between each two samples, starting from 0 at the start."""
    moments = [0.0, *(sample.elapsed for sample in samples)]
    used = [0.0, *((sample.values[USER] or 0.0) + (sample.values[SYSTEM] or 0.0) for sample in samples)]
    return [
        100 * (used[place] - used[place - 1]) / (moments[place] - moments[place - 1]) for place in range(1, len(used))
    ]


def spread(numbers: Sequence[float]) -> dict[str, float | None]:
    return {"min": min(numbers), "mean": sum(numbers) / len(numbers), "peak": max(numbers)}


def end_fields(job: Job, ended: float, end: End) -> dict[str, object]:
    """Status, exit code, signal, and the reason in the same words as for real jobs."""
    match end:
        case End.SUCCESS:
            return {"status": Status.SUCCESS, "exit_code": 0}
        case End.FAILED:
            return {"status": Status.FAILED, "exit_code": 1, "reason": "exit code 1"}
        case End.CRASHED:
            return {"status": Status.FAILED, "signal": int(signal.SIGSEGV), "reason": "killed by SIGSEGV"}
        case End.OOM:
            why = "killed by SIGKILL: the kernel's OOM killer, oom_kill +1"
            flags = (*job.flags, "oom_killed")
            return {"status": Status.FAILED, "signal": int(signal.SIGKILL), "reason": why, "flags": flags}
        case End.TIMEOUT:
            limit = format_duration(job.limits.timeout_seconds)
            why = f"stopped after its timeout of {limit}"
            return {"status": Status.TIMEOUT, "signal": int(signal.SIGTERM), "reason": why}
        case End.CANCELLED:
            asked = StopRequest("jobtop stop", ended - 0.4)
            why = "stopped by jobtop stop: killed by SIGTERM"
            number = int(signal.SIGTERM)
            return {"status": Status.CANCELLED, "signal": number, "reason": why, "stop_request": asked}
        case End.LOST:
            incomplete = ("all: jobtop's supervisor of the job died",)
            return {"status": Status.LOST, "reason": DIED, "incomplete": incomplete, "end_time": None}
        case End.ERROR:
            why = f"{job.command[0]}: command not found"
            return {"status": Status.ERROR, "error": why, "reason": why, "exit_code": 127}
