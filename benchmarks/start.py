"""Measures start-up time: `jobtop run -- true` compared with con-duct, `jobtop --version` with bare Python."""

import sqlite3
from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path

from benchmarks.installation import Installation, environment
from benchmarks.report import BenchmarkResult, MeasurementError
from benchmarks.stopwatch import measure_in_turns, wall_and_lingering_seconds, wall_seconds

PAST_JOBS = 300
RUN_TRUE = ("run", "--no-ui", "--", "true")


def measure_run(tools: Installation, work: Path, pairs: int) -> Iterator[BenchmarkResult]:
    """Measure `run` with a store of many jobs, and with one that the run has to create."""
    number = count()
    jobtop = [tools.tool("jobtop"), *RUN_TRUE]
    old = environment(work) | {"JOBTOP_HOME": str(work / "old")}
    make_past(jobtop, old, work)

    def con_duct() -> float:
        prefix = str(work / f"duct-{next(number)}-")
        return wall_seconds([tools.tool("con-duct"), "run", "-p", prefix, "true"], environment(work), work)

    def fresh() -> float:
        return wall_seconds(jobtop, old | {"JOBTOP_HOME": str(work / f"new-{next(number)}")}, work)

    until_all_gone: list[float] = []

    def with_past() -> float:
        wall, lingering = wall_and_lingering_seconds(jobtop, old, work)
        until_all_gone.append(lingering)
        return wall

    samples = measure_in_turns({"duct": con_duct, "old": with_past, "fresh": fresh}, pairs)
    rival = "con-duct run true"
    what = "jobtop run --no-ui -- true"
    yield BenchmarkResult(
        f"{what}, a store of {PAST_JOBS} jobs", "seconds", samples["old"], samples["duct"], rival, bound=0.75
    )
    yield BenchmarkResult("  until its shim is gone too", "seconds", until_all_gone[-pairs:], samples["duct"], rival)
    yield BenchmarkResult(f"{what}, a new store", "seconds", samples["fresh"], samples["duct"], rival, bound=0.75)


def measure_version(tools: Installation, work: Path, pairs: int) -> Iterator[BenchmarkResult]:
    commands = {"version": [tools.tool("jobtop"), "--version"], "bare": [tools.tool("python"), "-c", "pass"]}
    env = environment(work)
    timings = {name: partial(wall_seconds, command, env, work) for name, command in commands.items()}
    samples = measure_in_turns(timings, pairs)
    yield BenchmarkResult(
        "jobtop --version", "seconds", samples["version"], samples["bare"], "python -c pass", bound=2.5
    )


def make_past(jobtop: list[str], env: dict[str, str], work: Path) -> None:
    """Run one job and copy its rows until the store has PAST_JOBS jobs."""
    wall_seconds(jobtop, env, work)
    (store,) = Path(env["JOBTOP_HOME"]).glob("*.db")
    connection = sqlite3.connect(store, isolation_level=None)
    try:
        columns = [str(row[1]) for row in connection.execute("PRAGMA table_info(jobs)") if row[1] not in ("seq", "id")]
        names = ", ".join(columns)
        connection.execute("BEGIN IMMEDIATE")
        for _ in range(PAST_JOBS - 1):
            copied = connection.execute(
                f"INSERT INTO jobs (id, {names}) SELECT lower(hex(randomblob(16))), {names} FROM jobs LIMIT 1"
            ).lastrowid
            connection.execute(
                "INSERT INTO events (job_seq, at, kind, detail) SELECT ?, at, kind, detail FROM events"
                " WHERE job_seq = (SELECT min(seq) FROM jobs)",
                (copied,),
            )
        connection.execute("COMMIT")
    except sqlite3.Error as error:
        raise MeasurementError(f"a store with a past could not be made: {error}") from error
    finally:
        connection.close()
