"""The part of the time that a chart shows: a span that follows the newest moment, or one that the user moved. Pure."""

from jobtop.core.record import record, replace
from jobtop.core.units import format_duration

SPANS: tuple[float | None, ...] = (60.0, 300.0, 900.0, 3600.0, None)
SPAN_WORDS = {60.0: "1m", 300.0: "5m", 900.0: "15m", 3600.0: "1h", None: "all"}
LEAST_SPAN = 5.0
SHORTEST_SECONDS = 1.0  # of an axis, even if only one moment is known
PAN_SHARE = 0.25
ZOOM = 2.0

Bounds = tuple[float, float]


@record
class TimeWindow:
    """A span of seconds (None: all) that ends at a moment (None: at the newest one, which it follows)."""

    span: float | None = None
    end: float | None = None

    def bounds(self, known: Bounds, is_live: bool = False) -> Bounds:
        """The start and end of the window, if `known` is the time with samples.

        A live window has its full length even without older samples; another one starts with the first sample.
        """
        first, last = known
        span = max(last - first if self.span is None else self.span, LEAST_SPAN)
        end = last if self.end is None else min(self.end, last)
        if end - span < first and not (is_live and self.end is None):
            return first, max(min(last, first + span), first + SHORTEST_SECONDS)
        return end - span, end

    def shorter(self) -> "TimeWindow":
        """The next shorter span, with the same end."""
        below = [span for span in SPANS if span is not None and (self.span is None or span < self.span)]
        return replace(self, span=below[-1]) if below else self

    def longer(self) -> "TimeWindow":
        """The next longer span; all after the longest."""
        above = [span for span in SPANS if span is not None and self.span is not None and span > self.span]
        return replace(self, span=above[0]) if above else TimeWindow()

    def zoomed(self, factor: float, known: Bounds, around: float | None = None) -> "TimeWindow":
        """The window with its span multiplied, around a moment; by default around its end or, if moved, its middle."""
        start, end = self.bounds(known)
        span = max(LEAST_SPAN, (end - start) * factor)
        if span >= known[1] - known[0]:
            return TimeWindow()
        if around is None:
            if self.end is None:
                return replace(self, span=span)
            around = (start + end) / 2
        share = (around - start) / (end - start) if end > start else 1.0
        return _moved(around + span * (1 - share), span, known)

    def panned(self, share: float, known: Bounds) -> "TimeWindow":
        """The window moved by a share of its span; at the newest moment it follows again."""
        start, end = self.bounds(known)
        return self if self.span is None else _moved(end + (end - start) * share, self.span, known)

    @property
    def words(self) -> str:
        """The span as text: `5m`, `all`, or its length after a zoom."""
        return SPAN_WORDS.get(self.span) or format_duration(self.span)


def _moved(end: float, span: float, known: Bounds) -> TimeWindow:
    first, last = known
    return TimeWindow(span, None if end >= last else max(end, first + span))
