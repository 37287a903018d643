"""The open sockets of a job, with what they carry."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len

from jobtop.core.measure.live.connections import ConnectionLine
from jobtop.core.record import record
from jobtop.core.units import ABSENT
from jobtop.tui.data.rows import ListRows
from jobtop.tui.palette import Tone
from jobtop.tui.widgets.cells import Align, Cell, Span, Words, aligned, cut_middle, safe_text, short_bytes, width_of
from jobtop.tui.widgets.columns import Column
from jobtop.tui.widgets.panes import PlainTable

LONGEST_ADDRESS = 500
LEAST_ADDRESS = 12  # cells for an address with a port that still says something
SHORTEST = 8  # cells for a port alone; the state is cut before it
ARROW = " ← "
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
    return Addresses(line)


@record
class Addresses:
    """The addresses of a socket; without room their middle is left out, never a port, or the local one altogether."""

    line: ConnectionLine

    def spans(self, width: int, align: Align) -> Sequence[Span]:
        line = self.line
        state = [] if line.state == "established" else [Span(f" {line.state}", state_tone(line.state))]
        room = max(width - width_of(state), SHORTEST)
        local = line.local[:LONGEST_ADDRESS]
        if line.remote is None:
            return aligned([Span(shortened(local, room)), *state], width, align)
        remote, room_of_both = line.remote[:LONGEST_ADDRESS], room - len(ARROW)
        if room_of_both < 2 * LEAST_ADDRESS:
            return aligned([Span(shortened(remote, room)), *state], width, align)
        half, wanted = room_of_both // 2, cell_len(safe_text(local))
        first = shortened(remote, max(half, room_of_both - wanted))
        second = shortened(local, room_of_both - cell_len(first))
        return aligned([Span(first), Span(ARROW, Tone.FAINT), Span(second, Tone.GREY), *state], width, align)


def shortened(address: str, width: int) -> str:
    """An address, or the path of a socket, without its middle if there is no room; its port stays."""
    host, colon, port = address.rpartition(":")
    is_port = colon and port.isdecimal()
    return cut_middle(address, width, len(port) + (2 if host.endswith("]") else 1) if is_port else 0)


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
