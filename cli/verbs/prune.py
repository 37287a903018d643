"""`jobtop prune`: deletes old samples as the settings say, reports what was deleted, and shrinks the file."""

import os
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import click

from jobtop.cli.app import App
from jobtop.cli.selection import confirm, filter_argument, parse_words, yes_option
from jobtop.cli.text.tables import TableColumn, format_options, print_records, table
from jobtop.cli.values import PastMoment
from jobtop.cli.verbs.store import Progress, existing_store, progress_bar
from jobtop.core.clock import iso, local
from jobtop.core.errors import StoreBusy, StoreUnavailable, UnknownJob
from jobtop.core.measure.collectors.proc import identify
from jobtop.core.model import SCHEMA_VERSION, Job, Kept
from jobtop.core.query.conditions import Filter
from jobtop.core.query.filter import LANGUAGE
from jobtop.core.retention import LONG, MACHINE, Policy, Report, longest_rule, policy_warning, read_policy
from jobtop.core.units import ABSENT, format_bytes
from jobtop.lifecycle.reconcile import reconcile
from jobtop.store.database import Database, open_to_write
from jobtop.store.jobs import Jobs, Query
from jobtop.store.upkeep.background_retention import (
    PROTECTED_WORDS,
    release_lease,
    shortage_text,
    start_pause,
    take_lease,
)
from jobtop.store.upkeep.compaction import vacuum
from jobtop.store.upkeep.description import TIERS_SINCE_VERSION
from jobtop.store.upkeep.inspection import file_bytes
from jobtop.store.upkeep.retention import Retention

PAUSE_SECONDS = 0.002
TIER_NAMES = {
    Kept.WHOLE: "every sample",
    Kept.MINUTES: "one per minute",
    Kept.RECORD: "the record",
    LONG: "long jobs, old samples",
    MACHINE: "the machine",
}
CHANGE_COLUMNS = (
    TableColumn("KEPT", widest=60),
    *(TableColumn(title, right=True) for title in ("JOBS", "SAMPLES", "OUTPUT", "FREED")),
)
LARGEST_COLUMNS = (
    TableColumn("LARGEST"),
    TableColumn("NAME"),
    TableColumn("STARTED"),
    TableColumn("KEPT", widest=60),
    TableColumn("FREED", right=True),
)


@click.command(epilog=LANGUAGE)
@filter_argument
@click.option(
    "--older-than",
    "before",
    type=PastMoment(),
    help="Keep only the records of jobs that ended before then, such as 30d or 2026-11-15.",
)
@click.option("--dry-run", is_flag=True, help="Print what would be deleted, and delete nothing.")
@yes_option
@format_options
@click.pass_obj
def prune(app: App, /, words: tuple[str, ...], before: float | None, dry_run: bool, yes: bool, style: str) -> int:
    """Delete old samples and output as the settings say, and shrink the history file.

    Samples older than store.raw_days are reduced to one per minute. Of jobs older than store.rollup_days only the
    record is kept; if the history is larger than store.max_size, this also applies to the oldest other jobs. Pinned
    jobs, and those that [[retention]] protects, are not changed. While jobs run, jobtop does the same in the
    background, in small steps.

    With --older-than or a FILTER, samples and output of those ended jobs are deleted instead, whatever the settings
    say; the records stay. jobtop lists these jobs and asks first.
    """
    wanted = parse_words(app, words)
    existing_store(app, None)
    policy = read_policy(app.config)
    if wanted is not None or before is not None:
        policy = policy_until(policy, before)
    elif warning := policy_warning(policy):
        app.warn(warning)
    with open_store(app, dry_run) as database:
        only = None
        if wanted is not None or before is not None:
            only = jobs_to_prune(Jobs(database), policy, wanted, before, yes or dry_run)
        size = file_bytes(database.path)
        report = run_pass(Retention(database, app.paths, policy, True, only), None, "checking")
        after = size
        if not dry_run:
            is_whole = wanted is None and before is None
            by = None if is_whole else "jobtop prune"
            report = apply_retention(Retention(database, app.paths, policy, only=only, by=by), report, is_whole)
            after = shrink_file(app, database)
    if style == "table":
        print(report_text(report, policy, dry_run, size, after))
    else:
        print_records(style, [report_json(report, policy, dry_run, size, after)], single=True)
    if report.over_bytes:
        app.warn(shortage_text(report))
    return 0


def policy_until(policy: Policy, before: float | None) -> Policy:
    """Return a policy that keeps only the records of jobs that ended before a moment; None: of all ended jobs."""
    seconds = 0.0 if before is None else max(0.0, time.time() - before)
    return Policy(seconds, seconds, None, policy.rules)


def jobs_to_prune(
    jobs: Jobs, policy: Policy, wanted: Filter | None, before: float | None, yes: bool
) -> set[int] | None:
    """Return the numbers of the matching jobs that have something to delete, after a yes.

    None without a filter: then old samples of the machine are deleted too.
    """
    query = Query(filter=wanted, sort="begun", reverse=True, limit=None)
    found = [
        job
        for job in jobs.select(query)
        if job.status.ended
        and not job.pinned
        and job.kept is not Kept.RECORD
        and not is_protected(policy, job)
        and (before is None or job.end_time is None or job.end_time <= before)
    ]
    if not found and wanted is None:
        return None if yes else set()
    if not found:
        raise UnknownJob("No ended job with samples or output matches")
    if not yes:
        confirm("delete", found, "samples and output of ")
    return None if wanted is None else {job.seq for job in found if job.seq is not None}


def is_protected(policy: Policy, job: Job) -> bool:
    """Return whether a rule of [[retention]] keeps all data of an ended job."""
    rule = longest_rule(policy.rules, job.tags)
    return rule is not None and (job.end_time is None or time.time() - job.end_time < rule.seconds)


@contextmanager
def open_store(app: App, dry_run: bool) -> Iterator[Database]:
    """Yield this host's store, reconciled; for a dry run it may be read-only."""
    if dry_run:
        with closing(app.jobs().database) as database:
            if database.check() < TIERS_SINCE_VERSION:
                raise StoreUnavailable(f"{database.path}: an older jobtop wrote it, and it can only be read")
            yield database
        return
    with closing(open_to_write(app.paths, app.config.switch("store.network"))) as database:
        if database.notice:
            app.warn(database.notice)
        reconcile(Jobs(database), app.paths)
        database.keep_journal_small()  # a full disk has little room for a journal
        yield database


def apply_retention(retention: Retention, plan: Report, is_whole: bool) -> Report:
    """Delete what is due and return the report; takes the task over from any engine that is doing it.

    After a pass that `is_whole`, by the settings, engines pause.
    """
    me, database = identify(os.getpid()), retention.database
    take_lease(database, me, by_force=True)
    try:
        report = run_pass(retention, plan.samples + plan.jobs, "deleting")
    except BaseException:
        release_lease(database, me)
        raise
    (start_pause if is_whole else release_lease)(database, me)
    return report


def run_pass(retention: Retention, total: int | None, label: str) -> Report:
    """Run one pass of retention with a progress bar; `total` is the number of samples and jobs to delete, if known."""
    with progress_bar(label) as update:
        while retention.step():
            show_progress(update, retention, total)
            time.sleep(PAUSE_SECONDS)
    return retention.report


def show_progress(update: Progress, retention: Retention, total: int | None) -> None:
    if total is None:
        update(min(retention.examined_jobs, retention.jobs_to_examine), retention.jobs_to_examine)
    else:
        update(min(retention.processed_samples + retention.report.jobs, total), total)


def shrink_file(app: App, database: Database) -> int:
    """Give free space back to the file system; return the size of the file afterwards."""
    try:
        with progress_bar("shrinking") as update:
            done = vacuum(database, progress=update)
    except StoreBusy as error:
        app.warn(f"the file could not be shrunk (try jobtop store vacuum later): {error}")
        return file_bytes(database.path)
    if done.readers:
        app.warn(f"{', '.join(done.readers)} reads the file: it shrinks when that process has ended")
    return done.after_bytes


def report_text(report: Report, policy: Policy, dry_run: bool, before: int, after: int) -> str:
    """Return what was or would be deleted, the jobs with the largest gain, and the size of the history."""
    tables = [table(CHANGE_COLUMNS, change_rows(report))] if report.removed else []
    tables += [table(LARGEST_COLUMNS, largest_rows(report))] if report.largest else []
    may = "" if policy.max_bytes is None else f" of {format_bytes(policy.max_bytes)} (store.max_size)"
    total, left = format_bytes(report.total_bytes), format_bytes(report.left_bytes)
    if not report.removed:
        lines = [f"Nothing {'can' if report.over_bytes else 'has to'} be deleted: the history takes {left}{may}."]
    elif dry_run:
        lines = [f"About {format_bytes(report.freed_bytes)} would be freed; the history takes {total}{may} now."]
    else:
        lines = [f"The history takes {left}{may}, {total} before."]
    if not dry_run:
        lines.append(f"The file takes {format_bytes(after)}, {format_bytes(before)} before.")
    return "\n\n".join([*tables, "\n".join(lines)])


def change_rows(report: Report) -> Iterator[tuple[str, ...]]:
    for (start, end), removed in report.removed.items():
        yield (
            change_text(start, end),
            f"{removed.jobs:,}" if removed.jobs else ABSENT,
            f"{removed.samples:,}",
            format_bytes(removed.file_bytes),
            format_bytes(removed.freed_bytes),
        )


def change_text(start: str, end: str) -> str:
    then = "nothing" if start == MACHINE and end == Kept.RECORD else TIER_NAMES[end]
    return f"{TIER_NAMES[start]} → {then}"


def largest_rows(report: Report) -> Iterator[tuple[str, ...]]:
    for move in report.largest:
        holding, gains = move.job, format_bytes(move.freed_bytes)
        yield holding.id[:8], holding.name, local(holding.begun), change_text(move.before, move.then), gains


def report_json(report: Report, policy: Policy, dry_run: bool, before: int, after: int) -> dict[str, Any]:
    moves = [
        {"from": start, "to": str(end)}
        | {name: getattr(removed, name) for name in ("jobs", "samples")}
        | {"output_bytes": removed.file_bytes, "freed_bytes": removed.freed_bytes}
        for (start, end), removed in report.removed.items()
    ]
    largest = [
        {
            "id": move.job.id,
            "name": move.job.name,
            "start_time": iso(move.job.begun),
            "from": move.before,
            "to": str(move.then),
            "samples": move.samples,
            "freed_bytes": move.freed_bytes,
        }
        for move in report.largest
    ]
    return {
        "schema_version": SCHEMA_VERSION,
        "dry_run": dry_run,
        "moves": moves,
        "largest": largest,
        "jobs": report.jobs,
        "samples": report.samples,
        "freed_bytes": report.freed_bytes,
        "total_bytes": report.total_bytes,
        "left_bytes": report.left_bytes,
        "max_bytes": policy.max_bytes,
        "over_bytes": report.over_bytes,
        "held_bytes": {why: report.held.get(why, 0) for why in PROTECTED_WORDS},
        "file_bytes_before": before,
        "file_bytes_after": after,
    }
