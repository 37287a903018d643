"""Reads TCP and UDP sockets from the kernel by netlink (sock_diag), and parses its messages.

The layouts are those of linux/netlink.h, linux/inet_diag.h and linux/tcp.h. Numbers are in the byte order of the
machine, addresses and ports in network order.
"""

from __future__ import annotations

import errno
import os
import socket
import struct

from jobtop.core.record import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

NETLINK_SOCK_DIAG = 4
SOCK_DIAG_BY_FAMILY = 20
TCPDIAG_GETSOCK = 18  # the older request, which has no family: one walk through the kernel's table lists both
NLMSG_NOOP, NLMSG_ERROR, NLMSG_DONE, NLMSG_OVERRUN = 1, 2, 3, 4
NLM_F_REQUEST_DUMP = 0x301
INET_DIAG_INFO = 2
MESSAGE = struct.Struct("=LHHLL")  # length, type, flags, sequence, port
SOCKET = struct.Struct("=BB2x4x32x4xQ12xII")  # family, state, cookie, uid, inode
PORTS = struct.Struct(">HH")
ATTRIBUTE = struct.Struct("=HH")
COUNTS = struct.Struct("=QQII")  # bytes acknowledged, bytes received, segments sent, segments received
SENT = struct.Struct("=QQ")  # bytes sent, bytes sent again
COUNTS_AT, SENT_AT, RTT_AT, RETRANSMITTED_AT = 120, 200, 68, 100
SOCKET_BYTES = 72
IPV4, IPV6 = int(socket.AF_INET), int(socket.AF_INET6)
TCP, UDP = socket.IPPROTO_TCP, socket.IPPROTO_UDP
ESTABLISHED, SYN_SENT, TIME_WAIT, CLOSED, LISTEN = 1, 2, 6, 7, 10
STATES = {
    1: "established",
    2: "connecting",
    3: "accepting",
    4: "closing",
    5: "closing",
    6: "time-wait",
    7: "closed",
    8: "peer closed",
    9: "closing",
    10: "listening",
    11: "closing",
    12: "accepting",
}
ALL_STATES = 0xFFF
# A socket in TIME_WAIT belongs to no process and moves no bytes; a busy server has thousands of them.
COUNTED_STATES = ALL_STATES & ~(1 << TIME_WAIT)
RECEIVE_BYTES = 256 * 1024
ANSWER_SECONDS = 2.0
REMEDIES = {errno.ENOENT: "as root: modprobe tcp_diag", errno.EPROTONOSUPPORT: "use a kernel with CONFIG_INET_DIAG"}


class DiagProblem(Exception):  # noqa: N818 - named like the problems of other sources
    """Sockets cannot be read; `remedy` says how to change that, if that is known."""

    def __init__(self, why: str, remedy: str | None = None) -> None:
        super().__init__(why)
        self.remedy = remedy


@record
class Counts:
    """What a TCP connection, or many, carried so far: payload without what was sent again, and segments."""

    received: int = 0
    sent: int = 0
    segments_received: int = 0
    segments_sent: int = 0

    def minus(self, other: Counts) -> Counts:
        return Counts(
            self.received - other.received,
            self.sent - other.sent,
            self.segments_received - other.segments_received,
            self.segments_sent - other.segments_sent,
        )

    def plus(self, other: Counts) -> Counts:
        return Counts(
            self.received + other.received,
            self.sent + other.sent,
            self.segments_received + other.segments_received,
            self.segments_sent + other.segments_sent,
        )


class DiagSocket:
    """One socket as the kernel describes it; addresses and counts are read from the message when they are asked for."""

    __slots__ = ("cookie", "family", "inode", "message", "state", "uid")

    def __init__(self, message: bytes) -> None:
        self.family, self.state, self.cookie, self.uid, self.inode = SOCKET.unpack_from(message)
        self.message = message

    @property
    def ports(self) -> tuple[int, int]:
        """The local and the remote port."""
        local, remote = PORTS.unpack_from(self.message, 4)
        return local, remote

    @property
    def addresses(self) -> tuple[bytes, bytes]:
        """The local and the remote address: 4 or 16 bytes."""
        length = 16 if self.family == IPV6 else 4
        return self.message[8 : 8 + length], self.message[24 : 24 + length]

    @property
    def counts(self) -> Counts | None:
        """What it carried; None if the kernel does not say (before Linux 4.1), or if it is no TCP connection."""
        info = attribute(self.message, INET_DIAG_INFO)
        if info is None or len(info) < COUNTS_AT + COUNTS.size:
            return None
        acknowledged, received, segments_sent, segments_received = COUNTS.unpack_from(info, COUNTS_AT)
        if len(info) >= SENT_AT + SENT.size:  # Linux 4.19; what is acknowledged has a SYN and a FIN in it
            sent, again = SENT.unpack_from(info, SENT_AT)
            acknowledged = max(0, sent - again)
        return Counts(received, acknowledged, segments_received, segments_sent)

    @property
    def round_trip_seconds(self) -> float | None:
        """The smoothed round trip time of a TCP connection."""
        info = attribute(self.message, INET_DIAG_INFO)
        return None if info is None or len(info) < RTT_AT + 4 else struct.unpack_from("=I", info, RTT_AT)[0] / 1e6

    @property
    def retransmitted(self) -> int | None:
        """Segments of a TCP connection that were sent again."""
        info = attribute(self.message, INET_DIAG_INFO)
        if info is None or len(info) < RETRANSMITTED_AT + 4:
            return None
        again: int = struct.unpack_from("=I", info, RETRANSMITTED_AT)[0]
        return again


def attribute(message: bytes, kind: int) -> bytes | None:
    """The content of one attribute after the description of a socket; None if it is not there or torn."""
    at, end = SOCKET_BYTES, len(message)
    while at + ATTRIBUTE.size <= end:
        length, found = ATTRIBUTE.unpack_from(message, at)
        if length < ATTRIBUTE.size or at + length > end:
            return None
        if found == kind:
            return message[at + ATTRIBUTE.size : at + length]
        at += (length + 3) & ~3
    return None


def messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The types and contents of the messages in a datagram; DiagProblem if one is torn."""
    at, end = 0, len(data)
    while at < end:
        if end - at < MESSAGE.size:
            raise DiagProblem("the kernel's answer is torn (sock_diag)")
        length, kind, *_ = MESSAGE.unpack_from(data, at)
        if length < MESSAGE.size or at + length > end:
            raise DiagProblem("the kernel's answer is torn (sock_diag)")
        yield kind, data[at + MESSAGE.size : at + length]
        at += (length + 3) & ~3


def sockets_in(data: bytes) -> tuple[list[DiagSocket], bool]:
    """The sockets in a datagram, and whether it is the last one of an answer; DiagProblem if the kernel refuses."""
    found = []
    for kind, content in messages(data):
        if kind in (SOCK_DIAG_BY_FAMILY, TCPDIAG_GETSOCK):
            if len(content) < SOCKET_BYTES:
                raise DiagProblem("the kernel describes a socket in too few bytes (sock_diag)")
            found.append(DiagSocket(content))
        elif kind in (NLMSG_DONE, NLMSG_ERROR):
            number = -struct.unpack_from("=i", content)[0] if len(content) >= 4 else 0
            if number:
                raise problem_of(number)
            return found, True
        elif kind == NLMSG_OVERRUN:
            raise DiagProblem("the kernel lost a part of its answer (sock_diag)")
    return found, False


def problem_of(number: int) -> DiagProblem:
    """What an error number means for sock_diag."""
    if number == errno.ENOENT:
        return DiagProblem("the kernel cannot list TCP sockets (no tcp_diag)", REMEDIES[number])
    return DiagProblem(f"sock_diag: {os.strerror(number)}", REMEDIES.get(number))


def open_netlink() -> socket.socket:
    """A netlink socket for sock_diag; DiagProblem if there is none here."""
    if not hasattr(socket, "AF_NETLINK"):
        raise DiagProblem("sock_diag is an interface of Linux")
    try:
        opened = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, NETLINK_SOCK_DIAG)
    except OSError as error:
        raise problem_of(error.errno or errno.EIO) from error
    opened.settimeout(ANSWER_SECONDS)
    return opened


def list_sockets(protocol: int, states: int = COUNTED_STATES) -> list[DiagSocket]:
    """All sockets of a protocol in this network namespace, IPv4 and IPv6, in these states; DiagProblem if that fails.

    The netlink socket is opened for each list: nothing of an earlier answer can be left in it.
    """
    if protocol == TCP:
        try:
            return _list_tcp(states)
        except DiagProblem:  # families one by one tell what is wrong
            pass
    with open_netlink() as netlink:
        found = _list_family(netlink, IPV4, protocol, states)
        try:
            return found + _list_family(netlink, IPV6, protocol, states)
        except DiagProblem:
            if not os.path.exists("/proc/net/if_inet6"):  # a kernel without IPv6
                return found
            raise


def _list_tcp(states: int) -> list[DiagSocket]:
    """The TCP sockets of both families: half of the time of two lists, as most of it is spent on empty buckets."""
    asked = struct.pack("=BBBB48xII", 0, 0, 0, 1 << (INET_DIAG_INFO - 1), states, 0)
    with open_netlink() as netlink:
        return _answer(netlink, TCPDIAG_GETSOCK, asked)


def _list_family(netlink: socket.socket, family: int, protocol: int, states: int) -> list[DiagSocket]:
    extensions = 1 << (INET_DIAG_INFO - 1) if protocol == TCP else 0
    asked = struct.pack("=BBBxI48x", family, protocol, extensions, states)
    return _answer(netlink, SOCK_DIAG_BY_FAMILY, asked)


def _answer(netlink: socket.socket, kind: int, asked: bytes) -> list[DiagSocket]:
    header = MESSAGE.pack(MESSAGE.size + len(asked), kind, NLM_F_REQUEST_DUMP, 1, 0)
    found: list[DiagSocket] = []
    try:
        netlink.send(header + asked)
        is_last = False
        while not is_last:
            sockets, is_last = sockets_in(netlink.recv(RECEIVE_BYTES))
            found += sockets
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else "no answer"
        raise DiagProblem(f"sock_diag: {why}") from error
    return found
