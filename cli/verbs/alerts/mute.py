"""`jobtop alerts mute` and `unmute`: no messages and no actions of a rule, or about a job, for a time."""

import time
from collections.abc import Iterator

import click
from click.shell_completion import CompletionItem

from jobtop.cli.app import App
from jobtop.cli.completion import complete_job_id
from jobtop.cli.text.alert_lines import mute_text, now_text
from jobtop.cli.text.tables import TableColumn, format_options, print_records, table
from jobtop.cli.values import Duration
from jobtop.cli.verbs.alerts.choices import complete_rule, find_rule_or_job
from jobtop.core.clock import iso, local
from jobtop.core.errors import UnknownJob, UsageError, did_you_mean
from jobtop.core.model import SCHEMA_VERSION
from jobtop.core.run.request import user_name
from jobtop.core.units import printable
from jobtop.store.alerts.marks import Mark, MarkKind, Marks
from jobtop.store.jobs import Jobs

MUTES = (MarkKind.MUTE_RULE, MarkKind.MUTE_JOB)
COLUMNS = (
    TableColumn("MUTED", widest=60),
    TableColumn("SINCE"),
    TableColumn("UNTIL", widest=60),
    TableColumn("BY", widest=24),
    TableColumn("NOTE", widest=60),
)
NO_MUTE = dict.fromkeys(("schema_version", "rule", "job_id", "at", "until", "by", "note"))


def complete_rule_or_job(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [*map(CompletionItem, complete_rule(ctx, param, incomplete)), *complete_job_id(ctx, param, incomplete)]


@click.command("mute", short_help="Send no messages of a rule, or about a job, for a time.")
@click.argument("words", nargs=-1, metavar="[RULE|JOB]...", shell_complete=complete_rule_or_job)
@click.option(
    "--for", "seconds", type=Duration(), help="For this long, such as 2h; by default until jobtop alerts unmute."
)
@click.option("--note", metavar="TEXT", help="Why; kept with the mute.")
@format_options
@click.pass_obj
def mute(app: App, /, words: tuple[str, ...], seconds: float | None, note: str | None, style: str) -> int:
    """Mute rules, or all alerts about jobs: no message is sent and nothing is done to a job.

    Alerts are still recorded and listed. Without a rule or job, list what is muted.
    """
    if not words:
        if seconds is not None or note is not None:
            raise UsageError("no rule or job given to mute (jobtop alerts rules lists rules)")
        return print_mutes(app, style)
    if seconds is not None and seconds <= 0:
        raise UsageError("--for: give a time, such as 2h")
    found = [find_rule_or_job(app, word) for word in words]
    marks = Marks(app.store_to_write())
    until = None if seconds is None else time.time() + seconds
    chosen: list[tuple[MarkKind, str]] = []
    for rule, job in found:
        if rule is not None:
            chosen.append((MarkKind.MUTE_RULE, rule.name))
            said = f'muted the rule "{printable(rule.name)}" {now_text(until)}'
        elif job is not None:
            chosen.append((MarkKind.MUTE_JOB, job.id))
            said = f"muted alerts about {job.id[:8]} {printable(job.name)} {now_text(until)}"
        marks.set(*chosen[-1], until, user_name(), note)
        if style == "table":
            print(said)
    if style != "table":
        muted = {(mark.kind, mark.name): mark for kind in MUTES for mark in marks.all(kind)}
        print_records(style, [mute_json(muted[key]) for key in dict.fromkeys(chosen)], empty=NO_MUTE)
    return 0


@click.command("unmute", short_help="Send messages of a rule, or about a job, again.")
@click.argument("words", nargs=-1, metavar="RULE|JOB...", shell_complete=complete_rule_or_job)
@click.option("--all", "everything", is_flag=True, help="Unmute everything.")
@format_options
@click.pass_obj
def unmute(app: App, /, words: tuple[str, ...], everything: bool, style: str) -> int:
    """Let muted rules and alerts about muted jobs send messages and act again."""
    if everything == bool(words):
        raise UsageError("name muted rules or jobs, or give --all (jobtop alerts mute lists what is muted)")
    if not app.has_store():
        raise UsageError("nothing is muted")
    jobs, _ = app.jobs_to_change(())
    marks = Marks(jobs.database)
    muted = [mark for kind in MUTES for mark in marks.all(kind)]
    chosen = muted if everything else [find_mute(app, muted, word) for word in words]
    for mark in chosen:
        marks.clear(mark.kind, mark.name)
        if style == "table":
            print(f"unmuted {mute_text(mark, jobs)}")
    if style != "table":
        print_records(style, [*map(mute_json, chosen)], empty=NO_MUTE)
    elif not chosen:
        print("Nothing is muted.")
    return 0


def find_mute(app: App, muted: list[Mark], word: str) -> Mark:
    """Return the mute of a rule or of a job that a word means; UsageError names the nearest muted rule."""
    for mark in muted:
        if mark.kind is MarkKind.MUTE_RULE and mark.name == word:
            return mark
    names = [mark.name for mark in muted if mark.kind is MarkKind.MUTE_RULE]
    try:
        _, [job] = app.jobs_to_change([word])
    except UnknownJob:
        raise UsageError(f'no rule and no job "{printable(word)}" is muted{did_you_mean(word, names)}') from None
    for mark in muted:
        if mark.kind is MarkKind.MUTE_JOB and mark.name == job.id:
            return mark
    raise UsageError(f"job {job.id[:8]} is not muted (jobtop alerts mute lists what is)")


def print_mutes(app: App, style: str) -> int:
    """Print what is muted in this host's store."""
    marks = Marks(app.jobs().database) if app.has_store() else None
    muted = [] if marks is None else [mark for kind in MUTES for mark in marks.all(kind)]
    if style != "table":
        print_records(style, [*map(mute_json, muted)], empty=NO_MUTE)
    elif muted:
        print(table(COLUMNS, mute_rows(muted, app.jobs())))
    else:
        print("Nothing is muted. To mute a rule: jobtop alerts mute RULE --for 2h")
    return 0


def mute_rows(muted: list[Mark], jobs: Jobs) -> Iterator[tuple[str, ...]]:
    for mark in muted:
        until = now_text(mark.until).removeprefix("until ")
        yield mute_text(mark, jobs), local(mark.at), until, mark.by, mark.note or ""


def mute_json(mark: Mark) -> dict[str, object]:
    is_rule = mark.kind is MarkKind.MUTE_RULE
    return {
        "schema_version": SCHEMA_VERSION,
        "rule": mark.name if is_rule else None,
        "job_id": None if is_rule else mark.name,
        "at": iso(mark.at),
        "until": iso(mark.until),
        "by": mark.by,
        "note": mark.note,
    }
