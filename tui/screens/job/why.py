"""Why a job ended badly, or what a queued job waits for; shown above the other panes."""

from __future__ import annotations

from collections.abc import Sequence

from jobtop.core.analysis.ending import EndingLine, LineKind
from jobtop.core.model import Job, Status
from jobtop.core.text.job_text import queue_parts
from jobtop.tui.palette import Tone
from jobtop.tui.widgets.cells import Span
from jobtop.tui.widgets.prose import Paragraph, Prose

LABELS = {
    LineKind.VERDICT: (),
    LineKind.EVIDENCE: (Span("· ", Tone.GREY),),
    LineKind.ADVICE: (Span("▸ ", Tone.ORANGE),),
    LineKind.OUTPUT: (Span("│ ", Tone.FAINT),),
}
TONES = {LineKind.EVIDENCE: Tone.TEXT, LineKind.ADVICE: Tone.ORANGE, LineKind.OUTPUT: Tone.GREY}


LONGEST = 1000  # characters of a line


class Why(Prose):
    """The explanation; if there is little room, with fewer of the job's last lines of output."""

    DEFAULT_CSS = """
    Why {
        border: round $error;
        &.-waits { border: round $border-blurred; }
        &:focus { border: round $border; }
    }
    """

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.explanation: Sequence[EndingLine] = ()
        self.is_about_waiting = False

    def explain(self, lines: Sequence[EndingLine], is_about_waiting: bool) -> None:
        """Show another explanation; that a job waits is not shown as an error."""
        self.explanation, self.is_about_waiting = lines, is_about_waiting
        self.set_class(is_about_waiting, "-waits")
        title = Span("Why it waits", bold=True) if is_about_waiting else Span("Why it ended", Tone.VERMILION, True)
        self.set_title([title])

    def fit(self, width: int, rows: int) -> int:
        """Show as much as fits into `rows` rows; return how many rows that takes."""
        explanation = [line for line in self.explanation if line.kind is not LineKind.OUTPUT]
        words = [line for line in self.explanation if line.kind is LineKind.OUTPUT]
        needed = sum(1 for line in paragraphs(explanation) for _ in line.lines(width))
        left = max(1, rows - needed)
        self.text = paragraphs([*explanation, *words[-left:]], Tone.TEXT if self.is_about_waiting else Tone.VERMILION)
        return min(rows, needed + len(words[-left:]))


def waiting(job: Job, why: str | None, has_agent: bool | None) -> list[EndingLine]:
    """What a queued job waits for, and what to do if no agent will start it; empty for other jobs."""
    if job.status is not Status.QUEUED:
        return []
    lines = [EndingLine(LineKind.VERDICT, why or "It waits for its turn")]
    if words := queue_parts(job):
        lines.append(EndingLine(LineKind.EVIDENCE, " · ".join(words)))
    if has_agent is False:
        lines.append(EndingLine(LineKind.ADVICE, "No agent runs to start it: jobtop agent start"))
    return lines


def paragraphs(lines: Sequence[EndingLine], verdict: Tone = Tone.VERMILION) -> list[Paragraph]:
    """The lines as paragraphs: the verdict bold, the job's own output apart."""
    tones = TONES | {LineKind.VERDICT: verdict}
    return [
        Paragraph(line.text[:LONGEST], tones[line.kind], LABELS[line.kind], line.kind is LineKind.VERDICT)
        for line in lines
    ]
