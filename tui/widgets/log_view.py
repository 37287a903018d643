"""The output of a container: its newest lines as they come, filtered and searched by regular expressions."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.strip import Strip

from jobtop.core.errors import BadValue
from jobtop.core.measure.collectors.docker.client import STDERR, STDOUT
from jobtop.core.measure.collectors.docker.log_lines import PLAIN_PATTERN, LogLine, line_matcher, line_text
from jobtop.core.patterns import compile_pattern
from jobtop.core.record import record
from jobtop.store.output.text import Row
from jobtop.tui.actions import LINES, LOG, bindings
from jobtop.tui.palette import Tone, ascii_only
from jobtop.tui.widgets.cells import Span, fitted, safe_text, width_of
from jobtop.tui.widgets.line_field import LineField
from jobtop.tui.widgets.output_rows import Piece, row_pieces
from jobtop.tui.widgets.painting import FRAME, Inks, Painted
from jobtop.tui.widgets.prose import wrapped

if TYPE_CHECKING:
    from jobtop.tui.data.containers.log_tail import LogTail

STREAM_CHOICES: tuple[tuple[int, ...], ...] = ((STDOUT, STDERR), (STDOUT,), (STDERR,))
STREAM_NAMES = {STDOUT: "stdout", STDERR: "stderr"}
LOOK_SECONDS, NEXT_LOOK_SECONDS = 0.2, 0.01  # between two looks for new lines; for lines that are left
MOST_AT_ONCE = 1000  # lines that are compared with the filter
SIDEWAYS, WHEEL_ROWS = 16, 3
WIDE_ENOUGH_FOR_TIMES = 48
CELLS_PER_CHARACTER = 4  # more than one, because some characters have no width
Spans = Sequence[tuple[int, int]]


@record
class Expression:
    """A regular expression of the user, and what it finds in a text; lower case matches any case."""

    text: str

    @property
    def pattern(self) -> str:
        return f"(?i){self.text}" if self.text == self.text.lower() else self.text

    def matcher(self) -> Callable[[str], bool]:
        """Whether a line matches; a text without special characters is much faster than an expression."""
        wanted = self.text
        if PLAIN_PATTERN.fullmatch(wanted) and wanted == wanted.lower():
            return lambda text: wanted in text.lower()
        return line_matcher(self.pattern)

    def spans(self, text: str) -> Spans:
        return list(compile_pattern(self.pattern).spans(text))


def wrong_expression(text: str) -> str | None:
    """What is wrong with an expression; None if it is valid."""
    try:
        compile_pattern(Expression(text).pattern)
    except BadValue as error:
        return str(error)  # continues a sentence that begins with the expression
    return None


class LogView(Painted, can_focus=True):
    """The visible lines; it follows the end until the user scrolls."""

    DEFAULT_CSS = f"LogView {{ {FRAME} }}"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(LOG, LINES)]

    class SearchWanted(Message):
        """The user wants to search."""

    class FilterWanted(Message):
        """The user wants to see only lines that match."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.tail: LogTail | None = None
        self.why_none: str | None = None
        self.streams = STREAM_CHOICES[0]
        self.is_following = True
        self.filter: Expression | None = None
        self.needle: Expression | None = None
        self.words: str | None = None  # the message about a search
        self.match: int | None = None  # the number of the line that was found
        self.numbers: list[int] = []  # of the lines that match the filter; lines are counted from 0
        self._lines: dict[int, LogLine] = {}
        self._checked = 0  # lines that were read and compared with the filter
        self._state: tuple[object, ...] = ()
        self._first = 0  # the number of the first line on the screen
        self._left = 0
        self._matches: Callable[[str], bool] = lambda _: True

    def on_mount(self) -> None:
        self.set_interval(LOOK_SECONDS, self.look)

    def open(self, tail: LogTail | None, why_none: str | None = None) -> None:
        """Show another log, or the reason why there is none."""
        if self.tail is not None:
            self.tail.close()
        self.tail, self.why_none = tail, why_none
        self._again()

    def on_unmount(self) -> None:
        if self.tail is not None:
            self.tail.close()
            self.tail = None

    def look(self) -> None:
        """Take new lines, so many at once that keys do not wait; what the user reads stays where it is."""
        is_frozen = getattr(self.app, "is_frozen", False)
        if self.tail is None or is_frozen or self._checked == self.tail.read:
            self._repaint_state()
            return
        begin, lines = self.tail.newest()
        start = max(begin, self._checked)
        stop = min(begin + len(lines), start + MOST_AT_ONCE)
        kept = {number: line for number, line in self._lines.items() if number >= begin}
        new = ((number, lines[number - begin]) for number in range(start, stop))
        self._lines = kept | {number: line for number, line in new if self._is_shown(line)}
        self.numbers, self._checked = list(self._lines), stop
        if stop < begin + len(lines):
            self.set_timer(NEXT_LOOK_SECONDS, self.look)
        self.repaint()

    def _is_shown(self, line: LogLine) -> bool:
        """Whether a line matches the filter."""
        return line.stream in self.streams and self._matches(line_text(line.data))

    def _repaint_state(self) -> None:
        """Paint again if the log has ended or failed since."""
        state = (self.tail is None, self.tail is not None and self.tail.is_over)
        if state != self._state:
            self._state = state
            self.repaint()

    def _again(self) -> None:
        """Apply the filter to all lines."""
        self._lines, self.numbers, self._checked = {}, [], 0
        self._matches = self.filter.matcher() if self.filter is not None else lambda _: True
        self.look()
        self.repaint()

    def set_filter(self, text: str) -> None:
        """Show only lines that match a valid expression; all lines without one."""
        wanted = Expression(text) if text else None
        if wanted != self.filter:
            self.filter, self.match = wanted, None
            self._again()

    # -- painting

    @property
    def _top(self) -> int:
        """The place of the first visible line among those that match."""
        height = max(1, self.drawn_size.height)
        last = max(0, len(self.numbers) - height)
        if self.is_following:
            return last
        place = next((place for place, number in enumerate(self.numbers) if number >= self._first), last)
        return min(place, last)

    def draw(self, inks: Inks, width: int, height: int) -> Sequence[Strip]:
        self._label()
        if not self.numbers:
            lines = [part for text in self._empty() for part in wrapped(text, max(1, width - 2))]
            above = [inks.blank(width)] * max(0, (height - len(lines)) // 2)
            shown = [Span(fitted(line.center(width), width), Tone.GREY) for line in lines[:height]]
            return [*above, *(inks.strip([line], width) for line in shown)]
        top = self._top
        return [self._line(inks, width, number) for number in self.numbers[top : top + height]]

    def _line(self, inks: Inks, width: int, number: int) -> Strip:
        """A line: its time, a bar beside stderr and the match, then the text from the leftmost shown cell on."""
        line = self._lines[number]
        at = time.strftime("%H:%M:%S ", time.localtime(line.at)) if line.at is not None else " " * 9
        bar = Span("▌" if number == self.match else "│" if line.stream == STDERR else " ", Tone.ORANGE)
        edge = [Span(at if width >= WIDE_ENOUGH_FOR_TIMES else "", Tone.GREY), bar]
        room = max(0, width - width_of(edge))
        pieces = self._pieces(line, (self._left + room) * CELLS_PER_CHARACTER)
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
        return Strip.join([inks.strip(edge, width - room), text, end, blank])

    def _pieces(self, line: LogLine, longest: int) -> list[Piece]:
        row = Row(0, 0, 0, line.data.decode("utf-8", "replace"))
        wanted = self.needle or self.filter
        return row_pieces(row, longest=longest, find=wanted.spans if wanted is not None else None)

    def _label(self) -> None:
        which = "" if len(self.streams) > 1 else STREAM_NAMES[self.streams[0]]
        kept = f"{len(self.numbers)} lines" if self.numbers else ""
        if self.filter is not None:
            kept = f"{len(self.numbers)} of {self._checked} lines match"
        facts = [fact for fact in (which, kept) if fact]
        self.set_title([Span("Logs", Tone.TEXT, True), *(Span(f"  {fact}", Tone.GREY) for fact in facts)])
        self.set_subtitle(self._state_words())

    def _state_words(self) -> list[Span]:
        if self.words:
            return [Span(self.words, Tone.YELLOW)]
        if self.tail is None or not self.numbers:
            return []
        if self.tail.problem is not None:
            return [Span(self.tail.problem, Tone.YELLOW)]
        if self.tail.is_over:
            return [Span("ended", Tone.GREY)] if self.is_following else []
        return [Span("● follows", Tone.GREEN) if self.is_following else Span("‖ stays here", Tone.YELLOW)]

    def _empty(self) -> list[str]:
        if self.why_none is not None or self.tail is None:
            return [self.why_none or ""]
        if self.tail.problem is not None:
            return [self.tail.problem]
        if self._checked and (self.filter is not None or len(self.streams) < len(STREAM_NAMES)):
            return [f"none of {self._checked} lines matches"]
        return ["it wrote nothing"] if self.tail.is_over else ["nothing written yet"]

    # -- keys

    def move(self, rows: int) -> None:
        """Scroll; at the end, follow."""
        height, self.words = max(1, self.drawn_size.height), None
        last = max(0, len(self.numbers) - height)
        place = max(0, min(last, self._top + rows))
        self.is_following = place >= last
        self._first = self.numbers[place] if place < len(self.numbers) else 0
        self.repaint()

    def action_line_up(self) -> None:
        self.move(-1)

    def action_line_down(self) -> None:
        self.move(1)

    def action_page_up(self) -> None:
        self.move(-max(1, self.drawn_size.height - 1))

    def action_page_down(self) -> None:
        self.move(max(1, self.drawn_size.height - 1))

    def action_first(self) -> None:
        self.move(-len(self.numbers))

    def action_last(self) -> None:
        self.match, self._left = None, 0
        self.move(len(self.numbers))

    def action_left(self) -> None:
        self._left = max(0, self._left - SIDEWAYS)
        self.repaint()

    def action_right(self) -> None:
        top = self._top
        visible = self.numbers[top : top + self.drawn_size.height]
        longest = max((cell_len(safe_text(line_text(self._lines[number].data))) for number in visible), default=0)
        if self._left + SIDEWAYS < longest:
            self._left += SIDEWAYS
            self.repaint()

    def action_streams(self) -> None:
        """Switch to the next choice of the two streams."""
        self.streams = STREAM_CHOICES[(STREAM_CHOICES.index(self.streams) + 1) % len(STREAM_CHOICES)]
        self.match = None
        self._again()

    def action_search(self) -> None:
        self.post_message(self.SearchWanted())

    def action_filter_lines(self) -> None:
        self.post_message(self.FilterWanted())

    def search(self, text: str) -> None:
        """Go to the nearest match: the last one if the end is shown, else the next one."""
        self.needle, self.match, self.words = (Expression(text) if text else None), None, None
        if text:
            self.action_find(not self.is_following)
        self.repaint()

    def action_find(self, forward: bool) -> None:
        """Go to the next match, or the one before, around the end."""
        if self.needle is None or not self.numbers:
            return
        matches = self.needle.matcher()
        here = self.match if self.match is not None else (self._first if forward else self._checked)
        later = [number for number in self.numbers if number > here or (self.match is None and number == here)]
        earlier = [number for number in self.numbers if number < here]
        order = [*later, *earlier] if forward else [*reversed(earlier), *reversed(later)]
        found = next((number for number in order if matches(line_text(self._lines[number].data))), None)
        if found is None:
            is_here = self.match is not None and matches(line_text(self._lines[self.match].data))
            self.words = None if is_here else f'"{self.needle.text}" is not in it'
        else:
            self.match, self.words = found, None
            self._show(self.numbers.index(found))
        self.repaint()

    def _show(self, place: int) -> None:
        """Scroll so that a line is visible, with some lines above it."""
        height = max(1, self.drawn_size.height)
        last = max(0, len(self.numbers) - height)
        top = max(0, min(last, place - height // 3))
        self.is_following, self._first = top >= last, self.numbers[top]

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.move(-WHEEL_ROWS)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.move(WHEEL_ROWS)


class LogPane(Vertical):
    """The log, and the fields for a search and for a filter while they are used."""

    ALLOW_MAXIMIZE = True

    def compose(self) -> ComposeResult:
        yield LogView(id="logs")
        yield LineField("&", "show only lines that match this expression", wrong_expression, id="line-filter")
        yield LineField("/", "search for an expression; n next, N previous", wrong_expression, id="line-search")

    @property
    def view(self) -> LogView:
        return self.query_one(LogView)

    def on_log_view_search_wanted(self) -> None:
        self.query_one("#line-search", LineField).edit()

    def on_log_view_filter_wanted(self) -> None:
        self.query_one("#line-filter", LineField).edit()

    def on_line_field_changed(self, message: LineField.Changed) -> None:
        message.stop()
        if message.field.id == "line-filter":
            self.view.set_filter(message.text)
        elif message.is_final:
            self.view.search(message.text)
            message.field.remove_class("-open")
        if message.is_final:
            self.view.focus()
