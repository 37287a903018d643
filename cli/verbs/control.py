"""`jobtop stop`, `kill`, `pause`, `resume`, `wait` and `rm`: verbs that act on named jobs, or on those of a filter."""

import time
from collections.abc import Callable, Collection, Iterable

import click

from jobtop.cli.app import App
from jobtop.cli.selection import (
    JOBS_HELP,
    Action,
    action,
    changing_options,
    each_once,
    filter_option,
    find_selected,
    find_to_change,
    jobs_argument,
    print_done,
    selection_of,
)
from jobtop.cli.text.stale import is_own_store, is_stale, status_text
from jobtop.core.errors import EngineError, ExitCode, UsageError
from jobtop.core.measure.collectors.proc import is_alive
from jobtop.core.model import Job, Status
from jobtop.core.run.scheduling import will_be_retried
from jobtop.core.text.job_text import ending_text
from jobtop.lifecycle.control import POLL_SECONDS, Control, Ending, is_gone
from jobtop.lifecycle.kinds.kind import START_SECONDS
from jobtop.lifecycle.kinds.registry import kind_of
from jobtop.lifecycle.queue import Queue
from jobtop.lifecycle.queue_plan import Lineup
from jobtop.lifecycle.reconcile import forget, with_shim
from jobtop.lifecycle.wait import await_ends
from jobtop.store.jobs import Jobs


@click.command(epilog=JOBS_HELP)
@changing_options
@click.pass_obj
def stop(app: App, words: tuple[str, ...], filters: tuple[str, ...], yes: bool) -> int:
    """Stop jobs: send SIGTERM to all their processes, after the grace period SIGKILL, and wait until they are gone.

    A queued job is cancelled; a failed job that would be retried is not retried. A name means
    the newest job with that name. A filter means all matching jobs that run or are queued: jobtop lists them and asks.
    """
    return end_selected(app, words, filters, yes, by_force=False)


@click.command(epilog=JOBS_HELP)
@changing_options
@click.pass_obj
def kill(app: App, words: tuple[str, ...], filters: tuple[str, ...], yes: bool) -> int:
    """Kill jobs: send SIGKILL to all their processes until none is left.

    A name means the newest job with that name. A filter means all matching jobs that run or are queued: jobtop
    lists them and asks.
    """
    return end_selected(app, words, filters, yes, by_force=True)


def end_selected(app: App, words: tuple[str, ...], filters: tuple[str, ...], yes: bool, by_force: bool) -> int:
    def can_end(job: Job) -> bool:
        return is_live_here(app, job) or (job.host == app.paths.host and will_be_retried(job.status, job.queue))

    wanted = action("kill" if by_force else "stop", can_end)
    return end_jobs(*find_to_control(app, words, filters, yes, wanted), by_force, print_done)


def end_job(app: App, job_id: str, by_force: bool, requested_by: str) -> None:
    """Stop or kill one job, and print nothing about it."""
    jobs = app.jobs()
    targets = with_shims(app, [jobs.find(job_id)])
    end_jobs(Control(jobs, app.paths, app.warn), targets, by_force, lambda *_: None, requested_by)


def end_jobs(
    control: Control,
    targets: list[Job],
    by_force: bool,
    report: Callable[[str, Job], None],
    requested_by: str | None = None,
) -> int:
    """Signal every job, then wait for all of them; return exit code 1 if processes of one are left.

    A job whose engine does not answer is not touched: the exit code is 125.
    """
    verb, done = ("kill", "killed") if by_force else ("stop", "stopped")
    orphaned = [job for job in targets if end_survivors(control, job)]
    given_up = [job for job in targets if job not in orphaned and cancel_retry(control, job)]
    for job in orphaned + given_up:
        report(done if job in orphaned else "cancelled the retry of", job)
    targets = [job for job in targets if job not in orphaned + given_up and can_act_on(control, job)]
    waiting = {job.id for job in targets if control.queue.waits(job)}
    asked, problems = [], []
    for job in targets:
        try:
            (control.kill if by_force else control.stop)(job, requested_by or f"jobtop {verb}")
            asked.append(job)
        except EngineError as error:
            problems.append(str(error))
    for problem in dict.fromkeys(problems):
        control.warn(problem)
    targets = [job if job.shim is not None else control.find(job.id) for job in asked]
    left = Ending(targets, by_force).wait()
    for job in targets:
        if job not in left and control.finished(job).status.ended:
            report("cancelled" if job.id in waiting and job.shim is None else done, job)
    for job in left:
        control.settle(job)
        control.warn(f"job {job.id[:8]} still has {kind_of(job).processes(job)} processes that cannot be ended")
    return ExitCode.FAILED if problems else 1 if left else 0


def is_live_here(app: App, job: Job) -> bool:
    return not job.status.ended and job.host == app.paths.host


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


@click.command(epilog=JOBS_HELP)
@changing_options
@click.pass_obj
def pause(app: App, words: tuple[str, ...], filters: tuple[str, ...], yes: bool) -> int:
    """Pause jobs: send SIGSTOP to all their processes. A queued job that is paused does not start.

    A filter means all matching jobs that run or are queued: jobtop lists them and asks.
    """
    wanted = action("pause", lambda job: is_live_here(app, job) and job.status is not Status.PAUSED)
    control, targets = find_to_control(app, words, filters, yes, wanted)
    for job in targets:
        if can_act_on(control, job) and control.pause(job):
            print_done("paused", job)
    return 0


@click.command(epilog=JOBS_HELP)
@changing_options
@click.pass_obj
def resume(app: App, words: tuple[str, ...], filters: tuple[str, ...], yes: bool) -> int:
    """Continue paused jobs: send SIGCONT to all their processes. A queued job that was paused may start again.

    A filter means all matching jobs that are paused: jobtop lists them and asks.
    """
    wanted = action("resume", lambda job: is_live_here(app, job) and job.status is Status.PAUSED)
    control, targets = find_to_control(app, words, filters, yes, wanted)
    for job in targets:
        if can_act_on(control, job) and control.resume(job):
            print_done("resumed", job)
    return 0


@click.command(epilog=JOBS_HELP)
@jobs_argument
@filter_option
@click.pass_obj
def wait(app: App, words: tuple[str, ...], filters: tuple[str, ...]) -> int:
    """Wait until the last attempt of each job has ended; exit code 1 if one did not succeed.

    A name means the newest job with that name. A filter means all jobs that match when the wait begins.
    """
    selection = selection_of(words, filters)
    found = latest_attempts(app, find_selected(app, selection))
    own = app.environ.get("JOBTOP_JOB_ID")
    if selection.filter is not None:
        found = [(jobs, job) for jobs, job in found if job.id != own]
    elif any(job.id == own for _, job in found):
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
        if job.status is not Status.SUCCESS:
            app.warn(ending_text(job))
    return 0 if all(job.status == "success" for job in ended) else 1


@click.command(epilog=JOBS_HELP)
@changing_options
@click.pass_obj
def rm(app: App, words: tuple[str, ...], filters: tuple[str, ...], yes: bool) -> int:
    """Delete ended or queued jobs: their records, samples and output, and the stored command and environment.

    A record that was merged from another host can be deleted once its job is stale. A name means the
    newest job with that name. A filter means all matching jobs that can be deleted and are not pinned: jobtop lists
    them and asks.
    """

    def removable(jobs: Jobs, found: list[Job]) -> list[Job]:
        removal = Removal(app, jobs, {job.id for job in found})
        if any(job.pinned for job in found):
            app.warn("pinned jobs are left out: jobtop unpin them first")
        return [job for job in found if not job.pinned and removal.refusal(job) is None]

    jobs, targets = find_to_change(app, words, filters, yes, Action("delete", removable))
    targets = with_shims(app, each_once(targets))
    removal = Removal(app, jobs, {job.id for job in targets})
    for job in targets:
        if (why := removal.refusal(job)) is not None:
            raise UsageError(why)
        if job.pinned:
            raise UsageError(f"job {job.id[:8]} is pinned: jobtop unpin {job.id[:8]} first")
    for job in targets:
        removal.remove(job)
        print_done("deleted", job)
    return 0


class Removal:
    """Deletes jobs from a store; `together` are the ids of jobs that are deleted in one call."""

    def __init__(self, app: App, jobs: Jobs, together: Collection[str] = ()) -> None:
        self.app, self.jobs, self.together = app, jobs, set(together)
        self.queue = Queue(jobs, app.paths)
        self.needed = Lineup(self.queue).needed()

    def refusal(self, job: Job) -> str | None:
        """Return why a job cannot be deleted now; None if it can."""
        short, is_copy = job.id[:8], self.is_copy(job)
        if is_copy and was_heard_lately(self.app, self.jobs, job):
            return f"job {short} runs on {job.host}: stop it there, or wait until it is stale"
        runs = not job.status.ended and not self.queue.waits(job) and not is_copy
        if runs or not is_gone(job) or kind_of(job).survivors(self.app.paths, job):
            return f"job {short} is still running, or left processes running: jobtop stop {short} first"
        if waiting := self.needed.get(job.id, set()) - self.together:
            return f"job {short} cannot be deleted: job {min(waiting)[:8]} waits for it"
        return None

    def is_copy(self, job: Job) -> bool:
        return is_merged_copy(self.app, self.jobs, job) and not self.queue.waits(job)

    def remove(self, job: Job) -> None:
        if self.is_copy(job):
            self.jobs.delete(job)  # not its files: on a shared file system they may be those of the running job
            return
        if not job.status.ended and self.queue.cancel(job.id, "deleted before it started", "jobtop rm") is None:
            raise UsageError(f"job {job.id[:8]} has just started: jobtop stop {job.id[:8]} first")
        self.jobs.delete(job)
        forget(self.app.paths, job)


def is_merged_copy(app: App, jobs: Jobs, job: Job) -> bool:
    """Return whether this record, merged into this host's store, says that a job runs on another host."""
    return not job.status.ended and job.host != app.paths.host and is_own_store(app, jobs)


def was_heard_lately(app: App, jobs: Jobs, job: Job) -> bool:
    """Return whether a job of another host has a recent heartbeat; one in the future does not count."""
    now = time.time()
    return is_stale(app, jobs, job, now) is False and job.last_heard is not None and job.last_heard <= now


def find_latest(app: App, references: Iterable[str]) -> list[tuple[Jobs, Job]]:
    """Return the last attempt at each named job with its store, waiting for those that are just starting."""
    return latest_attempts(app, [app.find(reference) for reference in references])


def latest_attempts(app: App, found: Iterable[tuple[Jobs, Job]]) -> list[tuple[Jobs, Job]]:
    """Return the last attempt at each job with its store, waiting for those that are just starting."""
    latest = ((jobs, Queue(jobs, app.paths).last_attempt(job)) for jobs, job in found)
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


def find_to_control(
    app: App, words: tuple[str, ...], filters: tuple[str, ...], yes: bool, wanted: Action
) -> tuple[Control, list[Job]]:
    """Return the control that acts on jobs, and the last attempt at each selected job; raise before any is changed."""
    jobs, found = find_to_change(app, words, filters, yes, wanted)
    latest = each_once(map(Queue(jobs, app.paths).last_attempt, found))
    return Control(jobs, app.paths, app.warn), with_shims(app, latest)


def can_act_on(control: Control, job: Job) -> bool:
    """Return whether a job can be acted on; warn with the reason if not, UsageError if that is forbidden."""
    if (why := control.forbids(job)) is not None:
        raise UsageError(why)
    if (why := control.refusal(job)) is not None:
        control.warn(why)
        return False
    return True
