"""Shared by the readers of all import formats: parsing of values, reading of lines, notes on what was skipped.

No value of an imported file is trusted: it becomes a valid number, text or time, or None.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeVar

from jobtop.core.model import Job, Sample, Status
from jobtop.core.record import record
from jobtop.core.redact import is_secret, redact_command, redact_mapping
from jobtop.store.jobs import columns_of, stored_text

MIB = 1024 * 1024
LARGEST = float(2**63)
LATEST = 253_370_764_800.0  # in the year 9999, the last that Python's dates have
GZIP_WINDOW = 16 + zlib.MAX_WBITS
CHUNK_BYTES = 64 * 1024
LONGEST_LINE = 2 * MIB  # characters; parsed JSON takes up to thirty times as much memory
LONGEST_SKIPPED = 64 * MIB  # characters of a line that is too long
MOST_UNPACKED_BYTES = 512 * MIB
MOST_SAMPLES = 500_000
MOST_EMPTY_LINES, MOST_BAD_LINES = 1_000_000, 100_000  # in a file; each takes about a second to read
MOST_NAMED, MOST_LEFT_OUT = 10_000, 100  # unreadable places, and names of unused values
TOO_LONG = f"it is longer than {LONGEST_LINE // MIB} MiB"
SEPARATOR = "\x1f"
IMPORTED = "imported"  # the key of a tag with the format as its value, and the kind of an event

T = TypeVar("T")
Columns = dict[str, Any]  # the values of a job by column of the store
JsonObject = dict[str, Any]
NO_COLUMNS: Columns = {}
NO_OBJECT: JsonObject = {}
is_secret_name = lru_cache(4096)(is_secret)


class ImportedJob(NamedTuple):
    """A job to insert: its own columns, its samples, and the columns that all jobs of its source share."""

    columns: Columns
    samples: Sequence[Sample] = ()
    shared_columns: Columns = NO_COLUMNS


@record
class Unreadable:
    """A file, or a line of a file, that could not be imported."""

    path: Path
    line: int | None
    why: str

    def __str__(self) -> str:
        return f"{self.path}{'' if self.line is None else f':{self.line}'} ({self.why})"


class ImportContext:
    """One import: the tags and host for every job, the position in the current file, and what was not imported."""

    def __init__(
        self, tags: Mapping[str, str] | None = None, host: str | None = None, secret: Sequence[str] = ()
    ) -> None:
        self.tags, self.host, self.secret = dict(tags or {}), host, secret
        self.unreadable: list[Unreadable] = []
        self.unnamed = 0  # the number of unreadable places beyond MOST_NAMED
        self.bad_lines = 0  # in the current file
        self.left_out: dict[str, set[str]] = {}
        self.position: Callable[[], int] = lambda: 0  # bytes read of the current file

    def job(self, kind: str, *key: object, **values: Any) -> Job:
        """An ended job of a format; the same key always gives the same job id, so that no job is imported twice."""
        known = {name: value for name, value in values.items() if value is not None}
        known["command"] = tuple(redact_command(list(known.get("command", ())), self.secret))
        known["params"] = self.params(known.get("params", {}))
        known["tags"] = {IMPORTED: kind} | known.get("tags", {}) | self.tags
        unknown = {"name": kind, "host": self.host or "", "user": "", "cwd": "", "status": Status.UNKNOWN}
        return Job(**unknown | known | {"id": job_id(kind, *key), "settled": True})

    def params(self, params: dict[str, Any]) -> dict[str, Any]:
        """Parameters with secrets redacted; redaction is slow, and skipped where all values are numbers."""
        for key, value in params.items():
            if isinstance(value, str) or is_secret_name(key):
                return redact_mapping(params, self.secret)
        return params

    def lines(self, path: Path, is_packed: bool = False) -> Iterator[str]:
        """The lines of a text file; bytes that are not UTF-8 become surrogates.

        A line that is too long is noted as unreadable and yielded empty, so that the other lines keep their numbers.
        Reading stops, with a note, where the file is damaged, or after too many empty or unreadable lines: a few KiB
        can unpack to millions of them.
        """
        read = empty = self.bad_lines = 0
        try:
            with path.open("rb", buffering=MIB) as file:
                self.position = file.tell
                content = io.BufferedReader(UnpackedFile(file, MOST_UNPACKED_BYTES)) if is_packed else file
                with io.TextIOWrapper(content, "utf-8", "surrogateescape") as text:
                    while line := text.readline(LONGEST_LINE):
                        if len(line) == LONGEST_LINE and not line.endswith("\n"):
                            _skip_line(text)
                            self.cannot_read(path, read + 1, TOO_LONG)
                            line = "\n"
                        read += 1
                        empty += line.isspace()
                        if empty > MOST_EMPTY_LINES or self.bad_lines > MOST_BAD_LINES:
                            self.skip_rest(path, "empty lines" if empty > MOST_EMPTY_LINES else "unreadable lines")
                            return
                        yield line
        except (OSError, EOFError, zlib.error) as error:
            self.cannot_read(path, read + 1 if read else None, getattr(error, "strerror", None) or str(error))

    def whole_text(self, path: Path) -> str:
        """The text of a small file; empty, with a note, if it is too long."""
        lines: list[str] = []
        characters_left = LONGEST_LINE
        for line in self.lines(path):
            characters_left -= len(line)
            if characters_left < 0:
                self.cannot_read(path, None, TOO_LONG)
                return ""
            lines.append(line)
        return "".join(lines)

    def most_samples(self, path: Path, samples: Iterable[T]) -> Iterator[T]:
        """At most MOST_SAMPLES samples, which fit into memory; noted if there are more."""
        for count, sample in enumerate(samples):
            if count == MOST_SAMPLES:
                self.cannot_read(path, None, f"it has more than {MOST_SAMPLES:,} samples: the rest is left out")
                return
            yield sample

    def json_objects(self, path: Path, lines: Iterable[str]) -> Iterator[tuple[int, JsonObject]]:
        """The objects of JSON Lines with their line numbers; any other line is noted as unreadable."""
        for number, line in enumerate(lines, start=1):
            if line.isspace():
                continue
            try:
                value = json.loads(line)
            except (ValueError, RecursionError):
                self.cannot_read(path, number, "it is truncated" if not line.endswith("\n") else "it is not JSON")
                continue
            if isinstance(value, dict):
                yield number, value
            else:
                self.cannot_read(path, number, "it is not a JSON object")

    def csv_rows(self, path: Path, **options: Any) -> Iterator[tuple[int, list[str]]]:
        """The rows of a CSV file with their line numbers, first the header; without empty rows."""
        reader = csv.reader(self.lines(path), **options)
        try:
            for words in reader:
                if words:
                    yield reader.line_num, words
        except csv.Error as error:
            self.cannot_read(path, reader.line_num, str(error))

    def skip_rest(self, path: Path, what: str) -> None:
        """Note that a file is not read to its end; MOST_NAMED does not limit these notes."""
        why = f"it has too many {what}: the rest is left out"
        self.unreadable.append(Unreadable(path, None, why))

    def cannot_read(self, path: Path, line: int | None, why: str) -> None:
        """Note that a file, or a line of it, could not be imported."""
        self.bad_lines += line is not None
        if len(self.unreadable) < MOST_NAMED:
            self.unreadable.append(Unreadable(path, line, why))
        else:
            self.unnamed += 1

    def count_unreadable(self) -> int:
        """The number of lines and files that could not be imported so far."""
        return len(self.unreadable) + self.unnamed

    def leave_out(self, kind: str, names: Iterable[str]) -> None:
        """Note the names of values that jobtop has no column for, at most MOST_LEFT_OUT per format."""
        known = self.left_out.setdefault(kind, set())
        known.update(islice((name for name in names if name not in known), max(0, MOST_LEFT_OUT - len(known))))


def _skip_line(text: io.TextIOWrapper) -> None:
    """Read to the end of the line; EOFError if the line is longer than LONGEST_SKIPPED."""
    for _ in range(LONGEST_SKIPPED // LONGEST_LINE):
        rest = text.readline(LONGEST_LINE)
        if not rest or rest.endswith("\n"):
            return
    raise EOFError(f"{TOO_LONG}: the rest of the file is left out")


def job_columns(job: Job) -> Columns:
    """The columns of a job that have a value."""
    return {name: value for name, value in columns_of(job).items() if value is not None}


class UnpackedFile(io.RawIOBase):
    """The contents of a gzip file, also of a truncated one: the gzip module returns nothing of a truncated member."""

    def __init__(self, file: BinaryIO, most_bytes: int) -> None:
        self.file = file
        self.bytes_left = most_bytes
        self.packed = b""
        self.unpacker = zlib.decompressobj(GZIP_WINDOW)
        self.is_inside_member = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while True:
            self.packed = self.packed or self.file.read(CHUNK_BYTES)
            is_at_end = not self.packed
            if is_at_end and not self.is_inside_member:
                return 0
            data = self.unpacker.decompress(self.packed, len(buffer))
            self.packed = self.unpacker.unconsumed_tail or self.unpacker.unused_data
            self.is_inside_member = not self.unpacker.eof
            if self.unpacker.eof:
                self.unpacker = zlib.decompressobj(GZIP_WINDOW)
            if data:
                self.bytes_left -= len(data)
                if self.bytes_left < 0:
                    raise EOFError("unpacked it is too large: the rest is left out")
                buffer[: len(data)] = data
                return len(data)
            if is_at_end:
                raise EOFError("it is truncated")


def job_id(kind: str, *key: object) -> str:
    """A UUID that depends on the format and the key alone: a job that is imported again has the same id."""
    text = SEPARATOR.join((kind, *map(str, key)))
    digits = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-8{digits[17:20]}-{digits[20:32]}"


def number(value: object) -> float | int | None:
    """A finite number that fits a column, from a JSON value or a text; None for anything else."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if -LARGEST < value < LARGEST else None


def amount(value: object, factor: float = 1) -> int | None:
    """A non-negative number times a factor, as an integer; None for anything else."""
    found = number(value)
    found = None if found is None else number(found * factor)
    return None if found is None or found < 0 else round(found)


def seconds(value: object, factor: float = 1.0) -> float | None:
    """A non-negative number times a factor, as seconds; None for anything else."""
    if type(value) is float and 0 <= value < LARGEST:
        return value * factor
    found = number(value)
    return None if found is None or found < 0 else float(found * factor)


def moment(value: object, is_utc: bool = False) -> float | None:
    """Seconds since the epoch, from a number or from ISO 8601, which without a zone is local time unless `is_utc`."""
    if isinstance(value, str):
        try:
            at = datetime.fromisoformat(value)
            value = (at.replace(tzinfo=UTC) if is_utc and at.tzinfo is None else at).timestamp()
        except (ValueError, OverflowError):
            return None
        return value if 0 <= value < LATEST else None
    found = number(value)
    return None if found is None or not 0 <= found < LATEST else float(found)


def text(value: object) -> str | None:
    """A non-empty text; another JSON value as JSON, and None for bytes."""
    if value is None or value == "" or isinstance(value, bytes):
        return None
    return value if isinstance(value, str) else json.dumps(value)


def column_text(value: object) -> str | bytes | None:
    """The same as an SQL value: SQLite accepts no lone surrogates."""
    found = text(value)
    return found if found is None or found.isascii() else stored_text(found)


def nested_object(entry: JsonObject, key: str) -> JsonObject:
    """The JSON object at a key; an empty one if there is none."""
    value = entry.get(key)
    return value if isinstance(value, dict) else NO_OBJECT
