"""The jobs of several stores as one history; a store that cannot be read is left out with a warning."""

from __future__ import annotations

import json
from collections import Counter

from jobtop.core.errors import RowDamaged, StoreDamaged, StoreError, UsageError
from jobtop.core.model import knowledge
from jobtop.core.record import replace
from jobtop.store.jobs import BEGIN_TIME, Query
from jobtop.store.references import look_up, recent_names
from jobtop.store.rows import are_numbers, quote_value

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path
    from typing import TypeVar

    from jobtop.core.analysis.cost import Prices
    from jobtop.core.analysis.statistics import JobFigures
    from jobtop.core.model import Job
    from jobtop.core.query.conditions import Filter
    from jobtop.store.jobs import Jobs
    from jobtop.store.listing import Position

    Found = tuple[Jobs, Job]  # a job with its store
    Answer = TypeVar("Answer")
    Rank = tuple[int | float, ...]

SEQ_BEFORE_ALL, SEQ_AFTER_ALL = -1, 2**63 - 1  # no job has these numbers
MANY_IDS = 1000  # for more ids it is faster to find out first which of them are in several stores
KNOWLEDGE_COLUMNS = f"status, settled, heartbeat, {BEGIN_TIME}, end_time"
DECODING_ERRORS = (ValueError, TypeError, LookupError)  # that values of a damaged page can cause


class Fleet:
    """The selected stores, in their order. An error of the only store is raised.

    With `are_named` the user chose the stores, and such an error is a UsageError. `own` is the store of this host: only
    there this host knows which jobs are alive.
    """

    def __init__(
        self,
        openers: Mapping[Path, Callable[[], Jobs]],
        warn: Callable[[str], None],
        are_named: bool = True,
        own: Path | None = None,
    ) -> None:
        self.has_several, self._are_named = len(openers) > 1, are_named
        self.stores: list[Jobs] = []
        self._warn, self._own = warn, own
        for path, open_store in openers.items():
            try:
                self.stores.append(open_store())
            except StoreError as error:
                self._leave_out(path, error)
        self._check()

    def each(self, question: Callable[[Jobs], Answer]) -> list[tuple[Jobs, Answer]]:
        """The answers of all stores; a store that raises an error is left out from then on."""
        answers = []
        for jobs in [*self.stores]:
            try:
                answers.append((jobs, question(jobs)))
            except RowDamaged:  # an error of one job, not of the store
                raise
            except (StoreError, *DECODING_ERRORS) as error:
                self._leave_out(jobs.database.path, error)
                self.stores.remove(jobs)
        self._check()
        return answers

    def find(self, reference: str) -> Found:
        """The job that a word means, and its store; the order of looking is the same as in one store."""
        if not self.has_several:
            return self.each(lambda jobs: jobs.find(reference))[0]
        return look_up(reference, self._ask, self._recent_names, f"any of {len(self.stores)} stores")

    def select(self, query: Query, after: str | None = None) -> list[Found]:
        """The jobs of a query from all stores in one order; with `after`, only those that follow this job."""
        last = None if after is None else self.find(after)
        if not self.has_several:
            query = query if last is None else replace(query, after=last[1].seq)
            ((store, selected),) = self.each(lambda jobs: jobs.select(self._query_for(jobs, query)))
            return [(store, job) for job in selected]
        found: list[Found] = []
        page_query = query
        while True:
            page = self._page(page_query, last)
            outdated = self._outdated_ids({job.id for _, job in page})
            found += [(store, job) for store, job in page if job.id not in outdated.get(store, ())]
            limit = page_query.limit
            if query.limit is None or limit is None or len(page) < limit or len(found) >= query.limit:
                return found[: query.limit]
            last, page_query = page[-1], replace(page_query, limit=2 * limit)

    def count(self, query: Query) -> int:
        """The number of jobs that meet the conditions of a query; a job with copies in several stores counts once."""
        if not self.has_several:
            return sum(found for _, found in self.each(lambda jobs: jobs.count(self._query_for(jobs, query))))
        found = self.each(lambda jobs: jobs.select_ids(self._query_for(jobs, query)))
        all_ids = {job_id for _, ids in found for job_id in ids}
        if not query.has_conditions:
            return len(all_ids)  # without conditions it does not matter which copy counts
        outdated = self._outdated_ids(all_ids)
        return sum(len(set(ids) - outdated.get(store, set())) for store, ids in found)

    def figures(
        self, since: float | None, by: str, wanted: Filter | None = None, prices: Prices | None = None
    ) -> list[JobFigures]:
        """The figures of every job that began since a moment; a job with copies in several stores counts once."""
        from jobtop.store.figures import read_figures

        outdated = self._outdated_ids(None) if self.has_several else {}
        found = self.each(lambda jobs: read_figures(jobs.database, since, by, wanted, outdated.get(jobs), prices))
        return [row for _, rows in found for row in rows]

    def _query_for(self, jobs: Jobs, query: Query) -> Query:
        """The query for one store: in stores of other hosts, no host is the caretaker of its jobs."""
        if query.filter is None or jobs.database.path == self._own:
            return query
        return replace(query, filter=replace(query.filter, caretaker=""))

    def _ask(self, read: Callable[[Jobs], list[Job]]) -> list[Found]:
        """The jobs that all stores find, the best copy of each; RowDamaged if there are some and none can be read."""
        damaged: list[RowDamaged] = []

        def read_readable(jobs: Jobs) -> list[Job]:
            try:
                return read(jobs)
            except RowDamaged as error:
                damaged.append(error)
                return []

        found = [(jobs, job) for jobs, matches in self.each(read_readable) for job in matches]
        if damaged and not found:
            raise damaged[0]
        outdated = self._outdated_ids({job.id for _, job in found})
        return [(jobs, job) for jobs, job in found if job.id not in outdated.get(jobs, ())]

    def _recent_names(self) -> list[str]:
        return [name for _, names in self.each(recent_names) for name in names]

    def _outdated_ids(self, ids: set[str] | None) -> dict[Jobs, set[str]]:
        """The ids of some jobs, or of all, of which another store has a better copy, by store.

        Every query uses the same copy of a job. Otherwise an ended job would be found as running in an old copy.
        """
        if ids is None or len(ids) > MANY_IDS:
            copies = Counter(job_id for _, known in self.each(_all_ids) for job_id in known)
            ids = {job_id for job_id, count in copies.items() if count > 1 and (ids is None or job_id in ids)}
        wanted = json.dumps(sorted(ids))
        best: dict[str, tuple[Rank, Jobs]] = {}
        outdated: dict[Jobs, set[str]] = {}
        for jobs, ranks in self.each(lambda jobs: _ranks(jobs, wanted)) if ids else ():
            for job_id, rank in ranks:
                before = best.get(job_id)
                if before is None or rank > before[0]:
                    best[job_id] = rank, jobs
                if before is not None:
                    other = before[1] if best[job_id][1] is jobs else jobs
                    outdated.setdefault(other, set()).add(job_id)
        return outdated

    def _page_starts(self, last: Found, query: Query) -> dict[Jobs, Position]:
        """The position in each store after which a page begins; jobs with the same key are in the order of stores."""
        from jobtop.store.listing import Position, read_key

        store, job = last
        key, precedes = read_key(store.database, query, job.seq or 0), True
        starts = {}
        for jobs in self.stores:
            precedes = precedes and jobs is not store
            starts[jobs] = Position(key, SEQ_AFTER_ALL if precedes == query.reverse else SEQ_BEFORE_ALL)
        return starts | {store: Position(key, job.seq or 0)}

    def _page(self, query: Query, last: Found | None) -> list[Found]:
        """The first jobs of a query after `last`, with all copies."""
        from jobtop.store.listing import merge_orders, read_page

        starts = {} if last is None else self._page_starts(last, query)
        orders = self.each(lambda jobs: read_page(jobs.database, self._query_for(jobs, query), starts.get(jobs)))
        return self._read([store for store, _ in orders], merge_orders([order for _, order in orders])[: query.limit])

    def _read(self, stores: list[Jobs], numbers: Iterable[int]) -> list[Found]:
        """The jobs with some `job_number`s; a job that was deleted meanwhile is left out."""
        from jobtop.store.listing import store_and_seq

        pairs = [(stores[index], seq) for index, seq in map(store_and_seq, numbers)]
        wanted: dict[Jobs, list[int]] = {}
        for store, seq in pairs:
            wanted.setdefault(store, []).append(seq)
        read = dict(self.each(lambda jobs: jobs.by_seq(wanted.get(jobs, ()))))
        return [(store, read[store][seq]) for store, seq in pairs if store in read and seq in read[store]]

    def _leave_out(self, path: Path, error: Exception) -> None:
        if not self.has_several and not self._are_named:
            raise error
        if not isinstance(error, StoreError):
            error = StoreDamaged(f"{path}: it has an invalid value ({error}); is it damaged?")
        if not self.has_several:
            raise UsageError(str(error)) from error
        self._warn(f"left out: {error}")

    def _check(self) -> None:
        if not self.stores:
            raise UsageError("none of the stores could be read")


def _all_ids(jobs: Jobs) -> list[str]:
    return jobs.select_ids(Query())


def _ranks(jobs: Jobs, wanted: str) -> list[tuple[str, Rank]]:
    """The rank of a store's copy of each job; of two equal copies, the one in the store of the job's host is better."""
    sql = f"SELECT id, host, {KNOWLEDGE_COLUMNS} FROM jobs WHERE id IN (SELECT value FROM json_each(?))"
    with jobs.database.reading() as connection:
        rows = connection.execute(sql, (wanted,)).fetchall()
    store_host = jobs.database.path.stem

    def rank(row: sqlite3.Row) -> tuple[str, Rank]:
        job_id, host, status, *known = row
        if not are_numbers(known):
            raise RowDamaged(f"job {quote_value(job_id)}: one of {quote_value(known)} is not a number")
        return job_id, (*knowledge(status, *known), host == store_host)

    return jobs.database.decode_rows(rows, rank)
