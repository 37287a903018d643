"""Finds a metric that was reported and no longer is, while its owner is still sampled. Pure."""

from __future__ import annotations

from jobtop.core.alerts.detector import Finding, Indifferent
from jobtop.core.alerts.state_machine import Verdict
from jobtop.core.measure.device import Device
from jobtop.core.text.alert_text import subject
from jobtop.core.units import format_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jobtop.core.alerts.detector import Reading
    from jobtop.core.alerts.model import Owner, Rule

FEWEST_VALUES = 3  # a metric that was seen less often was not reporting yet
DEFAULT_WINDOW_SECONDS = 60.0


class AbsenceWatch:
    """Remembers when a metric of one owner was last reported, and when the owner was last sampled."""

    __slots__ = ("_present", "_sampled", "_values")

    def __init__(self) -> None:
        self._values = 0
        self._present: float | None = None
        self._sampled: float | None = None

    def see(self, is_present: bool, moment: float) -> None:
        """The owner was sampled, with or without a value; a sample that was seen already changes nothing."""
        if moment == self._sampled:
            return
        self._sampled = moment
        if is_present:
            self._present = moment
            self._values += 1

    @property
    def missing_seconds(self) -> float | None:
        """For how long a value is missing; None if it never came. The time without any sample does not count."""
        if self._values < FEWEST_VALUES or self._present is None or self._sampled is None:
            return None
        return self._sampled - self._present


class AbsenceDetector(Indifferent):
    """Judges owners by whether a metric is still reported. A device that is not read any more reports nothing."""

    def __init__(self, rule: Rule) -> None:
        self._what = "values" if rule.expression is None else f"values of {subject(rule.expression)}"
        self._window_seconds = rule.window_seconds or DEFAULT_WINDOW_SECONDS
        self._watches: dict[Owner, AbsenceWatch] = {}

    def leave(self, owner: Owner) -> None:
        """Forget an owner."""
        self._watches.pop(owner, None)

    def look(self, readings: Sequence[Reading], now: float) -> Iterator[Finding]:
        """Say which owners still report the metric."""
        del now
        for reading in readings:
            watch = self._watches.setdefault(reading.owner, AbsenceWatch())
            watch.see(reading.value is not None, reading.moment)
            if isinstance(reading.owner, Device) and reading.age_seconds >= self._window_seconds:
                watch.see(False, reading.moment + reading.age_seconds)
            seconds = watch.missing_seconds
            if seconds is not None and seconds >= self._window_seconds:
                text = f"no {self._what} for {format_duration(seconds)}"
                yield Finding(reading.owner, Verdict.BAD, seconds, text, detail={"missing_seconds": seconds})
            elif reading.value is not None:
                yield Finding(reading.owner, Verdict.GOOD, 0.0, f"{self._what} are reported again")


def open_detector(rule: Rule) -> AbsenceDetector:
    """Return the detector of a rule."""
    return AbsenceDetector(rule)
