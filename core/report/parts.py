"""Pieces of a report in HTML: cards, lists, tables, charts. Every text is escaped here. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jobtop.core.record import record
from jobtop.core.report.content import ROWS, JobContent, shortened
from jobtop.core.report.look import MARK_COLORS
from jobtop.core.report.page import shown
from jobtop.core.series.svg import COLORS, Chart, Tick, bare_svg

MOST_TICKS = 40
WIDE, NARROW = (1100, 190), (360, 170)  # the sizes of a chart on a screen or paper, and on a phone


@record
class Cell:
    """A cell of a table: its text, the class that colours it, and a file that it links to."""

    text: str
    kind: str = ""
    link: str = ""


def section(title: str, *parts: str) -> str:
    """A section, or nothing if it has no parts."""
    body = "".join(parts)
    return f"<section><h2>{shown(title)}</h2>\n{body}</section>\n" if body else ""


def paragraph(text: str, kind: str = "") -> str:
    return f"<p{attribute(kind)}>{shown(text)}</p>\n" if text else ""


def bullets(lines: Iterable[str]) -> str:
    items = "".join(f"<li>{shown(line)}</li>\n" for line in lines)
    return f"<ul>\n{items}</ul>\n" if items else ""


def cards(values: Iterable[tuple[str, str | None, str]]) -> str:
    """Large numbers with their titles and a line below; those without a value are left out."""
    items = "".join(
        f'<div class="card"><span>{shown(title)}</span><b>{shown(value)}</b><span>{shown(below)}</span></div>\n'
        for title, value, below in values
        if value and value != "–"
    )
    return f'<div class="cards">\n{items}</div>\n' if items else ""


def facts(rows: Iterable[tuple[str, str | None]]) -> str:
    """A table of titles and values; lines of a value stay lines, and rows without a value are left out."""
    items = "".join(
        f"<tr><th>{shown(title)}</th><td>{'<br>'.join(map(shown, value.splitlines()))}</td></tr>\n"
        for title, value in rows
        if value and not value.startswith("– ")
    )
    return f'<table class="facts">\n{items}</table>\n' if items else ""


def table(columns: Sequence[tuple[str, str]], rows: Iterable[Sequence[Cell]]) -> str:
    """A table that scrolls sideways on a phone; a column has a title and a class, such as `number`."""
    head = "".join(f"<th{attribute(kind)}>{shown(title)}</th>" for title, kind in columns)
    body = "".join(
        "<tr>"
        + "".join(
            f"<td{attribute(f'{kind} {cell.kind}'.strip())}>{linked(cell)}</td>"
            for (_, kind), cell in zip(columns, row, strict=True)
        )
        + "</tr>\n"
        for row in rows
    )
    return f'<div class="scroll"><table>\n<tr>{head}</tr>\n{body}</table></div>\n' if body else ""


def linked(cell: Cell) -> str:
    return f'<a href="{shown(cell.link)}">{shown(cell.text)}</a>' if cell.link else shown(cell.text)


def attribute(kind: str) -> str:
    return f' class="{kind}"' if kind else ""


def preformatted(lines: Sequence[str]) -> str:
    text = "\n".join("    ".join(map(shown, line.split("\t"))) for line in lines)
    return f"<pre>{text}</pre>\n" if lines else ""


def job_charts(content: JobContent) -> str:
    """The charts of one job, for wide pages and for phones; those without values are left out."""
    charts = [
        Chart((("", curve),), tuple((line.value, line.text) for line in content.limits_of(key)))
        for key, curve in content.curves.items()
        if curve.known()
    ]
    severe = [mark for mark in content.marks if mark.severity in ("bad", "warning")][:MOST_TICKS]
    ticks = [Tick(mark.elapsed, mark.text, MARK_COLORS[mark.severity]) for mark in severe]
    return both_sizes(charts, content.end, ticks)


def compared_charts(contents: Sequence[JobContent]) -> str:
    """CPU and memory of several jobs in one chart each, aligned on their start."""
    charts = []
    for key in ROWS[:2]:
        curves = [(shortened(content.label, 30), content.curves[key]) for content in contents if key in content.curves]
        charts += [Chart(tuple(curves))] if any(curve.known() for _, curve in curves) else []
    drawn = both_sizes(charts, max((content.end for content in contents), default=0.0), ())
    names = "".join(
        f'<span><i style="background: {COLORS[number % len(COLORS)]}"></i>{shown(content.label)}</span>\n'
        for number, content in enumerate(contents)
    )
    return f'<div class="legend">\n{names}</div>\n{drawn}' if drawn else ""


def both_sizes(charts: Sequence[Chart], end: float, ticks: Sequence[Tick]) -> str:
    if not charts:
        return ""
    return bare_svg(charts, end, ticks, *WIDE, "wide") + bare_svg(charts, end, ticks, *NARROW, "narrow")
