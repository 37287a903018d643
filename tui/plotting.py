"""A chart as lines of text: what is shown, on which scales, and how it is put together. Pure."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from enum import Enum

from jobtop.core.display import format_shown
from jobtop.core.drawing import gaps
from jobtop.core.metrics import Metric, Unit
from jobtop.core.record import fresh, record
from jobtop.tui.axes import Scale, column_of, label_line, moments, scale_of
from jobtop.tui.canvas import BRAILLE, SINGLE, Layer, Sheet, extents
from jobtop.tui.cells import Span, fitted, width_of
from jobtop.tui.palette import MARKERS, SERIES, STROKES, Tone
from jobtop.tui.window import Bounds

GRID_EVERY = 6
LEAST_ROWS_WITH_AXIS = 4
LEAST_COLUMNS = 4
MARKER_EVERY = 28
TONES = tuple(Tone)  # the owners of cells; nobody's cells are blank
NEAR_LIMIT = 0.4  # of a limit: below, it would only press the curve flat


class Side(Enum):
    """Whose axis a series is read on."""

    LEFT = "left"
    RIGHT = "right"


@record
class Series:
    """A curve: moments in seconds, values with None where nothing is known; one of them may be filled down to 0."""

    label: str
    metric: Metric
    times: Sequence[float]
    values: Sequence[float | None]
    side: Side = Side.LEFT
    is_filled: bool = False

    def at(self, moment: float) -> float | None:
        """The value that was known at a moment: the last one before it."""
        position = bisect_right(self.times, moment) - 1
        return self.values[position] if position >= 0 else None


@record
class Axis:
    """How a side is scaled: up to a fixed top, or as high as it needs to be; and the line that must not be crossed.

    Below `least` a curve is not blown up to fill the room.
    """

    top: float | None = None
    limit: float | None = None
    least: float = 0.0


@record
class Event:
    """Something that happened, as a mark on the time axis."""

    moment: float
    tone: Tone = Tone.VERMILION
    glyph: str = "▲"


@record
class ChartView:
    """Everything a chart shows; `is_live` counts the time back from now, else it runs from the start."""

    title: str = ""
    series: Sequence[Series] = ()
    left: Axis = fresh(default_factory=Axis)
    right: Axis = fresh(default_factory=Axis)
    events: Sequence[Event] = ()
    is_live: bool = False
    note: str = ""
    empty: str = "no samples yet"

    def axis(self, side: Side) -> Axis:
        return self.left if side is Side.LEFT else self.right

    def known(self) -> Bounds | None:
        """From the first moment of any series of which something is known to the last; None if there is none."""
        times = [series.times for series in self.series if any(value is not None for value in series.values)]
        return (min(part[0] for part in times), max(part[-1] for part in times)) if times else None


def tone_of(number: int) -> Tone:
    """The tone of the first, second, … series."""
    return SERIES[number % len(SERIES)]


def legend(view: ChartView, moment: float | None, width: int) -> list[Span]:
    """The title, and each series with its marker and its value at the moment, or its last; shorter if it has to be."""
    line = [Span(view.title, Tone.TEXT, True)] if view.title else []
    line += [piece for number in range(len(view.series)) for piece in _legend_of(view, number, moment)]
    line += _limit_words(view)
    if width_of(line) > width:
        line = [Span(piece.text.strip(STROKES), *piece[1:]) for piece in line]
    return line


def _legend_of(view: ChartView, number: int, moment: float | None) -> list[Span]:
    series = view.series[number]
    stroke, marker = STROKES[number % len(STROKES)], MARKERS[number % len(MARKERS)]
    return [
        Span("  " if number or view.title else ""),
        Span(f"{stroke}{marker}{stroke}", tone_of(number)),
        Span(f" {series.label} ", Tone.GREY),
        Span(last_words(series) if moment is None else format_shown(series.metric, series.at(moment))),
    ]


def last_words(series: Series) -> str:
    """The last value; a percentage is whole, because it changes before its decimals are read."""
    value = series.values[-1] if series.values else None
    if value is not None and series.metric.unit is Unit.PERCENT:
        return f"{value:.0f} %"
    return format_shown(series.metric, value)


def _limit_words(view: ChartView) -> list[Span]:
    line: list[Span] = []
    for side in Side:
        limit, shown = view.axis(side).limit, [series for series in view.series if series.side is side]
        if limit is not None and shown:
            line += [
                Span("  ╌╌ ", Tone.VERMILION),
                Span("limit ", Tone.GREY),
                Span(format_shown(shown[0].metric, limit)),
            ]
    return line


class Plot:
    """One drawing of a view in so many columns and rows."""

    def __init__(
        self,
        view: ChartView,
        bounds: Bounds,
        width: int,
        height: int,
        is_ascii: bool = False,
        is_live: bool | None = None,
    ) -> None:
        self.view, self.bounds, self.height = view, bounds, height
        self.is_live = view.is_live if is_live is None else is_live
        self.dots = SINGLE if is_ascii else BRAILLE
        self.has_axis = height >= LEAST_ROWS_WITH_AXIS
        self.rows = height - 2 if self.has_axis else height
        self.scales = {side: scale for side in Side if (scale := self._scale(side)) is not None}
        self.labels = {side: self._labels(side) for side in Side}
        self.left = self.scales[Side.LEFT].width + 1 if Side.LEFT in self.scales else 1
        self.right = self.scales[Side.RIGHT].width + 1 if Side.RIGHT in self.scales else 0
        self.columns = width - self.left - self.right

    @property
    def fits(self) -> bool:
        """Whether there is room for more than the axes."""
        return self.columns >= LEAST_COLUMNS and self.rows > 0

    def column(self, moment: float) -> int:
        """The column of the plot a moment is drawn in."""
        return column_of(moment, self.bounds, self.columns)

    def moment(self, column: int) -> float:
        """The moment in the middle of a column of the plot."""
        start, end = self.bounds
        return start + (end - start) * (column + 0.5) / self.columns

    def lines(self, cursor: float | None = None) -> list[list[Span]]:
        """The rows of the plot with their marks, and the time axis below."""
        sheet = Sheet(self.columns, self.rows)
        self._draw_grid(sheet)
        self._draw_limits(sheet)
        column = self.column(cursor) if cursor is not None and self.bounds[0] <= cursor <= self.bounds[1] else None
        if column is not None:
            for row in range(self.rows):
                sheet.put(column, row, "│", Tone.ORANGE)
        for number, series in enumerate(self.view.series):
            self._draw_series(sheet, number, series)
        lines = [[*self._left_mark(row), *_spans(sheet.runs(row)), *self._right_mark(row)] for row in range(self.rows)]
        return [*lines, self._time_axis(column), self._time_labels()] if self.has_axis else lines

    def _scale(self, side: Side) -> Scale | None:
        shown = [series for series in self.view.series if series.side is side]
        if not shown:
            return None
        axis = self.view.axis(side)
        peak = max(axis.least, *(_peak(series, self.bounds) for series in shown))
        if axis.limit is not None and NEAR_LIMIT * axis.limit <= peak:
            peak = max(peak, axis.limit)
        return scale_of(shown[0].metric, peak, self.rows, axis.top)

    def _labels(self, side: Side) -> dict[int, str]:
        """The labels of a side by the rows they belong to."""
        scale = self.scales.get(side)
        marks = zip(scale.marks, scale.labels, strict=True) if scale else ()
        return {self._row(side, mark): label for mark, label in marks}

    def _row(self, side: Side, value: float) -> int:
        return self.scales[side].row(value, self.rows, len(self.dots[0]))

    def _draw_grid(self, sheet: Sheet) -> None:
        for row in self.labels[Side.LEFT] or self.labels[Side.RIGHT]:
            for column in range(GRID_EVERY // 2, self.columns, GRID_EVERY):
                sheet.put(column, row, "·", Tone.FAINT)

    def _draw_limits(self, sheet: Sheet) -> None:
        for side, scale in self.scales.items():
            limit = self.view.axis(side).limit
            if limit is not None and limit <= scale.top:
                row = self._row(side, limit)
                for column in range(self.columns):
                    sheet.put(column, row, "╌", Tone.VERMILION)

    def _draw_series(self, sheet: Sheet, number: int, series: Series) -> None:
        layer = Layer(self.columns, self.rows, self.dots)
        shown = extents(series.times, series.values, self.bounds, layer.width, set(gaps(series.times)))
        marker, tone = MARKERS[number % len(MARKERS)], tone_of(number)
        layer.trace(shown, self.scales[series.side].top)
        if series.is_filled and len(self.dots) > 1:
            sheet.fill(layer, Tone.FAINT)
        sheet.lay(layer, tone, marker)
        if len(self.view.series) > 1:
            across = len(self.dots)
            for column in range(MARKER_EVERY // 4 * (number + 1), self.columns, MARKER_EVERY):
                extent = shown[column * across]
                if extent is not None:
                    sheet.put(column, self._row(series.side, extent[1]), marker, tone)

    def _left_mark(self, row: int) -> list[Span]:
        label = self.labels[Side.LEFT].get(row)
        if label is None:
            return [Span(" " * (self.left - 1)), Span("│", Tone.FAINT)]
        return [Span(label.rjust(self.left - 1), Tone.GREY), Span("┤", Tone.FAINT)]

    def _right_mark(self, row: int) -> list[Span]:
        if not self.right:
            return []
        label = self.labels[Side.RIGHT].get(row)
        if label is None:
            return [Span("│", Tone.FAINT), Span(" " * (self.right - 1))]
        return [Span("├", Tone.FAINT), Span(label.ljust(self.right - 1), Tone.GREY)]

    def _time_axis(self, cursor: int | None) -> list[Span]:
        axis = Sheet(self.columns, 1)
        for column in range(self.columns):
            axis.put(column, 0, "─", Tone.FAINT)
        for column, _ in moments(self.bounds, self.is_live, self.columns):
            axis.put(column, 0, "┴", Tone.FAINT)
        for event in self.view.events:
            if self.bounds[0] <= event.moment <= self.bounds[1]:
                axis.put(self.column(event.moment), 0, event.glyph, event.tone)
        if cursor is not None:
            axis.put(cursor, 0, "┴", Tone.ORANGE)
        corner = [Span(" " * (self.left - 1)), Span("└", Tone.FAINT)]
        end = [Span("┘", Tone.FAINT), Span(" " * (self.right - 1))] if self.right else []
        return [*corner, *_spans(axis.runs(0)), *end]

    def _time_labels(self) -> list[Span]:
        words = label_line(moments(self.bounds, self.is_live, self.columns), self.columns)
        return [Span(" " * self.left), Span(words, Tone.GREY), Span(" " * self.right)]


def empty_lines(words: str, width: int, height: int) -> list[list[Span]]:
    """Words in the middle of nothing."""
    blank = [Span(" " * width)]
    return [*[blank] * (height // 2), [Span(fitted(words.center(width), width), Tone.GREY)]]


def _spans(runs: Iterable[tuple[str, int]]) -> list[Span]:
    return [Span(text, TONES[owner]) for text, owner in runs]


def _peak(series: Series, bounds: Bounds) -> float:
    """The highest value in sight, lines that come from outside it included."""
    first = max(0, bisect_right(series.times, bounds[0]) - 1)
    last = bisect_right(series.times, bounds[1]) + 1
    return max((value for value in series.values[first:last] if value is not None), default=0.0)
