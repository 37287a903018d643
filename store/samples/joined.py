"""Join samples of blocks and rows into one series with derived values; cut it to a time span and thin it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate

from jobtop.core.errors import BlockDamaged
from jobtop.core.measure.derive import percents, percents_of_growth
from jobtop.core.metrics import derived_of, find_metric
from jobtop.core.model import Sample
from jobtop.core.record import record
from jobtop.core.series.blocks import ELAPSED, MAX_SECONDS, OpenBlock, are_within, open_block
from jobtop.core.series.downsample import select_positions
from jobtop.store.samples.head import Layout

Number = float | int
Columns = dict[str, list[Number | None]]


@record
class Series:
    """Values over time: as many for each key as there are times. `damaged` counts samples that cannot be read."""

    times: list[float]
    values: Columns
    damaged: int = 0


class Joined:
    """The samples of some keys in order; BadValue for an unknown key. `stored` are the keys to read from the store.

    Derived values are computed block by block: the samples of a day do not fit into the processor's cache.
    """

    def __init__(self, layout: Layout, keys: Sequence[str], also: Iterable[str] = ()) -> None:
        for key in keys:
            if key not in layout.keys:
                find_metric(key)
        parts_of = derived_of(layout.scope)
        self.derived = {key: parts_of[key] for key in keys if key in parts_of}
        self.plain = tuple(dict.fromkeys(key for key in (*keys, *also) if key not in parts_of))
        parts = (part for parts in self.derived.values() for part in parts)
        self.stored = tuple(dict.fromkeys((*self.plain, *parts)))
        self.layout, self.keys = layout, keys
        self.times: list[float] = []
        self.columns: Columns = {key: [] for key in (*self.plain, *self.derived)}
        self.newest: dict[str, Number | None] = {}
        self.damaged = 0

    def add_all(self, packed: Iterable[tuple[int, bytes]], rows: Sequence[tuple[int, Sample]]) -> None:
        """Add blocks, each with its number of samples, and then rows, with values in the order of `stored`."""
        for count, data in packed:
            self.add_block(count, data)
        columns = zip(*(sample.values for _, sample in rows), strict=True)
        self.add([sample.elapsed for _, sample in rows], dict(zip(self.stored, columns, strict=bool(rows))))

    def add(self, times: Sequence[float], columns: Mapping[str, Sequence[Number | None]]) -> None:
        """Add samples by column; a stored key without a column is absent."""
        if not times:
            return
        absent = [None] * len(times)
        columns = {key: columns.get(key, absent) for key in self.stored}
        for key in self.plain:
            self.columns[key] += columns[key]
        for key, parts in self.derived.items():
            self.columns[key] += self._percents(times, parts, [columns[part] for part in parts])
        self.times += times
        self.newest = {key: values[-1] for key, values in columns.items()}

    def add_block(self, count: int, data: bytes) -> None:
        """Add the samples of a block; of a damaged one, add `count` to `damaged`."""
        try:
            opened = open_block(data)
            if opened.is_rolled:
                self._add_minutes(opened)
            elif not self._add_growth(opened):
                block = opened.decode(self.stored)
                self.add(block.elapsed, block.columns)
        except BlockDamaged:  # raised before anything of it was added
            self.damaged += count

    def series(self, start: float | None, end: float | None, max_points: int | None) -> Series:
        """The series between two times, both included; if it has too many samples, those with extremes."""
        begin = 0 if start is None else bisect_left(self.times, start)
        stop = len(self.times) if end is None else bisect_right(self.times, end)
        values = {key: self.columns[key][begin:stop] for key in self.keys}
        series = Series(self.times[begin:stop], values, self.damaged)
        if max_points is None or len(series.times) <= max_points:
            return series
        kept = select_positions(series.times, list(values.values()), max_points)
        values = {key: [column[position] for position in kept] for key, column in values.items()}
        return Series([series.times[position] for position in kept], values, self.damaged)

    def _percents(
        self, times: Sequence[float], parts: Sequence[str], counters: Sequence[Sequence[Number | None]]
    ) -> list[Number | None]:
        """The percentages of some samples, the first since the last sample that was added before."""
        if not self.times:
            return percents(times, counters)
        before = [[self.newest[part], *values] for part, values in zip(parts, counters, strict=True)]
        return percents([self.times[-1], *times], before)[1:]

    def _add_minutes(self, opened: OpenBlock) -> None:
        """Add a block of minutes as samples with the same extremes."""
        from jobtop.core.series.rollup import PreviousSample, expand_minutes  # not needed for running jobs

        before = PreviousSample(self.times[-1], self.newest) if self.times else None
        self.add(*expand_minutes(opened, self.stored, self.layout.scope, before))

    def _add_growth(self, opened: OpenBlock) -> bool:
        """Add a block, with derived values computed from stored differences, in half the time.

        Returns False, and adds nothing, for a block that needs the general way.
        """
        seconds = opened.growth(ELAPSED) if self.derived else None
        growths = {part: opened.growth(part) for parts in self.derived.values() for part in parts}
        known = {part: growth for part, growth in growths.items() if growth is not None and part not in self.plain}
        if seconds is None or len(known) < len(growths):
            return False
        walls, per_second = seconds.differences(), seconds.factor
        rest = {
            key: percents_of_growth(walls, per_second, [known[part] for part in parts])
            for key, parts in self.derived.items()
        }
        if any(len(values) < opened.count - 1 for values in rest.values()):
            return False
        times = [number / per_second for number in accumulate(walls, initial=seconds.first)]
        if not are_within((times[0], times[-1]), MAX_SECONDS):
            raise BlockDamaged("a block of samples has wrong moments")
        plain = {key: opened.values(key) or [None] * opened.count for key in self.plain}
        for key, parts in self.derived.items():
            firsts = [[known[part].first / known[part].factor] for part in parts]
            self.columns[key] += self._percents(times[:1], parts, firsts)
            self.columns[key] += rest[key]
        self.newest = {part: growth.last() for part, growth in known.items()}
        for key, values in plain.items():
            self.columns[key] += values
            self.newest[key] = values[-1]
        self.times += times
        return True
