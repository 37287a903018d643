"""The dialog that asks what to do with the job that `jobtop run` opened the console for, when the user quits."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType

from jobtop.tui.actions import LEAVING, bindings
from jobtop.tui.dialogs.dialog import Dialog, KeyButton, Text
from jobtop.tui.palette import Tone
from jobtop.tui.widgets.cells import fitted
from jobtop.tui.widgets.prose import BLANK, Paragraph

DETACH, STOP = "detach", "stop"
NAME_CELLS = 40


class Leaving(Dialog[str]):
    """Asks whether to detach, stop, or stay."""

    title_words = "Leave the job running?"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(LEAVING)]

    def __init__(self, name: str) -> None:
        super().__init__()
        self.job_name = name

    def parts(self) -> ComposeResult:
        yield Text(
            [
                Paragraph(fitted(self.job_name, NAME_CELLS).rstrip(), Tone.TEXT, bold=True),
                BLANK,
                Paragraph("Detached, it goes on; the console and the history have it.", Tone.GREY),
                Paragraph("Stopped, all its processes get TERM, and KILL after its grace.", Tone.GREY),
            ]
        )

    def keys(self) -> Iterable[KeyButton]:
        yield KeyButton("leaving.detach")
        yield KeyButton("leaving.stop", tone=Tone.VERMILION)
        yield KeyButton("leaving.stay")

    def action_answer(self, answer: str) -> None:
        _ = self.dismiss(answer)
