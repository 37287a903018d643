"""The dialog that asks whether to run jobs again as they were, now or in the queue."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType

from jobtop.tui.actions import AGAIN, bindings
from jobtop.tui.dialogs.dialog import Dialog, KeyButton, Text
from jobtop.tui.palette import Tone
from jobtop.tui.widgets.prose import BLANK, Paragraph

NOW, QUEUE = "now", "queue"
MEANING = "Same command, directory, environment and limits."


class RunAgain(Dialog[str]):
    """Asks whether to start the jobs now, to queue them, or to do nothing."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings(AGAIN)]

    def __init__(self, count: int, names: Sequence[Paragraph]) -> None:
        super().__init__()
        self.title_words = f"Run {'this job' if count == 1 else f'{count} jobs'} again?"
        self.names = names

    def parts(self) -> ComposeResult:
        yield Text([*self.names, BLANK, Paragraph(MEANING, Tone.GREY)])

    def keys(self) -> Iterable[KeyButton]:
        yield KeyButton("again.now")
        yield KeyButton("again.queue")
        yield KeyButton("again.cancel")

    def action_answer(self, answer: str) -> None:
        _ = self.dismiss(answer)
