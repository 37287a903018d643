"""The last minute of a live job: an immutable copy of the samples that the feed's thread keeps adding to.

The samples are packed into bytes, and only those of visible jobs are unpacked: copying tuples of 75 numbers for 1,000
jobs every second would cost 1 % of a core.
"""

from __future__ import annotations

from array import array
from math import isnan, nan
from struct import Struct
from typing import TYPE_CHECKING

from jobtop.core.record import record
from jobtop.store.samples.live import KEPT_SAMPLES

if TYPE_CHECKING:
    from jobtop.store.samples.live import Now, Tail

PackedSamples = bytes
SAMPLE = Struct("3d")  # seconds since the job's start, CPU percent, bytes of memory; NaN is None
KEPT_BYTES = KEPT_SAMPLES * SAMPLE.size
pack = SAMPLE.pack


@record
class Columns:
    """Samples as columns, oldest first: the same position is the same sample in all three."""

    times: tuple[float, ...] = ()
    cpu_percent: tuple[float | None, ...] = ()
    memory_bytes: tuple[float | None, ...] = ()


def columns_of(samples: PackedSamples | None) -> Columns:
    """The samples unpacked; None has none."""
    numbers = array("d", samples or b"")
    return Columns(tuple(numbers[0::3]), with_none(numbers[1::3]), with_none(numbers[2::3]))


def with_none(numbers: array[float]) -> tuple[float | None, ...]:
    return tuple([None if isnan(number) else number for number in numbers])


def copy_of(tail: Tail, known: tuple[Now, PackedSamples] | None = None) -> PackedSamples:
    """A copy of the samples of a tail; `known` is an earlier copy, with its newest sample.

    An earlier copy may be of a tail that had fewer old samples.
    """
    has_one_more = known is not None and len(tail.times) > 1 and tail.times[-2] == known[0].elapsed
    if known is not None and has_one_more and len(known[1]) >= (len(tail.times) - 1) * SAMPLE.size:
        return known[1][-(KEPT_BYTES - SAMPLE.size) :] + packed(tail.now)  # one new sample: the usual case, and fast
    samples = zip(tail.times, tail.cpu, tail.memory, strict=True)
    return b"".join([pack(at, nan if cpu is None else cpu, nan if held is None else held) for at, cpu, held in samples])


def packed(sample: Now) -> PackedSamples:
    cpu, memory = sample.cpu_percent, sample.memory_bytes
    return pack(sample.elapsed, nan if cpu is None else cpu, nan if memory is None else memory)
