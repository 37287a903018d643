"""What forms are made of: a label, an editor, and below it what is wrong with the input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Input, TextArea
from textual.widgets.text_area import Edit, EditResult

from jobtop.tui.actions import TICK, bindings
from jobtop.tui.palette import Tone
from jobtop.tui.widgets.cells import Span, aligned, safe_text
from jobtop.tui.widgets.painting import Inks, Painted
from jobtop.tui.widgets.prose import wrapped

LABEL_CELLS = 12
NARROW = 40  # cells: a narrower field shows its problem below its label too
SIGN = "✗ "


class FormField(Painted):
    """One field: label and problem are painted around the editor, because few widgets open fast."""

    DEFAULT_CSS = """
    FormField {
        layout: vertical;
        height: auto;
        width: 1fr;
        background: $panel;
        Input, TextArea {
            width: 1fr;
            margin-left: 12;
            background: $background;
            color: $foreground;
            &:focus { background: $block-cursor-background; }
        }
        Input > .input--placeholder, Input > .input--suggestion { color: $tone-grey; }
        TextArea { height: auto; max-height: 4; padding: 0; border: none; scrollbar-size-vertical: 1; }
        TextArea .text-area--placeholder { color: $tone-grey; }
    }
    """
    problem: reactive[str] = reactive("", repaint=False)
    note: reactive[str] = reactive("", repaint=False)  # what goes on, shown where there is no problem

    def __init__(self, key: str, title: str, editor: Input | TextArea, classes: str | None = None) -> None:
        super().__init__(id=key, classes=classes)
        self.title, self.editor = title, editor

    def compose(self) -> ComposeResult:
        yield self.editor

    @property
    def value(self) -> str:
        return self.editor.text if isinstance(self.editor, TextArea) else self.editor.value

    @value.setter
    def value(self, text: str) -> None:
        if isinstance(self.editor, TextArea):
            self.editor.text = text
        else:
            self.editor.value = text

    def watch_problem(self) -> None:
        self._make_room()

    def watch_note(self) -> None:
        self._make_room()

    def on_resize(self) -> None:
        self._make_room()

    def on_input_changed(self) -> None:
        self.problem = ""

    def on_text_area_changed(self) -> None:
        self.problem = ""

    def draw(self, inks: Inks, width: int, height: int) -> Sequence[Strip]:
        """The label beside the first line, the problem below the last."""
        if width <= LABEL_CELLS:
            return []
        label = aligned([Span(self.title, Tone.GREY)], width)
        problem = self.problem_lines(width)
        between = [[Span(" " * width)]] * (height - 1 - len(problem))
        return [inks.strip(line, width) for line in (label, *between, *problem)]

    def problem_lines(self, width: int) -> list[list[Span]]:
        """The lines that say what is wrong, or what goes on."""
        if not self.problem and not self.note:
            return []
        left = " " * (0 if width < NARROW else LABEL_CELLS)
        sign, tone = (SIGN, Tone.VERMILION) if self.problem else ("", Tone.GREY)
        parts = wrapped(self.problem or self.note, max(1, width - len(left) - len(sign)))
        signs = [sign, *[" " * len(sign)] * (len(parts) - 1)]
        return [aligned([Span(left), Span(sign + part, tone)], width) for sign, part in zip(signs, parts, strict=True)]

    def _make_room(self) -> None:
        self.editor.styles.margin = (0, 0, len(self.problem_lines(self.size.width)), LABEL_CELLS)
        self.repaint()


class Tick(Painted, can_focus=True):
    """A checkbox: `[x] what it means`. Space or a click switches it."""

    DEFAULT_CSS = """
    Tick {
        height: 1;
        width: 1fr;
        background: $panel;
        padding-left: 12;
        &:focus { background: $block-cursor-background; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(TICK)]
    value: reactive[bool] = reactive(False, repaint=False)

    class Switched(Message):
        """The checkbox was switched on or off."""

    def __init__(self, title: str, id: str, value: bool = False, classes: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes=classes)
        self.title = title
        self.set_reactive(Tick.value, value)

    def watch_value(self) -> None:
        self.post_message(self.Switched())
        self.repaint()

    def draw(self, inks: Inks, width: int, height: int) -> Sequence[Strip]:
        box = Span(f"[{'x' if self.value else ' '}] ", Tone.ORANGE if self.value else Tone.GREY, True)
        return [inks.strip(aligned([box, Span(self.title)], width), width)]

    def action_switch(self) -> None:
        self.value = not self.value

    def on_click(self) -> None:
        self.action_switch()


class LineInput(Input):
    """One line of input; control characters in pasted text are escaped."""

    def __init__(self, value: str = "", placeholder: str = "") -> None:
        super().__init__(value, placeholder=placeholder, compact=True, select_on_focus=False)

    def validate_value(self, value: str) -> str:
        return safe_text(value)


class LinesInput(TextArea):
    """A few lines of input, with control characters escaped; Tab goes to the next field."""

    def __init__(self, placeholder: str = "") -> None:
        super().__init__(compact=True, placeholder=placeholder, highlight_cursor_line=False)

    def edit(self, edit: Edit) -> EditResult:
        edit.text = "\n".join(map(safe_text, edit.text.splitlines())) + ("\n" if edit.text.endswith("\n") else "")
        return super().edit(edit)


def focus_first_problem(form: Widget) -> None:
    for field in form.query(FormField):
        if field.problem:
            field.editor.focus()
            return
