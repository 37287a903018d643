"""`jobtop pin` and `unpin`: jobs that stay whole, however old they are and however much all takes."""

import click

from jobtop.cli.app import App
from jobtop.cli.verbs.control import references
from jobtop.core.model import Kept
from jobtop.core.text.job_text import kept_words
from jobtop.store.upkeep.retention import set_pinned


@click.command()
@references
@click.pass_obj
def pin(app: App, references: tuple[str, ...]) -> int:
    """Keep jobs whole: their samples and output stay until they are unpinned or removed."""
    return change(app, references, True)


@click.command()
@references
@click.pass_obj
def unpin(app: App, references: tuple[str, ...]) -> int:
    """Let pinned jobs grow old like all others."""
    return change(app, references, False)


def change(app: App, references: tuple[str, ...], pinned: bool) -> int:
    jobs, named = app.to_act_on(references)
    set_pinned(jobs.database, named, pinned)
    for job in named:
        if pinned and job.kept is not Kept.WHOLE:
            app.warn(f"job {job.id[:8]}: what is left of it stays; its samples are {kept_words(job)}")
    return 0
