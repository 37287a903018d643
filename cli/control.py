"""stop, kill, pause, resume, wait, rm: verbs that act on jobs named by id."""

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress

import click

from jobtop.cli.app import App
from jobtop.cli.completion import job_ids
from jobtop.core.collectors.proc import is_alive, send, send_to_members
from jobtop.core.errors import StoreError, UsageError
from jobtop.core.model import Identity, Job, StopRequest
from jobtop.core.procfs import descendants, freeze_descendants
from jobtop.core.record import replace
from jobtop.store.jobs import Event, Jobs, event
from jobtop.store.reconcile import START_SECONDS, current, forget, paused_or_running, survivors, with_shim

POLL_SECONDS = 0.05
KILL_SECONDS = 10.0
references = click.argument("references", metavar="ID…", nargs=-1, required=True, shell_complete=job_ids)


@click.command()
@references
@click.pass_obj
def stop(app: App, references: tuple[str, ...]) -> int:
    """Stop jobs: TERM to all their processes, their grace, then KILL. Waits until they are gone."""

    def ask(jobs: Jobs, job: Job) -> None:
        request(app, jobs, job, "jobtop stop")
        if job.shim is not None and not send(job.shim, signal.SIGTERM):
            app.warn(f"job {job.id[:8]} ended by itself just now")

    return end(app, references, ask, lambda job: job.grace_seconds + KILL_SECONDS)


@click.command()
@references
@click.pass_obj
def kill(app: App, references: tuple[str, ...]) -> int:
    """Kill jobs: KILL to all their processes, until none is left."""

    def ask(jobs: Jobs, job: Job) -> None:
        request(app, jobs, job, "jobtop kill")

    return end(app, references, ask, lambda _: KILL_SECONDS, by_force=True)


def end(
    app: App,
    references: tuple[str, ...],
    ask: Callable[[Jobs, Job], None],
    patience: Callable[[Job], float],
    by_force: bool = False,
) -> int:
    """Ask every job, then wait for every one; 1 if one is still there."""
    jobs, targets = resolved(app, references)
    orphaned = [job for job in targets if end_survivors(app, job)]
    targets = [job for job in targets if job not in orphaned and is_here(app, job)]
    for job in targets:
        ask(jobs, job)
    deadline = time.monotonic() + max([patience(job) for job in targets], default=0)
    left = targets
    while left and time.monotonic() < deadline:
        if by_force:
            for job in left:
                send_to_members(shim_of(job), signal.SIGKILL)
        left = [job for job in left if is_alive(shim_of(job))]
        if left:
            time.sleep(POLL_SECONDS)
    for job in targets:
        with suppress(StoreError):  # whoever can write the store finishes the record
            current(jobs, app.paths, job)
    for job in left:
        app.warn(f"job {job.id[:8]} still has {len(descendants(shim_of(job).pid))} processes that cannot be ended")
    return 1 if left else 0


def end_survivors(app: App, job: Job) -> bool:
    """End what outlived the shim of a lost job; False if the job is not of that kind."""
    if job.shim is not None and is_alive(job.shim):
        return False
    known = set(survivors(app.paths, job))
    if not known:
        return False
    deadline = time.monotonic() + job.grace_seconds
    for who in known:
        send(who, signal.SIGTERM)
    while left := [who for who in known if is_alive(who)]:
        known.update(survivors(app.paths, job))
        if time.monotonic() > deadline:
            for who in left:
                send(who, signal.SIGKILL)
        time.sleep(POLL_SECONDS)
    app.warn(f"what was left of job {job.id[:8]} has ended; how it ended is not known, since its supervisor was killed")
    return True


@click.command()
@references
@click.pass_obj
def pause(app: App, references: tuple[str, ...]) -> int:
    """Make jobs stand still: STOP to all their processes."""
    return set_paused(app, references, True)


@click.command()
@references
@click.pass_obj
def resume(app: App, references: tuple[str, ...]) -> int:
    """Let paused jobs go on: CONT to all their processes."""
    return set_paused(app, references, False)


def set_paused(app: App, references: tuple[str, ...], paused: bool) -> int:
    jobs, targets = resolved(app, references)
    for job in targets:
        if not is_here(app, job):
            continue
        if paused:
            freeze_descendants(shim_of(job).pid)
        else:
            send_to_members(shim_of(job), signal.SIGCONT)
        told(app, jobs, job, lambda row: paused_or_running(row, paused))
    return 0


@click.command()
@references
@click.pass_obj
def wait(app: App, references: tuple[str, ...]) -> int:
    """Wait until jobs have ended; exit code 1 if one of them did not succeed."""
    jobs, targets = resolved(app, references)
    if any(job.id == app.environ.get("JOBTOP_JOB_ID") for job in targets):
        raise UsageError("a job cannot wait for itself")
    while True:
        targets = [job if job.status.ended else current(jobs, app.paths, job) for job in targets]
        if all(job.status.ended for job in targets):
            return 0 if all(job.status == "success" for job in targets) else 1
        time.sleep(POLL_SECONDS * 2)


@click.command()
@references
@click.pass_obj
def rm(app: App, references: tuple[str, ...]) -> int:
    """Forget ended jobs: their records, output, and what would be needed to run them again."""
    jobs, targets = resolved(app, references)
    for job in targets:
        if not job.status.ended or (job.shim is not None and is_alive(job.shim)) or survivors(app.paths, job):
            raise UsageError(f"job {job.id[:8]} still runs, or left processes that do: jobtop stop {job.id[:8]} first")
    for job in targets:
        jobs.delete(job)
        forget(app.paths, job)
    return 0


def resolved(app: App, references: tuple[str, ...]) -> tuple[Jobs, list[Job]]:
    """Every job that was named, or an error before anything is done to any; one that just starts is waited for."""
    jobs = app.jobs()
    found = list({job.id: job for job in map(jobs.find, references)}.values())
    deadline = time.monotonic() + START_SECONDS
    while True:
        found = [with_shim(app.paths, job) for job in found]
        starting = [job for job in found if job.shim is None and not job.status.ended]
        if not any(job.recorder and is_alive(job.recorder) for job in starting) or time.monotonic() > deadline:
            return jobs, found
        time.sleep(POLL_SECONDS)


def is_here(app: App, job: Job) -> bool:
    """Whether there is something to act on; why not is said."""
    if job.host != app.paths.host:
        raise UsageError(f"job {job.id[:8]} runs on {job.host}: act on it there")
    if job.shim is None or not is_alive(job.shim):
        state = str(job.status) if job.status.ended else "it ended just now"
        app.warn(f"job {job.id[:8]} is not running ({state})")
        return False
    if os.getuid() not in (0, os.stat(f"/proc/{job.shim.pid}").st_uid):
        raise UsageError(f"job {job.id[:8]} belongs to {job.user}")
    return True


def shim_of(job: Job) -> Identity:
    assert job.shim is not None
    return job.shim


def request(app: App, jobs: Jobs, job: Job, by: str) -> None:
    """Say who asked before it is done, so that the end is read right whatever happens to us."""
    asked = StopRequest(by, time.time())
    told(app, jobs, job, lambda row: (replace(row, stop_request=asked), (event("stop_requested", by=by),)))


def told(app: App, jobs: Jobs, job: Job, change: Callable[[Job], tuple[Job, tuple[Event, ...]]]) -> None:
    """Keep it if the store takes it; what is done to a job never depends on that."""
    try:
        jobs.change(job.id, change)
    except StoreError as error:
        app.warn(f"done, but not kept: {error}")
