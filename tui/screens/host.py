"""The Host screen: every device of a machine over the chosen time, as small charts; now, or at a moment of the past."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip

from jobtop.core.errors import StoreError
from jobtop.core.record import record
from jobtop.tui.actions import APP, CHART, HOST, TEXT, bindings
from jobtop.tui.chart.window import Bounds, TimeWindow
from jobtop.tui.chart.window_keys import WindowKeys
from jobtop.tui.data.host_reading import LONGEST_SECONDS, HostHistory, HostReading, LiveHost
from jobtop.tui.data.slow_devices import SlowDevices
from jobtop.tui.data.view import View
from jobtop.tui.page import Page
from jobtop.tui.palette import Tone
from jobtop.tui.screens.host_sections import Section, sections
from jobtop.tui.widgets.cells import Span, aligned, width_of
from jobtop.tui.widgets.multiples import Line, core_line, tile_lines
from jobtop.tui.widgets.painting import Inks
from jobtop.tui.widgets.scrolled import SCROLLED, Scrolled
from jobtop.tui.workers import RepeatedWork

LEAST_TILE, GAP = 36, 2
LEAST_CORE = 30
NO_SAMPLES = (
    "No samples of this time.",
    "The host is recorded while a job runs: n runs one. ] shows a longer time.",
)
SHORT_WINDOW, FIRST_WINDOW = TimeWindow(60.0), TimeWindow(300.0)
FASTEST_SECONDS, SLOWEST_SECONDS = 0.9, 5.0  # between two readings


@record
class Band:
    """Lines that are drawn together: a heading, a row of tiles, or some cores."""

    section: Section
    first: int  # the number of its first tile or core
    count: int
    height: int
    is_heading: bool = False


class HostPane(WindowKeys, Scrolled, inherit_bindings=False):
    """The small charts of a host; only those that are visible are drawn."""

    DEFAULT_CSS = f"""
    HostPane {{ {SCROLLED} }}
    """
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(CHART, TEXT)]
    history: reactive[HostHistory | None] = reactive(None, repaint=False)
    window: reactive[TimeWindow] = reactive(FIRST_WINDOW, repaint=False, init=False)
    cursor: reactive[float | None] = reactive(None, repaint=False, init=False)

    class WindowChanged(Message):
        """Another part of the time is to be shown."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._sections: list[Section] = []
        self._bands: list[Band] = []
        self._banded_for: tuple[object, ...] = ()

    def watch_history(self) -> None:
        self._measure()

    def watch_window(self) -> None:
        self.post_message(self.WindowChanged())
        self._measure()

    def watch_cursor(self) -> None:
        self._measure()

    def on_resize(self) -> None:
        self._measure()

    @property
    def known_bounds(self) -> Bounds | None:
        """The time that can be shown: of all that is stored, the last day."""
        if self.history is None:
            return None
        first, last = self.history.known
        return (max(first, last - LONGEST_SECONDS), last) if self.window.span is None else (first, last)

    @property
    def bounds(self) -> Bounds | None:
        return self.window.bounds(self.known_bounds, is_live=True) if self.known_bounds else None

    @property
    def cursor_steps(self) -> int:
        return LEAST_TILE

    def draw(self, inks: Inks, width: int, height: int) -> Sequence[Strip]:
        """The visible lines."""
        bounds = self.bounds
        if bounds is None or not self._bands:
            lines: list[Line] = (
                [] if self.history is None else [aligned([Span(t, Tone.GREY)], width) for t in NO_SAMPLES]
            )
            return [inks.strip(line, width) for line in lines]
        top, bottom = self.scroll_offset.y, self.scroll_offset.y + height
        shown: list[Line] = []
        y = 0
        for band in self._bands:
            if y < bottom and y + band.height > top:
                lines = band_lines(band, bounds, width, inks.ascii, self.cursor)
                shown += lines[max(0, top - y) : bottom - y]
            y += band.height
        return [inks.strip(line, width) for line in shown]

    def _measure(self) -> None:
        """Lay the charts out anew, and label the border."""
        width = self.drawn_size.width
        if width and self.history is not None:
            self._sections = [] if self.history.is_empty else sections(self.history, self.cursor)
            self._bands = list(bands(self._sections, width))
            self.virtual_size = Size(1, sum(band.height for band in self._bands))
            self.scroll_y = min(self.scroll_y, self.max_scroll_y)
        self._label()
        self.repaint()

    def _label(self) -> None:
        history, bounds = self.history, self.bounds
        if history is None or bounds is None:
            self.set_title([Span("host", Tone.GREY)])
            return
        self.set_title([Span("host ", Tone.GREY), Span(history.host, Tone.TEXT, True)])
        if self.cursor is not None:
            self.set_subtitle([Span(f"at {clock(self.cursor)}", Tone.ORANGE)])
            return
        is_past = self.window.end is not None
        ends = f"{clock(bounds[0])} – {clock(bounds[1])}" if is_past else f"the last {self.window.words}"
        if self.window.span is None and not is_past:
            ends = f"all since {clock(bounds[0])}"
        self.set_subtitle([Span(ends, Tone.ORANGE if is_past else Tone.GREY), Span(" · [ ] changes it", Tone.GREY)])


def bands(shown: Sequence[Section], width: int) -> Iterator[Band]:
    """The lines of all sections from top to bottom."""
    for section in shown:
        yield Band(section, 0, 0, 1, is_heading=True)
        if section.cores:
            each = across(width, LEAST_CORE, 1)
            for first in range(0, len(section.cores), each):
                yield Band(section, first, each, 1)
        else:
            each = across(width, LEAST_TILE, section.group)
            for first in range(0, len(section.tiles), each):
                yield Band(section, first, each, 4)


def across(width: int, least: int, group: int) -> int:
    """How many fit side by side: whole groups, or an even part of one."""
    fits = max(1, (width + GAP) // (least + GAP))
    if fits >= group:
        return fits // group * group
    return max(number for number in range(1, fits + 1) if group % number == 0)


def band_lines(band: Band, bounds: Bounds, width: int, is_ascii: bool, cursor: float | None) -> list[Line]:
    """The lines of a band, each exactly `width` cells."""
    section = band.section
    if band.is_heading:
        title = [Span(section.title, Tone.TEXT, True), Span(f"  {section.note} " if section.note else " ", Tone.GREY)]
        return [aligned([*title, Span("─" * max(0, width - width_of(title)), Tone.FAINT)], width)]
    inner = (width + GAP) // band.count - GAP
    parts: list[list[Line]]
    if section.cores:
        digits = max(len(core.name) for core in section.cores)
        chosen = section.cores[band.first : band.first + band.count]
        parts = [[core_line(core, bounds, inner, digits)] for core in chosen]
    else:
        tiles = section.tiles[band.first : band.first + band.count]
        parts = [tile_lines(tile, bounds, inner, is_ascii, cursor) for tile in tiles]
    lines: list[Line] = []
    for row in range(band.height):
        line: Line = []
        for part in parts:
            line += [*([Span(" " * GAP)] if line else []), *part[row]]
        lines.append(aligned(line, width))
    return lines


def clock(moment: float) -> str:
    """`12:41:09`, with the date if it is not today."""
    at = time.localtime(moment)
    is_today = at[:3] == time.localtime()[:3]
    return time.strftime("%H:%M:%S" if is_today else "%Y-%m-%d %H:%M", at)


def fitting_window(history: HostHistory, now: float) -> TimeWindow:
    """The window that a fresh screen shows: a short one as long as a long one would be almost empty."""
    starts = [curve.times[0] for part in history.devices for curve in part.curves.values() if curve.times]
    return FIRST_WINDOW if starts and now - min(starts) > (SHORT_WINDOW.span or 0.0) else SHORT_WINDOW


class HostScreen(Page):
    """The screen of one host; the next store or host is a key away."""

    name_in_tabs = "host"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(APP, HOST)]

    def __init__(self, window: TimeWindow | None = None) -> None:
        super().__init__()
        self.first_window = window or SHORT_WINDOW
        self._may_fit = window is None
        self.live = LiveHost()
        self.reading = HostReading()
        self.places: list[tuple[Path, str | None]] = []
        self.place = 0
        self.read_at = -float("inf")
        self.slow: SlowDevices | None = None
        self.reading_work = RepeatedWork(self, self.read_history, "reading")

    def panes(self) -> ComposeResult:
        yield HostPane(id="host")

    @property
    def pane(self) -> HostPane:
        return self.query_one(HostPane)

    def on_mount(self) -> None:
        self.places = [(store, None) for store in self.own_first()]
        self.pane.window = self.first_window
        self.pane.focus()
        self.reading_work.request()

    def own_first(self) -> list[Path]:
        """The opened stores; that of this host comes first."""
        options = self.console.options
        own = options.own.store if options.own is not None else None
        return sorted(options.stores, key=lambda store: store != own)

    def show(self, view: View) -> None:
        super().show(view)
        if view.machine is not None and self.is_own:
            self.live.see(view.machine, self.read_slow_devices())
        if time.monotonic() - self.read_at >= self.pace_seconds:
            self.reading_work.request()

    def read_slow_devices(self) -> Mapping[str, tuple[int, int]]:
        """Take over what is read slowly of this machine; return the space of its disks."""
        options = self.console.options
        without = options.config.texts("monitor.without") if options.config is not None else ()
        if options.machine is not None or {"host", "devices"}.intersection(without):  # simulated, or switched off
            return {}
        self.slow = self.slow or SlowDevices()
        if (found := self.slow.poll()) is not None:
            for device, values in found[1]:
                self.live.add(device, found[0], values)
        return self.slow.space

    def on_unmount(self) -> None:
        if self.slow is not None:
            self.slow.close()

    @property
    def pace_seconds(self) -> float:
        """The time between two readings: longer for a long window, and for a machine with very many devices."""
        history, span = self.pane.history, self.pane.window.span
        devices = len(history.devices) if history is not None else 0
        return max(FASTEST_SECONDS, min(SLOWEST_SECONDS, max((span or LONGEST_SECONDS) / 600, devices / 40)))

    @property
    def is_own(self) -> bool:
        """Whether the shown host is the one that the console runs on."""
        own = self.console.options.own
        return own is not None and bool(self.places) and self.places[self.place] == (own.store, None)

    def on_host_pane_window_changed(self) -> None:
        self.reading_work.request()

    async def read_history(self) -> None:
        """Read the window of the shown host; what the console reads itself continues it."""
        if not self.places or not self.query(HostPane):
            return
        window, now, self.read_at = self.pane.window, self.now, time.monotonic()
        window = FIRST_WINDOW if self.is_fitted else window
        store, _ = self.places[self.place]
        history = HostHistory(store.stem, (now, now))
        with suppress(StoreError, OSError):  # the line at the top names a store that cannot be read
            history = await self.console.reader.read(
                store, lambda database: self.reading.read(database, window.span, window.end, now)
            )
        if self.query(HostPane):
            end = now if window.end is None else window.end
            start = end - (window.span or LONGEST_SECONDS)
            history = self.live.joined(history, start, end) if self.is_own else history
            if self.is_fitted:
                self.first_window = self.pane.window = fitting_window(history, now)
            self.pane.history = history

    @property
    def is_fitted(self) -> bool:
        """Whether the window is chosen by what there is: until the user chooses one."""
        self._may_fit = self._may_fit and self.pane.window == self.first_window
        return self._may_fit

    @property
    def now(self) -> float:
        view = self.console.view
        return time.time() if view is None else view.at

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer the next host only if there is one."""
        return action != "next_host" or len(self.places) > 1

    def action_next_host(self) -> None:
        """Show the next of the opened stores."""
        self.place = (self.place + 1) % max(1, len(self.places))
        self.reading = HostReading()
        self.reading_work.request()
