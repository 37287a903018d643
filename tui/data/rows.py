"""Where the rows of a table come from, and how they keep their order while somebody moves among them. Pure."""

from collections.abc import Callable, Hashable, Sequence
from typing import Generic, Protocol, TypeVar

Row = TypeVar("Row")


class RowSource(Protocol[Row]):
    """Any number of rows, of which a table asks for those it shows.

    A row does not change: what is new is a new row, and rows that are equal look alike.
    """

    def __len__(self) -> int: ...

    def window(self, start: int, stop: int) -> Sequence[Row]:
        """The rows from one position to before another."""
        ...

    def key(self, row: Row) -> Hashable:
        """What the row is of, however it looks and wherever it stands."""
        ...

    def index(self, key: Hashable) -> int | None:
        """Where the row of a key is; None if it is gone."""
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


def held_order(rows: Sequence[Row], key: Callable[[Row], Hashable], before: Sequence[Hashable]) -> list[Row]:
    """The rows in the order that was shown before; those that are new come last."""
    places = {held: place for place, held in enumerate(before)}
    return sorted(rows, key=lambda row: places.get(key(row), len(places)))
