"""The open sockets of the job on its screen: read while their pane is shown, in a thread that nothing waits for."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from jobtop.core.measure.collectors.proc import is_alive
from jobtop.core.measure.live_connections import ConnectionReader, LiveConnections
from jobtop.core.measure.target import target_in
from jobtop.core.model import Job
from jobtop.core.paths import hostname
from jobtop.core.procfs import HAS_PROC
from jobtop.core.text.connection_text import denied_text, not_live_text
from jobtop.tui.data.job_reading import JobView
from jobtop.tui.widgets.connection_table import ConnectionTable
from jobtop.tui.workers import RepeatedWork

if TYPE_CHECKING:
    from jobtop.tui.screens.job.screen import JobScreen

NONE_OPEN = "no sockets are open now"


class JobConnections:
    """Belongs to the screen of a job; remembers bytes from one reading to the next, which gives rates."""

    def __init__(self, screen: JobScreen) -> None:
        self.screen = screen
        self._job: Job | None = None
        self._reader: ConnectionReader | None = None
        self._readings = RepeatedWork(screen, self._read, "connections")

    def look(self, job_view: JobView | None) -> None:
        """Read the sockets if their pane is shown."""
        if job_view is None or "connections" not in self.screen.visible_panes():
            return
        job = self._job = job_view.job
        is_here = job.host == hostname()
        if HAS_PROC and job.shim is not None and is_here and is_alive(job.shim):
            self._readings.request()
        else:
            self._reader = None
            self._table.show((), not_live_text(job, is_here), self.screen.others("connections"))

    @property
    def _table(self) -> ConnectionTable:
        return self.screen.query_one(ConnectionTable)

    async def _read(self) -> None:
        job, directory = self._job, self.screen.output_directory
        if job is None or directory is None:
            return
        if self._reader is None:
            target, config = target_in(directory, job), self.screen.console.options.config
            if target is None:
                return
            self._reader = ConnectionReader(target, config.texts("run.redact") if config else ())
        # A host with very many sockets takes long to list them: the reader of the stores does not wait for it.
        found = await asyncio.get_running_loop().run_in_executor(None, self._reader.read)
        if self.screen.query(ConnectionTable):
            self._show(found)

    def _show(self, found: LiveConnections) -> None:
        self._table.show(found.connections, denied_text(found) or NONE_OPEN, self.screen.others("connections"))
