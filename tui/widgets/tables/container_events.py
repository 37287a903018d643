"""What happened to a container: what its engine said of it, and the events that were seen."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from jobtop.core.record import record
from jobtop.tui.data.rows import ListRows
from jobtop.tui.palette import STATUS_GLYPHS, Tone
from jobtop.tui.widgets.cells import Cell, Pieces, Span, Words
from jobtop.tui.widgets.columns import Column
from jobtop.tui.widgets.panes import PlainTable

if TYPE_CHECKING:
    from jobtop.core.measure.collectors.docker.model import Container, ContainerEvent
    from jobtop.core.measure.collectors.docker.snapshot import ContainerRow

DAY_SECONDS = 86400.0
TIME_CELLS = 8
SAME_SECONDS = 2.0  # an event this close to a time that the engine says is the same thing
WORDS = {
    "create": "created",
    "start": "started",
    "die": "exited",
    "died": "exited",
    "oom": "out of memory",
    "restart": "restarted",
    "pause": "paused",
    "unpause": "resumed",
    "kill": "got a signal",
    "stop": "stopped",
    "rename": "renamed",
    "update": "limits changed",
    "destroy": "removed",
    "cleanup": "cleaned up",
}
TONES = {"oom": ("▼", Tone.PURPLE), "die": STATUS_GLYPHS["failed"], "died": STATUS_GLYPHS["failed"]}
PLAIN_SIGN = ("·", Tone.GREY)


@record
class EventLine:
    """One event as it is shown."""

    number: int
    at: float
    words: str
    sign: str
    tone: Tone
    is_old: bool  # of another day


def columns() -> tuple[Column[EventLine], ...]:
    return (
        Column("time", "TIME", event_time, TIME_CELLS, sortable=False),
        Column("event", "EVENT", event_cell, 12, flex=1, sortable=False),
    )


def event_time(line: EventLine) -> Cell:
    return Words(time.strftime("%d %b" if line.is_old else "%H:%M:%S", time.localtime(line.at)), Tone.GREY)


def event_cell(line: EventLine) -> Cell:
    tone = Tone.TEXT if line.tone is Tone.GREY else line.tone
    return Pieces([Span(f"{line.sign} ", line.tone), Span(line.words, tone)])


def event_lines(row: ContainerRow, now: float) -> list[EventLine]:
    """The events in the order of time, after those that the engine's own times tell of."""
    found = [(event.at, event_words(event), sign_of(event)) for event in row.events]
    seen = [event.at for event in row.events if event.action in ("create", "start", "die", "died")]
    for at, words, sign in known_times(row.container):
        if not any(abs(at - other) < SAME_SECONDS for other in seen):
            found.append((at, words, sign))
    found.sort(key=lambda entry: entry[0])
    return [
        EventLine(number, at, words, *sign, now - at > DAY_SECONDS) for number, (at, words, sign) in enumerate(found)
    ]


def known_times(container: Container) -> list[tuple[float, str, tuple[str, Tone]]]:
    """When it was created and started, and when it ended."""
    found = [
        *([(container.created_at, "created", PLAIN_SIGN)] if container.created_at is not None else []),
        *([(container.started_at, "started", PLAIN_SIGN)] if container.started_at is not None else []),
    ]
    if container.finished_at is not None and not container.is_alive:
        code = "" if container.exit_code is None else f" with code {container.exit_code}"
        sign = STATUS_GLYPHS["failed" if container.exit_code else "success"]
        found.append((container.finished_at, f"exited{code}", sign))
    return found


def event_words(event: ContainerEvent) -> str:
    """`exited with code 137`, `unhealthy`, `got signal 15`."""
    if event.action == "health_status":
        return (event.detail or event.attributes.get("health_status") or "health checked").lower()
    if event.action in ("die", "died"):
        code = event.attributes.get("exitCode") or event.attributes.get("containerExitCode")
        return "exited" + (f" with code {code}" if code else "")
    if event.action == "kill" and (number := event.attributes.get("signal")):
        return f"got signal {number}"
    return WORDS.get(event.action, event.action)


def sign_of(event: ContainerEvent) -> tuple[str, Tone]:
    if event.action == "health_status":
        return STATUS_GLYPHS["error" if event_words(event) == "unhealthy" else "running"]
    is_fine = event.action in ("die", "died") and event_words(event).endswith("code 0")
    return STATUS_GLYPHS["success"] if is_fine else TONES.get(event.action, PLAIN_SIGN)


class ContainerEvents(PlainTable[EventLine]):
    """The events of a container, the newest at the bottom."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(columns(), empty="no events yet", id=id)
        self._shown: Sequence[EventLine] = ()

    def show(self, row: ContainerRow) -> None:
        lines = event_lines(row, time.time())
        if lines == self._shown:
            return
        self._shown = lines
        self.source = ListRows(lines, lambda line: line.number)
        self.set_title([Span("Events", Tone.TEXT, True), Span(f" {len(lines)}" if lines else "", Tone.GREY)])
