"""Samples of one job as one compressed block of bytes, and back. Pure; where blocks are kept is not known here.

A block is a version byte, a checksum (crc32), a table of columns, and their bytes. A column is the differences of whole
numbers (values times the steps of their metric), less the smallest, divided by what they have in common, as planes:
first the low bytes of all, then the next. Against zigzag varints that takes a quarter less room, and C does the loops.
A column is named by 16 bits of its key's crc32 and carries its steps, so that a block stays readable while the
catalogue grows. Version 1 is one zlib stream; in version 2, of long blocks, each column is a stream for itself, so that
one can be read without the others.
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
Steps = tuple[list[Number | None], int, bool]  # a column in steps, their decimal places; or, if not whole, its numbers
Packed = tuple[int, bytes, int, int, int]  # kind, bytes, first, smallest difference, divisor

WHOLE, APART = 1, 2
SHORTEST_APART = 300
LEVEL = 6
ELAPSED, ID, SAMPLES = "elapsed", "id", "samples"
EXACT = 0  # steps of a value that is not rounded: whole numbers, or doubles
OWN_STEPS = {ELAPSED: 1000, ID: 1, SAMPLES: 1, VALUE: EXACT}
OF_MINUTES = (":min", ":max", ":last")  # what a key has columns of, in a block of minutes
HEAD = struct.Struct("<BI")
TABLE_SIZE = struct.Struct("<I")
RAW = -zlib.MAX_WBITS  # no header, and no checksum of its own
COUNTS = struct.Struct("<IH")
COLUMN = struct.Struct("<BBqqQ")  # kind, decimal places, first, smallest difference, divisor
WIDTH = 0x0F
PLAIN, FLOATS, GAPS, DEFLATED = 0x10, 0x20, 0x40, 0x80
INT64 = 2**63
# What is read has at most so much, which is more than is written: a checksum proves nothing of a file from elsewhere.
MOST_SAMPLES, MOST_COLUMNS, MOST_PLACES = 2048, 1024, 18
MOST_SECONDS = 1e10  # since the start of a job, or the boot of a machine
MOST_TABLE_BYTES = 6 + MOST_COLUMNS * 32
MOST_BYTES = 16 * 1024 * 1024  # of all columns


@record
class Block:
    """Moments of samples, their values by key, and their ids unless only some keys were wanted.

    A key that is not among the columns was absent throughout.
    """

    ids: list[int]
    elapsed: list[float]
    columns: dict[str, list[Number | None]]

    def samples(self, keys: Sequence[str]) -> list[Sample]:
        """The samples, their values in the order of the keys."""
        absent: list[Number | None] = [None] * len(self.elapsed)
        rows = zip(*(self.columns.get(key, absent) for key in keys), strict=True)
        minutes = self._minutes() if SAMPLES in self.columns else [None] * len(self.elapsed)
        return [Sample(*sample) for sample in zip(self.elapsed, rows, minutes, strict=True)]

    def _minutes(self) -> list[Minute | None]:
        by_suffix = [
            {key.removesuffix(suffix): values for key, values in self.columns.items() if key.endswith(suffix)}
            for suffix in OF_MINUTES
        ]
        return [
            Minute(int(count or 1), *({key: values[place] for key, values in part.items()} for part in by_suffix))
            for place, count in enumerate(self.columns[SAMPLES])
        ]


@record
class Growth:
    """A column that only grows, in steps of which `factor` make one: its first value, and by how much it grew.

    Each time by `least`, and as much more as `more` says.
    """

    first: int
    least: int
    more: Sequence[int]
    factor: int

    def differences(self) -> list[int]:
        return [number + self.least for number in self.more]

    def last(self) -> float:
        return (self.first + self.least * len(self.more) + sum(self.more)) / self.factor


@record
class Opened:
    """A block whose table has been read: its columns by short name, and where their bytes are."""

    count: int
    names: tuple[int, ...]
    sizes: tuple[int, ...]
    table: bytes
    table_at: int
    body: bytes
    body_at: int

    def decoded(self, wanted: Collection[str] | None = None) -> Block:
        """The samples, of all columns or of those wanted."""
        names = [KEYS[name] for name in self.names if name in KEYS] if wanted is None else (ELAPSED, *wanted)
        columns = {key: self.values(key) for key in names}
        moments, ids = columns.pop(ELAPSED, []), columns.pop(ID, [])
        _check_own(self.count, moments, ids if wanted is None else None, columns.get(SAMPLES))
        return Block(ids, moments, {key: values for key, values in columns.items() if values})  # type: ignore[arg-type]

    @property
    def is_rolled(self) -> bool:
        """Whether its rows are minutes."""
        return self.has(SAMPLES)

    def has(self, key: str) -> bool:
        return SHORT_IDS.get(key) in self.names

    def values(self, key: str) -> list[Number | None]:
        """The values of one column; none if it is not there."""
        return _scaled(*self.column(SHORT_IDS[key])) if self.has(key) else []

    def growth(self, key: str) -> Growth | None:
        """How a column grew; None if it fell once, has gaps, or is not there."""
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

    def column(self, name: int) -> Steps:
        part, kind, places, first, low, divisor = self._part(name)
        return _unpacked(part, self.count, kind, first, low, divisor), places, not kind & FLOATS

    def _part(self, name: int) -> tuple[bytes, int, int, int, int, int]:
        """The bytes of a column, and its row in the table."""
        place = self.names.index(name)
        kind, places, first, low, divisor = COLUMN.unpack_from(self.table, self.table_at + place * COLUMN.size)
        if places > MOST_PLACES or not divisor or kind & WIDTH > 8:
            raise BlockDamaged(f"a column has width {kind & WIDTH}, {places} places and divisor {divisor}")
        start = self.body_at + sum(self.sizes[:place])
        part = self.body[start : start + self.sizes[place]]
        if kind & DEFLATED:
            part = _inflated(part, RAW, 9 * self.count)
        return part, kind, places, first, low, divisor


def encode(keys: Sequence[str], ids: Sequence[int], moments: Sequence[float], rows: Sequence[Values]) -> bytes:
    """The block of samples, given as their ids, moments and values in the order of the keys.

    Not as `Sample`: a writer keeps thousands, and the garbage collector leaves alone what is only numbers.
    """
    if rows and all(row is rows[0] for row in rows):
        return _encode_constant(keys, ids, moments, rows[0])
    columns = zip(*rows, strict=True)
    named = ((ELAPSED, moments), (ID, ids), *zip(keys, columns, strict=bool(rows)))
    packed = {SHORT_IDS[key]: _packed_column(values, *_steps(key)) for key, values in named if not _is_absent(values)}
    return _block(len(rows), packed)


def _encode_constant(keys: Sequence[str], ids: Sequence[int], moments: Sequence[float], row: Values) -> bytes:
    """The block of samples that all have the same values: a whole number that stays the same takes no bytes."""
    packed = {SHORT_IDS[key]: _packed_column(values, *_steps(key)) for key, values in ((ELAPSED, moments), (ID, ids))}
    for key, value in zip(keys, row, strict=True):
        if value is not None:
            column = _packed_column((value,), *_steps(key))
            packed[SHORT_IDS[key]] = _packed_column((value,) * len(ids), *_steps(key)) if column[1] else column
    return _block(len(ids), packed)


def encode_columns(ids: Sequence[int], moments: Sequence[float], columns: Mapping[str, tuple[Values, int]]) -> bytes:
    """The block of columns by their names, each with how many steps of it make one."""
    own = {ELAPSED: (moments, OWN_STEPS[ELAPSED]), ID: (ids, OWN_STEPS[ID])}
    packed = {
        SHORT_IDS[name]: _packed_column(values, factor, len(str(factor)) - 1)
        for name, (values, factor) in (own | dict(columns)).items()
        if not _is_absent(values)
    }
    return _block(len(ids), packed)


def merge(datas: Sequence[bytes]) -> bytes:
    """One block of the samples of several, in this order; columns that this version does not know come along."""
    opened = [open_block(data) for data in datas]
    packed = {
        name: _merged([block.column(name) if name in block.names else block.count for block in opened])
        for name in dict.fromkeys(name for block in opened for name in block.names)
    }
    return _block(sum(block.count for block in opened), packed)


def decode(data: bytes, wanted: Collection[str] | None = None) -> Block:
    """The samples of a block, of all columns or of those wanted; BlockDamaged if a bit of it has changed."""
    return open_block(data).decoded(wanted)


def open_block(data: bytes) -> Opened:
    """A block with its table read; BlockDamaged if a bit of it has changed, or if it was never written by jobtop."""
    version = _checked_version(data)
    try:
        if version == WHOLE:
            table = body = _inflated(data[HEAD.size :], zlib.MAX_WBITS, MOST_BYTES)
        else:
            body, begin = data, HEAD.size + TABLE_SIZE.size
            body_at = begin + TABLE_SIZE.unpack_from(data, HEAD.size)[0]
            table = _inflated(data[begin:body_at], zlib.MAX_WBITS, MOST_TABLE_BYTES)
        count, number = COUNTS.unpack_from(table)
        if not 0 < count <= MOST_SAMPLES or not 0 < number <= MOST_COLUMNS:
            raise BlockDamaged(f"a block of samples has {number} columns of {count} values")
        numbers = struct.unpack_from(f"<{number}H{number}I", table, COUNTS.size)
    except struct.error as error:
        raise BlockDamaged(f"a block of samples breaks off ({error})") from error
    table_at = COUNTS.size + 6 * number
    table_end = table_at + number * COLUMN.size
    if version == WHOLE:
        body_at = table_end
    names, sizes = numbers[:number], numbers[number:]
    if len(table) < table_end or body_at + sum(sizes) != len(body) or len(set(names)) < number:
        raise BlockDamaged("the columns of a block of samples are not where its table says")
    return Opened(count, names, sizes, table, table_at, body, body_at)


def _inflated(data: bytes, window: int, most: int) -> bytes:
    """Data unpacked, of at most so many bytes: a thousandth of them may be enough to make it."""
    unpacker = zlib.decompressobj(window)
    try:
        unpacked = unpacker.decompress(data, most + 1)
    except zlib.error as error:
        raise BlockDamaged(f"a block of samples cannot be unpacked ({error})") from error
    if len(unpacked) > most or not unpacker.eof or unpacker.unused_data:
        raise BlockDamaged("a block of samples is larger, or shorter, than it says")
    return unpacked


def _check_own(count: int, moments: Values, ids: Values | None, counts: Values | None) -> None:
    """Every sample has a moment and an id, and stands for at least one that was taken."""
    if len(moments) != count or not are_within(moments, MOST_SECONDS):
        raise BlockDamaged("a block of samples has wrong moments")
    if ids is not None and (len(ids) != count or set(map(type, ids)) != {int}):
        raise BlockDamaged("a block of samples has wrong ids")
    if counts is not None and (set(map(type, counts)) != {int} or min(counts) < 1):  # type: ignore[type-var, operator]
        raise BlockDamaged("a block of minutes has wrong counts")


def are_within(values: Values, most: float) -> bool:
    """Whether all values are there, and none is beyond a bound, below or above 0."""
    try:
        return -most <= min(values) and max(values) <= most  # type: ignore[type-var, operator]
    except TypeError:  # one is absent
        return False


def _check_size(part: bytes, count: int, kind: int) -> None:
    """That a column has the bytes of so many numbers."""
    width = 8 if kind & (PLAIN | FLOATS) else kind & WIDTH
    numbers = count if kind & (PLAIN | FLOATS) else count - 1
    if numbers < 0 or len(part) != width * numbers:
        raise BlockDamaged(f"a column of {count} values has {len(part)} bytes instead of {width * numbers}")


def _block(count: int, packed: Mapping[int, tuple[bytes, bytes]]) -> bytes:
    """The block of packed columns, by short name."""
    table, parts = [row for row, _ in packed.values()], [part for _, part in packed.values()]
    if count < SHORTEST_APART:
        return _sealed(WHOLE, zlib.compress(b"".join((_index(count, packed, parts), *table, *parts)), LEVEL))
    for place, part in enumerate(parts):
        deflated = _deflated(part)
        if len(deflated) < len(part):
            parts[place] = deflated
            table[place] = bytes((table[place][0] | DEFLATED,)) + table[place][1:]
    head = zlib.compress(b"".join((_index(count, packed, parts), *table)), LEVEL)
    return _sealed(APART, b"".join((TABLE_SIZE.pack(len(head)), head, *parts)))


def _index(count: int, names: Collection[int], parts: Sequence[bytes]) -> bytes:
    number = len(parts)
    return COUNTS.pack(count, number) + struct.pack(f"<{number}H{number}I", *names, *map(len, parts))


def _sealed(version: int, body: bytes) -> bytes:
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
    if version not in (WHOLE, APART):
        raise BlockDamaged(f"a block of samples has version {version}, this jobtop knows {WHOLE} and {APART}")
    return int(version)


def _is_absent(values: Values) -> bool:
    return not values or (values[0] is None and values.count(None) == len(values))


def _packed_column(values: Values, factor: int, places: int) -> tuple[bytes, bytes]:
    """The row in the table, and the bytes, of a column of which so many steps make one."""
    try:
        packed = _packed_numbers(values if factor == 1 else _whole(values, factor))
    except (TypeError, ValueError, OverflowError, struct.error):
        packed = _packed_odd(values, factor)
    kind, part, first, low, divisor = packed
    return COLUMN.pack(kind, places, first, low, divisor), part


def _merged(pieces: Sequence[Steps | int]) -> tuple[bytes, bytes]:
    """One column of several, in whose place there may be only how long it would be."""
    there = [piece for piece in pieces if not isinstance(piece, int)]
    places = max(piece[1] for piece in there)
    if not all(is_whole for _, _, is_whole in there):
        return _packed_column(_joined(pieces, is_scaled=True), EXACT, 0)
    as_they_are = all(piece[1:] == (places, True) for piece in there)
    values = _joined(pieces, is_scaled=not as_they_are)
    return _packed_column(values, 1, places) if as_they_are else _packed_column(values, 10**places, places)


def _joined(pieces: Sequence[Steps | int], is_scaled: bool) -> list[Number | None]:
    """The values of several columns, as their steps or as the numbers they are."""
    values: list[Number | None] = []
    for piece in pieces:
        if isinstance(piece, int):
            values += [None] * piece
        else:
            values += _scaled(*piece) if is_scaled else piece[0]
    return values


def _packed_odd(values: Values, factor: int) -> Packed:
    """A column with gaps, with fractions where whole numbers are usual, or beyond 64 bits, which stays as doubles."""
    present = [value for value in values if value is not None]
    kind, gaps = (GAPS, _bitmap(values)) if len(present) < len(values) else (0, b"")
    try:
        form, part, first, low, divisor = _packed_numbers(_whole(present, factor))
    except (TypeError, ValueError, OverflowError, struct.error):
        form, part, first, low, divisor = FLOATS, struct.pack(f"<{len(present)}d", *present), 0, 0, 1
    return kind | form, gaps + part, first, low, divisor


def _packed_numbers(numbers: Values) -> Packed:
    """Whole numbers as their differences; TypeError if one is absent or not whole, others if one is too large."""
    first = numbers[0]
    if type(first) is not int or not -INT64 <= first < INT64:
        raise TypeError
    # Most columns do not change for long.
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
    """A column again, as steps or, if it could not be, as numbers."""
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
    """Steps as the numbers they are."""
    if not places or not is_whole:
        return steps
    factor = 10**places
    try:
        return [number / factor for number in steps]
    except TypeError:  # a value is absent
        return [None if number is None else number / factor for number in steps]


def _floats(part: bytes, count: int) -> Sequence[float | None]:
    """Numbers as they are; what is infinite, or none, was never measured."""
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
    """Whole numbers of so many bytes, as all low bytes, then all next ones …"""
    if width == 1:
        return bytes(numbers)
    size, code = _room(width)
    packed = struct.pack(f"<{len(numbers)}{code}", *numbers)
    return b"".join([packed[place::size] for place in range(width)])


def _from_planes(part: bytes, width: int) -> Sequence[int]:
    if width == 1:
        return part
    size, code = _room(width)
    count = len(part) // width
    packed = bytearray(count * size)
    for place in range(width):
        packed[place::size] = part[place * count : (place + 1) * count]
    return struct.unpack(f"<{count}{code}", packed)


def _room(width: int) -> tuple[int, str]:
    """The bytes and the letter of the smallest machine number of at least this width."""
    return (2, "H") if width == 2 else (4, "I") if width <= 4 else (8, "Q")


def _whole(values: Values, factor: int) -> list[int]:
    """Values as whole steps; TypeError if one is absent, others if one is not finite, or has to be exact and is not."""
    if factor == EXACT:
        return [_without_fraction(value) for value in values]
    return [round(value * factor) for value in values]  # type: ignore[operator]


def _without_fraction(value: Number | None) -> int:
    whole = int(value)  # type: ignore[arg-type]
    if whole != value:
        raise ValueError
    return whole


def _bitmap(values: Values) -> bytes:
    """A bit per value, the lowest first: whether it is there."""
    bits = "".join(["0" if value is None else "1" for value in reversed(values)])
    return int(bits, 2).to_bytes((len(values) + 7) // 8, "little")


def _with_gaps(values: Values, gaps: bytes, count: int) -> list[Number | None]:
    bits = f"{int.from_bytes(gaps, 'little'):0{count}b}"[::-1]
    following = iter(values)
    return [next(following) if bit == "1" else None for bit in bits]


def _steps(key: str) -> tuple[int, int]:
    """How many steps of a key make one, and how many decimal places those are."""
    factor = OWN_STEPS[key] if key in OWN_STEPS else steps(key)
    return factor, len(str(factor)) - 1


_OF_KEYS = [f"{key}{suffix}" for key in (*BY_KEY, VALUE) for suffix in OF_MINUTES]
# The lower half: a test proves that no two keys of the catalogue share it.
SHORT_IDS = {key: zlib.crc32(key.encode()) & 0xFFFF for key in (*OWN_STEPS, *BY_KEY, *_OF_KEYS)}
KEYS = {short: key for key, short in SHORT_IDS.items()}
