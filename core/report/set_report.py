"""The report of a set of jobs: how they ended, what they cost together, what limited them, what to change. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from jobtop.core.analysis.ending import LineKind, needs_explanation
from jobtop.core.analysis.over_use import MEMORY as MEMORY_USE
from jobtop.core.analysis.over_use import RUNTIME, Use, uses
from jobtop.core.clock import local
from jobtop.core.model import Status
from jobtop.core.report.content import CPU, MEMORY, JobContent, shortened
from jobtop.core.report.gantt import MOST_BARS, gantt
from jobtop.core.report.job_report import (
    change_lines,
    ending_output,
    lines_of,
    status_kind,
    status_line,
)
from jobtop.core.report.page import shown
from jobtop.core.report.parts import Cell, bullets, cards, compared_charts, job_charts, paragraph, section, table
from jobtop.core.text.cost_text import co2_text, energy_text, money_text
from jobtop.core.text.limit_text import limit_of
from jobtop.core.text.usage_text import GLYPHS
from jobtop.core.units import ABSENT, format_bytes, format_duration, format_percent, number_of

MOST_COMPARED = 6  # jobs in one chart
MOST_DETAILED = 20  # jobs that ended badly, and jobs with advice
MOST_CHARTED = 6  # jobs with charts of their own
MOST_LISTED = 500


def set_sections(contents: Sequence[JobContent], files: Mapping[str, str]) -> str:
    """All sections about several jobs; `files` has the page of each job by its id, if it has one."""
    return (
        paragraph(how_they_ended(contents))
        + set_cards(contents)
        + section("How they ended", bad_ends(contents, files))
        + section("What limited them", limited(contents))
        + section("What to change", requests(contents, files), changes(contents, files) or nothing(contents))
        + section("When they ran", gantt(contents), more_bars(contents))
        + section("Over time", charts(contents))
        + section("All jobs", job_table(contents, files))
    )


def how_they_ended(contents: Sequence[JobContent]) -> str:
    counts = Counter(content.job.status for content in contents)
    parts = [f"{GLYPHS[status]} {count} {status}" for status, count in counts.most_common()]
    starts = [content.job.start_time for content in contents if content.job.start_time is not None]
    since = f"; the first started {local(min(starts))}" if starts else ""
    return f"{number_of(len(contents), 'job')}: {', '.join(parts)}{since}"


def makespan(contents: Sequence[JobContent]) -> float | None:
    """From the first start to the last end, in seconds."""
    spans = [
        (content.job.start_time, content.job.start_time + content.end)
        for content in contents
        if content.job.start_time is not None
    ]
    return max(end for _, end in spans) - min(start for start, _ in spans) if spans else None


def total(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def set_cards(contents: Sequence[JobContent]) -> str:
    """What the jobs cost together; a sum of what only some jobs know says so."""
    span, busy = makespan(contents), total(content.end for content in contents)
    at_once = f"{busy / span:.1f} jobs at once, on average" if span and busy and len(contents) > 1 else ""
    cpu = total(content.job.usage.cpu_total_seconds for content in contents)
    peaks = [(peak, content) for content in contents if (peak := content.peak(MEMORY)) is not None]
    largest = max(peaks, key=lambda pair: pair[0], default=None)
    joules = total(content.cost.joules for content in contents)
    money = total(content.cost.money for content in contents)
    estimate = any(content.cost.is_estimate for content in contents)
    grams = co2_text(total(content.cost.co2_grams for content in contents), estimate)
    some = _known_of(contents, [content.cost.joules for content in contents])
    currency = next((content.cost.currency for content in contents if content.cost.money is not None), "")
    return cards(
        (
            ("From start to end", None if span is None else format_duration(span), at_once),
            ("CPU time", format_duration(cpu), _known_of(contents, [c.job.usage.cpu_total_seconds for c in contents])),
            (
                "Largest memory peak",
                format_bytes(largest[0]) if largest else None,
                shortened(largest[1].label, 28) if largest else "",
            ),
            (
                "Energy",
                energy_text(joules, estimate),
                ", ".join(filter(None, ("" if grams == ABSENT else grams, some))),
            ),
            (
                "Cost",
                money_text(money, currency, any(content.cost.is_money_estimate for content in contents)),
                _known_of(contents, [content.cost.money for content in contents]),
            ),
        )
    )


def _known_of(contents: Sequence[JobContent], values: Sequence[float | None]) -> str:
    known = sum(value is not None for value in values)
    return "" if known in (0, len(contents)) else f"of {known} of {len(contents)} jobs"


def bad_ends(contents: Sequence[JobContent], files: Mapping[str, str]) -> str:
    """Each job that ended badly with its reason, evidence and last output."""
    bad = [content for content in contents if needs_explanation(content.job)]
    parts = [
        job_heading(content, files)
        + paragraph(status_line(content), status_kind(content.job))
        + bullets(lines_of(content, LineKind.EVIDENCE))
        + ending_output(content)
        for content in bad[:MOST_DETAILED]
    ]
    more = len(bad) - MOST_DETAILED
    return "".join(parts) + paragraph(f"… and {more} more; the table below has all" if more > 0 else "")


def job_heading(content: JobContent, files: Mapping[str, str]) -> str:
    name, file = shown(content.label), files.get(content.job.id)
    return f'<h3><a href="{shown(file)}">{name}</a></h3>\n' if file else f"<h3>{name}</h3>\n"


def limited(contents: Sequence[JobContent]) -> str:
    counts = Counter(str(limit) for content in contents if (limit := limit_of(content.job)) is not None)
    lines = [f"{word}: {number_of(count, 'job')}" for word, count in counts.most_common()]
    unknown = len(contents) - sum(counts.values())
    return bullets([*lines, f"not known: {number_of(unknown, 'job')}"] if lines and unknown else lines)


def requests(contents: Sequence[JobContent], files: Mapping[str, str]) -> str:
    """What jobs used of what they asked for, as `jobtop check --all` lists it; first what is most over."""
    found = [(content, use) for content in contents if content.job.status.ended for use in uses(content.job)]
    found.sort(key=lambda pair: -pair[1].over_percent)
    rows = [
        (
            Cell(content.label, link=files.get(content.job.id, "")),
            Cell(use.resource),
            Cell(amount_text(use, use.asked)),
            Cell(amount_text(use, use.used)),
            Cell(use.over_text, "bad" if use.over_percent > 1 else ""),
        )
        for content, use in found[:MOST_LISTED]
    ]
    titles = (("Job", ""), ("Resource", ""), ("Asked for", "number"), ("Peak", "number"), ("Over", "number"))
    return table(titles, rows)


def amount_text(use: Use, amount: float) -> str:
    if use.resource == MEMORY_USE:
        return format_bytes(amount)
    return format_duration(amount) if use.resource == RUNTIME else f"{amount:.2f}".rstrip("0").rstrip(".") + " CPUs"


def changes(contents: Sequence[JobContent], files: Mapping[str, str]) -> str:
    """The advice about each job; jobs that ended badly come first."""
    ordered = sorted(contents, key=lambda content: content.job.status is Status.SUCCESS)
    advised = [(content, lines) for content in ordered if (lines := change_lines(content))]
    parts = [job_heading(content, files) + bullets(lines) for content, lines in advised[:MOST_DETAILED]]
    more = len(advised) - MOST_DETAILED
    return "".join(parts) + paragraph(f"… and advice about {more} more jobs: jobtop show ID" if more > 0 else "")


def nothing(contents: Sequence[JobContent]) -> str:
    has_table = any(content.job.status.ended and uses(content.job) for content in contents)
    return "" if has_table else paragraph("Nothing that is known.")


def more_bars(contents: Sequence[JobContent]) -> str:
    more = len(contents) - MOST_BARS
    return paragraph(f"The first {MOST_BARS} of {len(contents)} jobs." if more > 0 else "", "hint")


def charts(contents: Sequence[JobContent]) -> str:
    """A chart of all jobs if they are few, and charts of their own for jobs that ended badly, or for all if few."""
    few = list(contents) if len(contents) <= MOST_CHARTED else []
    chosen = few or [content for content in contents if needs_explanation(content.job)][:MOST_CHARTED]
    compared = compared_charts(contents) if len(contents) <= MOST_COMPARED else ""
    own = "".join(f"<h3>{shown(content.label)}</h3>\n{drawn}" for content in chosen if (drawn := job_charts(content)))
    return compared + own


def job_table(contents: Sequence[JobContent], files: Mapping[str, str]) -> str:
    titles = (
        ("Job", ""),
        ("Status", "word"),
        ("Time", "number"),
        ("CPU time", "number"),
        ("CPU peak", "number"),
        ("Memory peak", "number"),
        ("Limited by", "word"),
    )
    rows = [
        (
            Cell(content.label, link=files.get(content.job.id, "")),
            Cell(f"{GLYPHS[content.job.status]} {content.job.status}", status_kind(content.job)),
            Cell(format_duration(content.end) if content.end else ABSENT),
            Cell(format_duration(content.job.usage.cpu_total_seconds)),
            Cell(ABSENT if (peak := content.peak(CPU)) is None else format_percent(peak / 100)),
            Cell(format_bytes(content.peak(MEMORY))),
            Cell(str(limit_of(content.job) or ABSENT)),
        )
        for content in contents[:MOST_LISTED]
    ]
    more = len(contents) - len(rows)
    return table(titles, rows) + paragraph(f"… and {more} more: jobtop history" if more > 0 else "")
