"""Wall times of whole commands, taken in turns so that whatever else the machine does meets all of them alike."""

import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from benchmarks.report import MeasurementError

Timing = Callable[[], float]
LONGEST_SECONDS = 300.0


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


def wall_seconds(command: Sequence[str], env: Mapping[str, str], cwd: Path) -> float:
    """How long a command takes from its start until it is gone; nothing goes in, its output goes nowhere."""
    begin = time.perf_counter()
    finished = subprocess.run(
        command,
        env=env,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=LONGEST_SECONDS,
        check=False,
    )
    seconds = time.perf_counter() - begin
    if finished.returncode != 0:
        raise MeasurementError(f"{' '.join(command)} exited with {finished.returncode}")
    return seconds
