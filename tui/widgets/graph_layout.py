"""Where the jobs of a graph and the lines between them are drawn: a column for each stage. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

from jobtop.core.record import record

UP, DOWN, LEFT, RIGHT = 1, 2, 4, 8
LIGHT = " ╵╷│╴╯╮┤╶╰╭├─┴┬┼"  # by the sum of the directions
HEAVY = " ╹╻┃╸┛┓┫╺┗┏┣━┻┳╋"
SWEEPS = 4
MOST_LANES = 3
EDGE = 1  # cells between a name and the first lane, and behind the last lane

Key = Hashable  # the name of a job, or (name, stage) for a line that passes a stage


class Place(NamedTuple):
    """The stage and the row of a job or of a line that passes."""

    stage: int
    row: int


class Link(NamedTuple):
    """Lines from some places of a stage to some places of the next one, which meet in a lane of the gap between."""

    stage: int
    lane: int
    left: tuple[Key, ...]
    right: tuple[Key, ...]


@record
class GraphLayout:
    """The places of jobs, the links between stages, and how many lanes each gap has."""

    stages: tuple[tuple[Key, ...], ...]
    places: Mapping[Key, Place]
    links: tuple[Link, ...]
    lanes: tuple[int, ...]

    @property
    def rows(self) -> int:
        return max(map(len, self.stages), default=0)


def needed_links(after: Mapping[str, Sequence[str]], stages: Mapping[str, int]) -> list[tuple[str, str]]:
    """The dependencies without those that follow from others: a → c is left out if a → b → c."""
    above: dict[str, set[str]] = {}
    found = []
    for name in sorted(after, key=lambda name: stages.get(name, 0)):
        direct = [other for other in dict.fromkeys(after[name]) if stages.get(other, 0) < stages.get(name, 0)]
        further = {far for other in direct for far in above.get(other, ())}
        above[name] = further | set(direct)
        found += [(other, name) for other in direct if other not in further]
    return found


def laid_out(after: Mapping[str, Sequence[str]], stages: Mapping[str, int]) -> GraphLayout:
    """Put jobs into columns by stage, in an order in which few lines cross."""
    count = max(stages.values(), default=-1) + 1
    columns: list[list[Key]] = [[] for _ in range(count)]
    for name in after:
        columns[stages[name]].append(name)
    steps: list[dict[Key, list[Key]]] = [{} for _ in range(count)]  # by stage: from each place, to the next stage
    for source, target in needed_links(after, stages):
        here: Key = source
        for stage in range(stages[source], stages[target]):
            following: Key = target if stage + 1 == stages[target] else (source, stage + 1)
            if following not in columns[stage + 1]:
                columns[stage + 1].append(following)
            ends = steps[stage].setdefault(here, [])
            if following not in ends:
                ends.append(following)
            here = following
    untangle(columns, steps)
    places = {key: Place(stage, row) for stage, keys in enumerate(columns) for row, key in enumerate(keys)}
    links = [link for stage in range(count - 1) for link in links_of(stage, steps[stage], places)]
    lanes = tuple(1 + max((link.lane for link in links if link.stage == stage), default=0) for stage in range(count))
    return GraphLayout(tuple(map(tuple, columns)), places, tuple(links), lanes)


def untangle(columns: list[list[Key]], steps: Sequence[Mapping[Key, Sequence[Key]]]) -> None:
    """Order each column by the middle of what it is connected with, forwards and backwards."""
    before: list[dict[Key, list[Key]]] = [{} for _ in columns]
    for stage, ends in enumerate(steps):
        for source, targets in ends.items():
            for target in targets:
                before[stage + 1].setdefault(target, []).append(source)
    for sweep in range(SWEEPS):
        forward = sweep % 2 == 0
        for stage in range(1, len(columns)) if forward else range(len(columns) - 2, -1, -1):
            other = columns[stage - 1 if forward else stage + 1]
            near = before[stage] if forward else steps[stage]
            rows = {key: (row + 0.5) / len(other) for row, key in enumerate(other)}
            own = {key: (row + 0.5) / len(columns[stage]) for row, key in enumerate(columns[stage])}
            columns[stage].sort(key=lambda key: middle(near.get(key, ()), rows, own[key]))


def middle(keys: Iterable[Key], rows: Mapping[Key, float], own: float) -> float:
    found = [rows[key] for key in keys if key in rows]
    return sum(found) / len(found) if found else own


def links_of(stage: int, steps: Mapping[Key, Sequence[Key]], places: Mapping[Key, Place]) -> list[Link]:
    """The links behind a stage: places that lead to the same places share one; each has its lane, if there are few."""
    groups: dict[frozenset[Key], list[Key]] = {}
    for source, targets in steps.items():
        groups.setdefault(frozenset(targets), []).append(source)
    order = sorted(groups.items(), key=lambda group: min(places[key].row for key in group[1]))
    return [
        Link(
            stage,
            lane_of(number, len(order)),
            tuple(left),
            tuple(sorted(right, key=lambda key: places[key].row)),
        )
        for number, (right, left) in enumerate(order)
    ]


def lane_of(number: int, count: int) -> int:
    """The first link takes the last lane, so that lines of links side by side cross seldom."""
    return (count - 1 - number) % MOST_LANES if count > 1 else 0


class LineSheet:
    """Lines on a sheet of cells: directions are added up, and the most important line decides the look of a cell."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self.cells: dict[tuple[int, int], tuple[int, int]] = {}  # the directions and the rank of a cell

    def add(self, x: int, y: int, directions: int, rank: int) -> None:
        before, known = self.cells.get((x, y), (0, 0))
        self.cells[x, y] = before | directions, max(known, rank)

    def across(self, x: int, end: int, y: int, rank: int) -> None:
        """A horizontal line through the cells from x to before `end`."""
        for place in range(x, end):
            self.add(place, y, LEFT | RIGHT, rank)

    def link(self, start: tuple[int, int], lane: int, end: tuple[int, int], rank: int) -> None:
        """From a cell to the right, along a lane, and to the right again up to another cell."""
        (left, top), (right, bottom) = start, end
        self.across(left, lane, top, rank)
        self.across(lane + 1, right + 1, bottom, rank)
        if top == bottom:
            self.add(lane, top, LEFT | RIGHT, rank)
            return
        down = bottom > top
        self.add(lane, top, LEFT | (DOWN if down else UP), rank)
        self.add(lane, bottom, RIGHT | (UP if down else DOWN), rank)
        for y in range(min(top, bottom) + 1, max(top, bottom)):
            self.add(lane, y, UP | DOWN, rank)
