"""What every reader of other programs' files shares: values as jobtop keeps them, and what is to be said at the end.

Whatever stands in such a file becomes a number, a text or a moment, or None: nothing of it is trusted.
"""

from __future__ import annotations

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
LATEST = 253_370_764_800.0  # the year 9999: beyond, Python has no dates
GZIP_WINDOW = 16 + zlib.MAX_WBITS
CHUNK_BYTES = 64 * 1024
LONGEST_LINE = 2 * MIB  # in characters; JSON takes thirty times as much memory in the worst case
LONGEST_SKIPPED = 64 * MIB
MOST_UNPACKED = 512 * MIB
MOST_SAMPLES = 500_000
MOST_EMPTY_LINES, MOST_BAD_LINES = 1_000_000, 100_000  # of a file: either is read within a second
MOST_NAMED, MOST_LEFT_OUT = 10_000, 100
TOO_LONG = f"it is longer than {LONGEST_LINE // MIB} MiB"
SEPARATOR = "\x1f"
IMPORTED = "imported"  # a tag, whose value is the kind, and an event

T = TypeVar("T")
Row = dict[str, Any]  # a job by column of the store
NO_COLUMNS: Row = {}
is_secret_name = lru_cache(4096)(is_secret)


class Taken(NamedTuple):
    """A job to keep: its columns, those that it has in common with all others of its source, and its samples."""

    row: Row
    samples: Sequence[Sample] = ()
    common: Row = NO_COLUMNS


@record
class Unreadable:
    """What could not be taken: a file, or a line of it."""

    path: Path
    line: int | None
    why: str

    def __str__(self) -> str:
        return f"{self.path}{'' if self.line is None else f':{self.line}'} ({self.why})"


class Intake:
    """One import: what the caller adds to every job, how far it is, and what was not taken."""

    def __init__(
        self, tags: Mapping[str, str] | None = None, host: str | None = None, secret: Sequence[str] = ()
    ) -> None:
        self.tags, self.host, self.secret = dict(tags or {}), host, secret
        self.unreadable: list[Unreadable] = []
        self.unnamed = 0  # what else could not be taken
        self.bad_lines = 0  # of the file that is being read
        self.left_out: dict[str, set[str]] = {}
        self.position: Callable[[], int] = lambda: 0  # bytes read of the files of the current source

    def job(self, kind: str, *key: object, **values: Any) -> Job:
        """A job that nobody watches any more; the same key of the same kind is the same job, whoever imports it."""
        known = {name: value for name, value in values.items() if value is not None}
        known["command"] = tuple(redact_command(list(known.get("command", ())), self.secret))
        known["params"] = self.params(known.get("params", {}))
        known["tags"] = {IMPORTED: kind} | known.get("tags", {}) | self.tags
        unknown = {"name": kind, "host": self.host or "", "user": "", "cwd": "", "status": Status.UNKNOWN}
        return Job(**unknown | known | {"id": job_id(kind, *key), "settled": True})

    def params(self, params: dict[str, Any]) -> dict[str, Any]:
        """Parameters without what looks secret; most are numbers, which are quickly looked through."""
        for key, value in params.items():
            if isinstance(value, str) or is_secret_name(key):
                return redact_mapping(params, self.secret)
        return params

    def lines(self, path: Path, is_packed: bool = False) -> Iterator[str]:
        """The lines of a text; bytes that are no UTF-8 survive. What breaks off is said, and what came before stays.

        A line that is too long is said too, and empty here, so that the others keep their numbers. A file with too
        many lines that are empty or cannot be read is left there: a few KiB can unpack to millions of them.
        """
        read = empty = self.bad_lines = 0
        try:
            with path.open("rb", buffering=MIB) as file:
                self.position = file.tell
                whole = io.BufferedReader(Unpacked(file, MOST_UNPACKED)) if is_packed else file
                with io.TextIOWrapper(whole, "utf-8", "surrogateescape") as text:
                    while line := text.readline(LONGEST_LINE):
                        if len(line) == LONGEST_LINE and not line.endswith("\n"):
                            _skip_line(text)
                            self.cannot_read(path, read + 1, TOO_LONG)
                            line = "\n"
                        read += 1
                        empty += line.isspace()
                        if empty > MOST_EMPTY_LINES or self.bad_lines > MOST_BAD_LINES:
                            self.leave_rest(path, "empty lines" if empty > MOST_EMPTY_LINES else "unreadable lines")
                            return
                        yield line
        except (OSError, EOFError, zlib.error) as error:
            self.cannot_read(path, read + 1 if read else None, getattr(error, "strerror", None) or str(error))

    def whole_text(self, path: Path) -> str:
        """A file that is one text, and a small one; empty if it is not."""
        lines: list[str] = []
        left = LONGEST_LINE
        for line in self.lines(path):
            left -= len(line)
            if left < 0:
                self.cannot_read(path, None, TOO_LONG)
                return ""
            lines.append(line)
        return "".join(lines)

    def most_samples(self, path: Path, samples: Iterable[T]) -> Iterator[T]:
        """Samples up to a number that fits into memory; if there are more, that is said."""
        for count, sample in enumerate(samples):
            if count == MOST_SAMPLES:
                self.cannot_read(path, None, f"it has more than {MOST_SAMPLES:,} samples: the rest is left out")
                return
            yield sample

    def shapes(self, path: Path, lines: Iterable[str]) -> Iterator[tuple[int, dict[str, Any]]]:
        """The objects of JSON Lines and the numbers of their lines; any other line is said."""
        for place, line in enumerate(lines, start=1):
            if line.isspace():
                continue
            try:
                shape = json.loads(line)
            except (ValueError, RecursionError):
                self.cannot_read(path, place, "it breaks off" if not line.endswith("\n") else "it is no JSON")
                continue
            if isinstance(shape, dict):
                yield place, shape
            else:
                self.cannot_read(path, place, "it is no object")

    def leave_rest(self, path: Path, what: str) -> None:
        """Say that a file is not read to its end; said of every such file, however many lines were named before."""
        why = f"it has too many {what}: the rest is left out"
        self.unreadable.append(Unreadable(path, None, why))

    def cannot_read(self, path: Path, line: int | None, why: str) -> None:
        self.bad_lines += line is not None
        if len(self.unreadable) < MOST_NAMED:
            self.unreadable.append(Unreadable(path, line, why))
        else:
            self.unnamed += 1

    def bad_places(self) -> int:
        """How many lines and files could not be read so far."""
        return len(self.unreadable) + self.unnamed

    def leave_out(self, kind: str, names: Iterable[str]) -> None:
        """Remember what there is no place for, up to a number that can be said."""
        known = self.left_out.setdefault(kind, set())
        known.update(islice((name for name in names if name not in known), max(0, MOST_LEFT_OUT - len(known))))


def _skip_line(text: io.TextIOWrapper) -> None:
    """Read to the end of the line; EOFError if that does not come."""
    for _ in range(LONGEST_SKIPPED // LONGEST_LINE):
        rest = text.readline(LONGEST_LINE)
        if not rest or rest.endswith("\n"):
            return
    raise EOFError(f"{TOO_LONG}: the rest of the file is left out")


def row_of(job: Job) -> Row:
    """The columns of a job that have something in them."""
    return {name: value for name, value in columns_of(job).items() if value is not None}


class Unpacked(io.RawIOBase):
    """What is packed in a file, as far as it goes: gzip's own reader gives nothing of a part that breaks off."""

    def __init__(self, file: BinaryIO, most_bytes: int) -> None:
        self.file = file
        self.left = most_bytes
        self.packed = b""
        self.unpacker = zlib.decompressobj(GZIP_WINDOW)
        self.is_within = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while True:
            self.packed = self.packed or self.file.read(CHUNK_BYTES)
            is_over = not self.packed
            if is_over and not self.is_within:
                return 0
            data = self.unpacker.decompress(self.packed, len(buffer))
            self.packed = self.unpacker.unconsumed_tail or self.unpacker.unused_data
            self.is_within = not self.unpacker.eof
            if self.unpacker.eof:
                self.unpacker = zlib.decompressobj(GZIP_WINDOW)
            if data:
                self.left -= len(data)
                if self.left < 0:
                    raise EOFError("unpacked it is too large: the rest is left out")
                buffer[: len(data)] = data
                return len(data)
            if is_over:
                raise EOFError("it breaks off")


def job_id(kind: str, *key: object) -> str:
    """A uuid that is always the same for a foreign job: what is imported again is known by it."""
    text = SEPARATOR.join((kind, *map(str, key)))
    digits = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-8{digits[17:20]}-{digits[20:32]}"


def number(value: object) -> float | int | None:
    """A finite number that fits a column, from JSON or from text."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if -LARGEST < value < LARGEST else None


def amount(value: object, factor: float = 1) -> int | None:
    """A whole number of something there cannot be less than none of; the value in units of so many."""
    found = number(value)
    found = None if found is None else number(found * factor)
    return None if found is None or found < 0 else round(found)


def seconds(value: object, factor: float = 1.0) -> float | None:
    """A duration, from one in units of so many seconds."""
    if type(value) is float and 0 <= value < LARGEST:
        return value * factor
    found = number(value)
    return None if found is None or found < 0 else float(found * factor)


def moment(value: object, is_utc: bool = False) -> float | None:
    """Seconds since the epoch, from those or from ISO 8601; without a zone it is local time, unless said otherwise."""
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
    """A text that says something; what is no text as it would be written, and of bytes nothing."""
    if value is None or value == "" or isinstance(value, bytes):
        return None
    return value if isinstance(value, str) else json.dumps(value)


def column_text(value: object) -> str | bytes | None:
    """The same for a column of the store, which takes no lone surrogates."""
    found = text(value)
    return found if found is None or found.isascii() else stored_text(found)
