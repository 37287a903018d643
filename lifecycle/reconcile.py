"""Brings the store up to date with the files of jobs after their recorder has exited.

The recorder of a job is the process that its row names: `run`, or the agent. It writes how the job started and ended.
If it is killed, the shim goes on and leaves `started` and `ended` in the directory of the job. Every verb that lists or
changes jobs reads these files first, and the agent every few seconds.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from functools import partial

from jobtop.core.errors import BadValue, RowDamaged, StoreUnavailable
from jobtop.core.measure.collectors import cgroup
from jobtop.core.measure.collectors.proc import is_alive
from jobtop.core.model import Identity, Job, Status, StopRequest
from jobtop.core.paths import StatePaths
from jobtop.core.record import replace
from jobtop.core.run import outcome
from jobtop.core.run.facts import read_started
from jobtop.core.state_files import read_state_file, remove_directory, remove_file
from jobtop.lifecycle.ends import judge_alerts
from jobtop.lifecycle.kinds.registry import kind_of
from jobtop.store.jobs import Event, Jobs, columns_of, event
from jobtop.store.rows import check_job_columns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from jobtop.core.config import Config


RECORDER_SECONDS = 5.0  # a recorder that has not written the end of its job by then is stopped, or hangs
RECORD_BYTES = 16 * 1024 * 1024


def reconcile(jobs: Jobs, paths: StatePaths, me: Identity | None = None) -> None:
    """Import jobs that ran while the store could not be written; record the ends of jobs without a live recorder."""
    import_unrecorded(jobs, paths)
    for job in jobs.unsettled(paths.host, not_recorded_by=me):
        if not has_a_recorder(paths, job):
            record_end(jobs, paths, job)


def record_end(jobs: Jobs, paths: StatePaths, job: Job, config: Config | None = None) -> Job:
    """Write how a job without a recorder ended, if it has ended, and judge its end by the alert rules."""
    done = kind_of(job).record_end(jobs, paths, job)
    judge_alerts(jobs, paths, job, done, config)
    return done


def has_a_recorder(paths: StatePaths, job: Job) -> bool:
    """Whether the recorder of a job runs and will record its end; False if it is late, or the end is recorded."""
    if job.recorder is None or job.status.ended or not is_alive(job.recorder):
        return False
    try:
        return time.time() - os.stat(paths.job(job.id) / "ended").st_mtime < RECORDER_SECONDS
    except OSError:
        return True


def current(jobs: Jobs, paths: StatePaths, job: Job) -> Job:
    """The job as it is now; its end is recorded first if no recorder will do that, and if the job is of this host."""
    found = jobs.find(job.id)
    is_ours = found.host == paths.host and jobs.database.path == paths.store
    if found.settled or not is_ours or has_a_recorder(paths, found):
        return found
    try:
        return record_end(jobs, paths, found)
    except StoreUnavailable:  # the store cannot be written, or the disk is full
        return found


def forget(paths: StatePaths, job: Job) -> None:
    """Delete the files and cgroups of a job."""
    started = read_started(paths.job(job.id))
    cgroup.discard(cgroup.possible_directories(job.id) if started is None else started.cgroups)
    remove_directory(paths.job(job.id))
    remove_file(paths.spec(job.id))


def with_shim(paths: StatePaths, job: Job) -> Job:
    """The job with its root process from `started`, if the row does not have it yet."""
    started = None if job.shim is not None else read_started(paths.job(job.id))
    return job if started is None else outcome.begin(job, started)


def import_unrecorded(jobs: Jobs, paths: StatePaths) -> None:
    """Import the records of jobs that ran while the store could not be written."""
    if not paths.unrecorded.is_dir():
        return
    found = []
    for file in paths.unrecorded.glob("*.json"):
        try:
            found.append((_checked(from_unrecorded(json.loads(read_state_file(file, RECORD_BYTES)))), file))
        except (OSError, ValueError, KeyError, TypeError, AttributeError, BadValue, RowDamaged):
            continue
    for job, file in sorted(found, key=lambda item: item[0].submitted_at or 0.0):
        if job.host == paths.host:
            change = partial(_with_late_end, job=job)
            jobs.insert_or_change(replace(job, seq=None), event("recorded_late"), change)
            remove_file(file)


def to_unrecorded(job: Job) -> dict[str, object]:
    """The JSON for unrecorded/ID.json: the record, and the fields that only jobtop itself needs."""
    asked, shim = job.stop_request, job.shim
    return job.to_json() | {
        "shim": [shim.boot, shim.pid, shim.start] if shim else None,
        "stop_request": [asked.by, asked.at] if asked else None,
        "grace_seconds": job.grace_seconds,
    }


def from_unrecorded(shape: dict[str, Any]) -> Job:
    """The inverse of `to_unrecorded`."""
    shim, asked = shape.pop("shim", None), shape.pop("stop_request", None)
    return replace(
        Job.from_json(shape),
        shim=Identity(*shim) if shim else None,
        stop_request=StopRequest(*asked) if asked else None,
    )


def _checked(job: Job) -> Job:
    """The job; RowDamaged if the store cannot hold it."""
    check_job_columns(columns_of(job))
    return job


def _with_late_end(row: Job, job: Job) -> tuple[Job, Iterable[Event]]:
    """The row with the end from unrecorded/ID.json, if the row has no end yet."""
    if row.status.ended or not job.status.ended:
        return row, ()
    return replace(job, seq=row.seq), (event("recorded_late"),)


def paused_or_running(job: Job, paused: bool) -> tuple[Job, tuple[Event, ...]]:
    """The record of a job that was paused or resumed, and the event."""
    wanted = Status.PAUSED if paused else Status.RUNNING
    if not job.status.may_become(wanted):
        return job, ()
    return replace(job, status=wanted), (event("paused" if paused else "resumed"),)
