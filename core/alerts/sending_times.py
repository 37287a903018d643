"""When messages are sent: the times of `[alerts]`, and the quiet hours of a day. Pure, except for the time zone."""

from __future__ import annotations

import time

from jobtop.core.record import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jobtop.core.config import Config


@record
class SendingTimes:
    """The times of `[alerts]` in seconds. `quiet` has the minutes of the day when quiet hours begin and end."""

    group_wait_seconds: float
    repeat_seconds: float
    give_up_seconds: float
    quiet: tuple[int, int] | None = None

    def is_quiet(self, at: float) -> bool:
        """Return whether only critical messages are sent at this moment, by the clock of this machine."""
        if self.quiet is None:
            return False
        local = time.localtime(at)
        minute, (begin, end) = 60 * local.tm_hour + local.tm_min, self.quiet
        return begin <= minute < end if begin <= end else minute >= begin or minute < end

    def quiet_until(self, at: float) -> float | None:
        """Return when the quiet hours of this moment end; None if it is in none."""
        if self.quiet is None or not self.is_quiet(at):
            return None
        local = time.localtime(at)
        minutes = (self.quiet[1] - 60 * local.tm_hour - local.tm_min) % (24 * 60)
        return at - local.tm_sec - at % 1 + 60 * minutes


def sending_times(config: Config) -> SendingTimes:
    """Return the times that a configuration sets."""
    return SendingTimes(
        config.duration("alerts.group_wait"),
        config.duration("alerts.repeat"),
        config.duration("alerts.give_up"),
        _minutes(config.text("alerts.quiet_hours")),
    )


def _minutes(text: str) -> tuple[int, int] | None:
    if not text:
        return None
    begin, end = (60 * int(hour) + int(minute) for hour, minute in (part.split(":") for part in text.split("-")))
    return begin, end
