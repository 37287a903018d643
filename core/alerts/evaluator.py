"""Judges samples of jobs, the host and its devices by all rules, and returns the changes of alerts. Pure.

`at` is the wall clock, for people. Times between samples come from the samples: a clock that is set changes nothing.
"""

from __future__ import annotations

from jobtop.core.alerts.detector import Reading
from jobtop.core.alerts.expressions.expression import JOB_POSITIONS
from jobtop.core.alerts.isolation import Isolation
from jobtop.core.alerts.job_events import EventRules
from jobtop.core.alerts.model import RuleKind, State
from jobtop.core.alerts.rule_watch import DROPPED, NOT_MEANT, RuleWatch, ended
from jobtop.core.alerts.seen import Seen, longest_gap
from jobtop.core.alerts.state_machine import TOLERANCE_SECONDS
from jobtop.core.model import Sample

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

    from jobtop.core.alerts.model import Owner, Rule, Transition
    from jobtop.core.alerts.rule_watch import JobRow
    from jobtop.core.measure.device import Device
    from jobtop.core.model import Job

    Number = float | int
    ByKey = Mapping[str, Number | None]

LOOK_SECONDS = 10.0  # between two calls of `slow`
# The clock of the evaluator moves by this at most: the machine may have been suspended, or its clock set.
LONGEST_STEP_SECONDS = 30.0
LOST_SECONDS, FORGOTTEN_SECONDS = 300.0, 3600.0  # without a value of the host or a device
SAME_AGAIN = 2  # repeats of the same values: the first one changes rates, which become 0
SUSPENDED = "suspended"


class Evaluator:
    """All rules at work. It is called from one thread."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._jobs: dict[str, Job] = {}
        self._seen: dict[Owner, Seen] = {}
        self._extra: dict[str, dict[str, Number | None]] = {}
        self._watches: dict[tuple[str, str | None], RuleWatch] = {}
        self._early: list[tuple[float, RuleWatch, Owner]] = []  # the next one is the last one
        self.isolation = Isolation()
        self._run = self.isolation.run
        self._due: list[Transition] = []  # to be returned by the next call
        self._at = 0.0
        self._now = 0.0  # a clock that only moves forward, and not while the machine is suspended
        self.set_rules(rules)

    def set_rules(self, rules: Sequence[Rule]) -> list[Transition]:
        """Use other rules from now on; alerts of a rule that still looks at the same value continue."""
        before, self._watches = self._watches, {}
        changes: list[Transition] = []
        for rule in rules:
            if not rule.is_enabled:
                continue
            try:
                watch = RuleWatch(rule, self._jobs)
            except Exception as error:  # noqa: BLE001 - a border: as in Isolation.run
                self.isolation.note(rule, error)
                continue
            self._watches[rule.name, rule.directory] = watch
            earlier = before.get((rule.name, rule.directory))
            if earlier is not None and looks_at(earlier.rule) == looks_at(rule):
                watch.inherit(earlier)
                del before[rule.name, rule.directory]
            for job in self._jobs.values():
                changes += self._run(watch, self._enter, watch, job)
        for watch in before.values():
            changes += self._run(watch, watch.close_all, self._at, DROPPED)
        self._early = []
        self._sort_watches()
        return changes

    def _sort_watches(self) -> None:
        watches = self._watches.values()
        self._job_levels = [watch for watch in watches if watch.tripped is not None]
        self._slow_levels = [watch for watch in watches if watch.is_level and watch.is_for_jobs and watch.is_slow]
        self._other_levels: dict[str, list[RuleWatch]] = {}
        for watch in watches:
            if watch.is_level and not watch.is_for_jobs:
                self._other_levels.setdefault(str(watch.rule.scope), []).append(watch)
        self._detecting = [watch for watch in watches if watch.detector is not None]
        self._fed = [watch for watch in watches if watch.is_fed]
        self._events = EventRules(self.isolation, [watch for watch in watches if watch.rule.kind is RuleKind.EVENT])

    def _enter(self, watch: RuleWatch, job: Job) -> Iterable[Transition]:
        """Let a rule see a job if it is for it; an alert that is open though it is not for it any more ends."""
        if watch.is_for(job):
            watch.members.add(job.id)
            if watch.detector is not None:
                watch.detector.join(job)
            if job.id in self._seen:
                self._seen[job.id].repeats = 0  # so that its next sample is judged, even if it is the same again
        elif job.id in watch.members or job.id in watch.open:
            change = watch.leave(job.id, self._at, NOT_MEANT)
            return () if change is None else (change,)
        return ()

    def join(self, job: Job, open_alerts: Sequence[Transition] = ()) -> None:
        """Judge a job from now on; its alerts that an earlier engine has opened continue."""
        self._jobs[job.id] = job
        self.resume(open_alerts)
        for watch in self._watches.values():
            self._due += self._run(watch, self._enter, watch, job)

    def resume(self, open_alerts: Sequence[Transition]) -> None:
        """Continue alerts that an earlier engine has opened; those of rules that are gone end with the next call."""
        for alert in open_alerts:
            watch = self._watches.get((alert.rule.name, alert.rule.directory))
            if watch is None:
                self._due.append(ended(alert, max(self._at, alert.at), DROPPED))
            elif alert.owner not in watch.open:
                watch.resume(alert)

    def set_past(self, job_id: str, past: Sequence[Job]) -> None:
        """Take earlier jobs of the name of a running job, the newest first: it is compared with them while it runs."""
        for watch in self._detecting:
            if watch.detector is not None and job_id in watch.members:
                self._run(watch, watch.detector.set_past, job_id, past)

    def leave(self, job_id: str, at: float) -> list[Transition]:
        """Judge a job no longer: it has ended, and so have its alerts."""
        self._move_clock(at)
        changes: list[Transition] = []
        for watch in self._watches.values():
            changes += self._run(watch, watch.leave, job_id, at)
        for known in (self._jobs, self._seen, self._extra):
            known.pop(job_id, None)
        return changes

    def leave_host(self) -> None:
        """Judge the host and its devices no longer: another engine does. Their alerts stay open."""
        for watch in self._watches.values():
            if not watch.is_for_jobs:
                watch.forget_all()
        self._seen = {owner: seen for owner, seen in self._seen.items() if isinstance(owner, str)}

    def see_jobs(self, samples: Sequence[tuple[str, Sample]], at: float) -> list[Transition]:
        """Judge samples of jobs by the rules on levels, and give the values to detectors that need all of them."""
        changes = self._begin(at)
        rows, changed = self._rows(samples)
        by_job: dict[str, list[JobRow]] = {}
        for watch in self._job_levels:
            changes += self._run(watch, self._see_rows, watch, rows, changed, by_job, at)
        for watch in self._fed:
            changes += self._run(watch, watch.feed_rows, rows)
        while self._early and self._early[-1][0] <= self._now + TOLERANCE_SECONDS:
            _, watch, owner = self._early.pop()
            changes += self._run(watch, self._look_early, watch, owner, at)
        return changes

    def _see_rows(
        self, watch: RuleWatch, rows: list[JobRow], changed: list[JobRow], by_job: dict[str, list[JobRow]], at: float
    ) -> Iterable[Transition]:
        """Judge samples by one rule; `by_job` is filled when the first rule needs it."""
        assert watch.tripped is not None
        tripped = watch.tripped(rows if watch.reads_age else changed)
        if not tripped and not watch.open:
            return ()
        if not by_job:
            by_job |= rows_by_job(rows)
        return watch.see_rows(tripped, by_job, self._seen, at)

    def _rows(self, samples: Sequence[tuple[str, Sample]]) -> tuple[list[JobRow], list[JobRow]]:
        """Return the rows of all samples, and of those for which an expression may have another value than before."""
        rows: list[JobRow] = []
        changed: list[JobRow] = []
        all_seen, now = self._seen, self._now
        for key, sample in samples:
            seen = all_seen.get(key)
            if seen is None:
                if key not in self._jobs:
                    continue
                seen = all_seen[key] = Seen(sample.elapsed, sample.values, now)
            else:
                if sample.values is not seen.after:  # the values of an idle job are the same object
                    seen.note_work(sample.elapsed, sample.values)
                seen.update(sample.elapsed, sample.values, now)
            row = (key, seen.after, seen.before, seen.seconds, seen.moment)
            rows.append(row)
            if seen.repeats < SAME_AGAIN:
                changed.append(row)
        return rows, changed

    def repeats_itself(self, job_id: str) -> bool:
        """Whether the newest samples of a job are all the same: no process of it has run meanwhile."""
        seen = self._seen.get(job_id)
        return seen is not None and seen.repeats >= SAME_AGAIN

    def see_extra(self, job_id: str, values: ByKey, at: float) -> list[Transition]:
        """Judge values of a job that are not in its samples, such as the space on the disk of its directory."""
        changes = self._begin(at)
        if job_id not in self._jobs:
            return changes
        before = self._extra.get(job_id, {})
        after = self._extra[job_id] = {**before, **values}
        for watch in self._fed:
            if watch.is_slow and job_id in watch.members:
                changes += self._run(watch, watch.feed_values, job_id, before, after, 0.0, self._now)
        for watch in self._slow_levels:
            if job_id in watch.members:
                known = job_id, before, after, 0.0, self._now, LOST_SECONDS, at
                changes += self._run(watch, watch.see_values, *known)
        return changes

    def see_host(self, before: ByKey, after: ByKey, seconds: float, at: float) -> list[Transition]:
        """Judge the host."""
        seen = self._seen.get(None)
        if seen is None:
            seen = self._seen[None] = Seen(0.0, before, self._now)
        seen.update(seen.moment + max(0.0, seconds), after, self._now)
        seen.before = before
        return self._begin(at) + self._see_values(None, "host", seen, at)

    def see_device(self, device: Device, seconds_since_boot: float, values: ByKey, at: float) -> list[Transition]:
        """Judge a device."""
        seen = self._seen.get(device)
        if seen is None:
            seen = self._seen[device] = Seen(seconds_since_boot, values, self._now)
        else:
            seen.update(seconds_since_boot, values, self._now)
        return self._begin(at) + self._see_values(device, device.kind, seen, at)

    def _see_values(self, owner: Owner, scope: str, seen: Seen, at: float) -> list[Transition]:
        changes: list[Transition] = []
        values = owner, seen.before, seen.after, seen.seconds, seen.moment
        for watch in self._fed:
            if watch.rule.scope == scope:
                changes += self._run(watch, watch.feed_values, *values)
        for watch in self._other_levels.get(scope, ()):
            changes += self._run(watch, watch.see_values, *values, seen.gap, at)
        return changes

    def see_event(self, owner: Owner, kind: str, detail: Mapping[str, Any], at: float) -> list[Transition]:
        """Judge an event of a job, the host or a device."""
        changes = self._begin(at)
        if kind == SUSPENDED:
            for watch in self._watches.values():
                if owner in watch.open:
                    watch.open[owner].restart()
        return changes + self._events.see(owner, kind, detail, self._now, at)

    def see_end(self, job: Job, past: Sequence[Job], at: float) -> list[Transition]:
        """Judge how a job has ended, and what it used, given earlier jobs of its name; `leave` comes after this."""
        changes = self._begin(at) + self._events.see_end(job, at)
        for watch in self._detecting:
            changes += self._run(watch, look_back, watch, job, past, at)
        return changes

    def slow(self, at: float) -> list[Transition]:
        """Let the detectors look; called every ten seconds."""
        changes = self._begin(at)
        for watch in self._watches.values():
            changes += self._run(watch, self._look, watch, at)
        self._plan_early_looks()
        changes += self._events.end_old(self._now, at)
        return changes + self._end_lost(at)

    def _plan_early_looks(self) -> None:
        """Note which alerts may fire before the next look: only these are looked at between two looks."""
        next_look = self._now + LOOK_SECONDS
        found = [
            (track.since + watch.rule.for_seconds, watch, owner)
            for watch in self._detecting
            if watch.detector is not None and watch.detector.looks_early and not watch.is_broken
            for owner, track in watch.open.items()
            if track.state is State.PENDING and track.since is not None
        ]
        self._early = sorted((one for one in found if one[0] < next_look), key=lambda one: -one[0])

    def _look_early(self, watch: RuleWatch, owner: Owner, at: float) -> Transition | None:
        """Let a detector look at one owner whose alert may fire now."""
        if watch.detector is None or owner not in watch.open or owner not in self._seen:
            return None
        finding = watch.detector.look_early(self._reading(watch, owner, self._seen[owner]), self._now)
        return None if finding is None else watch.take(finding, self._now, longest_gap(LOOK_SECONDS), at)

    def _look(self, watch: RuleWatch, at: float) -> Iterable[Transition | None]:
        """Let the detector of a rule look; apply a filter on the age of jobs again."""
        watch.forget_calm(at)
        if watch.is_timed:
            watch.set_time(at)
            for job in self._jobs.values():
                if watch.is_for(job) != (job.id in watch.members):
                    yield from self._enter(watch, job)
        if watch.detector is not None:
            for finding in watch.detector.look(self._readings(watch), self._now):
                yield watch.take(finding, self._now, longest_gap(LOOK_SECONDS), at)

    def _end_lost(self, at: float) -> list[Transition]:
        """End the alerts of the host and of devices that are not read any more, and forget them in the end."""
        changes: list[Transition] = []
        others = {owner: self._now - seen.seen_at for owner, seen in self._seen.items() if not isinstance(owner, str)}
        for owner, seconds in others.items():
            if seconds >= LOST_SECONDS:
                for watch in self._other_levels.get(scope_of(owner), ()):
                    changes += self._run(watch, watch.end_absent, owner, at)
            if seconds >= FORGOTTEN_SECONDS:
                del self._seen[owner]
                for watch in self._detecting:
                    if watch.detector is not None and not watch.is_for_jobs:
                        watch.detector.leave(owner)
        return changes

    def _readings(self, watch: RuleWatch) -> list[Reading]:
        """The newest values of the owners of a rule."""
        if watch.is_for_jobs:
            owners: Iterable[Owner] = watch.members & self._seen.keys()
        else:
            owners = [owner for owner in self._seen if scope_of(owner) == watch.rule.scope]
        concerns = watch.detector.concerns if watch.detector is not None else lambda _: True
        return [self._reading(watch, owner, self._seen[owner]) for owner in owners if concerns(owner)]

    def _reading(self, watch: RuleWatch, owner: Owner, seen: Seen) -> Reading:
        values = (seen.before, seen.after, seen.seconds, seen.moment)
        if watch.is_slow and isinstance(owner, str):
            extra = self._extra.get(owner, {})
            values = (extra, extra, 0.0, seen.moment)
        return Reading(
            owner,
            seen.moment,
            self._now - seen.seen_at,
            watch.value_of(*values),
            watch.limit_of(*values),
            self._getter(owner, seen),
            Sample(seen.moment, seen.after) if isinstance(owner, str) else None,
            seen.moment - seen.worked,
        )

    def _getter(self, owner: Owner, seen: Seen) -> Callable[[str], Number | None]:
        """Return a function that reads any key of an owner."""
        values = seen.after
        if not isinstance(owner, str):
            return values.get  # type: ignore[no-any-return]
        extra = self._extra.get(owner, {})

        def get(key: str) -> Number | None:
            return values[JOB_POSITIONS[key]] if key in JOB_POSITIONS else extra.get(key)

        return get

    def _begin(self, at: float) -> list[Transition]:
        """Move the clock, and return the changes that wait to be returned."""
        self._move_clock(at)
        changes, self._due = self._due, []
        return changes

    def _move_clock(self, at: float) -> None:
        if self._at:
            self._now += min(max(0.0, at - self._at), LONGEST_STEP_SECONDS)
        # Events may be a little older than samples. Only a clock that was set goes back by more.
        self._at = self.isolation.at = at if at < self._at - LONGEST_STEP_SECONDS else max(at, self._at)


def look_back(watch: RuleWatch, job: Job, past: Sequence[Job], at: float) -> Iterable[Transition]:
    """Judge what a job used by one rule; a finding that was reported while the job ran is not reported again."""
    finding = watch.detector.look_back(job, past) if watch.detector and watch.is_for(job) else None
    return () if finding is None or finding.owner in watch.open else watch.take_once(finding, at)


def rows_by_job(rows: Iterable[JobRow]) -> dict[str, list[JobRow]]:
    """Return the rows of each job, in their order; a job may have two samples in one batch."""
    found: dict[str, list[JobRow]] = {}
    for row in rows:
        found.setdefault(row[0], []).append(row)
    return found


def looks_at(rule: Rule) -> tuple[object, ...]:
    """Return what has to stay the same for the alerts of a changed rule to continue."""
    return rule.kind, rule.scope, None if rule.expression is None else rule.expression.text


def scope_of(owner: Device | str | None) -> str:
    """Return the scope of an owner that is no job."""
    return "host" if owner is None or isinstance(owner, str) else owner.kind
