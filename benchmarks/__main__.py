"""`python -m benchmarks`: runs the chosen measurements, prints a table and writes a JSON file.

A missed bound is only marked; the exit code is 1 if something could not be measured.
"""

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from benchmarks import breakdown
from benchmarks.alerts import measure_alerts
from benchmarks.console import measure_console
from benchmarks.containers import measure_containers
from benchmarks.hosts import measure_hosts
from benchmarks.imports import measure_imports
from benchmarks.installation import BUILD, Installation, installation
from benchmarks.memory import measure_memory
from benchmarks.output import measure_output
from benchmarks.queue import measure_queue
from benchmarks.report import BenchmarkResult, MeasurementError, results_json, table
from benchmarks.retention import measure_retention
from benchmarks.search import measure_search
from benchmarks.start import measure_run, measure_version
from benchmarks.stopwatch import adopt_orphans
from benchmarks.storage import measure_storage
from benchmarks.ticks import measure_ticks
from benchmarks.training import measure_training
from benchmarks.watching import measure_watching
from benchmarks.workflows import measure_workflows

Measure = Callable[[Installation, Path, int], Iterator[BenchmarkResult]]
# Each measurement with its number of rounds: short ones vary most.
MEASURES: dict[str, tuple[Measure, int]] = {
    "run": (measure_run, 21),
    "version": (measure_version, 31),
    "memory": (measure_memory, 3),
    "output": (measure_output, 3),
    "storage": (measure_storage, 11),
    "ticks": (measure_ticks, 20),
    "alerts": (measure_alerts, 20),
    "watching": (measure_watching, 3),
    "containers": (measure_containers, 3),
    "training": (measure_training, 1),
    "console": (measure_console, 9),
    "hosts": (measure_hosts, 7),
    "queue": (measure_queue, 21),
    "workflows": (measure_workflows, 21),
    "retention": (measure_retention, 1),
    "search": (measure_search, 21),
    "imports": (measure_imports, 5),
}
BREAKDOWN_ROUNDS = 11


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print and write the results; return 1 if something could not be measured."""
    arguments = parse(argv)
    BUILD.mkdir(exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix="bench-work-", dir=BUILD))
    try:
        tools = installation()
        results = [result for name in arguments.only for result in run_measure(name, tools, work, arguments.rounds)]
        print(table(results), flush=True)
        details, explanation, explained = (
            measure_breakdown(tools, work) if "breakdown" in arguments.only else ({}, "", True)
        )
    except MeasurementError as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(work)
    if explanation:
        print(f"\n{explanation}")
    arguments.json.write_text(json.dumps(results_json(results, machine(tools), details), indent=2) + "\n")
    missed = sum(result.is_bound_kept is False for result in results)
    print(f"\n{f'bounds MISSED: {missed}' if missed else 'every bound kept'}; all samples are in {arguments.json}")
    if os.getloadavg()[0] > (os.cpu_count() or 1):
        print(f"the machine was busy (load average {os.getloadavg()[0]:.1f}): a quiet one gives better numbers")
    return 0 if explained and all(result.problem is None for result in results) else 1


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure what jobtop itself costs.")
    choices = [*MEASURES, "breakdown"]
    parser.add_argument("--only", nargs="+", choices=choices, default=choices, help="measure only these")
    parser.add_argument("--rounds", type=int, help="repetitions of each, instead of what suits it")
    parser.add_argument("--json", type=Path, default=BUILD / "bench.json", help="where to write the JSON file")
    return parser.parse_args(argv)


def run_measure(name: str, tools: Installation, work: Path, rounds: int | None) -> Iterator[BenchmarkResult]:
    """Yield the results of one measurement; a failure is a result too."""
    if name not in MEASURES:
        return
    measure, suitable_rounds = MEASURES[name]
    print(f"measuring: {name}", file=sys.stderr, flush=True)
    try:
        yield from measure(tools, work, rounds or suitable_rounds)
    except (MeasurementError, OSError, subprocess.SubprocessError) as error:
        yield BenchmarkResult(name, "seconds", problem=str(error))


def measure_breakdown(tools: Installation, work: Path) -> tuple[dict[str, object], str, bool]:
    """Return where the time goes, as data and as text, and whether it could be measured."""
    print("measuring: breakdown", file=sys.stderr, flush=True)
    try:
        line = breakdown.time_line(tools, work, BREAKDOWN_ROUNDS)
        imports = breakdown.slowest_imports(tools, work, BREAKDOWN_ROUNDS)
    except (MeasurementError, OSError, subprocess.SubprocessError) as error:
        return {}, f"where the time goes: NOT MEASURED: {error}", False
    return {"time_line": line, "slowest_imports": imports}, breakdown.breakdown_text(line, imports), True


def machine(tools: Installation) -> dict[str, object]:
    """Return what the numbers depend on besides jobtop."""
    code = "import importlib.metadata as m; print(m.version('jobtop'), m.version('con-duct'))"
    versions = subprocess.run([tools.tool("python"), "-c", code], capture_output=True, text=True, check=True)
    jobtop, con_duct = versions.stdout.split()
    return {
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
        "jobtop": jobtop,
        "con_duct": con_duct,
        "cpus": os.cpu_count(),
        "load_average": os.getloadavg(),
        "root": os.geteuid() == 0,
    }


if __name__ == "__main__":
    adopt_orphans()
    sys.exit(main())
