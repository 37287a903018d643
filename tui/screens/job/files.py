"""The files of the job on its screen: read while their pane is shown, in a thread that nothing else waits for."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from jobtop.core.measure.collectors.proc import is_alive
from jobtop.core.measure.live_files import FileReader, LiveFiles
from jobtop.core.measure.target import target_in
from jobtop.core.model import Job
from jobtop.core.paths import hostname
from jobtop.core.procfs import HAS_PROC
from jobtop.core.text.file_text import denied_text, no_files_text
from jobtop.tui.data.job_reading import JobView
from jobtop.tui.widgets.file_table import FileTable, kept_rows, live_row
from jobtop.tui.workers import RepeatedWork

if TYPE_CHECKING:
    from jobtop.tui.screens.job.screen import JobScreen

NONE_OPEN = "no data files are open now"


class JobFiles:
    """Belongs to the screen of a job; remembers positions from one reading to the next, which gives rates."""

    def __init__(self, screen: JobScreen) -> None:
        self.screen = screen
        self._job: Job | None = None
        self._reader: FileReader | None = None
        self._readings = RepeatedWork(screen, self._read, "files")

    def look(self, job_view: JobView | None) -> None:
        """Read the files if their pane is shown."""
        if job_view is None or "files" not in self.screen.visible_panes():
            return
        self._job = job_view.job
        if self._is_live(job_view.job):
            self._readings.request()
        else:
            self._reader = None
            here = job_view.job.host == hostname()
            self._table.show(
                kept_rows(job_view.job),
                False,
                no_files_text(job_view.job, here),
                self.screen.others("files"),
            )

    @property
    def _table(self) -> FileTable:
        return self.screen.query_one(FileTable)

    @staticmethod
    def _is_live(job: Job) -> bool:
        return HAS_PROC and job.shim is not None and job.host == hostname() and is_alive(job.shim)

    async def _read(self) -> None:
        job, directory = self._job, self.screen.output_directory
        if job is None or directory is None:
            return
        if self._reader is None:
            target, config = target_in(directory, job), self.screen.console.options.config
            if target is None:
                return
            secret = config.texts("run.redact") if config else ()
            self._reader = FileReader(target, str(directory.parent), secret=secret)
        # A file on a network file system may take long to tell its size: the reader of the stores does not wait for it.
        found = await asyncio.get_running_loop().run_in_executor(None, self._reader.read)
        if self.screen.query(FileTable):
            self._show(found)

    def _show(self, found: LiveFiles) -> None:
        reason = denied_text(found) or NONE_OPEN
        self._table.show(list(map(live_row, found.files)), True, reason, self.screen.others("files"))
