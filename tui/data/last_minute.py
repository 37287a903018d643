"""The last minute of a live job: an immutable copy of the samples that the feed's thread keeps adding to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobtop.core.record import record
from jobtop.store.samples.live import KEPT_SAMPLES

if TYPE_CHECKING:
    from jobtop.store.samples.live import Tail

Number = float | int
Point = tuple[float, Number | None, Number | None]  # seconds since the job's start, CPU percent, bytes of memory
MOST_NEWER = 15


@record
class Columns:
    """Samples as columns: the same position is the same sample in all three."""

    times: tuple[float, ...] = ()
    cpu_percent: tuple[Number | None, ...] = ()
    memory_bytes: tuple[Number | None, ...] = ()


@record
class LastMinute:
    """The samples of a job's last minute, oldest first, in two parts: a new sample copies only the short part.

    Copying all samples of 1,000 jobs every second would cost 1 % of a core.
    """

    older: tuple[Point, ...] = ()
    newer: tuple[Point, ...] = ()

    def points(self) -> tuple[Point, ...]:
        return (self.older + self.newer)[-KEPT_SAMPLES:]

    def columns(self) -> Columns:
        points = self.points()
        return Columns(*zip(*points, strict=True)) if points else Columns()


def copy_of(tail: Tail, known: LastMinute | None = None) -> LastMinute:
    """A copy of the samples of a tail; parts of `known`, an earlier copy of the same tail, are used again."""
    if known is None or not known.newer:
        return LastMinute((), tuple(zip(tail.times, tail.cpu, tail.memory, strict=True)))
    seen_until, newer = known.newer[-1][0], known.newer
    place = len(tail.times)
    while place and tail.times[place - 1] > seen_until:
        place -= 1
    added = tuple([(tail.times[i], tail.cpu[i], tail.memory[i]) for i in range(place, len(tail.times))])
    if len(newer) + len(added) > MOST_NEWER:
        return LastMinute(known.points(), added)
    return LastMinute(known.older, newer + added)
