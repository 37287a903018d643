"""A line in which the user types words or an expression; it is open only while it is used or holds text."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input, Static

from jobtop.tui.actions import LINE, bindings
from jobtop.tui.widgets.cells import Span, safe_text


class LineField(Widget):
    """A sign, a text field, and what is wrong with the text. Its owner applies the text while it is typed."""

    DEFAULT_CSS = """
    LineField {
        height: 1;
        display: none;
        &.-open { display: block; }
        Horizontal { height: 1; }
        .sign { width: 3; color: $tone-orange; text-style: bold; background: $panel; }
        .problem { width: auto; max-width: 70%; color: $tone-vermilion; background: $panel; }
        .problem { text-wrap: nowrap; text-overflow: ellipsis; }
        Input, Input:focus { width: 1fr; height: 1; border: none; padding: 0; background: $panel; }
    }
    """

    class Changed(Message):
        """The text is another one; `is_final` if Enter or Esc ended typing."""

        def __init__(self, field: LineField, text: str, is_final: bool) -> None:
            super().__init__()
            self.field, self.text, self.is_final = field, text, is_final

        @property
        def control(self) -> LineField:
            return self.field

    def __init__(
        self,
        sign: str,
        placeholder: str,
        check: Callable[[str], str | None] = lambda _: None,
        *,
        id: str | None = None,  # noqa: A002
    ) -> None:
        """`check` says what is wrong with a text; such a text is not applied."""
        super().__init__(id=id)
        self._sign, self._placeholder, self._check = sign, placeholder, check

    def compose(self) -> ComposeResult:
        with Horizontal():
            yield Static(f" {self._sign} ", classes="sign", markup=False)
            yield Line(placeholder=self._placeholder, select_on_focus=False)
            yield Static("", classes="problem", markup=False)

    @property
    def text(self) -> str:
        return self.query_one(Line).value.strip()

    def edit(self, text: str | None = None) -> None:
        """Open the field and start editing."""
        self.add_class("-open")
        line = self.query_one(Line)
        if text is not None:
            line.value = text
        line.cursor_position = len(line.value)
        line.focus()

    def clear(self) -> None:
        """Close the field, without text."""
        self.query_one(Line).value = ""
        self.remove_class("-open")
        self.post_message(self.Changed(self, "", is_final=True))

    def on_input_changed(self, message: Input.Changed) -> None:
        message.stop()
        self._apply(is_final=False)

    def _apply(self, is_final: bool) -> None:
        text = self.text
        problem = self._check(text) if text else None
        self.query_one(".problem", Static).update(Span(f" {safe_text(problem)} ").text if problem else "")
        if problem is None:
            if is_final:
                self.set_class(bool(text), "-open")
            self.post_message(self.Changed(self, text, is_final))


class Line(Input):
    """The text field itself."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings(LINE)]

    def validate_value(self, value: str) -> str:
        """Escape the control characters in pasted text."""
        return safe_text(value)

    @property
    def field(self) -> LineField:
        return next(node for node in self.ancestors if isinstance(node, LineField))

    def action_apply(self) -> None:
        self.field._apply(is_final=True)

    def action_leave(self) -> None:
        self.field.clear()
