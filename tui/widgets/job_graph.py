"""The graph of the jobs of a run: stages as columns with lines between them, or a list if there is no room."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import ClassVar

from rich.cells import cell_len
from textual import events
from textual.binding import BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from jobtop.core.units import number_of
from jobtop.tui.actions import GRAPH, TABLE, bindings
from jobtop.tui.data.workflow_rows import ShownRunJob
from jobtop.tui.palette import CRITICAL, CURSOR, Ground, Tone
from jobtop.tui.widgets.cells import Span, aligned, cut_middle, fitted, safe_text
from jobtop.tui.widgets.graph_layout import EDGE, HEAVY, LIGHT, GraphLayout, Key, LineSheet, laid_out
from jobtop.tui.widgets.painting import FRAME, Inks, Painted
from jobtop.tui.widgets.tables.run_jobs import glyph_of, name_tone, shown_name

MOST_DRAWN = 120  # jobs with lines between them; more are a list
HEAD = 3  # cells before a name: the cursor, the sign, a blank
LEAST_NAME, MOST_NAME = 6, (24, 48)  # cells; more if names look the same otherwise
PLAIN, ON_PATH, SELECTED = 0, 1, 2  # ranks of lines
MOST_NEAR = 3  # names of jobs before one, in the list


class JobGraph(ScrollView, Painted, inherit_bindings=False):
    """The jobs of a run with what each depends on; the lines of the selected job are bright."""

    DEFAULT_CSS = f"JobGraph {{ scrollbar-size-vertical: 1; overflow-x: hidden; {FRAME} }}"
    BINDINGS: ClassVar[list[BindingType]] = [
        *(binding for binding in bindings(TABLE) if binding.id not in ("table.mark", "table.sort", "table.reverse")),
        *bindings(GRAPH),
    ]

    class Activated(Message):
        """The user wants to open a job."""

        def __init__(self, key: str) -> None:
            super().__init__()
            self.key = key

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.rows: dict[str, ShownRunJob] = {}
        self.arrangement: GraphLayout = laid_out({}, {})
        self.selected: str | None = None
        self._structure: object = None
        self._drawn_as_list = True
        self._columns: list[tuple[int, int]] = []  # the left edge and the width of the names of each stage
        self._step = 1
        self._places: dict[str, tuple[int, int]] = {}  # the column and the line of each job, as drawn
        self._near: dict[str, set[str]] = {}
        self._order: list[list[str]] = []
        self._path: dict[str, str] = {}  # from each job of the critical path to the next one

    def show(self, rows: Sequence[ShownRunJob]) -> None:
        """Show the jobs as they are now; the places change only with the jobs of the run."""
        self.rows = {row.job.name: row for row in rows}
        structure = tuple((row.job.name, row.stage, row.job.after, row.job.after_end) for row in rows)
        if structure != self._structure:
            self._structure = structure
            self._arrange(rows)
        path = sorted((row for row in rows if row.is_critical), key=lambda row: row.stage)
        self._path = {one.job.name: other.job.name for one, other in pairwise(path)}
        self._fit()
        self.repaint()

    def _arrange(self, rows: Sequence[ShownRunJob]) -> None:
        stages = {row.job.name: row.stage for row in rows}
        after = {
            row.job.name: [name for name in (*row.job.after, *row.job.after_end) if name in stages] for row in rows
        }
        self._near = {name: set(names) for name, names in after.items()}
        if len(rows) <= MOST_DRAWN:
            self.arrangement = laid_out(after, stages)
            self._order = [[key for key in keys if isinstance(key, str)] for keys in self.arrangement.stages]
        else:
            self.arrangement = laid_out({}, {})
            self._order = [[] for _ in range(max(stages.values(), default=-1) + 1)]
            for name, stage in stages.items():
                self._order[stage].append(name)
        if self.selected not in stages:
            self.selected = next((name for names in self._order for name in names), None)

    def _fit(self) -> None:
        """Choose between columns and a list, and place each job."""
        size = self.drawn_size
        labels = {name: shown_name(row) for name, row in self.rows.items()}
        self._columns = column_edges(self.arrangement, labels, size.width) if self.arrangement.places else []
        self._drawn_as_list = not self._columns
        if self._drawn_as_list:
            self._step, line = 1, 0
            self._places = {}
            for names in self._order:
                line += 1
                for name in names:
                    self._places[name] = (0, line)
                    line += 1
            height = line
        else:
            rows = self.arrangement.rows
            self._step = 2 if 2 * rows - 1 <= size.height else 1
            height = rows * self._step - (self._step - 1)
            self._places = {
                key: (place.stage, self._line(key))
                for key, place in self.arrangement.places.items()
                if isinstance(key, str)
            }
        self.virtual_size = Size(1, height)
        self.scroll_y = min(self.scroll_y, self.max_scroll_y)

    def _line(self, key: Key) -> int:
        """The line of a place: short columns are in the middle of the tallest one."""
        stage, row = self.arrangement.places[key]
        above = (self.arrangement.rows - len(self.arrangement.stages[stage])) * self._step // 2
        return above + row * self._step

    def draw(self, inks: Inks, width: int, height: int) -> Sequence[Strip]:
        if not self.rows:
            return [inks.strip([Span(fitted(" no jobs", width), Tone.GREY)], width)]
        self._fit()
        top = self.scroll_offset.y
        if self._drawn_as_list:
            return self._list_lines(inks, width, range(top, top + height))
        above = max(0, (height - int(self.virtual_size.height)) // 2)
        lines = self._column_lines(width, range(top, top + height))
        return [inks.blank(width)] * above + [inks.strip(line, width) for line in lines]

    def _column_lines(self, width: int, shown: range) -> list[list[Span]]:
        sheet = self._lines_between(width)
        at: dict[int, list[tuple[int, str]]] = {}
        for name, (stage, y) in self._places.items():
            at.setdefault(y, []).append((self._columns[stage][0], name))
        found = []
        for y in range(shown.start, min(shown.stop, int(self.virtual_size.height))):
            line: list[Span] = []
            x = 0
            for left, name in sorted(at.get(y, ())):
                line += self._between(sheet, x, left, y)
                room = HEAD + self._columns[self._places[name][0]][1]
                line += aligned(self._label(name, room - HEAD - 1), room)
                x = left + room
            line += self._between(sheet, x, width, y)
            found.append(line)
        return found

    def _between(self, sheet: LineSheet, start: int, end: int, y: int) -> list[Span]:
        spans = []
        for x in range(start, end):
            directions, rank = sheet.cells.get((x, y), (0, PLAIN))
            glyphs = HEAVY if rank == ON_PATH else LIGHT
            tone = (Tone.GREY, Tone.TEXT, Tone.ORANGE)[rank]
            spans.append(Span(glyphs[directions] if directions else " ", tone))
        return spans

    def _lines_between(self, width: int) -> LineSheet:
        sheet = LineSheet(width, int(self.virtual_size.height))
        for link in self.arrangement.links:
            (left, room), (right, _) = self._columns[link.stage], self._columns[link.stage + 1]
            lane = left + HEAD + room + EDGE + link.lane
            for source in link.left:
                for target in link.right:
                    rank = self._rank(source, target)
                    start = self._end_of(source, left, room), self._line(source)
                    sheet.link(start, lane, (right - 1, self._line(target)), rank)
        for key, place in self.arrangement.places.items():
            if not isinstance(key, str):
                left, room = self._columns[place.stage]
                rank = max((self._rank(one, other) for one, other in self._through(key)), default=PLAIN)
                sheet.across(left, left + HEAD + room, self._line(key), rank)
        return sheet

    def _through(self, key: Key) -> list[tuple[Key, Key]]:
        return [(key, target) for link in self.arrangement.links if key in link.left for target in link.right]

    def _end_of(self, key: Key, left: int, room: int) -> int:
        """Where the line behind a place starts: right behind its name."""
        if not isinstance(key, str):
            return left + HEAD + room
        return left + HEAD + min(room, cell_len(safe_text(shown_name(self.rows[key])[:999])) + 1)

    def _rank(self, source: Key, target: Key) -> int:
        """How important a line is; one that passes stages is as important as the dependency that it is drawn for."""
        one = source if isinstance(source, str) else source[0]  # type: ignore[index]
        following, here = self._path.get(one), self.selected or ""
        if isinstance(target, str):
            if here in (one, target):
                return SELECTED
            return ON_PATH if following == target else PLAIN
        stage = target[1]  # type: ignore[index]
        if one == here or (one in self._near.get(here, ()) and self.rows[here].stage > stage):
            return SELECTED
        return ON_PATH if following is not None and self.rows[following].stage > stage else PLAIN

    def _label(self, name: str, most: int = 999) -> list[Span]:
        row = self.rows[name]
        sign, tone = glyph_of(row)
        is_here = name == self.selected
        return [
            Span(CURSOR if is_here else " ", Tone.ORANGE if self.has_focus else Tone.GREY),
            Span(f"{sign} ", Tone.GREY if row.job.is_kept else tone),
            Span(cut_middle(shown_name(row)[:999], most), self._name_tone(name), row.is_critical or is_here),
        ]

    def _name_tone(self, name: str) -> Tone:
        """The jobs before and behind the selected one have its colour."""
        is_near = name in self._near.get(self.selected or "", ()) or self.selected in self._near.get(name, ())
        return Tone.ORANGE if is_near and self._drawn_as_list else name_tone(self.rows[name])

    def _list_lines(self, inks: Inks, width: int, shown: range) -> list[Strip]:
        found, line = [], 0
        for stage, names in enumerate(self._order):
            if line in shown:
                words = f" stage {stage + 1} · {number_of(len(names), 'job')}"
                found.append(inks.strip([Span(fitted(words, width), Tone.GREY, True)], width))
            for name in names[max(0, shown.start - line - 1) : max(0, shown.stop - line - 1)]:
                is_here = name == self.selected
                ground = Ground.PLAIN if not is_here else Ground.CURSOR if self.has_focus else Ground.CURSOR_BLURRED
                found.append(inks.strip(aligned(self._entry(name, stage), width), width, ground))
            line += 1 + len(names)
        return found

    def _entry(self, name: str, stage: int) -> list[Span]:
        row = self.rows[name]
        before = [other for other in (*row.job.after, *row.job.after_end) if other in self.rows]
        more = f" +{len(before) - MOST_NEAR}" if len(before) > MOST_NEAR else ""
        indent = " " * min(8, 2 * stage)
        label = self._label(name)
        path = Span(f"{CRITICAL} " if row.is_critical else "  ", Tone.ORANGE)
        words = f"  ← {', '.join(before[:MOST_NEAR])}{more}" if before else ""
        return [label[0], Span(indent), path, *label[1:], Span(words, Tone.GREY)]

    def on_resize(self) -> None:
        self._fit()
        self._scroll_to_selected()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        if self.show_vertical_scrollbar:
            self.vertical_scrollbar.position = new_value
        if round(new_value) != round(old_value):
            self.repaint()

    def _scroll_to_selected(self) -> None:
        if self.selected in self._places:
            line, top, page = self._places[self.selected][1], self.scroll_offset.y, max(1, self.drawn_size.height)
            wanted = min(line, max(top, line - page + 1))
            if line <= 1 and self._drawn_as_list:
                wanted = 0
            if wanted != top:
                self.scroll_to(y=wanted, animate=False)

    def select(self, name: str) -> None:
        if name in self.rows:
            self.selected = name
            self._scroll_to_selected()
            self.repaint()

    def _move(self, by: int) -> None:
        names = [name for each in self._order for name in each]
        if names:
            here = names.index(self.selected) if self.selected in names else 0
            self.select(names[max(0, min(len(names) - 1, here + by))])

    def action_cursor_up(self) -> None:
        self._move(-1)

    def action_cursor_down(self) -> None:
        self._move(1)

    def action_page_up(self) -> None:
        self._move(-max(1, self.drawn_size.height - 1))

    def action_page_down(self) -> None:
        self._move(max(1, self.drawn_size.height - 1))

    def action_first(self) -> None:
        self._move(-len(self.rows))

    def action_last(self) -> None:
        self._move(len(self.rows))

    def action_left(self) -> None:
        self._to_stage(-1)

    def action_right(self) -> None:
        self._to_stage(1)

    def _to_stage(self, by: int) -> None:
        """Go to the nearest job of the next stage, or of the one before."""
        row = self.rows.get(self.selected or "")
        stage = None if row is None else row.stage + by
        if stage is not None and 0 <= stage < len(self._order) and self._order[stage]:
            line = self._places[self.selected or ""][1]
            self.select(min(self._order[stage], key=lambda name: abs(self._places[name][1] - line)))

    def action_activate(self) -> None:
        if self.selected in self.rows:
            self.post_message(self.Activated(self.rows[self.selected].key))

    def on_click(self, event: events.Click) -> None:
        """A click selects, a second one opens."""
        offset = event.get_content_offset(self)
        if offset is None:
            return
        above = 0 if self._drawn_as_list else max(0, (self.drawn_size.height - int(self.virtual_size.height)) // 2)
        y = offset.y - above + self.scroll_offset.y
        for name, (stage, line) in self._places.items():
            left, room = (0, self.drawn_size.width) if self._drawn_as_list else self._columns[stage]
            if line == y and left <= offset.x < left + HEAD + room:
                self.select(name)
                if event.chain == 2:
                    self.action_activate()


def column_edges(layout: GraphLayout, names: Mapping[str, str], width: int) -> list[tuple[int, int]]:
    """The left edge of each stage and the room for its names; empty if there is too little room to tell them apart."""
    gaps = sum(lanes + 2 * EDGE for lanes in layout.lanes[:-1])
    lengths = next(filter(None, (name_lengths(layout, names, width - gaps, most) for most in MOST_NAME)), None)
    if lengths is None:
        return []
    spare = width - sum(lengths) - HEAD * len(lengths) - gaps
    between = min(8, spare // len(lengths)) if len(lengths) > 1 else 0
    edges, left = [], 0
    for length, lanes in zip(lengths, layout.lanes, strict=True):
        edges.append((left, length))
        left += HEAD + length + lanes + 2 * EDGE + between
    return edges


def name_lengths(layout: GraphLayout, names: Mapping[str, str], width: int, most: int) -> list[int] | None:
    """The room for the names of each stage, at most `most`; None if names of a stage would look the same."""
    columns = [[names.get(key, "") for key in keys if isinstance(key, str)] for keys in layout.stages]
    lengths = [min(most, max((cell_len(safe_text(name)) + 1 for name in column), default=1)) for column in columns]
    while sum(lengths) + HEAD * len(lengths) > width:
        longest = max(lengths)
        if longest <= LEAST_NAME:
            return None
        lengths[lengths.index(longest)] -= 1
    for column, length in zip(columns, lengths, strict=True):
        if len({cut_middle(name[:999], length - 1) for name in column}) < len(set(column)):
            return None
    return lengths
