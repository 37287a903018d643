"""Replays a rule over what was recorded: when it would have fired, for how long, and with which worst value.

The recorded samples go through the evaluator that judges running jobs. Nothing is written, and no message is sent.
"""

from __future__ import annotations

import heapq
from functools import partial
from itertools import pairwise

from jobtop.core.alerts.detectors.deviation import MOST_RUNS
from jobtop.core.alerts.detectors.stall import OUTPUT
from jobtop.core.alerts.evaluator import LOOK_SECONDS, Evaluator
from jobtop.core.alerts.expressions.expression import supplying_keys
from jobtop.core.alerts.expressions.extra_keys import BY_EXTRA_KEY, ELAPSED
from jobtop.core.alerts.model import RuleKind, State
from jobtop.core.alerts.rule_watch import JOB_SCOPES, WORST, RuleWatch
from jobtop.core.errors import UsageError
from jobtop.core.metrics import JOB_COLUMNS, Scope
from jobtop.core.model import Sample, Status
from jobtop.core.record import record, replace
from jobtop.core.units import printable
from jobtop.store.events import MachineEvents
from jobtop.store.samples.devices import DeviceRecord
from jobtop.store.samples.machine import MachineRecord
from jobtop.store.samples.series import SeriesStore

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from jobtop.core.alerts.model import Owner, Rule, Transition
    from jobtop.core.measure.device import Device
    from jobtop.core.model import Job
    from jobtop.store.database import Database
    from jobtop.store.jobs import Event, Jobs
    from jobtop.store.samples.machine import BootPart
    from jobtop.store.samples.machine import Owner as Recorded

    Step = tuple[float, int, Callable[[float], list[Transition]]]
    Progress = Callable[[int, int], object]  # done, total

# Detectors look every ten seconds in gaps between samples of this length; in longer ones no engine was at work.
JOB_GAP_SECONDS, MACHINE_GAP_SECONDS = 150.0, 900.0
CORE_COUNT = "cpu.count"
RECORDED_EXTRAS = (ELAPSED, OUTPUT, CORE_COUNT)
OWN_EVENTS = ("alert", "alert_resolved")
PAUSES = {"paused": Status.PAUSED, "resumed": Status.RUNNING}
SAMPLE, MARK, EVENT = range(3)  # the order of what happened at the same time


@record
class Firing:
    """One time that a rule would have fired. `resolved_at` is None if it fired until the end of what is recorded."""

    owner: Owner
    job: Job | None
    began_at: float
    fired_at: float
    resolved_at: float | None
    ended_at: float  # when it was resolved, or the end of what is recorded
    worst: float | None
    fired: Transition

    @property
    def seconds(self) -> float:
        """For how long it would have fired."""
        return max(0.0, self.ended_at - self.fired_at)


def refuse_unrecorded(rule: Rule) -> None:
    """Raise UsageError for a rule on values that the history does not keep."""
    expressions = [one for one in (rule.expression, rule.limit) if one is not None]
    for key in (key for expression in expressions for key in expression.keys):
        if key in BY_EXTRA_KEY and key not in RECORDED_EXTRAS:
            raise UsageError(f'rule "{printable(rule.name)}" cannot be replayed: {key} is not kept in the history')


def needed_keys(rule: Rule) -> tuple[str, ...]:
    """Return the keys that a rule judges and samples have; empty for rules on events and on figures of records."""
    if rule.kind in (RuleKind.EVENT, RuleKind.DEVIATION):
        return ()
    expressions = [one for one in (rule.expression, rule.limit) if one is not None]
    keys = dict.fromkeys(key for expression in expressions for key in supplying_keys(expression))
    return tuple(key for key in keys if key not in BY_EXTRA_KEY)


def is_for_jobs(rule: Rule) -> bool:
    """Whether a rule judges jobs, and not the host or its devices."""
    return rule.scope in JOB_SCOPES


def may_concern(rule: Rule, job: Job) -> bool:
    """Whether a rule is for a job as it was while it ran, or as it has ended."""
    watch = RuleWatch(rule, {})
    return job.start_time is not None and (watch.is_for(replace(job, status=Status.RUNNING)) or watch.is_for(job))


def replay_job(rule: Rule, jobs: Jobs, job: Job, recorded: set[str]) -> list[Firing]:
    """Replay a rule over the samples, the output and the events of a job, and over its end.

    The keys of the rule that have a value are added to `recorded`.
    """
    assert job.start_time is not None
    replayed = Replayed(rule, job)
    past = jobs.earlier_runs(job, MOST_RUNS) if rule.kind is RuleKind.DEVIATION else ()
    evaluator, running = replayed.evaluator, replace(job, status=Status.RUNNING)
    evaluator.join(running)
    evaluator.set_past(job.id, past)
    last = replayed.go_through(_job_steps(evaluator, rule, jobs, running, recorded), job.start_time, JOB_GAP_SECONDS)
    if job.status.ended:
        end = max(last, job.end_time if job.end_time is not None else last)
        replayed.take(evaluator.see_end(job, past, end))
        replayed.take(evaluator.leave(job.id, end))
        last = end
    return replayed.finish(last)


def replay_machine(
    rule: Rule, database: Database, since: float, until: float | None, progress: Progress, recorded: set[str]
) -> tuple[list[Firing], int]:
    """Replay a rule over the host or the devices of a store; return also the number of owners that were replayed."""
    record_of = MachineRecord(database)
    here = [owner for owner in record_of.owners() if owner.host == record_of.host]
    own = [owner for owner in here if owner.scope == rule.scope]
    cores = sum(owner.scope is Scope.CORE for owner in here) or None
    found: list[Firing] = []
    for place, owner in enumerate(own):
        replayed = Replayed(rule, None)
        steps = heapq.merge(
            _machine_steps(replayed.evaluator, record_of, owner, (since, until), cores, recorded),
            _event_steps(replayed.evaluator, owner.device, _machine_events(database, owner, since, until)),
            key=lambda step: step[:2],
        )
        found += replayed.finish(replayed.go_through(steps, since, MACHINE_GAP_SECONDS))
        progress(place + 1, len(own))
    return sorted(found, key=lambda firing: firing.fired_at), len(own)


class Replayed:
    """An evaluator with one rule, and the firings that came of it."""

    def __init__(self, rule: Rule, job: Job | None) -> None:
        self.evaluator = Evaluator([replace(rule, is_enabled=True, directory=None)])
        self._job = job
        self._open: dict[Owner, Transition] = {}
        self._firings: list[Firing] = []

    def go_through(self, steps: Iterable[Step], start: float, gap_seconds: float) -> float:
        """Take each step at its time, and let detectors look every ten seconds between them; return the last time."""
        looked = last = start
        for at, _, step in steps:
            gap_end = last + gap_seconds
            while looked + LOOK_SECONDS <= min(at, gap_end):
                looked += LOOK_SECONDS
                self.take(self.evaluator.slow(looked))
            looked = at if at > gap_end else looked
            self.take(step(at))
            last = max(last, at)
        self.take(self.evaluator.slow(last))
        return last

    def take(self, changes: Sequence[Transition]) -> None:
        """Note the beginnings and ends of firings."""
        for change in changes:
            if change.state is State.FIRING:
                self._open[change.owner] = change
            elif change.state is State.RESOLVED and (fired := self._open.pop(change.owner, None)) is not None:
                self._close(fired, change, change.at)

    def finish(self, last: float) -> list[Firing]:
        """End what still fires, and return all firings, the oldest first."""
        for change in self.evaluator.set_rules([]):
            if (fired := self._open.pop(change.owner, None)) is not None:
                self._close(fired, change, None, last)
        return sorted(self._firings, key=lambda firing: firing.fired_at)

    def _close(self, fired: Transition, change: Transition, resolved_at: float | None, last: float = 0.0) -> None:
        worst = change.detail.get(WORST)
        self._firings.append(
            Firing(
                fired.owner,
                self._job,
                fired.began_at,
                fired.at,
                resolved_at,
                last if resolved_at is None else resolved_at,
                worst if isinstance(worst, (int, float)) else fired.value,
                fired,
            )
        )


def _job_steps(evaluator: Evaluator, rule: Rule, jobs: Jobs, job: Job, recorded: set[str]) -> Iterator[Step]:
    """Yield what happened to a job in the order of time, as far as it concerns a rule."""
    start, job_id = job.start_time or 0.0, job.id

    def see_event(event: Event, at: float) -> list[Transition]:
        if event.kind in PAUSES:
            evaluator.join(replace(job, status=PAUSES[event.kind]))
        return evaluator.see_event(job_id, event.kind, event.detail, at)

    has_samples = rule.kind is not RuleKind.EVENT
    samples = SeriesStore(jobs.database).follow(job.seq).samples if has_samples and job.seq is not None else []
    for key in needed_keys(rule):
        place = JOB_COLUMNS.index(key) if key in JOB_COLUMNS and key not in recorded else None
        was_deleted = not samples and bool(job.metrics)
        if was_deleted or (place is not None and any(sample.values[place] is not None for sample in samples)):
            recorded.add(key)
    is_about_output = rule.kind is RuleKind.STALL or (rule.expression is not None and OUTPUT in rule.expression.keys)
    marks = jobs.log_marks(job) if is_about_output else []
    steps: Iterator[Step] = heapq.merge(
        [(start + sample.elapsed, SAMPLE, partial(evaluator.see_jobs, [(job_id, sample)])) for sample in samples],
        [
            (start + elapsed, MARK, partial(evaluator.see_extra, job_id, {OUTPUT: out + (err or 0)}))
            for elapsed, out, err in marks
        ],
        sorted(
            (
                (event.at, EVENT, partial(see_event, event))
                for event in jobs.events(job)
                if event.kind not in OWN_EVENTS
            ),
            key=lambda step: step[0],
        ),
        key=lambda step: step[:2],
    )
    return steps


def _machine_steps(
    evaluator: Evaluator,
    record_of: MachineRecord,
    owner: Recorded,
    span: tuple[float, float | None],
    cores: int | None,
    recorded: set[str],
) -> Iterator[Step]:
    """Yield the samples of the host or of a device in the order of time; the first of a boot only serves rates."""
    since, until = span
    for part, news in record_of.samples(owner, since, until):
        for place, key in enumerate(owner.keys):
            if key not in recorded and any(sample.values[place] is not None for sample in news.samples):
                recorded.add(key)
        yield from _part_steps(evaluator, owner, part, news.samples, cores)
    end = record_of.newest_at() if owner.device is not None else None
    if end is not None and (until is None or end <= until):  # a device may be read no longer while the host is
        yield end, EVENT, evaluator.slow


def _part_steps(
    evaluator: Evaluator, owner: Recorded, part: BootPart, samples: Sequence[Sample], cores: int | None
) -> Iterator[Step]:
    keys, device = (*owner.keys, CORE_COUNT), owner.device
    values = dict(zip(keys, (*samples[0].values, cores), strict=True)) if samples else {}
    for before, after in pairwise(samples):
        was, values = values, dict(zip(keys, (*after.values, cores), strict=True))
        if device is None:
            seconds = after.elapsed - before.elapsed
            yield part.boot_time + after.elapsed, SAMPLE, partial(evaluator.see_host, was, values, seconds)
        else:
            see = partial(evaluator.see_device, device, after.elapsed, values)
            yield part.boot_time + after.elapsed, SAMPLE, see


def _machine_events(database: Database, owner: Recorded, since: float, until: float | None) -> list[Event]:
    events, device = MachineEvents(database), owner.device
    if device is None:
        found = events.of_host(since)
    else:
        stored = [one for one in DeviceRecord(database).devices() if (one.kind, one.name) == (device.kind, device.name)]
        found = sorted((event for one in stored for event in events.of_device(one, since)), key=lambda event: event.at)
    return [event for event in found if event.kind not in OWN_EVENTS and (until is None or event.at <= until)]


def _event_steps(evaluator: Evaluator, device: Device | None, events: Iterable[Event]) -> Iterator[Step]:
    for event in events:
        yield event.at, EVENT, partial(evaluator.see_event, device, event.kind, event.detail)
