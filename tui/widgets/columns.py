"""The columns of a table: which of them fit into a width, and the lines they make. Pure."""

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, Generic, NamedTuple, TypeVar

from jobtop.core.record import record
from jobtop.tui.palette import ASCENDING, DESCENDING, Tone
from jobtop.tui.widgets.cells import Align, Cell, Span, fitted

Row = TypeVar("Row")
GAP = 1
LEAST_FLEX = 4


@record
class Column(Generic[Row]):
    """What a column shows of a row, and how much room it needs.

    With `flex` it takes that share of the remaining room, up to `most` cells. A column of priority 0 is always shown;
    of the others, the one with the highest number is dropped first.
    """

    key: str
    title: str
    cell: Callable[[Row], Cell]
    width: int
    flex: int = 0
    most: int | None = None
    align: Align = Align.LEFT
    priority: int = 0
    sortable: bool = True

    @property
    def descending_first(self) -> bool:
        """Whether the first click sorts descending: numbers start with the largest, words with A."""
        return self.align is Align.RIGHT


class Sort(NamedTuple):
    """The column that the rows are sorted by, and the direction."""

    key: str
    descending: bool = False

    @property
    def arrow(self) -> str:
        return DESCENDING if self.descending else ASCENDING


class PlacedColumn(NamedTuple, Generic[Row]):
    """Where a column is drawn."""

    column: Column[Row]
    left: int
    width: int


def placed(columns: Sequence[Column[Row]], width: int) -> list[PlacedColumn[Row]]:
    """The columns that fit, from left to right; the remaining room is shared by those that want more."""
    kept = list(columns)
    while _needed(kept) > width and (optional := [column for column in kept if column.priority > 0]):
        kept.remove(max(optional, key=lambda column: column.priority))
    widths = _widths(kept, width)
    places, left = [], 0
    for column, wide in zip(kept, widths, strict=True):
        if left >= width:
            break
        places.append(PlacedColumn(column, left, min(wide, width - left)))
        left += wide + GAP
    return places


def sorted_by(items: Sequence[Row], value: Callable[[Row], Any], descending: bool) -> list[Row]:
    """The items in the order of a value; items without a value are last, in the order they came."""
    valued = [(value(item), item) for item in items]
    known = [pair for pair in valued if pair[0] is not None]
    known.sort(key=itemgetter(0), reverse=descending)
    return [item for _, item in known] + [item for found, item in valued if found is None]


def row_line(places: Sequence[PlacedColumn[Row]], row: Row, width: int) -> list[Span]:
    """The line of a row: each cell in its place."""
    line: list[Span] = []
    end = 0
    for column, left, wide in places:
        if left > end:
            line.append(Span(" " * (left - end)))
        line.extend(column.cell(row).spans(wide, column.align))
        end = left + wide
    return [*line, Span(" " * (width - end))]


def header_line(places: Sequence[PlacedColumn[Row]], sort: Sort | None, width: int) -> list[Span]:
    """The line of titles, with an arrow at the sorted column."""
    line: list[Span] = []
    end = 0
    for column, left, wide in places:
        arrow = sort.arrow if sort is not None and sort.key == column.key else ""
        title = fitted(column.title[: wide - len(arrow)] + arrow, wide, column.align)
        line += [Span(" " * (left - end)), Span(title, Tone.TEXT if arrow else Tone.GREY, True)]
        end = left + wide
    return [*line, Span(" " * (width - end))]


def _needed(columns: Sequence[Column[Row]]) -> int:
    return sum(column.width for column in columns) + GAP * (len(columns) - 1)


def _widths(columns: Sequence[Column[Row]], width: int) -> list[int]:
    """The widths of columns: the minimum plus a share of the remaining room; flexible ones are cut if there is none."""
    widths = [column.width for column in columns]
    left = width - _needed(columns)
    while left > 0:
        growing = [
            position
            for position, column in enumerate(columns)
            if column.flex and (column.most is None or widths[position] < column.most)
        ]
        if not growing:
            break
        spare, shares = left, sum(columns[position].flex for position in growing)
        for position in growing:
            most = columns[position].most
            wanted = min(left, max(1, spare * columns[position].flex // shares))
            grown = wanted if most is None else min(wanted, most - widths[position])
            widths[position] += grown
            left -= grown
    for position, column in enumerate(columns):
        if left < 0 and column.flex:
            cut = min(-left, max(0, widths[position] - LEAST_FLEX))
            widths[position] -= cut
            left += cut
    return widths
