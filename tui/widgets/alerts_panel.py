"""The panel of recent incidents beside the jobs: newest first, two lines each; Enter or a click opens the job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.binding import BindingType
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip

from jobtop.tui.actions import ALERTS, TABLE, bindings
from jobtop.tui.data.incidents import Incidents, clock_time, glyph_of, incident_text
from jobtop.tui.palette import CURSOR, Ground, Tone
from jobtop.tui.widgets.cells import Span, aligned
from jobtop.tui.widgets.painting import FRAME, Inks, Painted
from jobtop.tui.widgets.prose import wrapped

if TYPE_CHECKING:
    from jobtop.store.incidents import Incident

LINES = 2  # of each incident
EMPTY = "Nothing is wrong: no alerts, and no failures in the last 24 hours."
EMPTY_MORE = "Alerts that fire, and jobs that fail, are listed here."
UNREADABLE = "A store cannot be read, so alerts and failures are not known."
WITHOUT = frozenset({"mark", "sort", "reverse"})


class AlertsPanel(Painted, can_focus=True):
    """The newest incidents of the last day that fit, with a cursor that stays on its incident."""

    DEFAULT_CSS = f"AlertsPanel {{ {FRAME} }}"
    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings(TABLE),
        *(binding for binding in bindings(ALERTS) if binding.id == "alerts.acknowledge"),
    ]
    incidents: reactive[Incidents] = reactive(Incidents, repaint=False)

    class Opened(Message):
        """The user wants to open the job of an incident at that moment, or the machine."""

        def __init__(self, incident: Incident) -> None:
            super().__init__()
            self.incident = incident

    class Acknowledged(Message):
        """The user knows about an incident."""

        def __init__(self, incident: Incident) -> None:
            super().__init__()
            self.incident = incident

    def __init__(self, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._cursor = self._top = 0

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return action not in WITHOUT

    def watch_incidents(self, before: Incidents, incidents: Incidents) -> None:
        """Keep the cursor on its incident; a cursor on the newest incident stays on the newest."""
        if self._cursor:
            key = before.found[self._cursor].key
            places = (place for place, incident in enumerate(incidents.found) if incident.key == key)
            self._cursor = next(places, min(self._cursor, max(0, len(incidents) - 1)))
        self.repaint()

    def on_focus(self) -> None:
        self.repaint()

    def on_blur(self) -> None:
        self.repaint()

    def draw(self, inks: Inks, width: int, height: int) -> Sequence[Strip]:
        found = self.incidents.found
        self.set_title([Span("Alerts"), Span(f"  {self.incidents.words}" if found else "", Tone.GREY)])
        if not found:
            return [inks.strip(line, width) for line in self._empty_lines(width, height)]
        room = self._room
        self._top = max(0, min(self._top, self._cursor, len(found) - room), self._cursor - room + 1)
        strips: list[Strip] = []
        for place in range(self._top, min(len(found), self._top + room + 1)):
            is_here = place == self._cursor and self.has_focus
            ground = Ground.CURSOR if is_here else Ground.PLAIN
            lines = incident_lines(found[place], width, is_here, self.incidents.last_lines.get(found[place].key))
            strips += [inks.strip(line, width, ground) for line in lines]
        return strips

    @property
    def _room(self) -> int:
        """The number of incidents that fit completely."""
        return max(1, self.drawn_size.height // LINES)

    def _empty_lines(self, width: int, height: int) -> list[list[Span]]:
        if not self.incidents.is_known:
            return []
        first = UNREADABLE if self.incidents.is_unreadable else EMPTY
        inner = max(1, width - 2)
        lines = [Span(part) for part in wrapped(first, inner)]
        if not self.incidents.is_unreadable:
            lines += [Span(""), *(Span(part, Tone.GREY) for part in wrapped(EMPTY_MORE, inner))]
        return [aligned([Span(" "), line], width) for line in lines[:height]]

    def _move(self, place: int) -> None:
        self._cursor = max(0, min(place, len(self.incidents) - 1))
        self.repaint()

    def action_cursor_up(self) -> None:
        self._move(self._cursor - 1)

    def action_cursor_down(self) -> None:
        self._move(self._cursor + 1)

    def action_page_up(self) -> None:
        self._move(self._cursor - self._room)

    def action_page_down(self) -> None:
        self._move(self._cursor + self._room)

    def action_first(self) -> None:
        self._move(0)

    def action_last(self) -> None:
        self._move(len(self.incidents) - 1)

    def action_activate(self) -> None:
        if self.incidents.found:
            self.post_message(self.Opened(self.incidents.found[self._cursor]))

    def action_acknowledge(self) -> None:
        if self.incidents.found:
            self.post_message(self.Acknowledged(self.incidents.found[self._cursor]))

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is not None and (place := self._top + offset.y // LINES) < len(self.incidents):
            self._move(place)
            self.action_activate()

    def on_mouse_scroll_up(self) -> None:
        self.action_cursor_up()

    def on_mouse_scroll_down(self) -> None:
        self.action_cursor_down()


def incident_lines(
    incident: Incident, width: int, is_here: bool = False, last_line: str | None = None
) -> list[list[Span]]:
    """The two lines of an incident: `✗ 12:41:07 pg-dump`, and what happened; grey if it is acknowledged."""
    glyph, tone = glyph_of(incident)
    is_known = incident.is_acknowledged
    edge = Span(CURSOR if is_here else " ", Tone.ORANGE)
    name = Span(incident.name, Tone.GREY) if is_known else Span(incident.name, bold=True)
    head = [edge, Span(f"{glyph} ", Tone.GREY if is_known else tone), Span(f"{clock_time(incident)} ", Tone.GREY), name]
    words = incident_text(incident) + (f" · {last_line}" if last_line and not is_known else "")
    text = [edge, Span("  "), Span(words, Tone.FAINT if is_known else Tone.GREY)]
    return [aligned(head, width), aligned(text, width)]
