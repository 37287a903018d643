"""The dialog that asks what to mute, and for how long."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType

from jobtop.core.record import record
from jobtop.tui.actions import MUTE, bindings
from jobtop.tui.dialogs.dialog import Dialog, KeyButton, Text
from jobtop.tui.palette import Tone
from jobtop.tui.widgets.cells import Span
from jobtop.tui.widgets.prose import BLANK, Paragraph

HOUR = 3600.0
SECONDS: dict[str, float | None] = {"hour": HOUR, "hours": 4 * HOUR, "day": 24 * HOUR, "always": None}
MEANING = "Muted alerts are still recorded and listed. They send no messages, run no actions and show no toasts."


@record
class MuteAnswer:
    """What to mute, and for how many seconds; None: until it is unmuted."""

    is_job: bool
    seconds: float | None


class MuteForm(Dialog[MuteAnswer]):
    """Asks whether to mute the rule or the job; with only one of them there is nothing to choose."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings(MUTE)]
    DEFAULT_CSS = "MuteForm #keys { height: auto; layout: grid; grid-size: 3; grid-rows: 1; }"
    title_words = "Mute"

    def __init__(self, rule: str | None, job: str | None) -> None:
        super().__init__()
        self.rule, self.job = rule, job
        self.is_job = rule is None

    def parts(self) -> ComposeResult:
        yield Text(self.lines())

    def lines(self) -> list[Paragraph]:
        """What can be muted, the chosen one with a mark, and what that means."""
        named = [("rule", self.rule, False), ("job", self.job, True)]
        lines = [
            Paragraph(
                name,
                Tone.TEXT if is_job is self.is_job else Tone.GREY,
                [Span("▸ " if is_job is self.is_job else "  ", Tone.ORANGE), Span(f"{noun:<5}", Tone.GREY)],
                bold=is_job is self.is_job,
            )
            for noun, name, is_job in named
            if name is not None
        ]
        return [*lines, BLANK, Paragraph(MEANING, Tone.GREY)]

    def keys(self) -> Iterable[KeyButton]:
        for name in ("hour", "hours", "day", "always"):
            yield KeyButton(f"mute.{name}")
        if self.rule is not None and self.job is not None:
            yield KeyButton("mute.switch")
        yield KeyButton("mute.cancel")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return action != "switch" or (self.rule is not None and self.job is not None)

    def action_switch(self) -> None:
        self.is_job = not self.is_job
        text = self.query_one(Text)
        text.paragraphs = self.lines()
        text.repaint()

    def action_answer(self, name: str) -> None:
        _ = self.dismiss(MuteAnswer(self.is_job, SECONDS[name]))
