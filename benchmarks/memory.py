"""Measures the memory of the shim and of `jobtop run` while a job runs, read from /proc once both are idle."""

import re
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import psutil

from benchmarks.installation import Installation, environment
from benchmarks.report import BenchmarkResult, MeasurementError
from benchmarks.stopwatch import wait_for_orphans

MIB = 2**20
IDLE_SECONDS, DEADLINE_SECONDS = 0.5, 30.0
JOB_NAME = "sleep"
QUIET_JOB = (JOB_NAME, "600")
TALKATIVE_JOB = ("sh", "-c", "head -c 67108864 /dev/zero; exec sleep 600")

T = TypeVar("T")


def measure_memory(tools: Installation, work: Path, rounds: int) -> Iterator[BenchmarkResult]:
    """Measure both; the bounds are for the shim's private memory and for the resident memory of `run`."""
    run = [tools.tool("jobtop"), "run", "--no-ui", "--grace", "1s", "--"]
    duct = [tools.tool("con-duct"), "run", "-p", str(work / "duct-memory-"), "--clobber"]
    shims: dict[str, list[dict[str, int]]] = {"a quiet job": [], "a job that wrote 64 MiB": []}
    runs, rivals = [], []
    for _ in range(rounds):
        for (name, readings), job in zip(shims.items(), (QUIET_JOB, TALKATIVE_JOB), strict=True):
            with running([*run, *job], work) as (outer, inner):
                readings.append(read_kib(inner, "smaps_rollup"))
                if name == "a quiet job":
                    runs.append(read_kib(outer, "status"))
        with running([*duct, *QUIET_JOB], work) as (outer, _):
            rivals.append(read_kib(outer, "status"))
    for name, readings in shims.items():
        dirty = [reading["Private_Dirty"] for reading in readings]
        clean = [reading["Private_Clean"] for reading in readings]
        private = [float(sum(pair)) for pair in zip(dirty, clean, strict=True)]
        yield BenchmarkResult(f"shim of {name}, private memory", "bytes", private, bound=4 * MIB)
        yield BenchmarkResult("  of which dirty", "bytes", dirty)
        yield BenchmarkResult("  of which clean", "bytes", clean)
    peaks = [float(reading["VmHWM"]) for reading in runs]
    yield BenchmarkResult("jobtop run, resident memory at most", "bytes", peaks, bound=32 * MIB)
    yield BenchmarkResult(
        "jobtop run, resident memory while the job runs",
        "bytes",
        [reading["VmRSS"] for reading in runs],
        [reading["VmRSS"] for reading in rivals],
        "con-duct run",
    )


@contextmanager
def running(command: Sequence[str], work: Path) -> Iterator[tuple[int, int]]:
    """Run a wrapper around a sleeping job; yield the pids of the wrapper and its child once both are idle."""
    nothing = subprocess.DEVNULL
    process = subprocess.Popen(
        command, env=environment(work), cwd=work, stdin=nothing, stdout=nothing, stderr=nothing, start_new_session=True
    )
    try:
        outer = psutil.Process(process.pid)
        wait_for(lambda: has_job(outer), command)
        inner = outer.children()[0]
        wait_for(lambda: is_idle(outer) and is_idle(inner), command)
        yield outer.pid, inner.pid
    except psutil.NoSuchProcess as error:
        raise MeasurementError(f"{' '.join(command)} ended early") from error
    finally:
        end_wrapper(process)


def has_job(wrapper: psutil.Process) -> bool:
    for member in wrapper.children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if member.name() == JOB_NAME:
                return True
    return False


def end_wrapper(process: subprocess.Popen[bytes]) -> None:
    """End a wrapper and its job; con-duct leaves the command behind, so it is killed here."""
    members = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
    process.terminate()
    try:
        process.wait(DEADLINE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for member in members:
        with suppress(psutil.NoSuchProcess):
            if member.name() == JOB_NAME:
                member.kill()
    wait_for_orphans()


def is_idle(process: psutil.Process) -> bool:
    """Return whether a process used no CPU for a while: it has started and waits."""

    def used() -> float:
        times = process.cpu_times()
        return float(times.user + times.system)

    before, end_wrapper = used(), time.monotonic() + IDLE_SECONDS
    while time.monotonic() < end_wrapper:
        if used() != before:
            return False
        time.sleep(0.02)
    return True


def wait_for(condition: Callable[[], T | None], command: Sequence[str]) -> T:
    end_wrapper = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < end_wrapper:
        if answer := condition():
            return answer
        time.sleep(0.02)
    raise MeasurementError(f"{' '.join(command)} did not become idle within {DEADLINE_SECONDS:g} s")


def read_kib(pid: int, file: str) -> dict[str, int]:
    """Read the `Key:  123 kB` lines of a file of a process, in bytes."""
    try:
        text = Path(f"/proc/{pid}/{file}").read_text()
    except OSError as error:
        raise MeasurementError(f"/proc/PID/{file} cannot be read: {error.strerror}") from error
    return {key: int(kib) * 1024 for key, kib in re.findall(r"^(\w+):\s+(\d+) kB$", text, re.MULTILINE)}
