"""The samples of jobs as people see them: from nothing at the start to the totals of the record at the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jobtop.core.collectors.jobs import CPU_TIMES, never_falling
from jobtop.core.derive import Frame, derive
from jobtop.core.endpoints import FIRST, last_sample
from jobtop.core.metrics import BY_KEY, JOB_COLUMNS, Kind
from jobtop.core.model import Job, Sample
from jobtop.store.database import Database
from jobtop.store.head import JOBS
from jobtop.store.series import News, Number, Series, SeriesStore, shown, stored_keys

COUNTERS = frozenset(key for key in JOB_COLUMNS if BY_KEY[key].kind is Kind.COUNTER)
NOTHING = dict(zip(JOB_COLUMNS, FIRST.values, strict=True))
OVER = -1  # the cursor of a follower that has seen the end


class Curves:
    """The stored samples of jobs between the two that need no looking, which are as good as the others.

    A job that was never sampled has those two as soon as it has ended, and none before.
    """

    def __init__(self, database: Database) -> None:
        self.store = SeriesStore(database)

    def series(
        self,
        job: Job,
        keys: Sequence[str],
        start: float | None = None,
        end: float | None = None,
        max_points: int | None = None,
    ) -> Series:
        """Values of some keys between two moments, as `SeriesStore.series` gives them."""
        read = stored_keys(JOBS, keys)
        if CPU_TIMES.intersection(read):  # which are held as one
            read = tuple(dict.fromkeys((*read, *sorted(CPU_TIMES))))
        stored = self.store.stored(_number(job), read, start, end)
        return shown(_with_ends(job, stored), JOBS, keys, start, end, max_points)

    def frame_at(self, job: Job, elapsed: float) -> Frame | None:
        """The last sample at or before a moment, its rates from the one before it; None if there is none."""
        stored = self.store.newest(_number(job), 2, elapsed)
        if elapsed < FIRST.elapsed or (not stored and not self.count(job)):
            return None
        last = _last(job, stored)
        ends = [last] if last is not None and last.elapsed <= elapsed else []
        before, after = [None, FIRST, *stored, *ends][-2:]
        assert after is not None
        return derive(before, after)

    def follow(self, job: Job, cursor: int | None) -> News:
        """What a follower has not seen: with None from the start; once `over`, nothing more."""
        if cursor == OVER:
            return News([], OVER, over=True)
        news = self.store.follow(_number(job), cursor)
        samples = [*news.samples]
        if job.status.ended:
            last = _last(job, samples or self.store.newest(_number(job), 1))
            samples += [last] if last is not None else []
        if cursor is None and (samples or news.cursor is not None):
            samples.insert(0, FIRST)
        return News(samples, OVER if job.status.ended else news.cursor, news.damaged, job.status.ended)

    def count(self, job: Job) -> int:
        """How many samples a job has, both ends included."""
        stored, last = self.store.count(_number(job)), last_sample(job)
        return stored + bool(stored or last) + bool(last)


def _number(job: Job) -> int:
    """The number of a job in its store; one that is in none has no samples."""
    return -1 if job.seq is None else job.seq


def _last(job: Job, stored: Sequence[Sample]) -> Sample | None:
    """The sample at the end of a job, not less and not before the newest of those stored; None if there is no end."""
    last = last_sample(job)
    if last is None or not stored:
        return last
    values = _held(dict(zip(JOB_COLUMNS, stored[-1].values, strict=True)), last)
    return Sample(max(last.elapsed, stored[-1].elapsed), tuple(values.get(key) for key in JOB_COLUMNS))


def _with_ends(job: Job, stored: Series) -> Series:
    """Some columns of stored samples, with those of the two ends."""
    last = last_sample(job)
    if last is None and not stored.times:
        return stored
    times = [FIRST.elapsed, *stored.times]
    columns = {key: [NOTHING[key], *values] for key, values in stored.values.items()}
    if last is not None:
        newest = {key: values[-1] for key, values in stored.values.items()} if stored.times else {}
        held = _held(newest, last)
        times.append(max(last.elapsed, times[-1]))
        for key, values in columns.items():
            values.append(held.get(key))
    return Series(times, columns, stored.damaged)


def _held(newest: Mapping[str, Number | None], last: Sample) -> dict[str, Number]:
    """The values of the last sample; a counter that was seen higher, or is not in the record, stays where it was."""
    before, after = (
        {key: value for key, value in values if value is not None}
        for values in (newest.items(), zip(JOB_COLUMNS, last.values, strict=True))
    )
    return never_falling(before, after, COUNTERS)
