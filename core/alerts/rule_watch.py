"""One rule at work: the jobs that it is for, its compiled expression, and its alerts. Pure."""

from __future__ import annotations

from jobtop.core.alerts.detector import open_detector
from jobtop.core.alerts.expressions.expression import Expression, compile_fed, compile_tripped, compile_value
from jobtop.core.alerts.expressions.extra_keys import ELAPSED
from jobtop.core.alerts.model import MOMENTARY, RuleKind, State, Transition
from jobtop.core.alerts.state_machine import Judge, Track, Verdict, flapping_window
from jobtop.core.measure.device import Device
from jobtop.core.metrics import Scope
from jobtop.core.paths import hostname
from jobtop.core.record import replace
from jobtop.core.text.alert_text import (
    absent_text,
    fill_template,
    level_text,
    owner_label,
    resolved_text,
    value_fields,
)
from jobtop.core.units import ABSENT, format_duration, number_of, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from jobtop.core.alerts.detector import Finding
    from jobtop.core.alerts.expressions.expression import Row, Values
    from jobtop.core.alerts.model import Owner, Rule
    from jobtop.core.alerts.seen import Seen
    from jobtop.core.model import Job

    Number = float | int
    ByKey = Mapping[str, Number | None]
    JobRow = Row[str]

JOB_SCOPES = (Scope.JOB, Scope.CONTAINER)
ENDED, DROPPED, NOT_MEANT = "the job has ended", "the rule was removed or changed", "the rule is no longer for it"
NEVER_FIRED, WORST = "never_fired", "worst"  # in the detail of a transition
NOTHING_KNOWN: dict[str, float] = {}
NO_FIELDS: dict[str, str] = {}


class RuleWatch:
    """A rule with its alerts: open ones, and those that were resolved a short time ago, because they may flap."""

    def __init__(self, rule: Rule, jobs: Mapping[str, Job]) -> None:
        self.rule, self._jobs = rule, jobs
        self.members: set[str] = set()
        self.is_broken = False  # it has raised an exception, and is not evaluated any more
        self.open: dict[Owner, Track] = {}
        self._calm: dict[Owner, Track] = {}
        self.judge = Judge(rule)
        self.is_for_jobs = rule.scope in JOB_SCOPES
        self.detector = open_detector(rule)
        is_figure = rule.kind is RuleKind.DEVIATION  # of the record of a job, which no sample has
        self.expression = Expression("", ()) if rule.expression is None or is_figure else rule.expression
        self.is_level = rule.kind is RuleKind.LEVEL and rule.expression is not None and rule.level is not None
        self.is_slow = self.expression.is_slow
        self.reads_age = ELAPSED in self.expression.keys
        is_by_key = not self.is_for_jobs or self.is_slow
        self._value = compile_value(self.expression, is_by_key=is_by_key)
        self._limit = None if rule.limit is None else compile_value(rule.limit, is_by_key=is_by_key)
        self.is_fed = self.detector is not None and self.detector.is_fed
        self._fed: Callable[[Sequence[JobRow]], list[tuple[str, float, float]]] | None = None
        if self.is_fed and not is_by_key:
            self._fed = compile_fed(self.expression, rule.limit)
        self.tripped: Callable[[Sequence[JobRow]], list[tuple[str, float]]] | None = None
        if self.is_level and self.is_for_jobs and not self.is_slow:
            self.tripped = compile_tripped(self.expression, rule.above, rule.below)

        self.filter = rule.filter

    @property
    def is_timed(self) -> bool:
        """Whether a job may match the filter later, because of its age."""
        conditions = self.filter.conditions if self.filter is not None else ()
        return any(field == "elapsed" for condition in conditions for field, _ in condition.parts)

    def set_time(self, at: float) -> None:
        """Let the filter compare ages as of now."""
        if self.filter is not None:
            self.filter = replace(self.filter, now=at)

    def is_for(self, job: Job) -> bool:
        """Whether the rule is for a job: by its scope, the directory of its file, and its filter."""
        rule = self.rule
        if not self.is_for_jobs or (rule.scope is Scope.CONTAINER and job.kind != "container"):
            return False
        if rule.directory is not None and not f"{job.cwd}/".startswith(f"{rule.directory.rstrip('/')}/"):
            return False
        return self.filter is None or self.filter.matches(job)

    def see_rows(
        self,
        tripped: Sequence[tuple[str, float]],
        by_job: Mapping[str, Sequence[JobRow]],
        seen: Mapping[Owner, Seen],
        at: float,
    ) -> list[Transition]:
        """Judge the samples of jobs that trip or have an open alert."""
        touched = dict.fromkeys(key for key, _ in tripped if key in self.members)
        touched |= dict.fromkeys(key for key in self.open if isinstance(key, str) and key in by_job)
        changes = (self._see_row(row, seen[key].gap, at) for key in touched for row in by_job[key])
        return [change for change in changes if change is not None]

    def _see_row(self, row: JobRow, gap: float, at: float) -> Transition | None:
        key, after, before, seconds, elapsed = row
        expression = self.expression
        value = self._value(after, before, seconds, elapsed)
        return self._judge(
            key, value, lambda: expression.job_values_of(before, after, seconds, elapsed), elapsed, gap, at
        )

    def see_values(
        self, owner: Owner, before: ByKey, after: ByKey, seconds: float, moment: float, gap: float, at: float
    ) -> Transition | None:
        """Judge values by key: of the host, of a device, or of a job that are not in its samples."""
        expression = self.expression
        value = self._value(after, before, seconds, moment)
        return self._judge(owner, value, lambda: expression.values_of(before, after, seconds, moment), moment, gap, at)

    def feed_rows(self, rows: Sequence[JobRow]) -> None:
        """Give the detector the values of a batch of samples."""
        if self._fed is not None and self.detector is not None:
            members, feed = self.members, self.detector.feed
            for key, moment, value in self._fed(rows):
                if key in members:
                    feed(key, moment, value)

    def feed_values(self, owner: Owner, before: ByKey, after: ByKey, seconds: float, moment: float) -> None:
        """Give the detector values by key."""
        value = self.value_of(before, after, seconds, moment)
        if value is not None and self.detector is not None:
            self.detector.feed(owner, moment, value)

    def value_of(self, before: ByKey | Values, after: ByKey | Values, seconds: float, moment: float) -> float | None:
        """Return the value of the expression, for a detector."""
        return self._value(after, before, seconds, moment) if self.expression.keys else None

    def limit_of(self, before: ByKey | Values, after: ByKey | Values, seconds: float, moment: float) -> float | None:
        """Return the value of the limit of a forecast, for a detector."""
        return None if self._limit is None else self._limit(after, before, seconds, moment)

    def _judge(
        self,
        owner: Owner,
        value: float | None,
        known: Callable[[], dict[str, float]],
        moment: float,
        gap: float,
        at: float,
    ) -> Transition | None:
        verdict = self.judge.verdict(value)
        track, state = self._step(owner, verdict, value, moment, gap, at)
        if track is None or state is None:
            return None
        seconds = track.lasted(moment, at)
        if verdict is Verdict.ABSENT:
            return self._transition(track, state, at, absent_text(self.rule, seconds))
        if state is State.RESOLVED:
            return self._transition(track, state, at, resolved_text(self.rule, value, seconds), known())
        values = known()
        return self._transition(track, state, at, level_text(self.rule, value, values, seconds), values, {}, seconds)

    def take(self, finding: Finding, now: float, gap: float, at: float) -> Transition | None:
        """Take what a detector has found; `now` is the clock of the evaluator."""
        lasted = finding.lasted_seconds
        track, state = self._step(finding.owner, finding.verdict, finding.value, now, gap, at, lasted)
        if track is None or state is None:
            return None
        seconds = track.lasted(now, at)
        text = finding.text
        if state is State.RESOLVED and (finding.verdict is Verdict.ABSENT or not text):
            is_absent = finding.verdict is Verdict.ABSENT
            text = absent_text(self.rule, seconds) if is_absent else f"over after {format_duration(seconds)}"
        return self._transition(track, state, at, text, finding.values, finding.detail, seconds, finding.fields)

    def take_once(self, finding: Finding, at: float) -> list[Transition]:
        """Take what is known at the end of a job: the alert fires and is resolved at once."""
        track = Track(self.rule, finding.owner)
        track.resume(State.FIRING, at, finding.value)
        detail = {**finding.detail, MOMENTARY: True}
        return [
            self._transition(track, state, at, finding.text, finding.values, detail, 0.0, finding.fields)
            for state in (State.FIRING, State.RESOLVED)
        ]

    def _step(
        self,
        owner: Owner,
        verdict: Verdict,
        value: float | None,
        moment: float,
        gap: float,
        at: float,
        lasted: float = 0.0,
    ) -> tuple[Track | None, State | None]:
        """Return the alert of an owner, and its new state if that has changed and is to be reported."""
        track = self.open.get(owner)
        if track is None:
            if verdict is not Verdict.BAD:
                return None, None
            track = self._calm.pop(owner, None) or Track(self.rule, owner)
            self.open[owner] = track
        state = track.step(verdict, moment, at, gap, lasted)
        if verdict is not Verdict.ABSENT:
            track.take(value)
        if state is State.RESOLVED:
            self._put_aside(track, at)
            return (track, state) if track.is_known else (None, None)
        return track, state

    def _put_aside(self, track: Track, at: float) -> None:
        del self.open[track.owner]
        track.resolved_at = at
        if track.firings:
            self._calm[track.owner] = track

    def _transition(
        self,
        track: Track,
        state: State,
        at: float,
        text: str,
        values: Mapping[str, float] = NOTHING_KNOWN,
        detail: Mapping[str, object] = NOTHING_KNOWN,
        seconds: float = 0.0,
        more_fields: Mapping[str, str] = NO_FIELDS,
    ) -> Transition:
        if state is State.RESOLVED and track.has_fired:
            detail = {**detail, WORST: track.worst}
        elif state is State.RESOLVED:
            detail = {**detail, NEVER_FIRED: True}
        elif self.rule.message is not None:
            text = fill_template(self.rule.message, self._fields(track, values, seconds, text) | {**more_fields})
        if not isinstance(track.owner, str) and (state is State.RESOLVED or self.rule.message is None):
            text = f"{owner_label(track.owner)}: {text}"
        if state is State.FIRING and track.is_flapping:
            window = format_duration(flapping_window(self.rule))
            text = f"{text} (flapping: fired {number_of(track.firings, 'time')} within {window})"
        return Transition(
            self.rule, track.owner, state, at, track.began_at, track.value, text, values, detail, track.is_flapping
        )

    def _fields(self, track: Track, values: Mapping[str, float], seconds: float, text: str) -> dict[str, str]:
        fields = dict.fromkeys(("job", "name", "id", "device", "value", "level"), ABSENT)
        fields |= value_fields(self.rule, track.value, values)
        fields |= {"text": text, "elapsed": format_duration(seconds), "host": printable(hostname())}
        if isinstance(track.owner, Device):
            fields["device"] = owner_label(track.owner)
        job = self._jobs.get(track.owner) if isinstance(track.owner, str) else None
        if job is not None:
            if job.start_time is not None:
                fields["elapsed"] = format_duration(max(0.0, track.began_at + seconds - job.start_time))
            names = {"job": job.name, "name": job.name, "id": job.id[:8], "host": job.host}
            fields |= {name: printable(word) for name, word in names.items()}
        return fields

    def close(self, owner: Owner, at: float, why: str) -> Transition | None:
        """End the alert of an owner, if one is open and was reported."""
        track = self.open.get(owner)
        if track is None:
            return None
        track.end()
        self._put_aside(track, at)
        if not track.is_known:
            return None
        text = f"{why}, after {format_duration(max(0.0, at - track.began_at))}"
        return self._transition(track, State.RESOLVED, at, text, {}, {"why": why})

    def close_all(self, at: float, why: str) -> list[Transition]:
        return [change for owner in list(self.open) if (change := self.close(owner, at, why)) is not None]

    def end_absent(self, owner: Owner, at: float) -> Transition | None:
        """End the alert of an owner that is not read any more."""
        track = self.open.pop(owner, None)
        if track is None:
            return None
        text = absent_text(self.rule, max(0.0, at - track.began_at))
        return self._transition(track, State.RESOLVED, at, text) if track.is_known else None

    def forget_all(self) -> None:
        """Forget all alerts without ending them: another engine goes on with them."""
        for owner in self.open:
            if self.detector is not None:
                self.detector.leave(owner)
        self.open, self._calm = {}, {}

    def resume(self, alert: Transition) -> None:
        """Continue an alert that an earlier engine has opened."""
        track = Track(self.rule, alert.owner)
        track.resume(alert.state, alert.began_at, alert.value, is_flapping=alert.is_flapping)
        self.open[alert.owner] = track

    def inherit(self, before: RuleWatch) -> None:
        """Continue the alerts of an earlier version of the rule that looks at the same value."""
        self.open, self._calm = before.open, before._calm
        is_changed = not is_same_rule(before.rule, self.rule)
        for track in (*self.open.values(), *self._calm.values()):
            track.rule = self.rule
            if is_changed:
                track.restart()
        if not is_changed:
            self.detector, self.is_broken = before.detector, before.is_broken

    def leave(self, job_id: str, at: float, why: str = ENDED) -> Transition | None:
        """Drop a job."""
        self.members.discard(job_id)
        if self.detector is not None:
            self.detector.leave(job_id)
        change = self.close(job_id, at, why)
        self._calm.pop(job_id, None)
        return change

    def forget_calm(self, at: float) -> None:
        """Forget alerts that were resolved long ago: when they fire again they do not flap."""
        window = flapping_window(self.rule)
        for owner in [owner for owner, track in self._calm.items() if abs(at - track.resolved_at) > window]:
            del self._calm[owner]


def is_same_rule(one: Rule, other: Rule) -> bool:
    """Whether two rules are the same; filters that were read at different times differ only in their time."""
    return replace(one, filter=None) == replace(other, filter=None)


def ended(alert: Transition, at: float, why: str) -> Transition:
    """Return the end of an alert that an earlier engine has opened and no rule goes on with."""
    detail: dict[str, object] = {"why": why} | ({NEVER_FIRED: True} if alert.state is State.PENDING else {})
    text = f"{why}, after {format_duration(max(0.0, at - alert.began_at))}"
    return replace(alert, state=State.RESOLVED, at=at, text=text, values={}, detail=detail)
