"""The dialog that chooses the columns of a table; the table behind it changes at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType

from jobtop.tui.actions import FORM, bindings
from jobtop.tui.dialogs.dialog import Dialog, KeyButton
from jobtop.tui.dialogs.fields import Tick
from jobtop.tui.widgets.columns import Column


class ChooseColumns(Dialog[None]):
    """The columns that have a title; Space shows or hides one."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings(FORM)]
    DEFAULT_CSS = """
    ChooseColumns {
        #dialog { width: 32; }
        Tick { padding-left: 0; }
    }
    """
    title_words = "Columns"

    def __init__(
        self, every: Sequence[Column[Any]], hidden: frozenset[str], choose: Callable[[frozenset[str]], None]
    ) -> None:
        super().__init__()
        self.every = [column for column in every if column.title]
        self.hidden, self.choose = hidden, choose

    def parts(self) -> ComposeResult:
        for column in self.every:
            title = column.title if len(column.title) > 1 else f"{column.title} {column.key}"
            yield Tick(title, f"column-{column.key}", column.key not in self.hidden)

    def keys(self) -> Iterable[KeyButton]:
        yield KeyButton("form.leave", "Done")

    def on_tick_switched(self) -> None:
        shown = [tick.value for tick in self.query(Tick)]
        self.choose(frozenset(column.key for column, is_shown in zip(self.every, shown, strict=True) if not is_shown))

    def action_submit(self) -> None:
        self.action_leave()
