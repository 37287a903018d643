"""The client survives an engine that hangs, is broken or disappears: one error, in time, and nothing is left open."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from raw_engine import OPENING, VERSION, Answer, chunked, http, raw_engine

from jobtop.core.errors import EngineError
from jobtop.core.measure.collectors.docker.client import Engine
from jobtop.core.measure.collectors.docker.model import Endpoint
from support import wait_for

CALLS: dict[str, Callable[[Engine], object]] = {
    "info": lambda engine: engine.info(),
    "containers": lambda engine: engine.containers(),
    "inspect": lambda engine: engine.inspect("a"),
    "stats": lambda engine: engine.stats("a"),
    "events": lambda engine: engine.events(),
    "logs": lambda engine: list(engine.logs("a")),
    "images": lambda engine: engine.images(),
    "image": lambda engine: engine.image("a"),
    "pull": lambda engine: list(engine.pull("a")),
    "create": lambda engine: engine.create("a", None, {}),
    "attach": lambda engine: engine.attach("a", with_input=True).close(),
    "start": lambda engine: engine.start("a"),
    "wait": lambda engine: engine.wait("a"),
    "kill": lambda engine: engine.kill("a", 15),
    "stop": lambda engine: engine.stop("a", 1),
    "pause": lambda engine: engine.pause("a"),
    "remove": lambda engine: engine.remove("a"),
}
READING = ("info", "containers", "inspect", "stats", "events", "logs", "images", "image", "attach")
BROKEN = {
    "garbage": b"\x00\xff garbage \x1b[31m\r\n\r\n",
    "a web page": http(b"<html>not an engine</html>"),
    "another JSON": http(b"[1, 2]"),
    "500": http(b'{"message": "disk\\u001b[31m full"}', "500 Internal Server Error"),
    "403": http(b"forbidden", "403 Forbidden"),
    "truncated": chunked(b'{"Version": ', is_whole=False),
    "disconnects": b"",
}


def engine_at(url: str, seconds: float = 0.5) -> Engine:
    return Engine(Endpoint("docker", url, "test"), seconds)


def outcome(url: str, call: str) -> str:
    """The message of the error of one call of a new connection; empty without an error."""
    with engine_at(url) as engine:
        try:
            CALLS[call](engine)
        except EngineError as error:
            return str(error)
    return ""


def test_each_call_ends_when_the_engine_never_answers(tmp_path: Path) -> None:
    began = time.monotonic()
    with raw_engine(tmp_path / "s", lambda _: None) as url, ThreadPoolExecutor(len(CALLS)) as pool:
        said = dict(zip(CALLS, pool.map(lambda call: outcome(url, call), CALLS), strict=True))
    assert [call for call, text in said.items() if "does not answer" not in text] == []
    assert time.monotonic() - began < 3.0


def test_each_reading_call_ends_when_the_engine_hangs_after_its_version(tmp_path: Path) -> None:
    began = time.monotonic()
    with (
        raw_engine(tmp_path / "s", lambda path: VERSION if path in OPENING else None) as url,
        ThreadPoolExecutor(len(READING)) as pool,
    ):
        said = dict(zip(READING, pool.map(lambda call: outcome(url, call), READING), strict=True))
    assert [call for call, text in said.items() if "does not answer" not in text] == []
    assert time.monotonic() - began < 3.0


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_engine_is_one_line_without_control_characters(kind: str, tmp_path: Path) -> None:
    with raw_engine(tmp_path / "s", lambda _: BROKEN[kind]) as url:
        text = outcome(url, "containers")
    assert "docker" in text
    assert text.isprintable()


@pytest.mark.parametrize("kind", BROKEN)
def test_an_answer_that_breaks_later_is_an_error_or_an_absent_value(kind: str, tmp_path: Path) -> None:
    def answer(path: str) -> Answer:
        return VERSION if path in OPENING else BROKEN[kind]

    with raw_engine(tmp_path / "s", answer) as url:
        assert all(outcome(url, call).isprintable() for call in (*READING, "wait"))


def test_events_come_one_by_one_with_their_suffixes_and_a_torn_stream_ends(tmp_path: Path) -> None:
    first = b'{"Type": "container", "Action": "health_status: healthy", "Actor": {"ID": "a"}, "time": 5}\n{"Type": '
    second = (
        b'"container", "Action": "exec_create: sh -c x:y", "Actor": {"ID": "b"}}{"Type": "image", "Action": "pull"}'
    )

    def answer(path: str) -> Answer:
        return VERSION if path in OPENING else chunked(first, second, is_whole=False)

    with raw_engine(tmp_path / "s", answer) as url, engine_at(url, 2.0) as engine:
        events = list(engine.events())
    assert [(event.action, event.detail, event.container_id) for event in events] == [
        ("health_status", "healthy", "a"),
        ("exec_create", "sh -c x:y", "b"),
    ]


@pytest.mark.parametrize("how", ["the stream", "the engine"])
def test_another_thread_can_end_a_stream_of_events(how: str, tmp_path: Path) -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n"  # the body never comes

    def answer(path: str) -> Answer:
        return VERSION if path in OPENING else head

    with raw_engine(tmp_path / "s", answer) as url, engine_at(url, 2.0) as engine:
        events = engine.events()
        reader = threading.Thread(target=lambda: list(events), daemon=True)
        reader.start()
        wait_for(lambda: events._stream._is_read)
        (events if how == "the stream" else engine).close()
        reader.join(5)
        assert not reader.is_alive()


def test_a_stream_that_is_closed_before_it_is_read_gives_nothing(tmp_path: Path) -> None:
    def answer(path: str) -> Answer:
        return VERSION if path in OPENING else chunked(b'{"Action": "die", "Actor": {"ID": "a"}}')

    with raw_engine(tmp_path / "s", answer) as url, engine_at(url, 2.0) as engine:
        events = engine.events()
        events.close()
        assert list(events) == []


def test_a_quiet_stream_ends_by_itself(tmp_path: Path) -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX: Content-Length\r\n\r\n"

    def answer(path: str) -> Answer:
        return VERSION if path in OPENING else head

    with raw_engine(tmp_path / "s", answer) as url, engine_at(url, 2.0) as engine:
        assert list(engine.events(quiet_seconds=0.05)) == []
