"""What dialogs share: a box over the screen, text, and keys that can be clicked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.geometry import Size
from textual.screen import ModalScreen
from textual.strip import Strip

from jobtop.tui.actions import BY_ID
from jobtop.tui.keymap import active_keys, shown_key, shown_keys
from jobtop.tui.palette import Tone
from jobtop.tui.widgets.cells import Span, width_of
from jobtop.tui.widgets.painting import ASCII_CLASS, Inks, Painted
from jobtop.tui.widgets.prose import Paragraph

Answer = TypeVar("Answer")
FRAME = 5  # rows around the parts: the border, the keys, a line above each


class KeyButton(Painted):
    """The keys and title of an action; a click runs it too."""

    DEFAULT_CSS = """
    KeyButton { height: 1; width: auto; margin-right: 3; background: $panel; &:hover { background: $background; } }
    """

    def __init__(
        self, action_id: str, title: str | None = None, tone: Tone = Tone.TEXT, field_keys: Sequence[str] = ()
    ) -> None:
        """`field_keys` run the action too, although a field and not the dialog takes them."""
        super().__init__()
        self.action = BY_ID[action_id]
        self.title, self.tone, self.field_keys = title or self.action.title, tone, field_keys

    def words(self) -> list[Span]:
        found = dict.fromkeys([*self.field_keys, *active_keys(self.screen).get(self.action.id, ())])
        keys = shown_keys(list(found), self.app.has_class(ASCII_CLASS))
        return [Span(keys, Tone.ORANGE, True), Span(f" {self.title}", self.tone)]

    def get_content_width(self, container: Size, viewport: Size) -> int:
        return width_of(self.words())

    def draw(self, inks: Inks, width: int, height: int) -> Sequence[Strip]:
        return [inks.strip(self.words(), width)]

    async def on_click(self, event: events.Click) -> None:
        event.stop()
        await self.screen.run_action(self.action.call)


class KeyHint(Painted):
    """A key that works in some fields of a dialog, and what it does there."""

    DEFAULT_CSS = "KeyHint { height: 1; width: auto; margin-right: 3; background: $panel; }"

    def __init__(self, key: str, title: str) -> None:
        super().__init__()
        self.key, self.title = key, title

    def words(self) -> list[Span]:
        return [
            Span(shown_key(self.key, self.app.has_class(ASCII_CLASS)), Tone.GREY),
            Span(f" {self.title}", Tone.GREY),
        ]

    def get_content_width(self, container: Size, viewport: Size) -> int:
        return width_of(self.words())

    def draw(self, inks: Inks, width: int, height: int) -> Sequence[Strip]:
        return [inks.strip(self.words(), width)]


class Text(Painted):
    """Paragraphs, as high as their lines."""

    DEFAULT_CSS = "Text { height: auto; background: $panel; }"

    def __init__(self, paragraphs: Sequence[Paragraph]) -> None:
        super().__init__()
        self.paragraphs = paragraphs

    def lines(self, width: int) -> list[list[Span]]:
        return [line for paragraph in self.paragraphs for line in paragraph.lines(max(1, width))]

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self.lines(width))

    def draw(self, inks: Inks, width: int, height: int) -> Sequence[Strip]:
        return [inks.strip(line, width) for line in self.lines(width)] if width else []


class Parts(VerticalScroll, inherit_bindings=False, can_focus=False):
    """Scrolls to the focused part; its keys are those of the dialog."""


class Dialog(ModalScreen[Answer]):
    """A box with a title, which is never recorded text, and the keys that close it; a click beside it closes it too."""

    title_words: str
    DEFAULT_CSS = """
    Dialog {
        align: center middle;
        #dialog {
            width: 64;
            max-width: 100%;
            max-height: 100%;
            height: auto;
            padding: 1 2 0 2;
            background: $panel;
            border: round $border;
            border-title-color: $foreground;
            border-title-style: bold;
            &.-ascii { border: ascii $border; }
        }
        #parts { height: auto; scrollbar-size-vertical: 1; }
        #keys { height: 1; margin-top: 1; }
    }
    """

    def parts(self) -> ComposeResult:
        """The parts in the box."""
        raise NotImplementedError

    def keys(self) -> Iterable[KeyButton | KeyHint]:
        """The keys at the bottom of the box."""
        raise NotImplementedError

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog"):
            with Parts(id="parts"):
                yield from self.parts()
            with Horizontal(id="keys"):
                yield from self.keys()

    def on_mount(self) -> None:
        box = self.query_one("#dialog")
        box.border_title = self.title_words
        box.set_class(self.app.has_class(ASCII_CLASS), ASCII_CLASS)

    def on_resize(self) -> None:
        """Limit the height, so that the parts scroll and the keys stay visible."""
        self.query_one("#parts").styles.max_height = max(1, self.size.height - FRAME)

    def on_click(self, event: events.Click) -> None:
        if event.widget is self:
            self.action_leave()

    def action_leave(self) -> None:
        """Close without doing anything."""
        _ = self.dismiss(None)
