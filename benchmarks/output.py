"""Measures output throughput: 1 GiB through `jobtop run`, compared with `tee log` to the same reader."""

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.installation import Installation, environment
from benchmarks.report import BenchmarkResult, MeasurementError
from benchmarks.stopwatch import measure_in_turns, wall_seconds

OUTPUT_BYTES = 2**30
SINKS = {"/dev/null": ">/dev/null", "a pipe": "| cat >/dev/null"}
KEPT = {"the log capped by default": "", "the whole log kept": "--set run.log_max=2G"}


def measure_output(tools: Installation, work: Path, rounds: int) -> Iterator[BenchmarkResult]:
    """Measure with the default log limit, and with the whole log kept, as tee does."""
    producer = f"head -c {OUTPUT_BYTES} /dev/zero"
    for sink, redirection in SINKS.items():
        commands = {"tee": f"{producer} | tee log"}
        commands |= {
            name: f"'{tools.tool('jobtop')}' {option} run --no-ui -- {producer}" for name, option in KEPT.items()
        }
        timings = {name: partial(seconds, command, redirection, work) for name, command in commands.items()}
        samples = measure_in_turns(timings, rounds, warm_up=False)
        for name in KEPT:
            what = f"1 GiB of output to {sink}, {name}"
            yield BenchmarkResult(what, "seconds", samples[name], samples["tee"], "tee log", bound=1.5)


def seconds(command: str, redirection: str, work: Path) -> float:
    """Return how long a shell command takes if its output is read completely; its files are removed."""
    code = work / "code"
    taken = wall_seconds(["sh", "-c", f"{{ {command}; echo $? >code; }} {redirection}"], environment(work), work)
    if code.read_text() != "0\n":
        raise MeasurementError(f"{command} exited with {code.read_text().strip()}")
    shutil.rmtree(work / "state", ignore_errors=True)  # tee made none
    (work / "log").unlink(missing_ok=True)
    return taken
