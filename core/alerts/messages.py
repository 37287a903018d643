"""Composes the message about one alert, or about several of one rule, from their rows in the store. Pure."""

from __future__ import annotations

from jobtop.core.alerts.advice import command_for, consequence_of, look_at
from jobtop.core.alerts.expressions.expression import format_value
from jobtop.core.alerts.message_text import plain, shortened
from jobtop.core.alerts.model import MOMENTARY, Message, RuleKind, State
from jobtop.core.clock import local
from jobtop.core.redact import redact_command, redact_text
from jobtop.core.text.shell_text import shell_text
from jobtop.core.units import format_duration, number_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any, Protocol

    from jobtop.core.alerts.model import Rule, Severity
    from jobtop.core.measure.device import Device
    from jobtop.core.model import Job

    class AlertRow(Protocol):
        """An alert as the store has it."""

        @property
        def id(self) -> int: ...
        @property
        def job_id(self) -> str | None: ...
        @property
        def job_name(self) -> str | None: ...
        @property
        def host(self) -> str | None: ...
        @property
        def device(self) -> Device | None: ...
        @property
        def state(self) -> State: ...
        @property
        def began_at(self) -> float: ...
        @property
        def fired_at(self) -> float | None: ...
        @property
        def resolved_at(self) -> float | None: ...
        @property
        def value(self) -> float | None: ...
        @property
        def worst(self) -> float | None: ...
        @property
        def level(self) -> float | None: ...
        @property
        def text(self) -> str: ...
        @property
        def detail(self) -> dict[str, Any]: ...
        @property
        def is_flapping(self) -> bool: ...


# Values of these kinds are those of the expression, or the time that something has lasted.
MEASURED = (RuleKind.LEVEL, RuleKind.FORECAST, RuleKind.LEAK)
TIMED = (RuleKind.STALL, RuleKind.ABSENCE)
SHOWN_ALERTS = 10
LONGEST_NAME = 40
AGAIN_SECONDS = 300.0  # a message that is made longer after an alert has fired is a reminder


def compose(
    key: str,
    name: str,
    rule: Rule | None,
    severity: Severity,
    state: State,
    alerts: Sequence[AlertRow],
    jobs: Mapping[str, Job],
    host: str,
    at: float,
    is_armed: bool = False,
    created_at: float | None = None,
) -> Message:
    """The message about alerts of the rule `name`, at least one; without `rule`, which may be gone, it says less.

    `jobs` has the jobs that are known, by id; `is_armed` says whether the rule may stop jobs. It is sent at `at`, which
    may be long after `created_at`.
    """
    first, is_firing = alerts[0], state is not State.RESOLVED
    ending = _ending(state, alerts, at, at if created_at is None else created_at)
    job = jobs.get(first.job_id or "")
    members = list(dict.fromkeys(alert.job_id for alert in alerts if alert.job_id is not None))
    names = {alert.job_id: alert.job_name or "" for alert in alerts}
    is_one = len(alerts) == 1
    return plain(
        Message(
            key=key,
            severity=severity,
            state=state,
            rule=name,
            title=f"{subject(first, host) if is_one else _crowd(alerts)}: {name}{ending}",
            text=_one_text(first, state, job) if is_one else _group_text(alerts, host),
            host=first.host or host,
            at=at,
            table=tuple(_facts(first, rule, job, host) if is_one else _rows(alerts, rule, host, at)),
            consequence=consequence_of(rule, first, job, at, is_armed)
            if is_firing and is_one and not is_over(first)
            else None,
            command=command_for(rule, alerts, jobs) if is_firing else None,
            look=look_at(alerts, name),
            job_ids=tuple(members),
            job_names=tuple(redact_text(names[job_id]) for job_id in members),
            values=_numbers(first.detail.get("values")),
            value=first.value,
            level=first.level,
            alerts=tuple(alert.id for alert in alerts),
        )
    )


def subject(alert: AlertRow, host: str) -> str:
    """What an alert is about: `train (3f8a21b2)`, `gpu 0 of atlas`, `atlas`."""
    if alert.job_id is not None:
        return f"{shortened(redact_text(alert.job_name or 'job'), LONGEST_NAME)} ({alert.job_id[:8]})"
    place = shortened(alert.host or host, LONGEST_NAME)
    if alert.device is not None:
        return f"{alert.device.kind} {shortened(alert.device.name, LONGEST_NAME)} of {place}"
    return place


def _crowd(alerts: Sequence[AlertRow]) -> str:
    jobs = sum(alert.job_id is not None for alert in alerts)
    return number_of(jobs, "job") if jobs == len(alerts) else number_of(len(alerts), "alert")


def is_over(alert: AlertRow) -> bool:
    """Whether an alert has ended. What happened at one moment, as the failure of a job, has no end."""
    return alert.state is State.RESOLVED and not alert.detail.get(MOMENTARY)


def _ending(state: State, alerts: Sequence[AlertRow], at: float, created_at: float) -> str:
    if state is State.RESOLVED:
        return ", resolved"
    if all(map(is_over, alerts)):
        return f", over since {local(max(alert.resolved_at or alert.began_at for alert in alerts))}"
    fired = [alert.fired_at for alert in alerts if alert.fired_at is not None and alert.state is not State.RESOLVED]
    is_reminder = bool(fired) and created_at - min(fired) >= AGAIN_SECONDS
    return f", still firing after {format_duration(at - min(fired))}" if is_reminder else ""


def _one_text(alert: AlertRow, state: State, job: Job | None) -> str:
    """The text of the alert, which says how it began; when it is over, that too, and how the job ended."""
    text = redact_text(alert.text)
    if alert.resolved_at is None or not is_over(alert):
        return text
    if job is not None and job.status.ended:
        text += f"; the job has ended: {_end_text(job)}"
    if state is not State.RESOLVED:
        return f"fired at {local(alert.fired_at or alert.began_at)}, over since {local(alert.resolved_at)}: {text}"
    return f"over after {format_duration(max(0.0, alert.resolved_at - alert.began_at))}: {text}"


def _end_text(job: Job) -> str:
    """Such as `cancelled: stopped by the rule "too long"`: also a rule may have ended it."""
    return f"{job.status}: {redact_text(job.reason)}" if job.reason else str(job.status)


def _group_text(alerts: Sequence[AlertRow], host: str) -> str:
    over = sum(map(is_over, alerts))
    resolved = f"; {over} of them resolved" if over else ""
    return f"{_crowd(alerts)}{resolved}; the first is {subject(alerts[0], host)}: {redact_text(alerts[0].text)}"


def _facts(alert: AlertRow, rule: Rule | None, job: Job | None, host: str) -> Iterator[tuple[str, str]]:
    """Rows about one alert."""
    yield ("job" if alert.job_id else "device" if alert.device else "host"), subject(alert, host)
    if (value := value_text(rule, alert.value)) is not None:
        yield "value", value
        if alert.worst is not None and alert.worst != alert.value and (worst := value_text(rule, alert.worst)):
            yield "worst", worst
    if (level := value_text(rule, alert.level)) is not None:
        yield "level", level
    yield ("at" if alert.detail.get(MOMENTARY) else "since"), local(alert.began_at)
    if alert.is_flapping:
        yield "flapping", "it has fired and resolved so often that it stays open until it is calm"
    if alert.job_id or alert.device:
        yield "host", alert.host or host
    if job is not None:
        yield "user", job.user
        yield "command", shell_text(redact_command(job.command))
        if job.status.ended and not alert.detail.get(MOMENTARY):
            yield "job ended", _end_text(job)


def _rows(alerts: Sequence[AlertRow], rule: Rule | None, host: str, at: float) -> Iterator[tuple[str, str]]:
    """A row for each of the first alerts, and how many more there are."""
    for alert in alerts[:SHOWN_ALERTS]:
        value = value_text(rule, alert.value) or shortened(redact_text(alert.text), LONGEST_NAME)
        yield subject(alert, host), f"{value}, {_duration_text(alert, at)}"
    if len(alerts) > SHOWN_ALERTS:
        yield "…", f"and {len(alerts) - SHOWN_ALERTS} more"


def _duration_text(alert: AlertRow, at: float) -> str:
    if alert.detail.get(MOMENTARY):
        return f"at {local(alert.began_at)}"
    until = alert.resolved_at if is_over(alert) and alert.resolved_at is not None else at
    return f"for {format_duration(max(0.0, until - alert.began_at))}{', resolved' if is_over(alert) else ''}"


def value_text(rule: Rule | None, value: float | None) -> str | None:
    """A value as its rule measures it; None if there is none, or the rule is gone."""
    if value is None or rule is None:
        return None
    if rule.kind in TIMED:
        return format_duration(value)
    return format_value(rule.expression, value) if rule.kind in MEASURED and rule.expression is not None else None


def _numbers(values: object) -> dict[str, float]:
    if not isinstance(values, dict):
        return {}
    return {str(key): float(value) for key, value in values.items() if type(value) in (int, float)}
