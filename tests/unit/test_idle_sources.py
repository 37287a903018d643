"""A source that cannot be used here, or has nothing to report, opens and reads nothing in a tick."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from drm import plant

from jobtop.core.measure.collecting import Collecting
from jobtop.core.measure.collectors.gpu.drm_fdinfo import LONGEST_WAIT_SECONDS
from jobtop.core.measure.collectors.gpu.drm_source import DrmSource
from jobtop.core.measure.collectors.gpu.new_users import LOOK_SECONDS
from jobtop.core.measure.collectors.network import tcp_traffic
from jobtop.core.measure.collectors.proc import identify
from jobtop.core.measure.collectors.process_source import ProcessSource
from jobtop.core.measure.collectors.processes import ProcessTable
from jobtop.core.measure.source import Readings
from jobtop.core.measure.source_runs import SlowRun
from jobtop.core.measure.sources import HOST_SOURCES, JOB_SOURCES, Options, open_one, open_runs
from jobtop.core.measure.target import Target
from jobtop.core.procfs import word_in
from jobtop.core.record import replace
from running import is_waiting_on_a_pipe
from support import wait_for

WARM_READINGS, READINGS = 70, 50
READ_ONCE = {"limits", "files", "network"}  # these look at a new job
WATCHED = ("open", "os.listdir", "os.scandir", "socket.__new__", "socket.connect", "socket.sendto", "subprocess.Popen")


class Calls:
    """What the thread of the test asks of the system, while it is told to watch."""

    def __init__(self) -> None:
        self.thread: int | None = None
        self.made: list[str] = []
        self._own_reads = -reads() + reads()
        sys.addaudithook(self._note)

    def _note(self, event: str, details: tuple[object, ...]) -> None:
        if self.thread == threading.get_ident() and event in WATCHED:
            self.made.append(f"{event} {details[0] if details else ''}")

    @contextmanager
    def watched(self) -> Iterator[list[str]]:
        """All calls within the block; the kernel counts those of read(2) and pread(2) too."""
        made: list[str] = []
        self.made = made
        before = reads()
        self.thread = threading.get_ident()
        try:
            yield made
        finally:
            self.thread = None
            made += ["read"] * (reads() - before - self._own_reads)


def reads() -> int:
    """How often this thread has read a file, this one included."""
    with open("/proc/thread-self/io", encoding="ascii") as file:
        return int(word_in(file.read(), "syscr:") or 0)


@cache
def calls() -> Calls:
    """The one of this process: a hook cannot be removed."""
    return Calls()


@pytest.fixture(scope="module")
def idle() -> Iterator[int]:
    """A process that waits and has nothing open but pipes."""
    pipe = subprocess.PIPE
    with subprocess.Popen(["cat"], stdin=pipe, stdout=pipe, stderr=pipe) as process:
        wait_for(lambda: is_waiting_on_a_pipe(process.pid))
        yield process.pid
        process.kill()


class Idle:
    """A job with one process that does nothing, its processes as the sampler reads them, and a machine with a GPU."""

    def __init__(self, pid: int, sys: Path) -> None:
        self.sys, self.now = plant(sys, "amd-dgpu"), 100.0
        started = time.clock_gettime(time.CLOCK_BOOTTIME) - 3600
        self.jobs = {"job": Target(identify(pid), started, includes_root=True)}
        self.processes = ProcessSource(ProcessTable("/proc"))
        self.options = Options(sys=str(self.sys), opened={"processes": self.processes})
        for _ in range(3):
            self.processes.collect(self.jobs)

    def source(self, name: str) -> Any:
        opened = open_one(name, JOB_SOURCES[name], self.options)
        assert opened.available() is None
        return opened

    def drm(self) -> DrmSource:
        return DrmSource(self.options, self.processes, lambda: self.now)


@pytest.fixture
def machine(idle: int, tmp_path: Path) -> Iterator[Idle]:
    machine = Idle(idle, tmp_path / "sys")
    yield machine
    machine.processes.close()


def collected(source: Any, jobs: dict[str, Target], readings: int = READINGS) -> tuple[list[str], list[Readings]]:
    """What later readings of a source ask of the system, and what they return."""
    with calls().watched() as made:
        found = [source.collect(jobs) for _ in range(readings)]
    return made, found


@pytest.mark.parametrize("name", ["cgroups", "limits", "files", "network", "containers"])
def test_a_source_with_nothing_to_report_opens_and_reads_nothing(
    machine: Idle, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tcp_traffic, "LIST_SECONDS", 0.0)  # the readings follow each other at once
    source = machine.source(name)
    jobs = {} if name == "containers" else machine.jobs
    first, _ = collected(source, jobs, WARM_READINGS)
    made, found = collected(source, jobs)
    source.close()
    assert bool(first) is (name in READ_ONCE), "else this test could not fail"
    assert made == []
    assert not any(readings.jobs or readings.devices or readings.events for readings in found)


def test_the_source_of_gpus_looks_at_no_process_while_no_gpu_was_opened(machine: Idle, idle: int) -> None:
    references = machine.sys / "module/amdgpu/refcnt"
    references.parent.mkdir(parents=True)
    references.write_text("3\n")
    source = machine.drm()

    def looks(seconds: float) -> int:
        """How many of ten readings look at the process."""
        made: list[str] = []
        for _ in range(10):
            machine.now += seconds / 10
            machine.processes.jobs["job"].tree.members[idle].cpu_ns = int(machine.now)  # it has run
            made += collected(source, machine.jobs, 1)[0]
        return made.count(f"os.listdir /proc/{idle}/fd")

    assert looks(LONGEST_WAIT_SECONDS) >= 3, "it may have opened one before"
    looks(1.0)
    assert looks(LOOK_SECONDS / 2) == 0
    assert looks(LOOK_SECONDS) == 1, "another process may have passed an open file"
    references.write_text("4\n")
    assert looks(1.0) == 1
    references.unlink()
    assert looks(10 * LONGEST_WAIT_SECONDS) == 10
    source.close()


def test_a_source_that_cannot_be_used_here_is_not_called(tmp_path: Path) -> None:
    runs = open_runs({**JOB_SOURCES, **HOST_SOURCES}, Options(proc=str(tmp_path), sys=str(tmp_path)))
    jobs = {"job": Target(identify(os.getpid()), 0.0, includes_root=True)}
    unavailable = [run for run in runs if run.unavailable is not None]
    assert {run.name for run in unavailable} >= {"energy", "nvidia", "drm", "network"}
    with calls().watched() as made:
        for run in unavailable:
            run.set_jobs(jobs)
            assert all(run.poll(jobs) is None for _ in range(READINGS))
    for run in runs:
        run.close()
    assert made == []
    assert not {run.name for run in unavailable if isinstance(run, SlowRun)}, "it would have a thread"


def test_no_thread_asks_engines_while_no_job_needs_one(machine: Idle) -> None:
    collecting = Collecting(replace(machine.options, opened={}), {})
    collecting.set_jobs(machine.jobs)
    started = {thread.name for thread in threading.enumerate()}
    collecting.close()
    assert "jobtop-files" in started
    assert "jobtop-containers" not in started
