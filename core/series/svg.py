"""Draws charts of a job as one SVG file without a library; the file has no scripts and no fonts."""

from collections.abc import Iterator, Sequence
from html import escape

from jobtop.core.record import record
from jobtop.core.series.downsample import select_positions
from jobtop.core.series.drawing import Curve, Points, segments, time_marks, value_marks
from jobtop.core.text.metric_text import format_shown
from jobtop.core.units import format_duration, printable

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
FONT = "system-ui, 'DejaVu Sans', Helvetica, Arial, sans-serif"
LEFT, RIGHT, TOP, BOTTOM = 96, 24, 34, 30
HEADING, LEGEND_LINE, LONGEST_LABEL = 64, 18, 40
NARROW, NARROW_LEFT = 400, 78  # pixels: of a chart on a phone
ROOM_ABOVE = 12  # pixels above a limit that its text needs
SHOWN_LIMIT = 2.5  # a limit is inside the chart up to this many times the peak
# U+FFFE and U+FFFF are printable for Python and forbidden in XML.
NOT_XML = str.maketrans({"\ufffe": "\ufffd", "\uffff": "\ufffd"})


@record
class Chart:
    """One chart: curves of one metric, each with its label, and limits with their texts, drawn as dashed lines."""

    curves: tuple[tuple[str, Curve], ...]
    limits: tuple[tuple[float, str], ...] = ()


@record
class Tick:
    """A mark on the time axis: a vertical line with a text that a browser shows on hover."""

    moment: float
    text: str
    color: str


def svg(title: str, subtitle: str, curves: Sequence[Curve], end: float, width: int = 960, height: int = 220) -> str:
    """Return an SVG with one chart per curve, below each other, over the same time."""
    return svg_of(title, subtitle, [Chart((("", curve),)) for curve in curves], end, width=width, height=height)


def svg_of(
    title: str,
    subtitle: str,
    charts: Sequence[Chart],
    end: float,
    ticks: Sequence[Tick] = (),
    width: int = 960,
    height: int = 220,
) -> str:
    """Return an SVG of charts with a heading; a chart with several curves has a legend."""
    legend = list(legend_of([label for label, _ in charts[0].curves], width)) if charts else []
    top = HEADING + LEGEND_LINE * (1 + max((line for _, line, _ in legend), default=-1))
    total = top + height * len(charts) + 8
    lines = [
        opening(width, total),
        f"<title>{escaped(title)}</title>",
        f'<rect width="{width}" height="{total}" fill="#ffffff"/>',
        f'<text x="24" y="30" font-size="18" font-weight="600" fill="#1c2330">{escaped(title)}</text>',
        f'<text x="24" y="50" fill="#5b6472">{escaped(subtitle)}</text>',
    ]
    for number, (x, line, label) in enumerate(legend):
        y = HEADING + LEGEND_LINE * line + 8
        lines.append(f'<rect x="{x}" y="{y - 9}" width="10" height="10" fill="{COLORS[number % len(COLORS)]}"/>')
        lines.append(f'<text x="{x + 15}" y="{y}" fill="#1c2330">{escaped(label)}</text>')
    lines += stacked(charts, end, ticks, width, height, top)
    return "\n".join([*lines, "</svg>", ""])


def bare_svg(charts: Sequence[Chart], end: float, ticks: Sequence[Tick], width: int, height: int, kind: str) -> str:
    """Return an SVG of charts for a page that has its own heading; `kind` is its class in CSS."""
    total = height * len(charts)
    lines = [opening(width, total, f'class="chart {kind}" role="img" aria-label="charts over time"')]
    return "\n".join([*lines, *stacked(charts, end, ticks, width, height, 0), "</svg>", ""])


def opening(width: int, height: int, attributes: str = "") -> str:
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="{FONT}" font-size="12" {attributes}>'


def stacked(
    charts: Sequence[Chart], end: float, ticks: Sequence[Tick], width: int, height: int, top: int
) -> Iterator[str]:
    """Yield the SVG of charts below each other."""
    left, right = (LEFT, RIGHT) if width > NARROW else (NARROW_LEFT, 8)
    for number, chart in enumerate(charts):
        box = Box(left, top + height * number + TOP, width - left - right, height - TOP - BOTTOM)
        first = number if len(chart.curves) == 1 else 0
        colors = [COLORS[(first + place) % len(COLORS)] for place in range(len(chart.curves))]
        yield from chart_lines(chart, box, end, colors, ticks)


def legend_of(labels: Sequence[str], width: int) -> Iterator[tuple[int, int, str]]:
    """Yield the place, the line and the text of each label; a single curve needs none."""
    if len(labels) < 2:
        return
    x, line = 24, 0
    for label in labels:
        taken = 15 + 8 * min(len(label), LONGEST_LABEL) + 18
        if x + taken > width and x > 24:
            x, line = 24, line + 1
        yield x, line, label[:LONGEST_LABEL]
        x += taken


class Box:
    """The rectangle of a chart; converts times and values to coordinates."""

    def __init__(self, left: int, top: int, width: int, height: int) -> None:
        self.left, self.top, self.width, self.height = left, top, width, height
        self.right, self.bottom = left + width, top + height

    def x(self, moment: float, end: float) -> str:
        return f"{self.left + self.width * moment / end:.1f}"

    def y(self, value: float, top: float) -> str:
        return f"{self.bottom - self.height * value / top:.1f}"


def chart_lines(chart: Chart, box: Box, end: float, colors: Sequence[str], ticks: Sequence[Tick] = ()) -> Iterator[str]:
    """Yield the SVG of one chart: its title, the marks of both axes, limits, ticks, the curves."""
    metric = chart.curves[0][1].metric
    known = [value for _, curve in chart.curves for value in curve.known()]
    peak = max(known, default=0.0)
    inside = [(value, text) for value, text in chart.limits if value <= SHOWN_LIMIT * peak]
    marks = value_marks(metric, max([peak, *(value for value, _ in inside)]))
    top, end = max(marks[-1], peak) or 1.0, end or 1.0
    peak_text = f"peak {format_shown(metric, peak)}" if known else "not known"
    outside = [f"{text} (above)" for value, text in chart.limits if (value, text) not in inside]
    key = [metric.key] if box.width > NARROW else []
    title = metric.title if key else metric.title.partition(",")[0]
    yield f'<text x="{box.left}" y="{box.top - 12}" font-weight="600" fill="#1c2330">{escaped(title)}'
    details = "".join(f" · {escaped(text)}" for text in (*key, peak_text, *(outside if key else ())))
    yield f'<tspan font-weight="400" fill="#5b6472" dx="2">{details}</tspan></text>'
    for mark in marks:
        y = box.y(mark, top)
        label = escaped(format_shown(metric, mark))
        yield f'<path d="M{box.left} {y}H{box.right}" stroke="{"#9aa3b0" if mark == 0 else "#e6e9ee"}"/>'
        yield f'<text x="{box.left - 8}" y="{y}" dy="4" text-anchor="end" fill="#5b6472">{label}</text>'
    for mark in time_marks(end, 8 if box.width > NARROW else 4):
        x = box.x(mark, end)
        label = escaped(time_label(mark))
        yield f'<path d="M{x} {box.bottom}v4" stroke="#9aa3b0"/>'
        yield f'<text x="{x}" y="{box.bottom + 18}" text-anchor="middle" fill="#5b6472">{label}</text>'
    for tick in ticks:
        x = box.x(min(tick.moment, end), end)
        yield f'<path d="M{x} {box.top}V{box.bottom}" stroke="{tick.color}" stroke-dasharray="2 3">'
        yield f"<title>{escaped(tick.text)}</title></path>"
    for (_, curve), color in zip(chart.curves, colors, strict=True):
        for segment in segments(curve):
            yield stroke(thin_points(segment, 2 * box.width), box, top, end, color, len(chart.curves) == 1)
    for value, text in inside:
        y = box.y(value, top)
        side = 14 if float(y) - box.top < ROOM_ABOVE else -4
        yield f'<path d="M{box.left} {y}H{box.right}" stroke="#5b6472" stroke-width="1.2" stroke-dasharray="6 4"/>'
        yield f'<text x="{box.right}" y="{y}" dy="{side}" text-anchor="end" fill="#5b6472">{escaped(text)}</text>'


def stroke(points: Points, box: Box, top: float, end: float, color: str, is_filled: bool = True) -> str:
    """Return the SVG of one unbroken part of a curve; a single point is a dot."""
    places = [(box.x(moment, end), box.y(value, top)) for moment, value in points]
    if len(places) == 1:
        return f'<circle cx="{places[0][0]}" cy="{places[0][1]}" r="2.5" fill="{color}"/>'
    line = "L".join(f"{x} {y}" for x, y in places)
    area = f'<path d="M{places[0][0]} {box.bottom}L{line}V{box.bottom}Z" fill="{color}" fill-opacity="0.12"/>'
    return (area if is_filled else "") + (
        f'<path d="M{line}" fill="none" stroke="{color}" stroke-width="1.5" stroke-linejoin="round"/>'
    )


def thin_points(points: Points, count: int) -> Points:
    """Return at most `count` of the points, including the peaks."""
    if len(points) <= count:
        return points
    times, values = zip(*points, strict=True)
    return [points[position] for position in select_positions(times, [values], count)]


def time_label(moment: float) -> str:
    """Return the label of a mark on the time axis; 0 has no unit."""
    return format_duration(moment) if moment else "0"


def escaped(text: str) -> str:
    """Return the text escaped for XML, without characters that XML forbids."""
    return escape(printable(text).translate(NOT_XML))
