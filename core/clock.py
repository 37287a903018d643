"""Moments as text."""

from datetime import UTC, datetime


def iso(moment: float | None) -> str | None:
    """Seconds since the epoch as ISO 8601 in UTC with microseconds."""
    if moment is None:
        return None
    try:
        return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    except (ValueError, OverflowError, OSError):  # no year that a calendar has
        return None


def from_iso(text: str | None) -> float | None:
    """The inverse of `iso`."""
    return None if text is None else datetime.fromisoformat(text).timestamp()


def local(moment: float | None) -> str:
    """Seconds since the epoch as a person at this machine reads a clock."""
    if iso(moment) is None or moment is None:
        return "–"
    return datetime.fromtimestamp(moment).astimezone().strftime("%Y-%m-%d %H:%M:%S")
