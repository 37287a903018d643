"""Samples put together from blocks, rows and elsewhere, with what is derived from them; cut to a time and thinned."""

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
    """Values over time: for each key as many as there are moments; `damaged` samples could not be read."""

    times: list[float]
    values: Columns
    damaged: int = 0


class Joined:
    """Samples in order, of some keys; BadValue if one is no metric. `stored` has to be read for them.

    What is derived is made piece by piece: a day of seconds is too much for the processor's cache.
    """

    def __init__(self, layout: Layout, keys: Sequence[str], also: Iterable[str] = ()) -> None:
        for key in keys:
            if key not in layout.keys:
                find_metric(key)
        made_of = derived_of(layout.scope)
        self.derived = {key: made_of[key] for key in keys if key in made_of}
        self.plain = tuple(dict.fromkeys(key for key in (*keys, *also) if key not in made_of))
        parts = (part for parts in self.derived.values() for part in parts)
        self.stored = tuple(dict.fromkeys((*self.plain, *parts)))
        self.layout, self.keys = layout, keys
        self.times: list[float] = []
        self.columns: Columns = {key: [] for key in (*self.plain, *self.derived)}
        self.newest: dict[str, Number | None] = {}
        self.damaged = 0

    def add_all(self, packed: Iterable[tuple[int, bytes]], rows: Sequence[tuple[int, Sample]]) -> None:
        """Blocks, each with how many samples it has, and then rows, whose values are in the order of `stored`."""
        for count, data in packed:
            self.add_block(count, data)
        columns = zip(*(sample.values for _, sample in rows), strict=True)
        self.add([sample.elapsed for _, sample in rows], dict(zip(self.stored, columns, strict=bool(rows))))

    def add(self, times: Sequence[float], columns: Mapping[str, Sequence[Number | None]]) -> None:
        """Samples by column; of a stored key that is not among them nothing is known."""
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
        """The so many samples of a block; how many they were, if it is damaged."""
        try:
            opened = open_block(data)
            if opened.is_rolled:
                self._add_minutes(opened)
            elif not self._add_growth(opened):
                block = opened.decode(self.stored)
                self.add(block.elapsed, block.columns)
        except BlockDamaged:  # nothing of it was added
            self.damaged += count

    def series(self, start: float | None, end: float | None, max_points: int | None) -> Series:
        """Those between two moments, both included; of too many those with extremes."""
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
        if not self.times:
            return percents(times, counters)
        before = [[self.newest[part], *values] for part, values in zip(parts, counters, strict=True)]
        return percents([self.times[-1], *times], before)[1:]

    def _add_minutes(self, opened: OpenBlock) -> None:
        """A block of minutes, as points with the same extremes."""
        from jobtop.core.series.rollup import PreviousSample, expand_minutes  # not of what is sampled now

        before = PreviousSample(self.times[-1], self.newest) if self.times else None
        self.add(*expand_minutes(opened, self.stored, self.layout.scope, before))

    def _add_growth(self, opened: OpenBlock) -> bool:
        """A block in half the time, what is derived made of differences; False, and nothing added, if it cannot be."""
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
