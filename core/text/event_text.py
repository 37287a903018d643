"""The text and the severity of events in a job's timeline. Pure."""

from __future__ import annotations

from jobtop.core.measure.live.newest_gpus import gpu_number
from jobtop.core.units import format_bytes, format_duration, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

BAD, WARNING, GOOD, PLAIN = "bad", "warning", "good", "plain"
SEVERITIES = {
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
    "gpu_throttled": WARNING,
    "gpu_lost": BAD,
    "alert_resolved": GOOD,
}


def event_text(kind: str, detail: Mapping[str, Any]) -> str:
    """Return one line about an event; of an unknown kind, the kind itself."""
    known = {key: printable(str(value)) for key, value in detail.items() if value is not None}
    because = f" ({known['reason']})" if "reason" in known else ""
    match kind:
        case "started":
            return f"started, pid {known['pid']}" if "pid" in known else "started"
        case "stop_requested":
            return f"stop requested by {known.get('by', 'unknown')}"
        case "exited":
            return f"ended: {known.get('status', 'unknown')}{because}"
        case "alert" | "alert_resolved" if "text" in known:
            return f"alert resolved: {known['text']}" if kind == "alert_resolved" else known["text"]
        case "suspended":
            return f"the machine was suspended for {_seconds(detail.get('seconds'))}"
        case "limit_reached" if "used_bytes" in known:
            return f"over its memory limit: {format_bytes(float(known['used_bytes']))} used"
        case "unsampled" if "until" in known:
            return f"not sampled for {_seconds(detail['until'] - detail.get('since', 0.0))}"
        case "retried" if "by" in known:
            return f"retried as {known['by'][:8]}"
        case "not_retried":
            return f"not retried{because}"
        case "gpu_used" | "gpu_throttled" | "gpu_unthrottled" | "gpu_lost" | "gpu_found":
            product = f" ({known['product']})" if "product" in known else ""
            return _gpu_text(kind, known.get("gpu"), detail.get("reasons")) + product + because
        case "sampling_slowed":
            return f"sampled {_times(detail.get('factor'))} less often: sampling cost too much"
    return PLAIN_TEXTS.get(kind, printable(kind).replace("_", " ")) + because


PLAIN_TEXTS = {
    "submitted": "submitted",
    "attached": "monitored from here on: it was already running",
    "recorded_again": "recorded again: the store was deleted or replaced",
    "left_running": "left descendants running",
    "descendants_ended": "the last of its descendants ended",
    "recorded_late": "recorded late: the store could not be written",
    "sampling_restored": "sampled at the requested interval again",
    "captured": "processes and output captured",
    "pruned": "samples and output deleted",
    "error": "could not start",
    "priority": "priority changed",
}


GPU_TEXTS = {
    "gpu_used": "uses {}",
    "gpu_throttled": "{} is slowed down",
    "gpu_unthrottled": "{} is no longer slowed down",
    "gpu_lost": "{} does not answer",
    "gpu_found": "{} answers again",
}


def _gpu_text(kind: str, gpu: str | None, reasons: Any) -> str:
    """One line about a GPU; an event of the device itself does not name it."""
    text = GPU_TEXTS[kind].format("the GPU" if gpu is None else f"GPU {gpu_number(gpu)}")
    words = [printable(str(reason)) for reason in reasons] if isinstance(reasons, list | tuple) else []
    return f"{text}: {', '.join(words)}" if words else text


def severity(kind: str, detail: Mapping[str, Any]) -> str:
    """Return the severity of an event; of a job's end it depends on how the job ended."""
    if kind == "exited":
        return {"success": GOOD, "cancelled": WARNING, "unknown": PLAIN}.get(str(detail.get("status")), BAD)
    if kind == "alert":
        return {"critical": BAD, "info": PLAIN}.get(str(detail.get("severity")), WARNING)
    return SEVERITIES.get(kind, PLAIN)


def _times(value: Any) -> str:
    return f"{value:g} times" if isinstance(value, int | float) else "some times"


def _seconds(value: Any) -> str:
    return format_duration(float(value)) if isinstance(value, int | float) else "a while"
