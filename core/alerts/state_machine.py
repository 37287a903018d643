"""The state of one alert, from pending over firing to resolved, with hysteresis and damped flapping. Pure.

A moment is in seconds of a clock that only moves forward: since the start of a job, or since boot. A value that is
absent neither starts nor ends anything.
"""

from __future__ import annotations

from enum import Enum

from jobtop.core.alerts.model import RuleKind, State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jobtop.core.alerts.model import Owner, Rule

CLEAR_SHARE = 0.1  # of the level: how far on the good side a value must be, if the rule does not say
FEWEST_GOOD = 2  # values in a row, however short `for` is
TOLERANCE_SECONDS = 0.05  # samples are not taken at exact times
ABSENT_SECONDS = 300.0  # after which an alert without values is resolved
SHORTEST_REPORTED_SECONDS, REPORTED_SHARE = 10.0, 0.5  # of `for`: from then on a pending alert is shown
FLAPPING_FIRINGS = 3  # within the window
FLAPPING_SECONDS, FLAPPING_FORS = 600.0, 10.0  # the window is the longer one: seconds, or times `for`
SHORTEST_CALM_SECONDS, CALM_FORS, LONGEST_CALM_SECONDS = 60.0, 2.0, 3600.0  # until a flapping alert is resolved


class Verdict(Enum):
    """What a rule says of one value."""

    BAD = "bad"  # beyond the level
    BETWEEN = "between"  # not beyond the level, and not on the good side of the clear level
    GOOD = "good"
    ABSENT = "absent"


class Judge:
    """Compares values with the levels of a rule."""

    __slots__ = ("_above", "_below", "_clear_above", "_clear_below")

    def __init__(self, rule: Rule) -> None:
        highest, lowest = float("inf"), -float("inf")
        has_both = rule.above is not None and rule.below is not None
        clear = None if has_both else rule.clear
        self._above = highest if rule.above is None else rule.above
        self._below = lowest if rule.below is None else rule.below
        self._clear_above = highest if rule.above is None else clear_level(rule.above, clear, -1)
        self._clear_below = lowest if rule.below is None else clear_level(rule.below, clear, 1)

    def verdict(self, value: float | None) -> Verdict:
        if value is None or value != value:  # noqa: PLR0124 - not a number
            return Verdict.ABSENT
        if value > self._above or value < self._below:
            return Verdict.BAD
        return Verdict.GOOD if self._clear_below <= value <= self._clear_above else Verdict.BETWEEN


def clear_level(level: float, clear: float | None, direction: int) -> float:
    """Return the level that a value must reach to be good again; by default a tenth of the level away."""
    return level + direction * CLEAR_SHARE * abs(level) if clear is None else clear


class Track:
    """The alert of one rule and one owner. `step` takes a verdict, and returns the state if that has changed.

    `began_at` is when the condition became true by the wall clock, `since` the same as a moment; `since` is None
    for an alert that an earlier engine has opened.
    """

    __slots__ = (
        "_absent_since",
        "_calm_doublings",
        "_fired_moments",
        "_good_count",
        "_good_since",
        "_last",
        "_resolved_flapping",
        "began_at",
        "has_fired",
        "is_flapping",
        "is_reported",
        "owner",
        "resolved_at",
        "rule",
        "since",
        "state",
        "value",
        "worst",
    )

    def __init__(self, rule: Rule, owner: Owner) -> None:
        self.rule, self.owner = rule, owner
        self.state: State | None = None
        self.began_at = 0.0
        self.since: float | None = None
        self.value: float | None = None  # the last one that was present
        self.worst: float | None = None  # the farthest beyond the level since the condition became true
        self.is_reported = False  # as pending
        self.has_fired = False  # since it is open
        self.is_flapping = False
        self.resolved_at = 0.0
        self._last: float | None = None
        self._absent_since: float | None = None
        self._good_since: float | None = None
        self._good_count = 0
        self._fired_moments: list[float] = []
        self._resolved_flapping: float | None = None
        self._calm_doublings = 0

    @property
    def is_known(self) -> bool:
        """Whether its state has been reported since it is open."""
        return self.has_fired or self.is_reported

    @property
    def firings(self) -> int:
        """How often it has fired within the window of flapping."""
        return len(self._fired_moments)

    def lasted(self, moment: float, at: float) -> float:
        """Return for how long the condition has been true, or the alert open."""
        return moment - self.since if self.since is not None else max(0.0, at - self.began_at)

    def is_older_than(self, moment: float, seconds: float) -> bool:
        """Whether its last value came longer ago; of an alert that was continued, since it was."""
        self._last = moment if self._last is None else self._last
        return moment - self._last > seconds

    def take(self, value: float | None) -> None:
        """Remember a value that was present."""
        self.value = value
        if value is not None and (self.worst is None or self._is_worse(value, self.worst)):
            self.worst = value

    def _is_worse(self, value: float, than: float) -> bool:
        return value < than if self.rule.above is None and self.rule.below is not None else value > than

    def resume(self, state: State, began_at: float, value: float | None, *, is_flapping: bool = False) -> None:
        """Continue an alert that an earlier engine has opened; a pending one has to last for its whole time again."""
        self.has_fired = state is not State.PENDING
        self.state = State.FIRING if self.has_fired else State.PENDING
        self.is_reported = not self.has_fired
        self.began_at, self.value, self.worst, self.is_flapping = began_at, value, value, is_flapping

    def restart(self) -> None:
        """Count `for` from the next value on: the machine was suspended, or the rule has changed."""
        if self.state is State.PENDING:
            self.since = None
        self._good_since = None

    def step(self, verdict: Verdict, moment: float, at: float, longest_gap: float, lasted: float = 0.0) -> State | None:
        """Take the verdict about one value; a longer gap than `longest_gap` seconds restarts `for`.

        What is bad for the first time may have `lasted` some seconds.
        """
        if verdict is Verdict.ABSENT:
            return self._step_absent(moment)
        if self._last is not None and not 0 <= moment - self._last <= longest_gap:
            self.restart()
        self._last, self._absent_since = moment, None
        if self.state is State.FIRING:
            return self._step_firing(verdict, moment)
        if verdict is not Verdict.BAD:
            return self.end() if self.state is State.PENDING else None
        return self._step_pending(moment, at, lasted)

    def _step_pending(self, moment: float, at: float, lasted: float) -> State | None:
        if self.state is not State.PENDING:
            self.state, self.since, self.began_at = State.PENDING, moment - lasted, at - lasted
            self.is_reported = self.has_fired = False
            self.worst = None
        if self.since is None:
            self.since = moment
        seconds = moment - self.since + TOLERANCE_SECONDS
        if seconds >= self.rule.for_seconds:
            return self._fire(moment)
        if not self.is_reported and seconds >= max(SHORTEST_REPORTED_SECONDS, REPORTED_SHARE * self.rule.for_seconds):
            self.is_reported = True
            return State.PENDING
        return None

    def _fire(self, moment: float) -> State:
        window = flapping_window(self.rule)
        self._fired_moments = [fired for fired in self._fired_moments if moment - fired < window] + [moment]
        again = self._resolved_flapping is not None and moment - self._resolved_flapping < window
        self._calm_doublings = self._calm_doublings + 1 if again else 0
        self.is_flapping = again or len(self._fired_moments) >= FLAPPING_FIRINGS
        self.state, self.has_fired, self._good_since = State.FIRING, True, None
        return State.FIRING

    def _step_firing(self, verdict: Verdict, moment: float) -> State | None:
        if verdict is not Verdict.GOOD:
            self._good_since = None
            return None
        if self._good_since is None:
            self._good_since, self._good_count = moment, 0
        self._good_count += 1
        seconds = moment - self._good_since + TOLERANCE_SECONDS
        # A detector looks at a long time already: what it calls good is good.
        wanted = self.rule.for_seconds if self.rule.kind is RuleKind.LEVEL else 0.0
        if self._good_count < FEWEST_GOOD or seconds < wanted:
            return None
        if not self.is_flapping:
            return self.end()
        if seconds < calm_seconds(self.rule, self._calm_doublings):
            return None
        self._resolved_flapping = moment
        return self.end()

    def _step_absent(self, moment: float) -> State | None:
        if self._absent_since is None or moment < self._absent_since:
            self._absent_since = moment
        is_open = self.state is not None
        return self.end() if is_open and moment - self._absent_since >= ABSENT_SECONDS else None

    def end(self) -> State:
        """End the alert, whatever its values."""
        self.state, self._good_since, self._absent_since = None, None, None
        return State.RESOLVED


def flapping_window(rule: Rule) -> float:
    """Return the seconds within which several firings are flapping; a cycle takes at least twice `for`."""
    return max(FLAPPING_SECONDS, FLAPPING_FORS * rule.for_seconds)


def calm_seconds(rule: Rule, doublings: int) -> float:
    """Return how long a flapping alert must be good to be resolved; longer each time that it fires again soon after."""
    shortest = max(SHORTEST_CALM_SECONDS, CALM_FORS * rule.for_seconds)
    return min(shortest * 2.0 ** min(doublings, 30), max(LONGEST_CALM_SECONDS, shortest))
