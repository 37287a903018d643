"""Times as text, and the sampling interval by a job's age."""

import time

from jobtop.core import procfs

BOOTTIME = procfs.BOOTTIME  # counts the time in which the machine is suspended; defined where a shim can import it too
# The sampling interval in seconds of jobs up to an age in seconds.
AUTO_SECONDS = ((3600.0, 1.0), (14400.0, 5.0), (float("inf"), 10.0))


def automatic_interval(age: float) -> float:
    """Return the seconds between two samples of a job of this age, for `interval = "auto"`."""
    return next(seconds for until, seconds in AUTO_SECONDS if age < until)


def iso(moment: float | None) -> str | None:
    """Format seconds since the epoch as ISO 8601 in UTC with microseconds; None if the year is out of range."""
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
    """Format seconds since the epoch in the machine's time zone."""
    from datetime import datetime

    if iso(moment) is None or moment is None:
        return "–"
    return datetime.fromtimestamp(moment).astimezone().strftime("%Y-%m-%d %H:%M:%S")
