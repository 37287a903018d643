"""The chart of the console: curves over time, with a movable window and a cursor that shows values."""

from collections.abc import Sequence
from typing import ClassVar

from textual import events
from textual.binding import BindingType
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip

from jobtop.core.units import format_duration
from jobtop.tui.actions import CHART, bindings
from jobtop.tui.chart.axes import ago_words
from jobtop.tui.chart.plotting import ChartView, Plot, empty_lines, legend
from jobtop.tui.chart.window import Bounds, TimeWindow
from jobtop.tui.chart.window_keys import WindowKeys
from jobtop.tui.palette import Tone
from jobtop.tui.widgets.cells import Span
from jobtop.tui.widgets.painting import FRAME, Inks, Painted


class Chart(WindowKeys, Painted, can_focus=True):
    """The curves of one view; its border has the legend, and the moment under the cursor."""

    DEFAULT_CSS = f"Chart {{ width: 1fr; {FRAME} }}"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(CHART)]

    view: reactive[ChartView] = reactive(ChartView, repaint=False, always_update=True)
    window: reactive[TimeWindow] = reactive(TimeWindow, repaint=False, init=False)
    cursor: reactive[float | None] = reactive(None, repaint=False, init=False)

    class CursorMoved(Message):
        """The cursor is at another moment, or switched off."""

        def __init__(self, chart: "Chart", moment: float | None) -> None:
            super().__init__()
            self.chart = chart
            self.moment = moment

        @property
        def control(self) -> "Chart":
            return self.chart

    class WindowChanged(Message):
        """Another part of the time is shown; the owner may read samples of another resolution for it."""

        def __init__(self, chart: "Chart", window: TimeWindow) -> None:
            super().__init__()
            self.chart = chart
            self.window = window

        @property
        def control(self) -> "Chart":
            return self.chart

    def watch_view(self) -> None:
        self.repaint()

    def watch_window(self, window: TimeWindow) -> None:
        self.post_message(self.WindowChanged(self, window))
        self.repaint()

    def watch_cursor(self, moment: float | None) -> None:
        self.post_message(self.CursorMoved(self, moment))
        self.repaint()

    def draw(self, inks: Inks, width: int, height: int) -> Sequence[Strip]:
        """The plot of the window; its border has the legend."""
        self._label_border()
        plot = self._plot()
        if plot is None:
            lines = empty_lines(self.view.empty, width, height)
        else:
            lines = plot.lines(self.cursor) if plot.fits else []
        return [inks.strip(line, width) for line in lines]

    @property
    def bounds(self) -> Bounds | None:
        """The start and end of the shown time."""
        known = self.view.known()
        return self.window.bounds(known, self.view.is_live) if known else None

    def _plot(self) -> Plot | None:
        bounds, size = self.bounds, self.drawn_size
        if bounds is None or not size:
            return None
        return Plot(self.view, bounds, size.width, size.height, self.inks.ascii, self.is_live)

    @property
    def is_live(self) -> bool:
        """Whether the right edge is now; a window that was moved into the past is not live."""
        return self.view.is_live and self.window.end is None

    def _label_border(self) -> None:
        self.set_title(legend(self.view, self.cursor, self.drawn_size.width - 4))
        if self.cursor is None:
            self.set_subtitle([Span(self.view.note, Tone.GREY)])
        else:
            self.set_subtitle([Span(self._cursor_words, Tone.ORANGE)])

    @property
    def _cursor_words(self) -> str:
        known, moment = self.view.known(), self.cursor
        if known is None or moment is None:
            return ""
        return f"{ago_words(round(known[1] - moment))} ago" if self.view.is_live else f"at {format_duration(moment)}"

    @property
    def known_bounds(self) -> Bounds | None:
        return self.view.known()

    @property
    def cursor_steps(self) -> int:
        plot = self._plot()
        return 0 if plot is None else plot.columns

    def on_click(self, event: events.Click) -> None:
        """Put the cursor where the user clicked."""
        offset, plot, known = event.get_content_offset(self), self._plot(), self.view.known()
        if offset is not None and plot is not None and known is not None:
            column = offset.x - plot.left
            if 0 <= column < plot.columns:
                self.cursor = max(known[0], min(plot.moment(column), known[1]))

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.action_zoom_in()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.action_zoom_out()


class SmallChart(Chart, can_focus=False, inherit_bindings=False):
    """A small chart without keys; a click asks its owner to show more."""

    class Pressed(Message):
        """The user clicked the chart."""

        def __init__(self, chart: "SmallChart") -> None:
            super().__init__()
            self.chart = chart

        @property
        def control(self) -> "SmallChart":
            return self.chart

    def on_click(self, event: events.Click) -> None:
        event.prevent_default()
        self.post_message(self.Pressed(self))

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.prevent_default()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.prevent_default()
