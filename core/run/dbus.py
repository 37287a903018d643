"""The part of D-Bus that is needed for one method call to systemd over its private socket."""

from __future__ import annotations

import os
import socket
import struct
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

ALIGNMENTS = {"y": 1, "g": 1, "v": 1, "b": 4, "u": 4, "s": 4, "o": 4, "a": 4, "t": 8, "(": 8}
CALL, ERROR = 1, 3
NATIVE = ord("l" if sys.byteorder == "little" else "B")  # both ends are on one machine
HEADER_BYTES = 16
PATH, INTERFACE, MEMBER, SIGNATURE = 1, 2, 3, 8  # the fields of a header


class Refused(Exception):  # noqa: N818
    """systemd refuses a request; the text says why."""


class Connection:
    """The private socket of systemd, without a bus in between."""

    def __init__(self, path: str, timeout_seconds: float) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            self.socket.settimeout(timeout_seconds)
            self.socket.connect(path)
        except OSError:
            self.socket.close()
            raise

    def close(self) -> None:
        self.socket.close()

    @property
    def peer(self) -> tuple[int, int]:
        """The pid of the process at the other end, 0 if it is in another pid namespace, and its user id."""
        pid, uid, _ = struct.unpack("3i", self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        return pid, uid

    def authenticate(self) -> None:
        """Authenticate with our user id, which the kernel confirms."""
        self.socket.sendall(b"\0AUTH EXTERNAL %s\r\n" % str(os.geteuid()).encode().hex().encode())
        answer = b""
        while not answer.endswith(b"\r\n"):
            answer += self._exactly(1)
        if not answer.startswith(b"OK "):
            raise Refused("it did not accept our user id")
        self.socket.sendall(b"BEGIN\r\n")

    def send(self, message: bytes) -> None:
        self.socket.sendall(message)

    def receive(self) -> tuple[int, bytes, bytes]:
        """The next message: its kind, its header fields and its body."""
        start = self._exactly(HEADER_BYTES)
        body_bytes, _, field_bytes = struct.unpack("=3I", start[4:])
        fields = self._exactly(field_bytes + -field_bytes % 8)
        return start[1], fields, self._exactly(body_bytes)

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            part = self.socket.recv(count - len(data))
            if not part:
                raise Refused("it closed the connection")
            data += part
        return data


def call(path: str, interface: str, member: str, signature: str, *values: tuple[str, Any]) -> bytes:
    """The message for a method call; each value has its D-Bus type before it."""
    body = bytearray()
    for kind, value in values:
        put(body, kind, value)
    fields = [
        (PATH, ("o", path)),
        (INTERFACE, ("s", interface)),
        (MEMBER, ("s", member)),
        (SIGNATURE, ("g", signature)),
    ]
    message = bytearray(struct.pack("=4B2I", NATIVE, CALL, 0, 1, len(body), 1))
    put(message, "a(yv)", fields)
    message += bytes(-len(message) % 8)
    return bytes(message + body)


def put(out: bytearray, kind: str, value: Any) -> None:
    """Append a value in its D-Bus type, padded to the alignment of that type."""
    out += bytes(-len(out) % ALIGNMENTS[kind[0]])
    if kind in ("y", "b", "u", "t"):
        out += struct.pack({"y": "=B", "t": "=Q"}.get(kind, "=I"), value)
    elif kind in ("s", "o", "g"):
        data = str(value).encode()
        out += struct.pack("=B" if kind == "g" else "=I", len(data)) + data + b"\0"
    elif kind == "v":
        inner, held = value
        put(out, "g", inner)
        put(out, inner, held)
    elif kind[0] == "a":
        _put_array(out, kind[1:], value)
    else:  # a struct
        for inner, held in zip(kind[1:-1], value, strict=True):
            put(out, inner, held)


def _put_array(out: bytearray, kind: str, values: Any) -> None:
    place = len(out)
    out += bytes(4)
    out += bytes(-len(out) % ALIGNMENTS[kind[0]])
    start = len(out)
    for value in values:
        put(out, kind, value)
    out[place : place + 4] = struct.pack("=I", len(out) - start)


def strings(body: bytes, offset: int = 0) -> Iterator[str]:
    """The strings in a message body, from an offset on."""
    while offset + 4 <= len(body):
        (length,) = struct.unpack_from("=I", body, offset)
        yield body[offset + 4 : offset + 4 + length].decode(errors="replace")
        offset += 4 + length + 1
        offset += -offset % 4
