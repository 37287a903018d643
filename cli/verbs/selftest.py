"""`jobtop selftest`: runs loads of known cost, and checks what jobtop measures of them."""

import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from jobtop.cli.app import App
from jobtop.cli.text.tables import TableColumn, format_options, print_records, table
from jobtop.core.errors import BadValue, ExitCode, did_you_mean
from jobtop.core.model import SCHEMA_VERSION, Job, Sample
from jobtop.core.paths import StatePaths
from jobtop.core.selftest.cases import CASES, Case
from jobtop.core.selftest.judge import CheckResult, Verdict
from jobtop.core.selftest.suite import CaseResult, Suite, temporary_home
from jobtop.core.units import ABSENT, format_bytes, format_duration
from jobtop.store.database import open_to_read
from jobtop.store.samples.curves import Curves

COLUMNS = (
    TableColumn("LOAD", widest=60),
    TableColumn("WHAT"),
    TableColumn("EXPECTED", right=True),
    TableColumn("MEASURED", right=True),
    TableColumn("ERROR", right=True),
    TableColumn("SOURCE"),
    TableColumn("VERDICT", widest=100),
)


@click.command()
@click.option("--only", "names", multiple=True, metavar="NAME", help="Run only this case; may be repeated.")
@click.option("--list", "listing", is_flag=True, help="List the cases, and run none.")
@format_options
@click.pass_obj
def selftest(app: App, names: tuple[str, ...], listing: bool, style: str) -> int:
    """Run loads of known cost, and compare that cost with what jobtop measures.

    Takes about half a minute, on a busy machine some minutes, and does not touch your history.
    The exit code is 1 if a number is wrong.
    """
    cases = select_cases(names)
    if listing:
        print_cases(cases, style)
        return ExitCode.OK
    begin = time.monotonic()
    results = run_cases(cases, app.sets)
    seconds = time.monotonic() - begin
    if style == "table":
        listed = [result for result in results if is_listed(result)]
        print(table(COLUMNS, map(result_row, listed)))
        print(f"\n{counts_text(results, len(results) - len(listed))}, in {format_duration(seconds)}")
    elif style == "json":
        print_records(style, [suite_json(results, seconds)], single=True)
    else:
        print_records(style, [result.to_json() for result in results])
    return ExitCode.BAD_ANSWER if count_verdict(results, Verdict.FAIL) else ExitCode.OK


def select_cases(names: Sequence[str]) -> list[Case]:
    """Return the cases with these names; all cases if none is named."""
    known = [case.name for case in CASES]
    for name in names:
        if name not in known:
            raise BadValue(f"--only {name}: there is no such case{did_you_mean(name, known)}; see selftest --list")
    return [case for case in CASES if not names or case.name in names]


def print_cases(cases: Sequence[Case], style: str) -> None:
    if style == "table":
        print(table((TableColumn("NAME"), TableColumn("LOAD", widest=60)), ((case.name, case.title) for case in cases)))
    else:
        print_records(style, [{"name": case.name, "load": case.title} for case in cases])


def run_cases(cases: Sequence[Case], sets: Sequence[str]) -> list[CaseResult]:
    """Run the cases and return their results; on any exit the jobs are ended and the temporary home is removed."""
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    progress = progress_line() if os.isatty(2) else None
    try:
        with temporary_home() as home:
            return Suite(home, sets, progress or (lambda *_: None), read_samples).run(cases)
    finally:
        if progress is not None:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
        signal.signal(signal.SIGTERM, before)


def read_samples(state: Path, job: Job) -> Sequence[Sample]:
    """Return the samples of a job as the verbs show them, including its start and its end."""
    database = open_to_read(StatePaths(state, job.host).store)
    try:
        return Curves(database).follow(job, None).samples
    finally:
        database.close()


def progress_line() -> Callable[[int, int, str], None]:
    """Return a function that overwrites a progress line on standard error."""

    def write(done: int, total: int, title: str) -> None:
        filled = round(20 * done / total)
        bar = "█" * filled + "░" * (20 - filled)
        print(f"\r\x1b[K{bar} {done} of {total}  {title}", end="", file=sys.stderr, flush=True)

    return write


def suite_json(results: Sequence[CaseResult], seconds: float) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        "passed": count_verdict(results, Verdict.PASS),
        "failed": count_verdict(results, Verdict.FAIL),
        "skipped": count_verdict(results, Verdict.SKIPPED),
        "duration_seconds": round(seconds, 3),
        "results": [result.to_json() for result in results],
    }


def count_verdict(results: Sequence[CaseResult], verdict: Verdict) -> int:
    return sum(result.check.verdict is verdict for result in results)


def counts_text(results: Sequence[CaseResult], unlisted: int) -> str:
    passed, failed, skipped = (count_verdict(results, verdict) for verdict in Verdict)
    text = f"{passed} of {passed + failed} right"
    text += f", {unlisted} of them exit codes that are not listed" if unlisted else ""
    return text + (f", {skipped} skipped" if skipped else "")


def is_listed(result: CaseResult) -> bool:
    """Return whether a result is listed; a correct exit status is not, unless it is the only check of the case."""
    return result.check.what != "outcome" or result.check.verdict is Verdict.FAIL or not result.case.checks


def result_row(result: CaseResult) -> tuple[str, ...]:
    check = result.check
    verdict = str(check.verdict)
    if check.verdict is not Verdict.PASS and check.reason:
        verdict += f": {check.reason}"
    relation = "" if check.relation == "=" else f"{check.relation} "
    return (
        result.case.title + (", no cgroup" if result.without_cgroup else ""),
        check.what,
        relation + format_quantity(check.expected, check),
        format_quantity(check.measured, check),
        ABSENT if check.error_ratio is None else f"{100 * check.error_ratio:+.2f} %",
        check.source or ABSENT,
        verdict,
    )


def format_quantity(value: float | str | None, check: CheckResult) -> str:
    """Format a value by its unit; seconds have more digits than elsewhere, because small differences matter here."""
    if value is None:
        return ABSENT
    if isinstance(value, str):
        return value
    if check.unit == "seconds":
        return f"{value:.3f}s"
    if check.unit == "percent":
        return f"{value:.2f} %"
    return format_bytes(value) if check.unit == "bytes" else f"{value:g}"
