"""A message as JSON, which the outbox keeps and webhooks send, and as plain text. Pure."""

from __future__ import annotations

import math

from jobtop.core.alerts.model import Message, Severity, State
from jobtop.core.clock import from_iso, iso
from jobtop.core.record import replace
from jobtop.core.units import cell_width, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

SCHEMA_VERSION = 1
LONGEST_TEXT = 500
LONGEST_CELL = 120
LONGEST_KEY = 200
MOST_ROWS = 30
MOST_JOBS = 1000


def to_json(message: Message) -> dict[str, Any]:
    """A message as JSON values."""
    return {
        "schema_version": SCHEMA_VERSION,
        "key": message.key,
        "alert": message.alert,
        "alerts": list(message.alerts),
        "rule": message.rule,
        "severity": str(message.severity),
        "state": str(message.state),
        "at": iso(message.at),
        "host": message.host,
        "title": message.title,
        "text": message.text,
        "table": [list(row) for row in message.table],
        "consequence": message.consequence,
        "command": message.command,
        "look": message.look,
        "job_ids": list(message.job_ids),
        "job_names": list(message.job_names),
        "value": message.value,
        "level": message.level,
        "values": dict(message.values),
    }


def from_json(shape: Mapping[str, Any]) -> Message:
    """The inverse of `to_json`; ValueError for what `to_json` never writes."""
    try:
        message = Message(
            key=_text(shape["key"]),
            severity=Severity(shape["severity"]),
            state=State(shape["state"]),
            rule=_text(shape["rule"]),
            title=_text(shape["title"]),
            text=_text(shape["text"]),
            host=_text(shape["host"]),
            at=from_iso(_text(shape["at"])) or 0.0,
            table=tuple((_text(label), _text(value)) for label, value in shape["table"]),
            **{name: _text_or_none(shape.get(name)) for name in ("consequence", "command", "look")},
            job_ids=tuple(map(_text, shape["job_ids"])),
            values={_text(key): _number(value) for key, value in shape["values"].items()},
            job_names=tuple(map(_text, shape["job_names"])),
            value=None if shape.get("value") is None else _number(shape["value"]),
            level=None if shape.get("level") is None else _number(shape["level"]),
            alerts=tuple(map(_whole, shape.get("alerts", ()))),
        )
    except (KeyError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(f"it is not a message of jobtop ({type(error).__name__})") from None
    return plain(message)


def plain(message: Message) -> Message:
    """The message with every text as one short, harmless line, and without numbers that JSON does not have."""
    return replace(
        message,
        key=shortened(message.key, LONGEST_KEY),
        rule=shortened(message.rule, LONGEST_CELL),
        host=shortened(message.host, LONGEST_CELL),
        title=shortened(message.title, LONGEST_CELL),
        text=shortened(message.text, LONGEST_TEXT),
        table=tuple((shortened(label), shortened(value)) for label, value in message.table[:MOST_ROWS]),
        consequence=None if message.consequence is None else shortened(message.consequence, LONGEST_TEXT),
        command=None if message.command is None else shortened(message.command, LONGEST_TEXT),
        look=None if message.look is None else shortened(message.look, LONGEST_TEXT),
        job_ids=tuple(map(shortened, message.job_ids[:MOST_JOBS])),
        job_names=tuple(map(shortened, message.job_names[:MOST_JOBS])),
        alerts=message.alerts[:MOST_JOBS],
        value=_finite(message.value),
        level=_finite(message.level),
        values={shortened(key): value for key, value in message.values.items() if math.isfinite(value)},
    )


def shortened(text: str, most: int = LONGEST_CELL) -> str:
    """One harmless line of at most so many characters."""
    shown = printable(text[: most + 1])
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"


def body_text(message: Message) -> str:
    """All of a message below its title, as plain text of several lines."""
    parts = [message.text]
    if message.table:
        parts.append(table_text(message))
    parts += filter(None, [message.consequence, advice_text(message)])
    return "\n\n".join(parts)


def table_text(message: Message) -> str:
    """The table, with its values below each other."""
    width = max((cell_width(label) for label, _ in message.table), default=0)
    return "\n".join(f"{label}{' ' * (width - cell_width(label))}  {value}".rstrip() for label, value in message.table)


def advice_text(message: Message) -> str:
    """What to type, and where to look."""
    rows = (("do:  ", message.command), ("look:", message.look))
    return "\n".join(f"{label} {words}" for label, words in rows if words)


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _text_or_none(value: object) -> str | None:
    return None if value is None else _text(value)


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError
    return float(value)


def _whole(value: object) -> int:
    if type(value) is not int:
        raise TypeError
    return value
