"""The queue of a state directory as a test uses it: jobs go in, agents come, and how each job has gone comes out."""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from jobtop.core.config import load
from jobtop.core.measure.collectors.proc import is_alive
from jobtop.core.model import Job, Limits, Queued
from jobtop.core.paths import StatePaths
from jobtop.core.run.request import Request, prepare
from jobtop.core.run.supervisor import new_id
from jobtop.lifecycle.agent_lock import ensure_agent
from jobtop.lifecycle.queue import Queue
from jobtop.store.agents import Registered, registered
from jobtop.store.database import open_to_write
from jobtop.store.jobs import Jobs
from records import HERE
from running import PYTHON, children, kill_if_alive, stat_of
from support import wait_for

DEADLINE = 60.0
LOAD = """
import os, signal, sys, time
name, seconds, end, mib = sys.argv[1], float(sys.argv[2]), sys.argv[3], int(sys.argv[4])
memory = bytearray(b"x") * (mib << 20)
with open(name + ".ran", "a") as file: file.write(f"{os.getpid()}\\n")
until = time.monotonic() + 60
while not os.path.exists(name + ".end") and sys.argv[5:] and time.monotonic() < until: time.sleep(0.01)
while time.process_time() < seconds - 0.02: pass
del memory  # what it costs to give it back is read too
while time.process_time() < seconds: pass
with open(name + ".cpu", "w") as file: file.write(str(time.process_time()))
os.kill(os.getpid(), signal.SIGKILL) if end == "SIGKILL" else os._exit(int(end))
"""


class Load:
    """A command that says each time it runs, uses so much CPU time, tells how much, and ends like this."""

    def __init__(self, name: Path, seconds: float = 0.0, end: str = "0", mib: int = 0, waits: bool = False) -> None:
        self.name, self.end = name, end
        words = (str(name), str(seconds), end, str(mib), *(["waits"] if waits else []))
        self.command = (*PYTHON, LOAD, *words)

    @property
    def pids(self) -> list[int]:
        """Who ran it, so far."""
        file = self.name.with_suffix(".ran")
        return [int(line) for line in file.read_text().split()] if file.exists() else []

    @property
    def cpu_seconds(self) -> float:
        """By its own clock, at its end."""
        return float(self.name.with_suffix(".cpu").read_text())

    def begins(self) -> int:
        """Wait until it runs; its pid."""
        return wait_for(lambda: next(iter(self.pids), None), DEADLINE)

    def let_end(self) -> None:
        self.name.with_suffix(".end").touch()

    def check(self, job: Job) -> None:
        """It ran once, and its record says how it ended and what it used."""
        words = f"{self.name.name}: {job.status} {job.reason}"
        assert len(self.pids) == 1, words
        ended = (None, signal.SIGKILL) if self.end == "SIGKILL" else (int(self.end), None)
        assert (job.exit_code, job.signal) == ended, words
        assert job.status == ("success" if self.end == "0" else "failed"), words
        assert job.usage.cpu_total_seconds == pytest.approx(self.cpu_seconds, rel=0.01, abs=0.004), words


class Line:
    """The queue of a state directory."""

    def __init__(self, root: Path) -> None:
        self.paths, self.config = StatePaths(root, HERE), load((), os.environ, root)
        self.database = open_to_write(self.paths)
        self.jobs = Jobs(self.database)
        self.queue = Queue(self.jobs, self.paths)

    def submit(self, command: tuple[str, ...], cwd: str = "/", **queued: Any) -> Job:
        """Queue a command that declares no resources, without a message."""
        request = Request(command, cwd, limits=Limits(cpus=0))
        job, spec = prepare(request, new_id(), HERE, self.config)
        return self.queue.submit(job, spec, Queued(**queued))

    def call_agent(self) -> None:
        ensure_agent(self.database, self.paths)

    def agent(self) -> Registered | None:
        return registered(self.database)

    def new_agent(self, *before: Registered) -> Registered:
        """The agent that serves once these do not any more."""
        return wait_for(lambda: there if (there := self.agent()) and there not in before else None, DEADLINE)

    def now(self, job: Job) -> Job:
        return self.jobs.find(job.id)

    def becomes(self, job: Job, *statuses: str) -> Job:
        """The job, once its row says one of these; nothing but the agent brings that about."""
        return wait_for(lambda: now if (now := self.now(job)).status in statuses else None, DEADLINE)

    def ended(self, job: Job) -> Job:
        return wait_for(lambda: now if (now := self.now(job)).status.ended else None, DEADLINE)

    def statuses(self) -> dict[str, int]:
        with self.database.reading() as connection:
            rows = connection.execute("SELECT status, count(*) FROM jobs GROUP BY status").fetchall()
        return dict(map(tuple, rows))

    def drained(self) -> None:
        """Wait until nothing waits or runs."""
        wait_for(lambda: not {"queued", "running", "paused"} & self.statuses().keys(), 5 * DEADLINE)

    def kinds(self, job: Job) -> list[str]:
        return [event.kind for event in self.jobs.events(job)]

    def log(self) -> str:
        return self.paths.log.read_text()

    def close(self) -> None:
        self.database.close()


@pytest.fixture
def line(home: Path) -> Iterator[Line]:
    """The queue of this home, and no agent of it once the test is over."""
    line = Line(home)
    yield line
    with suppress(Exception):
        if there := line.agent():
            os.kill(there.identity.pid, signal.SIGTERM)
    line.close()


def agents_of(root: Path) -> list[int]:
    """The processes that are, or are about to find out whether they are, the agent of a state directory."""
    end = f"\0store.dir={root}\0agent\0run\0".encode()
    parents = {}
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if path.read_bytes().endswith(end):
                parents[int(path.parent.name)] = int((stat_of(path.with_name("stat")) or ["", "0"])[1])
    # A child that an agent has just forked has the same command line, until it executes a shim.
    return [pid for pid, parent in parents.items() if parent not in parents]


def kill(agent: Registered) -> None:
    """As the OOM killer does."""
    os.kill(agent.identity.pid, signal.SIGKILL)
    wait_for(lambda: not is_alive(agent.identity))


def kill_with_spares(agent: Registered) -> None:
    """So that no other comes by itself; queued jobs must not run."""
    os.kill(agent.identity.pid, signal.SIGSTOP)
    for spare in children(agent.identity.pid):
        kill_if_alive(spare)
    kill(agent)
