"""`jobtop.open_store`: the jobs that were recorded, as plain records."""

from __future__ import annotations

import os
import threading
import time
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from jobtop.context import Context
from jobtop.core.errors import BadValue, StoreUnavailable, UnknownJob
from jobtop.core.paths import StatePaths
from jobtop.log_lines import warn
from jobtop.records import JobList, Series, moment, record_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from typing import Self

    from jobtop.core.analysis.cost import Prices
    from jobtop.core.model import Job
    from jobtop.core.query.conditions import Filter
    from jobtop.detached import DetachedJob
    from jobtop.options import Text
    from jobtop.records import JobRecord
    from jobtop.store.fleet import Fleet
    from jobtop.store.jobs import Jobs

    JobLike = str | JobRecord | DetachedJob

STREAMS = {"stdout": (0,), "stderr": (1,), None: (0, 1)}


def open_store(*paths: Text) -> Store:
    """Open the history: of this host, or that in other files or directories, which are only read.

    As a context manager it stays open, which is faster for many calls; without, each call opens and closes it.
    """
    return Store([os.fspath(path) for path in paths])


class Store:
    """The recorded jobs. It can be used in several threads."""

    def __init__(self, paths: Sequence[str] = ()) -> None:
        from jobtop.store.named_stores import VARIABLE, selected_stores

        self._context = Context()
        own = self._context.paths.store
        self._files = selected_stores(paths, os.environ.get(VARIABLE, ""), own, warn)
        self._held: ExitStack | None = None
        self._fleet: Fleet | None = None
        self._thread: int | None = None

    def __enter__(self) -> Self:
        self._held = ExitStack()
        self._fleet, self._thread = self._held.enter_context(self._opened()), threading.get_ident()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Store {', '.join(map(str, self._files or [self._context.paths.store]))}>"

    def close(self) -> None:
        """Close the files that are open."""
        held, self._held, self._fleet = self._held, None, None
        if held is not None:
            held.close()

    def jobs(
        self,
        filter: str = "",  # noqa: A002 - the word of the verbs
        *,
        limit: int | None = None,
        sort: str = "newest",
        reverse: bool = False,
    ) -> JobList:
        """Return the jobs that match a filter, such as `status:failed since:7d`, newest first; all without a filter.

        The filter and the keys to sort by are those of `jobtop history`.
        """
        from jobtop.store.jobs import Query
        from jobtop.store.ordering import sort_key

        wanted = self._filter(filter)
        if limit is not None and limit < 1:
            raise BadValue(f"limit: {limit} is less than 1")
        query = Query(filter=wanted, sort=sort_key(sort), prices=self._prices, reverse=reverse, limit=limit)
        with self._reading() as fleet:
            return JobList(record_of(job) for _, job in (fleet.select(query) if fleet is not None else []))

    def job(self, job: JobLike) -> JobRecord:
        """Return one job as it is now: by its id or the beginning of it, its name, `last`, `last:failed`, `@2`, `#15`.

        Raises `UnknownJob` or `AmbiguousJob`.
        """
        with self._found(job) as (_, found):
            return record_of(found)

    def series(
        self,
        job: JobLike,
        metrics: Sequence[str] = ("cpu.percent", "mem.used"),
        *,
        start: float | None = None,
        end: float | None = None,
        max_points: int | None = None,
    ) -> Series:
        """Return the samples of a job, as lists: of these metrics, between two times in seconds since its start.

        Counters such as `io.read_bytes` are totals since the start. With `max_points` the series is thinned; its
        extremes are kept.
        """
        from jobtop.store.samples.curves import Curves

        keys = [metrics] if isinstance(metrics, str) else list(metrics)
        if max_points is not None and max_points < 2:
            raise BadValue(f"max_points: {max_points} is less than 2")
        with self._found(job) as (store, found):
            series = Curves(store.database).series(found, keys, start, end, max_points)
        if series.damaged:
            warn(f"{series.damaged} samples of job {found.id[:8]} cannot be read")
        return Series(str(found.id), series.times, series.values, moment(found.start_time))

    def logs(self, job: JobLike, stream: Literal["stdout", "stderr"] | None = None) -> str:
        """Return the output of a job: both streams in the order in which they were written, or one of them.

        A job that ran at a terminal has one log, `stdout`, for both.
        """
        from jobtop.lifecycle.kinds.registry import why_no_output
        from jobtop.store.output.whole import read_output

        if stream not in STREAMS:
            raise BadValue(f"stream: {stream!r} is not stdout or stderr")
        with self._found(job) as (store, found):
            directory = StatePaths(store.database.path.parent, found.host).job(found.id)
            if (why := why_no_output(found)) is not None:
                raise UnknownJob(f"job {found.id[:8]} has no output here: {why}")
            if found.start_time is not None and not directory.is_dir():
                raise UnknownJob(f"the output of job {found.id[:8]} was deleted, or is on {found.host}")
            marks = store.log_marks(found)
        return read_output(directory, STREAMS[stream], marks).decode("utf-8", "replace")

    def stats(self, filter: str = "", *, by: str = "tool") -> dict[str, Any]:  # noqa: A002 - the word of the verbs
        """Return statistics of the jobs that match a filter, as `jobtop stats --json` prints them.

        `by` is what to group by: `tool`, `name`, `host`, `user`, `month`, `day`, `limited`, `tag:K` or `param:K`.
        """
        from jobtop.core.analysis.statistics import statistics
        from jobtop.store.figures import grouping

        group, wanted = grouping(by), self._filter(filter)
        with self._reading() as fleet:
            figures = fleet.figures(None, group, wanted, self._prices) if fleet is not None else []
        return statistics(figures).to_json(group, None)

    @property
    def _prices(self) -> Prices:
        from jobtop.core.analysis.cost import prices_of

        return prices_of(self._context.config)

    def _filter(self, text: str) -> Filter | None:
        from jobtop.core.query.filter import parse

        return parse(text, time.time(), self._prices) if text.strip() else None

    @contextmanager
    def _found(self, job: JobLike) -> Iterator[tuple[Jobs, Job]]:
        """Find a job, and the store it is in."""
        with self._reading() as fleet:
            if fleet is None:
                raise UnknownJob(f"no job has been recorded in {self._context.paths.store} yet")
            yield fleet.find(job if isinstance(job, str) else job.id)

    @contextmanager
    def _reading(self) -> Iterator[Fleet | None]:
        """The open stores; None if nothing was recorded yet. SQLite allows a connection in one thread only."""
        if self._fleet is not None and self._thread == threading.get_ident():
            yield self._fleet
            return
        with self._opened() as fleet:
            yield fleet

    @contextmanager
    def _opened(self) -> Iterator[Fleet | None]:
        from jobtop.lifecycle.opening import has_store
        from jobtop.store.fleet import Fleet

        paths = self._context.paths
        if not self._files and not has_store(paths):
            yield None
            return
        with ExitStack() as stack:
            openers = {file: partial(self._open, file, stack) for file in self._files or [paths.store]}
            yield Fleet(openers, warn, bool(self._files), paths.store)

    def _open(self, file: Path, stack: ExitStack) -> Jobs:
        """Open a store for reading; this host's own is reconciled first."""
        from jobtop.lifecycle.opening import open_jobs
        from jobtop.store.database import open_to_read
        from jobtop.store.jobs import Jobs

        if file == self._context.paths.store:
            jobs = open_jobs(self._context.paths, self._context.config, warn)
            stack.callback(jobs.database.close)
            return jobs
        database = open_to_read(file)
        stack.callback(database.close)
        if database.version == 0:
            raise StoreUnavailable(f"{file}: nothing has been recorded in it yet")
        if database.notice:
            warn(database.notice)
        return Jobs(database)
