"""Messages of the kernel about sockets (sock_diag), captured or made for a test."""

import struct
from pathlib import Path

from jobtop.core.measure.collectors.network.sock_diag import ESTABLISHED, MESSAGE, SOCK_DIAG_BY_FAMILY, DiagSocket

DATA = Path(__file__).parent / "data/network"
INFO_BYTES = 280


def captured(name: str) -> bytes:
    """A message as a Linux 6.18 wrote it."""
    return bytes.fromhex((DATA / f"{name}.hex").read_text())


def diag_socket(
    cookie: int,
    inode: int = 0,
    received: int = 0,
    sent: int = 0,
    state: int = ESTABLISHED,
    port: int = 40000,
    uid: int = 0,
    info_bytes: int = INFO_BYTES,
) -> DiagSocket:
    """An IPv4 socket that the kernel describes so; with fewer bytes of `tcp_info`, an older kernel."""
    described = struct.pack("=BBBB", 2, state, 0, 0) + struct.pack(">HH", port, 80) + bytes(32)
    described += struct.pack("=IQIIIII", 0, cookie, 0, 0, 0, uid, inode)
    info = bytearray(INFO_BYTES)
    struct.pack_into("=QQII", info, 120, sent + 1, received, 3, 4)
    struct.pack_into("=QQ", info, 200, sent + 7, 7)
    content = bytes(info[:info_bytes])
    return DiagSocket(described + struct.pack("=HH", len(content) + 4, 2) + content)


def answer(*contents: bytes, kind: int = SOCK_DIAG_BY_FAMILY) -> bytes:
    """The messages with these contents, as one datagram."""
    padded = ((content, content + bytes(-len(content) % 4)) for content in contents)
    return b"".join(MESSAGE.pack(MESSAGE.size + len(content), kind, 2, 1, 1) + text for content, text in padded)
