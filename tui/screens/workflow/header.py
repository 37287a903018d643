"""The lines above the panes of a run: its state, how far it is, and its critical path, each cut by priority."""

from __future__ import annotations

from collections.abc import Sequence

from textual.reactive import reactive
from textual.strip import Strip

from jobtop.core.clock import local
from jobtop.core.record import record
from jobtop.core.text.workflow_text import path_words
from jobtop.core.units import number_of
from jobtop.core.workflow.progress import RunSummary
from jobtop.tui.data.workflow_reading import RunView
from jobtop.tui.palette import CRITICAL, STATUS_GLYPHS, Tone
from jobtop.tui.screens.job.header import Piece, fitting, grey, labelled, shortened
from jobtop.tui.widgets.cells import Span, aligned, bar, short_duration
from jobtop.tui.widgets.painting import Inks, Painted

BAR_CELLS = 24


@record
class RunHeaderView:
    """What the header shows; `problem` says why nothing new is read."""

    view: RunView | None = None
    summary: RunSummary | None = None
    problem: str | None = None


class RunHeader(Painted):
    """Up to three lines, as many as fit."""

    DEFAULT_CSS = "RunHeader { height: 3; padding: 0 1; background: $background; }"
    view: reactive[RunHeaderView] = reactive(RunHeaderView, repaint=False, always_update=True)

    def watch_view(self) -> None:
        self.repaint()

    def draw(self, inks: Inks, width: int, height: int) -> Sequence[Strip]:
        return [inks.strip(aligned(fitting(line, width), width), width) for line in header_lines(self.view)]


def header_lines(shown: RunHeaderView) -> list[list[Piece]]:
    """The lines, the most important first."""
    if shown.view is None or shown.summary is None:
        return [[Piece(0, [Span(shown.problem or "reading …", Tone.GREY)])]]
    return [
        identity(shown.view, shown.summary, shown.problem),
        progress(shown.view, shown.summary),
        path(shown.summary),
    ]


def identity(view: RunView, summary: RunSummary, problem: str | None) -> list[Piece]:
    glyph, tone = STATUS_GLYPHS[str(summary.status)]
    run = f"{view.run.run_id} of {len(view.runs)}" if len(view.runs) > 1 else str(view.run.run_id)
    return [
        Piece(0, [Span(f"{glyph} {summary.status}", tone, True)]),
        Piece(0, [Span(shortened(view.workflow.name), Tone.TEXT, True)]),
        Piece(1, labelled("workflow", str(view.workflow.id))),
        Piece(1, labelled("run", run)),
        Piece(2, [Span(problem, Tone.YELLOW)] if problem else []),
        Piece(3, labelled("submitted", local(view.run.at))),
        Piece(5, labelled("by", shortened(view.workflow.user))),
        Piece(4, grey(shortened(view.workflow.file))),
    ]


def progress(view: RunView, summary: RunSummary) -> list[Piece]:
    """How much is done, how long it took, and how many jobs ran at the same time."""
    percent = 100 * summary.done / summary.total if summary.total else 0.0
    tone = STATUS_GLYPHS[str(summary.status)][1]
    done = [Span(f"{summary.done}", Tone.TEXT, True), Span(f" of {number_of(summary.total, 'job')}", Tone.GREY)]
    kept = [Span(f"{summary.kept} kept", Tone.GREY)] if summary.kept else []
    limit = view.run.settings.get("parallel")
    faster = "" if summary.speed_up is None else f"{summary.speed_up:.1f}×"
    return [
        Piece(5, list(bar(percent, BAR_CELLS, tone))),
        Piece(0, done),
        Piece(1, counts(summary)),
        Piece(6, kept),
        Piece(0, labelled("time", short_duration(summary.elapsed_seconds))),
        Piece(3, labelled("of jobs", short_duration(summary.busy_seconds)) if summary.busy_seconds else []),
        Piece(2, labelled("speed-up", faster) if faster else []),
        Piece(4, labelled("at once", f"at most {limit}") if type(limit) is int else []),
    ]


def counts(summary: RunSummary) -> list[Span]:
    """`● 3  ◌ 4  ✗ 1`: the jobs by state, without those that succeeded."""
    spans: list[Span] = []
    for status, (glyph, tone) in STATUS_GLYPHS.items():
        count = summary.counts.get(status, 0)
        if count and status != "success":
            spans += [Span("  ")] if spans else []
            spans += [Span(f"{glyph} ", tone), Span(f"{count} {status}")]
    return spans


def path(summary: RunSummary) -> list[Piece]:
    if not summary.critical_path:
        return [Piece(0, grey("no job has started yet"))]
    return [
        Piece(
            0, [Span(f"{CRITICAL} ", Tone.ORANGE), *labelled("critical path", short_duration(summary.critical_seconds))]
        ),
        Piece(0, [Span(path_words(summary.critical_path), Tone.TEXT)]),
    ]
