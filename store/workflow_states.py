"""Follows the jobs of some runs of workflows: each reading reads only the jobs that changed since the one before."""

from __future__ import annotations

import time

from jobtop.core.record import replace
from jobtop.core.workflow.progress import with_names
from jobtop.store.workflows import Workflows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from jobtop.core.workflow.progress import RunJob
    from jobtop.store.database import Database

    RunKey = tuple[int, int]  # the numbers of a workflow and of one of its runs

FULL_SECONDS = 60.0  # after which all jobs are read again: a deleted job leaves no touch


class RunStates:
    """The jobs of the runs that the last reading asked for, as they were then."""

    def __init__(self) -> None:
        self.jobs: dict[RunKey, list[RunJob]] = {}
        self._planned: dict[RunKey, list[RunJob]] = {}
        self._places: dict[str, set[tuple[RunKey, int]]] = {}  # by the ids of attempts
        self._touch = 0
        self._full_at = -float("inf")

    def read(self, database: Database, wanted: Iterable[RunKey]) -> set[RunKey]:
        """Read what is new; return the runs that have changed."""
        keys, now = list(dict.fromkeys(wanted)), time.monotonic()
        if now - self._full_at > FULL_SECONDS or self.jobs.keys() - set(keys):
            self._full_at, self._touch = now, 0
            self._places, self._planned, self.jobs = {}, {}, {}
        store = Workflows(database)
        with database.reading():
            changed = self._read_changed(store) if self.jobs else set()
            if not self.jobs:
                self._touch = store.last_touch()
            for key in keys:
                if key not in self.jobs:
                    self._planned[key] = store.jobs(*key)
                    self.jobs[key] = store.with_states(self._planned[key])
                    changed.add(key)
                    for index, job in enumerate(self.jobs[key]):
                        self._places.setdefault(job.id, set()).add((key, index))
        return changed

    def _read_changed(self, store: Workflows) -> set[RunKey]:
        found, self._touch = store.changed_since(self._touch)
        changed: set[RunKey] = set()
        for job_id, (values, later) in found.items():
            for key, index in self._places.pop(job_id, ()):
                before = self.jobs[key][index]
                if later is None and values["attempt"] == 1:
                    job = replace(before, **values)
                else:  # the attempts before this one count too
                    job = store.with_states([self._planned[key][index]])[0]
                for each in dict.fromkeys((job_id, job.id, later)):
                    if each is not None:
                        self._places.setdefault(each, set()).add((key, index))
                if job != before:
                    self.jobs[key][index] = job
                    changed.add(key)
        for key in changed:
            self.jobs[key] = with_names(self.jobs[key])
        return changed
