"""Moments as text, and how often a job is sampled by its age."""

import time

from jobtop.core import procfs

BOOTTIME = procfs.BOOTTIME  # counts the time in which the machine is suspended; defined where a shim can import it too
AUTO_SECONDS = ((3600.0, 1.0), (14400.0, 5.0), (float("inf"), 10.0))  # age of the job: seconds between samples


def automatic_interval(age: float) -> float:
    """The seconds between two samples of a job of this age where no interval was asked for."""
    return next(seconds for until, seconds in AUTO_SECONDS if age < until)


def iso(moment: float | None) -> str | None:
    """Seconds since the epoch as ISO 8601 in UTC with microseconds."""
    if moment is None:
        return None
    try:
        whole = int(moment)
        seconds, microseconds = divmod(whole * 1_000_000 + round((moment - whole) * 1e6), 1_000_000)
        year, month, day, hour, minute, second, *_ = time.gmtime(seconds)  # importing datetime would cost `run` 1 ms
    except (ValueError, OverflowError, OSError):  # no number, or no year that the system knows
        return None
    if not 1 <= year <= 9999:
        return None
    return f"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{microseconds:06}Z"


def from_iso(text: str | None) -> float | None:
    """The inverse of `iso`."""
    from datetime import datetime

    return None if text is None else datetime.fromisoformat(text).timestamp()


def local(moment: float | None) -> str:
    """Seconds since the epoch as a person at this machine reads a clock."""
    from datetime import datetime

    if iso(moment) is None or moment is None:
        return "–"
    return datetime.fromtimestamp(moment).astimezone().strftime("%Y-%m-%d %H:%M:%S")
