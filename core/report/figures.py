"""Figures for Plotly as plain JSON values: the timeline of a job, jobs compared, peaks against means. Pure.

Plotly reads its texts as simple HTML, so that every text from outside is escaped here.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import isfinite

from jobtop.core.metrics import Kind, Metric, Unit, find_metric
from jobtop.core.record import record
from jobtop.core.report.content import CPU, MEMORY, JobContent, LimitLine, Mark
from jobtop.core.report.look import FONT, GREY, GRID, INK, LIMIT, MARK_COLORS, MARK_SYMBOLS, SECONDARY, series_style
from jobtop.core.series.drawing import Curve, Number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Json = dict[str, Any]

DAY_SECONDS = 86400.0
SHOWN_LIMIT = 2.5  # a limit is inside the chart up to this many times the peak
HEADROOM = 1.08
FEW_POINTS = 30  # up to here each sample is a dot too
MOST_LINES = 60  # marks with a vertical line
FEW_JOBS = 10  # up to here the hover text names all of them
ROW_WEIGHTS = {CPU: 3.0, MEMORY: 3.0}
LANE = 0.05  # the share of the height for marks
GAP = 0.05
MOST_WHOLE = 8  # up to here an axis of counts has whole numbers
ROW_PIXELS, BAR_PIXELS = 70, 34
TITLES = {"cpu.percent": "CPU", "mem.used": "Memory", "proc.count": "Processes"}
# Times since the start are drawn as dates from here on: Plotly reads small numbers as years.
ORIGIN_MS = 946_684_800_000  # 2000-01-01, so that the first day is day 1 of a year
BYTE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


@record
class Figure:
    """A figure with its height in pixels; `starts` has the ms to add to the times of each trace for the time of day."""

    data: list[Json]
    layout: Json
    height: int
    starts: list[int] | None = None


@record
class Scale:
    """How values of a metric are drawn: multiplied by a factor, with a unit and a format of d3."""

    factor: float
    unit: str
    form: str

    def draw(self, value: Number | None) -> float | None:
        return None if value is None or not isfinite(value) else round(value * self.factor, 4)

    @property
    def template(self) -> str:
        return f"%{{y:{self.form}}}{self.unit and ' ' + self.unit}"


def scale_of(metric: Metric, top: Number) -> Scale:
    """The scale for values up to `top`: bytes in the largest unit below it, counters as rates."""
    is_rate = metric.kind is Kind.COUNTER
    per_second = "/s" if is_rate or metric.unit is Unit.BYTES_PER_SECOND else ""
    match metric.unit:
        case Unit.BYTES | Unit.BYTES_PER_SECOND:
            power = 0
            while abs(top) >= 1024 ** (power + 1) and power < len(BYTE_UNITS) - 1:
                power += 1
            return Scale(1024.0**-power, BYTE_UNITS[power] + per_second, ".1f" if power else ".0f")
        case Unit.PERCENT:
            return Scale(1.0, "%", ".1f")
        case Unit.SECONDS if is_rate:
            return Scale(100.0, "%", ".1f")
        case Unit.JOULES if is_rate:
            return Scale(1.0, "W", ".1f")
        case Unit.COUNT | Unit.FLAG | Unit.CORES:
            return Scale(1.0, per_second, ",.4~g")
    units = {Unit.SECONDS: "s", Unit.CELSIUS: "°C", Unit.WATTS: "W", Unit.JOULES: "J", Unit.HERTZ: "Hz"}
    return Scale(1.0, units.get(metric.unit, str(metric.unit)), ",.4~g")


def timeline(content: JobContent, zone_seconds: float) -> Figure:
    """The charts of one job below each other, over one time axis, with its limits and a row of marks at the top."""
    rows = list(content.curves.values())
    weights = [ROW_WEIGHTS.get(curve.metric.key, 1.8) for curve in rows]
    layout = base_layout(content.end)
    layout |= {"hovermode": "x unified", "hoversubplots": "axis", "showlegend": True}
    data: list[Json] = []
    annotations: list[Json] = []
    top = 1 - LANE - GAP / 2
    for number, (curve, weight) in enumerate(zip(rows, weights, strict=True), start=1):
        share = (1 - LANE - GAP / 2 - GAP * (len(rows) - 1)) * weight / sum(weights)
        axis, limits = _axis(number), content.limits_of(curve.metric.key)
        color = series_style(number - 1)[0]
        traces, scale, highest, outside = _row(curve, limits, axis, color, content.end)
        data += traces
        title = TITLES.get(curve.metric.key, curve.metric.title)
        layout[f"yaxis{number if number > 1 else ''}"] = _value_axis(title, scale, highest, (top - share, top))
        annotations += [_outside_text(line, axis) for line in outside[:1]]
        top -= share + GAP
    lane = len(rows) + 1
    data.append(_mark_trace(content.marks, _axis(lane)))
    layout[f"yaxis{lane}"] = {"domain": [1 - LANE, 1], "range": [0, 1], "visible": False, "fixedrange": True}
    layout["xaxis"] |= {"anchor": _axis(len(rows)), "range": [_at(0.0), _at(content.end or 1.0)]}
    layout |= {"annotations": annotations, "shapes": _mark_lines(content.marks)}
    start = content.job.start_time
    starts = None if start is None else [_shift(start, zone_seconds)] * len(data)
    return with_legend_below(Figure(data, layout, int(160 + ROW_PIXELS * sum(weights)), starts))


def _row(
    curve: Curve, limits: Sequence[LimitLine], axis: str, color: str, end: float
) -> tuple[list[Json], Scale, float, list[LimitLine]]:
    """The traces of a curve and its limits, its scale, the highest value to show, and limits far above that."""
    peak = max(curve.known(), default=0)
    reached = SHOWN_LIMIT * peak
    inside = [line for line in limits if line.value <= reached]
    highest = max([peak, *(line.value for line in inside)])
    scale = scale_of(curve.metric, highest)
    name = TITLES.get(curve.metric.key, curve.metric.title)
    line = _line(curve, scale) | {"name": escape(name), "yaxis": axis, "line": {"color": color, "width": 1.6}}
    line |= {"fill": "tozeroy", "fillcolor": f"{color}1f", "hovertemplate": f"{escape(name)} {scale.template}"}
    line["hovertemplate"] += "<extra></extra>"
    traces = [line]
    for limit in limits:
        value = scale.draw(limit.value)
        traces.append(
            {
                **_dashed(escape(limit.text)),
                "x": [_at(0.0), _at(end or 1.0)],
                "y": [value, value],
                "yaxis": axis,
                "visible": True if limit in inside else "legendonly",
            }
        )
    return traces, scale, highest * scale.factor, [limit for limit in limits if limit not in inside]


def comparison(contents: Sequence[JobContent], key: str, zone_seconds: float) -> Figure:
    """One metric of all jobs in one chart, aligned on their start."""
    metric = find_metric(key)
    curves = [content.curves[key] for content in contents if key in content.curves]
    peak = max((value for curve in curves for value in curve.known()), default=0)
    scale = scale_of(metric, peak)
    end = max((content.end for content in contents), default=0.0)
    is_few = len(contents) <= FEW_JOBS
    data: list[Json] = []
    starts: list[int | None] = []
    for number, content in enumerate(contents):
        color, dash = series_style(number)
        trace = _line(content.curves[key], scale) if key in content.curves else {"x": [], "y": [], "type": "scatter"}
        template = f"%{{y:{scale.form}}} {scale.unit}"
        trace |= {
            "name": escape(content.label),
            "line": {"color": color, "width": 1.6, "dash": dash},
            "hovertemplate": f"{template}<extra>%{{fullData.name}}</extra>",
        }
        data.append(trace)
        starts.append(None if content.job.start_time is None else _shift(content.job.start_time, zone_seconds))
    shared = _shared_limit(contents, key)
    highest = peak
    if shared is not None:
        value = scale.draw(shared.value)
        data.append(_dashed(escape(shared.text)) | {"x": [_at(0.0), _at(end or 1.0)], "y": [value, value]})
        starts.append(None)
        highest = max(peak, shared.value) if shared.value <= SHOWN_LIMIT * peak else peak
    layout = base_layout(end) | {"hovermode": "x unified" if is_few else "closest", "showlegend": True}
    layout["yaxis"] = _value_axis(TITLES[key], scale, highest * scale.factor, (0.0, 1.0))
    known = [start for start in starts if start is not None]
    filled = [min(known) if start is None else start for start in starts] if known else None
    figure = Figure(data, layout, 560, filled)
    if is_few:
        return with_legend_below(figure)
    layout["legend"] = {"orientation": "v", "x": 1.01, "y": 1, "itemsizing": "constant"}
    return figure


def bars(contents: Sequence[JobContent], key: str) -> Figure:
    """The peak of each job against its mean, and what it asked for."""
    peaks, means = [content.peak(key) for content in contents], [content.mean(key) for content in contents]
    limits = [next(iter(content.limits_of(key)), None) for content in contents]
    top = max((value for value in (*peaks, *means) if value is not None), default=0)
    shown = [line for line in limits if line is not None and line.value <= SHOWN_LIMIT * top]
    scale = scale_of(find_metric(key), max([top, *(line.value for line in shown)]))
    positions = list(range(len(contents)))
    color = series_style(0 if key == CPU else 1)[0]
    names = [escape(content.label) for content in contents]
    hover = f"%{{x:{scale.form}}} {scale.unit}"
    data: list[Json] = [
        {
            "type": "bar",
            "orientation": "h",
            "name": name,
            "x": [scale.draw(value) for value in values],
            "y": positions,
            "text": names,
            "textposition": "none",
            "marker": {"color": shade},
            "hovertemplate": f"%{{text}}: {name.lower()} {hover}<extra></extra>",
        }
        for name, values, shade in (("Average", means, f"{color}66"), ("Peak", peaks, color))
    ]
    marked = [
        (place, line) for place, line in zip(positions, limits, strict=True) if line is not None and line in shown
    ]
    data.append(
        {
            "type": "scatter",
            "mode": "markers",
            "name": "asked for, or limit",
            "x": [scale.draw(line.value) for _, line in marked],
            "y": [place for place, _ in marked],
            "text": [escape(line.text) for _, line in marked],
            "marker": {"symbol": "line-ns-open", "size": 20, "color": LIMIT, "line": {"color": LIMIT, "width": 2.5}},
            "hovertemplate": "%{text}<extra></extra>",
        }
    )
    layout = base_layout(None) | {"barmode": "group", "bargap": 0.25, "showlegend": True, "hovermode": "closest"}
    layout["xaxis"] = _value_axis("", scale, 0, None) | {"rangemode": "tozero", "automargin": True}
    labels = {"tickvals": positions, "ticktext": names}
    layout["yaxis"] = labels | {"autorange": "reversed", "automargin": True, "gridcolor": "#ffffff", "zeroline": False}
    return with_legend_below(Figure(data, layout, 150 + BAR_PIXELS * max(2, len(contents))))


def with_legend_below(figure: Figure) -> Figure:
    """The figure with its legend below the time axis, whatever its height."""
    margin = figure.layout["margin"] = {"l": 64, "r": 20, "t": 24, "b": 80}
    inner = figure.height - margin["t"] - margin["b"]
    figure.layout["legend"] = {"orientation": "h", "x": 0, "xanchor": "left", "y": -36 / inner, "yanchor": "top"}
    return figure


def base_layout(end: float | None) -> Json:
    """What all figures share; with a length, a time axis from 0."""
    layout: Json = {
        "font": {"family": FONT, "size": 13, "color": INK},
        "paper_bgcolor": "#ffffff",
        "plot_bgcolor": "#ffffff",
        "margin": {"l": 64, "r": 20, "t": 24, "b": 40},
        "hoverlabel": {"bgcolor": "#ffffff", "bordercolor": GRID, "font": {"size": 12, "color": INK}},
    }
    if end is not None:
        layout["xaxis"] = {
            "type": "date",
            "gridcolor": GRID,
            "linecolor": GREY,
            "ticks": "outside",
            "tickcolor": GREY,
            "automargin": True,
            "tickformatstops": time_forms(end),
            "hoverformat": "%H:%M:%S" if end < DAY_SECONDS else "day %-j, %H:%M:%S",
        }
    return layout


def time_forms(end: float) -> list[Json]:
    """The forms of times since the start for steps of any size; from a day on with the number of the day."""
    day = "" if end < DAY_SECONDS else "day %-j, "
    steps = ((None, 999, "%M:%S.%L"), (1000, 60_000, "%H:%M:%S"), (60_000, 86_400_000, "%H:%M"))
    forms = [{"dtickrange": [least, most], "value": f"{day}{form}"} for least, most, form in steps]
    return [*forms, {"dtickrange": [86_400_000, None], "value": "day %-j"}]


def _line(curve: Curve, scale: Scale) -> Json:
    is_short = sum(value is not None for value in curve.values) <= FEW_POINTS
    values = [scale.draw(value) for value in curve.values]
    if curve.is_rate and len(values) > 1 and values[0] is None:
        values[0] = values[1]  # a mean since the start
    return {
        "type": "scatter",
        "mode": "lines+markers" if is_short else "lines",
        "marker": {"size": 5},
        "x": [_at(moment) for moment in curve.times],
        "y": values,
    }


def _dashed(text: str) -> Json:
    style = {"color": LIMIT, "width": 1.4, "dash": "dash"}
    return {"type": "scatter", "mode": "lines", "name": text, "line": style, "hoverinfo": "skip"}


def _value_axis(title: str, scale: Scale, highest: float, domain: tuple[float, float] | None) -> Json:
    axis: Json = {"gridcolor": GRID, "zerolinecolor": GREY, "title": {"text": title, "standoff": 8}}
    if scale.unit:
        axis["ticksuffix"] = f" {scale.unit}"
    if domain is not None:
        axis |= {"domain": [round(edge, 4) for edge in domain], "range": [0, HEADROOM * highest or 1]}
    if not scale.unit and highest <= MOST_WHOLE:
        axis["dtick"] = 1 if highest <= MOST_WHOLE / 2 else 2
    return axis | {"automargin": True, "nticks": 6}


def _shared_limit(contents: Sequence[JobContent], key: str) -> LimitLine | None:
    """The limit that all jobs have; None if they differ."""
    limits = {next(iter(content.limits_of(key)), None) for content in contents}
    return limits.pop() if len(limits) == 1 else None


def _outside_text(line: LimitLine, axis: str) -> Json:
    """A note in the corner of a chart about a limit far above it."""
    return {
        "text": f"{escape(line.text)}, above this chart",
        "xref": "paper",
        "x": 1,
        "xanchor": "right",
        "yref": f"{axis} domain",
        "y": 1,
        "yanchor": "bottom",
        "showarrow": False,
        "font": {"size": 11, "color": SECONDARY},
    }


def _mark_trace(marks: Sequence[Mark], axis: str) -> Json:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "Events",
        "yaxis": axis,
        "x": [_at(mark.elapsed) for mark in marks],
        "y": [0.5] * len(marks),
        "text": [escape(mark.text) for mark in marks],
        "hovertemplate": "%{text}<extra></extra>",
        "cliponaxis": False,
        "marker": {
            "size": 10,
            "color": [MARK_COLORS[mark.severity] for mark in marks],
            "symbol": [MARK_SYMBOLS[mark.severity] for mark in marks],
            "line": {"width": 1, "color": "#ffffff"},
        },
    }


def _mark_lines(marks: Sequence[Mark]) -> list[Json]:
    """A vertical line for each bad event and each warning, as far as they are few."""
    severe = [mark for mark in marks if mark.severity in ("bad", "warning")][:MOST_LINES]
    return [
        {
            "type": "line",
            "x0": _at(mark.elapsed),
            "x1": _at(mark.elapsed),
            "yref": "paper",
            "y0": 0,
            "y1": 1 - LANE,
            "layer": "below",
            "line": {"color": MARK_COLORS[mark.severity], "width": 1, "dash": "dot"},
        }
        for mark in severe
    ]


def _axis(number: int) -> str:
    return f"y{number if number > 1 else ''}"


def _at(elapsed: float) -> int:
    """A time since the start on a time axis, in ms."""
    return ORIGIN_MS + round(elapsed * 1000)


def _shift(start_time: float, zone_seconds: float) -> int:
    """The ms to add to times since the start of a job for the time of day where it ran."""
    return round((start_time + zone_seconds) * 1000) - ORIGIN_MS
