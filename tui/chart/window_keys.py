"""What the keys of charts do to the time that a pane shows, and to its cursor."""

from __future__ import annotations

from jobtop.tui.chart.window import PAN_SHARE, ZOOM, Bounds, TimeWindow


class WindowKeys:
    """A pane with a window of time and a cursor; `known_bounds` is the time that can be shown."""

    window: TimeWindow
    cursor: float | None

    @property
    def bounds(self) -> Bounds | None:
        """The start and end of the shown time."""
        raise NotImplementedError

    @property
    def known_bounds(self) -> Bounds | None:
        """The time that can be shown; None if there is nothing yet."""
        raise NotImplementedError

    @property
    def cursor_steps(self) -> int:
        """How many steps of the cursor go through the window."""
        raise NotImplementedError

    def action_shorter(self) -> None:
        self.window = self.window.shorter()

    def action_longer(self) -> None:
        self.window = self.window.longer()

    def action_zoom_in(self) -> None:
        self._zoom(1 / ZOOM)

    def action_zoom_out(self) -> None:
        self._zoom(ZOOM)

    def action_left(self) -> None:
        self._step(-1)

    def action_right(self) -> None:
        self._step(1)

    def action_toggle_cursor(self) -> None:
        """Show the values at the last visible moment, or switch the cursor off."""
        bounds = self.bounds
        self.cursor = bounds[1] if self.cursor is None and bounds else None

    def _zoom(self, factor: float) -> None:
        if known := self.known_bounds:
            self.window = self.window.zoomed(factor, known, self.cursor)

    def _step(self, direction: int) -> None:
        """Move the cursor, and the window if the cursor reaches its edge; without a cursor, move the window."""
        bounds, known = self.bounds, self.known_bounds
        if bounds is None or known is None or not self.cursor_steps:
            return
        start, end = bounds
        if self.cursor is not None:
            moment = self.cursor + direction * (end - start) / self.cursor_steps
            self.cursor = max(known[0], min(moment, known[1]))
            if start <= self.cursor <= end:
                return
        self.window = self.window.panned(direction * PAN_SHARE, known)
