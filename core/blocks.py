"""Samples of one job as one compressed block of bytes, and back. Pure; where blocks are kept is not known here.

A block is a version byte, a checksum (crc32) and a zlib stream of a table of columns and their bytes. A column is the
differences of whole numbers (values times the steps of their metric), less the smallest, divided by what they have in
common, as planes: first the low bytes of all, then the next. Against zigzag varints that takes a quarter less room, and
C does the loops. A column is named by 16 bits of its key's crc32 and carries its steps, so that a block stays readable
while the catalogue grows.
"""

import math
import struct
import zlib
from collections.abc import Collection, Sequence
from itertools import accumulate
from operator import sub

from jobtop.core.errors import BlockDamaged
from jobtop.core.metrics import BY_KEY, steps
from jobtop.core.model import Sample
from jobtop.core.record import record

Number = float | int
Values = Sequence[Number | None]
Packed = tuple[int, bytes, int, int, int]  # kind, bytes, first, smallest difference, divisor

VERSION = 1
LEVEL = 6
ELAPSED, ID = "elapsed", "id"
OWN_STEPS = {ELAPSED: 1000, ID: 1}
HEAD = struct.Struct("<BI")
COUNTS = struct.Struct("<IH")
COLUMN = struct.Struct("<BBqqQ")  # kind, decimal places, first, smallest difference, divisor
WIDTH = 0x0F
PLAIN, FLOATS, GAPS = 0x10, 0x20, 0x40
INT64 = 2**63


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
        return [Sample(elapsed, values) for elapsed, values in zip(self.elapsed, rows, strict=True)]


def encode(keys: Sequence[str], ids: Sequence[int], moments: Sequence[float], rows: Sequence[Values]) -> bytes:
    """The block of samples, given as their ids, moments and values in the order of the keys.

    Not as `Sample`: a writer keeps thousands, and the garbage collector leaves alone what is only numbers.
    """
    names, table, parts = [], [], []
    columns = zip(*rows, strict=True)
    for key, values in ((ELAPSED, moments), (ID, ids), *zip(keys, columns, strict=bool(rows))):
        if not values or (values[0] is None and values.count(None) == len(values)):
            continue
        row, part = _packed_column(key, values)
        names.append(SHORT_IDS[key])
        table.append(row)
        parts.append(part)
    count = len(table)
    index = struct.pack(f"<{count}H{count}I", *names, *map(len, parts))
    body = b"".join((COUNTS.pack(len(rows), count), index, *table, *parts))
    packed = zlib.compress(body, LEVEL)
    return HEAD.pack(VERSION, zlib.crc32(packed, VERSION)) + packed


def decode(data: bytes, wanted: Collection[str] | None = None) -> Block:
    """The samples of a block, of all columns or of those wanted; BlockDamaged if a bit of it has changed."""
    body = _checked(data)
    count, number = COUNTS.unpack_from(body)
    index = struct.Struct(f"<{number}H{number}I")
    numbers = index.unpack_from(body, COUNTS.size)
    names, sizes = numbers[:number], numbers[number:]
    table = COUNTS.size + index.size
    begin = table + number * COLUMN.size
    columns: dict[str, list[Number | None]] = {}
    for key in KEYS.values() if wanted is None else (ELAPSED, *wanted):
        name = SHORT_IDS.get(key)
        if name in names:
            place = names.index(name)
            start = begin + sum(sizes[:place])
            row = COLUMN.unpack_from(body, table + place * COLUMN.size)
            columns[key] = _unpacked_column(body[start : start + sizes[place]], count, *row)
    moments, ids = columns.pop(ELAPSED, []), columns.pop(ID, [])
    return Block(ids, moments, columns)  # type: ignore[arg-type]  # neither has gaps


def _checked(data: bytes) -> bytes:
    if len(data) < HEAD.size:
        raise BlockDamaged(f"a block of samples has only {len(data)} bytes")
    version, checksum = HEAD.unpack_from(data)
    packed = data[HEAD.size :]
    if zlib.crc32(packed, version) != checksum:
        raise BlockDamaged("a block of samples does not match its checksum")
    if version != VERSION:
        raise BlockDamaged(f"a block of samples has version {version}, this jobtop knows {VERSION}")
    return zlib.decompress(packed)


def _packed_column(key: str, values: Values) -> tuple[bytes, bytes]:
    """A column's row in the table, and its bytes."""
    factor = _steps(key)
    try:
        kind, part, first, low, divisor = _packed_numbers(values if factor == 1 else _whole(values, factor))
    except (TypeError, ValueError, OverflowError, struct.error):
        kind, part, first, low, divisor = _packed_odd(values, factor)
    return COLUMN.pack(kind, len(str(factor)) - 1, first, low, divisor), part


def _packed_odd(values: Values, factor: int) -> Packed:
    """A column with gaps, with fractions where whole numbers are usual, or beyond 64 bits, which stays as doubles."""
    present = [value for value in values if value is not None]
    kind, gaps = (GAPS, _bitmap(values)) if len(present) < len(values) else (0, b"")
    try:
        form, part, first, low, divisor = _packed_numbers(_whole(present, factor))
    except (ValueError, OverflowError, struct.error):
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


def _unpacked_column(
    part: bytes, count: int, kind: int, places: int, first: int, low: int, divisor: int
) -> list[Number | None]:
    gaps = part[: (count + 7) // 8] if kind & GAPS else b""
    part = part[len(gaps) :]
    present = int.from_bytes(gaps, "little").bit_count() if gaps else count
    values: Sequence[Number]
    if kind & FLOATS:
        values = struct.unpack(f"<{present}d", part)
    else:
        numbers = _numbers(part, present, kind, first, low, divisor)
        factor = 10**places
        values = [number / factor for number in numbers] if places else numbers
    return _with_gaps(values, gaps, count) if gaps else list(values)


def _numbers(part: bytes, count: int, kind: int, first: int, low: int, divisor: int) -> Sequence[int]:
    if kind & PLAIN:
        return struct.unpack(f"<{count}q", part)
    width = kind & WIDTH
    if not width:
        return range(first, first + count * low, low) if low else [first] * count
    differences = _from_planes(part, width)
    if divisor > 1:
        differences = [difference * divisor + low for difference in differences]
    elif low:
        differences = [difference + low for difference in differences]
    return list(accumulate(differences, initial=first))


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
    """Values as whole steps; TypeError if one is absent, others if one is not finite."""
    return [round(value * factor) for value in values]  # type: ignore[operator]


def _bitmap(values: Values) -> bytes:
    """A bit per value, the lowest first: whether it is there."""
    bits = "".join(["0" if value is None else "1" for value in reversed(values)])
    return int(bits, 2).to_bytes((len(values) + 7) // 8, "little")


def _with_gaps(values: Sequence[Number], gaps: bytes, count: int) -> list[Number | None]:
    bits = f"{int.from_bytes(gaps, 'little'):0{count}b}"[::-1]
    following = iter(values)
    return [next(following) if bit == "1" else None for bit in bits]


def _steps(key: str) -> int:
    return OWN_STEPS.get(key) or steps(key)


# The lower half: a test proves that no two keys of the catalogue share it.
SHORT_IDS = {key: zlib.crc32(key.encode()) & 0xFFFF for key in (*OWN_STEPS, *BY_KEY)}
KEYS = {short: key for key, short in SHORT_IDS.items()}
