"""Wall times of whole commands, taken in turns so that whatever else the machine does meets all of them alike."""

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


def in_turns(timings: Mapping[str, Timing], rounds: int, warm_up: bool = True) -> dict[str, list[float]]:
    """A B C, A B C, …: the samples of each; a first round that does not count warms the caches."""
    samples: dict[str, list[float]] = {name: [] for name in timings}
    if warm_up:
        for timing in timings.values():
            timing()
    for _ in range(rounds):
        for name, timing in timings.items():
            samples[name].append(timing())
    return samples


def adopt_orphans() -> None:
    """Become the parent of whatever a command leaves behind, so that nothing of it runs on into the next timing."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def wait_for_orphans() -> None:
    """Wait until everything a finished command left behind is gone too."""
    end = time.monotonic() + LONGEST_SECONDS
    try:
        while os.waitpid(-1, os.WNOHANG) != (0, 0) or time.monotonic() < end:
            time.sleep(0.001)
    except ChildProcessError:
        return
    raise MeasurementError("a command left something behind that does not end")


def wall_seconds(command: Sequence[str], env: Mapping[str, str], cwd: Path) -> float:
    """How long a command takes from its start until it is gone; nothing goes in, and what comes out goes nowhere."""
    return wall_and_lingering_seconds(command, env, cwd)[0]


def wall_and_lingering_seconds(command: Sequence[str], env: Mapping[str, str], cwd: Path) -> tuple[float, float]:
    """The wall time of a command, and that until all it left behind is gone."""
    nothing = subprocess.DEVNULL
    with tempfile.TemporaryFile("w+", dir=cwd) as words:
        begin = time.perf_counter()
        finished = subprocess.run(
            command, env=env, cwd=cwd, stdin=nothing, stdout=nothing, stderr=words, timeout=LONGEST_SECONDS, check=False
        )
        wall = time.perf_counter() - begin
        wait_for_orphans()
        lingering = time.perf_counter() - begin
        words.seek(0)
        if finished.returncode != 0:
            raise MeasurementError(f"{' '.join(command)} exited with {finished.returncode}: {words.read().strip()}")
    return wall, lingering
