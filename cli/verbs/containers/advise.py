"""`jobtop containers advise`: the limits that the recorded runs of containers suggest, as a compose fragment."""

import os
import re
import time
from collections.abc import Iterable
from contextlib import closing

import click

from jobtop.cli.app import App
from jobtop.cli.completion import NEEDS_QUOTES, CompletionApp
from jobtop.cli.text.tables import format_options, print_records
from jobtop.cli.values import PastMoment
from jobtop.core.analysis.container_advice import ContainerAdvice, Run, Subject, advise, is_named, subject_of
from jobtop.core.errors import ExitCode, JobtopError, UsageError, did_you_mean
from jobtop.core.model import Job, Status
from jobtop.core.query.filter import parse
from jobtop.core.text.compose_text import compose_fragment
from jobtop.core.text.limits_used import FACT_KEYS, facts_of_record, facts_of_series
from jobtop.core.units import printable
from jobtop.store.database import Database
from jobtop.store.jobs import Jobs, Query
from jobtop.store.samples.curves import Curves
from jobtop.store.samples.so_far import with_usage_so_far

MOST_RUNS = 50  # of a container: the newest
MOST_JOBS = 5000  # the newest; older ones say little about now
CPU = "cpu.percent"
SHOWN_NAMES = 10
HOW = "jobtop run --image IMAGE -- COMMAND and jobtop attach --container NAME record some"


def complete_recorded(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return names of containers, services and projects with recorded runs; an empty list instead of an error."""
    try:
        with closing(CompletionApp(ctx)) as app:
            subjects = {subject for _, job in recorded(app, None) if (subject := subject_of(job)) is not None}
    except JobtopError:
        return []
    words = {word for subject in subjects for word in (subject.project, subject.name) if word}
    return sorted(word for word in words if word.startswith(incomplete) and not re.search(NEEDS_QUOTES, word))


@click.command("advise")
@click.argument("name", required=False, metavar="[NAME|PROJECT]", shell_complete=complete_recorded)
@click.option("--since", type=PastMoment(), help="Use only runs started since then, such as 7d or 2026-11-15.")
@format_options
@click.pass_obj
def advise_(app: App, /, style: str, name: str | None, since: float | None) -> int:
    """Advise memory and CPU limits for containers, from their recorded runs, as a fragment of a compose file.

    NAME is a container, a compose service, PROJECT/SERVICE or a job; PROJECT is a compose project. Without it, all
    containers with recorded runs. Too few or too short runs are refused: the fragment says what is missing, and the
    exit code is 1 if nothing can be advised.
    """
    found = [each for each in recorded(app, since) if name is None or is_named(each[1], name)]
    if not found:
        raise UsageError(nothing_found(app, name, since))
    groups: dict[Subject, list[tuple[Jobs, Job]]] = {}
    for jobs, job in found:
        if (subject := subject_of(job)) is not None:
            groups.setdefault(subject, []).append((jobs, job))
    ordered = sorted(groups.items(), key=lambda item: (item[0].project or "", item[0].name))
    advice = [advise_subject(app, subject, runs[:MOST_RUNS]) for subject, runs in ordered]
    if style == "table":
        print(compose_fragment(advice))
    else:
        print_records(style, [one.to_json() for one in advice])
    return ExitCode.BAD_ANSWER if all(one.is_refused for one in advice) else ExitCode.OK


def recorded(app: App, since: float | None) -> list[tuple[Jobs, Job]]:
    """Return the recorded jobs that ran in containers, the newest first, with their stores."""
    if not app.has_history():
        return []
    query = Query(since=since, filter=parse("kind:container", time.time()), limit=MOST_JOBS)
    found = app.fleet.select(query)
    return [(jobs, job) for jobs, job in found if job.start_time is not None and job.status is not Status.ERROR]


def advise_subject(app: App, subject: Subject, found: Iterable[tuple[Jobs, Job]]) -> ContainerAdvice:
    runs = [read_run(jobs.database, job) for jobs, job in found]
    is_here = all(run.job.host == app.paths.host for run in runs)
    return advise(subject, runs, float(os.cpu_count() or 1) if is_here else None)


def read_run(database: Database, job: Job) -> Run:
    """Return a run with its samples; how much of the time it was throttled comes from the record once it has ended."""
    curves = Curves(database)
    series = curves.series(job, (CPU, *FACT_KEYS))
    values = series.values
    times = [0.0, *series.times]
    cpu = tuple(
        (after - before, percent / 100)
        for before, after, percent in zip(times, series.times, values[CPU], strict=False)
        if percent is not None and after > before
    )
    is_over = job.status.ended
    facts = facts_of_record(job) if is_over else facts_of_series(values, times[-1])
    held = job.limits if job.limits.enforced else None
    return Run(
        job if is_over else with_usage_so_far(curves, job),
        cpu,
        (job.usage.samples or 0) if is_over else len(series.times),
        facts.throttled_share,
        facts.memory_bytes or (held.memory_bytes if held is not None else None),
        facts.cpus or (held.cpus if held is not None else None),
    )


def nothing_found(app: App, name: str | None, since: float | None) -> str:
    """Return why there is nothing to advise, with names that were recorded."""
    known = [subject for _, job in recorded(app, since) if (subject := subject_of(job)) is not None]
    titles = list(dict.fromkeys(subject.title for subject in known))
    if name is None or not titles:
        return f"no run of a container is recorded{'' if since is None else ' since then'}: {HOW}"
    hint = did_you_mean(name, titles)
    shown = ", ".join(map(printable, titles[:SHOWN_NAMES])) + ("" if len(titles) <= SHOWN_NAMES else ", …")
    return f'no run of a container "{printable(name)}" is recorded{hint or f"; recorded are {shown}"}'
