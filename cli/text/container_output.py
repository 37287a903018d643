"""Prints lines of containers: as text, with the name of the container where there are several, or as JSON Lines."""

import json
import sys
from collections.abc import Sequence
from typing import Protocol

from jobtop.cli.text.tables import truncate
from jobtop.core.clock import iso
from jobtop.core.measure.collectors.docker.client import STDERR
from jobtop.core.measure.collectors.docker.log_lines import LogLine, line_text
from jobtop.core.measure.collectors.docker.model import Container
from jobtop.core.model import SCHEMA_VERSION
from jobtop.core.text.output_streams import TerminalStream
from jobtop.core.units import ABSENT, cell_width, printable

WIDEST_NAME = 40


class LinePrinter(Protocol):
    """Prints one line."""

    def print(self, line: LogLine) -> None: ...


class JsonPrinter:
    """An object on a line for each line."""

    def print(self, line: LogLine) -> None:
        print(json.dumps(line_json(line)), flush=True)


class TextPrinter:
    """The lines of standard output to standard output, those of standard error to standard error.

    Colours stay on a terminal; no other escape sequence does, and control characters become visible.
    """

    def __init__(
        self, containers: Sequence[Container], with_names: bool, with_times: bool, raw: bool, colors: tuple[bool, bool]
    ) -> None:
        self.with_times, self.raw, self.colors = with_times, raw, colors
        self._prefixes = prefixes(containers) if with_names else {}
        self._streams: dict[tuple[str, str, int], TerminalStream] = {}

    def print(self, line: LogLine) -> None:
        is_error = line.stream == STDERR
        out = sys.stderr.buffer if is_error else sys.stdout.buffer
        begin = self._prefixes.get(_key(line.container), "")
        if self.with_times:
            begin += f"{iso(line.at) or ABSENT} "
        out.write(begin.encode("utf-8", "replace") + self._shown(line, is_error))
        out.flush()

    def _shown(self, line: LogLine, is_error: bool) -> bytes:
        if self.raw:
            return line.data + b"\n"
        key = (*_key(line.container), line.stream)
        stream = self._streams.get(key)
        if stream is None:
            stream = self._streams[key] = TerminalStream(self.colors[is_error])
        return stream.feed(line.data + b"\n").encode("utf-8", "replace")


def _key(container: Container) -> tuple[str, str]:
    return container.engine, container.id


def prefixes(containers: Sequence[Container]) -> dict[tuple[str, str], str]:
    """By container: its name, padded to the longest, and a bar; with its engine where two have the name."""
    names = [printable(container.name) for container in containers]
    shown = [
        truncate(f"{container.engine}/{name}" if names.count(name) > 1 else name, WIDEST_NAME)
        for name, container in zip(names, containers, strict=True)
    ]
    width = max(map(cell_width, shown), default=0)
    return {
        _key(container): f"{name}{' ' * (width - cell_width(name))} | "
        for name, container in zip(shown, containers, strict=True)
    }


def line_json(line: LogLine) -> dict[str, object]:
    return {
        "schema_version": SCHEMA_VERSION,
        "engine": line.container.engine,
        "id": line.container.id,
        "name": line.container.name,
        "timestamp": iso(line.at),
        "stream": "stderr" if line.stream == STDERR else "stdout",
        "text": line_text(line.data),
        "is_whole": line.is_whole,
    }
