"""Measures wall times of commands in turns, so that other load on the machine affects all of them equally."""

import ctypes
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from benchmarks.report import MeasurementError

Timing = Callable[[], float]
LONGEST_SECONDS = 300.0
PR_SET_CHILD_SUBREAPER = 36


def measure_in_turns(timings: Mapping[str, Timing], rounds: int, warm_up: bool = True) -> dict[str, list[float]]:
    """Measure A B C, A B C, …; return the samples of each. An extra first round warms the caches."""
    samples: dict[str, list[float]] = {name: [] for name in timings}
    if warm_up:
        for timing in timings.values():
            timing()
    for _ in range(rounds):
        for name, timing in timings.items():
            samples[name].append(timing())
    return samples


def adopt_orphans() -> None:
    """Become the subreaper of all commands, so that processes they leave behind can be awaited."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def wait_for_orphans() -> None:
    """Wait until all processes that finished commands left behind have exited."""
    end = time.monotonic() + LONGEST_SECONDS
    try:
        while os.waitpid(-1, os.WNOHANG) != (0, 0) or time.monotonic() < end:
            time.sleep(0.001)
    except ChildProcessError:
        return
    raise MeasurementError("a command left something behind that does not end")


def wall_seconds(command: Sequence[str], env: Mapping[str, str], cwd: Path) -> float:
    """Return the wall time of a command without input, its output discarded."""
    return wall_and_lingering_seconds(command, env, cwd)[0]


def wall_and_lingering_seconds(command: Sequence[str], env: Mapping[str, str], cwd: Path) -> tuple[float, float]:
    """Return the wall time of a command, and the time until all processes it left behind have exited."""
    nothing = subprocess.DEVNULL
    with tempfile.TemporaryFile("w+", dir=cwd) as errors:
        begin = time.perf_counter()
        finished = subprocess.run(
            command,
            env=env,
            cwd=cwd,
            stdin=nothing,
            stdout=nothing,
            stderr=errors,
            timeout=LONGEST_SECONDS,
            check=False,
        )
        wall = time.perf_counter() - begin
        wait_for_orphans()
        lingering = time.perf_counter() - begin
        errors.seek(0)
        if finished.returncode != 0:
            raise MeasurementError(f"{' '.join(command)} exited with {finished.returncode}: {errors.read().strip()}")
    return wall, lingering
