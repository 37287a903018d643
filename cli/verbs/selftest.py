"""`jobtop selftest`: loads of known cost under jobtop, what was measured of them, and whether that is right."""

import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from jobtop.cli.app import App
from jobtop.cli.text.tables import Column, format_options, print_shapes, table
from jobtop.core.errors import BadValue, ExitCode, did_you_mean
from jobtop.core.model import SCHEMA_VERSION, Job, Sample
from jobtop.core.paths import StatePaths
from jobtop.core.selftest.cases import CASES, Case
from jobtop.core.selftest.judge import Finding, Verdict
from jobtop.core.selftest.suite import Result, Suite, temporary_home
from jobtop.core.units import ABSENT, format_bytes, format_duration
from jobtop.store.database import open_to_read
from jobtop.store.samples.curves import Curves

COLUMNS = (
    Column("LOAD", widest=60),
    Column("WHAT"),
    Column("EXPECTED", right=True),
    Column("MEASURED", right=True),
    Column("ERROR", right=True),
    Column("SOURCE"),
    Column("VERDICT", widest=100),
)


@click.command()
@click.option("--only", "names", multiple=True, metavar="NAME", help="Only this case; may be repeated.")
@click.option("--list", "listing", is_flag=True, help="Print the names of the cases, and run none.")
@format_options
@click.pass_obj
def selftest(app: App, names: tuple[str, ...], listing: bool, style: str) -> int:
    """Run loads whose cost is known, and compare it with what jobtop measures.

    Takes about half a minute and nothing of your history. The exit code is 1 if a number is wrong.
    """
    cases = chosen(names)
    if listing:
        print_cases(cases, style)
        return ExitCode.OK
    begun = time.monotonic()
    results = run(cases, app.sets)
    seconds = time.monotonic() - begun
    if style == "table":
        listed = [result for result in results if is_worth_a_row(result)]
        print(table(COLUMNS, map(row, listed)))
        print(f"\n{count_words(results, len(results) - len(listed))}, in {format_duration(seconds)}")
    elif style == "json":
        print_shapes(style, [whole(results, seconds)], single=True)
    else:
        print_shapes(style, [result.to_json() for result in results])
    return ExitCode.BAD_ANSWER if counted(results, Verdict.FAIL) else ExitCode.OK


def chosen(names: Sequence[str]) -> list[Case]:
    """The cases of these names, all of them without any."""
    known = [case.name for case in CASES]
    for name in names:
        if name not in known:
            raise BadValue(f"--only {name}: there is no such case{did_you_mean(name, known)}; see selftest --list")
    return [case for case in CASES if not names or case.name in names]


def print_cases(cases: Sequence[Case], style: str) -> None:
    if style == "table":
        print(table((Column("NAME"), Column("LOAD", widest=60)), ((case.name, case.title) for case in cases)))
    else:
        print_shapes(style, [{"name": case.name, "load": case.title} for case in cases])


def run(cases: Sequence[Case], sets: Sequence[str]) -> list[Result]:
    """The results; whatever ends us, the jobs are ended and the temporary home is removed."""
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    progress = progress_line() if os.isatty(2) else None
    try:
        with temporary_home() as home:
            return Suite(home, sets, progress or (lambda *_: None), samples_of).run(cases)
    finally:
        if progress is not None:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
        signal.signal(signal.SIGTERM, before)


def samples_of(state: Path, job: Job) -> Sequence[Sample]:
    """The samples of a job as the verbs show them, both ends included."""
    database = open_to_read(StatePaths(state, job.host).store)
    try:
        return Curves(database).follow(job, None).samples
    finally:
        database.close()


def progress_line() -> Callable[[int, int, str], None]:
    """Writes one line over the one before."""

    def write(done: int, total: int, title: str) -> None:
        filled = round(20 * done / total)
        bar = "█" * filled + "░" * (20 - filled)
        print(f"\r\x1b[K{bar} {done} of {total}  {title}", end="", file=sys.stderr, flush=True)

    return write


def whole(results: Sequence[Result], seconds: float) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        "passed": counted(results, Verdict.PASS),
        "failed": counted(results, Verdict.FAIL),
        "skipped": counted(results, Verdict.SKIPPED),
        "duration_seconds": round(seconds, 3),
        "results": [result.to_json() for result in results],
    }


def counted(results: Sequence[Result], verdict: Verdict) -> int:
    return sum(result.finding.verdict is verdict for result in results)


def count_words(results: Sequence[Result], unlisted: int) -> str:
    passed, failed, skipped = (counted(results, verdict) for verdict in Verdict)
    words = f"{passed} of {passed + failed} right"
    words += f", {unlisted} of them exit codes that are not listed" if unlisted else ""
    return words + (f", {skipped} skipped" if skipped else "")


def is_worth_a_row(result: Result) -> bool:
    """How a load ended that is about something else is only worth a row if it is wrong."""
    return result.finding.what != "outcome" or result.finding.verdict is Verdict.FAIL or not result.case.checks


def row(result: Result) -> tuple[str, ...]:
    finding = result.finding
    verdict = str(finding.verdict)
    if finding.verdict is not Verdict.PASS and finding.reason:
        verdict += f": {finding.reason}"
    relation = "" if finding.relation == "=" else f"{finding.relation} "
    return (
        result.case.title + (", no cgroup" if result.without_cgroup else ""),
        finding.what,
        relation + shown(finding.expected, finding),
        shown(finding.measured, finding),
        ABSENT if finding.error_ratio is None else f"{100 * finding.error_ratio:+.2f} %",
        finding.source or ABSENT,
        verdict,
    )


def shown(value: float | str | None, finding: Finding) -> str:
    """Seconds with more digits than elsewhere: the difference is what matters here."""
    if value is None:
        return ABSENT
    if isinstance(value, str):
        return value
    if finding.unit == "seconds":
        return f"{value:.3f} s"
    if finding.unit == "percent":
        return f"{value:.2f} %"
    return format_bytes(value) if finding.unit == "bytes" else f"{value:g}"
