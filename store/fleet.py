"""The jobs of any number of stores as one history; a store that cannot be read is named and left out."""

from __future__ import annotations

import json
from collections import Counter

from jobtop.core.errors import RowDamaged, StoreDamaged, StoreError, UsageError
from jobtop.core.model import knowledge
from jobtop.core.record import replace
from jobtop.core.units import printable
from jobtop.store.jobs import BEGUN, Query, ambiguous, unknown
from jobtop.store.rows import are_numbers, quote_value

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path
    from typing import TypeVar

    from jobtop.core.analysis.statistics import Figures
    from jobtop.core.model import Job
    from jobtop.core.query.conditions import Filter
    from jobtop.store.jobs import Jobs
    from jobtop.store.listing import Place

    Found = tuple[Jobs, Job]  # a job, and the store it is in
    Answer = TypeVar("Answer")
    Rank = tuple[int | float, ...]

BEFORE_ALL, BEHIND_ALL = -1, 2**63 - 1  # numbers that no job has
MANY = 1000  # ids: beyond that it is quicker to see first which are in several stores
KNOWN = f"status, settled, heartbeat, {BEGUN}, end_time"
NONSENSE = (ValueError, TypeError, LookupError)  # in what a damaged page says


class Fleet:
    """The stores that were asked for, in their order; what is wrong with the only one is raised.

    `are_named`: the caller chose them, and can choose others. In all but the `own` one nobody here looks after jobs.
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
        for path, opened in openers.items():
            try:
                self.stores.append(opened())
            except StoreError as error:
                self._leave_out(path, error)
        self._check()

    def each(self, question: Callable[[Jobs], Answer]) -> list[tuple[Jobs, Answer]]:
        """The answers of all stores; one that fails is asked nothing any more."""
        answers = []
        for jobs in [*self.stores]:
            try:
                answers.append((jobs, question(jobs)))
            except RowDamaged:  # of one job: the store is read on
                raise
            except (StoreError, *NONSENSE) as error:
                self._leave_out(jobs.database.path, error)
                self.stores.remove(jobs)
        self._check()
        return answers

    def find(self, reference: str) -> Found:
        """A job by its id, a prefix of that, or its external id, and its store."""
        if not self.has_several:
            return self.each(lambda jobs: jobs.find(reference))[0]
        found = self._matching(reference)
        if len(found) == 1:
            return found[0]
        if found:
            raise ambiguous(reference, [(job, f" on {printable(job.host)}") for _, job in found])
        raise unknown(reference, f"any of {len(self.stores)} stores")

    def select(self, query: Query, after: str | None = None) -> list[Found]:
        """The jobs that fit, of all stores in one order; only those behind one, if that is named."""
        last = None if after is None else self.find(after)
        if not self.has_several:
            query = query if last is None else replace(query, after=last[1].seq)
            ((store, several),) = self.each(lambda jobs: jobs.select(self._asked(jobs, query)))
            return [(store, job) for job in several]
        found: list[Found] = []
        asked = query
        while True:
            page = self._page(asked, last)
            beaten = self._beaten({job.id for _, job in page})
            found += [(store, job) for store, job in page if job.id not in beaten.get(store, ())]
            if query.limit is None or asked.limit is None or len(page) < asked.limit or len(found) >= query.limit:
                return found[: query.limit]
            last, asked = page[-1], replace(asked, limit=2 * asked.limit)

    def count(self, query: Query) -> int:
        """How many jobs fit, each once."""
        if not self.has_several:
            return sum(found for _, found in self.each(lambda jobs: jobs.count(self._asked(jobs, query))))
        found = self.each(lambda jobs: jobs.ids_of(self._asked(jobs, query)))
        every = {job_id for _, ids in found for job_id in ids}
        if query == Query(sort=query.sort, reverse=query.reverse, limit=query.limit):
            return len(every)  # whichever copies are taken
        beaten = self._beaten(every)
        return sum(len(set(ids) - beaten.get(store, set())) for store, ids in found)

    def figures(self, since: float | None, by: str, wanted: Filter | None = None) -> list[Figures]:
        """What statistics need of every job begun since; a job that is in several stores counts once."""
        beaten = self._beaten(None) if self.has_several else {}
        found = self.each(lambda jobs: jobs.figures(since, by, wanted, beaten.get(jobs)))
        return [row for _, rows in found for row in rows]

    def _asked(self, jobs: Jobs, query: Query) -> Query:
        """A query as it is asked of a store."""
        if query.filter is None or jobs.database.path == self._own:
            return query
        return replace(query, filter=replace(query.filter, caretaker=""))

    def _matching(self, reference: str) -> list[Found]:
        """All that fit, each once; where none of them can be read, what is wrong with one."""
        damaged: list[RowDamaged] = []

        def matching(jobs: Jobs) -> list[Job]:
            try:
                return jobs.matching(reference)
            except RowDamaged as error:
                damaged.append(error)
                return []

        found = [(jobs, job) for jobs, several in self.each(matching) for job in several]
        if damaged and not found:
            raise damaged[0]
        exact = [(jobs, job) for jobs, job in found if reference in (job.id, job.external_id)]
        beaten = self._beaten({job.id for _, job in exact or found})
        return [(jobs, job) for jobs, job in exact or found if job.id not in beaten.get(jobs, ())]

    def _beaten(self, ids: set[str] | None) -> dict[Jobs, set[str]]:
        """Which of some jobs, or of all, each store has a copy of while another store knows more of them.

        Whatever is asked, one copy stands for a job: else one that has ended would be found as running.
        """
        if ids is None or len(ids) > MANY:
            held = Counter(job_id for _, known in self.each(_all_ids) for job_id in known)
            ids = {job_id for job_id, count in held.items() if count > 1 and (ids is None or job_id in ids)}
        wanted = json.dumps(sorted(ids))
        best: dict[str, tuple[Rank, Jobs]] = {}
        beaten: dict[Jobs, set[str]] = {}
        for jobs, ranks in self.each(lambda jobs: _ranks(jobs, wanted)) if ids else ():
            for job_id, rank in ranks:
                before = best.get(job_id)
                if before is None or rank > before[0]:
                    best[job_id] = rank, jobs
                if before is not None:
                    loser = before[1] if best[job_id][1] is jobs else jobs
                    beaten.setdefault(loser, set()).add(job_id)
        return beaten

    def _behind(self, last: Found, query: Query) -> dict[Jobs, Place]:
        """Where a page begins in each store: jobs that are sorted by the same are in the order of their stores."""
        from jobtop.store.listing import Place, read_key

        store, job = last
        key, before = read_key(store.database, query.sort, job.seq or 0), True
        places = {}
        for jobs in self.stores:
            before = before and jobs is not store
            places[jobs] = Place(key, BEHIND_ALL if before == query.reverse else BEFORE_ALL)
        return places | {store: Place(key, job.seq or 0)}

    def _page(self, query: Query, last: Found | None) -> list[Found]:
        """The first so many copies of jobs that fit, behind one of them."""
        from jobtop.store.listing import merged, read_page

        behind = {} if last is None else self._behind(last, query)
        orders = self.each(lambda jobs: read_page(jobs.database, self._asked(jobs, query), behind.get(jobs)))
        return self._read([store for store, _ in orders], merged([order for _, order in orders])[: query.limit])

    def _read(self, stores: list[Jobs], numbers: Iterable[int]) -> list[Found]:
        """Jobs by their numbers among those of all stores; one that is gone by now is left out."""
        from jobtop.store.listing import place_and_seq

        places = [(stores[place], seq) for place, seq in map(place_and_seq, numbers)]
        wanted: dict[Jobs, list[int]] = {}
        for store, seq in places:
            wanted.setdefault(store, []).append(seq)
        read = dict(self.each(lambda jobs: jobs.numbered(wanted.get(jobs, ()))))
        return [(store, read[store][seq]) for store, seq in places if store in read and seq in read[store]]

    def _leave_out(self, path: Path, error: Exception) -> None:
        if not self.has_several and not self._are_named:
            raise error
        if not isinstance(error, StoreError):
            error = StoreDamaged(f"{path}: something in it makes no sense ({error}); is it damaged?")
        if not self.has_several:
            raise UsageError(str(error)) from error
        self._warn(f"left out: {error}")

    def _check(self) -> None:
        if not self.stores:
            raise UsageError("none of the stores could be read")


def _all_ids(jobs: Jobs) -> list[str]:
    return jobs.ids_of(Query())


def _ranks(jobs: Jobs, wanted: str) -> list[tuple[str, Rank]]:
    """How much a store knows of some jobs: of two that know the same, the one of the job's host is believed."""
    sql = f"SELECT id, host, {KNOWN} FROM jobs WHERE id IN (SELECT value FROM json_each(?))"
    with jobs.database.reading() as connection:
        rows = connection.execute(sql, (wanted,)).fetchall()
    own = jobs.database.path.stem

    def rank(row: sqlite3.Row) -> tuple[str, Rank]:
        job_id, host, status, *known = row
        if not are_numbers(known):
            raise RowDamaged(f"job {quote_value(job_id)}: one of {quote_value(known)} is no number")
        return job_id, (*knowledge(status, *known), host == own)

    return jobs.database.sound(rows, rank)
