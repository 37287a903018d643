"""`jobtop pin` and `unpin`: exclude jobs from retention, and include them again."""

import click

from jobtop.cli.app import App
from jobtop.cli.verbs.control import references_argument
from jobtop.core.model import Kept
from jobtop.core.text.job_text import samples_kept_text
from jobtop.store.upkeep.retention import set_pinned


@click.command()
@references_argument
@click.pass_obj
def pin(app: App, references: tuple[str, ...]) -> int:
    """Keep all data of jobs: samples and output stay until the jobs are unpinned or removed."""
    return set_pinned_jobs(app, references, True)


@click.command()
@references_argument
@click.pass_obj
def unpin(app: App, references: tuple[str, ...]) -> int:
    """Let retention delete samples and output of pinned jobs again."""
    return set_pinned_jobs(app, references, False)


def set_pinned_jobs(app: App, references: tuple[str, ...], pinned: bool) -> int:
    jobs, named = app.jobs_to_change(references)
    set_pinned(jobs.database, named, pinned)
    for job in named:
        if pinned and job.kept is not Kept.WHOLE:
            app.warn(f"job {job.id[:8]}: what is left of it is kept; its samples are {samples_kept_text(job)}")
    return 0
