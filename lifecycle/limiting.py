"""Reads the stored samples of an ended job and of its host meanwhile, and adds what limited the job to its record."""

from __future__ import annotations

import os

from jobtop.core.analysis.limiting import HOST_KEYS, JOB_KEYS, NO_CURVES, Curves, Limits, Setting, find_limits
from jobtop.core.errors import JobtopError
from jobtop.core.record import replace
from jobtop.store.samples import curves
from jobtop.store.samples.hosts import HostRecord

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jobtop.core.model import Job
    from jobtop.store.jobs import Jobs
    from jobtop.store.samples.joined import Series

MOST_POINTS = 2000


def read_limits(jobs: Jobs, job: Job) -> Limits | None:
    """What limited a job that has ended; None if that is not known."""
    seconds = job.duration_seconds
    if seconds is None:
        return None
    try:
        own = curves.Curves(jobs.database).series(job, JOB_KEYS, max_points=MOST_POINTS)
        host = _curves(HostRecord(jobs.database).around(job, HOST_KEYS, max_points=MOST_POINTS))
    except JobtopError:
        return None
    allowed = [cpus for cpus in (job.usage.cpus_allowed, job.limits.cpus if job.limits.enforced else None) if cpus]
    gpus = job.limits.gpus or (0 if job.queue is None else len(job.queue.gpus))
    setting = Setting(min(allowed, default=None), max(1, gpus), os.cpu_count() or 1)
    return find_limits(_curves(own), host, seconds, setting)


def with_limits(job: Job, limits: Limits) -> Job:
    """The record with the word for the whole run, and the words and the evidence for its tenths."""
    found = {"limited": [part.to_json() for part in limits.parts], "limited_whole": [limits.whole.to_json()]}
    word = None if limits.whole.word is None else str(limits.whole.word)
    return replace(job, limited_by=word, findings=job.findings | found)


def _curves(series: Series) -> Curves:
    return Curves(series.times, series.values) if series.times else NO_CURVES
