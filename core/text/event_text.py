"""What happened to a job, as one would say it: the words of a timeline, and how grave each is. Pure."""

from __future__ import annotations

from jobtop.core.units import format_bytes, format_duration, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

BAD, WARNING, GOOD, PLAIN = "bad", "warning", "good", "plain"
GRAVITY = {
    "error": BAD,
    "lost": BAD,
    "oom_killed": BAD,
    "alert": WARNING,
    "limit_reached": WARNING,
    "throttled": WARNING,
    "stop_requested": WARNING,
    "left_running": WARNING,
    "paused": WARNING,
    "suspended": WARNING,
    "sampling_slowed": WARNING,
    "recorded_late": WARNING,
    "recorded_again": WARNING,
}


def event_words(kind: str, detail: Mapping[str, Any]) -> str:
    """One line; a kind that is not known is its own word."""
    known = {key: printable(str(value)) for key, value in detail.items() if value is not None}
    because = f" ({known['reason']})" if "reason" in known else ""
    match kind:
        case "started":
            return f"started, pid {known['pid']}" if "pid" in known else "started"
        case "stop_requested":
            return f"asked to end by {known.get('by', 'somebody')}"
        case "exited":
            return f"ended: {known.get('status', 'unknown')}{because}"
        case "alert" if "text" in known:
            return known["text"]
        case "suspended":
            return f"the machine slept for {_seconds(detail.get('seconds'))}"
        case "limit_reached" if "used_bytes" in known:
            return f"over its memory limit: {format_bytes(float(known['used_bytes']))} used"
        case "unsampled" if "until" in known:
            return f"nobody sampled it for {_seconds(detail['until'] - detail.get('since', 0.0))}"
        case "retried" if "by" in known:
            return f"tried again as {known['by'][:8]}"
        case "not_retried":
            return f"not tried again{because}"
        case "sampling_slowed":
            return f"sampled {_times(detail.get('factor'))} less often: sampling cost too much"
    return WORDS.get(kind, printable(kind).replace("_", " ")) + because


WORDS = {
    "submitted": "submitted",
    "attached": "watched from here on: it ran already",
    "recorded_again": "written again: the store was deleted or replaced",
    "left_running": "left descendants running",
    "descendants_ended": "the last of its descendants ended",
    "recorded_late": "recorded late: the store could not be written",
    "sampling_restored": "sampled as often as asked again",
    "error": "could not start",
}


def gravity(kind: str, detail: Mapping[str, Any]) -> str:
    """How grave it is: how a job ended decides for its end."""
    if kind == "exited":
        return {"success": GOOD, "cancelled": WARNING, "unknown": PLAIN}.get(str(detail.get("status")), BAD)
    if kind == "alert":
        return {"critical": BAD, "info": PLAIN}.get(str(detail.get("severity")), WARNING)
    return GRAVITY.get(kind, PLAIN)


def _times(value: Any) -> str:
    return f"{value:g} times" if isinstance(value, int | float) else "some times"


def _seconds(value: Any) -> str:
    return format_duration(float(value)) if isinstance(value, int | float) else "a while"
