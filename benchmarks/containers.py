"""Measures the CPU time of watching containers, compared with `docker stats` on the same containers.

Both print once a second into a pipe. The engine reads the cgroups for `docker stats`, so its own time counts too.
A real engine is started for it, as for the tests.
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.installation import ROOT, Installation, environment
from benchmarks.report import BenchmarkResult
from benchmarks.stopwatch import measure_in_turns

CONTAINERS = 50
WARM_SECONDS, MEASURED_SECONDS = 4.0, 15.0
MOST_CORES = 0.03
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


def measure_containers(tools: Installation, work: Path, rounds: int) -> Iterator[BenchmarkResult]:
    """Yield the CPU time a second of `jobtop containers --follow` and of `docker stats`, and that of their engine."""
    sys.path.insert(0, str(ROOT / "tests"))
    from engines import CannotRunError, own_engine

    what = f"CPU time a second of watching {CONTAINERS} containers"
    client = shutil.which("docker")
    if client is None:
        yield BenchmarkResult(what, "s", problem="the docker command is not installed")
        return
    try:
        with own_engine("docker") as engine, many_containers(engine.url, client):
            env = environment(work) | engine.env
            ours = [tools.tool("jobtop"), "containers", "list", "--follow", "--json"]
            theirs = [client, "stats", "--format", "{{json .}}"]
            daemon = int((engine.directory / "daemon.pid").read_text())
            engines: dict[str, list[float]] = {"ours": [], "theirs": []}
            samples = measure_in_turns(
                {
                    "ours": lambda: watching_cores(ours, env, work, daemon, engines["ours"].append),
                    "theirs": lambda: watching_cores(theirs, env, work, daemon, engines["theirs"].append),
                },
                rounds,
                warm_up=False,
            )
    except CannotRunError as error:
        yield BenchmarkResult(what, "s", problem=str(error))
        return
    yield BenchmarkResult(f"{what}, by cgroup", "s", samples["ours"], bound=MOST_CORES)
    yield BenchmarkResult(
        f"{what}, with the engine's own",
        "s",
        add(samples["ours"], engines["ours"]),
        add(samples["theirs"], engines["theirs"]),
        "docker stats",
        1.0,
    )


@contextmanager
def many_containers(url: str, client: str) -> Iterator[None]:
    """Start containers that sleep and now and then compute a little; the end of their engine removes them."""
    script = "while :; do sleep 1; i=0; while [ $i -lt 200 ]; do i=$((i+1)); done; done"
    for _ in range(CONTAINERS):
        command = [client, "--host", url, "run", "--detach", "--network", "none", "box:1", "sh", "-c", script]
        subprocess.run(command, check=True, capture_output=True)
    yield


def watching_cores(
    command: Sequence[str], env: Mapping[str, str], work: Path, daemon: int, note_engine: Callable[[float], None]
) -> float:
    """Return the CPU seconds of a command each second after its start; note those of the engine meanwhile."""
    with subprocess.Popen(command, env=env, cwd=work, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        drain = subprocess.Popen(["cat"], stdin=process.stdout, stdout=subprocess.DEVNULL)
        time.sleep(WARM_SECONDS)
        before, engine_before = cpu_seconds(process.pid), cpu_seconds(daemon)
        time.sleep(MEASURED_SECONDS)
        ours, of_engine = cpu_seconds(process.pid) - before, cpu_seconds(daemon) - engine_before
        process.terminate()
        drain.wait()
    note_engine(of_engine / MEASURED_SECONDS)
    return ours / MEASURED_SECONDS


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process with all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_A_SECOND


def add(some: Sequence[float], others: Sequence[float]) -> list[float]:
    return [one + other for one, other in zip(some, others, strict=True)]
