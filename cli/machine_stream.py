"""Streams the samples of the host and its devices to a printer: the past in pieces, then new ones as they come."""

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime

from jobtop.cli.app import App
from jobtop.cli.machine import Chosen, choose, scopes_of, start_of, warn_if_empty
from jobtop.cli.text.machine_printers import MACHINE_PRINTERS, Line, MachinePrinter
from jobtop.core.errors import StoreBusy
from jobtop.core.metrics import metrics_of
from jobtop.core.model import Sample
from jobtop.core.series.machine_readings import MachineReader, machine_metrics
from jobtop.lifecycle.wait import Looks
from jobtop.store.samples.machine import BootPart

POLL_SECONDS = 0.5
LOOK_SECONDS = 10.0  # after so many a follower looks for new devices
ROWS_AT_ONCE = 100_000
SHORTEST_PIECE, LONGEST_PIECE = 600.0, 86400.0  # seconds that are read at once


class OwnerStream:
    """The samples of one owner in order, each once."""

    def __init__(self, chosen: Chosen, start: float) -> None:
        self.machine, self.owner, self.start = chosen.machine, chosen.owner, start
        self._reader = MachineReader(self.owner.keys)
        self._part: BootPart | None = None
        self._elapsed = -float("inf")
        self._cursor: int | None = None
        self.damaged = 0
        self.has_minutes = False

    def until(self, end: float | None) -> Iterator[Line]:
        """The samples up to a time, or all there are."""
        last_id = self.machine.last_id(self.owner)
        for part, news in self.machine.samples(self.owner, max(self.start, self._at()), end):
            self.damaged += news.damaged
            if part != self._part:
                self._part, self._elapsed = part, -float("inf")
            fresh = [sample for sample in news.samples if sample.elapsed > self._elapsed]
            self._elapsed = max([self._elapsed, *(sample.elapsed for sample in fresh[-1:])])
            yield from self._lines(part, fresh)
            self._cursor = news.cursor
        if self._cursor is None:
            self._cursor = last_id

    def new(self) -> Iterator[Line]:
        """The samples since the last call."""
        part = self.owner.parts[-1]
        news = self.machine.follow(self.owner, part, self._cursor)
        self._cursor = news.cursor
        return self._lines(part, news.samples)

    def _lines(self, part: BootPart, samples: Sequence[Sample]) -> Iterator[Line]:
        for reading in self._reader.read(part.boot_time, samples):
            if reading.at >= self.start:
                self.has_minutes = self.has_minutes or reading.minute is not None
                yield Line(self.owner.host, self.owner.device, reading)

    def _at(self) -> float:
        return -float("inf") if self._part is None else self._part.boot_time + self._elapsed


def print_machine(
    app: App, words: tuple[str, ...], keys: tuple[str, ...], style: str, since: float | datetime | None, follow: bool
) -> None:
    """Print the stored samples of the host or of devices since a time, and new ones if following."""
    chosen = choose(app, words)
    scopes = scopes_of(chosen)
    metrics = machine_metrics(scopes, keys)
    known = [metric.key for scope in scopes for metric in metrics_of(scope)]
    shown = [metric.key for metric in metrics] or list(dict.fromkeys(known))
    start = start_of(app, since)
    printer = MACHINE_PRINTERS[style]([(item.owner.host, item.owner.device) for item in chosen], metrics, shown)
    streams = [OwnerStream(item, start) for item in chosen]
    printed = print_past(printer, streams, start)
    if not printed:
        warn_if_empty(app, chosen, start)
    if any(stream.has_minutes for stream in streams):
        app.warn("a row of old samples is a minute, not a sample (store.raw_days)")
    if damaged := sum(stream.damaged for stream in streams):
        app.warn(f"{damaged} samples are damaged and left out")
    if follow:
        print_new(app, printer, streams, words)
    printer.close()


def print_past(printer: MachinePrinter, streams: Sequence[OwnerStream], start: float) -> int:
    """Print what is stored, in pieces that fit into memory; return the number of lines."""
    piece = min(LONGEST_PIECE, max(SHORTEST_PIECE, ROWS_AT_ONCE / max(1, len(streams))))
    numbers: set[int] = set()
    for first, last in (span for stream in streams for span in stream.machine.recorded_spans(stream.owner)):
        if last >= start:
            numbers.update(range(int((max(first, start) - start) / piece), int((last - start) / piece) + 1))
    printed = 0
    for end in (*(start + (number + 1) * piece for number in sorted(numbers)), None):
        batch = [line for stream in streams for line in stream.until(end)]
        printed += len(batch)
        printer.print(batch)
    return printed


def print_new(app: App, printer: MachinePrinter, streams: list[OwnerStream], words: tuple[str, ...]) -> None:
    """Print new samples until the user stops it."""
    looks = [
        Looks(path, app.config.switch("store.network")) for path in {item.machine.database.path for item in streams}
    ]
    looked = time.monotonic()
    while True:
        time.sleep(POLL_SECONDS)
        due = [look.is_due() for look in looks]
        if not any(due):
            continue
        with suppress(StoreBusy):  # tried again soon
            if time.monotonic() - looked > LOOK_SECONDS:
                looked = time.monotonic()
                add_new_devices(app, streams, words)
            printer.print([line for stream in streams for line in stream.new()])


def add_new_devices(app: App, streams: list[OwnerStream], words: tuple[str, ...]) -> None:
    """Follow devices that were not there before, and those of a new boot."""
    known = {(stream.machine.host, stream.owner) for stream in streams}
    for item in choose(app, words):
        if (item.machine.host, item.owner) not in known:
            streams[:] = [
                stream
                for stream in streams
                if (stream.owner.host, stream.owner.device) != (item.owner.host, item.owner.device)
            ]
            stream = OwnerStream(item, time.time() - LOOK_SECONDS)
            list(stream.until(None))
            streams.append(stream)
