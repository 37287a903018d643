"""Rules on growth: the windows of their owners, and what forecasts and leaks say about them. Pure."""

from __future__ import annotations

from jobtop.core.alerts.detector import Finding, Indifferent
from jobtop.core.alerts.detectors.forecast import forecast
from jobtop.core.alerts.detectors.leak import find_leak
from jobtop.core.alerts.detectors.thinned import ThinnedWindow
from jobtop.core.alerts.expressions.measures import NUMBER, PER_SECOND, format_measured
from jobtop.core.alerts.model import RuleKind
from jobtop.core.alerts.state_machine import Verdict
from jobtop.core.text.alert_text import subject
from jobtop.core.units import format_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jobtop.core.alerts.detector import Reading
    from jobtop.core.alerts.model import Owner, Rule

FORECAST_WINDOW_SECONDS, FORECAST_WITHIN_SECONDS, LEAK_WINDOW_SECONDS = 900.0, 600.0, 3600.0
CALM_SHARE = 1.25  # of the time within which the limit must be reached: an open forecast ends beyond it


class GrowthDetector(Indifferent):
    """Keeps a window of every owner; a subclass says what it finds in one."""

    is_fed = True

    def __init__(self, rule: Rule, window_seconds: float) -> None:
        self.rule, self._window_seconds = rule, rule.window_seconds or window_seconds
        self._windows: dict[Owner, ThinnedWindow] = {}
        expression = rule.expression
        self.subject = "the value" if expression is None else subject(expression)
        self.measure = NUMBER if expression is None else expression.measure

    def leave(self, owner: Owner) -> None:
        """Forget an owner."""
        self._windows.pop(owner, None)

    def feed(self, owner: Owner, moment: float, value: float) -> None:
        """Add a value to the window of its owner."""
        window = self._windows.get(owner)
        if window is None:
            window = self._windows[owner] = ThinnedWindow(self._window_seconds)
        window.add(moment, value)

    def concerns(self, owner: Owner) -> bool:
        """Whether there is a window of the owner."""
        return owner in self._windows

    def look(self, readings: Sequence[Reading], now: float) -> Iterator[Finding]:
        """Judge the window of each owner."""
        del now
        for reading in readings:
            yield self.judge(reading, self._windows[reading.owner])

    def judge(self, reading: Reading, window: ThinnedWindow) -> Finding:
        raise NotImplementedError

    def amount(self, value: float) -> str:
        """Format a value of the rule's expression."""
        return format_measured(self.measure, value)

    def speed(self, slope: float) -> str:
        """Format growth per second, or per minute or hour where that is more than a rounded 0."""
        for seconds, unit in ((1, "s"), (60, "min"), (3600, "h")):
            shown = format_measured(self.measure, slope * seconds)
            if slope * seconds >= 1 and shown.lstrip("0. ")[:1].isdigit():
                return f"+{shown}/{unit}"
        return f"+{format_measured(self.measure + PER_SECOND, slope)}"


class ForecastDetector(GrowthDetector):
    """Finds values that reach their limit soon."""

    def judge(self, reading: Reading, window: ThinnedWindow) -> Finding:
        owner, limit = reading.owner, reading.limit
        if limit is None or reading.value is None:
            return Finding(owner, Verdict.ABSENT)
        within = self.rule.within_seconds or FORECAST_WITHIN_SECONDS
        found = forecast(window, limit, CALM_SHARE * within)
        if found is None:
            return Finding(owner, Verdict.GOOD, reading.value)
        left, shown_limit = about(found.eta_seconds), self.amount(limit)
        growth = self.speed(found.slope)
        return Finding(
            owner,
            Verdict.BAD if found.eta_seconds <= within else Verdict.BETWEEN,
            reading.value,
            f"{self.subject} reaches its {shown_limit} limit in about {left} at {growth}",
            dict.fromkeys(self._own_keys(), reading.value),
            {
                "slope": found.slope,
                "eta_seconds": found.eta_seconds,
                "confidence": round(found.confidence, 3),
                "limit": limit,
            },
            {"limit": shown_limit, "left": left},
        )

    def _own_keys(self) -> tuple[str, ...]:
        """The key of the expression, if it is only that."""
        expression = self.rule.expression
        return expression.keys if expression is not None and expression.tree.kind == "key" else ()


class LeakDetector(GrowthDetector):
    """Finds values that grow steadily for a long time; with `above`, only those that are above it."""

    def judge(self, reading: Reading, window: ThinnedWindow) -> Finding:
        found = find_leak(window)
        value, above = reading.value, self.rule.above
        if found is None or (above is not None and (value is None or value <= above)):
            return Finding(reading.owner, Verdict.ABSENT if value is None else Verdict.GOOD, value)
        text = (
            f"{self.subject} has grown steadily by {self.amount(found.grown)} in "
            f"{format_duration(found.window_seconds)}, {self.speed(found.slope)}"
        )
        detail = {
            "slope": found.slope,
            "grown": found.grown,
            "window_seconds": found.window_seconds,
            "confidence": round(found.confidence, 3),
        }
        return Finding(reading.owner, Verdict.BAD, value, text, detail=detail)


def about(seconds: float) -> str:
    """Format a time that is not known exactly: `50 s`, `6 min`, `2.5 h`."""
    if seconds < 95:
        return f"{max(round(seconds / 10) * 10, 10)} s"
    return f"{seconds / 60:.0f} min" if seconds < 5700 else f"{seconds / 3600:.1f} h"


def open_detector(rule: Rule) -> GrowthDetector:
    """Return the detector of a rule."""
    if rule.kind is RuleKind.FORECAST:
        return ForecastDetector(rule, FORECAST_WINDOW_SECONDS)
    return LeakDetector(rule, LEAK_WINDOW_SECONDS)
