"""The dialog that asks what to do with the job that `jobtop run` opened the console for, when the user quits."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType

from jobtop.tui.actions import LEAVING, bindings
from jobtop.tui.data.operations import stop_words
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

    def __init__(self, name: str, grace_seconds: float = 10.0) -> None:
        super().__init__()
        self.job_name, self.grace_seconds = name, grace_seconds

    def parts(self) -> ComposeResult:
        stop = stop_words(self.grace_seconds)
        yield Text(
            [
                Paragraph(fitted(self.job_name, NAME_CELLS).rstrip(), Tone.TEXT, bold=True),
                BLANK,
                Paragraph("Detach: the job keeps running. Type `jobtop` to see it again.", Tone.GREY),
                BLANK,
                Paragraph(f"Stop: {stop[0].lower()}{stop[1:]}", Tone.GREY),
            ]
        )

    def keys(self) -> Iterable[KeyButton]:
        yield KeyButton("leaving.detach")
        yield KeyButton("leaving.stop", tone=Tone.VERMILION)
        yield KeyButton("leaving.stay")

    def action_answer(self, answer: str) -> None:
        _ = self.dismiss(answer)
