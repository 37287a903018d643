"""Parameters of a tracked block as JSON has them, whatever a program gives."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def plain_params(params: object) -> dict[str, Any]:
    """The parameters with plain values; what is no mapping is one parameter of the name `params`."""
    if params is None:
        return {}
    values = params if isinstance(params, Mapping) else {"params": params}
    return {plain_text(key): plain_value(value) for key, value in values.items()}


def plain_value(value: object) -> Any:
    """The value as JSON has it; what JSON does not have, also NaN, as text."""
    try:
        return json.loads(json.dumps(value, default=plain_text), parse_constant=str)
    except (TypeError, ValueError, RecursionError):  # a key that is no text, or a list that contains itself
        return plain_text(value)


def plain_text(value: object) -> str:
    """The value as text; its type if its own methods raise."""
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - the border to the user's own classes
        return f"<{type(value).__name__}>"
