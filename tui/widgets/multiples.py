"""Small charts side by side, all over the same time: a title with the values, and a few rows of curves. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jobtop.core.metrics import Kind, Metric, Unit
from jobtop.core.record import record
from jobtop.core.series.drawing import BARS, Curve, gaps, value_marks
from jobtop.core.units import ABSENT, format_duration
from jobtop.tui.chart.canvas import BRAILLE, SINGLE, Layer, Sheet, extents
from jobtop.tui.palette import MARKERS, SERIES, Tone, load_tone
from jobtop.tui.widgets.cells import (
    LEVELS,
    PERCENT_WIDTH,
    Align,
    Span,
    aligned,
    fitted,
    percent_words,
    short_bytes,
    short_rate,
    width_of,
)

Number = float | int
Line = list[Span]
Bounds = tuple[float, float]
PLOT_ROWS = 3
GUTTER = 7  # cells of the scale, with a blank behind it
VALUE_WIDTH = 7
FEW_STROKES = 3  # from which on values are percentages, in less room
FILL, CURSOR = 98, 99  # owners of cells beside the curves
BUSY, IOWAIT, STEAL, IDLE = "━", "╍", "┄", "─"
LEAST_SPARK, CORE_BAR = 6, 8


@record
class Stroke:
    """One curve of a tile, its label and its value now or under the cursor."""

    label: str
    curve: Curve | None
    value: Number | None


@record
class Tile:
    """A small chart. `top` is the end of its scale if that is fixed, `least` the lowest end if it is not."""

    title: str
    strokes: Sequence[Stroke]
    top: float | None = None
    least: float = 0.0
    note: str = ""

    @property
    def metric(self) -> Metric | None:
        return next((stroke.curve.metric for stroke in self.strokes if stroke.curve is not None), None)


def short_value(metric: Metric | None, value: Number | None) -> str:
    """A value in at most seven cells, as a chart draws it: a counter by its rate."""
    if value is None or metric is None:
        return ABSENT
    if metric.kind is Kind.COUNTER:
        return RATES.get(metric.unit, short_count_rate)(value)
    return VALUES.get(metric.unit, short_count)(value)


def scale_words(metric: Metric | None, value: Number) -> str:
    """The end of a scale in at most six cells: it is a round number."""
    if metric is not None and metric.unit is Unit.RPM:
        return short_count(value)
    return short_value(metric, value).replace(".0", "")


def short_count(value: Number) -> str:
    """`12`, `0.25`, `45k`."""
    if abs(value) >= 9999.5:
        return f"{value / 1000:.0f}k" if abs(value) < 999_500 else f"{value / 1e6:.1f}M"
    return f"{value:.0f}" if abs(value) >= 99.5 or value == int(value) else f"{value:.2f}"


def short_count_rate(value: Number) -> str:
    return f"{short_count(value)}/s"


VALUES: dict[Unit, Callable[[Number], str]] = {
    Unit.BYTES: short_bytes,
    Unit.PERCENT: percent_words,
    Unit.SECONDS: format_duration,
    Unit.CELSIUS: lambda value: f"{value:.0f}°C",
    Unit.RPM: lambda value: f"{value:.0f}rpm",
    Unit.WATTS: lambda value: f"{value:.1f}W",
}
RATES: dict[Unit, Callable[[Number], str]] = {
    Unit.BYTES: short_rate,
    Unit.SECONDS: lambda value: percent_words(100 * value),
    Unit.JOULES: lambda value: f"{value:.1f}W",
}


def tile_lines(tile: Tile, bounds: Bounds, width: int, is_ascii: bool, cursor: float | None = None) -> list[Line]:
    """A tile of `1 + PLOT_ROWS` lines, each exactly `width` cells."""
    columns = width - GUTTER
    if columns < 4:
        return [aligned([Span(tile.title)], width), *[[Span(" " * width)]] * PLOT_ROWS]
    top = scale_of(tile)
    is_known = any(stroke.curve is not None and stroke.curve.known() for stroke in tile.strokes)
    labels = [scale_words(tile.metric, top), *[""] * (PLOT_ROWS - 2), "0"] if is_known else [""] * PLOT_ROWS
    rows = plot_rows(tile, bounds, columns, top, is_ascii, cursor)
    lines = [title_line(tile, width)]
    for label, row in zip(labels, rows, strict=True):
        lines.append([Span(fitted(label, GUTTER - 1, Align.RIGHT) + " ", Tone.GREY), *row])
    return lines


def title_line(tile: Tile, width: int) -> Line:
    """The title, and at the right the values of the curves, each at a fixed width; labels have the curve's colour."""
    values: Line = []
    for number, stroke in enumerate(tile.strokes):
        tone = SERIES[number % len(SERIES)]
        marker = MARKERS[number % len(MARKERS)] if len(tile.strokes) > 1 else ""
        shown = short_value(tile.metric, stroke.value)
        space = VALUE_WIDTH if len(tile.strokes) < FEW_STROKES else PERCENT_WIDTH - 1
        values += [Span(f" {marker}{stroke.label} ", tone), Span(fitted(shown, space, Align.RIGHT), Tone.TEXT)]
    if tile.note:
        values.append(Span(f" {tile.note}", Tone.GREY))
    room = width - width_of(values)
    title = [Span(fitted(tile.title, room), Tone.TEXT, True)] if room > 0 else []
    return aligned([*title, *values], width)


def scale_of(tile: Tile) -> float:
    """The end of the scale: fixed, or a round number above the highest value."""
    if tile.top is not None:
        return tile.top
    known = [value for stroke in tile.strokes if stroke.curve is not None for value in stroke.curve.known()]
    peak = max([tile.least, *known])
    metric = tile.metric
    return value_marks(metric, peak, 2)[-1] if metric is not None and peak > 0 else peak or 1.0


def plot_rows(tile: Tile, bounds: Bounds, columns: int, top: float, is_ascii: bool, cursor: float | None) -> list[Line]:
    """The curves, the first one filled; the column under the cursor is marked."""
    sheet, dots = Sheet(columns, PLOT_ROWS), SINGLE if is_ascii else BRAILLE
    layers = []
    for stroke in tile.strokes:
        layer = Layer(columns, PLOT_ROWS, dots)
        if stroke.curve is not None and stroke.curve.times:
            curve = stroke.curve
            layer.trace(extents(curve.times, curve.values, bounds, layer.width, set(gaps(curve.times))), top)
        layers.append(layer)
    if layers and not is_ascii:
        sheet.fill(layers[0], FILL)
    for number, layer in reversed(list(enumerate(layers))):
        sheet.lay(layer, number + 1, MARKERS[number % len(MARKERS)])
    if cursor is not None and bounds[0] <= cursor <= bounds[1]:
        x = min(columns - 1, int((cursor - bounds[0]) / (bounds[1] - bounds[0]) * columns))
        for y in range(PLOT_ROWS):
            sheet.put(x, y, "│", CURSOR)
    return [[Span(text, owner_tone(owner)) for text, owner in sheet.runs(y)] for y in range(PLOT_ROWS)]


def owner_tone(owner: int) -> Tone:
    if owner in (FILL, CURSOR):
        return Tone.FAINT if owner == FILL else Tone.ORANGE
    return SERIES[(owner - 1) % len(SERIES)] if owner else Tone.TEXT


@record
class CoreLoad:
    """A core: its load over time, and now (or under the cursor) in percent."""

    name: str
    curve: Curve | None
    busy: Number | None = None
    iowait: Number | None = None
    steal: Number | None = None


def core_line(core: CoreLoad, bounds: Bounds, width: int, digits: int) -> Line:
    """`12 ▁▂▅▇▆▃ ━━━━╍┄── 41% `: the load over time, and now with waiting and stolen time apart."""
    spark = width - digits - 1 - 1 - CORE_BAR - 5 - 2
    line = [Span(f"{core.name:>{digits}} ", Tone.GREY)]
    if spark >= LEAST_SPARK:
        line += [Span(spark_of(core.curve, bounds, spark), Tone.BLUE), Span(" ")]
    number = Span(fitted(percent_words(core.busy), 5, Align.RIGHT) + "  ")
    return aligned([*line, *core_bar(core), number], width)


def core_bar(core: CoreLoad) -> Line:
    """Busy, waiting for I/O, stolen and idle, told apart by glyph and by colour."""
    if core.busy is None:
        return [Span(IDLE * CORE_BAR, Tone.FAINT)]
    line: Line = []
    left = CORE_BAR
    for percent, glyph, tone in (
        (core.busy, BUSY, load_tone(core.busy)),
        (core.iowait, IOWAIT, Tone.ORANGE),
        (core.steal, STEAL, Tone.PURPLE),
    ):
        cells = min(left, cells_of(percent))
        line.append(Span(glyph * cells, tone))
        left -= cells
    return [*line, Span(IDLE * left, Tone.FAINT)]


def cells_of(percent: Number | None) -> int:
    """The cells of a share; at least one if it can be seen at all."""
    if percent is None or percent < 1:
        return 0
    return max(1, round(percent * CORE_BAR / 100))


def spark_of(curve: Curve | None, bounds: Bounds, width: int) -> str:
    """A block for each part of the time, as high as the greatest load in it; blank where there are no samples."""
    if curve is None or not curve.times:
        return " " * width
    spans = extents(curve.times, curve.values, bounds, width, set(gaps(curve.times)))
    return "".join(
        " " if span is None else BARS[min(LEVELS - 1, max(0, int(span[1] * LEVELS / 100)))] for span in spans
    )
