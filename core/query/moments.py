"""Parses times that users write."""

from __future__ import annotations

import math
import re
import time
from datetime import datetime, timedelta

from jobtop.core.errors import BadValue
from jobtop.core.units import parse_duration, printable

DAYS_AGO = {"today": 0, "yesterday": 1}
PAST_SECONDS = 60.0  # a script may read its clock some time before it calls jobtop


def parse_moment(text: str, now: float) -> float:
    """Parse ISO 8601, local unless it names a zone, or HH:MM, the next time it is; return seconds since the epoch."""
    clock = re.fullmatch(r"([01]?\d|2[0-3]):([0-5]\d)", text.strip(), re.ASCII)
    if clock is not None:
        today, tomorrow = (_local(now, days, int(clock[1]), int(clock[2])) for days in (0, 1))
        return today if today > now else tomorrow
    try:
        moment = datetime.fromisoformat(text.strip()).timestamp()
    except (ValueError, OverflowError):
        shown = printable(text[:40])
        raise BadValue(f'"{shown}" is not a time (use 14:30, 2026-01-02T14:30 or 2026-01-02T14:30+02:00)') from None
    if moment < now - PAST_SECONDS:
        raise BadValue(f'"{printable(text)}" is in the past')
    return moment


def parse_past(text: str, now: float) -> tuple[float, float]:
    """Parse a duration before now, such as 7d, a day, or a date and time, local unless it names a zone.

    Return the first and the last moment that is meant: they differ for a date, which is a whole day.
    """
    if (days := DAYS_AGO.get(text.strip().lower())) is not None:
        text = time.strftime("%Y-%m-%d", time.localtime(_local(now, -days, 12, 0)))
    try:
        moment = now - parse_duration(text)
        return moment, moment
    except BadValue:
        pass
    try:
        begin = datetime.fromisoformat(text.strip())
        is_day = re.fullmatch(r"\d{4}-\d\d-\d\d", text.strip(), re.ASCII) is not None
        end = begin + timedelta(days=1) if is_day else begin
        first, next_day = begin.astimezone().timestamp(), end.astimezone().timestamp()
    except (ValueError, OverflowError):
        raise BadValue(
            f'"{printable(text[:40])}" is neither a duration such as 7d, a day such as today or 2026-01-31,'
            " nor a time such as 2026-01-31T09:30"
        ) from None
    return first, math.nextafter(next_day, first) if is_day else first


def _local(now: float, days: int, hour: int, minute: int) -> float:
    """Return a time of day, `days` after today; one that a clock change skips becomes a later time."""
    today = time.localtime(now)
    return time.mktime((today.tm_year, today.tm_mon, today.tm_mday + days, hour, minute, 0, 0, 0, -1))
