"""The table of measurements that amdgpu has in `gpu_metrics`: a counter of energy, and why clocks are lower. Pure.

Its layout changes with the revision in its header (kgd_pp_interface.h in the kernel). A revision that is not known
here, or has another size, says nothing.
"""

from __future__ import annotations

import struct

from jobtop.core.record import record

HEADER = struct.Struct("<HBB")  # size, format, content
LONG = struct.Struct("<Q")
UNKNOWN = 0xFFFF_FFFF_FFFF_FFFF  # of a card that does not have it
JOULES = 2.0**-16  # the unit of the counter
# By revision: the size of the table (0: it varies), and where the number is. Before 1.4 the unit of energy is not told.
ENERGY = {(1, 4): (288, 24), (1, 5): (360, 88), (1, 6): (0, 16), (1, 7): (0, 24)}
SLOWDOWN = {(1, 3): (120, 112)}
LIMIT_OF_POWER, LIMIT_OF_HEAT = (1 << 32) - 1, ((1 << 24) - 1) << 32  # the limit of current is one of power here


@record
class AmdMetrics:
    """What is known of a table; None is not known."""

    joules: float | None = None
    slowdowns: tuple[str, ...] | None = None


def parse_metrics(table: bytes) -> AmdMetrics:
    """The numbers of a table; none of one that is torn."""
    if len(table) < HEADER.size:
        return AmdMetrics()
    size, *revision = HEADER.unpack_from(table)
    if len(table) < size:
        return AmdMetrics()
    key = revision[0], revision[1]
    energy, slowdown = _long(table, size, ENERGY.get(key)), _long(table, size, SLOWDOWN.get(key))
    return AmdMetrics(None if energy is None else energy * JOULES, None if slowdown is None else _reasons(slowdown))


def _long(table: bytes, size: int, place: tuple[int, int] | None) -> int | None:
    if place is None or place[0] not in (0, size) or len(table) < place[1] + LONG.size:
        return None
    [value] = LONG.unpack_from(table, place[1])
    return None if value == UNKNOWN else int(value)


def _reasons(bits: int) -> tuple[str, ...]:
    reasons = (("power cap", LIMIT_OF_POWER), ("thermal", LIMIT_OF_HEAT))
    return tuple(text for text, mask in reasons if bits & mask)
