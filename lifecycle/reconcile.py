"""Bring the store up to what shims left: any verb that opens its own host's store does this first."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial

from jobtop.core.errors import BadValue, RowDamaged, StoreError, StoreUnavailable
from jobtop.core.job_id import JobId, is_job_id
from jobtop.core.measure.collectors import cgroup
from jobtop.core.measure.collectors.proc import identify, is_alive
from jobtop.core.model import ENDS, Identity, Job, Status, StopRequest
from jobtop.core.paths import StatePaths
from jobtop.core.procfs import descendants, read_text
from jobtop.core.record import replace
from jobtop.core.run import outcome
from jobtop.core.run.facts import ENDED, STARTED, Facts, Started, reachable, read_facts, read_marks, read_started
from jobtop.core.state_files import read_state_file, remove_directory, remove_file, touch_state_file
from jobtop.store.database import open_to_read
from jobtop.store.jobs import Event, Jobs, columns_of, event
from jobtop.store.queue_rows import unstarted_ids
from jobtop.store.rows import check_columns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from jobtop.core.measure.observation import Observation

VANISHED = "its supervisor vanished (killed, the machine down, the disk full), so its end is not known"
DAMAGED = "how it ended is not known, because what its supervisor left is damaged"
RECORDER_SECONDS = 5.0
DAY_SECONDS = 86400.0
RECORD_BYTES = 16 * 1024 * 1024
START_SECONDS = 10.0  # a shim that was told its job has left `started` by then


def reconcile(jobs: Jobs, paths: StatePaths, me: Identity | None = None) -> None:
    """Finish the records of jobs whose recorder is gone; take in what ran while the store could not be written."""
    take_in_unrecorded(jobs, paths)
    for job in jobs.unsettled(paths.host, but_by=me):
        if not has_a_recorder(paths, job):
            reconcile_one(jobs, paths, job)


def has_a_recorder(paths: StatePaths, job: Job) -> bool:
    """Whether somebody else will keep the end of this job; one who has not for a while stands still or hangs."""
    if job.recorder is None or job.status.ended or not is_alive(job.recorder):
        return False
    try:
        return time.time() - os.stat(paths.job(job.id) / "ended").st_mtime < RECORDER_SECONDS
    except OSError:
        return True


def current(jobs: Jobs, paths: StatePaths, job: Job) -> Job:
    """The job as it stands now; finished by us if nobody else will, and it is of this host and in its own store."""
    found = jobs.find(job.id)
    is_ours = found.host == paths.host and jobs.database.path == paths.store
    if found.settled or not is_ours or has_a_recorder(paths, found):
        return found
    try:
        return reconcile_one(jobs, paths, found)
    except StoreUnavailable:  # it can only be read, or there is no room: as it was
        return found


def survivors(paths: StatePaths, job: Job) -> list[Identity]:
    """Processes of a job that outlived its shim: whoever is in its cgroups, else its main process and those below."""
    started = read_started(paths.job(job.id))
    if started is None or is_alive(started.shim):
        return []
    pids = {int(pid) for path in started.cgroups for pid in read_text(f"{path}/cgroup.procs").split()}
    if not pids and is_alive(started.main):
        pids = {started.main.pid, *descendants(started.main.pid)}
    return [identify(pid) for pid in pids]


def forget(paths: StatePaths, job: Job) -> None:
    """Remove everything that is kept of a job outside the store."""
    started = read_started(paths.job(job.id))
    cgroup.discard(cgroup.possible_directories(job.id) if started is None else started.cgroups)
    remove_directory(paths.job(job.id))
    remove_file(paths.spec(job.id))


def with_shim(paths: StatePaths, job: Job) -> Job:
    """The job with its shim, if that has begun and the row does not know it yet."""
    started = None if job.shim is not None else read_started(paths.job(job.id))
    return job if started is None else outcome.begin(job, started)


def reconcile_one(jobs: Jobs, paths: StatePaths, job: Job) -> Job:
    """The job as it stands by what its shim left and whether it lives."""
    directory = paths.job(job.id)
    begun, damage = read_facts(directory, STARTED)
    started = None if begun is None else reachable(begun.started())
    shim = job.shim if started is None else started.shim
    # Asked before `ended` is read: a shim that is gone by now has written it if it ever will.
    alive = shim is not None and is_alive(shim)
    ended, end_damage = read_facts(directory, ENDED)
    damage = end_damage or damage
    if started is not None and job.shim is None:
        job = jobs.change(job.id, lambda row: (outcome.begin(row, started), ()))
    if ended is not None:
        settled = ended.integer("final") == 1 or not alive
        if job.status.ended and not settled:
            return job
        return finish(jobs, paths, job, ended, settled, None if job.status.ended else seen_by_others(jobs, job))
    if alive:
        return job
    if job.status in ENDS - {Status.LOST}:
        return jobs.change(job.id, lambda row: (replace(row, settled=True), ()))
    if job.is_attached:
        return end_attached(jobs, job, seen_by_others(jobs, job))
    if started is not None or damage is not None:
        return lose(jobs, job, started, VANISHED if damage is None else f"{DAMAGED}: {damage}")
    if job.queue is not None:  # its turn comes again
        return job
    if time.time() - (job.submitted_at or 0) < START_SECONDS:
        return job
    cgroup.discard(cgroup.possible_directories(job.id))
    why = "jobtop was ended before it could start the command"
    return jobs.change(job.id, lambda row: (outcome.never_started(row, why), (event("error", reason=why),)))


def finish(
    jobs: Jobs,
    paths: StatePaths,
    job: Job,
    ended: Facts,
    settled: bool | None = None,
    seen: Callable[[Job], Job] | None = None,
) -> Job:
    """Keep how a job ended, what it used, what was seen of it, and where its output was when."""

    def concluded(row: Job) -> tuple[Job, Iterable[Event]]:
        done = outcome.conclude(row, ended)
        done = done if seen is None or done.status is Status.ERROR else seen(done)
        if settled is not None:
            done = replace(done, settled=settled)
        return done, end_events(row, done, ended.moment("last")[0])

    done = jobs.change(job.id, concluded)
    jobs.keep_marks(done, read_marks(paths.job(job.id))[0])
    return done


def seen_by_others(jobs: Jobs, job: Job) -> Callable[[Job], Job] | None:
    """What the record of a job gets from having been watched by somebody who is gone; None: nothing."""
    seen = sampled(jobs, job)
    return None if seen is None else seen.of


def sampled(jobs: Jobs, job: Job) -> Observation | None:
    """What stored samples say of a job; None if there are none."""
    if job.seq is None or not jobs.has_series(job.seq):
        return None
    from jobtop.core.measure.observation import seen_in
    from jobtop.store.samples.series import SeriesStore

    return seen_in(SeriesStore(jobs.database).samples(job.seq))


def lose(jobs: Jobs, job: Job, started: Started | None, why: str) -> Job:
    """The shim is gone without a word that can be read: keep what its cgroups still tell, and call it lost."""
    texts: dict[str, str] = {}
    directories = cgroup.possible_directories(job.id) if started is None else started.cgroups
    for directory in directories:
        for names in cgroup.EVIDENCE.values():
            texts |= {name: text for name in names if (text := read_text(f"{directory}/{name}"))}
    over = cgroup.discard(directories)
    seen = seen_by_others(jobs, job)

    def concluded(row: Job) -> tuple[Job, Iterable[Event]]:
        row = row if started is None else outcome.begin(row, started)
        known = outcome.lost_with(row, why, cgroup.reading(texts))
        known = known if seen is None or row.status is Status.LOST else seen(known)
        return replace(known, settled=over), () if row.status is Status.LOST else (event("lost", reason=why),)

    return jobs.change(job.id, concluded)


def end_attached(
    jobs: Jobs,
    job: Job,
    seen: Callable[[Job], Job] | None,
    elapsed: float | None = None,
    cost_seconds: float | None = None,
) -> Job:
    """Keep the end of a process that jobtop did not start, and what was seen of it; None: nobody saw when it was."""
    from jobtop.core.run import attached

    def concluded(row: Job) -> tuple[Job, Iterable[Event]]:
        if row.status.ended:
            return row, ()
        done = attached.ended(replace(row, monitor=replace(row.monitor, cpu_seconds=cost_seconds)), elapsed)
        done = done if seen is None else seen(done)
        return done, end_events(row, done, 0.0)

    return jobs.change(job.id, concluded)


def end_events(before: Job, done: Job, last: float) -> tuple[Event, ...]:
    """What the timeline says of an end; nothing twice."""
    if before.status.ended:
        return (Event(last, "descendants_ended", {}),) if done.settled and not before.settled else ()
    ended = Event(done.end_time or time.time(), "exited", {"status": str(done.status), "reason": done.reason})
    return (ended, Event(ended.at, "left_running", {})) if "left_running" in done.flags else (ended,)


def take_in_unrecorded(jobs: Jobs, paths: StatePaths) -> None:
    """Jobs that ran while the store could not be written."""
    if not paths.unrecorded.is_dir():
        return
    late = []
    for file in paths.unrecorded.glob("*.json"):
        try:
            late.append((_checked(from_beside(json.loads(read_state_file(file, RECORD_BYTES)))), file))
        except (OSError, ValueError, KeyError, TypeError, AttributeError, BadValue, RowDamaged):
            continue
    for job, file in sorted(late, key=lambda item: item[0].submitted_at or 0.0):
        if job.host == paths.host:
            change = partial(_ended_by, job=job)
            jobs.insert_or_change(replace(job, seq=None), event("recorded_late"), change)
            remove_file(file)


def sweep_specs(paths: StatePaths, days: float) -> None:
    """Once a day, drop what is needed to run old jobs again: it holds their environments, secrets and all."""
    swept, now = paths.specs / ".swept", time.time()
    try:
        if os.path.lexists(swept) and now - swept.lstat().st_mtime < DAY_SECONDS:
            return
        touch_state_file(swept)
        own = [file for file in paths.specs.glob("*.json") if is_job_id(file.stem)]
        old = {file: now - file.lstat().st_mtime for file in own}
        old = {file: age for file, age in old.items() if age > min(days, 1) * DAY_SECONDS}
        waiting = ids_waiting(paths) if old else frozenset()
        for file, age in old.items():
            directory = paths.job(JobId(file.stem))
            never_began = age > DAY_SECONDS and os.path.isdir(directory) and not os.listdir(directory)
            if (age > days * DAY_SECONDS or never_began) and file.stem not in waiting:
                remove_file(file)
            if never_began:
                with suppress(OSError):
                    directory.rmdir()
    except (OSError, StoreError):  # tomorrow, then
        return


def ids_waiting(paths: StatePaths) -> frozenset[str]:
    """The jobs that have not begun yet, however long they have waited."""
    if not paths.store.exists():
        return frozenset()
    database = open_to_read(paths.store)
    try:
        return unstarted_ids(database)
    finally:
        database.close()


def beside(job: Job) -> dict[str, object]:
    """A job as it is kept when the store cannot be written: its record, and what only we need."""
    asked, shim = job.stop_request, job.shim
    return job.to_json() | {
        "shim": [shim.boot, shim.pid, shim.start] if shim else None,
        "stop_request": [asked.by, asked.at] if asked else None,
        "grace_seconds": job.grace_seconds,
    }


def from_beside(shape: dict[str, Any]) -> Job:
    """The inverse of `beside`."""
    shim, asked = shape.pop("shim", None), shape.pop("stop_request", None)
    return replace(
        Job.from_json(shape),
        shim=Identity(*shim) if shim else None,
        stop_request=StopRequest(*asked) if asked else None,
    )


def _checked(job: Job) -> Job:
    """A job that the store can keep and give back."""
    check_columns(columns_of(job))
    return job


def _ended_by(row: Job, job: Job) -> tuple[Job, Iterable[Event]]:
    """A row the store could not be told the end of."""
    if row.status.ended or not job.status.ended:
        return row, ()
    return replace(job, seq=row.seq), (event("recorded_late"),)


def paused_or_running(job: Job, paused: bool) -> tuple[Job, tuple[Event, ...]]:
    """A job that stands still, or goes on."""
    wanted = Status.PAUSED if paused else Status.RUNNING
    if not job.status.may_become(wanted):
        return job, ()
    return replace(job, status=wanted), (event("paused" if paused else "resumed"),)
