"""For all kinds of jobs: the events of start and end, and what stored samples add to the record."""

from __future__ import annotations

import os
import time
from contextlib import suppress

from jobtop.core.config import load
from jobtop.core.model import Status
from jobtop.core.run import outcome
from jobtop.store.alerts.counts import has_open_alerts
from jobtop.store.jobs import Event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jobtop.core.config import Config
    from jobtop.core.measure.observation import Observation
    from jobtop.core.model import Job
    from jobtop.core.paths import StatePaths
    from jobtop.core.run.facts import Started
    from jobtop.store.alerts.alert_rows import StoredAlert
    from jobtop.store.jobs import Jobs

COMPARED_SECONDS = 5.0  # a shorter run is not compared with earlier ones
LIMITED_SECONDS = 2.0  # a shorter run has too few samples to say what limited it


def started_change(started: Started) -> Callable[[Job], tuple[Job, tuple[Event, ...]]]:
    """The change of the row of a job that has started, for `Jobs.change`."""
    event = Event(started.start_time, "started", {"pid": started.main.pid})
    return lambda row: (outcome.begin(row, started), (event,))


def end_events(before: Job, done: Job, last: float) -> tuple[Event, ...]:
    """The events to add when a job ends, or when its last descendant exits, which is at `last`."""
    if before.status.ended:
        return (Event(last, "descendants_ended", {}),) if done.settled and not before.settled else ()
    ended = Event(done.end_time or time.time(), "exited", {"status": str(done.status), "reason": done.reason})
    return (ended, Event(ended.at, "left_running", {})) if "left_running" in done.flags else (ended,)


def flag_over_use(done: Job) -> Job:
    """The record of an ended job with flags for what it used more of than it asked for."""
    asked = done.limits
    if not (asked.memory_bytes or asked.cpus or asked.runtime_seconds):
        return done
    from jobtop.core.analysis.over_use import flagged

    return flagged(done)


def judge_alerts(
    jobs: Jobs, paths: StatePaths, before: Job, done: Job, config: Config | None = None
) -> Sequence[StoredAlert]:
    """Judge a job that has just ended by the alert rules; a mistake there is logged, and changes nothing else.

    Returns the alerts of the job that have changed.
    """
    if before.status.ended or not done.status.ended or done.seq is None:
        return ()
    is_short = (done.duration_seconds or 0.0) < COMPARED_SECONDS
    if done.status is Status.SUCCESS and is_short and not has_open_alerts(jobs.database, done.seq):
        return ()
    from jobtop.core import journal

    try:
        from jobtop.lifecycle.alerts.ends import judge_end

        return judge_end(jobs, done, config if config is not None else load((), os.environ, paths.names.root))
    except Exception as error:  # noqa: BLE001 - a border: alerts never change how the end of a job is recorded
        with suppress(OSError):
            journal.write(paths.names.log, "ERROR", f"alerts of job {done.id[:8]}: {type(error).__name__}: {error}")
        return ()


def stored_observation(jobs: Jobs, job: Job) -> Callable[[Job], Job] | None:
    """A function that adds what stored samples show to the record; None if there are no samples."""
    observation = observation_in(jobs, job)
    return None if observation is None else observation.of


def seen_seconds(jobs: Jobs, job: Job) -> float | None:
    """How long a job has run until its last sample or the last heartbeat of its recorder; None if it has neither."""
    if job.start_time is None:
        return None
    seen = [] if job.last_heard is None else [max(0.0, job.last_heard - job.start_time)]
    if job.seq is not None and jobs.has_series(job.seq):
        from jobtop.store.samples.series import SeriesStore

        seen += [sample.elapsed for sample in SeriesStore(jobs.database).newest(job.seq, 1)]
    return round(max(seen), 6) if seen else None


def limits_of(jobs: Jobs, job: Job) -> Callable[[Job], Job] | None:
    """A function that adds to the record what limited the job; None if it was too short or not sampled."""
    if (job.duration_seconds or 0.0) < LIMITED_SECONDS or job.seq is None or not jobs.has_series(job.seq):
        return None
    from jobtop.lifecycle.limiting import read_limits, with_limits

    limits = read_limits(jobs, job)
    return None if limits is None else lambda done: with_limits(done, limits)


def observation_in(jobs: Jobs, job: Job) -> Observation | None:
    """What the stored samples of a job show; None if there are none."""
    if job.seq is None or not jobs.has_series(job.seq):
        return None
    from jobtop.core.measure.observation import seen_in
    from jobtop.store.samples.series import SeriesStore

    return seen_in(SeriesStore(jobs.database).samples(job.seq))
