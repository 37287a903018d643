"""Measures how soon queued jobs start, a single one and many, and what `submit` and the agent cost."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.installation import Installation, environment
from benchmarks.memory import read_kib
from benchmarks.report import BenchmarkResult, MeasurementError
from benchmarks.stopwatch import measure_in_turns
from jobtop.core.config import load
from jobtop.core.model import Job, Limits, Queued
from jobtop.core.paths import StatePaths, hostname
from jobtop.core.procfs import pid_clock
from jobtop.core.run.request import Request, prepare
from jobtop.core.run.supervisor import new_id
from jobtop.lifecycle.queue import Queue
from jobtop.store.agents import Registered, registered
from jobtop.store.database import open_to_write
from jobtop.store.jobs import Jobs

MIB = 2**20
JOBS, SLOTS = 500, 8
CROWD, CROWD_SECONDS = 200, 10.0
STARTING_JOBS, STARTS_PER_SECOND = 20, 2  # of each job
SLOWEST_START_SECONDS = 1 / 20
DEADLINE_SECONDS = 300.0
LOOK_SECONDS = 0.05
STARTING = "while sleep 1; do /bin/true; done"  # two processes a second
IDLE = "sleep 600; true"
MANY_SLEEPERS = f"for n in $(seq {CROWD - 1}); do sleep 600 & done; exec sleep 600"


class BenchmarkStore:
    """A separate store, and the agent that serves it."""

    def __init__(self, tools: Installation, work: Path, idle: str) -> None:
        self.jobtop, self.work = tools.tool("jobtop"), work
        self.env = environment(work) | {"JOBTOP_AGENT_IDLE": idle}
        self.config = load((), self.env, work)
        self.paths = StatePaths(Path(self.env["JOBTOP_HOME"]), hostname())
        self.database = open_to_write(self.paths)
        self.jobs = Jobs(self.database)
        self.queue = Queue(self.jobs, self.paths)

    def submit(self, *command: str, group: str | None = None) -> Job:
        """Queue a job that declares no CPU, without starting a process to submit it."""
        request = Request(command, str(self.work), environment=self.env, limits=Limits(cpus=0))
        job, spec = prepare(request, new_id(), self.paths.host, self.config)
        return self.queue.submit(job, spec, Queued(group=group))

    def call(self, *arguments: str) -> float:
        """Run a verb; return how long it takes."""
        began = time.perf_counter()
        command = [self.jobtop, *arguments]
        settings: dict[str, Any] = {"env": self.env, "cwd": self.work, "stdin": subprocess.DEVNULL}
        done = subprocess.run(command, **settings, capture_output=True, check=False)
        if done.returncode != 0:
            raise MeasurementError(f"{' '.join(command)} exited with {done.returncode}: {done.stderr.decode()}")
        return time.perf_counter() - began

    def agent(self) -> Registered:
        agent = registered(self.database)
        if agent is None:
            raise MeasurementError("the agent is gone")
        return agent

    def count(self, status: str) -> int:
        with self.database.reading() as connection:
            row = connection.execute("SELECT count(*) FROM jobs WHERE status = ?", (status,)).fetchone()
        return int(row[0])

    def until(self, condition: Callable[[], bool], description: str) -> None:
        end = time.monotonic() + DEADLINE_SECONDS
        while not condition():
            if time.monotonic() > end:
                raise MeasurementError(f"waited {DEADLINE_SECONDS:g} s until {description}")
            time.sleep(LOOK_SECONDS)


@contextmanager
def store(tools: Installation, work: Path, idle: str) -> Iterator[BenchmarkStore]:
    """Yield a store in a new directory; at the end all its jobs and its agent are stopped."""
    work.mkdir()
    opened = BenchmarkStore(tools, work, idle)
    try:
        yield opened
    finally:
        agent = registered(opened.database)
        with opened.database.reading() as connection:
            sql = "SELECT shim_pid FROM jobs WHERE status = 'running' AND shim_pid IS NOT NULL"
            shims = [row[0] for row in connection.execute(sql).fetchall()]
        for pid in shims:
            os.kill(pid, signal.SIGTERM)
        opened.until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in shims), "the jobs have ended")
        if agent is not None:
            opened.call("agent", "stop")
        opened.database.close()


def measure_queue(tools: Installation, work: Path, rounds: int) -> Iterator[BenchmarkResult]:
    with store(tools, work / "one", "5m") as alone:
        yield from measure_submit(tools, alone, rounds)
    with store(tools, work / "many", "5m") as many:
        yield from measure_starts(many)
    yield from measure_crowds(tools, work)
    yield from measure_process_starts(tools, work)


def measure_submit(tools: Installation, one: BenchmarkStore, rounds: int) -> Iterator[BenchmarkResult]:
    """Measure `submit` with an idle agent."""
    number = count()

    def con_duct() -> float:
        began = time.perf_counter()
        command = [tools.tool("con-duct"), "run", "-p", str(one.work / f"duct-{next(number)}-"), "true"]
        subprocess.run(command, env=one.env, cwd=one.work, capture_output=True, check=True)
        return time.perf_counter() - began

    def submit() -> float:
        seconds = one.call("submit", "--", "true")
        one.until(lambda: one.count("queued") + one.count("running") == 0, "the job has run")
        return seconds

    one.call("agent", "start")
    samples = measure_in_turns({"duct": con_duct, "submit": submit}, rounds)
    rival = "con-duct run true"
    yield BenchmarkResult("jobtop submit -- true", "seconds", samples["submit"], samples["duct"], rival, bound=0.75)
    with one.database.reading() as connection:
        sql = "SELECT start_time - submitted_at FROM jobs ORDER BY seq DESC LIMIT ?"
        waited = [float(row[0]) for row in connection.execute(sql, (rounds,)).fetchall()]
    yield BenchmarkResult("  from submit to start", "seconds", waited, bound=0.15)


def measure_starts(many: BenchmarkStore) -> Iterator[BenchmarkResult]:
    """Measure how fast an agent starts many jobs that were queued before it."""
    many.queue.set_slots("few", SLOTS)
    for _ in range(JOBS):
        many.submit("sleep", "0.2", group="few")
    many.call("agent", "start")
    pid = many.agent().identity.pid
    many.until(lambda: many.count("success") >= SLOTS, "the first have run")
    before = most = read_kib(pid, "status")["VmRSS"]
    while many.count("success") < JOBS:
        most = max(most, read_kib(pid, "status")["VmRSS"])
        time.sleep(LOOK_SECONDS)
    with many.database.reading() as connection:
        first, last = connection.execute("SELECT min(start_time), max(start_time) FROM jobs").fetchone()
    between = [(last - first) / (JOBS - 1)]
    description = f"{JOBS} jobs of 0.2 s in {SLOTS} slots"
    yield BenchmarkResult(f"from start to start, {description}", "seconds", between, bound=SLOWEST_START_SECONDS)
    yield BenchmarkResult("  memory the agent grew by", "bytes", [float(most - before)], bound=10 * MIB)


def measure_crowds(tools: Installation, work: Path) -> Iterator[BenchmarkResult]:
    """Measure the CPU time of an agent that only samples."""
    with store(tools, work / "one-job", "5m") as one:
        one.submit("sh", "-c", MANY_SLEEPERS)
        others = sampling_seconds(one, 1)
    with store(tools, work / "many-jobs", "5m") as many:
        for _ in range(CROWD):
            many.submit("sleep", "600")
        ours = sampling_seconds(many, CROWD)
    what = f"an agent samples {CROWD} jobs, CPU a second"
    yield BenchmarkResult(what, "seconds", [ours], [others], f"one of {CROWD} processes", bound=1.3)


def measure_process_starts(tools: Installation, work: Path) -> Iterator[BenchmarkResult]:
    """What an agent uses while its jobs start processes all the time, against the same jobs while they are idle."""
    seconds = {}
    for name, program in (("starting", STARTING), ("idle", IDLE)):
        with store(tools, work / name, "5m") as one:
            for _ in range(STARTING_JOBS):
                one.submit("sh", "-c", program)
            seconds[name] = sampling_seconds(one, STARTING_JOBS)
    what = f"an agent samples {STARTING_JOBS} jobs that start {STARTING_JOBS * STARTS_PER_SECOND} processes a second"
    what += ", CPU a second"
    yield BenchmarkResult(what, "seconds", [seconds["starting"]], [seconds["idle"]], "idle", bound=1.6)


def sampling_seconds(crowd: BenchmarkStore, jobs: int) -> float:
    """Return the agent's CPU time per second once all jobs run."""
    crowd.call("agent", "start")
    crowd.until(lambda: crowd.count("running") == jobs, "all jobs run")
    clock = pid_clock(crowd.agent().identity.pid)
    readings = []
    for _ in range(3):  # the first ticks after a start cost more
        before, began = time.clock_gettime(clock), time.monotonic()
        time.sleep(CROWD_SECONDS / 2)
        readings.append((time.clock_gettime(clock) - before) / (time.monotonic() - began))
    return median(readings[1:])
