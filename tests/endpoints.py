"""Real servers on the loopback interface that accept messages, and can be told to misbehave: HTTP and SMTP."""

import json
import socketserver
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class WebEndpoint:
    """What an HTTP server has got, and what it answers: a status, `hang`, or `drip` (a byte at a time, for ever).

    If it is `slow`, it accepts a message at once, and answers when it is released.
    """

    behaviour: int | str = 200
    headers: dict[str, str] = field(default_factory=dict)  # of its answers
    body: str = "ok"
    requests: list[tuple[str, dict[str, str], Any]] = field(default_factory=list)
    asked: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)
    port: int = 0

    def url(self, path: str = "/hook") -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    @property
    def accepted(self) -> list[str]:
        """The keys of the messages that it accepted, in order, repeats included."""
        return [headers["Idempotency-Key"] for _, headers, _ in self.requests]


@contextmanager
def web_endpoint(port: int = 0, context: ssl.SSLContext | None = None) -> Iterator[WebEndpoint]:
    endpoint = WebEndpoint()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers["Content-Length"]))
            behaviour = endpoint.behaviour
            endpoint.asked.set()
            if behaviour == "hang":
                endpoint.released.wait(10)
                return
            if behaviour == "drip":
                self.wfile.write(b"HTTP/1.1 200 OK\r\n")
                while not endpoint.released.wait(0.02):
                    self.wfile.write(b"X")
                return
            status = 200 if behaviour == "slow" else int(behaviour)
            if status == 200:
                endpoint.requests.append((self.path, dict(self.headers), json.loads(content)))
            if behaviour == "slow":
                endpoint.released.wait(30)
            self.send_response(status)
            for name, value in endpoint.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(endpoint.body)))
            self.end_headers()
            self.wfile.write(endpoint.body.encode())

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads, block_on_close = True, False

        def handle_error(self, *_: object) -> None:
            """The other side may have closed the connection."""

    with _serving(Server(("127.0.0.1", port), Handler), context) as endpoint.port:
        try:
            yield endpoint
        finally:
            endpoint.released.set()


@dataclass
class MailServer:
    """What an SMTP server has got; with `drops`, it closes the connection in the middle of a mail."""

    drops: bool = False
    refusal: str | None = None  # the answer to MAIL FROM
    password: str | None = None  # offers AUTH PLAIN
    mails: list[tuple[list[str], bytes]] = field(default_factory=list)
    logins: list[str] = field(default_factory=list)
    starttls: ssl.SSLContext | None = None  # offers STARTTLS
    dropped: threading.Event = field(default_factory=threading.Event)
    port: int = 0


class MailHandler(socketserver.StreamRequestHandler):
    """One SMTP session."""

    disable_nagle_algorithm = True

    def say(self, text: str) -> None:
        self.wfile.write(f"{text}\r\n".encode())

    def handle(self) -> None:
        state: MailServer = self.server.state  # type: ignore[attr-defined]
        receivers: list[str] = []
        self.say("220 test")
        while line := self.rfile.readline():
            match line[:4].upper():
                case b"EHLO":
                    self.say("250-test")
                    self.say(f"250-{'STARTTLS' if state.starttls else '8BITMIME'}")
                    self.say("250 AUTH PLAIN LOGIN" if state.password else "250 SIZE 1000000")
                case b"STAR" if state.starttls is not None:
                    self.say("220 go on")
                    self.connection = state.starttls.wrap_socket(self.connection, server_side=True)
                    self.rfile = self.connection.makefile("rb")
                    self.wfile = self.connection.makefile("wb", buffering=0)
                case b"AUTH":
                    state.logins.append(line.decode().strip())
                    self.say("235 ok")
                case b"MAIL" if state.refusal:
                    self.say(state.refusal)
                case b"RCPT":
                    receivers.append(line.decode().strip())
                    self.say("250 ok")
                case b"DATA":
                    self.say("354 go on")
                    if not self.takes_mail(state, receivers):
                        return
                case b"QUIT":
                    self.say("221 bye")
                    return
                case _:
                    self.say("250 ok")

    def finish(self) -> None:
        super().finish()
        self.connection.close()  # with TLS, it is another one than that which the server closes

    def takes_mail(self, state: MailServer, receivers: list[str]) -> bool:
        if state.drops:
            self.rfile.readline()
            state.dropped.set()
            return False
        mail = b""
        while (part := self.rfile.readline()) not in (b".\r\n", b""):
            mail += part
        state.mails.append((receivers, mail))
        self.say("250 accepted")
        return True


@contextmanager
def mail_server(context: ssl.SSLContext | None = None) -> Iterator[MailServer]:
    state = MailServer()

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads, block_on_close, allow_reuse_address = True, False, True

        def handle_error(self, *_: object) -> None:
            """The other side may have closed the connection."""

    server = Server(("127.0.0.1", 0), MailHandler)
    server.state = state  # type: ignore[attr-defined]
    with _serving(server, context) as state.port:
        yield state


@contextmanager
def _serving(server: socketserver.TCPServer, context: ssl.SSLContext | None) -> Iterator[int]:
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
