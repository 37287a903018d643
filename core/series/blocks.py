"""Packs samples of one job into a compressed block of bytes, and unpacks it. Pure; the store decides where blocks go.

A block is a version byte, a checksum (crc32), a table of columns, and the bytes of the columns. The values of a column
are multiplied by the steps of their metric to get whole numbers. Stored are their differences, minus the smallest
difference, divided by their greatest common divisor, as byte planes: the low bytes of all numbers, then the next bytes,
and so on. That takes a quarter less space than zigzag varints, and the loops run in C. A column is identified by 16
bits of its key's crc32 and carries its steps, so that old blocks stay readable while the catalogue grows. Version 1 is
one zlib stream. In version 2, for long blocks, each column is a stream of its own and can be read without the others.
"""

import math
import struct
import zlib
from collections.abc import Collection, Mapping, Sequence
from itertools import accumulate
from operator import sub

from jobtop.core.errors import BlockDamaged
from jobtop.core.metrics import BY_KEY, VALUE, steps
from jobtop.core.model import Minute, Sample
from jobtop.core.record import record

Number = float | int
Values = Sequence[Number | None]
# A column as whole steps, their decimal places, True; if it could not be in whole steps: its numbers, places, False.
ColumnSteps = tuple[list[Number | None], int, bool]
PackedColumn = tuple[int, bytes, int, int, int]  # kind, bytes, first, smallest difference, divisor

ONE_STREAM, STREAM_PER_COLUMN = 1, 2
MIN_SAMPLES_PER_COLUMN_STREAMS = 300
LEVEL = 6
ELAPSED, ID, SAMPLES = "elapsed", "id", "samples"
EXACT = 0  # steps of a value that is not rounded: whole numbers, or doubles
OWN_STEPS = {ELAPSED: 1000, ID: 1, SAMPLES: 1, VALUE: EXACT}
MINUTE_SUFFIXES = (":min", ":max", ":last")  # of the additional columns of a key in a block of minutes
HEAD = struct.Struct("<BI")
TABLE_SIZE = struct.Struct("<I")
RAW = -zlib.MAX_WBITS  # no header, and no checksum of its own
COUNTS = struct.Struct("<IH")
COLUMN = struct.Struct("<BBqqQ")  # kind, decimal places, first, smallest difference, divisor
WIDTH = 0x0F
PLAIN, FLOATS, GAPS, DEFLATED = 0x10, 0x20, 0x40, 0x80
INT64 = 2**63
# Limits for reading, above what is ever written: a crafted file can have a valid checksum.
MAX_SAMPLES, MAX_COLUMNS, MAX_PLACES = 2048, 1024, 18
MAX_SECONDS = 1e10  # since the start of a job, or the boot of a machine
MAX_TABLE_BYTES = 6 + MAX_COLUMNS * 32
MAX_BYTES = 16 * 1024 * 1024  # of all columns


@record
class Block:
    """The times of samples, their values by key, and their ids unless only some keys were requested.

    A key without a column was absent in all samples.
    """

    ids: list[int]
    elapsed: list[float]
    columns: dict[str, list[Number | None]]

    def samples(self, keys: Sequence[str]) -> list[Sample]:
        """Return the samples, with values in the order of the keys."""
        absent: list[Number | None] = [None] * len(self.elapsed)
        rows = zip(*(self.columns.get(key, absent) for key in keys), strict=True)
        minutes = self._minutes() if SAMPLES in self.columns else [None] * len(self.elapsed)
        return [Sample(*sample) for sample in zip(self.elapsed, rows, minutes, strict=True)]

    def _minutes(self) -> list[Minute | None]:
        by_suffix = [
            {key.removesuffix(suffix): values for key, values in self.columns.items() if key.endswith(suffix)}
            for suffix in MINUTE_SUFFIXES
        ]
        return [
            Minute(int(count or 1), *({key: values[place] for key, values in part.items()} for part in by_suffix))
            for place, count in enumerate(self.columns[SAMPLES])
        ]


@record
class Growth:
    """A column that never falls: its first value and its differences, in whole steps of 1 / `factor`.

    Each difference is `least` plus the number in `extra`.
    """

    first: int
    least: int
    extra: Sequence[int]
    factor: int

    def differences(self) -> list[int]:
        return [number + self.least for number in self.extra]

    def last(self) -> float:
        return (self.first + self.least * len(self.extra) + sum(self.extra)) / self.factor


@record
class OpenBlock:
    """A block after its table was read: the short ids of its columns, and where their bytes are."""

    count: int
    names: tuple[int, ...]
    sizes: tuple[int, ...]
    table: bytes
    table_at: int
    body: bytes
    body_at: int

    def decode(self, wanted: Collection[str] | None = None) -> Block:
        """Return the samples, with all columns or only those wanted."""
        names = [KEYS[name] for name in self.names if name in KEYS] if wanted is None else (ELAPSED, *wanted)
        columns = {key: self.values(key) for key in names}
        moments, ids = columns.pop(ELAPSED, []), columns.pop(ID, [])
        _check_times_and_ids(self.count, moments, ids if wanted is None else None, columns.get(SAMPLES))
        return Block(ids, moments, {key: values for key, values in columns.items() if values})  # type: ignore[arg-type]

    @property
    def is_rolled(self) -> bool:
        """Whether the rows are minutes."""
        return self.has(SAMPLES)

    def has(self, key: str) -> bool:
        return SHORT_IDS.get(key) in self.names

    def values(self, key: str) -> list[Number | None]:
        """Return the values of one column; empty if the block does not have it."""
        return _scaled(*self.column(SHORT_IDS[key])) if self.has(key) else []

    def growth(self, key: str) -> Growth | None:
        """Return how a column grew; None if it fell, has gaps, or is not in the block."""
        name = SHORT_IDS[key]
        if name not in self.names:
            return None
        part, kind, places, first, low, divisor = self._part(name)
        if kind & (PLAIN | FLOATS | GAPS) or low < 0:
            return None
        _check_size(part, self.count, kind)
        if divisor > 1:
            return Growth(first, 0, _differences(part, self.count, kind, low, divisor), 10**places)
        more = _from_planes(part, kind & WIDTH) if kind & WIDTH else bytes(self.count - 1)
        return Growth(first, low, more, 10**places)

    def column(self, name: int) -> ColumnSteps:
        part, kind, places, first, low, divisor = self._part(name)
        return _unpacked(part, self.count, kind, first, low, divisor), places, not kind & FLOATS

    def _part(self, name: int) -> tuple[bytes, int, int, int, int, int]:
        """Return the bytes of a column, and its row of the table."""
        place = self.names.index(name)
        kind, places, first, low, divisor = COLUMN.unpack_from(self.table, self.table_at + place * COLUMN.size)
        if places > MAX_PLACES or not divisor or kind & WIDTH > 8:
            raise BlockDamaged(f"a column has width {kind & WIDTH}, {places} places and divisor {divisor}")
        start = self.body_at + sum(self.sizes[:place])
        part = self.body[start : start + self.sizes[place]]
        if kind & DEFLATED:
            part = _inflated(part, RAW, 9 * self.count)
        return part, kind, places, first, low, divisor


def encode(keys: Sequence[str], ids: Sequence[int], moments: Sequence[float], rows: Sequence[Values]) -> bytes:
    """Return the block of samples, given as ids, times and values in the order of the keys.

    Not given as `Sample`: a writer keeps thousands, and the garbage collector does not track tuples of numbers.
    """
    if rows and all(row is rows[0] for row in rows):
        return _encode_constant(keys, ids, moments, rows[0])
    columns = zip(*rows, strict=True)
    named = ((ELAPSED, moments), (ID, ids), *zip(keys, columns, strict=bool(rows)))
    packed = {SHORT_IDS[key]: _packed_column(values, *_steps(key)) for key, values in named if not _is_absent(values)}
    return _block(len(rows), packed)


def _encode_constant(keys: Sequence[str], ids: Sequence[int], moments: Sequence[float], row: Values) -> bytes:
    """Return the block of samples that all have the same values: a constant column takes no bytes."""
    packed = {SHORT_IDS[key]: _packed_column(values, *_steps(key)) for key, values in ((ELAPSED, moments), (ID, ids))}
    for key, value in zip(keys, row, strict=True):
        if value is not None:
            column = _packed_column((value,), *_steps(key))
            packed[SHORT_IDS[key]] = _packed_column((value,) * len(ids), *_steps(key)) if column[1] else column
    return _block(len(ids), packed)


def encode_columns(ids: Sequence[int], moments: Sequence[float], columns: Mapping[str, tuple[Values, int]]) -> bytes:
    """Return the block of columns by name, each with its steps per unit."""
    own = {ELAPSED: (moments, OWN_STEPS[ELAPSED]), ID: (ids, OWN_STEPS[ID])}
    packed = {
        SHORT_IDS[name]: _packed_column(values, factor, len(str(factor)) - 1)
        for name, (values, factor) in (own | dict(columns)).items()
        if not _is_absent(values)
    }
    return _block(len(ids), packed)


def merge(block_data: Sequence[bytes]) -> bytes:
    """Return one block with the samples of several, in order; columns unknown to this version are kept."""
    opened = [open_block(data) for data in block_data]
    packed = {
        name: _merged([block.column(name) if name in block.names else block.count for block in opened])
        for name in dict.fromkeys(name for block in opened for name in block.names)
    }
    return _block(sum(block.count for block in opened), packed)


def decode(data: bytes, wanted: Collection[str] | None = None) -> Block:
    """Return the samples of a block, with all columns or only those wanted; BlockDamaged if it was changed."""
    return open_block(data).decode(wanted)


def open_block(data: bytes) -> OpenBlock:
    """Read the table of a block; BlockDamaged if it was changed, or was not written by jobtop."""
    version = _checked_version(data)
    try:
        if version == ONE_STREAM:
            table = body = _inflated(data[HEAD.size :], zlib.MAX_WBITS, MAX_BYTES)
        else:
            body, begin = data, HEAD.size + TABLE_SIZE.size
            body_at = begin + TABLE_SIZE.unpack_from(data, HEAD.size)[0]
            table = _inflated(data[begin:body_at], zlib.MAX_WBITS, MAX_TABLE_BYTES)
        count, number = COUNTS.unpack_from(table)
        if not 0 < count <= MAX_SAMPLES or not 0 < number <= MAX_COLUMNS:
            raise BlockDamaged(f"a block of samples has {number} columns of {count} values")
        numbers = struct.unpack_from(f"<{number}H{number}I", table, COUNTS.size)
    except struct.error as error:
        raise BlockDamaged(f"a block of samples breaks off ({error})") from error
    table_at = COUNTS.size + 6 * number
    table_end = table_at + number * COLUMN.size
    if version == ONE_STREAM:
        body_at = table_end
    names, sizes = numbers[:number], numbers[number:]
    if len(table) < table_end or body_at + sum(sizes) != len(body) or len(set(names)) < number:
        raise BlockDamaged("the columns of a block of samples are not where its table says")
    return OpenBlock(count, names, sizes, table, table_at, body, body_at)


def _inflated(data: bytes, window: int, most: int) -> bytes:
    """Decompress at most `most` bytes: a small crafted input could expand a thousandfold."""
    unpacker = zlib.decompressobj(window)
    try:
        unpacked = unpacker.decompress(data, most + 1)
    except zlib.error as error:
        raise BlockDamaged(f"a block of samples cannot be unpacked ({error})") from error
    if len(unpacked) > most or not unpacker.eof or unpacker.unused_data:
        raise BlockDamaged("a block of samples is larger, or shorter, than it says")
    return unpacked


def _check_times_and_ids(count: int, moments: Values, ids: Values | None, counts: Values | None) -> None:
    """Check that every sample has a time and an id, and that every minute has at least one sample."""
    if len(moments) != count or not are_within(moments, MAX_SECONDS):
        raise BlockDamaged("a block of samples has wrong moments")
    if ids is not None and (len(ids) != count or set(map(type, ids)) != {int}):
        raise BlockDamaged("a block of samples has wrong ids")
    if counts is not None and (set(map(type, counts)) != {int} or min(counts) < 1):  # type: ignore[type-var, operator]
        raise BlockDamaged("a block of minutes has wrong counts")


def are_within(values: Values, most: float) -> bool:
    """Return whether all values are present and between -most and most."""
    try:
        return -most <= min(values) and max(values) <= most  # type: ignore[type-var, operator]
    except TypeError:  # one is absent
        return False


def _check_size(part: bytes, count: int, kind: int) -> None:
    """Check that a column has the bytes of `count` numbers."""
    width = 8 if kind & (PLAIN | FLOATS) else kind & WIDTH
    numbers = count if kind & (PLAIN | FLOATS) else count - 1
    if numbers < 0 or len(part) != width * numbers:
        raise BlockDamaged(f"a column of {count} values has {len(part)} bytes instead of {width * numbers}")


def _block(count: int, packed: Mapping[int, tuple[bytes, bytes]]) -> bytes:
    """Return the block of packed columns, given by short id."""
    table, parts = [row for row, _ in packed.values()], [part for _, part in packed.values()]
    if count < MIN_SAMPLES_PER_COLUMN_STREAMS:
        return _with_checksum(
            ONE_STREAM, zlib.compress(b"".join((_index(count, packed, parts), *table, *parts)), LEVEL)
        )
    for place, part in enumerate(parts):
        deflated = _deflated(part)
        if len(deflated) < len(part):
            parts[place] = deflated
            table[place] = bytes((table[place][0] | DEFLATED,)) + table[place][1:]
    head = zlib.compress(b"".join((_index(count, packed, parts), *table)), LEVEL)
    return _with_checksum(STREAM_PER_COLUMN, b"".join((TABLE_SIZE.pack(len(head)), head, *parts)))


def _index(count: int, names: Collection[int], parts: Sequence[bytes]) -> bytes:
    number = len(parts)
    return COUNTS.pack(count, number) + struct.pack(f"<{number}H{number}I", *names, *map(len, parts))


def _with_checksum(version: int, body: bytes) -> bytes:
    return HEAD.pack(version, zlib.crc32(body, version)) + body


def _deflated(part: bytes) -> bytes:
    stream = zlib.compressobj(LEVEL, zlib.DEFLATED, RAW)
    return stream.compress(part) + stream.flush()


def _checked_version(data: bytes) -> int:
    if not isinstance(data, bytes):
        raise BlockDamaged(f"a block of samples is {type(data).__name__}, not bytes")
    if len(data) < HEAD.size:
        raise BlockDamaged(f"a block of samples has only {len(data)} bytes")
    version, checksum = HEAD.unpack_from(data)
    if zlib.crc32(memoryview(data)[HEAD.size :], version) != checksum:
        raise BlockDamaged("a block of samples does not match its checksum")
    if version not in (ONE_STREAM, STREAM_PER_COLUMN):
        raise BlockDamaged(
            f"a block of samples has version {version}, this jobtop knows {ONE_STREAM} and {STREAM_PER_COLUMN}"
        )
    return int(version)


def _is_absent(values: Values) -> bool:
    return not values or (values[0] is None and values.count(None) == len(values))


def _packed_column(values: Values, factor: int, places: int) -> tuple[bytes, bytes]:
    """Return the table row and the bytes of a column with `factor` steps per unit."""
    try:
        packed = _packed_numbers(values if factor == 1 else _whole_steps(values, factor))
    except (TypeError, ValueError, OverflowError, struct.error):
        packed = _packed_irregular(values, factor)
    kind, part, first, low, divisor = packed
    return COLUMN.pack(kind, places, first, low, divisor), part


def _merged(pieces: Sequence[ColumnSteps | int]) -> tuple[bytes, bytes]:
    """Return one packed column from pieces; where a block lacks the column, the piece is the number of its samples."""
    there = [piece for piece in pieces if not isinstance(piece, int)]
    places = max(piece[1] for piece in there)
    if not all(is_whole for _, _, is_whole in there):
        return _packed_column(_joined(pieces, is_scaled=True), EXACT, 0)
    as_they_are = all(piece[1:] == (places, True) for piece in there)
    values = _joined(pieces, is_scaled=not as_they_are)
    return _packed_column(values, 1, places) if as_they_are else _packed_column(values, 10**places, places)


def _joined(pieces: Sequence[ColumnSteps | int], is_scaled: bool) -> list[Number | None]:
    """Return the values of several columns, as steps or as the numbers they stand for."""
    values: list[Number | None] = []
    for piece in pieces:
        if isinstance(piece, int):
            values += [None] * piece
        else:
            values += _scaled(*piece) if is_scaled else piece[0]
    return values


def _packed_irregular(values: Values, factor: int) -> PackedColumn:
    """Pack a column with gaps or with values that are not whole steps of 64 bits; the latter stay doubles."""
    present = [value for value in values if value is not None]
    kind, gaps = (GAPS, _bitmap(values)) if len(present) < len(values) else (0, b"")
    try:
        form, part, first, low, divisor = _packed_numbers(_whole_steps(present, factor))
    except (TypeError, ValueError, OverflowError, struct.error):
        form, part, first, low, divisor = FLOATS, struct.pack(f"<{len(present)}d", *present), 0, 0, 1
    return kind | form, gaps + part, first, low, divisor


def _packed_numbers(numbers: Values) -> PackedColumn:
    """Pack whole numbers as differences; TypeError if one is absent or not whole, other errors if one is too large."""
    first = numbers[0]
    if type(first) is not int or not -INT64 <= first < INT64:
        raise TypeError
    # Most columns are constant for long times.
    if first == numbers[-1] and numbers.count(first) == len(numbers):
        return 0, b"", first, 0, 1
    differences: list[int] = list(map(sub, numbers[1:], numbers))
    low, high = min(differences), max(differences)
    if type(low) is not int or type(high) is not int:
        raise TypeError
    if low < -INT64 or low >= INT64 or high - low >= INT64:
        return PLAIN, struct.pack(f"<{len(numbers)}q", *numbers), 0, 0, 1
    if low == high:
        return 0, b"", first, low, 1
    if low:
        differences = [difference - low for difference in differences]
    divisor = math.gcd(*differences)
    if divisor > 1:
        differences = [difference // divisor for difference in differences]
    width = (((high - low) // divisor).bit_length() + 7) // 8
    return width, _planes(differences, width), first, low, divisor


def _unpacked(part: bytes, count: int, kind: int, first: int, low: int, divisor: int) -> list[Number | None]:
    """Unpack a column into whole steps, or into numbers if it was stored as doubles."""
    gaps = part[: (count + 7) // 8] if kind & GAPS else b""
    bits = int.from_bytes(gaps, "little")
    present = bits.bit_count() if kind & GAPS else count
    if kind & GAPS and (len(gaps) != (count + 7) // 8 or bits >> count):
        raise BlockDamaged("a column has another number of gaps than values")
    part = part[len(gaps) :]
    if present or part:
        _check_size(part, present, kind)
    values = _floats(part, present) if kind & FLOATS else _numbers(part, present, kind, first, low, divisor)
    if gaps:
        return _with_gaps(values, gaps, count)
    return values if isinstance(values, list) else list(values)


def _scaled(steps: list[Number | None], places: int, is_whole: bool) -> list[Number | None]:
    """Convert whole steps to the numbers they stand for."""
    if not places or not is_whole:
        return steps
    factor = 10**places
    try:
        return [number / factor for number in steps]
    except TypeError:  # a value is absent
        return [None if number is None else number / factor for number in steps]


def _floats(part: bytes, count: int) -> Sequence[float | None]:
    """Read doubles; infinite and NaN become absent."""
    return [value if math.isfinite(value) else None for value in struct.unpack(f"<{count}d", part)]


def _numbers(part: bytes, count: int, kind: int, first: int, low: int, divisor: int) -> Sequence[int]:
    if kind & PLAIN:
        return struct.unpack(f"<{count}q", part)
    if not kind & WIDTH:
        return range(first, first + count * low, low) if low else [first] * count
    return list(accumulate(_differences(part, count, kind, low, divisor), initial=first))


def _differences(part: bytes, count: int, kind: int, low: int, divisor: int) -> list[int]:
    if not kind & WIDTH:
        return [low] * (count - 1)
    differences = _from_planes(part, kind & WIDTH)
    if divisor > 1:
        return [difference * divisor + low for difference in differences]
    return [difference + low for difference in differences] if low else list(differences)


def _planes(numbers: Sequence[int], width: int) -> bytes:
    """Pack whole numbers of `width` bytes as byte planes: all low bytes, then all next bytes, …"""
    if width == 1:
        return bytes(numbers)
    size, code = _machine_number(width)
    packed = struct.pack(f"<{len(numbers)}{code}", *numbers)
    return b"".join([packed[place::size] for place in range(width)])


def _from_planes(part: bytes, width: int) -> Sequence[int]:
    if width == 1:
        return part
    size, code = _machine_number(width)
    count = len(part) // width
    packed = bytearray(count * size)
    for place in range(width):
        packed[place::size] = part[place * count : (place + 1) * count]
    return struct.unpack(f"<{count}{code}", packed)


def _machine_number(width: int) -> tuple[int, str]:
    """Return size and struct code of the smallest integer type with at least this many bytes."""
    return (2, "H") if width == 2 else (4, "I") if width <= 4 else (8, "Q")


def _whole_steps(values: Values, factor: int) -> list[int]:
    """Convert values to whole steps; TypeError if one is absent, other errors if one cannot be converted."""
    if factor == EXACT:
        return [_without_fraction(value) for value in values]
    return [round(value * factor) for value in values]  # type: ignore[operator]


def _without_fraction(value: Number | None) -> int:
    whole = int(value)  # type: ignore[arg-type]
    if whole != value:
        raise ValueError
    return whole


def _bitmap(values: Values) -> bytes:
    """Return one bit per value, lowest first: whether it is present."""
    bits = "".join(["0" if value is None else "1" for value in reversed(values)])
    return int(bits, 2).to_bytes((len(values) + 7) // 8, "little")


def _with_gaps(values: Values, gaps: bytes, count: int) -> list[Number | None]:
    bits = f"{int.from_bytes(gaps, 'little'):0{count}b}"[::-1]
    following = iter(values)
    return [next(following) if bit == "1" else None for bit in bits]


def _steps(key: str) -> tuple[int, int]:
    """Return the steps per unit of a key, and the decimal places they stand for."""
    factor = OWN_STEPS[key] if key in OWN_STEPS else steps(key)
    return factor, len(str(factor)) - 1


_MINUTE_KEYS = [f"{key}{suffix}" for key in (*BY_KEY, VALUE) for suffix in MINUTE_SUFFIXES]
# 16 of the 32 bits: a test proves that no two keys of the catalogue share them.
SHORT_IDS = {key: zlib.crc32(key.encode()) & 0xFFFF for key in (*OWN_STEPS, *BY_KEY, *_MINUTE_KEYS)}
KEYS = {short: key for key, short in SHORT_IDS.items()}
