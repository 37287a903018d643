"""When each of several jobs ran, as bars below each other, in SVG without a library. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jobtop.core.report.content import JobContent, shortened
from jobtop.core.report.job_report import status_kind
from jobtop.core.report.look import GRID, INK, MARK_COLORS, SECONDARY
from jobtop.core.series.drawing import time_marks
from jobtop.core.series.svg import escaped, opening, time_label
from jobtop.core.units import format_duration

MOST_BARS = 60
ROW, TOP = 20, 22
SIZES = (("wide", 1100, 250, 32), ("narrow", 360, 110, 14))  # the width, the space for names, their characters
COLORS = MARK_COLORS | {"good": "#0072B2"}


def gantt(contents: Sequence[JobContent]) -> str:
    """The jobs in order of their start, for wide pages and for phones; empty if fewer than two have started."""
    started = [content for content in contents if content.job.start_time is not None]
    if len(started) < 2:
        return ""
    rows = sorted(started, key=_start)[:MOST_BARS]
    return "".join("\n".join(bars(rows, *size)) + "\n" for size in SIZES)


def bars(rows: Sequence[JobContent], kind: str, width: int, left: int, characters: int) -> Iterator[str]:
    begin = min(map(_start, rows))
    end = max(_start(content) + content.end for content in rows) - begin or 1.0
    span, bottom = width - left - 60, TOP + ROW * len(rows)
    yield opening(width, bottom + 8, f'class="chart {kind}" role="img" aria-label="when each job ran"')
    for mark in time_marks(end, 8 if kind == "wide" else 3):
        x = left + span * mark / end
        yield f'<path d="M{x:.1f} {TOP - 4}V{bottom}" stroke="{GRID}"/>'
        yield f'<text x="{x:.1f}" y="12" text-anchor="middle" fill="{SECONDARY}">{escaped(time_label(mark))}</text>'
    for number, content in enumerate(rows):
        y, x = TOP + ROW * number, left + span * (_start(content) - begin) / end
        length = max(2.0, span * content.end / end)
        name, color = escaped(shortened(content.label, characters)), COLORS[status_kind(content.job)]
        yield f'<text x="{left - 8}" y="{y + 13}" text-anchor="end" fill="{INK}">{name}</text>'
        yield f'<rect x="{x:.1f}" y="{y + 3}" width="{length:.1f}" height="{ROW - 7}" rx="2" fill="{color}"/>'
        text = escaped(format_duration(content.end))
        yield f'<text x="{x + length + 5:.1f}" y="{y + 13}" fill="{SECONDARY}">{text}</text>'
    yield "</svg>"


def _start(content: JobContent) -> float:
    return content.job.start_time or 0.0
