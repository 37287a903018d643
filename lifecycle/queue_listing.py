"""The queue as it is shown: the order of jobs, reasons, expected starts, groups, and what is given out."""

from __future__ import annotations

import math
import time
from statistics import median

from jobtop.core.model import Status
from jobtop.core.record import record
from jobtop.core.run.expected_starts import expected_starts
from jobtop.core.run.scheduling import Room, running_from, waiting_from
from jobtop.lifecycle.agent_lock import is_attended
from jobtop.lifecycle.queue import Queue
from jobtop.lifecycle.queue_plan import Lineup
from jobtop.lifecycle.wait import was_called
from jobtop.store.agents import registered
from jobtop.store.jobs import Query
from jobtop.store.queue_rows import recent_durations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from jobtop.core.model import Job
    from jobtop.core.paths import StatePaths
    from jobtop.core.run.scheduling import Capacity, Plan
    from jobtop.store.jobs import Jobs

LIVE = Query(statuses=(Status.QUEUED, Status.PAUSED, Status.RUNNING), limit=None)
MOST_NAMES = 100
MEDIANS_SECONDS = 60.0  # after which the past is read again
ATTACHED = "attached"


@record
class QueueEntry:
    """A queued job: its position, why it waits, and when it is expected to start, if that is known."""

    place: int
    job: Job
    why: str
    starts_at: float | None = None


@record
class GroupUse:
    """A group that has slots or live jobs."""

    name: str
    slots: int | None
    running: int
    waiting: int


@record
class Given:
    """How much of a resource running jobs have declared, and how much there is; None if that is not known."""

    used: float
    total: float | None


@record
class QueueState:
    """The queue of a host at one moment; `gpus` is None on a host without GPUs."""

    entries: tuple[QueueEntry, ...] = ()
    groups: tuple[GroupUse, ...] = ()
    cpus: Given | None = None
    memory: Given | None = None
    gpus: Given | None = None


class Medians:
    """The median time that jobs of a name took when they succeeded; kept for a minute."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[float, float | None]] = {}

    def read(self, jobs: Jobs, host: str, names: Iterable[str], now: float) -> dict[str, float]:
        """The medians of these names; a name without a successful job has none."""
        wanted = list(dict.fromkeys(names))[:MOST_NAMES]
        due = [name for name in wanted if now - self._known.get(name, (-math.inf, None))[0] > MEDIANS_SECONDS]
        for name, durations in recent_durations(jobs.database, host, due).items() if due else ():
            self._known[name] = now, median(durations) if durations else None
        return {name: found for name in wanted if (found := self._known[name][1]) is not None}


def read_state(
    jobs: Jobs, paths: StatePaths, capacity: Callable[[], Capacity], medians: Medians, now: float | None = None
) -> QueueState:
    """The queue of this host."""
    now = time.time() if now is None else now
    live: dict[str, Job] = {job.id: job for job in jobs.select(LIVE) if job.host == paths.host}
    lineup = lineup_of(Queue(jobs, paths), live.values())
    room_for = capacity()
    plan = lineup.plan(room_for, now)
    starts = starts_of(lineup, live, room_for, medians, now) if lineup.waiting and has_agent(jobs) else {}
    waiting = [live[job_id] for job_id in lineup.waiting]
    room = Room(room_for, lineup.slots(), list(lineup.running.values()), now)
    cpus, memory, gpus = (
        Given(
            total - free if math.isfinite(total) else declared_memory(lineup), total if math.isfinite(total) else None
        )
        for total, free in zip(room.total, room.free, strict=True)
    )
    return QueueState(
        tuple(
            QueueEntry(place, job, why, starts.get(job.id)) for place, job, why in ordered(lineup, plan, waiting, paths)
        ),
        tuple(groups_of(lineup)),
        cpus,
        memory,
        gpus if gpus.total else None,
    )


def lineup_of(queue: Queue, live: Iterable[Job]) -> Lineup:
    """The queue made from records that have been read."""
    lineup = Lineup(queue)
    lineup.groups = queue.groups()
    for job in live:
        if queue.waits(job):
            lineup.waiting[job.id] = waiting_from(job)
        elif ATTACHED not in job.flags:
            lineup.running[job.id] = running_from(job)
    return lineup


def starts_of(
    lineup: Lineup, live: Mapping[str, Job], capacity: Capacity, medians: Medians, now: float
) -> dict[str, float]:
    """The expected starts, from the medians of jobs with the same names; a job that took longer already has no end."""
    names = [job.name for job_id, job in live.items() if job_id in lineup.running or job_id in lineup.waiting]
    seconds = medians.read(lineup.queue.jobs, lineup.queue.paths.host, names, now)
    ends = {
        job_id: ends_at
        for job_id in lineup.running
        if (job := live[job_id]).name in seconds
        and job.status is Status.RUNNING
        and job.start_time is not None
        and (ends_at := job.start_time + seconds[job.name]) > now
    }
    durations = {job_id: seconds[live[job_id].name] for job_id in lineup.waiting if live[job_id].name in seconds}
    return expected_starts(
        lineup.waiting.values(),
        lineup.running.values(),
        capacity,
        lineup.slots(),
        lineup.outcomes(),
        durations,
        ends,
        now,
    )


def ordered(
    lineup: Lineup, plan: Plan, queued_jobs: Iterable[Job], paths: StatePaths
) -> Iterator[tuple[int, Job, str]]:
    """Every queued job in start order with its position and the reason it waits."""
    jobs, queued_jobs = lineup.queue.jobs, list(queued_jobs)
    turn = "it is next to start"
    if plan.start and not has_agent(jobs):
        is_called = has_agent_soon(jobs, paths, queued_jobs)
        turn += ": the agent is starting" if is_called else ", but no agent is running: jobtop agent start"
    reasons = plan.waits | dict.fromkeys((start.id for start in plan.start), turn)
    reasons |= {job_id: f"it will be cancelled: {reason}" for job_id, reason in plan.cancel.items()}
    queued_jobs = [job for job in queued_jobs if job.id in reasons]
    for place, job in enumerate(sorted(queued_jobs, key=lambda job: lineup.waiting[job.id].turn), 1):
        yield place, job, reasons[job.id]


def groups_of(lineup: Lineup) -> Iterator[GroupUse]:
    """Every group that has slots or live jobs."""
    running = [job.group for job in lineup.running.values()]
    waiting = [job.group for job in lineup.waiting.values()]
    for name in sorted({*lineup.groups, *running, *waiting} - {None}, key=str):
        assert name is not None
        yield GroupUse(name, lineup.groups.get(name), running.count(name), waiting.count(name))


def has_agent(jobs: Jobs) -> bool:
    return registered(jobs.database) is not None


def has_agent_soon(jobs: Jobs, paths: StatePaths, waiting: Sequence[Job]) -> bool:
    """Return whether an agent runs, or was just called: submitting a job calls one."""
    return was_called(waiting) or is_attended(jobs.database, paths)


def declared_memory(lineup: Lineup) -> float:
    return float(sum(job.memory_bytes or 0 for job in lineup.running.values()))
