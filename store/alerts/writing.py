"""The statements that write one alert: insert it, change it, resolve it. They need a write transaction."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

from jobtop.core.alerts.model import State
from jobtop.store.jobs import NEXT_TOUCH, stored_text
from jobtop.store.rows import LARGEST, is_number

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

    from jobtop.core.alerts.model import Rule, Transition

    OwnerColumn = tuple[str, int]  # the name of the column of an owner, and its number


def insert_alert(connection: sqlite3.Connection, transition: Transition, column: OwnerColumn) -> int | None:
    rule, value = transition.rule, finite(transition.value)
    has_fired = transition.state is not State.PENDING
    cursor = connection.execute(
        f"INSERT INTO alerts ({column[0]}, rule, kind, severity, state, began_at, fired_at, value, worst, level,"
        " text, detail, flapping)"
        " VALUES (?, CAST(? AS TEXT), ?, ?, ?, ?, ?, ?, ?, ?, CAST(? AS TEXT), ?, ?)",
        (
            *(column[1], stored_text(rule.name), str(rule.kind), str(rule.severity), str(transition.state)),
            *(transition.began_at, transition.at if has_fired else None, value, value, finite(rule.level)),
            *(stored_text(transition.text), _detail(transition), int(transition.is_flapping)),
        ),
    )
    return cursor.lastrowid


def update_alert(connection: sqlite3.Connection, row: sqlite3.Row, transition: Transition) -> int | None:
    """Write new values of an open alert; return its id if its state changed. A fired alert is never pending again."""
    rule, before = transition.rule, row["state"]
    fires = transition.state is not State.PENDING and row["fired_at"] is None
    state = before
    if transition.state is State.ACKNOWLEDGED or (fires and row["acknowledged_at"] is not None):
        state = str(State.ACKNOWLEDGED)
    elif fires:
        state = str(State.FIRING)
    # `value` is what made it fire: later values change only `worst`.
    values = {"value": finite(transition.value)} if fires or row["fired_at"] is None else {}
    columns = values | {
        "state": state,
        "fired_at": transition.at if fires else row["fired_at"],
        "worst": worse(rule, row["worst"], transition.value),
        "severity": str(rule.severity),
        "level": finite(rule.level),
        "detail": _detail(transition),
        "flapping": int(transition.is_flapping),
    }
    assignments = ", ".join(f"{name} = ?" for name in columns)
    connection.execute(
        f"UPDATE alerts SET {assignments}, text = CAST(? AS TEXT) WHERE id = ?",
        (*columns.values(), stored_text(transition.text), row["id"]),
    )
    return None if state == before else int(row["id"])


def resolve_alert(connection: sqlite3.Connection, row: sqlite3.Row, transition: Transition) -> int | None:
    """Resolve an alert, or delete it if it never fired; return its id if it is still there.

    It keeps the text that it fired with: the text of the resolution is in the event.
    """
    if row["fired_at"] is None:
        connection.execute("DELETE FROM alerts WHERE id = ?", (row["id"],))
        return None
    connection.execute(
        "UPDATE alerts SET state = ?, resolved_at = ?, worst = ?, flapping = ? WHERE id = ?",
        (
            *(str(State.RESOLVED), transition.at, worse(transition.rule, row["worst"], _worst(transition))),
            *(int(transition.is_flapping), row["id"]),
        ),
    )
    return int(row["id"])


def _worst(transition: Transition) -> float | None:
    """The value farthest from the level while the alert was open, as the rule has seen it."""
    worst = transition.detail.get("worst")
    return worst if isinstance(worst, int | float) else None


def touch_jobs(connection: sqlite3.Connection, seqs: Sequence[int]) -> None:
    """Count a change of jobs, so that readers that follow changes read them again."""
    for seq in seqs:
        connection.execute(f"UPDATE jobs SET touched = {NEXT_TOUCH} WHERE seq = ?", (seq,))


def worse(rule: Rule, before: float | None, value: float | None) -> float | None:
    """The one of two values that is farther on the bad side of the level of a rule; an absent one does not count."""
    known = [number for number in (finite(before), finite(value)) if number is not None]
    if not known:
        return None
    return min(known) if rule.below is not None and rule.above is None else max(known)


def finite(value: float | None) -> float | None:
    """A number that the store can hold; None for others."""
    return float(value) if value is not None and is_number(value) and math.isfinite(value) else None


def _detail(transition: Transition) -> str:
    """The detail of a transition and its values, as JSON without numbers that JSON does not have."""
    values = {key: finite(value) for key, value in transition.values.items()}
    detail = {**transition.detail, **({"values": values} if values else {})}
    return json.dumps(_plain(detail))


def _plain(value: object) -> object:
    """A value as JSON can have it: numbers that are not finite are absent, unknown types are text."""
    if isinstance(value, float):
        return value if math.isfinite(value) and abs(value) <= LARGEST else None
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else str(value)
