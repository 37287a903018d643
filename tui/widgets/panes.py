"""Screens with several panes: side by side if there is room, else the focused one and the titles of the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Generic, TypeVar

from textual.app import ComposeResult
from textual.containers import Container
from textual.widget import Widget

from jobtop.tui.page import Page
from jobtop.tui.widgets.columns import Column
from jobtop.tui.widgets.table import Table

Row = TypeVar("Row")
WIDE = 110
PANE = "pane"


class PlainTable(Table[Row], Generic[Row]):
    """A table to be read: rows cannot be marked or sorted, and only some can be opened."""

    def __init__(
        self,
        columns: Sequence[Column[Row]],
        *,
        empty: str = "",
        id: str | None = None,  # noqa: A002
        opens: bool = False,
    ) -> None:
        super().__init__(columns, empty=empty, id=id, classes=PANE)
        self._without = {"mark", "sort", "reverse", *(() if opens else ("activate",))}

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return action not in self._without


class PanedPage(Page):
    """A page with panes, which have the class `PANE`; a narrow screen shows one of them."""

    first_pane: ClassVar[str]
    DEFAULT_CSS = """
    PanedPage {
        #panes { height: 1fr; layout: grid; }
        &.-narrow {
            #panes { layout: vertical; }
            .pane { height: 1; border: none; border-top: round $border-blurred; padding: 0 1; }
            .pane.-ascii { border: none; border-top: ascii $border-blurred; }
            .pane.-open { height: 1fr; border: round $border-blurred; padding: 0; }
            Prose.pane.-open { padding: 0 1; }
            .pane.-open:focus { border: round $border; }
            .pane.-open.-ascii { border: ascii $border-blurred; }
            .pane.-open.-ascii:focus { border: ascii $border; }
        }
    }
    """

    def panes(self) -> ComposeResult:
        with Container(id="panes"):
            yield from self.parts()

    def parts(self) -> ComposeResult:
        """The panes."""
        raise NotImplementedError

    def on_mount(self) -> None:
        self.query_one(f"#{self.first_pane}").focus()

    def on_resize(self) -> None:
        self.set_class(self.size.width < WIDE, "-narrow")

    def on_descendant_focus(self) -> None:
        """Open the pane that has the focus; it stays open until another pane is focused."""
        focused = self.focused
        if focused is not None and focused.has_class(PANE):
            pane: Widget
            for pane in self.query(f".{PANE}"):
                pane.set_class(pane is focused, "-open")
