"""Finds a metric that was reported and no longer is, while its owner is still sampled. Pure."""

from __future__ import annotations

from jobtop.core.record import record

FEWEST_VALUES = 3  # a metric that was seen less often was not reporting yet


@record
class Absence:
    """A metric that has not been reported for so many seconds."""

    missing_seconds: float


class AbsenceWatch:
    """Remembers when a metric of one owner was last reported, and when the owner was last sampled."""

    __slots__ = ("_present", "_sampled", "_values")

    def __init__(self) -> None:
        self._values = 0
        self._present: float | None = None
        self._sampled: float | None = None

    def see(self, is_present: bool, at: float) -> None:
        """The owner was sampled, with or without a value."""
        self._sampled = at
        if is_present:
            self._present = at
            self._values += 1

    def found(self, window_seconds: float) -> Absence | None:
        """Return the absence once the value is missing for the window; the time without any sample does not count."""
        if self._values < FEWEST_VALUES or self._present is None or self._sampled is None:
            return None
        missing = self._sampled - self._present
        return Absence(missing) if missing >= window_seconds else None
