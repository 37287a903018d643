"""A table of any number of rows that draws the visible ones. Its owner sorts and filters the rows."""

import time
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import ClassVar, Generic, TypeVar

from rich.cells import cell_len
from textual import events
from textual.binding import BindingType
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

from jobtop.tui.actions import TABLE, bindings
from jobtop.tui.data.rows import RowSource
from jobtop.tui.palette import CURSOR, MARK, Ground, Tone
from jobtop.tui.widgets.cells import Span, fitted
from jobtop.tui.widgets.columns import GAP, Column, PlacedColumn, Sort, header_line, placed, row_line
from jobtop.tui.widgets.painting import FRAME, Inks, Painted
from jobtop.tui.widgets.prose import wrapped

Row = TypeVar("Row")
GUTTER = 2  # for the cursor and the mark
HEADER = 1
HOLD_SECONDS = 2.0


class TableMessage(Message):
    """A message from a table to its owner."""

    def __init__(self, table: Widget) -> None:
        super().__init__()
        self.table = table

    @property
    def control(self) -> Widget:
        return self.table


class Table(ScrollView, Painted, Generic[Row], inherit_bindings=False):
    """Rows in columns, with marks and a cursor that stays on its row when the order changes."""

    DEFAULT_CSS = f"Table {{ scrollbar-size-vertical: 1; overflow-x: hidden; {FRAME} }}"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(TABLE)]

    source: reactive[RowSource[Row] | None] = reactive(None, repaint=False, always_update=True)
    columns: reactive[Sequence[Column[Row]]] = reactive((), repaint=False)
    sort: reactive[Sort | None] = reactive(None, repaint=False)
    empty: reactive[str] = reactive("", repaint=False)

    class Selected(TableMessage):
        """The cursor is on another row, or on none."""

        def __init__(self, table: Widget, key: Hashable | None) -> None:
            super().__init__(table)
            self.key = key

    class Activated(TableMessage):
        """The user wants to open a row, by Enter or a double click."""

        def __init__(self, table: Widget, key: Hashable) -> None:
            super().__init__(table)
            self.key = key

    class MarksChanged(TableMessage):
        """The set of marked rows has changed."""

        def __init__(self, table: Widget, marks: frozenset[Hashable]) -> None:
            super().__init__(table)
            self.marks = marks

    class SortRequested(TableMessage):
        """The user wants another order, by a key or a click on a title; the owner sorts and sets `sort`."""

        def __init__(self, table: Widget, sort: Sort) -> None:
            super().__init__(table)
            self.sort = sort

    def __init__(
        self,
        columns: Sequence[Column[Row]],
        *,
        empty: str = "",
        clock: Callable[[], float] = time.monotonic,
        id: str | None = None,  # noqa: A002
        classes: str | None = None,
    ) -> None:
        super().__init__(id=id, classes=classes)
        self._clock = clock
        self._cursor = 0
        self._cursor_key: Hashable | None = None
        self._is_placed = False  # whether the user has moved the cursor
        self._moved_at: float | None = None
        self._hover: int | None = None
        self._marks: frozenset[Hashable] = frozenset()
        self._cache: dict[Hashable, tuple[Row, Ground, bool, Strip]] = {}
        self._cached_for: tuple[Inks, int, Sequence[Column[Row]]] | None = None
        self._places: list[PlacedColumn[Row]] = []
        self._asked: tuple[range, Sequence[Row]] = (range(0), ())
        self.columns = columns
        self.empty = empty

    @property
    def cursor_key(self) -> Hashable | None:
        """The key of the row under the cursor; None in an empty table."""
        return self._cursor_key

    @property
    def cursor_row(self) -> Row | None:
        """The row under the cursor."""
        return self._row(self._cursor)

    @property
    def marks(self) -> frozenset[Hashable]:
        """The keys of the marked rows, visible or not."""
        return self._marks

    @marks.setter
    def marks(self, marks: Iterable[Hashable]) -> None:
        if self._marks != (after := frozenset(marks)):
            self._marks = after
            self.post_message(self.MarksChanged(self, after))
            self.repaint()

    @property
    def is_holding(self) -> bool:
        """Whether the user moved within the last two seconds: so long, rows should stay in place."""
        return self._moved_at is not None and self._clock() - self._moved_at < HOLD_SECONDS

    def select(self, key: Hashable) -> bool:
        """Put the cursor on the row with this key and scroll to it; False if there is none."""
        index = self.source.index(key) if self.source else None
        if index is not None:
            self._is_placed = True
            self._put_cursor(index)
            self._scroll_to_cursor()
            self.repaint()
        return index is not None

    def watch_source(self) -> None:
        """Show new rows: the cursor stays on its row, and visible if it was visible."""
        was_visible = self._cursor in self._visible
        self._asked = (range(0), ())
        self.virtual_size = Size(1, self._count + HEADER)
        self.scroll_y = min(self.scroll_y, self.max_scroll_y)
        self._follow()
        if was_visible and self._is_placed:
            self._scroll_to_cursor()
        self.repaint()

    def watch_columns(self) -> None:
        self.repaint()

    def watch_sort(self) -> None:
        self.repaint()

    def watch_empty(self) -> None:
        self.repaint()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Paint only the lines that differ; the title line never changes."""
        if self.show_vertical_scrollbar:
            self.vertical_scrollbar.position = new_value
        moved = round(new_value) - round(old_value)
        if moved:
            self._hover = None if self._hover is None else self._hover + moved
            self.repaint()

    def on_resize(self) -> None:
        """Keep a cursor that the user has moved visible."""
        if self._is_placed:
            self._scroll_to_cursor()

    def draw(self, inks: Inks, width: int, height: int) -> Sequence[Strip]:
        """The titles and the visible rows; rows that have not changed are not drawn again."""
        if width <= GUTTER:
            return []
        if self._cached_for != (inks, width, self.columns):
            self._cached_for = (inks, width, self.columns)
            self._places = placed(self.columns, width - GUTTER)
            self._cache = {}
        header = inks.strip([Span(" " * GUTTER), *header_line(self._places, self.sort, width - GUTTER)], width)
        if not self._count:
            return [header, *self._empty_lines(inks, width, height - HEADER)]
        return [header, *self._row_strips(inks, width)]

    def _row_strips(self, inks: Inks, width: int) -> list[Strip]:
        before, drawn = self._cache, {}
        source, visible = self.source, self._visible
        assert source is not None
        if self._asked[0] != visible:
            self._asked = visible, source.window(visible.start, visible.stop)
        strips = []
        for index, row in enumerate(self._asked[1], visible.start):
            key = source.key(row)
            ground, marked = self._ground(index), key in self._marks
            known = before.get(key)
            if known is None or known[1] is not ground or known[2] is not marked or known[0] != row:
                line = [*self._gutter(ground, marked), *row_line(self._places, row, width - GUTTER)]
                known = (row, ground, marked, inks.strip(line, width, ground))
            drawn[key] = known
            strips.append(known[3])
        self._cache = drawn
        return strips

    def _gutter(self, ground: Ground, marked: bool) -> list[Span]:
        is_cursor = ground in (Ground.CURSOR, Ground.CURSOR_BLURRED)
        return [
            Span(CURSOR if is_cursor else " ", Tone.ORANGE if ground is Ground.CURSOR else Tone.GREY),
            Span(MARK if marked else " ", Tone.ORANGE),
        ]

    def _empty_lines(self, inks: Inks, width: int, height: int) -> list[Strip]:
        room = max(1, width - 2)
        words = [line for text in self.empty.splitlines() for line in wrapped(text, room)][: max(1, height)]
        above = max(0, (height - len(words)) // 2)
        lines = [" " * max(0, (width - cell_len(text)) // 2) + text for text in words]
        return [inks.blank(width)] * above + [
            inks.strip([Span(fitted(line, width), Tone.GREY)], width) for line in lines
        ]

    def _ground(self, index: int) -> Ground:
        if index == self._cursor:
            return Ground.CURSOR if self.has_focus else Ground.CURSOR_BLURRED
        return Ground.HOVER if index == self._hover else Ground.PLAIN

    @property
    def _count(self) -> int:
        return 0 if self.source is None else len(self.source)

    @property
    def _visible(self) -> range:
        """The positions of the visible rows."""
        top = self.scroll_offset.y
        return range(top, min(self._count, top + self._page))

    @property
    def _page(self) -> int:
        return max(1, self.drawn_size.height - HEADER)

    def _row(self, index: int) -> Row | None:
        if self.source is None or not 0 <= index < len(self.source):
            return None
        positions, rows = self._asked
        if index not in positions:
            positions, rows = range(index, index + 1), self.source.window(index, index + 1)
        offset = index - positions.start
        return rows[offset] if offset < len(rows) else None

    def _follow(self) -> None:
        """Find the cursor's row again; if it is gone, stay at its position.

        A cursor that the user never moved goes to the top instead of out of sight.
        """
        index = self._cursor
        row = self._row(index)
        if self.source is not None and self._cursor_key is not None:
            if row is None or self.source.key(row) != self._cursor_key:
                found = self.source.index(self._cursor_key)
                index = self._cursor if found is None else found
            if not self._is_placed and index not in self._visible:
                index = 0
        self._put_cursor(index)

    def _put_cursor(self, index: int) -> None:
        self._cursor = max(0, min(index, self._count - 1))
        row = self._row(self._cursor)
        key = None if row is None or self.source is None else self.source.key(row)
        if key != self._cursor_key:
            self._cursor_key = key
            self.post_message(self.Selected(self, key))

    def _scroll_to_cursor(self) -> None:
        top, page = self.scroll_offset.y, self._page
        wanted = min(self._cursor, max(top, self._cursor - page + 1))
        if wanted != top:
            self.scroll_to(y=wanted, animate=False)

    def _move(self, index: int) -> None:
        """Move the cursor for the user."""
        if self._count:
            self._touched()
            self._put_cursor(index)
            self._scroll_to_cursor()
            self.repaint()

    def _touched(self) -> None:
        self._is_placed = True
        self._moved_at = self._clock()

    def action_cursor_up(self) -> None:
        self._move(self._cursor - 1)

    def action_cursor_down(self) -> None:
        self._move(self._cursor + 1)

    def action_page_up(self) -> None:
        self._move(self._cursor - self._page)

    def action_page_down(self) -> None:
        self._move(self._cursor + self._page)

    def action_first(self) -> None:
        self._move(0)

    def action_last(self) -> None:
        self._move(self._count - 1)

    def action_activate(self) -> None:
        if self._cursor_key is not None:
            self.post_message(self.Activated(self, self._cursor_key))

    def action_mark(self) -> None:
        """Mark the row or remove its mark, and go to the next row."""
        if self._cursor_key is not None:
            self.marks = self._marks ^ {self._cursor_key}
            self.action_cursor_down()

    def action_sort(self) -> None:
        """Request to sort by the next visible column."""
        columns = [place.column for place in self._places if place.column.sortable]
        if columns:
            keys = [column.key for column in columns]
            position = keys.index(self.sort.key) + 1 if self.sort and self.sort.key in keys else 0
            self._request_sort(columns[position % len(columns)])

    def action_reverse(self) -> None:
        if self.sort is not None:
            self.post_message(self.SortRequested(self, Sort(self.sort.key, not self.sort.descending)))

    def _request_sort(self, column: Column[Row]) -> None:
        if self.sort is not None and self.sort.key == column.key:
            self.action_reverse()
        elif column.sortable:
            self.post_message(self.SortRequested(self, Sort(column.key, column.descending_first)))

    def on_mouse_move(self, event: events.MouseMove) -> None:
        self._hover_over(self._index_at(event))

    def on_leave(self) -> None:
        self._hover_over(None)

    def _hover_over(self, index: int | None) -> None:
        if index != self._hover:
            self._hover = index
            self.repaint()

    def on_click(self, event: events.Click) -> None:
        """A click selects, a second one opens, one with Ctrl marks; on a title it sorts."""
        offset = event.get_content_offset(self)
        index = self._index_at(event)
        if index is not None:
            self._move(index)
            if event.ctrl and self._cursor_key is not None:
                self.marks = self._marks ^ {self._cursor_key}
            elif event.chain == 2:
                self.action_activate()
        elif offset is not None and offset.y < HEADER:
            x = offset.x - GUTTER
            for column, left, wide in self._places:
                if left <= x < left + wide + GAP:
                    self._request_sort(column)

    def on_mouse_scroll_down(self) -> None:
        self._touched()

    def on_mouse_scroll_up(self) -> None:
        self._touched()

    def _index_at(self, event: events.MouseEvent) -> int | None:
        offset = event.get_content_offset(self)
        if offset is None or offset.y < HEADER or offset.x >= self.drawn_size.width:
            return None
        index = self.scroll_offset.y + offset.y - HEADER
        return index if index < self._count else None
