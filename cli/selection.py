"""The jobs that a verb reads or changes: named one by one, or selected by a filter, which is confirmed first."""

import re
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing

import click
from click.shell_completion import CompletionItem

from jobtop.cli.app import App
from jobtop.cli.completion import NEEDS_QUOTES, CompletionApp, complete_job_id
from jobtop.cli.failure import print_error
from jobtop.cli.text.tables import TableColumn, table
from jobtop.core.clock import local
from jobtop.core.errors import ExitCode, JobtopError, UnknownJob, UsageError
from jobtop.core.model import Job
from jobtop.core.query.completion import complete
from jobtop.core.query.conditions import Filter
from jobtop.core.query.filter import LANGUAGE, line_of, parse
from jobtop.core.query.selection import Selection, read_selection
from jobtop.core.record import record, replace
from jobtop.core.units import number_of, printable
from jobtop.store.jobs import Jobs, Query
from jobtop.store.references import FORMS_HELP

MOST_LISTED = 20
JOBS_HELP = f"{FORMS_HELP}\n{LANGUAGE}"
COLUMNS = (TableColumn("ID"), TableColumn("NAME", widest=32), TableColumn("STATUS"), TableColumn("STARTED"))


def complete_filter(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return completions of a filter word that need no quotes; an empty list instead of an error."""
    from jobtop.store.listing import merge_vocabularies, vocabulary

    before, typed = [*(ctx.params.get("words") or ())], incomplete
    if typed == ":":
        before, typed = [*before, typed], ""
    # bash splits words at a colon.
    key_part = "".join(before[-2:]) if before[-1:] == [":"] else ""
    try:
        with closing(CompletionApp(ctx)) as app:
            known = merge_vocabularies(words for _, words in app.fleet.each(lambda jobs: vocabulary(jobs.database)))
    except JobtopError:
        known = {}
    candidates = complete(key_part + typed, len(key_part + typed), known)
    return [word.removeprefix(key_part) for word in candidates if not re.search(NEEDS_QUOTES, word)]


def complete_job_or_filter(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return names and ids of jobs, and words of a filter if something is typed."""
    words = complete_filter(ctx, param, incomplete) if incomplete else []
    return [*complete_job_id(ctx, param, incomplete), *map(CompletionItem, words)]


filter_argument = click.argument("words", nargs=-1, metavar="[FILTER]...", shell_complete=complete_filter)
jobs_argument = click.argument("words", nargs=-1, metavar="JOB… | FILTER…", shell_complete=complete_job_or_filter)
filter_option = click.option(
    "--filter",
    "filters",
    multiple=True,
    metavar="FILTER",
    help="All jobs that match this filter, such as 'name:train since:7d'.",
)
yes_option = click.option("--yes", "-y", is_flag=True, help="Do not ask: act on all matching jobs.")


def changing_options(command: Callable[..., object]) -> Callable[..., object]:
    """Add the arguments of a verb that changes jobs: `words`, `filters` and `yes`."""
    return jobs_argument(filter_option(yes_option(command)))


@record
class Action:
    """What a verb does to jobs: its word, and how to choose those of a filter's jobs that it can be done to."""

    verb: str
    choose: Callable[[Jobs, list[Job]], list[Job]]


def action(verb: str, applies_to: Callable[[Job], bool]) -> Action:
    """Return an action on all jobs that pass a test."""
    return Action(verb, lambda _, found: [job for job in found if applies_to(job)])


def parse_words(app: App, words: Sequence[str], in_memory: bool = False) -> Filter | None:
    """Parse the arguments of a verb as a filter; None without any. With `in_memory` it is applied without a store."""
    line = line_of(words)
    return with_prices(app, parse(line, time.time(), in_memory=in_memory)) if line else None


def with_prices(app: App, wanted: Filter) -> Filter:
    """Return the filter with the prices of [cost], if it needs them."""
    return replace(wanted, prices=app.prices) if wanted.has("cost", "energy") else wanted


def selection_of(words: Sequence[str], filters: Sequence[str]) -> Selection:
    """Read the arguments of a verb; UsageError if there are none."""
    selection = read_selection(words, filters, time.time())
    if not selection.references and selection.filter is None:
        raise UsageError("no job given: name jobs (an id, a name, last, …) or give a filter, such as tag:nightly")
    return selection


def find_selected(app: App, selection: Selection) -> list[tuple[Jobs, Job]]:
    """Find the jobs of a selection in all stores, the oldest of a filter first; UnknownJob if none matches."""
    if selection.filter is None:
        found = [app.find(reference) for reference in selection.references]
        return list({job.id: (jobs, job) for jobs, job in found}.values())
    query = Query(filter=with_prices(app, selection.filter), sort="begun", reverse=True, limit=None)
    found = app.fleet.select(query) if app.has_history() else []
    if not found:
        raise UnknownJob(f"No job matches {printable(selection.text)}")
    return found


def find_to_change(
    app: App, words: Sequence[str], filters: Sequence[str], yes: bool, wanted: Action
) -> tuple[Jobs, list[Job]]:
    """Find jobs in this host's store; those of a filter are listed, and changed only after a yes."""
    selection = selection_of(words, filters)
    if selection.filter is None:
        return app.jobs_to_change(selection.references)
    jobs = app.jobs()
    query = Query(filter=with_prices(app, selection.filter), sort="begun", reverse=True, limit=None)
    found = wanted.choose(jobs, jobs.select(query))
    if not found:
        raise UnknownJob(f"No job to {wanted.verb} matches {printable(selection.text)}")
    if not yes:
        confirm(wanted.verb, found)
    return jobs, found


def confirm(verb: str, jobs: Sequence[Job], what: str = "") -> None:
    """List jobs and ask on the terminal; exit with 1 after a no, UsageError without a terminal.

    `what` says which part of the jobs the verb acts on, such as "the output of ".
    """
    print_error(job_list(jobs))
    count = number_of(len(jobs), "job")
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(f"{count} {'matches' if len(jobs) == 1 else 'match'}: add --yes to {verb} {them(jobs)}")
    if not click.confirm(f"{verb.capitalize()} {what}{count}?", default=False, err=True):
        print_error("jobtop: nothing was changed")
        raise click.exceptions.Exit(ExitCode.BAD_ANSWER)


def them(jobs: Sequence[Job]) -> str:
    return "it" if len(jobs) == 1 else "them"


def job_list(jobs: Sequence[Job]) -> str:
    """Return a short table of jobs; a last line says how many more there are."""
    rows = ((job.id[:8], job.name, str(job.status), local(job.start_time)) for job in jobs[:MOST_LISTED])
    more = f"\n… and {len(jobs) - MOST_LISTED} more" if len(jobs) > MOST_LISTED else ""
    return table(COLUMNS, rows) + more


def print_done(word: str, job: Job) -> None:
    """Print what was done to a job, such as `stopped train 3f8a21b2`."""
    print(f"{word} {printable(job.name)} {job.id[:8]}", flush=True)


def each_once(jobs: Iterable[Job]) -> list[Job]:
    return list({job.id: job for job in jobs}.values())
