"""Estimates when queued jobs start, from how long jobs of the same names took before. Pure; the time is passed in."""

from __future__ import annotations

import heapq
from operator import attrgetter

from jobtop.core.model import Status
from jobtop.core.run.scheduling import Running, plan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from jobtop.core.run.scheduling import Capacity, Waiting

MOST_JOBS = 50  # of the queue, from its start: each step plans all of them
MOST_STEPS = 100


def expected_starts(
    waiting: Iterable[Waiting],
    running: Iterable[Running],
    capacity: Capacity,
    groups: Mapping[str, int],
    outcomes: Mapping[str, Status | None],
    seconds: Mapping[str, float],
    ends: Mapping[str, float],
    now: float,
) -> dict[str, float]:
    """When each queued job starts, if every job takes `seconds` and running jobs end at `ends`.

    A job without such a number never ends here: what only it would make room for has no expected start.
    """
    left = {job.id: job for job in sorted(waiting, key=attrgetter("turn"))[:MOST_JOBS]}
    active, known = {job.id: job for job in running}, dict(outcomes)
    due = [(ends[job_id], job_id) for job_id in active if job_id in ends]
    heapq.heapify(due)
    found: dict[str, float] = {}
    moment = now
    for _ in range(MOST_STEPS):
        planned = plan(left.values(), active.values(), capacity, groups, known, moment)
        for job_id in planned.cancel:
            del left[job_id]
        for start in planned.start:
            found[start.id] = moment
            active[start.id] = started(left.pop(start.id), start.gpus)
            if start.id in seconds:
                heapq.heappush(due, (moment + seconds[start.id], start.id))
        moments = [due[0][0]] if due else []
        moments += [] if planned.next_moment is None else [planned.next_moment]
        if not left or not moments:
            break
        moment = max(moment, min(moments))
        while due and due[0][0] <= moment:
            _, job_id = heapq.heappop(due)
            del active[job_id]
            known[job_id] = Status.SUCCESS
    return found


def started(job: Waiting, gpus: tuple[str, ...]) -> Running:
    """A queued job as a running one, which takes the same."""
    return Running(job.id, job.group, job.cpus, job.memory_bytes, job.gpus, gpus, slots=job.slots)
