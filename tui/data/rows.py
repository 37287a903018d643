"""Where the rows of a table come from, and how they keep their order while the user moves the cursor. Pure."""

from collections.abc import Callable, Hashable, Sequence
from typing import Generic, Protocol, TypeVar

Row = TypeVar("Row")


class RowSource(Protocol[Row]):
    """Any number of rows; a table asks for the visible ones.

    Rows never change: a changed row is a new row, and equal rows look the same.
    """

    def __len__(self) -> int: ...

    def window(self, start: int, stop: int) -> Sequence[Row]:
        """The rows from position `start` to before `stop`."""
        ...

    def key(self, row: Row) -> Hashable:
        """The identity of the row's object, whatever the row shows and wherever it is."""
        ...

    def index(self, key: Hashable) -> int | None:
        """The position of the row with this key; None if there is none."""
        ...


class ListRows(Generic[Row]):
    """Rows that are all in memory."""

    def __init__(self, rows: Sequence[Row], key: Callable[[Row], Hashable]) -> None:
        self._rows = rows
        self._key = key
        self._positions: dict[Hashable, int] | None = None

    def __len__(self) -> int:
        return len(self._rows)

    def window(self, start: int, stop: int) -> Sequence[Row]:
        return self._rows[start:stop]

    def key(self, row: Row) -> Hashable:
        return self._key(row)

    def index(self, key: Hashable) -> int | None:
        if self._positions is None:
            self._positions = {self._key(row): position for position, row in enumerate(self._rows)}
        return self._positions.get(key)


def order_as_shown(rows: Sequence[Row], key: Callable[[Row], Hashable], before: Sequence[Hashable]) -> list[Row]:
    """The rows in the order that was shown before; new rows come last."""
    places = {held: place for place, held in enumerate(before)}
    return sorted(rows, key=lambda row: places.get(key(row), len(places)))
