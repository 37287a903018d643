"""Why a job ended, above everything else where it ended badly."""

from __future__ import annotations

from collections.abc import Sequence

from jobtop.core.analysis.ending import Kind, Line
from jobtop.tui.cells import Span
from jobtop.tui.palette import Tone
from jobtop.tui.prose import Paragraph, Prose

LABELS = {
    Kind.VERDICT: (),
    Kind.EVIDENCE: (Span("· ", Tone.GREY),),
    Kind.ADVICE: (Span("▸ ", Tone.ORANGE),),
    Kind.WORDS: (Span("│ ", Tone.FAINT),),
}
TONES = {Kind.VERDICT: Tone.VERMILION, Kind.EVIDENCE: Tone.TEXT, Kind.ADVICE: Tone.ORANGE, Kind.WORDS: Tone.GREY}


LONGEST = 1000  # characters of a line


class Why(Prose):
    """The explanation; where there is little room, with fewer of the last words."""

    DEFAULT_CSS = """
    Why { border: round $error; &:focus { border: round $border; } }
    """

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.explanation: Sequence[Line] = ()

    def fit(self, width: int, rows: int) -> int:
        """Say as much as goes into so many rows; how many that are."""
        told = [line for line in self.explanation if line.kind is not Kind.WORDS]
        words = [line for line in self.explanation if line.kind is Kind.WORDS]
        needed = sum(1 for line in paragraphs(told) for _ in line.lines(width))
        left = max(1, rows - needed)
        self.text = paragraphs([*told, *words[-left:]])
        return min(rows, needed + len(words[-left:]))


def paragraphs(lines: Sequence[Line]) -> list[Paragraph]:
    """The lines as they are shown: the verdict bold, the job's own last words apart."""
    return [
        Paragraph(line.text[:LONGEST], TONES[line.kind], LABELS[line.kind], line.kind is Kind.VERDICT) for line in lines
    ]
