"""How soon jobs that wait are started: one that is alone, and many at once; what `submit` and the agent cost."""

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
from benchmarks.report import MeasurementError, Result
from benchmarks.stopwatch import in_turns
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


class Store:
    """A history of its own, and the agent that serves it."""

    def __init__(self, tools: Installation, work: Path, idle: str) -> None:
        self.jobtop, self.work = tools.tool("jobtop"), work
        self.env = environment(work) | {"JOBTOP_AGENT_IDLE": idle}
        self.config = load((), self.env, work)
        self.paths = StatePaths(Path(self.env["JOBTOP_HOME"]), hostname())
        self.database = open_to_write(self.paths)
        self.jobs = Jobs(self.database)
        self.queue = Queue(self.jobs, self.paths)

    def submit(self, *words: str, group: str | None = None) -> Job:
        """A job that takes no room, without a process of its own to submit it."""
        request = Request(words, str(self.work), environment=self.env, limits=Limits(cpus=0))
        job, spec = prepare(request, new_id(), self.paths.host, self.config)
        return self.queue.submit(job, spec, Queued(group=group))

    def call(self, *words: str) -> float:
        """How long a verb takes."""
        began = time.perf_counter()
        command = [self.jobtop, *words]
        settings: dict[str, Any] = {"env": self.env, "cwd": self.work, "stdin": subprocess.DEVNULL}
        done = subprocess.run(command, **settings, capture_output=True, check=False)
        if done.returncode != 0:
            raise MeasurementError(f"{' '.join(command)} exited with {done.returncode}: {done.stderr.decode()}")
        return time.perf_counter() - began

    def agent(self) -> Registered:
        there = registered(self.database)
        if there is None:
            raise MeasurementError("the agent is gone")
        return there

    def count(self, status: str) -> int:
        with self.database.reading() as connection:
            row = connection.execute("SELECT count(*) FROM jobs WHERE status = ?", (status,)).fetchone()
        return int(row[0])

    def until(self, holds: Callable[[], bool], words: str) -> None:
        end = time.monotonic() + DEADLINE_SECONDS
        while not holds():
            if time.monotonic() > end:
                raise MeasurementError(f"waited {DEADLINE_SECONDS:g} s until {words}")
            time.sleep(LOOK_SECONDS)


@contextmanager
def store(tools: Installation, work: Path, idle: str) -> Iterator[Store]:
    """Nothing of it runs on."""
    work.mkdir()
    made = Store(tools, work, idle)
    try:
        yield made
    finally:
        there = registered(made.database)
        with made.database.reading() as connection:
            sql = "SELECT shim_pid FROM jobs WHERE status = 'running' AND shim_pid IS NOT NULL"
            shims = [row[0] for row in connection.execute(sql).fetchall()]
        for pid in shims:
            os.kill(pid, signal.SIGTERM)
        made.until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in shims), "the jobs have ended")
        if there is not None:
            made.call("agent", "stop")
        made.database.close()


def measure_queue(tools: Installation, work: Path, rounds: int) -> Iterator[Result]:
    with store(tools, work / "one", "5m") as alone:
        yield from measure_submit(tools, alone, rounds)
    with store(tools, work / "many", "5m") as many:
        yield from measure_starts(many)
    yield from measure_crowds(tools, work)
    yield from measure_process_starts(tools, work)


def measure_submit(tools: Installation, one: Store, rounds: int) -> Iterator[Result]:
    """With an agent that has nothing to do."""
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
    samples = in_turns({"duct": con_duct, "submit": submit}, rounds)
    rival = "con-duct run true"
    yield Result("jobtop submit -- true", "seconds", samples["submit"], samples["duct"], rival, bound=0.75)
    with one.database.reading() as connection:
        sql = "SELECT start_time - submitted_at FROM jobs ORDER BY seq DESC LIMIT ?"
        waited = [float(row[0]) for row in connection.execute(sql, (rounds,)).fetchall()]
    yield Result("  from submit to start", "seconds", waited, bound=0.15)


def measure_starts(many: Store) -> Iterator[Result]:
    """All wait before there is an agent."""
    many.queue.set_slots("few", SLOTS)
    for _ in range(JOBS):
        many.submit("sleep", "0.2", group="few")
    many.call("agent", "start")
    pid = many.agent().who.pid
    many.until(lambda: many.count("success") >= SLOTS, "the first have run")
    before = most = read_kib(pid, "status")["VmRSS"]
    while many.count("success") < JOBS:
        most = max(most, read_kib(pid, "status")["VmRSS"])
        time.sleep(LOOK_SECONDS)
    with many.database.reading() as connection:
        first, last = connection.execute("SELECT min(start_time), max(start_time) FROM jobs").fetchone()
    between = [(last - first) / (JOBS - 1)]
    words = f"{JOBS} jobs of 0.2 s in {SLOTS} slots"
    yield Result(f"from start to start, {words}", "seconds", between, bound=SLOWEST_START_SECONDS)
    yield Result("  memory the agent grew by", "bytes", [float(most - before)], bound=10 * MIB)


def measure_crowds(tools: Installation, work: Path) -> Iterator[Result]:
    """What an agent uses while it only samples."""
    with store(tools, work / "one-job", "5m") as one:
        one.submit("sh", "-c", MANY_SLEEPERS)
        theirs = sampling_seconds(one, 1)
    with store(tools, work / "many-jobs", "5m") as many:
        for _ in range(CROWD):
            many.submit("sleep", "600")
        ours = sampling_seconds(many, CROWD)
    what = f"an agent samples {CROWD} jobs, CPU a second"
    yield Result(what, "seconds", [ours], [theirs], f"one of {CROWD} processes", bound=1.3)


def measure_process_starts(tools: Installation, work: Path) -> Iterator[Result]:
    """What an agent uses while its jobs start processes all the time, against the same jobs while they are idle."""
    seconds = {}
    for name, program in (("starting", STARTING), ("idle", IDLE)):
        with store(tools, work / name, "5m") as one:
            for _ in range(STARTING_JOBS):
                one.submit("sh", "-c", program)
            seconds[name] = sampling_seconds(one, STARTING_JOBS)
    what = f"an agent samples {STARTING_JOBS} jobs that start {STARTING_JOBS * STARTS_PER_SECOND} processes a second"
    yield Result(f"{what}, CPU a second", "seconds", [seconds["starting"]], [seconds["idle"]], "idle", bound=1.6)


def sampling_seconds(crowd: Store, jobs: int) -> float:
    """The CPU time of the agent in a second, once all jobs run."""
    crowd.call("agent", "start")
    crowd.until(lambda: crowd.count("running") == jobs, "all jobs run")
    clock = pid_clock(crowd.agent().who.pid)
    readings = []
    for _ in range(3):  # the first ticks after a start cost more
        before, began = time.clock_gettime(clock), time.monotonic()
        time.sleep(CROWD_SECONDS / 2)
        readings.append((time.clock_gettime(clock) - before) / (time.monotonic() - began))
    return median(readings[1:])
