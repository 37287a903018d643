"""How fast a job's output passes: 1 GiB through `jobtop run`, and through `tee log` to the same reader."""

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.installation import Installation, environment
from benchmarks.report import MeasurementError, Result
from benchmarks.stopwatch import in_turns, wall_seconds

OUTPUT_BYTES = 2**30
SINKS = {"/dev/null": ">/dev/null", "a pipe": "| cat >/dev/null"}
KEPT = {"the log capped by default": "", "the whole log kept": "--set run.log_max=2G"}


def measure_output(tools: Installation, work: Path, rounds: int) -> Iterator[Result]:
    """With the log as it is kept by default, and with all of it kept, as tee does."""
    producer = f"head -c {OUTPUT_BYTES} /dev/zero"
    for sink, redirection in SINKS.items():
        commands = {"tee": f"{producer} | tee log"}
        commands |= {
            name: f"'{tools.tool('jobtop')}' {option} run --no-ui -- {producer}" for name, option in KEPT.items()
        }
        timings = {name: partial(seconds, command, redirection, work) for name, command in commands.items()}
        samples = in_turns(timings, rounds, warm_up=False)
        for name in KEPT:
            what = f"1 GiB of output to {sink}, {name}"
            yield Result(what, "seconds", samples[name], samples["tee"], "tee log", bound=1.5)


def seconds(command: str, redirection: str, work: Path) -> float:
    """How long a shell's command takes, whose output is read to its end; what it kept is removed."""
    code = work / "code"
    taken = wall_seconds(["sh", "-c", f"{{ {command}; echo $? >code; }} {redirection}"], environment(work), work)
    if code.read_text() != "0\n":
        raise MeasurementError(f"{command} exited with {code.read_text().strip()}")
    shutil.rmtree(work / "state", ignore_errors=True)  # tee made none
    (work / "log").unlink(missing_ok=True)
    return taken
