"""What all screens of the console share: the line at the top, the keys at the bottom, and one picture to show."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.reactive import reactive
from textual.screen import Screen
from textual.strip import Strip

from jobtop.tui.actions import ACTIONS, APP, bindings, key_words
from jobtop.tui.cells import Span, width_of
from jobtop.tui.painting import Inks, Painted
from jobtop.tui.palette import Tone
from jobtop.tui.problem_line import ProblemLine
from jobtop.tui.view import View

if TYPE_CHECKING:
    from jobtop.tui.app import Console

ROOMY = 100  # columns
TABS = tuple(action for action in ACTIONS if action.id.startswith("go."))


class TopLine(Painted):
    """`jobtop  1 Dash  2 History …      ● live 1.0s   7 run · 1 wait   ▲3   12:41:09`."""

    DEFAULT_CSS = "TopLine { height: 1; dock: top; background: $panel; }"

    class TabClicked(Message):
        """Somebody wants another screen."""

        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

    view: reactive[View | None] = reactive(None, repaint=False, always_update=True)
    current: reactive[str] = reactive("dashboard", repaint=False)
    frozen: reactive[bool] = reactive(False, repaint=False)
    refresh_seconds: reactive[float] = reactive(1.0, repaint=False)
    remapped: reactive[Mapping[str, str]] = reactive(dict, repaint=False)

    def watch_view(self) -> None:
        self.repaint()

    def watch_frozen(self) -> None:
        self.repaint()

    def draw(self, inks: Inks, width: int, height: int) -> Sequence[Strip]:
        left, right = self.tabs(width), self.state()
        room = width - width_of(left) - width_of(right)
        while room < 1 and len(right) > 1:
            room += width_of([right.pop(0)])
        line = [*left, Span(" " * max(0, room)), *right]
        return [inks.strip(line, width)]

    def tabs(self, width: int) -> list[Span]:
        return [Span(" jobtop ", Tone.BLUE, True), *(span for _, spans in self.named_tabs(width) for span in spans)]

    def named_tabs(self, width: int) -> list[tuple[str, list[Span]]]:
        """The name of each screen and how it is shown."""
        named = []
        for action in TABS:
            name = action.call.split("'")[1]
            here = name == self.current
            title = f" {action.title} " if width >= ROOMY or here else " "
            key = key_words(self.remapped.get(action.id, action.keys))
            named.append(
                (name, [Span(f" {key}", Tone.ORANGE, True), Span(title, Tone.TEXT if here else Tone.GREY, here)])
            )
        return named

    def state(self) -> list[Span]:
        """What matters of all screens, the least important first: that one goes where there is little room."""
        view = self.view
        words: list[Span] = []
        if view is None:
            return [Span("reading … ", Tone.GREY)]
        if self.frozen:
            words.append(Span("‖ frozen   ", Tone.YELLOW, True))
        else:
            words.append(Span(f"● live {self.refresh_seconds:.1f}s   ", Tone.GREEN))
        waiting = f" · {view.waiting} wait" if view.waiting else ""
        words.append(Span(f"{view.running} run{waiting}   ", Tone.TEXT))
        words.append(Span(time.strftime("%H:%M:%S ", time.localtime(view.at)), Tone.GREY))
        return words

    def on_click(self, event: events.Click) -> None:
        left = width_of(self.tabs(0)[:1])
        for name, spans in self.named_tabs(self.size.width):
            if left <= event.x < left + width_of(spans):
                self.post_message(self.TabClicked(name))
            left += width_of(spans)


class KeyLine(Painted):
    """The keys that matter here, and at the right the palette."""

    DEFAULT_CSS = "KeyLine { height: 1; dock: bottom; background: $panel; }"
    keys: reactive[tuple[tuple[str, str], ...]] = reactive((), repaint=False)

    def watch_keys(self) -> None:
        self.repaint()

    def draw(self, inks: Inks, width: int, height: int) -> Sequence[Strip]:
        end = [Span("^p", Tone.ORANGE, True), Span(" palette ", Tone.GREY)]
        room = width - width_of(end)
        line: list[Span] = [Span(" ")]
        for key, title in self.keys:
            words = [Span(key, Tone.ORANGE, True), Span(f" {title}  ", Tone.TEXT)]
            if width_of(line) + width_of(words) > room:
                break
            line += words
        return [inks.strip([*line, Span(" " * (room - width_of(line))), *end], width)]


class Page(Screen[None]):
    """One of the screens: composes its panes between the two lines, and shows pictures."""

    name_in_tabs: ClassVar[str] = "dashboard"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(APP)]

    def compose(self) -> ComposeResult:
        yield TopLine()
        yield ProblemLine()
        with Vertical(id="body"):
            yield from self.panes()
        yield KeyLine()

    def panes(self) -> ComposeResult:
        """What is between the two lines."""
        raise NotImplementedError

    @property
    def console(self) -> Console:
        """The app, as what it is."""
        from jobtop.tui.app import Console

        assert isinstance(self.app, Console)
        return self.app

    def show(self, view: View) -> None:
        """A new picture; called only while the screen is the visible one."""
        self.query_one(TopLine).view = view
        self.query_one(ProblemLine).stores = view.stores

    def on_mount(self) -> None:
        top = self.query_one(TopLine)
        top.current = self.name_in_tabs
        top.refresh_seconds = self.console.options.refresh_seconds
        top.remapped = self.console.options.keys
        self.update_keys()

    def on_descendant_focus(self) -> None:
        self.update_keys()

    def update_keys(self) -> None:
        """Show the keys that work where the focus is: those of the pane, of the screen, and of the console."""
        active = {binding.binding.id: binding.binding.key for binding in self.active_bindings.values()}
        here = [action for action in ACTIONS if action.in_footer and action.id in active]
        here.sort(key=lambda action: action.place == APP)
        shown = [(key_words(active[action.id]), action.title) for action in here]
        self.query_one(KeyLine).keys = tuple(shown)
