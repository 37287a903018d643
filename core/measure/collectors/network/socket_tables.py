"""Parses the tables of sockets in /proc/PID/net: tcp, udp and unix; they have no byte counts."""

from __future__ import annotations

import socket
import struct

from jobtop.core.measure.collectors.network.sock_diag import STATES
from jobtop.core.record import record

UNIX_LISTENS = 0x10000  # __SO_ACCEPTCON
UNIX_CONNECTED = "03"
UNIX_TYPES = {"0001": "stream", "0002": "datagram", "0005": "packets"}
UDP_CONNECTED = 1


@record
class SocketRow:
    """A socket in a table; addresses are text, `remote` is None where the socket is connected to nothing."""

    inode: int
    local: str
    remote: str | None
    state: str


def parse_inet_table(text: str, is_udp: bool = False) -> list[SocketRow]:
    """The sockets in `tcp`, `tcp6`, `udp` or `udp6`; torn lines are left out."""
    rows = []
    for line in text.splitlines()[1:]:
        words = line.split()
        try:
            local, remote = address_in(words[1]), address_in(words[2])
            state, inode = int(words[3], 16), int(words[9])
        except (IndexError, ValueError, struct.error):
            continue
        is_bare = words[2].endswith(":0000")
        rows.append(SocketRow(inode, local, None if is_bare else remote, state_text(state, is_udp)))
    return rows


def state_text(state: int, is_udp: bool = False) -> str:
    """The state of a socket as a word; a UDP socket is connected or not."""
    if is_udp:
        return "connected" if state == UDP_CONNECTED else "open"
    return STATES.get(state, "unknown")


def parse_unix_table(text: str) -> list[SocketRow]:
    """The sockets in `unix`; one without a path has its type as address."""
    rows = []
    for line in text.splitlines()[1:]:
        words = line.split(None, 7)
        try:
            flags, inode = int(words[3], 16), int(words[6])
        except (IndexError, ValueError):
            continue
        path = words[7] if len(words) > 7 else f"({UNIX_TYPES.get(words[4], 'socket')})"
        state = "listening" if flags & UNIX_LISTENS else "connected" if words[5] == UNIX_CONNECTED else "open"
        rows.append(SocketRow(inode, path, None, state))
    return rows


def address_in(word: str) -> str:
    """An address as the kernel prints it, `0100007F:1F90`: words in the byte order of the machine, and a port."""
    text, _, port = word.partition(":")
    numbers = [int(text[at : at + 8], 16) for at in range(0, len(text), 8)]
    if len(numbers) not in (1, 4):
        raise ValueError(word)
    return address_text(struct.pack(f"={len(numbers)}I", *numbers), int(port, 16))


def address_text(packed: bytes, port: int) -> str:
    """An address with its port; that of IPv6 in brackets."""
    if len(packed) == 4:
        return f"{socket.inet_ntop(socket.AF_INET, packed)}:{port}"
    return f"[{socket.inet_ntop(socket.AF_INET6, packed)}]:{port}"
