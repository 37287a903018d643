"""A chart as lines of text: what it shows, its scales, and how it is drawn. Pure."""

import textwrap
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from enum import Enum, IntEnum
from typing import NamedTuple

from rich.cells import cell_len

from jobtop.core.metrics import Kind, Metric, Unit
from jobtop.core.record import fresh, record
from jobtop.core.series.drawing import gaps
from jobtop.core.text.metric_text import format_shown
from jobtop.tui.chart.axes import Scale, column_of, label_line, moments, scale_of
from jobtop.tui.chart.canvas import BRAILLE, SINGLE, Layer, Sheet, extents
from jobtop.tui.chart.window import Bounds
from jobtop.tui.palette import MARKERS, SERIES, STROKES, Tone
from jobtop.tui.widgets.cells import Span, fitted, safe_text, short_bytes, short_rate, width_of

GRID_EVERY = 6
LEAST_ROWS_WITH_AXIS = 4
LEAST_COLUMNS = 4
MARKER_EVERY = 28
LEAST_TITLE, LONGEST = 8, 500
TONES = tuple(Tone)  # the owners of cells
BELOW_CURVES = frozenset(" ·┄╌")  # what a curve is drawn over
LONGEST_LABEL = 0.6  # of the row of a threshold
NEAR_LIMIT = 0.4  # of a limit: the line of a limit that is further away is not shown, since it would flatten the curve


class Side(Enum):
    """The side of the axis that belongs to a series."""

    LEFT = "left"
    RIGHT = "right"


class Brevity(IntEnum):
    """How much a legend is shortened."""

    FULL = 0
    MARKERS = 1  # without strokes beside the markers
    UNITS = 2  # also `4.3G` for `4.3 GiB`
    VALUES = 3  # also without labels


class Whole(NamedTuple):
    """What a value is compared with as a percentage, and its name unless it is the limit."""

    size: float
    words: str = ""


@record
class ChartSeries:
    """A curve: moments in seconds, values with None if unknown; one curve of a chart may be filled."""

    label: str
    metric: Metric
    times: Sequence[float]
    values: Sequence[float | None]
    side: Side = Side.LEFT
    is_filled: bool = False
    whole: Whole | None = None

    @property
    def is_known(self) -> bool:
        """Whether there is anything to draw."""
        return any(value is not None for value in self.values)

    def at(self, moment: float) -> float | None:
        """The value at a moment: the last known one before it."""
        position = bisect_right(self.times, moment) - 1
        return self.values[position] if position >= 0 else None

    def shown(self, moment: float | None, is_live: bool = True) -> float | None:
        """The value at a moment; without a moment, the newest value, or after the end the last known one.

        The last sample of an ended job has totals, and no memory: its processes have exited.
        """
        if moment is not None:
            return self.at(moment)
        if is_live:
            return self.values[-1] if self.values else None
        return next((value for value in reversed(self.values) if value is not None), None)


@record
class Threshold:
    """The level of an alert rule, as a labelled line."""

    value: float
    label: str
    tone: Tone = Tone.YELLOW


@record
class Axis:
    """How a side is scaled: up to a fixed top or as high as needed; the line of its limit, with its name; thresholds.

    A curve below `least` is not magnified to fill the chart.
    """

    top: float | None = None
    limit: float | None = None
    least: float = 0.0
    limit_name: str = "limit"
    thresholds: Sequence[Threshold] = ()


@record
class EventMark:
    """An event as a mark on the time axis."""

    moment: float
    tone: Tone = Tone.VERMILION
    glyph: str = "▲"


@record
class ChartView:
    """All that a chart shows; if `is_live`, the time axis counts back from now, else from the start."""

    title: str = ""
    series: Sequence[ChartSeries] = ()
    left: Axis = fresh(default_factory=Axis)
    right: Axis = fresh(default_factory=Axis)
    events: Sequence[EventMark] = ()
    is_live: bool = False
    note: str = ""
    empty: str = "no samples yet"

    def axis(self, side: Side) -> Axis:
        return self.left if side is Side.LEFT else self.right

    def known(self) -> Bounds | None:
        """The time from the first to the last known moment of any series; None if nothing is known."""
        times = [series.times for series in self.series if series.is_known]
        return (min(part[0] for part in times), max(part[-1] for part in times)) if times else None


def tone_of(number: int) -> Tone:
    """The tone of the series with this number."""
    return SERIES[number % len(SERIES)]


def legend(view: ChartView, moment: float | None, width: int) -> list[Span]:
    """The title, and each series with its marker and its value at the moment, or the last; shortened to the width."""
    values: list[Span] = []
    title, room = safe_text(view.title[:LONGEST]), 0
    for brevity in Brevity:
        numbered = range(len(view.series))
        values = [piece for number in numbered for piece in _legend_of(view, number, moment, brevity)]
        values += _limit_words(view)
        room = width - width_of(values)
        if room >= (cell_len(title) if brevity < Brevity.UNITS else min(LEAST_TITLE, cell_len(title))):
            break
    shown = fitted(title, min(cell_len(title), max(room, LEAST_TITLE)))
    return [Span(shown, Tone.TEXT, True), *values] if title else values


def _legend_of(view: ChartView, number: int, moment: float | None, brevity: Brevity) -> list[Span]:
    series = view.series[number]
    stroke = "" if brevity else STROKES[number % len(STROKES)]
    label = "" if brevity is Brevity.VALUES else series.label
    return [
        Span("  " if number or view.title else ""),
        Span(f"{stroke}{MARKERS[number % len(MARKERS)]}{stroke}", tone_of(number)),
        Span(f" {label} " if label else " ", Tone.GREY),
        *_share(series, series.shown(moment, view.is_live)),
        Span(value_words(series, moment, brevity >= Brevity.UNITS, view.is_live)),
    ]


def _share(series: ChartSeries, value: float | None) -> list[Span]:
    """The value as a percentage of a whole: `36 % of host · `."""
    if series.whole is None or value is None:
        return []
    percent = 100 * value / series.whole.size
    words = "<1 %" if 0 < percent < 0.5 else f"{percent:.0f} %"
    return [Span(words), Span(f"{series.whole.words} · ", Tone.GREY)]


def value_words(series: ChartSeries, moment: float | None, is_short: bool, is_live: bool = True) -> str:
    """The value; the newest percentage has no decimals, because it changes before they are read."""
    value, metric = series.shown(moment, is_live), series.metric
    if value is not None and moment is None and metric.unit is Unit.PERCENT:
        return f"{value:.0f} %"
    if is_short and metric.unit is Unit.BYTES:
        return short_rate(value) if metric.kind is Kind.COUNTER else short_bytes(value)
    return format_shown(metric, value)


def _limit_words(view: ChartView) -> list[Span]:
    line: list[Span] = []
    for side in Side:
        axis, shown = view.axis(side), [series for series in view.series if series.side is side]
        if axis.limit is not None and shown:
            line += [
                Span("  ╌╌ ", Tone.VERMILION),
                Span(f"{axis.limit_name} ", Tone.GREY),
                Span(format_shown(shown[0].metric, axis.limit)),
            ]
    return line


class Plot:
    """The drawing of a view in a number of columns and rows."""

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
        """The column of the plot for a moment."""
        return column_of(moment, self.bounds, self.columns)

    def moment(self, column: int) -> float:
        """The moment in the middle of a column of the plot."""
        start, end = self.bounds
        return start + (end - start) * (column + 0.5) / self.columns

    def lines(self, cursor: float | None = None) -> list[list[Span]]:
        """The rows of the plot with their labels, and the time axis below."""
        sheet = Sheet(self.columns, self.rows)
        self._draw_grid(sheet)
        thresholds = self._draw_thresholds(sheet)
        self._draw_limits(sheet)
        column = self.column(cursor) if cursor is not None and self.bounds[0] <= cursor <= self.bounds[1] else None
        if column is not None:
            for row in range(self.rows):
                sheet.put(column, row, "│", Tone.ORANGE)
        for number, series in enumerate(self.view.series):
            if series.is_known:
                self._draw_series(sheet, number, series)
        for row, line in thresholds.items():
            label_row(sheet, row, line.label, line.tone)
        lines = [[*self._left_mark(row), *_spans(sheet.runs(row)), *self._right_mark(row)] for row in range(self.rows)]
        return [*lines, self._time_axis(column), self._time_labels()] if self.has_axis else lines

    def _scale(self, side: Side) -> Scale | None:
        shown = [series for series in self.view.series if series.side is side and series.is_known]
        if not shown:
            return None
        axis = self.view.axis(side)
        peak = max(axis.least, *(_peak(series, self.bounds) for series in shown))
        lines = [line.value for line in axis.thresholds] + ([] if axis.limit is None else [axis.limit])
        peak = max([peak, *(line for line in lines if NEAR_LIMIT * line <= peak)])
        return scale_of(shown[0].metric, peak, self.rows, axis.top)

    def _labels(self, side: Side) -> dict[int, str]:
        """The labels of a side, by their rows."""
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

    def _draw_thresholds(self, sheet: Sheet) -> dict[int, Threshold]:
        """Draw the visible thresholds; return them by their rows, each row with its first."""
        drawn: dict[int, Threshold] = {}
        for side, scale in self.scales.items():
            for line in self.view.axis(side).thresholds:
                row = self._row(side, line.value)
                if line.value <= scale.top and row not in drawn and row < self.rows - 1:
                    drawn[row] = line
                    for column in range(self.columns):
                        sheet.put(column, row, "┄", line.tone)
        return drawn

    def _draw_series(self, sheet: Sheet, number: int, series: ChartSeries) -> None:
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
        if cursor is not None:
            axis.put(cursor, 0, "┴", Tone.ORANGE)
        for event in self.view.events:
            if self.bounds[0] <= event.moment <= self.bounds[1]:
                axis.put(self.column(event.moment), 0, event.glyph, event.tone)
        corner = [Span(" " * (self.left - 1)), Span("└", Tone.FAINT)]
        end = [Span("┘", Tone.FAINT), Span(" " * (self.right - 1))] if self.right else []
        return [*corner, *_spans(axis.runs(0)), *end]

    def _time_labels(self) -> list[Span]:
        words = label_line(moments(self.bounds, self.is_live, self.columns), self.columns)
        return [Span(" " * self.left), Span(words, Tone.GREY), Span(" " * self.right)]


def label_row(sheet: Sheet, row: int, label: str, tone: Tone) -> None:
    """Write a label into a row, where no curve is if possible; a label that takes most of the row is left out."""
    text = f" {safe_text(label)} "
    wide = cell_len(text)
    if wide > LONGEST_LABEL * sheet.columns or wide != len(text):
        return
    owned = zip(sheet.characters[row], sheet.owners[row], strict=True)
    free = [character in BELOW_CURVES or owner == Tone.FAINT for character, owner in owned]
    places = range(1, sheet.columns - wide)
    left = next((place for place in places if all(free[place : place + wide])), 1)
    for offset, character in enumerate(text):
        sheet.put(left + offset, row, character, tone)


def empty_lines(words: str, width: int, height: int) -> list[list[Span]]:
    """A message in the middle of an empty chart, in as many lines as it needs."""
    blank = [Span(" " * width)]
    lines = textwrap.wrap(safe_text(words), max(1, width - 2))[:height] or [""]
    above = [blank] * ((height - len(lines) + 1) // 2)
    return [*above, *([Span(fitted(line.center(width), width), Tone.GREY)] for line in lines)]


def _spans(runs: Iterable[tuple[str, int]]) -> list[Span]:
    return [Span(text, TONES[owner]) for text, owner in runs]


def _peak(series: ChartSeries, bounds: Bounds) -> float:
    """The highest visible value, including lines that enter from outside the window."""
    first = max(0, bisect_right(series.times, bounds[0]) - 1)
    last = bisect_right(series.times, bounds[1]) + 1
    return max((value for value in series.values[first:last] if value is not None), default=0.0)
