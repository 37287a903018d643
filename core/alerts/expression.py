"""Expressions over catalogue keys, such as `mem.used / limit.memory` and `rate(io.write_bytes)`. Pure."""

from __future__ import annotations

from jobtop.core.record import record


@record
class Expression:
    """An expression that was checked: its text, and the catalogue keys it reads."""

    text: str
    keys: tuple[str, ...]
