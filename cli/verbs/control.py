"""stop, kill, pause, resume, wait, rm: verbs that act on jobs named by id."""

import time
from collections.abc import Iterable

import click

from jobtop.cli.app import App
from jobtop.cli.completion import job_ids
from jobtop.cli.text.stale import is_own, is_stale, status_words
from jobtop.core.errors import UsageError
from jobtop.core.measure.collectors.proc import is_alive
from jobtop.core.model import Job
from jobtop.core.run.scheduling import will_be_retried
from jobtop.lifecycle.control import POLL_SECONDS, Control, Ending, is_gone
from jobtop.lifecycle.kinds.kind import START_SECONDS
from jobtop.lifecycle.kinds.registry import kind_of
from jobtop.lifecycle.queue import Queue
from jobtop.lifecycle.queue_plan import Lineup
from jobtop.lifecycle.reconcile import forget, with_shim
from jobtop.lifecycle.wait import await_ends
from jobtop.store.jobs import Jobs

references = click.argument("references", metavar="ID…", nargs=-1, required=True, shell_complete=job_ids)


@click.command()
@references
@click.pass_obj
def stop(app: App, references: tuple[str, ...]) -> int:
    """Stop jobs: TERM to all their processes, their grace, then KILL. Waits until they are gone.

    A job that waits for its turn is cancelled; one that was to be tried again is not.
    """
    return end(app, references, by_force=False)


@click.command()
@references
@click.pass_obj
def kill(app: App, references: tuple[str, ...]) -> int:
    """Kill jobs: KILL to all their processes, until none is left."""
    return end(app, references, by_force=True)


def end(app: App, references: tuple[str, ...], by_force: bool) -> int:
    """Ask every job, then wait for every one; 1 if one is still there."""
    control, targets = controlled(app, references)
    orphaned = [job for job in targets if end_survivors(control, job)]
    targets = [job for job in targets if job not in orphaned and not give_up(control, job) and is_here(control, job)]
    for job in targets:
        if by_force:
            control.kill(job, "jobtop kill")
        else:
            control.stop(job, "jobtop stop")
    targets = [job if job.shim is not None else control.find(job.id) for job in targets]
    left = Ending(targets, by_force).wait()
    for job in targets:
        if job not in left:
            control.finished(job)
    for job in left:
        control.settle(job)
        app.warn(f"job {job.id[:8]} still has {kind_of(job).processes(job)} processes that cannot be ended")
    return 1 if left else 0


def give_up(control: Control, job: Job) -> bool:
    """Let a job that ended be tried no more; False if it was not to be."""
    if not will_be_retried(job.status, job.queue):
        return False
    control.queue.give_up(job.id, "stopped by jobtop stop")
    return True


def end_survivors(control: Control, job: Job) -> bool:
    """End what outlived the shim of a lost job; False if the job is not of that kind."""
    if not control.has_survivors(job):
        return False
    control.end_survivors(job)
    control.warn(
        f"what was left of job {job.id[:8]} has ended; how it ended is not known, since its supervisor was killed"
    )
    return True


@click.command()
@references
@click.pass_obj
def pause(app: App, references: tuple[str, ...]) -> int:
    """Make jobs stand still: STOP to all their processes. One that waits for its turn is passed over."""
    return set_paused(app, references, True)


@click.command()
@references
@click.pass_obj
def resume(app: App, references: tuple[str, ...]) -> int:
    """Let paused jobs go on: CONT to all their processes. One that waited for its turn does so again."""
    return set_paused(app, references, False)


def set_paused(app: App, references: tuple[str, ...], paused: bool) -> int:
    control, targets = controlled(app, references)
    for job in targets:
        if is_here(control, job):
            (control.pause if paused else control.resume)(job)
    return 0


@click.command()
@references
@click.pass_obj
def wait(app: App, references: tuple[str, ...]) -> int:
    """Wait until jobs have ended, the last attempts at them; exit code 1 if one of them did not succeed."""
    found = looked_up(app, references)
    if any(job.id == app.environ.get("JOBTOP_JOB_ID") for _, job in found):
        raise UsageError("a job cannot wait for itself")
    ended = []
    for jobs in dict.fromkeys(jobs for jobs, _ in found):
        targets = [job for store, job in found if store is jobs]
        for job in targets:
            words = status_words(app, jobs, job)
            if job.host == app.paths.host and not job.status.ended and not is_own(app, jobs):
                where = f"{jobs.database.path}, which is not this host's store"
                app.warn(f"job {job.id[:8]} is {words} in {where}: if that is a copy, it will never end there")
            elif is_stale(app, jobs, job, time.time()) is not False:
                app.warn(f"job {job.id[:8]} on {job.host} is {words}: it may never end")
            elif is_copy(app, jobs, job):
                changes = f"its record here changes only when the store of {job.host} is merged again"
                app.warn(f"job {job.id[:8]} is {words} on {job.host}: {changes}")
        ended += await_ends(Queue(jobs, app.paths), targets, app.config.switch("store.network"), app.warn)
    for job in ended:
        if not kind_of(job).knows_exit_status:
            app.warn(f"job {job.id[:8]}: {job.reason}")
    return 0 if all(job.status == "success" for job in ended) else 1


@click.command()
@references
@click.pass_obj
def rm(app: App, references: tuple[str, ...]) -> int:
    """Forget jobs that ended or wait: their records, output, and what would be needed to run them again.

    Of a job of another host that ran when its store was merged, the record can be removed once the job is stale.
    """
    jobs, targets = resolved(app, references, last=False)
    queue = Queue(jobs, app.paths)
    needed = Lineup(queue).needed()
    copies = {job.id for job in targets if is_copy(app, jobs, job) and not queue.waits(job)}
    for job in targets:
        short = job.id[:8]
        if job.id in copies and was_heard_lately(app, jobs, job):
            raise UsageError(
                f"job {short} runs on {job.host}, heard of lately: stop it there, or wait until it is stale"
            )
        runs = not job.status.ended and not queue.waits(job) and job.id not in copies
        if runs or not is_gone(job) or kind_of(job).survivors(app.paths, job):
            raise UsageError(f"job {short} still runs, or left processes that do: jobtop stop {short} first")
        if waiting := needed.get(job.id, set()) - {other.id for other in targets}:
            raise UsageError(f"job {short} has to stay: job {min(waiting)[:8]} waits for it")
    for job in targets:
        if job.id in copies:
            jobs.delete(job)  # its files are where it runs, which may be this directory on a shared file system
            continue
        if not job.status.ended and queue.cancel(job.id, "removed before it began", "jobtop rm") is None:
            raise UsageError(f"job {job.id[:8]} has just begun: jobtop stop {job.id[:8]} first")
        jobs.delete(job)
        forget(app.paths, job)
    return 0


def is_copy(app: App, jobs: Jobs, job: Job) -> bool:
    """Whether a job runs on another host by a record that was merged into this host's store."""
    return not job.status.ended and job.host != app.paths.host and is_own(app, jobs)


def was_heard_lately(app: App, jobs: Jobs, job: Job) -> bool:
    """Whether a job of another host gave a sign of life; one in the future proves nothing."""
    now = time.time()
    return is_stale(app, jobs, job, now) is False and job.last_heard is not None and job.last_heard <= now


def resolved(app: App, references: tuple[str, ...], last: bool = True) -> tuple[Jobs, list[Job]]:
    """Every job that was named, or an error before anything is done to any; one that just starts is waited for.

    `last`: what is meant is the last attempt at each.
    """
    jobs, named = app.to_act_on(references)
    latest = map(Queue(jobs, app.paths).last_attempt, named) if last else named
    return jobs, with_shims(app, {job.id: job for job in latest}.values())


def looked_up(app: App, references: Iterable[str]) -> list[tuple[Jobs, Job]]:
    """The last attempts at jobs that were named, and the stores they are in; one that just starts is waited for."""
    named = [app.find(reference) for reference in references]
    latest = ((jobs, Queue(jobs, app.paths).last_attempt(job)) for jobs, job in named)
    stores = {job.id: (jobs, job) for jobs, job in latest}
    return [(stores[job.id][0], job) for job in with_shims(app, [job for _, job in stores.values()])]


def with_shims(app: App, found: Iterable[Job]) -> list[Job]:
    """Jobs with their shims, as soon as those that just start have some."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        found = [with_shim(app.paths, job) for job in found]
        starting = [job for job in found if job.shim is None and not job.status.ended]
        if not any(job.recorder and is_alive(job.recorder) for job in starting) or time.monotonic() > deadline:
            return found
        time.sleep(POLL_SECONDS)


def controlled(app: App, references: tuple[str, ...]) -> tuple[Control, list[Job]]:
    """The jobs that were named, and what acts on them."""
    jobs, targets = resolved(app, references)
    return Control(jobs, app.paths, app.warn), targets


def is_here(control: Control, job: Job) -> bool:
    """Whether there is something to act on; why not is said."""
    if (why := control.forbids(job)) is not None:
        raise UsageError(why)
    if (why := control.refusal(job)) is not None:
        control.warn(why)
        return False
    return True
