"""The output of containers as lines, in bounded memory: of one, of several in the order of time, or as they come."""

from __future__ import annotations

import heapq
import re
from contextlib import suppress

from jobtop.core.errors import BadValue, EngineError
from jobtop.core.measure.collectors.docker.answers import moment
from jobtop.core.measure.collectors.docker.client import STDERR, STDOUT, Engine
from jobtop.core.record import record
from jobtop.core.text.terminal_text import ESCAPE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from jobtop.core.measure.collectors.docker.model import Container

LONGEST_LINE = 1 << 16  # bytes; a longer line comes in several pieces
MOST_WAITING = 256  # lines of several containers that are not printed yet
ANSWER_SECONDS = 3.0
# Engines put the time before each message: a line, or a piece of a long one.
TIME = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)) ?")
PLAIN_PATTERN = re.compile(r"[\w /:=,@%-]*")  # an expression that means itself


@record
class LogLine:
    """A line of a container, without its end; `at` is None if the time was not asked for or is not known."""

    container: Container
    stream: int  # STDOUT or STDERR
    at: float | None
    data: bytes
    is_whole: bool = True  # False: the rest of a long line follows


@record
class LogRequest:
    """Which lines are wanted."""

    since: float | None = None  # seconds since the epoch
    tail: int | None = None
    follow: bool = False
    with_times: bool = False


class LineCutter:
    """Makes lines of the pieces of one container's output; each stream is cut for itself."""

    def __init__(self, container: Container, with_times: bool, is_tty: bool) -> None:
        self.container, self.with_times, self.is_tty = container, with_times, is_tty
        self._begun: dict[int, bytearray] = {STDOUT: bytearray(), STDERR: bytearray()}
        self._times: dict[int, float | None] = {}

    def take(self, stream: int, piece: bytes) -> Iterator[LogLine]:
        """The lines that a piece completes. A piece is one message of the engine, unless there is a terminal."""
        if self.with_times and not self.is_tty:
            piece = self._without_time(stream, piece)
        begun = self._begun[stream]
        *ended, rest = piece.split(b"\n")
        for text in ended:
            begun += text
            yield from self._lines(stream, begun)
            begun.clear()
        begun += rest
        while len(begun) > LONGEST_LINE:
            yield self._line(stream, bytes(begun[:LONGEST_LINE]), is_whole=False)
            del begun[:LONGEST_LINE]

    def finish(self) -> Iterator[LogLine]:
        """Lines that were begun and not ended."""
        for stream, begun in self._begun.items():
            if begun:
                yield from self._lines(stream, begun)
                begun.clear()

    def _lines(self, stream: int, text: bytearray) -> Iterator[LogLine]:
        for start in range(0, max(1, len(text)), LONGEST_LINE):
            end = start + LONGEST_LINE
            yield self._line(stream, bytes(text[start:end]), is_whole=end >= len(text))
        self._times.pop(stream, None)

    def _line(self, stream: int, data: bytes, is_whole: bool) -> LogLine:
        if self.with_times and self.is_tty:
            data = self._without_time(stream, data)
        data = data.removesuffix(b"\r") if is_whole else data
        return LogLine(self.container, stream, self._times.get(stream), data, is_whole)

    def _without_time(self, stream: int, data: bytes) -> bytes:
        found = TIME.match(data)
        if found is None:
            return data
        self._times.setdefault(stream, moment(found[1].decode()))
        return data[found.end() :]


def log_lines(engine: Engine, container: Container, wanted: LogRequest) -> Iterator[LogLine]:
    """The lines of one container; with `follow` until it ends. The iterator may be closed at any line."""
    is_tty = bool(engine.inspect(container.id).is_tty)
    cutter = LineCutter(container, wanted.with_times, is_tty)
    pieces = engine.logs(container.id, wanted.since, wanted.follow, wanted.tail, wanted.with_times, is_tty)
    for stream, piece in pieces:
        yield from cutter.take(stream, piece)
    yield from cutter.finish()


def merged_lines(found: Sequence[tuple[Engine, Container]], wanted: LogRequest) -> Iterator[LogLine]:
    """The past lines of several containers in the order of time; each container has a connection of its own."""
    engines = [Engine(engine.endpoint, ANSWER_SECONDS) for engine, _ in found]
    try:
        streams = [log_lines(engine, container, wanted) for engine, (_, container) in zip(engines, found, strict=True)]
        yield from heapq.merge(*map(_timed, streams), key=lambda line: line.at or 0.0)
    finally:
        for engine in engines:
            engine.close()


def _timed(lines: Iterable[LogLine]) -> Iterator[LogLine]:
    """Lines with times that never fall: a line without a time has that of the line before."""
    from jobtop.core.record import replace

    last = 0.0
    for line in lines:
        last = max(last, line.at or 0.0)
        yield line if line.at == last else replace(line, at=last or None)


def followed_lines(found: Sequence[tuple[Engine, Container]], wanted: LogRequest) -> Iterator[LogLine | EngineError]:
    """The lines of several containers as they come, until all have ended; the problem of one does not end it."""
    import queue
    import threading

    waiting: queue.Queue[LogLine | EngineError | None] = queue.Queue(MOST_WAITING)

    def read(engine: Engine, container: Container) -> None:
        with Engine(engine.endpoint, ANSWER_SECONDS) as own:
            try:
                for line in log_lines(own, container, wanted):
                    waiting.put(line)
            except EngineError as error:
                waiting.put(error)
            finally:
                with suppress(Exception):
                    waiting.put(None)

    for pair in found:
        threading.Thread(target=read, args=pair, name="jobtop-logs", daemon=True).start()
    left = len(found)
    while left:
        line = waiting.get()
        if line is None:
            left -= 1
        else:
            yield line


def line_text(data: bytes) -> str:
    """A line as it is searched: without escape sequences."""
    text = data.decode("utf-8", "replace")
    return ESCAPE.sub("", text) if "\x1b" in text else text


def line_matcher(pattern: str) -> Callable[[str], bool]:
    """Whether a line matches a user's regular expression, in time proportional to the line; BadValue if it is none."""
    from jobtop.core.patterns import compile_pattern

    if PLAIN_PATTERN.fullmatch(pattern):
        return lambda text: pattern in text
    try:
        program = compile_pattern(pattern)
    except BadValue as error:
        raise BadValue(f'"{pattern}" {error}') from None
    return lambda text: any(program.matches_at(text))
