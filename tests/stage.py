"""A stage for the console's widgets: an app with the console's themes, driven by Textual's pilot."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

from textual.app import App, ComposeResult
from textual.geometry import Region
from textual.message import Message
from textual.pilot import Pilot
from textual.widget import Widget

from jobtop.tui.palette import DARK, THEMES
from jobtop.tui.widgets.cells import Span
from jobtop.tui.widgets.painting import Painted

Said = TypeVar("Said", bound=Message)


class Stage(App[None]):
    """An app that shows a single widget."""

    def __init__(self, widget: Widget, theme: str, is_ascii: bool) -> None:
        super().__init__()
        self.widget = widget
        for ours in THEMES:
            self.register_theme(ours)
        self.theme = theme
        self.set_class(is_ascii, "-ascii")

    def compose(self) -> ComposeResult:
        yield self.widget

    def on_mount(self) -> None:
        self.widget.focus()


class Performance:
    """What a test works with: it sends keys and clicks, and reads the messages and the text of the widget."""

    def __init__(self, pilot: Pilot[None], widget: Widget, messages: list[Message]) -> None:
        self.pilot, self.widget, self._messages = pilot, widget, messages

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.pilot.pause()

    async def settle(self) -> None:
        """Wait until everything is done and painted."""
        await self.pilot.pause()

    def said(self, kind: type[Said]) -> list[Said]:
        """The messages of a kind so far, oldest first."""
        return [message for message in self._messages if isinstance(message, kind)]

    def titles(self) -> tuple[str, str]:
        """The texts in the upper and in the lower border."""
        title, subtitle = self.widget._border_title, self.widget._border_subtitle
        return title.plain if title else "", subtitle.plain if subtitle else ""

    def lines(self) -> list[str]:
        """The text of the widget, without its border."""
        return drawn_lines(self.widget)


def play(
    widget: Widget,
    scene: Callable[[Performance], Awaitable[None]],
    size: tuple[int, int] = (80, 24),
    theme: str = DARK.name,
    is_ascii: bool = False,
) -> None:
    """Show the widget and run the scene with it."""
    messages: list[Message] = []

    def keep(message: Message) -> None:
        if not any(message is known for known in messages) and type(message).__module__.startswith("jobtop."):
            messages.append(message)

    async def perform() -> None:
        async with Stage(widget, theme, is_ascii).run_test(size=size, message_hook=keep) as pilot:
            await pilot.pause()
            await scene(Performance(pilot, widget, messages))

    asyncio.run(perform())


def drawn_lines(widget: Widget) -> list[str]:
    """The text of a widget without its border, line by line."""
    return [widget.render_line(y).text for y in range(widget.size.height)]


def text_of(spans: Iterable[Span]) -> str:
    """The text of a line that consists of spans."""
    return "".join(span.text for span in spans)


def paint_requests(widget: Widget, with_layout: bool = False) -> list[Region]:
    """A list that receives every region which the widget asks Textual to paint, or also to lay out, from now on."""
    requests: list[Region] = []
    refresh = widget.refresh

    def noted(*regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False) -> Widget:
        if widget.is_attached and ((repaint and not layout) or with_layout):
            requests.extend(regions or [Region(0, 0, 1, widget.size.height)])
        return refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)

    widget.refresh = noted  # type: ignore[method-assign]
    return requests


def painted_lines(widget: Painted, regions: Sequence[Region]) -> set[int]:
    """The lines of a widget that these regions cover; all lines if there are no regions."""
    return {y for region in regions for y in region.line_range} if regions else set(range(widget.size.height))
