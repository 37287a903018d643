"""Measures the console in a real terminal: busy, idle, time to its first row, and from a key to the response."""

import re
import shutil
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from random import Random
from statistics import quantiles

from benchmarks.display import Display, TerminalScreen, display
from benchmarks.installation import Installation, environment
from benchmarks.report import BenchmarkResult, MeasurementError
from benchmarks.stopwatch import measure_in_turns
from jobtop.core.paths import hostname

MIB = 2**20
JOBS, FEW_JOBS, BUSY_JOBS = 1000, 14, 40
SETTLING_SECONDS, MEASURED_SECONDS = 8.0, 20.0
LONGEST_SECONDS = 600
PRESSES, LATE_PERCENT = 200, 95
PAST_JOBS, PAGES = 100_000, 60
PAGE_DOWN = "\x1b[6~"
NAME = re.compile(r"job-\d+")
CURSOR = "▌"
FIRST_ROW = "job-"
# A minimal program to compare with: a table with as many rows.
MINIMAL = """
from textual.app import App
from textual.widgets import DataTable

class Minimal(App):
    def compose(self):
        yield DataTable()

    def on_mount(self):
        table = self.query_one(DataTable)
        table.add_columns("id", "name", "state", "time", "cpu", "mem")
        for number in range(14):
            table.add_row(str(number), f"job-{number:04d}", "running", "05:00", "100", "1.0G")

Minimal().run()
"""


def measure_console(tools: Installation, work: Path, rounds: int) -> Iterator[BenchmarkResult]:
    yield from measure_first_row(tools, work, rounds)
    yield measure_idle(tools, work)
    yield measure_bytes(tools, work, rounds)
    yield from measure_crowd(tools, work)
    yield from measure_history(tools, work)


def measure_first_row(tools: Installation, work: Path, rounds: int) -> Iterator[BenchmarkResult]:
    """Measure the time from the start of the program until the first row of its table is shown."""
    script = work / "minimal.py"
    script.write_text(MINIMAL)
    env = home(work, "few")
    with crowd(tools, env, FEW_JOBS, 0):
        turns = {
            "ours": lambda: seconds_to_first_row([tools.tool("jobtop")], env),
            "minimal": lambda: seconds_to_first_row([tools.tool("python"), str(script)], env),
        }
        samples = measure_in_turns(turns, rounds)
    rival = "a minimal Textual app"
    yield BenchmarkResult(
        "jobtop, until the first row is shown", "seconds", samples["ours"], samples["minimal"], rival, 1.3
    )


def measure_idle(tools: Installation, work: Path) -> BenchmarkResult:
    """Measure the CPU time of a console that shows only ended jobs."""
    env = home(work, "idle")
    with crowd(tools, env, FEW_JOBS, 0, "success"), display([tools.tool("jobtop")], env) as shown:
        settle(shown)
        return BenchmarkResult("jobtop, idle: CPU time a second", "seconds", [cpu_per_second(shown)], bound=0.01)


def measure_bytes(tools: Installation, work: Path, rounds: int) -> BenchmarkResult:
    """Measure what is written to the terminal for 40 live jobs, and what btop writes at the same refresh interval."""
    what, env = f"jobtop, {BUSY_JOBS} live jobs: written to the terminal a second", home(work, "busy")
    if (btop := shutil.which("btop")) is None:
        return BenchmarkResult(what, "bytes", problem="btop is not installed")
    rival = [btop, "--update", "1000"] if takes_update(btop) else [btop]
    ours, others = [], []
    with crowd(tools, env, BUSY_JOBS, LONGEST_SECONDS):
        for _ in range(min(rounds, 3)):
            with display([tools.tool("jobtop")], env, lines=45) as shown:
                settle(shown)
                ours.append(bytes_per_second(shown))
            with display(rival, btop_settings(work), lines=45) as shown:
                shown.watch(SETTLING_SECONDS)
                others.append(bytes_per_second(shown))
    return BenchmarkResult(what, "bytes", ours, others, "btop", bound=1.3)


def takes_update(btop: str) -> bool:
    """Whether this btop has an option for its refresh interval; older ones have only the setting."""
    return "--update" in subprocess.run([btop, "--help"], capture_output=True, text=True, check=False).stdout


def btop_settings(work: Path) -> dict[str, str]:
    """An environment in which btop refreshes its picture every second."""
    settings = work / "btop-settings"
    (settings / "btop").mkdir(parents=True, exist_ok=True)
    (settings / "btop/btop.conf").write_text("update_ms = 1000\n")
    return environment(work) | {"XDG_CONFIG_HOME": str(settings)}


def measure_crowd(tools: Installation, work: Path) -> Iterator[BenchmarkResult]:
    """Measure a console with 1,000 jobs of which every number changes each second."""
    env = home(work, "many")
    with crowd(tools, env, JOBS, LONGEST_SECONDS), display([tools.tool("jobtop")], env) as shown:
        settle(shown)
        what = f"jobtop, {JOBS:,} live jobs"
        yield BenchmarkResult(f"{what}: CPU time a second", "seconds", [cpu_per_second(shown)], bound=0.06)
        yield BenchmarkResult("  resident memory", "bytes", [shown.resident_bytes()], bound=70 * MIB)
        yield BenchmarkResult("  written to the terminal a second", "bytes", [bytes_per_second(shown)])
        times = key_times(shown)
        late = quantiles(times, n=100)[LATE_PERCENT - 1]
        yield BenchmarkResult(f"  a key answered, {LATE_PERCENT} % of {PRESSES}", "seconds", [late], bound=0.1)
        yield BenchmarkResult("  usually", "seconds", times)
        yield BenchmarkResult("  resident memory afterwards", "bytes", [shown.resident_bytes()], bound=70 * MIB)


def measure_history(tools: Installation, work: Path) -> Iterator[BenchmarkResult]:
    """Measure the time from a page-down key until all rows show other jobs."""
    env = home(work, "past")
    with crowd(tools, env, FEW_JOBS, 0, "success"):
        multiply(Path(env["JOBTOP_HOME"]), PAST_JOBS)
    with display([tools.tool("jobtop")], env) as shown:
        settle(shown)
        shown.press("2")
        shown.until(lambda screen: len(job_names(screen)) > FEW_JOBS, "the history")
        shown.watch(SETTLING_SECONDS)
        times = []
        for _ in range(PAGES):
            before = job_names(shown.screen)
            pressed = time.perf_counter()
            shown.press(PAGE_DOWN)
            times.append(shown.until(partial(shows_other_jobs, before), "other jobs") - pressed)
            shown.watch(0.1)
        what = f"jobtop, a history of {PAST_JOBS:,} jobs: a page down"
        late = quantiles(times, n=100)[LATE_PERCENT - 1]
        yield BenchmarkResult(what, "seconds", times, bound=0.05)
        yield BenchmarkResult(f"  {LATE_PERCENT} % of {PAGES}", "seconds", [late])
        yield BenchmarkResult("  resident memory", "bytes", [shown.resident_bytes()])


def multiply(state: Path, count: int) -> None:
    """Copy the rows of a store until it has `count` jobs, each with its own name and start time."""
    (store,) = state.glob("*.db")
    with closing(sqlite3.connect(store)) as connection, connection:
        own = ("seq", "id", "name", "start_time", "touched")
        rest = [row[1] for row in connection.execute("PRAGMA table_info(jobs)") if row[1] not in own]
        kept = ", ".join(rest)
        connection.execute(
            f"WITH RECURSIVE n(i) AS (SELECT {FEW_JOBS} UNION ALL SELECT i + 1 FROM n WHERE i + 1 < {count})"
            f" INSERT INTO jobs (id, name, start_time, touched, {kept})"
            " SELECT lower(hex(randomblob(16))), printf('job-%06d', i), start_time - 60 * i, i,"
            f" {kept} FROM n JOIN jobs ON seq = 1 + i % {FEW_JOBS}"
        )


def job_names(screen: TerminalScreen) -> list[str]:
    return NAME.findall(screen.text())


def shows_other_jobs(before: list[str], screen: TerminalScreen) -> bool:
    """Return whether as many jobs are shown as before, and the first is another one."""
    now = job_names(screen)
    return len(now) >= len(before) and now[0] != before[0]


def home(work: Path, name: str) -> dict[str, str]:
    return environment(work) | {"JOBTOP_HOME": str(work / f"console-{name}")}


@contextmanager
def crowd(
    tools: Installation, env: dict[str, str], count: int, seconds: float, status: str = "running"
) -> Iterator[None]:
    """Make a store with `count` jobs, sampled for `seconds` by a separate process."""
    script = str(Path(__file__).with_name("crowd.py"))
    command = [tools.tool("python"), "-P", script, env["JOBTOP_HOME"], hostname(), status, str(count), str(seconds)]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            raise MeasurementError("a store with live jobs could not be made")
        try:
            yield
        finally:
            process.kill()


def seconds_to_first_row(command: list[str], env: dict[str, str]) -> float:
    with display(command, env) as shown:
        return shown.until(lambda screen: FIRST_ROW in screen.text(), "a row") - shown.began


def settle(shown: Display) -> None:
    """Wait until the console has read and painted everything several times."""
    shown.until(lambda screen: FIRST_ROW in screen.text(), "a row")
    shown.watch(SETTLING_SECONDS)


def cpu_per_second(shown: Display) -> float:
    before, began = shown.cpu_seconds(), time.perf_counter()
    shown.watch(MEASURED_SECONDS)
    return (shown.cpu_seconds() - before) / (time.perf_counter() - began)


def bytes_per_second(shown: Display) -> float:
    before, began = shown.bytes_received, time.perf_counter()
    shown.watch(MEASURED_SECONDS / 4)
    return (shown.bytes_received - before) / (time.perf_counter() - began)


def key_times(shown: Display) -> list[float]:
    """Measure the time from a key to the cursor in another row: down and up in turn, at random times."""
    rng = Random(1)
    times = []
    for number in range(PRESSES):
        before = cursor_row(shown.screen)
        pressed = time.perf_counter()
        shown.press("jk"[number % 2])
        answered = shown.until(partial(is_in_other_row, before), "the cursor in another row")
        times.append(answered - pressed)
        shown.watch(0.05 + 0.1 * rng.random())
    return times


def is_in_other_row(row: int | None, screen: TerminalScreen) -> bool:
    return cursor_row(screen) not in (None, row)


def cursor_row(screen: TerminalScreen) -> int | None:
    return next((number for number, row in enumerate(screen.rows) if CURSOR in row[:4]), None)
