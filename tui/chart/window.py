"""Which part of the time a chart shows: a span that follows the newest moment, or stays where it was moved. Pure."""

from jobtop.core.record import record, replace
from jobtop.core.units import format_duration

SPANS: tuple[float | None, ...] = (60.0, 300.0, 900.0, 3600.0, None)
SPAN_WORDS = {60.0: "1 m", 300.0: "5 m", 900.0: "15 m", 3600.0: "1 h", None: "all"}
LEAST_SPAN = 5.0
SHORTEST_SECONDS = 1.0  # of an axis, even if there is but one moment
PAN_SHARE = 0.25
ZOOM = 2.0

Bounds = tuple[float, float]


@record
class TimeWindow:
    """A span of seconds (None: everything) that ends at a moment (None: at the newest, and moves with it)."""

    span: float | None = None
    end: float | None = None

    def bounds(self, known: Bounds, is_live: bool = False) -> Bounds:
        """From when to when, of what is known from one moment to another.

        A live window is as long as it says, even if there is nothing at its left; another begins with what is known.
        """
        first, last = known
        span = max(last - first if self.span is None else self.span, LEAST_SPAN)
        end = last if self.end is None else min(self.end, last)
        if end - span < first and not (is_live and self.end is None):
            return first, max(min(last, first + span), first + SHORTEST_SECONDS)
        return end - span, end

    def shorter(self) -> "TimeWindow":
        """The next shorter of the usual spans, at the same end."""
        below = [span for span in SPANS if span is not None and (self.span is None or span < self.span)]
        return replace(self, span=below[-1]) if below else self

    def longer(self) -> "TimeWindow":
        """The next longer of the usual spans; everything at last."""
        above = [span for span in SPANS if span is not None and self.span is not None and span > self.span]
        return replace(self, span=above[0]) if above else TimeWindow()

    def zoomed(self, factor: float, known: Bounds, around: float | None = None) -> "TimeWindow":
        """As many times the span around a moment; around the end while it follows, else around the middle."""
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
        """Moved by a share of its span; at the newest moment it follows again."""
        start, end = self.bounds(known)
        return self if self.span is None else _moved(end + (end - start) * share, self.span, known)

    @property
    def words(self) -> str:
        """`5 m`, `all`, or how long it is since it was zoomed."""
        return SPAN_WORDS.get(self.span) or format_duration(self.span)


def _moved(end: float, span: float, known: Bounds) -> TimeWindow:
    first, last = known
    return TimeWindow(span, None if end >= last else max(end, first + span))
