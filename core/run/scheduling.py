"""Plans the queue: which queued jobs start now, and why each of the others waits. Pure; the time is passed in."""

from __future__ import annotations

import math
import time
from functools import lru_cache
from operator import attrgetter

from jobtop.core.model import LIVE, Limits, Queued, Status
from jobtop.core.record import record
from jobtop.core.units import format_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from jobtop.core.model import Job

    Amounts = tuple[float, float, float]  # CPUs, bytes of memory, GPUs

CPUS, MEMORY = 0, 1  # GPUs are the third
SUCCESS, QUEUED = Status.SUCCESS, Status.QUEUED  # a lookup in the enum costs as much as the rest of a comparison
SHOWN_IDS = 3
SLACK = 1e-9  # sums of tenths of CPUs
LONGEST_RETRY_SECONDS = 300.0
RETRIED = frozenset({Status.FAILED, Status.TIMEOUT, Status.LOST})
ENDED = {
    Status.FAILED: "failed",
    Status.TIMEOUT: "timed out",
    Status.CANCELLED: "was cancelled",
    Status.ERROR: "could not be started",
    Status.LOST: "was lost",
    Status.UNKNOWN: "ended in an unknown way",
    None: "is not in the history any more",
}


@record
class Waiting:
    """What the plan needs to know of a queued job; the job with the smallest `turn` starts first."""

    id: str
    turn: tuple[int, int]
    group: str | None = None
    cpus: float | None = None
    memory_bytes: int | None = None
    gpus: int | None = None
    runtime_seconds: float | None = None
    after: tuple[str, ...] = ()
    not_before: float | None = None
    attempt: int = 1
    is_paused: bool = False
    put_off: str | None = None  # why an earlier start failed, and is tried again later
    after_end: tuple[str, ...] = ()
    slots: int | None = None  # of its group


@record
class Running:
    """What the plan needs to know of a job that takes resources: it runs, or is being started."""

    id: str
    group: str | None = None
    cpus: float | None = None
    memory_bytes: int | None = None
    gpus: int | None = None
    given: tuple[str, ...] = ()  # the GPUs that the queue gave it
    ends_at: float | None = None
    parent_id: str | None = None
    slots: int | None = None  # of its group


@record
class Capacity:
    """The resources of a host; the queue never waits for memory if `memory_bytes` is None, which means unknown."""

    cpus: float
    memory_bytes: int | None = None
    gpus: tuple[str, ...] = ()


@record
class Start:
    """A job that starts now, and the GPUs it gets."""

    id: str
    gpus: tuple[str, ...] = ()


@record
class Plan:
    """The jobs to start and to cancel now, and why the others wait; at `next_moment` another job becomes due."""

    start: tuple[Start, ...]
    waits: dict[str, str]
    cancel: dict[str, str]
    next_moment: float | None


def plan(
    waiting: Iterable[Waiting],
    running: Iterable[Running],
    capacity: Capacity,
    groups: Mapping[str, int],
    outcomes: Mapping[str, Status | None],
    now: float,
) -> Plan:
    """Plan by priority, then by age. Resources are reserved for the first job that cannot start, so that it can soon.

    Later jobs start only if they do not delay it.
    """
    room = Room(capacity, groups, list(running), now)
    start: list[Start] = []
    waits: dict[str, str] = {}
    cancel: dict[str, str] = {}
    moments: set[float] = set()
    # Thousands of jobs may ask for the same. Free resources only shrink during a plan, so one refusal is valid for all.
    refused: dict[object, str] = {}
    clocks: dict[tuple[float, int], str] = {}
    dependencies: dict[object, tuple[str | None, str | None]] = {((), ()): (None, None)}
    has_failures = any(is_failure(status) for status in outcomes.values() if status is not QUEUED)
    for job in sorted(waiting, key=attrgetter("turn")):
        if job.is_paused:
            waits[job.id] = "paused"
            continue
        if (verdict := dependencies.get((job.after, job.after_end))) is None:
            verdict = dependencies[job.after, job.after_end] = dependency_verdict(job, outcomes, has_failures)
        if verdict[0] is not None:
            cancel[job.id] = verdict[0]
        elif verdict[1] is not None:
            waits[job.id] = verdict[1]
        elif job.not_before is not None and job.not_before > now:
            moment = (job.not_before, job.attempt)
            words = clocks.get(moment) or clocks.setdefault(moment, until(*moment, now))
            waits[job.id] = words if job.put_off is None else f"{job.put_off}; {words}"
            moments.add(job.not_before)
        else:
            asked = (job.group, job.cpus, job.memory_bytes, job.gpus, job.runtime_seconds)
            refusal = refused.get(asked) or room.refusal(job)
            if refusal is None:
                start.append(Start(job.id, room.take(job)))
            else:
                waits[job.id] = refused[asked] = refusal
    return Plan(tuple(start), waits, cancel, min(moments, default=None))


class Room:
    """The free resources of a host, and those that are reserved for the first job that cannot start."""

    def __init__(self, capacity: Capacity, groups: Mapping[str, int], running: list[Running], now: float) -> None:
        self.capacity, self.groups, self.now = capacity, groups, now
        memory = math.inf if capacity.memory_bytes is None else capacity.memory_bytes
        self.total: Amounts = (capacity.cpus, memory, len(capacity.gpus))
        self.free: Amounts = self.total
        self.slots = dict(groups)
        self.reserved_for: Waiting | None = None
        self.reserved: Amounts = (0.0, 0.0, 0.0)
        self.can_start_at = -math.inf  # when `reserved_for` can start, by the declared run times
        self._ends: list[tuple[float, Amounts]] = []
        ids = {job.id for job in running}
        counted = [job for job in running if job.parent_id not in ids]  # an outer job includes its inner jobs
        given = {gpu for job in counted for gpu in job.given}
        self.gpus = [gpu for gpu in capacity.gpus if gpu not in given]
        for job in counted:
            self._take(job, job.ends_at)
            # A job that was not given its GPUs uses unknown ones; most programs use the first.
            del self.gpus[: max(0, (job.gpus or 0) - len(job.given))]

    def needs(self, job: Waiting | Running) -> Amounts:
        """What a job takes. An undeclared number of CPUs counts as one, or as none in a group with slots."""
        cpus = job.cpus
        if cpus is None:
            cpus = 0.0 if job.group in self.groups else min(1.0, self.capacity.cpus)
        return cpus, job.memory_bytes or 0, job.gpus or 0

    def refusal(self, job: Waiting) -> str | None:
        """Why a job cannot start now; None if it can."""
        needs = self.needs(job)
        if (why := beyond(needs, self.total)) is not None:
            return f"it {why}"
        if job.group is not None and (left := self.slots.get(job.group)) is not None and left < 1:
            return self._slots_taken(job.group)
        if (scarce := lacking(needs, self.free)) is not None:
            if self.reserved_for is None:
                self._reserve(job, needs)
            free, total = (amount(scarce, max(0.0, have[scarce])) for have in (self.free, self.total))
            verb = "is" if free == "1" else "are"
            return f"waits for {amount_words(scarce, needs[scarce])}: {free} of {total} {verb} free"
        if self.reserved_for is None or self._ends_in_time(job):
            return None
        spare = [free - reserved for free, reserved in zip(self.free, self.reserved, strict=True)]
        if (scarce := lacking(needs, spare)) is None:
            return None
        words = amount_words(scarce, self.reserved[scarce])
        verb = "is" if amount(scarce, self.reserved[scarce]) == "1" else "are"
        return f"behind job {self.reserved_for.id[:8]}, for which {words} {verb} reserved"

    def take(self, job: Waiting) -> tuple[str, ...]:
        """Take the resources of a job; return the GPUs it gets."""
        self._take(job, None if job.runtime_seconds is None else self.now + job.runtime_seconds)
        count = job.gpus or 0
        given, self.gpus = tuple(self.gpus[:count]), self.gpus[count:]
        return given

    def _take(self, job: Waiting | Running, ends_at: float | None) -> None:
        needs = self.needs(job)
        self.free = _less(self.free, needs)
        if job.group in self.slots:
            self.slots[job.group] -= 1
        if ends_at is not None and ends_at > self.now:
            self._ends.append((ends_at, needs))

    def _reserve(self, job: Waiting, needs: Amounts) -> None:
        """Reserve the resources for this job, and find out when it can start."""
        self.reserved_for, self.reserved = job, needs
        if job.group in self.slots:
            self.slots[job.group] -= 1
        free: Amounts = self.free
        for moment, amounts in sorted(self._ends):
            free = _less(free, (-amounts[0], -amounts[1], -amounts[2]))
            if lacking(needs, free) is None:
                self.can_start_at = moment
                return

    def _ends_in_time(self, job: Waiting) -> bool:
        """Whether the job ends before the resources that it takes are needed by `reserved_for`."""
        return job.runtime_seconds is not None and self.now + job.runtime_seconds <= self.can_start_at

    def _slots_taken(self, group: str) -> str:
        slots = self.groups[group]
        if self.reserved_for is not None and self.reserved_for.group == group:
            return f"group {group}: its last free slot is reserved for job {self.reserved_for.id[:8]}"
        if slots < 1:
            return f"group {group}: it has no slots"
        return f"group {group}: {'its slot is' if slots == 1 else f'all {slots} slots are'} taken"


def waiting_from(job: Job) -> Waiting:
    """A queued job, for the plan."""
    queued, limits = job.queue or Queued(), job.limits
    return Waiting(
        job.id,
        (-queued.priority, job.seq or 0),
        queued.group,
        limits.cpus,
        limits.memory_bytes,
        limits.gpus,
        longest(limits),
        queued.after,
        queued.not_before,
        queued.attempt,
        job.status is Status.PAUSED,
        job.reason,
        queued.after_end,
        queued.slots,
    )


def running_from(job: Job) -> Running:
    """A job that runs or is being started, for the plan."""
    queued, limits, seconds = job.queue or Queued(), job.limits, longest(job.limits)
    known = job.start_time is not None and seconds is not None and job.status is not Status.PAUSED
    ends_at = (job.start_time or 0.0) + (seconds or 0.0) if known else None
    return Running(
        job.id,
        queued.group,
        limits.cpus,
        limits.memory_bytes,
        limits.gpus,
        queued.gpus,
        ends_at,
        job.parent_id,
        queued.slots,
    )


def longest(limits: Limits) -> float | None:
    """The longest time that a job takes, as declared; None if no time was declared."""
    declared = [seconds for seconds in (limits.runtime_seconds, limits.timeout_seconds) if seconds is not None]
    return min(declared, default=None)


def impossible(limits: Limits, capacity: Capacity) -> str | None:
    """In words, what a job asks for and the host does not have even if idle; None if it has everything."""
    memory = math.inf if capacity.memory_bytes is None else capacity.memory_bytes
    needs = (limits.cpus or 0.0, limits.memory_bytes or 0, limits.gpus or 0)
    return beyond(needs, (capacity.cpus, memory, len(capacity.gpus)))


def beyond(needs: Amounts, total: Amounts) -> str | None:
    """In words, what is asked for and exceeds the total; None if nothing does."""
    scarce = lacking(needs, total)
    if scarce is None:
        return None
    there = amount(scarce, total[scarce])
    return f"needs {amount_words(scarce, needs[scarce])}: this host has {'none' if there == '0' else there}"


def retry_seconds(attempt: int) -> float:
    """The seconds to wait after a failed attempt."""
    return float(min(LONGEST_RETRY_SECONDS, 2 ** min(attempt - 1, 20)))


def will_be_retried(status: Status, queued: Queued | None) -> bool:
    """Whether another attempt at a job with this status will be queued."""
    return queued is not None and queued.retries > 0 and queued.retried_by is None and status in RETRIED


def dependency_verdict(
    job: Waiting, outcomes: Mapping[str, Status | None], has_failures: bool
) -> tuple[str | None, str | None]:
    """In words, why a job is cancelled by the jobs it depends on, and why it waits for them."""
    unmet = [job_id for job_id in job.after if outcomes.get(job_id) is not SUCCESS]
    if unmet and has_failures and (why := failure(unmet, outcomes)) is not None:
        return why, None
    if unmet:
        return None, must_first_words(len(unmet), "succeed", *unmet[:SHOWN_IDS])
    return None, still_live(job.after_end, outcomes) if job.after_end else None


def failure(after: Iterable[str], outcomes: Mapping[str, Status | None]) -> str | None:
    """In words, which job had to succeed first and did not; None if none failed."""
    for job_id in after:
        if is_failure(status := outcomes.get(job_id)):
            return f"job {job_id[:8]}, which had to succeed first, {ENDED[status]}"
    return None


def is_failure(status: Status | None) -> bool:
    """Whether jobs that depend on one with this status can never start."""
    return status is not QUEUED and status is not SUCCESS and status not in LIVE


def still_live(after_end: Iterable[str], outcomes: Mapping[str, Status | None]) -> str | None:
    """In words, which jobs have to end first; None if all have."""
    return must_first([job_id for job_id in after_end if outcomes.get(job_id) in LIVE], "end")


def must_first(left: list[str], verb: str) -> str | None:
    """`jobs 3f8a21b2 and 7b9e3f1a must end first`; None if no job is left."""
    if not left:
        return None
    return must_first_words(len(left), verb, *left[:SHOWN_IDS])


@lru_cache(maxsize=4096)  # most jobs wait for the same jobs in the next plan
def must_first_words(count: int, verb: str, *ids: str) -> str:
    shown = ", ".join(job_id[:8] for job_id in ids) + (f" and {count - len(ids)} more" if count > len(ids) else "")
    return f"{'job' if count == 1 else 'jobs'} {shown} must {verb} first"


def until(moment: float, attempt: int, now: float) -> str:
    """In words, when a job may start, in local time."""
    there, here = time.localtime(moment), time.localtime(now)
    words = time.strftime("%H:%M:%S" if there.tm_sec else "%H:%M", there)
    if there[:3] != here[:3]:
        words = f"{time.strftime('%Y-%m-%d', there)} {words}"
    return f"attempt {attempt} is due at {words}" if attempt > 1 else f"until {words}"


def lacking(needs: Iterable[float], there: Iterable[float]) -> int | None:
    """The first resource of which there is too little; None if there is enough."""
    for index, (need, have) in enumerate(zip(needs, there, strict=True)):
        if need > 0 and need > have + SLACK:
            return index
    return None


def amount(resource: int, number: float) -> str:
    return format_bytes(number) if resource == MEMORY else f"{round(number, 3):g}"


def amount_words(resource: int, number: float) -> str:
    """2 CPUs, 8.0 GiB of memory, 1 GPU."""
    words = amount(resource, number)
    if resource == MEMORY:
        return f"{words} of memory"
    return f"{words} {'CPU' if resource == CPUS else 'GPU'}{'' if words == '1' else 's'}"


def _less(amounts: Amounts, taken: Amounts) -> Amounts:
    return amounts[0] - taken[0], amounts[1] - taken[1], amounts[2] - taken[2]
