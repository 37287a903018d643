"""The only file that uses the docker package: one connection to an engine of Docker or Podman.

Every call answers or raises EngineError, with one line for the user, within the timeout; only `wait`, `events`, `logs`
with `follow`, `pull`, and what changes a container (WORK_SECONDS) may take longer.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from contextlib import contextmanager, suppress

from jobtop.core.errors import EngineError, EngineSilent, NoSuchContainer, NoSuchImage
from jobtop.core.measure.collectors.docker import answers
from jobtop.core.measure.collectors.docker.remedies import RESTART, access_remedy, start_remedy
from jobtop.core.units import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from jobtop.core.measure.collectors.docker.model import (
        Container,
        ContainerEvent,
        Endpoint,
        EngineInfo,
        Image,
        PullStep,
    )

ANSWER_SECONDS = 3.0
WORK_SECONDS = 60.0  # to create, start, pause or remove a container: a busy machine needs them
QUIET_SECONDS = 120.0  # after which a stream of events without any event ends
UNIX = "unix://"
STDOUT, STDERR = 1, 2
MOST_FRAME_BYTES = 1 << 26
MOST_ANSWER_BYTES = 1 << 22  # of one event, or of the end of a container
MOST_CAUSES = 8
IMPORTING = threading.Lock()  # several threads that import a package with circles at once may see a part of it
SHORTEST_SECONDS = 0.05  # that a request may take, whatever those before took


class Engine:
    """A connection to one engine; `api` is opened by the first call. One thread at a time may call it.

    `close` may be called by any thread: streams that another thread reads end then.
    """

    def __init__(self, endpoint: Endpoint, timeout_seconds: float = ANSWER_SECONDS) -> None:
        self.endpoint, self.timeout_seconds = endpoint, timeout_seconds
        self._api: Any = None
        self._streams: set[OpenAnswer] = set()

    def close(self) -> None:
        for stream in list(self._streams):
            stream.close()
        api, self._api = self._api, None
        if api is not None:
            api.close()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def connect(self) -> None:
        """Raise EngineError if there is no connection yet and the engine does not answer."""
        with self._call():
            pass

    def info(self, seconds: float | None = None) -> EngineInfo:
        """What the engine is; an engine that answers at all may take so long, as Podman does on a busy machine."""
        with self._call(seconds=seconds) as api:
            return answers.engine_info(answers.version_in(api.server, api._version) or api.version(), api.info())

    def containers(self, every: bool = False, label: str | None = None) -> list[Container]:
        """All that run, or all there are; only what a list says of them: see `inspect`."""
        with self._call() as api:
            rows = api.containers(all=every, filters={} if label is None else {"label": label})
        found = (answers.listed(self.endpoint.name, row) for row in answers.items(rows))
        return [container for container in found if container is not None]

    def inspect(self, reference: str) -> Container:
        """One container, by its name or the beginning of its id."""
        container = answers.inspected(self.endpoint.name, self.raw(reference))
        if container is None:
            raise EngineError(f"{self._name}: its answer about {printable(reference)} cannot be read")
        return container

    def raw(self, reference: str) -> dict[str, Any]:
        """The whole answer of `inspect`."""
        with self._call(reference) as api:
            return answers.mapping(api.inspect_container(reference))

    def events(self, since: float | None = None, quiet_seconds: float = QUIET_SECONDS) -> Events:
        """What happens to containers from now, or from an earlier time, on; it ends if nothing happens for a while.

        Docker remembers some hundred events until it is restarted.
        """
        with self._call() as api:
            parameters = {"filters": '{"type": ["container"]}'} | ({} if since is None else {"since": f"{since:.9f}"})
            return Events(self._stream(api, api._get, "/events", parameters, quiet_seconds))

    def _stream(
        self, api: Any, method: Any, path: str, parameters: dict[str, Any], quiet_seconds: float | None
    ) -> OpenAnswer:
        """A long answer; its beginning has to come within the timeout, and then something every `quiet_seconds`."""
        answer = method(api._url(path), params=parameters, stream=True)
        try:
            api._raise_for_status(answer)
            return OpenAnswer(answer, quiet_seconds, self._streams)
        except BaseException:
            answer.close()
            raise

    def stats(self, reference: str) -> dict[str, Any]:
        """What a container uses now, without the second that the engine waits for percentages."""
        with self._call(reference) as api:
            return answers.mapping(api.stats(reference, stream=False, one_shot=self._has_one_shot(api)))

    def top(self, reference: str) -> tuple[list[str], list[list[str]]]:
        """The processes of a container as `ps -ef` lists them: the titles, and a row of texts for each."""
        with self._call(reference) as api:
            answer = answers.mapping(api.top(reference))
        rows = [[str(text) for text in answers.items(row)] for row in answers.items(answer.get("Processes"))]
        return [str(title) for title in answers.items(answer.get("Titles"))], rows

    @staticmethod
    def _has_one_shot(api: Any) -> bool | None:
        from docker.utils.utils import version_lt

        return None if version_lt(api._version, "1.41") else True

    def logs(
        self,
        reference: str,
        since: float | None = None,
        follow: bool = False,
        tail: int | None = None,
        timestamps: bool = False,
        is_tty: bool = False,
    ) -> Iterator[tuple[int, bytes]]:
        """Pieces of output, each with STDOUT or STDERR; a container with a terminal has only STDOUT.

        With `timestamps` each line starts with its time.
        """
        with self._call(reference) as api:
            parameters = {
                "stdout": 1,
                "stderr": 1,
                "timestamps": int(timestamps),
                "follow": int(follow),
                "tail": "all" if tail is None else tail,
                **({} if since is None else {"since": f"{since:.9f}"}),
            }
            path = f"/containers/{quoted(reference)}/logs"
            stream = self._stream(api, api._get, path, parameters, None if follow else self.timeout_seconds)
        return self._pieces(stream, is_tty)

    def _pieces(self, stream: OpenAnswer, is_tty: bool) -> Iterator[tuple[int, bytes]]:
        try:
            with stream:
                while is_tty and (piece := stream.read_some()):
                    yield STDOUT, piece
                while not is_tty and len(head := stream.read(8)) == 8:
                    size = int.from_bytes(head[4:], "big")
                    if size > MOST_FRAME_BYTES:
                        raise EngineError(f"{self._name}: its output cannot be read")
                    yield (STDERR if head[0] == STDERR else STDOUT), stream.read(size)
        except EngineError:
            raise
        except Exception as error:
            if not stream.is_closed:
                raise self._problem(error, None) from error

    def images(self) -> list[Image]:
        with self._call() as api:
            found = [answers.image_of(row) for row in answers.items(api.images())]
        return [image for image in found if image is not None]

    def image(self, reference: str) -> Image | None:
        """An image that is here; None if it has to be pulled."""
        try:
            with self._call() as api:
                return answers.image_of(api.inspect_image(reference))
        except NoSuchImage:
            return None

    def pull(self, reference: str) -> Iterator[PullStep]:
        """Fetch an image from its registry; EngineError if that fails."""
        with self._call() as api:
            from docker.utils import parse_repository_tag

            repository, tag = parse_repository_tag(reference)
            stream = api.pull(repository, tag=tag or "latest", stream=True, decode=True)
        while True:
            with self._call():
                message = next(stream, None)
            if message is None:
                return
            if isinstance(message, dict) and "error" in message:
                raise EngineError(f"{printable(reference)} cannot be pulled: {one_line(message['error'])}")
            yield answers.pull_step(message)

    def create(self, image: str, command: list[str] | None, host: Mapping[str, Any], **config: Any) -> str:
        """Create a container, and return its id. `host` and `config` are arguments of the docker package:
        `create_host_config` and `create_container`.
        """
        with self._call(image, WORK_SECONDS) as api:
            created = api.create_container(image, command, host_config=api.create_host_config(**host), **config)
        return str(created["Id"])

    def attach(self, container_id: str, with_input: bool) -> socket.socket:
        """A socket with the output of a container, and for its input; the caller closes it.

        Without a terminal the output comes in frames: see `Frames`.
        """
        with self._call(container_id) as api:
            wanted = {"stdin": int(with_input), "stdout": 1, "stderr": 1, "stream": 1, "logs": 0}
            headers = {"Connection": "Upgrade", "Upgrade": "tcp"}
            url = api._url("/containers/{0}/attach", container_id)
            answer = api._post(url, params=wanted, headers=headers, stream=True)
            try:
                api._raise_for_status(answer)
                found = socket.socket(fileno=os.dup(answer.raw._fp.fp.fileno()))
            finally:
                answer.close()
        found.settimeout(None)
        return found

    def start(self, container_id: str) -> None:
        with self._call(container_id, WORK_SECONDS) as api:
            api.start(container_id)

    def wait(self, container_id: str) -> int:
        """Wait until a container has ended; its exit code."""
        with self._call(container_id) as api:
            url = api._url("/containers/{0}/wait", container_id)
            answer = api._post(url, stream=True, timeout=None)  # old engines answer only at the end
            api._raise_for_status(answer)
            with OpenAnswer(answer, None, self._streams) as stream:
                body = stream.read(MOST_ANSWER_BYTES)
        code = answers.integer(answers.mapping(_json(body)).get("StatusCode"))
        if code is None:
            raise EngineError(f"{self._name}: its answer to wait cannot be read")
        return code

    def kill(self, container_id: str, number: int) -> None:
        with self._call(container_id, WORK_SECONDS) as api:
            api.kill(container_id, number)

    def stop(self, container_id: str, grace_seconds: float) -> None:
        with self._call(container_id, WORK_SECONDS + grace_seconds) as api:
            api.stop(container_id, timeout=max(0, round(grace_seconds)))

    def restart(self, container_id: str, grace_seconds: float) -> None:
        with self._call(container_id, WORK_SECONDS + grace_seconds) as api:
            api.restart(container_id, timeout=max(0, round(grace_seconds)))

    def pause(self, container_id: str) -> None:
        with self._call(container_id, WORK_SECONDS) as api:
            api.pause(container_id)

    def unpause(self, container_id: str) -> None:
        with self._call(container_id, WORK_SECONDS) as api:
            api.unpause(container_id)

    def resize(self, container_id: str, rows: int, columns: int) -> None:
        with self._call(container_id) as api:
            api.resize(container_id, rows, columns)

    def remove(self, container_id: str, force: bool = False) -> None:
        """Remove a container and its anonymous volumes; one that is gone is no error."""
        with suppress(NoSuchContainer), self._call(container_id, WORK_SECONDS) as api:
            api.remove_container(container_id, v=True, force=force)

    @property
    def _name(self) -> str:
        return f"{self.endpoint.name} ({self.endpoint.url})"

    @contextmanager
    def _call(self, reference: str | None = None, seconds: float | None = None) -> Iterator[Any]:
        """The client of the docker package; what it raises becomes an EngineError.

        All requests of one call share its time. The first one of a connection asks for the version of the API.
        """
        began = time.monotonic()
        try:
            self._knock()
            api = self._api
            if api is None:
                api = self._api = open_client(self.endpoint, self.timeout_seconds)
            api.due = (began if seconds is None else time.monotonic()) + (seconds or self.timeout_seconds)
            yield api
        except EngineError:
            raise
        except Exception as error:
            raise self._problem(error, reference) from error

    def _knock(self) -> None:
        """Raise OSError if nothing listens at a socket: the docker package leaves its own one open then.

        Where no engine runs, the package is not imported either.
        """
        if self.endpoint.url.startswith(UNIX):
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
                probe.settimeout(self.timeout_seconds)
                probe.connect(self.endpoint.url.removeprefix(UNIX))

    def _problem(self, error: Exception, reference: str | None) -> EngineError:
        """What an exception of the docker package, or of a socket, means to a user."""
        if isinstance(error, OSError) and self._api is None and error.errno is not None:
            return self._connection_problem(error, TimeoutError)
        with IMPORTING:
            import requests
            from docker.errors import APIError, ImageNotFound, NotFound

        said = printable(reference or "")
        if isinstance(error, ImageNotFound):
            return NoSuchImage(f"{self._name} has no image {said}".rstrip())
        if isinstance(error, NotFound):
            words = one_line(error.explanation or error)
            kind = NoSuchImage if "image" in words.lower() and "container" not in words.lower() else NoSuchContainer
            return kind(f"{self._name}: {words}")
        if isinstance(error, APIError):
            # Podman answers 500 instead of 404 for a container that is being removed.
            if reference and "no such container" in str(error.explanation or error).lower():
                return NoSuchContainer(f"{self._name}: {one_line(error.explanation or error)}")
            return EngineError(f"{self._name}: {one_line(error.explanation or error)}")
        return self._connection_problem(error, requests.exceptions.Timeout)

    def _connection_problem(self, error: Exception, timeout_type: type[Exception]) -> EngineError:
        causes: list[BaseException] = []
        found: BaseException | None = error
        while found is not None and len(causes) < MOST_CAUSES:
            causes.append(found)
            inner = next((each for each in found.args if isinstance(each, BaseException)), None)
            found = inner or found.__cause__ or found.__context__
        if any(isinstance(cause, PermissionError) for cause in causes):
            return EngineError(f"{self._name}: permission denied ({access_remedy(self.endpoint)})")
        if any(isinstance(cause, FileNotFoundError | ConnectionRefusedError) for cause in causes):
            return EngineError(f"{self._name} does not run ({start_remedy(self.endpoint)})")
        # EAGAIN: so many wait already that the kernel lets no one else in.
        if any(isinstance(cause, timeout_type | TimeoutError | BlockingIOError) for cause in causes):
            return EngineSilent(f"{self._name} does not answer within {self.timeout_seconds:g} s ({RESTART})")
        return EngineError(f"{self._name}: {one_line(error)}")


class OpenAnswer:
    """A long answer of an engine that is read as it comes. Any thread may close it; the one that reads ends then."""

    def __init__(self, answer: Any, quiet_seconds: float | None, streams: set[OpenAnswer]) -> None:
        self._answer, self._streams, self._lock = answer, streams, threading.Lock()
        self._file = answer.raw._fp  # http.client has read1 with every version of urllib3
        self._socket = _socket_of(answer)
        self.is_closed = self._is_read = False
        if self._socket is not None:
            self._socket.settimeout(quiet_seconds)
        streams.add(self)

    def __enter__(self) -> OpenAnswer:
        with self._lock:
            self._is_read = True
        return self

    def __exit__(self, *_: object) -> None:
        self._is_read = False
        self.close()

    def read_some(self) -> bytes:
        """What has come, at least one byte; nothing at the end."""
        data: bytes = b"" if self.is_closed else self._file.read1(1 << 16)
        return data

    def read(self, size: int) -> bytes:
        """So many bytes, or all until the end."""
        data = b""
        while len(data) < size and not self.is_closed and (part := self._file.read(size - len(data))):
            data += part
        return data

    def close(self) -> None:
        """End it. Its descriptor is freed by the thread that reads: its number may be that of another file else."""
        with self._lock:
            self.is_closed = True
            self._streams.discard(self)
            if self._is_read and self._socket is not None:
                with suppress(OSError):
                    self._socket.shutdown(socket.SHUT_RDWR)
                return
        with suppress(Exception):
            self._answer.close()


def _socket_of(answer: Any) -> socket.socket | None:
    """The socket of an answer; None where there is none, as with ssh."""
    found = getattr(getattr(getattr(answer.raw._fp, "fp", None), "raw", None), "_sock", None)
    return found if isinstance(found, socket.socket) else None


class Events:
    """A stream of events; `close` ends it from another thread."""

    def __init__(self, stream: OpenAnswer) -> None:
        self._stream = stream

    def __iter__(self) -> Iterator[ContainerEvent]:
        """Events until the engine or `close` ends the stream, or it is quiet for long; a lost connection ends it too.

        An engine writes one event to a line, or one after another.
        """
        decoder, rest = json.JSONDecoder(), ""
        with suppress(Exception), self._stream as stream:
            while data := stream.read_some():
                rest = (rest + data.decode("utf-8", "replace")).lstrip()
                if len(rest) > MOST_ANSWER_BYTES:
                    return
                while rest:
                    try:
                        message, end = decoder.raw_decode(rest)
                    except ValueError:  # the rest of it is still to come
                        break
                    rest = rest[end:].lstrip()
                    event = answers.container_event(message)
                    if event is not None:
                        yield event

    def close(self) -> None:
        self._stream.close()


class Frames:
    """Takes the output of an attached container without a terminal apart: pieces with STDOUT or STDERR."""

    def __init__(self) -> None:
        self._rest = b""

    def take(self, data: bytes) -> list[tuple[int, bytes]]:
        """The pieces in what was received; the beginning of a frame is kept for the next call."""
        pieces, data = [], self._rest + data
        while len(data) >= 8 and len(data) >= (end := 8 + int.from_bytes(data[4:8], "big")):
            pieces.append((STDERR if data[0] == STDERR else STDOUT, data[8:end]))
            data = data[end:]
        self._rest = data
        return pieces


def open_client(endpoint: Endpoint, timeout_seconds: float) -> Any:
    """A client of the docker package that speaks the engine's version of the API; it raises what the package raises."""
    with IMPORTING:
        from docker import APIClient
        from docker.utils import kwargs_from_env

    class Client(APIClient):
        """`due`: when all requests of the current call have to be answered."""

        due = time.monotonic() + timeout_seconds
        server = ""  # such as Docker/20.10.24 (linux) or Libpod/4.3.1 (linux)

        def _set_request_timeout(self, kwargs: dict[str, Any]) -> dict[str, Any]:
            kwargs.setdefault("timeout", max(SHORTEST_SECONDS, self.due - time.monotonic()))
            return kwargs

        def _retrieve_server_version(self) -> str:
            try:
                # Podman takes a second to answer /version, and a few milliseconds for this.
                said = self._get(f"{self.base_url}/_ping").headers  # type: ignore[attr-defined]
                self.server = str(said.get("Server") or "")
                return str(said.get("Api-Version") or super()._retrieve_server_version())  # type: ignore[misc]
            except BaseException:
                self.close()
                raise

    is_from_environment = endpoint.origin == "DOCKER_HOST" and endpoint.url.startswith("tcp://")
    tls = kwargs_from_env().get("tls", False) if is_from_environment else False
    timeout: Any = timeout_seconds  # a fraction is fine, whatever the package declares
    use_ssh = endpoint.url.startswith("ssh://")
    return Client(endpoint.url, version="auto", timeout=timeout, use_ssh_client=use_ssh, tls=tls)


def quoted(reference: str) -> str:
    """A name as a part of an address."""
    from urllib.parse import quote

    return quote(reference, safe="")


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return None


def one_line(value: object) -> str:
    """What an engine says, on one line, without control characters."""
    return printable(" ".join(str(value).split()))[:400]
