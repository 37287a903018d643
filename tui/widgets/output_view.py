"""What a job wrote: the newest output as it comes, or any other part; never reads the whole file."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import ClassVar, TypeVar

from rich.cells import cell_len
from rich.segment import Segment
from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.strip import Strip
from textual.timer import Timer
from textual.widgets import Input

from jobtop.core.errors import JobtopError
from jobtop.core.text.terminal_text import TextStyle
from jobtop.store.output.logs import STREAMS, log_sizes
from jobtop.store.output.text import Found, Output, Row
from jobtop.tui.actions import LOG, SEARCH, TYPING, bindings
from jobtop.tui.keymap import keys_of_action, shown_key
from jobtop.tui.palette import Tone, ascii_only
from jobtop.tui.terminal_keys import key_bytes, paste_bytes
from jobtop.tui.widgets.cells import Span, fitted, safe_text, short_bytes, short_duration, width_of
from jobtop.tui.widgets.output_rows import (
    Follow,
    GoTo,
    Logs,
    Movement,
    Piece,
    Scroll,
    ShownRows,
    Until,
    row_pieces,
    rows_after,
)
from jobtop.tui.widgets.painting import FRAME, Inks, Painted
from jobtop.tui.widgets.prose import wrapped
from jobtop.tui.workers import start_work

Answer = TypeVar("Answer")
STREAM_CHOICES: tuple[tuple[int, ...], ...] = ((0, 1), (0,), (1,))
SIDEWAYS = 16
LONGEST_NAME = 40
WHEEL_ROWS = 3
WIDE_ENOUGH_FOR_TIMES = 48
USUAL_GUTTER = 6  # cells of a time and a blank
GROWTH_SECONDS = 0.2  # between two looks at the sizes of the logs
TYPING_GROWTH_SECONDS = 0.05  # while the user waits for an echo
CURSOR_STYLE = TextStyle(reverse=True)
HELD_BACK = (
    "",
    "a program may hold its output back while it is no terminal:",
    "PYTHONUNBUFFERED=1, stdbuf -oL or jobtop run --pty",
)
CELLS_PER_CHARACTER = 4  # more than one, because some characters have no width


class OutputView(Painted, can_focus=True):
    """The visible rows of output; it follows the end until the user scrolls."""

    DEFAULT_CSS = f"OutputView {{ {FRAME} }}"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(LOG, TYPING)]

    class SearchWanted(Message):
        """The user wants to search."""

    class Typed(Message):
        """The user typed into the job; these are the bytes that a terminal sends."""

        def __init__(self, data: bytes) -> None:
            super().__init__()
            self.data = data

    class TypingEnded(Message):
        """The user does not type into the job any more."""

    class SizeChanged(Message):
        """The room for text has changed."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.logs: Logs | None = None
        self.shown = ShownRows()
        self.streams = STREAM_CHOICES[0]
        self.is_following = True
        self.moment: float | None = None
        self.is_live, self.is_silent = False, False
        self.why_none: str | None = None
        self.needle = ""
        self.words: str | None = None  # the message about a search
        self.problem: str | None = None
        self.typing_into: str | None = None  # the name of the job, while all keys go to it
        self.is_waiting = False  # whether the job waits for input
        self._sizes: tuple[int | None, ...] = ()
        self._watching: Timer | None = None
        self._left = 0
        self.match_place: int | None = None
        self._pending: Movement | None = None
        self._at_work: Movement | None = None

    def update_output(self, is_live: bool, why_none: str | None = None, is_silent: bool = False) -> None:
        """Read new output, if there is any; rows that the user reads stay where they are.

        `is_silent` is for a job that has run for some time: it explains that the job may buffer its output.
        """
        if (why_none, is_silent) != (self.why_none, self.is_silent):
            self.repaint()
        self.is_live, self.why_none, self.is_silent = is_live, why_none, is_silent
        if self.is_following and self.moment is None and not self._is_moving:
            self.request(Follow())

    @property
    def _is_moving(self) -> bool:
        """Whether rows are being read that the user wants to see; new output must not interfere."""
        return any(not isinstance(movement, Follow | None) for movement in (self._pending, self._at_work))

    def on_mount(self) -> None:
        self._watch_growth()

    def _watch_growth(self) -> None:
        if self._watching is not None:
            self._watching.stop()
        seconds = GROWTH_SECONDS if self.typing_into is None else TYPING_GROWTH_SECONDS
        self._watching = self.set_interval(seconds, self._look_for_growth)

    async def _look_for_growth(self) -> None:
        """Show new output soon after it was written; reading the job itself takes longer and happens less often."""
        if self.logs is None or not self._is_at_end or not self.is_on_view:
            return
        sizes = await asyncio.to_thread(log_sizes, self.logs.directory)
        if sizes != self._sizes and self._is_at_end:  # still
            self._sizes = sizes
            self.request(Follow())

    @property
    def _is_at_end(self) -> bool:
        return self.is_live and self.is_following and self.moment is None and not self._is_moving

    @property
    def is_on_view(self) -> bool:
        """Whether the user can see the pane: it is not hidden, no other screen covers it, painting is not paused."""
        is_frozen = getattr(self.app, "is_frozen", False)
        return self.screen.is_active and not is_frozen and all(node.display for node in self.ancestors_with_self)

    def go_to(self, moment: float | None) -> None:
        """Show what had been written until a moment; None: until now."""
        if moment != self.moment:
            self.moment, self.is_following = moment, moment is None
            self.request(Follow() if moment is None else Until(moment))

    def request(self, movement: Movement) -> None:
        """Read and show other rows; only the newest movement counts, and scroll steps add up."""
        if isinstance(movement, Scroll) and isinstance(self._pending, Scroll):
            movement = Scroll(self._pending.rows + movement.rows)
        self._pending = movement
        if self._at_work is None and self.logs is not None and self.drawn_size.height:
            self._at_work = movement
            start_work(self, self._work, group="output")

    async def _work(self) -> None:
        try:
            while (movement := self._pending) is not None:
                self._pending, self._at_work = None, movement
                await self._show(movement)
        except (JobtopError, OSError) as error:
            self.problem = str(error)
            self.repaint()
        finally:
            self._at_work = None

    async def _show(self, movement: Movement) -> None:
        start, height = self.shown.start, self.drawn_size.height
        shown = await self._ask(lambda output: rows_after(output, movement, start, height))
        self.is_following = self.moment is None and (isinstance(movement, Follow) or shown.is_end)
        self.shown, self.problem = shown, None
        self.repaint()

    async def _ask(self, question: Callable[[Output], Answer]) -> Answer:
        assert self.logs is not None
        return await self.logs.read(self.streams, question)

    def on_resize(self) -> None:
        self.request(self._pending or self._same())
        self.post_message(self.SizeChanged())

    @property
    def text_size(self) -> tuple[int, int]:
        """The columns and lines for text."""
        width, height = self.drawn_size
        gutter = max(USUAL_GUTTER, len(self._gutters()[0])) if width >= WIDE_ENOUGH_FOR_TIMES else 0
        return max(1, width - gutter - 1), max(1, height)

    @property
    def takes_all_keys(self) -> bool:
        """Whether keys go to the job before the console looks at them."""
        return self.typing_into is not None

    def begin_typing(self, name: str) -> None:
        """Send all keys to the job with this name, until the user ends it."""
        self.typing_into = name
        self.focus()
        self.action_last()
        self._watch_growth()
        self.repaint()

    def action_end_typing(self) -> None:
        if self.typing_into is not None:
            self.typing_into = None
            self._watch_growth()
            self.repaint()
            self.post_message(self.TypingEnded())

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return action != "end_typing" or self.takes_all_keys

    def on_key(self, event: events.Key) -> None:
        if not self.takes_all_keys:
            return
        event.stop()
        event.prevent_default()
        if event.key in keys_of_action(self.screen, "typing.end"):
            self.action_end_typing()
        elif data := key_bytes(event.key, event.character):
            self.post_message(self.Typed(data))

    def on_paste(self, event: events.Paste) -> None:
        if self.takes_all_keys:
            event.stop()
            self.post_message(self.Typed(paste_bytes(event.text)))

    def on_blur(self) -> None:
        self.action_end_typing()

    def say_waiting(self, is_waiting: bool) -> None:
        """Say in the title that the job waits for input, or no longer."""
        if is_waiting != self.is_waiting:
            self.is_waiting = is_waiting
            self.repaint()

    def _same(self) -> Movement:
        """The movement that shows the same rows again."""
        if isinstance(self._at_work, GoTo | Follow | Until):
            return self._at_work
        if self.moment is not None:
            return Until(self.moment)
        return Follow() if self.is_following else GoTo(self.shown.start)

    def draw(self, inks: Inks, width: int, height: int) -> Sequence[Strip]:
        self._label()
        if not self.shown.rows:
            lines = [part for text in self._empty() for part in wrapped(text, max(1, width - 2))]
            above = [inks.blank(width)] * max(0, (height - len(lines)) // 2)
            shown = [Span(fitted(line.center(width), width), Tone.GREY) for line in lines[:height]]
            return [*above, *(inks.strip([line], width) for line in shown)]
        gutters = self._gutters() if width >= WIDE_ENOUGH_FOR_TIMES else [""] * len(self.shown.rows)
        longest = (self._left + width) * CELLS_PER_CHARACTER
        return [
            self._line(inks, width, self._edge(row, written), self._pieces(row, style, longest))
            for row, style, written in zip(self.shown.rows, self.shown.styles, gutters, strict=True)
        ]

    def _pieces(self, row: Row, style: TextStyle, longest: int) -> list[Piece]:
        """The text of a row, and the cursor of the job's terminal if the user types behind it."""
        pieces = row_pieces(row, style, self.needle, longest)
        has_newline = len(row.raw.encode("utf-8", "replace")) < row.stop - row.place
        if self.takes_all_keys and row is self.shown.rows[-1] and self.shown.is_end and not has_newline:
            pieces.append(Piece(" ", CURSOR_STYLE))
        return pieces

    def _line(self, inks: Inks, width: int, edge: Sequence[Span], pieces: Sequence[Piece]) -> Strip:
        """A row: its edge, then its text from the leftmost shown cell on, cut with `…` if it is too long."""
        edge_width = min(width, width_of(edge))
        room = width - edge_width
        text = Strip(
            Segment(
                ascii_only(words) if inks.ascii else words,
                inks.style(ink, bold) if isinstance(ink, Tone) else inks.program_style(ink),
            )
            for words, ink, bold in pieces
        )
        is_cut = text.cell_length - self._left > room
        text = text.crop(self._left, self._left + max(0, room - is_cut))
        end = inks.strip([Span("…")], 1) if is_cut and room else Strip([])
        blank = inks.blank(room - text.cell_length - end.cell_length)
        return Strip.join([inks.strip(edge, edge_width), text, end, blank])

    def _gutters(self) -> list[str]:
        """The time of each row, if it differs from the row above."""
        times = ["" if moment is None else short_duration(moment) for moment in self.shown.times]
        wide = max(map(len, times), default=0)
        changed = ["" if now == before else now for before, now in pairwise(["", *times])]
        return [f"{words:>{wide}} " for words in changed] if wide else changed or [""]

    def _edge(self, row: Row, written: str) -> list[Span]:
        """The time, and a bar beside stderr rows and the current match."""
        if self.match_place is not None and row.place <= self.match_place < row.stop:
            return [Span(written, Tone.GREY), Span("▌", Tone.ORANGE)]
        return [Span(written, Tone.GREY), Span("│" if row.stream and len(self.streams) > 1 else " ", Tone.ORANGE)]

    def _label(self) -> None:
        self.set_subtitle(self._state())
        if self.typing_into is not None:
            end_key = shown_key(next(iter(keys_of_action(self.screen, "typing.end")), "f12"), True)
            words = f"typing into {self.typing_into[:LONGEST_NAME]} · {end_key} ends"
            self.set_title([Span(words, Tone.ORANGE, True)])
            return
        which = "" if self.shown.is_one_log else " + ".join(STREAMS[stream] for stream in self.streams)
        facts = [which, short_bytes(self.shown.size) if self.shown.size else ""]
        title = [Span("Output", Tone.TEXT, True), *(Span(f"  {fact}", Tone.GREY) for fact in facts if fact)]
        if self.is_waiting:
            key = shown_key(next(iter(keys_of_action(self.screen, "job.type")), "i"), True)
            title.append(Span(f"  waits for input · {key} to type", Tone.YELLOW, True))
        self.set_title(title)

    def _state(self) -> list[Span]:
        if self.problem or self.words:
            return [Span(self.problem or self.words or "", Tone.YELLOW)]
        if self.moment is not None:
            return [Span(f"by {short_duration(self.moment)}", Tone.ORANGE)]
        if self.is_following or not self.shown.rows:
            return [Span("● follows" if self.is_live and self.shown.rows else "", Tone.GREEN)]
        percent = 100 * self.shown.rows[-1].stop / max(1, self.shown.size)
        stays = "‖ stays here  " if self.is_live else ""
        return [Span(stays, Tone.YELLOW), Span(f"{percent:.0f} %", Tone.GREY)]

    def _empty(self) -> list[str]:
        if self.why_none is not None:
            return [self.why_none]
        if not self.shown.is_there:
            return ["its output is not on this machine"]
        if self.shown.is_one_log and 0 not in self.streams:
            return ["both streams of this job are kept as one: o shows it"]
        if self.moment is not None and self.shown.size:
            return ["nothing had been written by then"]
        which = "" if len(self.streams) > 1 else f" to its {STREAMS[self.streams[0]]}"
        if not self.is_live:
            return [f"it wrote nothing{which}"]
        may_hold_back = self.is_silent and not which and not self.shown.has_terminal
        return [f"nothing written{which} yet", *(HELD_BACK if may_hold_back else ())]

    def move(self, movement: Movement) -> None:
        """Move because of a key; the message about the last search is removed."""
        self.words = None
        self.request(movement)

    def action_line_up(self) -> None:
        self.move(Scroll(-1))

    def action_line_down(self) -> None:
        self.move(Scroll(1))

    def action_page_up(self) -> None:
        self.move(Scroll(-max(1, self.drawn_size.height - 1)))

    def action_page_down(self) -> None:
        self.move(Scroll(max(1, self.drawn_size.height - 1)))

    def action_first(self) -> None:
        self.move(GoTo(0))

    def action_last(self) -> None:
        self.match_place, self._left = None, 0
        self.move(Follow())

    def action_left(self) -> None:
        self._left = max(0, self._left - SIDEWAYS)
        self.repaint()

    def action_right(self) -> None:
        longest = max((cell_len(safe_text(row.text)) for row in self.shown.rows), default=0)
        if self._left + SIDEWAYS < longest:
            self._left += SIDEWAYS
            self.repaint()

    def action_streams(self) -> None:
        """Switch to the next choice of the two streams."""
        self.streams = STREAM_CHOICES[(STREAM_CHOICES.index(self.streams) + 1) % len(STREAM_CHOICES)]
        self.match_place = None
        self.move(Follow() if self.moment is None else Until(self.moment))

    def action_search(self) -> None:
        self.post_message(self.SearchWanted())

    def search(self, needle: str) -> None:
        """Go to the nearest match: the last one if the end is shown, else the next one."""
        self.needle, self.match_place = needle, None
        self.action_find(not self.is_following)

    def action_find(self, forward: bool) -> None:
        """Go to the next match, or the one before."""
        if self.needle and self.logs is not None:
            start_work(self, self._search, forward, group="search", exclusive=True)

    async def _search(self, forward: bool) -> None:
        """Search from the last match or the shown rows, around the end; in steps, so that other readings can run."""
        needle, match = self.needle, self.match_place
        begin = self.shown.start if forward else self.shown.size
        place: int | None = begin if match is None else match + 1 if forward else match
        has_turned = False
        try:
            while place is not None:
                found: Found = await self._ask(_finding(needle, place, forward))
                if found.place is not None:
                    self.match_place = found.place
                    self.move(GoTo(found.place, self.drawn_size.height // 3))
                    return
                place = found.resume
                if place is None and not has_turned:
                    has_turned, place = True, 0 if forward else self.shown.size
                self._say(f'looking for "{needle}" …')
            self._say(f'"{needle}" is not in it')
        except (JobtopError, OSError) as error:
            self._say(str(error))

    def _say(self, words: str) -> None:
        self.words = words
        self.repaint()

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.move(Scroll(-WHEEL_ROWS))

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.move(Scroll(WHEEL_ROWS))


class SearchLine(Input):
    """The field for the text to search for."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings(SEARCH)]

    def action_leave(self) -> None:
        self.post_message(self.Submitted(self, ""))


class OutputPane(Vertical):
    """The output and, while the user types, the search field."""

    ALLOW_MAXIMIZE = True
    DEFAULT_CSS = """
    OutputPane {
        SearchLine { height: 1; border: none; padding: 0 1; background: $panel; display: none; }
        SearchLine.-open { display: block; }
    }
    """

    def compose(self) -> ComposeResult:
        yield OutputView(id="output")
        yield SearchLine(placeholder="what to look for", compact=True)

    def on_output_view_search_wanted(self) -> None:
        line = self.query_one(SearchLine)
        line.value = self.query_one(OutputView).needle
        line.add_class("-open")
        line.focus()

    def on_input_submitted(self, message: Input.Submitted) -> None:
        message.stop()
        view = self.query_one(OutputView)
        view.focus()
        self.query_one(SearchLine).remove_class("-open")
        if message.value:
            view.search(message.value)


def _finding(needle: str, place: int, forward: bool) -> Callable[[Output], Found]:
    return lambda output: output.find(needle, place, forward)
