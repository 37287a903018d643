"""The dialog that asks before an operation that cannot be undone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType

from jobtop.tui.actions import CONFIRM, bindings
from jobtop.tui.dialogs.dialog import Dialog, KeyButton, Text
from jobtop.tui.palette import Tone
from jobtop.tui.widgets.prose import Paragraph


class Confirm(Dialog[bool]):
    """A question. Only its keys and its button mean yes; closing it in any other way means no."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings(CONFIRM)]

    def __init__(self, title: str, text: Sequence[Paragraph], yes: str = "Yes", no: str = "No") -> None:
        super().__init__()
        self.title_words, self.text, self.yes, self.no = title, text, yes, no

    def parts(self) -> ComposeResult:
        yield Text(self.text)

    def keys(self) -> Iterable[KeyButton]:
        yield KeyButton("confirm.yes", self.yes, Tone.VERMILION)
        yield KeyButton("confirm.no", self.no)

    def action_answer(self, answer: bool) -> None:
        _ = self.dismiss(answer)

    def action_leave(self) -> None:
        self.action_answer(False)
