"""A server on a unix socket that answers with given bytes, as no engine should: for what a client must survive."""

import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

Answer = bytes | None  # None: accept, and never answer; empty: close the connection


def http(body: bytes, status: str = "200 OK", *headers: str) -> bytes:
    """A whole answer."""
    lines = [f"HTTP/1.1 {status}", "Content-Type: application/json", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def chunked(*pieces: bytes, is_whole: bool = True) -> bytes:
    """An answer in chunks; one that is not whole ends in the middle of a chunk."""
    chunks = b"".join(f"{len(piece):x}\r\n".encode() + piece + b"\r\n" for piece in pieces)
    end = b"0\r\n\r\n" if is_whole else b"ff\r\n{"
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + end


OPENING = ("/_ping", "/version")  # what a client asks first; this engine has no version in the first answer
VERSION = http(b'{"Version": "20.10.24", "ApiVersion": "1.41"}')


@contextmanager
def raw_engine(path: Path, answer: Callable[[str], Answer]) -> Iterator[str]:
    """The address of a server; `answer` is given the path of each request without the version of the API.

    A connection whose answer says `Connection: close`, is not whole or is chunked is closed after it.
    """
    ended = threading.Event()
    connections: list[socket.socket] = []

    def serve(connection: socket.socket) -> None:
        with suppress(OSError), connection:
            while request := connection.recv(1 << 16):
                found = re.match(rb"\w+ (?:/v[\d.]+)?(\S*)", request)
                said = answer("" if found is None else found[1].decode())
                if said is None:
                    ended.wait(30)
                    return
                connection.sendall(said)
                if b"Content-Length" not in said:
                    return

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection, _ = server.accept()
                connections.append(connection)
                threading.Thread(target=serve, args=(connection,), daemon=True).start()

    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.bind(str(path))
        server.listen(128)
        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        try:
            yield f"unix://{path}"
        finally:
            ended.set()
            with suppress(OSError):
                server.shutdown(socket.SHUT_RDWR)
            thread.join(5)
            for connection in connections:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
