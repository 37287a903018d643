"""`jobtop stop`, `kill`, `pause`, `resume`, `wait` and `rm`: verbs that act on jobs named by id."""

import time
from collections.abc import Iterable

import click

from jobtop.cli.app import App
from jobtop.cli.completion import complete_job_id
from jobtop.cli.text.stale import is_own_store, is_stale, status_text
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

references_argument = click.argument(
    "references", metavar="ID…", nargs=-1, required=True, shell_complete=complete_job_id
)


@click.command()
@references_argument
@click.pass_obj
def stop(app: App, references: tuple[str, ...]) -> int:
    """Stop jobs: send SIGTERM to all their processes, after the grace period SIGKILL, and wait until they are gone.

    A queued job is cancelled; a failed job that would be retried is not retried.
    """
    return end_jobs(app, references, by_force=False)


@click.command()
@references_argument
@click.pass_obj
def kill(app: App, references: tuple[str, ...]) -> int:
    """Kill jobs: send SIGKILL to all their processes until none is left."""
    return end_jobs(app, references, by_force=True)


def end_jobs(app: App, references: tuple[str, ...], by_force: bool) -> int:
    """Signal every job, then wait for all of them; return exit code 1 if processes of one are left."""
    control, targets = find_to_control(app, references)
    orphaned = [job for job in targets if end_survivors(control, job)]
    targets = [
        job for job in targets if job not in orphaned and not cancel_retry(control, job) and can_act_on(control, job)
    ]
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


def cancel_retry(control: Control, job: Job) -> bool:
    """Cancel the retry of an ended job; return False if none was due."""
    if not will_be_retried(job.status, job.queue):
        return False
    control.queue.give_up(job.id, "stopped by jobtop stop")
    return True


def end_survivors(control: Control, job: Job) -> bool:
    """End processes that outlived the shim of a lost job; return False if there are none."""
    if not control.has_survivors(job):
        return False
    control.end_survivors(job)
    control.warn(
        f"processes left of job {job.id[:8]} have ended; the exit status is not known: its supervisor was killed"
    )
    return True


@click.command()
@references_argument
@click.pass_obj
def pause(app: App, references: tuple[str, ...]) -> int:
    """Pause jobs: send SIGSTOP to all their processes. A paused queued job is not started."""
    return set_paused(app, references, True)


@click.command()
@references_argument
@click.pass_obj
def resume(app: App, references: tuple[str, ...]) -> int:
    """Continue paused jobs: send SIGCONT to all their processes. A queued job can be started again."""
    return set_paused(app, references, False)


def set_paused(app: App, references: tuple[str, ...], paused: bool) -> int:
    control, targets = find_to_control(app, references)
    for job in targets:
        if can_act_on(control, job):
            (control.pause if paused else control.resume)(job)
    return 0


@click.command()
@references_argument
@click.pass_obj
def wait(app: App, references: tuple[str, ...]) -> int:
    """Wait until the last attempt at each job has ended; exit code 1 if one did not succeed."""
    found = find_latest(app, references)
    if any(job.id == app.environ.get("JOBTOP_JOB_ID") for _, job in found):
        raise UsageError("a job cannot wait for itself")
    ended = []
    for jobs in dict.fromkeys(jobs for jobs, _ in found):
        targets = [job for store, job in found if store is jobs]
        for job in targets:
            status = status_text(app, jobs, job)
            if job.host == app.paths.host and not job.status.ended and not is_own_store(app, jobs):
                where = f"{jobs.database.path}, which is not this host's store"
                app.warn(f"job {job.id[:8]} is {status} in {where}: if that is a copy, it will never end there")
            elif is_stale(app, jobs, job, time.time()) is not False:
                app.warn(f"job {job.id[:8]} on {job.host} is {status}: it may never end")
            elif is_merged_copy(app, jobs, job):
                changes = f"its record here changes only when the store of {job.host} is merged again"
                app.warn(f"job {job.id[:8]} is {status} on {job.host}: {changes}")
        ended += await_ends(Queue(jobs, app.paths), targets, app.config.switch("store.network"), app.warn)
    for job in ended:
        if not kind_of(job).knows_exit_status:
            app.warn(f"job {job.id[:8]}: {job.reason}")
    return 0 if all(job.status == "success" for job in ended) else 1


@click.command()
@references_argument
@click.pass_obj
def rm(app: App, references: tuple[str, ...]) -> int:
    """Delete ended or queued jobs: their records, samples, output, and what is needed to run them again.

    The merged record of a job that ran on another host can be deleted once the job is stale.
    """
    jobs, targets = find_to_change(app, references, last=False)
    queue = Queue(jobs, app.paths)
    needed = Lineup(queue).needed()
    copies = {job.id for job in targets if is_merged_copy(app, jobs, job) and not queue.waits(job)}
    for job in targets:
        short = job.id[:8]
        if job.id in copies and was_heard_lately(app, jobs, job):
            raise UsageError(f"job {short} runs on {job.host}: stop it there, or wait until it is stale")
        runs = not job.status.ended and not queue.waits(job) and job.id not in copies
        if runs or not is_gone(job) or kind_of(job).survivors(app.paths, job):
            raise UsageError(f"job {short} is still running, or left processes running: jobtop stop {short} first")
        if waiting := needed.get(job.id, set()) - {other.id for other in targets}:
            raise UsageError(f"job {short} cannot be deleted: job {min(waiting)[:8]} waits for it")
    for job in targets:
        if job.id in copies:
            jobs.delete(job)  # not its files: on a shared file system they may be those of the running job
            continue
        if not job.status.ended and queue.cancel(job.id, "deleted before it started", "jobtop rm") is None:
            raise UsageError(f"job {job.id[:8]} has just started: jobtop stop {job.id[:8]} first")
        jobs.delete(job)
        forget(app.paths, job)
    return 0


def is_merged_copy(app: App, jobs: Jobs, job: Job) -> bool:
    """Return whether this record, merged into this host's store, says that a job runs on another host."""
    return not job.status.ended and job.host != app.paths.host and is_own_store(app, jobs)


def was_heard_lately(app: App, jobs: Jobs, job: Job) -> bool:
    """Return whether a job of another host has a recent heartbeat; one in the future does not count."""
    now = time.time()
    return is_stale(app, jobs, job, now) is False and job.last_heard is not None and job.last_heard <= now


def find_to_change(app: App, references: tuple[str, ...], last: bool = True) -> tuple[Jobs, list[Job]]:
    """Find the named jobs in this host's store, waiting for those that are just starting; raise before any is changed.

    With `last`, return the last attempt at each job.
    """
    jobs, named = app.jobs_to_change(references)
    latest = map(Queue(jobs, app.paths).last_attempt, named) if last else named
    return jobs, with_shims(app, {job.id: job for job in latest}.values())


def find_latest(app: App, references: Iterable[str]) -> list[tuple[Jobs, Job]]:
    """Return the last attempt at each named job with its store, waiting for those that are just starting."""
    named = [app.find(reference) for reference in references]
    latest = ((jobs, Queue(jobs, app.paths).last_attempt(job)) for jobs, job in named)
    stores = {job.id: (jobs, job) for jobs, job in latest}
    return [(stores[job.id][0], job) for job in with_shims(app, [job for _, job in stores.values()])]


def with_shims(app: App, found: Iterable[Job]) -> list[Job]:
    """Return the jobs with their shims; waits while a live recorder is still starting one."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        found = [with_shim(app.paths, job) for job in found]
        starting = [job for job in found if job.shim is None and not job.status.ended]
        if not any(job.recorder and is_alive(job.recorder) for job in starting) or time.monotonic() > deadline:
            return found
        time.sleep(POLL_SECONDS)


def find_to_control(app: App, references: tuple[str, ...]) -> tuple[Control, list[Job]]:
    """Return the control that acts on jobs, and the named jobs."""
    jobs, targets = find_to_change(app, references)
    return Control(jobs, app.paths, app.warn), targets


def can_act_on(control: Control, job: Job) -> bool:
    """Return whether a job can be acted on; warn with the reason if not, UsageError if that is forbidden."""
    if (why := control.forbids(job)) is not None:
        raise UsageError(why)
    if (why := control.refusal(job)) is not None:
        control.warn(why)
        return False
    return True
