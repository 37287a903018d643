"""`jobtop pin` and `unpin`: exclude jobs from retention, and include them again."""

import click

from jobtop.cli.app import App
from jobtop.cli.selection import JOBS_HELP, action, changing_options, each_once, find_to_change, print_done
from jobtop.core.model import Kept
from jobtop.core.text.job_text import samples_kept_text
from jobtop.store.upkeep.retention import set_pinned


@click.command(epilog=JOBS_HELP)
@changing_options
@click.pass_obj
def pin(app: App, words: tuple[str, ...], filters: tuple[str, ...], yes: bool) -> int:
    """Keep all data of jobs: samples and output stay until the jobs are unpinned or removed.

    A filter means all matching jobs that are not pinned: jobtop lists them and asks.
    """
    return set_pinned_jobs(app, words, filters, yes, True)


@click.command(epilog=JOBS_HELP)
@changing_options
@click.pass_obj
def unpin(app: App, words: tuple[str, ...], filters: tuple[str, ...], yes: bool) -> int:
    """Let retention delete samples and output of pinned jobs again.

    A filter means all matching jobs that are pinned: jobtop lists them and asks.
    """
    return set_pinned_jobs(app, words, filters, yes, False)


def set_pinned_jobs(app: App, words: tuple[str, ...], filters: tuple[str, ...], yes: bool, pinned: bool) -> int:
    verb = "pin" if pinned else "unpin"
    jobs, found = find_to_change(app, words, filters, yes, action(verb, lambda job: job.pinned != pinned))
    found = each_once(found)
    set_pinned(jobs.database, found, pinned)
    for job in found:
        print_done(f"{verb}ned", job)
        if pinned and job.kept is not Kept.WHOLE:
            app.warn(f"job {job.id[:8]}: what is left of it is kept; its samples are {samples_kept_text(job)}")
    return 0
