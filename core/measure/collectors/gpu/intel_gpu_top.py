"""Runs intel_gpu_top, reads its stream of JSON, and ends it with us."""

from __future__ import annotations

import json
import os
import subprocess

from jobtop.core.measure.collectors.gpu.intel_program import PROGRAM
from jobtop.core.record import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

PERIOD_MILLISECONDS = 1000
FRESH_SECONDS = 3.0  # older samples are of a program that has stopped
LONGEST_TEXT = 1 << 20  # of one object: more is no sample
CHUNK = 1 << 16
FIRST_RETRY_SECONDS, LONGEST_RETRY_SECONDS, MOST_STARTS = 60.0, 3600.0, 5
STEADY_SAMPLES = 600  # after so many an end is no crash at the start
END_SECONDS = 0.2


@record
class GpuTopSample:
    """The busiest engine in percent, and the power of the GPU; None is not known."""

    percent: float | None
    watts: float | None


class JsonObjects:
    """Finds the JSON objects in a stream that comes in pieces: of an array that never ends, or one after another."""

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self._text: list[str] = []
        self._depth = self._length = 0
        self._is_quoted = self._is_escaped = False

    def feed(self, piece: str) -> list[dict[str, object]]:
        """The objects that this piece completes; what is no JSON is left out."""
        found = []
        start = 0
        for at, letter in enumerate(piece):
            if self._depth and self._is_quoted:
                self._see_quoted(letter)
            elif letter == "{":
                if not self._depth:
                    start = at
                self._depth += 1
            elif self._depth and letter == '"':
                self._is_quoted = True
            elif self._depth and letter == "}":
                self._depth -= 1
                if not self._depth:
                    found.append("".join((*self._text, piece[start : at + 1])))
                    self._text, self._length = [], 0
        if self._depth:
            self._keep(piece[start:])
        return [parsed for text in found if (parsed := _object(text)) is not None]

    def _see_quoted(self, letter: str) -> None:
        if self._is_escaped:
            self._is_escaped = False
        elif letter == "\\":
            self._is_escaped = True
        elif letter == '"':
            self._is_quoted = False

    def _keep(self, text: str) -> None:
        self._text.append(text)
        self._length += len(text)
        if self._length > LONGEST_TEXT:
            self._forget()


class IntelGpuTop:
    """The program as a child process, started when it is needed and, after it ended by itself, some time later.

    `reason`: why there are no samples of it. It ends when it writes after we are gone (SIGPIPE).
    """

    def __init__(self, program: str, node: str | None = None) -> None:
        self._command = [
            program,
            "-J",
            "-s",
            str(PERIOD_MILLISECONDS),
            *(() if node is None else ("-d", f"drm:/dev/dri/{node}")),
        ]
        self._child: subprocess.Popen[bytes] | None = None
        self._objects = JsonObjects()
        self._samples = self._starts = 0
        self._newest: tuple[float, GpuTopSample] | None = None
        self._start_at = -float("inf")
        self._retry_seconds = FIRST_RETRY_SECONDS
        self.reason: str | None = None

    def newest(self, now: float) -> GpuTopSample | None:
        """The newest sample that is not too old; never waits for the program."""
        if self._child is None and now >= self._start_at and self._starts < MOST_STARTS:
            self._start(now)
        if self._child is not None:
            self._read(now)
        if self._newest is None or now - self._newest[0] > FRESH_SECONDS:
            return None
        return self._newest[1]

    def close(self) -> None:
        """End the program: it is asked to, and killed if it does not."""
        child, self._child = self._child, None
        if child is None:
            return
        child.terminate()
        try:
            child.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        if child.stdout is not None:
            child.stdout.close()

    def _start(self, now: float) -> None:
        self._starts += 1
        self._objects, self._samples = JsonObjects(), 0
        try:
            child = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C in the terminal is for the job
            )
        except OSError as error:
            self._wait(now, str(error))
            return
        assert child.stdout is not None
        os.set_blocking(child.stdout.fileno(), False)
        self._child = child

    def _read(self, now: float) -> None:
        """Take what the program has written; at the end of its output it has exited or crashed."""
        assert self._child is not None
        assert self._child.stdout is not None
        descriptor = self._child.stdout.fileno()
        for _ in range(LONGEST_TEXT // CHUNK):
            try:
                piece = os.read(descriptor, CHUNK)
            except BlockingIOError:
                return
            except OSError as error:
                self._lose(now, str(error))
                return
            if not piece:
                self._lose(now, "it ended")
                return
            for parsed in self._objects.feed(piece.decode("utf-8", "replace")):
                self._take(parsed, now)

    def _take(self, parsed: Mapping[str, object], now: float) -> None:
        """The first sample is of no time at all: its percentages mean nothing."""
        self._samples += 1
        if self._samples > 1:
            self._newest = now, sample_of(parsed)
            self.reason = None
        if self._samples > STEADY_SAMPLES:
            self._starts, self._retry_seconds = 1, FIRST_RETRY_SECONDS

    def _lose(self, now: float, why: str) -> None:
        child = self._child
        self.close()
        status = None if child is None else child.returncode
        self._wait(now, f"{why} (status {status})")

    def _wait(self, now: float, why: str) -> None:
        self.reason = f"{PROGRAM}: {why}"
        self._start_at = now + self._retry_seconds
        self._retry_seconds = min(2 * self._retry_seconds, LONGEST_RETRY_SECONDS)


def sample_of(parsed: Mapping[str, object]) -> GpuTopSample:
    """The numbers of a sample; versions of the program write them as numbers or as text."""
    engines = parsed.get("engines")
    busy = [_float(engine, "busy") for engine in engines.values()] if isinstance(engines, dict) else []
    known = [value for value in busy if value is not None]
    return GpuTopSample(min(100.0, max(known)) if known else None, _float(parsed.get("power"), "GPU"))


def _object(text: str) -> dict[str, object] | None:
    try:
        parsed = json.loads(text)
    except ValueError:
        return None
    return parsed if isinstance(parsed, dict) else None


def _float(parsed: object, key: str) -> float | None:
    value = parsed.get(key) if isinstance(parsed, dict) else None
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    return number if 0 <= number < float("inf") else None
