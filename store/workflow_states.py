"""Follows the jobs of some runs of workflows: each reading reads only the jobs that changed since the one before."""

from __future__ import annotations

import time

from jobtop.core.record import replace
from jobtop.store.workflows import Workflows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from jobtop.core.workflow.progress import RunJob
    from jobtop.store.database import Database

    RunKey = tuple[int, int]  # the numbers of a workflow and of one of its runs

FULL_SECONDS = 60.0  # after which all jobs are read again: a deleted job leaves no touch


class RunStates:
    """The jobs of the runs that the last reading asked for, as they were then."""

    def __init__(self) -> None:
        self.jobs: dict[RunKey, list[RunJob]] = {}
        self._places: dict[str, list[tuple[RunKey, int]]] = {}  # by the id of the last attempt
        self._touch = 0
        self._full_at = -float("inf")

    def read(self, database: Database, wanted: Iterable[RunKey]) -> set[RunKey]:
        """Read what is new; return the runs that have changed."""
        keys, now = list(dict.fromkeys(wanted)), time.monotonic()
        if now - self._full_at > FULL_SECONDS or self.jobs.keys() - set(keys):
            self._full_at, self._touch = now, 0
            self._places, self.jobs = {}, {}
        store = Workflows(database)
        with database.reading():
            changed = self._read_changed(store) if self.jobs else set()
            if not self.jobs:
                self._touch = store.last_touch()
            for key in keys:
                if key not in self.jobs:
                    self.jobs[key] = store.with_states(store.jobs(*key))
                    changed.add(key)
                    for index, job in enumerate(self.jobs[key]):
                        self._places.setdefault(job.id, []).append((key, index))
        return changed

    def _read_changed(self, store: Workflows) -> set[RunKey]:
        found, self._touch = store.changed_since(self._touch)
        changed: set[RunKey] = set()
        for job_id, (values, later) in found.items():
            self._take(store, job_id, values, later, changed)
        return changed

    def _take(
        self, store: Workflows, job_id: str, values: dict[str, Any], later: str | None, changed: set[RunKey]
    ) -> None:
        places = self._places.get(job_id)
        if places is None:
            return
        for key, index in places:
            job = replace(self.jobs[key][index], **values)
            if later is not None:
                job = store.with_states([replace(job, first_id=later)])[0]
                job = replace(job, first_id=self.jobs[key][index].first_id)
                self._places.setdefault(job.id, []).append((key, index))
            if job != self.jobs[key][index]:
                self.jobs[key][index] = job
                changed.add(key)
        if later is not None:
            del self._places[job_id]
