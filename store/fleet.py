"""The jobs of any number of stores as one history; a store that cannot be read is named and left out."""

from __future__ import annotations

from jobtop.core.errors import StoreDamaged, StoreError, UsageError
from jobtop.core.record import replace
from jobtop.core.units import printable
from jobtop.store.jobs import ambiguous, unknown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path
    from typing import TypeVar

    from jobtop.core.analysis.statistics import Figures
    from jobtop.core.conditions import Filter
    from jobtop.core.model import Job
    from jobtop.store.jobs import Jobs, Query
    from jobtop.store.listing import Order, Place

    Found = tuple[Jobs, Job]  # a job, and the store it is in
    Answer = TypeVar("Answer")

BEFORE_ALL, BEHIND_ALL = -1, 2**63 - 1  # numbers that no job has
NONSENSE = (ValueError, TypeError, LookupError)  # in what a damaged page says


class Fleet:
    """The stores that were asked for, in their order; what is wrong with the only one is raised.

    `are_named`: the caller chose them, and can choose others.
    """

    def __init__(
        self, openers: Mapping[Path, Callable[[], Jobs]], warn: Callable[[str], None], are_named: bool = True
    ) -> None:
        self.has_several, self._are_named = len(openers) > 1, are_named
        self.stores: list[Jobs] = []
        self._warn = warn
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
            ((store, found),) = self.each(lambda jobs: jobs.select(query))
            return [(store, job) for job in found]
        from jobtop.store.listing import read_page

        behind = {} if last is None else self._behind(last, query)
        orders = self.each(lambda jobs: read_page(jobs.database, query, behind.get(jobs)))
        return self._first([order for _, order in orders], query.limit, set() if last is None else {last[1].id})

    def count(self, query: Query) -> int:
        """How many jobs fit, each once."""
        if not self.has_several:
            return sum(found for _, found in self.each(lambda jobs: jobs.count(query)))
        return len({job_id for _, ids in self.each(lambda jobs: jobs.ids_of(query)) for job_id in ids})

    def figures(self, since: float | None, by: str, wanted: Filter | None = None) -> list[Figures]:
        """What statistics need of every job begun since; a job that is in several stores counts once."""
        seen: set[str] | None = set() if self.has_several else None
        return [row for _, rows in self.each(lambda jobs: jobs.figures(since, by, wanted, seen)) for row in rows]

    def _matching(self, reference: str) -> list[Found]:
        """All that fit, each once: from the store of its own host, if that is there."""
        found = [(jobs, job) for jobs, several in self.each(lambda jobs: jobs.matching(reference)) for job in several]
        exact = [(jobs, job) for jobs, job in found if reference in (job.id, job.external_id)]
        once: dict[str, Found] = {}
        for jobs, job in exact or found:
            if job.id not in once or jobs.database.path.stem == job.host:
                once[job.id] = jobs, job
        return list(once.values())

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

    def _first(self, orders: list[Order], limit: int | None, known: set[str]) -> list[Found]:
        """The first so many, each once: a file that others were merged into has their jobs too."""
        from jobtop.store.listing import merged

        numbers, stores = merged(orders), [*self.stores]
        found: list[Found] = []
        step = max(1, len(numbers) if limit is None else limit)
        for start in range(0, len(numbers), step):
            for store, job in self._read(stores, numbers[start : start + step]):
                if job.id not in known:
                    known.add(job.id)
                    found.append((store, job))
            if limit is not None and len(found) >= limit:
                break
        return found[:limit]

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
