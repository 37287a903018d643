"""A container engine on a unix socket that answers from memory, for names, errors and hostile text.

What real engines do is tested with real engines; this one can hang, refuse, and have any name or output.
"""

import json
import queue
import re
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote

from support import wait_for


def container_id(number: int) -> str:
    return f"{number:x}".ljust(64, "0")


def container_row(name: str, number: int, **values: Any) -> dict[str, Any]:
    """A container as a list has it."""
    row = {"Id": container_id(number), "Names": [f"/{name}"], "Image": "box:1", "ImageID": "sha256:1", "Labels": {}}
    return {**row, "Command": "sleep 9", "Created": 1_790_000_000, "State": "running", "Status": "Up 5 min", **values}


class FakeEngine:
    """What the engine answers; `asked` has the requests, such as `POST /containers/ID/stop`."""

    def __init__(self, path: Path, rows: list[dict[str, Any]]) -> None:
        self.path, self.rows = path, rows
        self.url = f"unix://{path}"
        self.details: dict[str, dict[str, Any]] = {}  # by id: what `inspect` adds to the row
        self.states: dict[str, list[dict[str, Any]]] = {}  # by id: what `inspect` says in turn; the last one stays
        self.logs: dict[str, list[tuple[int, bytes]]] = {}  # by id: the output, in frames
        self.images: list[str] = ["box:1"]  # their names
        self.pull_error: str | None = None  # the words of status 500 when an image is pulled
        self.refusals: dict[str, str] = {}  # by action, such as pause: the words of status 409
        self.version: dict[str, Any] = {"Version": "20.10.24", "ApiVersion": "1.41", "Components": [{"Name": "Engine"}]}
        self.slow: dict[str, float] = {}  # by place, such as /info: seconds until it answers
        self.asked: list[str] = []
        self.stats: dict[str, Any] = {}  # by id: what it uses
        self.told: list[dict[str, Any]] = []  # events that it remembers
        self.telling = threading.Lock()
        self.listeners: list[queue.SimpleQueue[bytes | None]] = []  # one for each stream of events
        self.released, self.ended = threading.Event(), threading.Event()
        self.released.set()

    def hang(self) -> None:
        """Accept connections and answer nothing, until the end of the test."""
        self.released.clear()

    def emit(self, action: str, container: str, **attributes: str) -> None:
        """Tell all that listen of an event; the action may have a suffix after a colon."""
        actor = {"ID": container, "Attributes": attributes}
        message = {"Type": "container", "Action": action, "Actor": actor, "time": 1_790_000_000}
        for listener in list(self.listeners):
            listener.put(json.dumps(message).encode() + b"\n")

    def tell(self, action: str, container: str, at: float, **attributes: str) -> None:
        """Tell of an event at a time, and remember it for those that ask for the past."""
        actor = {"ID": container, "Attributes": attributes}
        message = {"Type": "container", "Action": action, "Actor": actor, "timeNano": round(at * 1e9)}
        with self.telling:
            self.told.append(message)
            for listener in self.listeners:
                listener.put(json.dumps(message).encode() + b"\n")

    def disconnect(self) -> None:
        """End all streams of events in the middle."""
        listeners, self.listeners = self.listeners, []
        for listener in listeners:
            listener.put(None)

    def find(self, reference: str) -> dict[str, Any] | None:
        return next((row for row in self.rows if row["Id"].startswith(reference)), None)

    def inspected(self, row: dict[str, Any]) -> dict[str, Any]:
        is_alive = row["State"] in ("running", "paused")
        state = {"Status": row["State"], "Pid": 0, "ExitCode": 0, "StartedAt": "2026-11-18T04:00:00Z"}
        details = dict(self.details.get(row["Id"], {}))
        if turns := self.states.get(row["Id"]):
            details["State"] = turns.pop(0) if len(turns) > 1 else turns[0]
        return {
            "Id": row["Id"],
            "Name": row["Names"][0],
            "Image": row["ImageID"],
            "Created": "2026-11-18T03:59:59Z",
            "RestartCount": 2,
            "State": state | ({} if is_alive else {"FinishedAt": "2026-11-18T04:01:00Z"}),
            "Config": {"Image": row["Image"], "Labels": row["Labels"], "Env": [], "Tty": False},
            "HostConfig": {"Memory": 0, "NanoCpus": 0},
        } | details


class Handler(BaseHTTPRequestHandler):
    server: "Server"
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the library
        """Print nothing."""

    def address_string(self) -> str:
        return "unix"

    def do_GET(self) -> None:
        self._handle("GET")

    def do_POST(self) -> None:
        self._handle("POST")

    def _handle(self, method: str) -> None:
        engine = self.server.engine
        place, _, query = re.sub(r"^/v[\d.]+", "", self.path).partition("?")
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        engine.asked.append(f"{method} {place}" + (f"?{query}" if query else ""))
        engine.released.wait(30)
        engine.ended.wait(engine.slow.get(place, 0.0))
        if place in ("/version", "/info"):
            self._answer(200, engine.version if place == "/version" else {"CgroupDriver": "cgroupfs"})
        elif place == "/events":
            self._stream_events(dict(parse_qsl(query)))
        elif place == "/containers/json":
            every = "all=1" in query
            self._answer(200, [row for row in engine.rows if every or row["State"] in ("running", "paused")])
        elif found := re.fullmatch(r"/containers/([^/]+)/(\w+)", place):
            self._container(found[1], found[2])
        elif found := re.fullmatch(r"/images/(.+)", place):
            self._images(unquote(found[1]), dict(parse_qsl(query)))
        else:
            self._answer(404, {"message": "page not found"})

    def _container(self, reference: str, action: str) -> None:
        engine = self.server.engine
        row = engine.find(reference)
        if row is None:
            self._answer(404, {"message": f"No such container: {reference}"})
        elif action in engine.refusals:
            self._answer(409, {"message": engine.refusals[action]})
        elif action == "json":
            self._answer(200, engine.inspected(row))
        elif action == "stats":
            self._answer(200, engine.stats.get(row["Id"], {}))
        elif action == "logs":
            frames = engine.logs.get(row["Id"], [])
            heads = [bytes([stream, 0, 0, 0]) + len(data).to_bytes(4, "big") + data for stream, data in frames]
            self._send(200, b"".join(heads))
        else:
            self._send(204, b"")

    def _images(self, what: str, asked: dict[str, str]) -> None:
        """All images, one of them, or the attempt to pull one; the registry has none."""
        names, reference = self.server.engine.images, what.removesuffix("/json")
        if what == "json":
            self._answer(200, [{"Id": f"sha256:{number}", "RepoTags": [name]} for number, name in enumerate(names)])
        elif what == "create":
            denied = f"pull access denied for {asked['fromImage']}: no such repository"
            words = self.server.engine.pull_error
            self._answer(404 if words is None else 500, {"message": words or denied})
        elif reference in names:
            self._answer(200, {"Id": f"sha256:{names.index(reference)}", "RepoTags": [reference], "Config": {}})
        else:
            self._answer(404, {"message": f"No such image: {reference}"})

    def _stream_events(self, asked: dict[str, str]) -> None:
        """Events that it remembers from a time on, then those that come."""
        engine = self.server.engine
        listener: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        since = float(asked.get("since", "inf"))
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        with engine.telling:
            for event in engine.told:
                if event["timeNano"] / 1e9 >= since - 1e-6:
                    listener.put(json.dumps(event).encode() + b"\n")
            engine.listeners.append(listener)
        while (message := listener.get()) is not None:
            self.wfile.write(f"{len(message):x}\r\n".encode() + message + b"\r\n")
        self.close_connection = True

    def _answer(self, status: int, value: Any) -> None:
        self._send(status, json.dumps(value).encode())

    def _send(self, status: int, body: bytes) -> None:
        self._send_head(status, len(body))
        self.wfile.write(body)

    def _send_head(self, status: int, length: int | None = None) -> None:
        """Without a length the answer ends with the connection."""
        self.close_connection = self.close_connection or length is None
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header(*(("Connection", "close") if length is None else ("Content-Length", str(length))))
        self.end_headers()


class Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    # With the default of 5 a busy machine refuses connections, and the docker package leaves their sockets open.
    request_queue_size = 128
    engine: FakeEngine

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has gone is no error."""


def is_client(thread: threading.Thread, before: set[threading.Thread]) -> bool:
    return thread.name.startswith("jobtop-") and thread not in before


@contextmanager
def fake_engine(path: Path, rows: list[dict[str, Any]]) -> Iterator[FakeEngine]:
    """An engine that answers at a socket of this path, which has to be short."""
    engine = FakeEngine(path, rows)
    before = set(threading.enumerate())  # threads that another test left are not for this one to wait for
    with Server(str(path), Handler) as server:
        server.engine = engine
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield engine
        finally:
            engine.released.set()
            engine.ended.set()
            # The docker package leaves a socket open if a connection is refused: no client may be left.
            wait_for(lambda: not [each.name for each in threading.enumerate() if is_client(each, before)])
            engine.disconnect()
            server.shutdown()
            thread.join()
