"""Why each queued job of this host waits, and whether an agent is running that will start it."""

from __future__ import annotations

import time
from operator import attrgetter
from typing import TYPE_CHECKING

from jobtop.core.measure.collectors.proc import is_alive
from jobtop.core.paths import StatePaths
from jobtop.store.agents import Registered, registered
from jobtop.store.database import Database
from jobtop.store.jobs import Jobs

if TYPE_CHECKING:
    from jobtop.lifecycle.queue_plan import Lineup

QUEUE_SINCE_VERSION = 4


class QueueReasons:
    """The positions of queued jobs and why they wait, read with every change of the store if any job waits."""

    def __init__(self, paths: StatePaths) -> None:
        self.paths = paths
        self.reasons: dict[str, str] = {}
        self.places: dict[str, int] = {}
        self._agent: Registered | None = None
        self._lineup: Lineup | None = None

    @property
    def has_agent(self) -> bool:
        """Whether an agent is running."""
        return self._agent is not None and is_alive(self._agent.identity)

    def read(self, database: Database, is_any_queued: bool) -> None:
        if not database.has_tables_of(QUEUE_SINCE_VERSION):
            return
        self._agent = registered(database)
        self.reasons, self.places = self._read_reasons(database) if is_any_queued else ({}, {})

    def _read_reasons(self, database: Database) -> tuple[dict[str, str], dict[str, int]]:
        from jobtop.core.run.capacity import capacity
        from jobtop.lifecycle.queue import Queue
        from jobtop.lifecycle.queue_plan import Lineup

        lineup = self._lineup
        if lineup is None or lineup.queue.jobs.database is not database:
            lineup = self._lineup = Lineup(Queue(Jobs(database), self.paths))
        lineup.refresh()
        waiting = sorted(lineup.waiting.values(), key=attrgetter("turn"))
        places = {job.id: place for place, job in enumerate(waiting, 1)}
        return lineup.plan(capacity(lineup.needs_gpus), time.time()).waits, places
