"""Alerts as verbs print them: rows of a table, records for programs, and what became of their messages."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from jobtop.cli.text.tables import TableColumn
from jobtop.core.alerts.model import Severity, State
from jobtop.core.clock import iso, local
from jobtop.core.model import SCHEMA_VERSION
from jobtop.core.units import ABSENT, format_duration, number_of, printable
from jobtop.store.alerts.alert_rows import StoredAlert
from jobtop.store.alerts.marks import Mark, MarkKind
from jobtop.store.alerts.outbox import Outgoing
from jobtop.store.jobs import Jobs

GLYPHS = {Severity.CRITICAL: "▲", Severity.WARNING: "△", Severity.INFO: "·"}
COLUMNS = (
    TableColumn("ID", right=True),
    TableColumn("STATE"),
    TableColumn("SEVERITY"),
    TableColumn("RULE", widest=24),
    TableColumn("WHEN"),
    TableColumn("OF", widest=44),
    TableColumn("FOR", right=True),
    TableColumn("WHAT", widest=120),
)
MOMENTS = ("began_at", "fired_at", "resolved_at", "acknowledged_at")
SENDING = ("waiting", "sent", "given_up")


def owner_text(alert: StoredAlert) -> str:
    """The job, the device or the host that an alert belongs to: `3f8a21b2 train`, `gpu 0`, `host`."""
    if alert.job_id is not None:
        return f"{alert.job_id[:8]} {alert.job_name}"
    if alert.device is not None:
        return f"{alert.device.kind} {alert.device.name}"
    return alert.host or "host"


def seconds_of(alert: StoredAlert, now: float) -> float:
    """How long an alert has fired, or has been pending."""
    begin = alert.began_at if alert.fired_at is None else alert.fired_at
    return max(0.0, (now if alert.resolved_at is None else alert.resolved_at) - begin)


def lasting_text(alert: StoredAlert, now: float) -> str:
    """How long an alert has lasted; a moment has no length."""
    return ABSENT if alert.is_moment else format_duration(seconds_of(alert, now))


def what_text(alert: StoredAlert) -> str:
    """What an alert says, that it flaps, and who acknowledged it."""
    parts = [alert.text, "(flapping)" if alert.is_flapping else ""]
    if alert.acknowledged_at is not None:
        by = f" by {alert.acknowledged_by}" if alert.acknowledged_by else ""
        note = f": {alert.note}" if alert.note else ""
        parts.append(f"(acknowledged{by}{note})")
    return " ".join(filter(None, parts))


def state_text(alert: StoredAlert, now: float, not_measured_since: float | None) -> str:
    """The state, and since when nothing has measured whether it still holds: `firing, not measured since 12:04`."""
    if not_measured_since is None:
        return alert.state_word
    moment = local(not_measured_since)[:-3]  # to the minute
    is_today = moment[:10] == local(now)[:10]
    return f"{alert.state_word}, not measured since {moment[11:] if is_today else moment}"


def alert_row(alert: StoredAlert, now: float, not_measured_since: float | None = None) -> tuple[str, ...]:
    """The cells of COLUMNS."""
    return (
        str(alert.id),
        state_text(alert, now, not_measured_since),
        f"{GLYPHS[alert.severity]} {alert.severity}",
        alert.rule,
        local(alert.began_at if alert.fired_at is None else alert.fired_at),
        owner_text(alert),
        lasting_text(alert, now),
        what_text(alert),
    )


def alert_json(
    alert: StoredAlert,
    messages: Iterable[Outgoing] = (),
    not_measured_since: float | None = None,
    quiet_until: float | None = None,
) -> dict[str, Any]:
    """An alert as a record for programs."""
    device = None if alert.device is None else {"kind": alert.device.kind, "name": alert.device.name}
    return {
        "schema_version": SCHEMA_VERSION,
        "id": alert.id,
        "rule": alert.rule,
        "kind": str(alert.kind),
        "severity": str(alert.severity),
        "state": str(alert.state),
        "job_id": alert.job_id,
        "job_name": alert.job_name,
        "host": alert.host,
        "device": device,
        **{name: iso(getattr(alert, name)) for name in MOMENTS},
        "acknowledged_by": alert.acknowledged_by,
        "note": alert.note,
        "value": alert.value,
        "worst": alert.worst,
        "level": alert.level,
        "text": alert.text,
        "detail": alert.detail,
        "is_flapping": alert.is_flapping,
        "messages": [message_json(message, quiet_until) for message in messages],
        "not_measured_since": iso(not_measured_since),
    }


def message_json(message: Outgoing, quiet_until: float | None = None) -> dict[str, Any]:
    """What became of one message, without what it says; in quiet hours only critical ones are sent."""
    due_at = message.due_at
    if quiet_until is not None and message.severity is not Severity.CRITICAL:
        due_at = max(due_at, quiet_until)
    return {
        "id": message.id,
        "action": message.action,
        "state": sending_state(message),
        "created_at": iso(message.created_at),
        "sent_at": iso(message.sent_at),
        "given_up_at": iso(message.given_up_at),
        "next_try_at": iso(due_at) if sending_state(message) == "waiting" else None,
        "tries": message.tries,
        "problem": message.problem,
    }


def sending_state(message: Outgoing) -> str:
    """One of SENDING."""
    return "sent" if message.sent_at is not None else "given_up" if message.given_up_at is not None else "waiting"


def by_alert(messages: Iterable[Outgoing]) -> dict[int, list[Outgoing]]:
    """Messages by the id of their alerts."""
    found: dict[int, list[Outgoing]] = {}
    for message in messages:
        for number in message.members:
            found.setdefault(number, []).append(message)
    return found


def held_lines(held: Sequence[tuple[Outgoing, str]]) -> Iterator[str]:
    """A line for each action with messages that are not even tried, and why."""
    groups: dict[tuple[str, str], list[Outgoing]] = {}
    for message, why in held:
        groups.setdefault((message.action, why), []).append(message)
    for (action, why), several in groups.items():
        yield f'{number_of(len(several), "message")} for "{printable(action)}" {_verb(several)}{why}'


def undelivered_lines(messages: Sequence[Outgoing], now: float) -> Iterator[str]:
    """A line for each action with messages that failed or were given up."""
    by_action: dict[str, list[Outgoing]] = {}
    for message in messages:
        by_action.setdefault(message.action, []).append(message)
    for action, several in by_action.items():
        waiting = [message for message in several if sending_state(message) == "waiting"]
        given_up = [message for message in several if sending_state(message) == "given_up"]
        if waiting and any(message.tries for message in waiting):
            next_try = min(message.due_at for message in waiting if message.tries)
            when = f"next try in {format_duration(next_try - now)}" if next_try > now else "the next try is due"
            yield f"{number_of(len(waiting), 'message')} {_verb(waiting)} for {_named(action, waiting)}; {when}"
        if given_up:
            yield f"{number_of(len(given_up), 'message')} for {_named(action, given_up)}; given up"


def _verb(waiting: Sequence[Outgoing]) -> str:
    return "waits" if len(waiting) == 1 else "wait"


def _named(action: str, messages: Sequence[Outgoing]) -> str:
    problem = next((message.problem for message in messages if message.problem), None)
    return f'"{printable(action)}": {printable(problem or "no reason is known")}'


def counts_text(alerts: Iterable[StoredAlert]) -> str:
    """The number of alerts in each state, such as `2 firing, 1 resolved`."""
    counts: dict[State, int] = {}
    for alert in alerts:
        counts[alert.state] = counts.get(alert.state, 0) + 1
    return ", ".join(f"{counts[state]} {state}" for state in State if state in counts) or ABSENT


NO_ALERT: Mapping[str, Any] = dict.fromkeys(
    (
        *("schema_version", "id", "rule", "kind", "severity", "state", "job_id", "job_name", "host", "device"),
        *(*MOMENTS, "acknowledged_by", "note", "value", "worst", "level", "text", "detail", "is_flapping", "messages"),
        "not_measured_since",
    )
)


def mute_text(mark: Mark, jobs: Jobs) -> str:
    """The muted rule, or the muted job with its name."""
    if mark.kind is MarkKind.MUTE_RULE:
        return f'rule "{printable(mark.name)}"'
    found = jobs.read_where("id = ?", (mark.name,))
    return printable(f"job {mark.name[:8]} {found[0].name if found else '(deleted)'}")


def now_text(until: float | None) -> str:
    """Until when a decision holds."""
    return "until unmuted" if until is None else f"until {local(until)} ({format_duration(until - time.time())})"
