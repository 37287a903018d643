"""`python -m benchmarks`: measures what was asked for, prints the table and writes the JSON file.

A missed bound is marked and does not fail; only what could not be measured does.
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
from benchmarks.console import measure_console
from benchmarks.hosts import measure_hosts
from benchmarks.imports import measure_imports
from benchmarks.installation import BUILD, Installation, installation
from benchmarks.memory import measure_memory
from benchmarks.output import measure_output
from benchmarks.queue import measure_queue
from benchmarks.report import MeasurementError, Result, document, table
from benchmarks.retention import measure_retention
from benchmarks.search import measure_search
from benchmarks.start import measure_run, measure_version
from benchmarks.stopwatch import adopt_orphans
from benchmarks.storage import measure_storage
from benchmarks.ticks import measure_ticks
from benchmarks.watching import measure_watching

Measure = Callable[[Installation, Path, int], Iterator[Result]]
# Each with its rounds: the short ones vary most.
MEASURES: dict[str, tuple[Measure, int]] = {
    "run": (measure_run, 21),
    "version": (measure_version, 31),
    "memory": (measure_memory, 3),
    "output": (measure_output, 3),
    "storage": (measure_storage, 11),
    "ticks": (measure_ticks, 20),
    "watching": (measure_watching, 3),
    "console": (measure_console, 9),
    "hosts": (measure_hosts, 7),
    "queue": (measure_queue, 21),
    "retention": (measure_retention, 1),
    "search": (measure_search, 21),
    "imports": (measure_imports, 5),
}
BREAKDOWN_ROUNDS = 11


def main(words: Sequence[str] | None = None) -> int:
    """Measure, print, write; 1 if something could not be measured."""
    arguments = parse(words)
    BUILD.mkdir(exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix="bench-work-", dir=BUILD))
    try:
        tools = installation()
        results = [result for name in arguments.only for result in measured(name, tools, work, arguments.rounds)]
        print(table(results), flush=True)
        details, explanation, explained = (
            explained_run(tools, work) if "breakdown" in arguments.only else ({}, "", True)
        )
    except MeasurementError as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(work)
    if explanation:
        print(f"\n{explanation}")
    arguments.json.write_text(json.dumps(document(results, machine(tools), details), indent=2) + "\n")
    missed = sum(result.kept is False for result in results)
    print(f"\n{f'bounds MISSED: {missed}' if missed else 'every bound kept'}; all samples are in {arguments.json}")
    if os.getloadavg()[0] > (os.cpu_count() or 1):
        print(f"the machine was busy (load average {os.getloadavg()[0]:.1f}): a quiet one gives better numbers")
    return 0 if explained and all(result.problem is None for result in results) else 1


def parse(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure what jobtop itself costs.")
    choices = [*MEASURES, "breakdown"]
    parser.add_argument("--only", nargs="+", choices=choices, default=choices, help="measure only these")
    parser.add_argument("--rounds", type=int, help="repetitions of each, instead of what suits it")
    parser.add_argument("--json", type=Path, default=BUILD / "bench.json", help="where to write the JSON file")
    return parser.parse_args(words)


def measured(name: str, tools: Installation, work: Path, rounds: int | None) -> Iterator[Result]:
    """The results of one measure; one that fails is a result too."""
    if name not in MEASURES:
        return
    measure, suitable_rounds = MEASURES[name]
    print(f"measuring: {name}", file=sys.stderr, flush=True)
    try:
        yield from measure(tools, work, rounds or suitable_rounds)
    except (MeasurementError, OSError, subprocess.SubprocessError) as error:
        yield Result(name, "seconds", problem=str(error))


def explained_run(tools: Installation, work: Path) -> tuple[dict[str, object], str, bool]:
    """Where the time goes, for the file and for the screen, and whether that could be found out."""
    print("measuring: breakdown", file=sys.stderr, flush=True)
    try:
        line = breakdown.time_line(tools, work, BREAKDOWN_ROUNDS)
        imports = breakdown.slowest_imports(tools, work, BREAKDOWN_ROUNDS)
    except (MeasurementError, OSError, subprocess.SubprocessError) as error:
        return {}, f"where the time goes: NOT MEASURED: {error}", False
    return {"time_line": line, "slowest_imports": imports}, breakdown.words(line, imports), True


def machine(tools: Installation) -> dict[str, object]:
    """What the numbers depend on beside jobtop."""
    code = "import importlib.metadata as m; print(m.version('jobtop'), m.version('con-duct'))"
    asked = subprocess.run([tools.tool("python"), "-c", code], capture_output=True, text=True, check=True)
    jobtop, con_duct = asked.stdout.split()
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
