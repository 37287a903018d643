"""The line in which the user filters jobs: the text, its completions, and which word is wrong."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from rich.highlighter import Highlighter
from rich.style import Style
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip
from textual.suggester import Suggester
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Input, Static

from jobtop.core.query.completion import complete, word_at
from jobtop.core.query.filter import FilterError, key_of, parse, split
from jobtop.core.query.keys import KEYS
from jobtop.tui.actions import FILTER, bindings
from jobtop.tui.palette import Tone
from jobtop.tui.widgets.cells import Span, aligned, safe_text
from jobtop.tui.widgets.painting import Inks, Painted

EXAMPLE = "e.g. train status:failed since:7d mem:4G.."
TYPING_SECONDS = 0.15  # without a key, after which the typed text is applied
Values = Mapping[str, Iterable[str]]


class FilterLine(Widget):
    """A text field, and below it completions or an error. It parses the filter; its owner selects the jobs."""

    DEFAULT_CSS = """
    FilterLine {
        height: 2;
        Horizontal { height: 1; }
        Static { width: 3; color: $tone-orange; text-style: bold; background: $panel; }
        Input, Input:focus { width: 1fr; height: 1; border: none; padding: 0; background: $panel; }
        &.-short { height: 1; Hint { display: none; } }
    }
    """

    class Applied(Message):
        """The user typed a valid filter; `is_final` if Enter or Esc ended typing."""

        def __init__(self, text: str, is_final: bool) -> None:
            super().__init__()
            self.text, self.is_final = text, is_final

    def __init__(self, *, id: str | None = None, in_memory: bool = False) -> None:  # noqa: A002
        """With `in_memory` the filter is for jobs without their store."""
        super().__init__(id=id)
        self._in_memory = in_memory
        self.applied = ""
        self.values: Values = {}
        self.error: FilterError | None = None
        self._is_refused = False
        self._timer: Timer | None = None

    def compose(self) -> ComposeResult:
        with Horizontal():
            yield Static(" / ")
            yield Field(self)
        yield Hint()

    def on_mount(self) -> None:
        field = self.query_one(Field)
        self.watch(field, "value", self._changed, init=False)
        self.watch(field, "selection", self._update)
        self.watch(field, "has_focus", self._update, init=False)

    def edit(self) -> None:
        """Start editing, with the cursor behind the text."""
        self.query_one(Field).focus()

    def put(self, text: str) -> None:
        """Show a filter that is already applied."""
        self._stop_waiting()
        self.applied = text
        self.query_one(Field).value = text

    def candidates(self) -> list[str]:
        """Completions of the word at the cursor, without those that contain control characters."""
        field = self.query_one(Field)
        return [word for word in complete(field.value, field.cursor_position, self.values) if word == safe_text(word)]

    def _changed(self) -> None:
        self._is_refused = False
        self._update()
        self._stop_waiting()
        self._timer = self.set_timer(TYPING_SECONDS, self._apply_typed)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.stop()
            self._timer = None

    def _apply_typed(self) -> None:
        """Apply the text without a word that is not finished yet."""
        field = self.query_one(Field)
        text = finished_part(field.value, field.cursor_position, self._in_memory)
        if text is not None and text != self.applied:
            self._apply(text, is_final=False)

    def _apply(self, text: str, is_final: bool) -> None:
        self._stop_waiting()
        self.applied = text
        self.post_message(self.Applied(text, is_final))

    def _update(self) -> None:
        """Mark the wrong word, unless the user is still typing it, and update the line below."""
        field, hint = self.query_one(Field), self.query_one(Hint)
        before, self.error = self.error, wrong_word(field.value, self._in_memory)
        if self.error is not None and not self._is_refused and field.has_focus:
            typing = self.error.start <= field.cursor_position <= self.error.end
            self.error = None if typing else self.error
        if self.error != before:
            field.refresh()
        if self.error is not None:
            hint.words = (Span(" ! ", Tone.VERMILION, True), Span(self.error.problem))
        else:
            hint.words = candidate_words(self.candidates()) if field.has_focus else ()

    def on_input_submitted(self, message: Input.Submitted) -> None:
        message.stop()
        if wrong_word(message.value, self._in_memory) is not None:
            self._is_refused = True
            self._update()
            return
        self._apply(message.value.strip(), is_final=True)

    def clear(self) -> None:
        """Stop editing and show all jobs again."""
        self.put("")
        self._apply("", is_final=True)


class Field(Input):
    """The text field of the filter; Tab takes the first completion."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings(FILTER)]

    def __init__(self, line: FilterLine) -> None:
        super().__init__(
            placeholder=EXAMPLE,
            highlighter=WordInks(line),
            suggester=FirstCandidate(line),
            select_on_focus=False,
        )
        self.line = line

    def validate_value(self, value: str) -> str:
        """Escape the control characters in pasted text."""
        return safe_text(value)

    def action_take(self) -> None:
        """Replace the word by its first completion; after a complete word, start the next one."""
        start, end = word_at(self.value, self.cursor_position)
        candidates = self.line.candidates()
        if not candidates or candidates[0] == self.value[start:end]:
            if self.value and self.cursor_at_end and not self.value.endswith(" "):
                self.insert_text_at_cursor(" ")
            return
        self.value = self.value[:start] + candidates[0] + self.value[end:]
        self.cursor_position = start + len(candidates[0])

    def action_clear(self) -> None:
        self.line.clear()


class Hint(Painted):
    """The line below the text field."""

    DEFAULT_CSS = "Hint { height: 1; background: $background; }"
    words: reactive[Sequence[Span]] = reactive((), repaint=False)

    def watch_words(self) -> None:
        self.repaint()

    def draw(self, inks: Inks, width: int, height: int) -> Sequence[Strip]:
        return [inks.strip(aligned(self.words, width), width)]


class WordInks(Highlighter):
    """Colours of the filter's text: keys are blue, the wrong word is vermilion and underlined."""

    def __init__(self, line: FilterLine) -> None:
        self.line = line

    def highlight(self, text: Text) -> None:
        inks, error = self.line.query_one(Hint).inks, self.line.error
        for word in split(text.plain):
            negated, key, operator, _ = key_of(word)
            if key:
                text.stylize(_ink(inks, Tone.BLUE), word.start, word.start + negated + len(key + operator))
        if error is not None:
            text.stylize(_ink(inks, Tone.VERMILION) + Style(underline=True), error.start, error.end)


class FirstCandidate(Suggester):
    """Suggests the rest of the first completion behind the text; the right arrow takes it."""

    def __init__(self, line: FilterLine) -> None:
        super().__init__(use_cache=False, case_sensitive=True)
        self.line = line

    async def get_suggestion(self, value: str) -> str | None:
        start, end = word_at(value, len(value))
        candidates = [word for word in complete(value, len(value), self.line.values) if word == safe_text(word)]
        typed = value[start:end]
        if not typed or not candidates or not candidates[0].startswith(typed):
            return None
        return value[:start] + candidates[0]


def wrong_word(text: str, in_memory: bool = False) -> FilterError | None:
    """The error in a filter; None if it is valid."""
    try:
        parse(text, time.time(), in_memory=in_memory)
    except FilterError as error:
        return error
    return None


def finished_part(text: str, cursor: int, in_memory: bool = False) -> str | None:
    """The filter without the word at the cursor if that may become a key or a value; None if another word is wrong."""
    start, end = word_at(text, cursor)
    word = text[start:end].lstrip("-!")
    is_key_begun = bool(word) and any(key.startswith(word.lower()) for key in KEYS)
    if not is_key_begun and wrong_word(text, in_memory) is None:
        return text.strip()
    rest = f"{text[:start]} {text[end:]}".strip()
    return rest if wrong_word(rest, in_memory) is None else None


def candidate_words(candidates: Sequence[str]) -> tuple[Span, ...]:
    """The completions as one line; the first is the one that Tab takes."""
    if not candidates:
        return ()
    first, *others = candidates
    rest = "".join(f"  {word}" for word in others[:30])
    return Span("   "), Span(first, Tone.ORANGE, True), Span(rest, Tone.GREY)


def _ink(inks: Inks, tone: Tone) -> Style:
    return Style(color=inks.style(tone).color)
