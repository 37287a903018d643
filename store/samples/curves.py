"""The samples of jobs as users see them: from zero at the start to the totals of the record at the end."""

from __future__ import annotations

from collections.abc import Sequence

from jobtop.core.measure.collectors.jobs import CPU_TIMES
from jobtop.core.measure.derive import Frame, derive
from jobtop.core.metrics import JOB_COLUMNS
from jobtop.core.model import Job
from jobtop.core.series.endpoints import FIRST_SAMPLE, end_sample, end_sample_after, never_below
from jobtop.store.database import Database
from jobtop.store.samples.head import JOBS
from jobtop.store.samples.joined import Joined, Series
from jobtop.store.samples.series import News, SeriesStore

FIRST_VALUES = dict(zip(JOB_COLUMNS, FIRST_SAMPLE.values, strict=True))
OVER = -1  # the cursor of a follower that has read the last sample


class Curves:
    """The stored samples of jobs, with a first sample at the start and a last one made from the record.

    A job that was never sampled has these two once it has ended, and none before.
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
        """Values of some keys between two times, as `SeriesStore.series` gives them."""
        pair = CPU_TIMES if CPU_TIMES.intersection(keys) else ()  # `never_below` needs both
        joined = Joined(JOBS, keys, also=sorted(pair))
        packed, rows = self.store.read(_number(job), joined.stored, start, end)
        last = end_sample(job)
        if packed or rows or last:
            joined.add([FIRST_SAMPLE.elapsed], {key: [value] for key, value in FIRST_VALUES.items()})
            joined.add_all(packed, rows)
        if last is not None:
            values = never_below(joined.newest if len(joined.times) > 1 else {}, last)
            joined.add([max(last.elapsed, joined.times[-1])], {key: [value] for key, value in values.items()})
        return joined.series(start, end, max_points)

    def frame_at(self, job: Job, elapsed: float) -> Frame | None:
        """The last sample at or before a time, with rates since the sample before; None if there is none."""
        stored = self.store.newest(_number(job), 2, elapsed)
        if elapsed < FIRST_SAMPLE.elapsed or (not stored and not self.count(job)):
            return None
        last = end_sample_after(stored[-1] if stored else None, job)
        ends = [last] if last is not None and last.elapsed <= elapsed else []
        before, after = [None, FIRST_SAMPLE, *stored, *ends][-2:]
        assert after is not None
        return derive(before, after)

    def follow(self, job: Job, cursor: int | None) -> News:
        """The samples after a cursor, or all for None; no more samples come once the answer is `over`."""
        if cursor == OVER:
            return News([], OVER, over=True)
        news = self.store.follow(_number(job), cursor)
        samples = [*news.samples]
        if job.status.ended:
            newest = samples or self.store.newest(_number(job), 1)
            last = end_sample_after(newest[-1] if newest else None, job)
            samples += [last] if last is not None else []
        if cursor is None and (samples or news.cursor is not None):
            samples.insert(0, FIRST_SAMPLE)
        return News(samples, OVER if job.status.ended else news.cursor, news.damaged, job.status.ended)

    def count(self, job: Job) -> int:
        """The number of samples of a job, including the first and the last."""
        stored, last = self.store.count(_number(job)), end_sample(job)
        return stored + bool(stored or last) + bool(last)


def _number(job: Job) -> int:
    """The number of a job in its store; -1, which has no samples, for a job that is in none."""
    return -1 if job.seq is None else job.seq
