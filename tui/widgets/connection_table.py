"""The open sockets of a job, with what they carry."""

from __future__ import annotations

from collections.abc import Sequence

from jobtop.core.measure.live_connections import ConnectionLine
from jobtop.core.units import ABSENT
from jobtop.tui.data.rows import ListRows
from jobtop.tui.palette import Tone
from jobtop.tui.widgets.cells import Align, Cell, Pieces, Span, Words, short_bytes
from jobtop.tui.widgets.columns import Column
from jobtop.tui.widgets.panes import PlainTable

LONGEST_ADDRESS = 500
QUIET = ("listening", "open", "connected")


def columns() -> tuple[Column[ConnectionLine], ...]:
    """The columns; totals, protocol and pid are dropped first if there is little room."""
    return (
        Column("rx", "RECV", lambda line: rate(line.receive_rate), 7, align=Align.RIGHT),
        Column("tx", "SEND", lambda line: rate(line.send_rate), 7, align=Align.RIGHT),
        Column("received", "TOTAL↓", lambda line: total(line.received_bytes), 6, align=Align.RIGHT, priority=2),
        Column("sent", "TOTAL↑", lambda line: total(line.sent_bytes), 6, align=Align.RIGHT, priority=3),
        Column("protocol", "PROTO", lambda line: Words(line.protocol, Tone.GREY), 5, priority=1),
        Column("pid", "PID", lambda line: Words(str(line.pid or ""), Tone.GREY), 7, align=Align.RIGHT, priority=4),
        Column("address", "REMOTE, LOCAL", address, 30, flex=1),
    )


def rate(value: float | None) -> Cell:
    """Bytes a second; a dash where the kernel counts none."""
    return Words(ABSENT if value is None else f"{short_bytes(value)}/s", Tone.BLUE if value else Tone.GREY)


def total(size: int | None) -> Cell:
    return Words(short_bytes(size))


def address(line: ConnectionLine) -> Cell:
    """Where it leads to, then where it begins, and its state if that is not the usual one."""
    state = [] if line.state == "established" else [Span(f" {line.state}", state_tone(line.state))]
    local = Span(line.local[:LONGEST_ADDRESS], Tone.GREY if line.remote else Tone.TEXT)
    if line.remote is None:
        return Pieces([local, *state])
    return Pieces([Span(line.remote[:LONGEST_ADDRESS]), Span(" ← ", Tone.FAINT), local, *state])


def state_tone(state: str) -> Tone:
    return Tone.GREY if state in QUIET else Tone.YELLOW


class ConnectionTable(PlainTable[ConnectionLine]):
    """The open sockets of a job, those with the highest rate first."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(columns(), id=id)

    def show(self, lines: Sequence[ConnectionLine], empty: str, others: str = "") -> None:
        """Show these sockets, or the reason why there are none; `others` are the panes that share its place."""
        self.empty = empty
        numbered = list(enumerate(lines))
        by_line = {id(line): number for number, line in numbered}
        self.source = ListRows(lines, lambda line: (line.protocol, line.local, line.remote, by_line.get(id(line))))
        count = Span(f" {len(lines)}" if lines else "", Tone.GREY)
        self.set_title([Span("Connections", Tone.TEXT, True), count, Span(others, Tone.FAINT)])
        self.set_subtitle([Span("open now" if lines else "", Tone.GREY)])
