"""Shows where the time of `jobtop run -- true` goes: a time line of observable events, and the slowest imports."""

import json
import re
import subprocess
import time
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from statistics import median

from benchmarks.installation import Installation, environment
from benchmarks.report import MeasurementError, aligned
from benchmarks.start import RUN_TRUE
from benchmarks.stopwatch import LONGEST_SECONDS, wait_for_orphans

# Runs jobtop and records the times of Python's audit events, of commits of the store, and of its end.
OBSERVER = """\
import os, sys, time
IMPORTS = (
    "click",
    "_sqlite3",
    "jobtop.cli.verbs.run",
    "jobtop.lifecycle.recorder",
)
log = os.open(sys.argv.pop(1), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
def note(what):
    os.write(log, f"{time.time():.6f} {what}\\n".encode())
def on_audit_event(event, arguments):
    if event == "os.posix_spawn":
        note("the shim is spawned")
    elif event == "import" and arguments[0] in IMPORTS:
        note(f"import of {arguments[0]} begins")
    # In the audit event of its creation, a connection cannot be used yet.
    connect = getattr(sys.modules.get("_sqlite3"), "connect", None)
    if connect not in (None, observed_connect):
        connects.append(connect)
        sys.modules["_sqlite3"].connect = observed_connect
connects = []
def observed_connect(*arguments, **options):
    note("the store is opened")
    connection = connects[0](*arguments, **options)
    connection.set_trace_callback(lambda sql: note("the store commits") if sql == "COMMIT" else None)
    return connection
note("python is up")
sys.addaudithook(on_audit_event)
leave = os._exit
def left(code):
    note("main returns")
    leave(code)
os._exit = left
from jobtop.__main__ import main
code = main()
note("main returns")
sys.exit(code)
"""


def time_line(tools: Installation, work: Path, rounds: int) -> list[tuple[str, float]]:
    """Return events with their median times in seconds since the start of the command, in order."""
    _observe(tools, work)  # makes the store
    moments: dict[str, list[float]] = {}
    for _ in range(rounds):
        for what, at in _observe(tools, work):
            moments.setdefault(what, []).append(at)
    return sorted(((what, median(times)) for what, times in moments.items()), key=lambda item: item[1])


def slowest_imports(tools: Installation, work: Path, rounds: int, limit: int = 15) -> list[tuple[str, float, float]]:
    """Return modules with the median seconds of their import, with and without nested imports; slowest first."""
    command = [tools.tool("python"), "-X", "importtime", tools.tool("jobtop"), *RUN_TRUE]
    seen: dict[str, list[tuple[float, float]]] = {}
    for _ in range(rounds):
        finished = subprocess.run(
            command,
            env=environment(work),
            cwd=work,
            capture_output=True,
            text=True,
            timeout=LONGEST_SECONDS,
            check=True,
        )
        wait_for_orphans()
        pattern = r"^import time:\s+(\d+) \|\s+(\d+) \|\s+(\S+)$"
        for own, cumulative, module in re.findall(pattern, finished.stderr, re.MULTILINE):
            seen.setdefault(module, []).append((int(cumulative) / 1e6, int(own) / 1e6))
    rows = [(module, *(median(column) for column in zip(*times, strict=True))) for module, times in seen.items()]
    ordered = sorted(((module, both[0], both[1]) for module, *both in rows), key=lambda row: -row[1])
    return ordered[:limit]


def breakdown_text(line: Iterable[tuple[str, float]], imports: Iterable[tuple[str, float, float]]) -> str:
    """Return both as tables, in milliseconds."""
    rows, before = [("jobtop run -- true, ms", "at", "took", "")], 0.0
    for what, at in line:
        rows.append((what, f"{at * 1000:.1f}", f"{(at - before) * 1000:.1f}", ""))
        before = at
    slowest = [("slowest imports, ms", "with nested", "own", "")]
    slowest += [(module, f"{all_ * 1000:.1f}", f"{own * 1000:.1f}", "") for module, all_, own in imports]
    return f"{aligned(rows)}\n\n{aligned(slowest)}"


def _observe(tools: Installation, work: Path) -> list[tuple[str, float]]:
    """Observe one run; return its events with their times, repeated events numbered."""
    notes, record = work / "notes", work / "record.json"
    notes.unlink(missing_ok=True)
    options = [*RUN_TRUE[:-2], "--record", str(record), *RUN_TRUE[-2:]]
    begin = time.time()
    subprocess.run(
        [tools.tool("python"), "-c", OBSERVER, str(notes), *options],
        env=environment(work),
        cwd=work,
        capture_output=True,
        timeout=LONGEST_SECONDS,
        check=True,
    )
    end = time.time()
    wait_for_orphans()
    moments, times_seen = [("the process is gone", end)], dict[str, int]()
    for line in notes.read_text().splitlines():
        at, _, what = line.partition(" ")
        times_seen[what] = times_seen.get(what, 0) + 1
        moments.append((what if times_seen[what] == 1 else f"{what} ({times_seen[what]})", float(at)))
    job = json.loads(record.read_text())
    if job["seq"] is None:
        raise MeasurementError("the observed job was not recorded")
    for key, what in (("start_time", "the job starts"), ("end_time", "the job has ended")):
        moments.append((what, datetime.fromisoformat(job[key]).timestamp()))
    return [(what, at - begin) for what, at in moments]
