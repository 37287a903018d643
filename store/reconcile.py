"""Bring the store up to what shims left: any verb that opens its own host's store does this first."""

import json
import time
from collections.abc import Iterable

from jobtop.core import evidence
from jobtop.core.collectors import cgroup
from jobtop.core.collectors.proc import is_alive
from jobtop.core.evidence import Facts
from jobtop.core.model import ENDS, Job, Status
from jobtop.core.paths import StatePaths
from jobtop.core.procfs import read_text
from jobtop.core.record import replace
from jobtop.store.jobs import Event, Jobs, event

VANISHED = "its supervisor vanished (killed, or the machine went down), so its end is not known"
START_SECONDS = 10.0  # a shim that was told its job has left `started` by then


def reconcile(jobs: Jobs, paths: StatePaths) -> None:
    """Finish the records of jobs whose recorder is gone; take in what ran while the store could not be written."""
    take_in_unrecorded(jobs, paths)
    for job in jobs.unsettled(paths.host):
        if job.recorder is not None and not job.status.ended and is_alive(job.recorder):
            continue
        reconcile_one(jobs, paths, job)


def current(jobs: Jobs, paths: StatePaths, job: Job) -> Job:
    """The job as it stands now; finished by us if nobody else will."""
    found = jobs.find(job.id)
    if found.settled or (found.recorder is not None and not found.status.ended and is_alive(found.recorder)):
        return found
    return reconcile_one(jobs, paths, found)


def reconcile_one(jobs: Jobs, paths: StatePaths, job: Job) -> Job:
    """The job as it stands by what its shim left and whether it lives."""
    directory = paths.job(job.id)
    ended = read_facts(directory / "ended", "own_rss")
    if ended is not None:
        if job.status.ended and not ended.integer("final") and shim_lives(job):
            return job
        return finish(jobs, paths, job, ended)
    if job.status in ENDS - {Status.LOST}:
        return jobs.change(job.id, lambda row: (replace(row, settled=True), ()))
    begun = read_facts(directory / "started", "subreaper")
    if begun is not None:
        started = evidence.started(begun)
        if is_alive(started.shim):
            return job if job.pid is not None else jobs.change(job.id, lambda row: (evidence.begin(row, started), ()))
        # The shim may have written its last words between our two looks.
        if (ended := read_facts(directory / "ended", "own_rss")) is not None:
            return finish(jobs, paths, job, ended)
        return lose(jobs, evidence.begin(job, started), started)
    if time.time() - (job.submitted_at or 0) < START_SECONDS:
        return job
    cgroup.discard(cgroup.possible_directories(job.id))
    why = "jobtop was ended before it could start the command"
    return jobs.change(job.id, lambda row: (evidence.never_started(row, why), (event("error", reason=why),)))


def finish(jobs: Jobs, paths: StatePaths, job: Job, ended: Facts) -> Job:
    """Keep how a job ended, what it used, and where its output was when."""

    def concluded(row: Job) -> tuple[Job, Iterable[Event]]:
        done = evidence.conclude(row, ended)
        if ended.integer("final") == 0 and not shim_lives(done):
            done = replace(done, settled=True)
        return done, end_events(row, done)

    done = jobs.change(job.id, concluded)
    jobs.keep_marks(done, read_marks(paths, job.id))
    return done


def lose(jobs: Jobs, job: Job, started: evidence.Started) -> Job:
    """The shim is gone without a word: keep what its cgroups still tell, and call it lost."""
    texts: dict[str, str] = {}
    for directory in started.cgroups:
        for names in cgroup.EVIDENCE.values():
            texts |= {name: text for name in names if (text := read_text(f"{directory}/{name}"))}
    over = cgroup.discard(started.cgroups)
    why = VANISHED

    def concluded(row: Job) -> tuple[Job, Iterable[Event]]:
        known = evidence.lost_with(evidence.begin(row, started), why, cgroup.reading(texts))
        return replace(known, settled=over), () if row.status is Status.LOST else (event("lost", reason=why),)

    return jobs.change(job.id, concluded)


def end_events(before: Job, done: Job) -> tuple[Event, ...]:
    """What the timeline says of an end; nothing twice."""
    if before.status.ended:
        return (event("descendants_ended"),) if done.settled and not before.settled else ()
    ended = Event(done.end_time or time.time(), "exited", {"status": str(done.status), "reason": done.reason})
    return (ended, event("left_running")) if "left_running" in done.flags else (ended,)


def take_in_unrecorded(jobs: Jobs, paths: StatePaths) -> None:
    """Jobs that ran while the store could not be written."""
    if not paths.unrecorded.is_dir():
        return
    for file in sorted(paths.unrecorded.glob("*.json")):
        try:
            job = Job.from_json(json.loads(file.read_text()))
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if job.host != paths.host:
            continue
        if not jobs.has(job.id):
            jobs.insert(replace(job, seq=None), event("recorded_late"))
        file.unlink(missing_ok=True)


def read_facts(path: object, last: str) -> Facts | None:
    """A shim's file; one that breaks off before what is written last counts as not there."""
    facts = Facts(read_text(str(path)))
    return facts if facts.get("version") == "1" and last in facts else None


def read_marks(paths: StatePaths, job_id: str) -> list[tuple[float, int, int | None]]:
    """The lines `elapsed stdout [stderr]` a shim keeps beside the logs."""
    marks: list[tuple[float, int, int | None]] = []
    for line in read_text(str(paths.job(job_id) / "marks")).split("\n"):
        row = line.split()
        try:
            marks.append((float(row[0]), int(row[1]), int(row[2]) if len(row) > 2 else None))
        except (ValueError, IndexError):  # the last line, if it broke off
            continue
    return marks


def shim_lives(job: Job) -> bool:
    return job.shim is not None and is_alive(job.shim)


def paused_or_running(job: Job, paused: bool) -> tuple[Job, tuple[Event, ...]]:
    """A job that stands still, or goes on."""
    wanted = Status.PAUSED if paused else Status.RUNNING
    if not job.status.may_become(wanted):
        return job, ()
    return replace(job, status=wanted), (event("paused" if paused else "resumed"),)
