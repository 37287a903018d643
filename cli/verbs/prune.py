"""`jobtop prune`: lets old jobs go as the settings say, tells what that was, and gives the space back."""

import os
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import click

from jobtop.cli.app import App
from jobtop.cli.text.tables import Column, format_options, print_shapes, table
from jobtop.cli.verbs.store import Progress, bar, chosen_file
from jobtop.core.clock import iso, local
from jobtop.core.errors import StoreBusy, StoreUnavailable
from jobtop.core.measure.collectors.proc import identify
from jobtop.core.model import SCHEMA_VERSION, Kept
from jobtop.core.retention import LONG, MACHINE, Policy, Report, policy_of, skipped_minutes
from jobtop.core.units import ABSENT, format_bytes
from jobtop.lifecycle.reconcile import reconcile
from jobtop.store.database import Database, open_to_write
from jobtop.store.jobs import Jobs
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
TIERS = {
    Kept.WHOLE: "every sample",
    Kept.MINUTES: "one a minute",
    Kept.RECORD: "the record",
    LONG: "long jobs, old samples",
    MACHINE: "the machine",
}
MOVED = (Column("KEPT", widest=60), *(Column(title, right=True) for title in ("JOBS", "SAMPLES", "OUTPUT", "GAINS")))
LARGEST = (Column("LARGEST"), Column("NAME"), Column("STARTED"), Column("KEPT", widest=60), Column("GAINS", right=True))


@click.command()
@click.option("--dry-run", is_flag=True, help="Say what would go, and let nothing go.")
@format_options
@click.pass_obj
def prune(app: App, dry_run: bool, style: str) -> int:
    """Let old jobs go as the settings say, and give the space back to the file system.

    Samples older than store.raw_days become one a minute; of jobs older than store.rollup_days the record alone stays,
    and so of the oldest while all takes more than store.max_size. Pinned jobs and those that [[retention]] keeps stay
    as they are. Engines do the same by themselves, a little at a time.
    """
    chosen_file(app, None)
    policy = policy_of(app.config)
    if warning := skipped_minutes(policy):
        app.warn(warning)
    with opened(app, dry_run) as database:
        before = file_bytes(database.path)
        report = passed(Retention(database, app.paths, policy, is_dry=True), None, "looking")
        after = before
        if not dry_run:
            report = carried_out(app, database, policy, report)
            after = given_back(app, database)
    if style == "table":
        print(words(report, policy, dry_run, before, after))
    else:
        print_shapes(style, [shape(report, policy, dry_run, before, after)], single=True)
    if report.over_bytes:
        app.warn(shortage_text(report))
    return 0


@contextmanager
def opened(app: App, dry_run: bool) -> Iterator[Database]:
    """The store of this host, brought up to date."""
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
        database.keep_journal_small()  # where the disk is full there is little room for a journal
        yield database


def carried_out(app: App, database: Database, policy: Policy, plan: Report) -> Report:
    """What is due, done; engines that are at it leave it to us."""
    me = identify(os.getpid())
    take_lease(database, me, by_force=True)
    try:
        report = passed(Retention(database, app.paths, policy), plan.samples + plan.jobs, "letting go")
    except BaseException:
        release_lease(database, me)
        raise
    start_pause(database, me)
    return report


def passed(retention: Retention, total: int | None, label: str) -> Report:
    """One pass, told as it goes: by samples and jobs if it is known how many, else by the jobs looked at."""
    with bar(label) as tell:
        while retention.step():
            told(tell, retention, total)
            time.sleep(PAUSE_SECONDS)
    return retention.report


def told(tell: Progress, retention: Retention, total: int | None) -> None:
    if total is None:
        tell(min(retention.examined_jobs, retention.jobs_to_examine), retention.jobs_to_examine)
    else:
        tell(min(retention.processed_samples + retention.report.jobs, total), total)


def given_back(app: App, database: Database) -> int:
    """What the file takes then."""
    try:
        with bar("giving back") as tell:
            done = vacuum(database, progress=tell)
    except StoreBusy as error:
        app.warn(f"free space could not be given back (jobtop store vacuum does that later): {error}")
        return file_bytes(database.path)
    if done.readers:
        app.warn(f"{', '.join(done.readers)} reads it: the file shrinks when that has ended")
    return done.after_bytes


def words(report: Report, policy: Policy, dry_run: bool, before: int, after: int) -> str:
    """What went or would go, the jobs that gain most, and what all takes."""
    tables = [table(MOVED, moved_rows(report))] if report.went else []
    tables += [table(LARGEST, largest_rows(report))] if report.largest else []
    may = "" if policy.max_bytes is None else f" of {format_bytes(policy.max_bytes)} (store.max_size)"
    total, left = format_bytes(report.total_bytes), format_bytes(report.left_bytes)
    if not report.went:
        lines = [f"Nothing {'can' if report.over_bytes else 'has to'} go: the history takes {left}{may}."]
    elif dry_run:
        lines = [f"About {format_bytes(report.freed_bytes)} would be gained; the history takes {total}{may} now."]
    else:
        lines = [f"The history takes {left}{may}, {total} before."]
    if not dry_run:
        lines.append(f"The file takes {format_bytes(after)}, {format_bytes(before)} before.")
    return "\n\n".join([*tables, "\n".join(lines)])


def moved_rows(report: Report) -> Iterator[tuple[str, ...]]:
    for (start, end), went in report.went.items():
        yield (
            moved_words(start, end),
            f"{went.jobs:,}" if went.jobs else ABSENT,
            f"{went.samples:,}",
            format_bytes(went.file_bytes),
            format_bytes(went.freed_bytes),
        )


def moved_words(start: str, end: str) -> str:
    then = "nothing" if start == MACHINE and end == Kept.RECORD else TIERS[end]
    return f"{TIERS[start]} → {then}"


def largest_rows(report: Report) -> Iterator[tuple[str, ...]]:
    for move in report.largest:
        of, gains = move.job, format_bytes(move.freed_bytes)
        yield of.id[:8], of.name, local(of.begun), moved_words(move.before, move.then), gains


def shape(report: Report, policy: Policy, dry_run: bool, before: int, after: int) -> dict[str, Any]:
    moves = [
        {"from": start, "to": str(end)}
        | {name: getattr(went, name) for name in ("jobs", "samples")}
        | {"output_bytes": went.file_bytes, "freed_bytes": went.freed_bytes}
        for (start, end), went in report.went.items()
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
