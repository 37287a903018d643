"""A table draws the visible rows; its cursor and marks belong to rows, not to positions."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import pytest
from rich.cells import cell_len
from textual.binding import Binding

from jobtop.tui.chart.chart import Chart
from jobtop.tui.data.rows import ListRows, order_as_shown
from jobtop.tui.palette import DARK, LIGHT, TERMINAL, Ground, Tone
from jobtop.tui.widgets.cells import Align, Cell, Words
from jobtop.tui.widgets.columns import Column, Sort, placed
from jobtop.tui.widgets.table import Table
from stage import Performance, paint_requests, painted_lines, play


@dataclass(frozen=True)
class Row:
    key: str
    name: str
    value: int = 0


COLUMNS: list[Column[Row]] = [
    Column("key", "KEY", lambda row: Words(row.key, Tone.GREY), 6),
    Column("name", "NAME", lambda row: Words(row.name), 8, flex=1),
    Column("value", "VALUE", lambda row: Words(str(row.value)), 6, align=Align.RIGHT, priority=1),
    Column("extra", "EXTRA", lambda _: Words("e"), 8, priority=2, sortable=False),
]


def rows(count: int, value: int = 0) -> list[Row]:
    return [Row(f"k{number}", f"row {number}", value) for number in range(count)]


def listed(content: Sequence[Row]) -> ListRows[Row]:
    return ListRows(content, lambda row: row.key)


def under(table: Table[Row]) -> Hashable | None:
    """The key of the row under the cursor."""
    return table.cursor_key


def new_table() -> Table[Row]:
    return Table(COLUMNS, empty="no rows yet\nn makes one")


class Windowed:
    """100,000 rows, each made when it is read."""

    def __init__(self, count: int = 100_000) -> None:
        self.count = count
        self.windows: list[range] = []

    def __len__(self) -> int:
        return self.count

    def window(self, start: int, stop: int) -> Sequence[Row]:
        self.windows.append(range(start, stop))
        return [Row(f"k{number}", f"row {number}") for number in range(start, stop)]

    def key(self, row: Row) -> Hashable:
        return row.key

    def index(self, key: Hashable) -> int | None:
        return int(str(key)[1:])


def widths(width: int, columns: Sequence[Column[Row]] = COLUMNS) -> dict[str, int]:
    return {place.column.key: place.width for place in placed(columns, width)}


def test_columns_drop_by_priority_when_it_gets_narrow() -> None:
    assert widths(60) == {"key": 6, "name": 37, "value": 6, "extra": 8}
    assert widths(31) == {"key": 6, "name": 8, "value": 6, "extra": 8}
    assert widths(30) == {"key": 6, "name": 16, "value": 6}
    assert widths(21) == {"key": 6, "name": 14}
    assert widths(13) == {"key": 6, "name": 6}
    assert widths(9) == {"key": 6, "name": 2}
    assert widths(0) == {}


def test_the_room_that_is_left_is_shared_up_to_what_a_column_wants() -> None:
    def column(key: str, flex: int, most: int | None) -> Column[Row]:
        return Column(key, key, lambda _: Words(""), 4, flex=flex, most=most)

    columns = [column("a", 1, 6), column("b", 2, None), column("c", 1, None)]
    assert widths(40, columns) == {"a": 6, "b": 21, "c": 11}
    assert widths(40, [column("a", 1, 6)]) == {"a": 6}


@pytest.mark.parametrize("width", range(1, 120))
def test_columns_never_overlap_nor_leave_the_table(width: int) -> None:
    end = -1
    for place in placed(COLUMNS, width):
        assert place.left == end + 1
        end = place.left + place.width
        assert end <= width


def test_a_held_order_keeps_rows_where_they_were_and_adds_new_ones_below() -> None:
    content = [Row("c", ""), Row("new", ""), Row("a", ""), Row("b", "")]
    held = order_as_shown(content, lambda row: row.key, ["a", "gone", "b", "c"])
    assert [row.key for row in held] == ["a", "b", "c", "new"]


def test_the_table_shows_its_header_and_its_rows() -> None:
    table = new_table()

    async def scene(on: Performance) -> None:
        table.source = listed([Row("k0", "[/b] 漢字", 7), Row("k1", "plain\x1b[0m", 12)])
        table.sort = Sort("value", True)
        await on.settle()
        lines = on.lines()
        assert lines[0].split() == ["KEY", "NAME", "VALUE▼", "EXTRA"]
        assert lines[1].startswith("▌ k0     [/b] 漢字 ")
        assert lines[1].endswith("      7 e       ")
        assert lines[2].endswith("     12 e       ")
        assert "plain\\x1b[0m" in lines[2]

    play(table, scene)


def test_an_empty_table_says_how_to_fill_it() -> None:
    table = new_table()

    async def scene(on: Performance) -> None:
        lines = on.lines()
        assert [line.strip() for line in lines if line.strip()][1:] == ["no rows yet", "n makes one"]
        assert under(table) is None
        for action in [table.action_cursor_down, table.action_activate, table.action_mark, table.action_last]:
            action()
        await on.settle()
        assert on.said(Table.Activated) == []

    play(table, scene)


def test_keys_move_the_cursor_and_the_view_with_it() -> None:
    table = new_table()

    async def scene(on: Performance) -> None:
        table.source = listed(rows(100))
        await on.settle()
        page = table.size.height - 1
        for action, expected in [
            (table.action_cursor_down, 1),
            (table.action_cursor_up, 0),
            (table.action_cursor_up, 0),
            (table.action_last, 99),
            (table.action_cursor_down, 99),
            (table.action_first, 0),
            (table.action_page_down, page),
            (table.action_page_down, 2 * page),
            (table.action_page_up, page),
        ]:
            action()
            assert under(table) == f"k{expected}"
            assert any(line.startswith("▌") and f" row {expected} " in line for line in on.lines())
        await on.press("g", "j", "k")
        assert on.said(Table.Selected)[-1].key == "k0"
        await on.press("enter")
        assert [message.key for message in on.said(Table.Activated)] == ["k0"]

    play(table, scene)


def test_every_key_has_an_action_and_a_name_to_remap_it_by() -> None:
    for widget in (Table, Chart):
        bindings = [binding for binding in widget.BINDINGS if isinstance(binding, Binding)]
        assert len({binding.id for binding in bindings}) == len(bindings) == len(widget.BINDINGS)
        assert all(callable(getattr(widget, f"action_{binding.action}")) for binding in bindings)
    assert {key for binding in Table.BINDINGS for key in binding.key.split(",")} >= {*"jkgGsS"}  # type: ignore[union-attr]


def test_the_cursor_follows_its_row_and_stays_visible() -> None:
    table = new_table()

    async def scene(on: Performance) -> None:
        content = rows(100)
        table.source = listed(content)
        await on.settle()
        table.action_cursor_down()
        table.action_cursor_down()
        table.source = listed(list(reversed(content)))
        await on.settle()
        assert under(table) == "k2"
        assert table.cursor_row == Row("k2", "row 2")
        assert any(line.startswith("▌ k2 ") for line in on.lines())
        assert [message.key for message in on.said(Table.Selected)] == ["k0", "k1", "k2"]

    play(table, scene)


def test_a_cursor_stays_at_its_position_when_its_row_is_gone() -> None:
    table = new_table()

    async def scene(on: Performance) -> None:
        content = rows(5)
        table.source = listed(content)
        await on.settle()
        table.select("k2")
        table.source = listed(content[:2] + content[3:])
        await on.settle()
        assert under(table) == "k3"
        table.source = listed(content[:1])
        await on.settle()
        assert under(table) == "k0"
        table.source = listed([])
        await on.settle()
        assert under(table) is None
        assert on.said(Table.Selected)[-1].key is None

    play(table, scene)


def test_a_cursor_never_moved_by_the_user_returns_to_the_top() -> None:
    table = new_table()

    async def scene(on: Performance) -> None:
        content = rows(100)
        table.source = listed(content)
        await on.settle()
        table.source = listed([content[1], content[0], *content[2:]])
        await on.settle()
        assert under(table) == "k0"
        table.source = listed([*content[1:], content[0]])
        await on.settle()
        assert under(table) == "k1"
        assert table.scroll_offset.y == 0

    play(table, scene)


def test_marks_belong_to_keys() -> None:
    table = new_table()

    async def scene(on: Performance) -> None:
        content = rows(5)
        table.source = listed(content)
        await on.settle()
        await on.press("space")
        table.action_mark()
        table.action_cursor_down()
        table.action_mark()
        assert table.marks == {"k0", "k1", "k3"}
        table.source = listed(list(reversed(content)))
        await on.settle()
        assert [line[2:4] for line in on.lines() if "◆" in line] == ["k3", "k1", "k0"]
        table.select("k3")
        table.action_mark()
        await on.settle()
        assert table.marks == {"k0", "k1"}
        assert on.said(Table.MarksChanged)[-1].marks == {"k0", "k1"}
        table.marks = ()
        await on.settle()
        assert not any("◆" in line for line in on.lines())

    play(table, scene)


def test_the_order_is_held_for_two_seconds_after_a_move() -> None:
    now = 100.0
    table = Table(COLUMNS, clock=lambda: now)

    async def scene(on: Performance) -> None:
        nonlocal now
        table.source = listed(rows(5))
        await on.settle()
        assert not table.is_holding
        table.action_cursor_down()
        now += 1.9
        assert table.is_holding
        now += 0.2
        assert not table.is_holding

    play(table, scene)


def test_the_mouse_selects_opens_marks_and_sorts() -> None:
    table = new_table()

    async def scene(on: Performance) -> None:
        table.source = listed(rows(100))
        await on.settle()
        await on.pilot.click(table, offset=(5, 4))
        assert under(table) == "k2"
        await on.pilot.click(table, offset=(5, 6), times=2)
        assert [message.key for message in on.said(Table.Activated)] == ["k4"]
        await on.pilot.click(table, offset=(5, 5), control=True)
        assert table.marks == {"k3"}
        await on.pilot.hover(table, offset=(5, 8))
        hovered = table.render_line(7)
        assert hovered != table.render_line(8)
        await on.pilot.click(table, offset=(4, 1))
        await on.pilot.click(table, offset=(75, 1))
        assert [message.sort for message in on.said(Table.SortRequested)] == [Sort("key", False)]

    play(table, scene)


def test_the_wheel_scrolls_without_moving_the_cursor() -> None:
    table = new_table()

    async def scene(on: Performance) -> None:
        table.source = listed(rows(100))
        await on.settle()
        table.scroll_to(y=10, animate=False)
        await on.settle()
        assert under(table) == "k0"
        assert on.lines()[1].startswith("  k10 ")

    play(table, scene)


def test_keys_ask_for_the_next_column_to_sort_by_and_for_the_reverse() -> None:
    table = new_table()

    async def scene(on: Performance) -> None:
        table.source = listed(rows(3))
        await on.settle()
        await on.press("S", "s")
        for action in [table.action_sort, table.action_sort, table.action_sort, table.action_reverse]:
            table.sort = on.said(Table.SortRequested)[-1].sort
            action()
            await on.settle()
        asked = [message.sort for message in on.said(Table.SortRequested)]
        assert asked == [Sort("key"), Sort("name"), Sort("value", True), Sort("key"), Sort("key", True)]

    play(table, scene)


def test_only_visible_rows_are_read_and_only_once() -> None:
    table = new_table()
    source = Windowed()

    async def scene(on: Performance) -> None:
        table.source = source
        await on.settle()
        page = table.size.height - 1
        assert source.windows[-1] == range(page)
        source.windows.clear()
        table.action_cursor_down()
        table.action_cursor_up()
        await on.pilot.hover(table, offset=(5, 8))
        assert source.windows == []
        table.action_last()
        await on.settle()
        assert under(table) == "k99999"
        assert sum(map(len, source.windows)) <= page + 1
        assert on.lines()[-1].startswith("▌ k99999 ")

    play(table, scene)


def test_an_update_draws_visible_rows_and_paints_changed_ones() -> None:
    drawn: list[str] = []

    def name(row: Row) -> Cell:
        drawn.append(row.key)
        return Words(row.name)

    table = new_table()
    requests = paint_requests(table)
    table.columns = [COLUMNS[0], Column("name", "NAME", name, 8, flex=1), COLUMNS[2]]

    async def scene(on: Performance) -> None:
        content = rows(1000)
        table.source = listed(content)
        await on.settle()
        drawn.clear()
        table.source = listed(rows(1000, 1))
        await on.settle()
        assert drawn == [f"k{number}" for number in range(table.size.height - 1)]
        drawn.clear()
        requests.clear()
        table.source = listed(rows(1000, 1))
        await on.settle()
        assert (drawn, requests) == ([], [])
        changed = rows(1000, 1)
        changed[3] = Row("k3", "changed", 1)
        changed[4] = Row("k4", "row 4", 1)
        table.source = listed(changed)
        await on.settle()
        assert drawn == ["k3"]
        assert painted_lines(table, requests) == {4}

    play(table, scene)


def test_moving_the_cursor_paints_two_lines() -> None:
    table = new_table()
    requests = paint_requests(table)

    async def scene(on: Performance) -> None:
        table.source = listed(rows(100))
        await on.settle()
        requests.clear()
        table.action_cursor_down()
        await on.settle()
        assert painted_lines(table, requests) == {1, 2}

    play(table, scene)


def test_a_selected_row_becomes_visible() -> None:
    table = new_table()

    async def scene(on: Performance) -> None:
        table.source = listed(rows(100))
        await on.settle()
        assert table.select("k70")
        await on.settle()
        assert any(line.startswith("▌ k70 ") for line in on.lines())
        assert not table.select("unknown")
        assert under(table) == "k70"

    play(table, scene)


def test_the_cursor_is_seen_in_every_theme_and_turns_pale_without_the_focus() -> None:
    table = new_table()

    def ground(line: int) -> object:
        style = next(iter(table.render_line(line))).style
        assert style is not None
        return style.bgcolor.name if style.bgcolor and style.bgcolor.triplet else style.reverse

    async def scene(on: Performance) -> None:
        table.source = listed(rows(3))
        await on.settle()
        assert ground(1) == DARK.grounds[Ground.CURSOR].lower()
        assert ground(2) == DARK.background.lower()
        on.pilot.app.set_focus(None)
        await on.settle()
        assert ground(1) == DARK.grounds[Ground.CURSOR_BLURRED].lower()
        table.focus()
        on.pilot.app.theme = LIGHT.name
        await on.settle()
        assert ground(1) == LIGHT.grounds[Ground.CURSOR].lower()
        on.pilot.app.theme = TERMINAL.name
        await on.settle()
        assert ground(1) is True

    play(table, scene)


def test_in_ascii_there_is_nothing_else() -> None:
    table = new_table()

    async def scene(on: Performance) -> None:
        table.source = listed([Row("k0", "漢字 ● …")])
        table.marks = {"k0"}
        table.sort = Sort("name")
        await on.settle()
        lines = on.lines()
        assert all(line.isascii() for line in lines)
        assert lines[1].startswith(">@k0     ???? * .")
        assert {len(line) for line in lines} == {table.size.width}

    play(table, scene, is_ascii=True)


def test_a_table_can_be_of_any_size() -> None:
    table = new_table()

    async def scene(on: Performance) -> None:
        table.source = listed(rows(100))
        table.select("k90")
        for width, height in [(60, 15), (10, 4), (3, 3), (240, 60)]:
            await on.pilot.resize_terminal(width, height)
            await on.settle()
            lines = on.lines()
            assert len(lines) == height - 2
            assert {cell_len(line) for line in lines} == {width - 3}, "a bar for what scrolls is beside them"
            assert any(line.startswith("▌") for line in lines) or height == 3

    play(table, scene)
