"""A pane of the Job screen that reads processes of a running job, in a thread that nothing else waits for."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from jobtop.core.measure.collectors.proc import is_alive
from jobtop.core.measure.target import target_in
from jobtop.core.model import Job
from jobtop.core.paths import hostname
from jobtop.core.procfs import HAS_PROC
from jobtop.tui.data.job_reading import JobView
from jobtop.tui.workers import RepeatedWork

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from jobtop.core.measure.target import Target
    from jobtop.tui.screens.job.screen import JobScreen

Found = TypeVar("Found")
Read_co = TypeVar("Read_co", covariant=True)


class LiveReader(Protocol[Read_co]):
    """Reads a job again and again; it remembers the last reading, which gives rates."""

    def read(self) -> Read_co: ...


class LivePane(Generic[Found]):
    """Belongs to the screen of a job; reads while the pane is shown and the job runs here."""

    pane: str  # its id

    def __init__(self, screen: JobScreen) -> None:
        self.screen = screen
        self._job: Job | None = None
        self._reader: LiveReader[Found] | None = None
        self._readings = RepeatedWork(screen, self._read, self.pane)

    def look(self, job_view: JobView | None) -> None:
        """Read the job if the pane is shown."""
        if job_view is None or self.pane not in self.screen.visible_panes():
            return
        job = self._job = job_view.job
        is_here = job.host == hostname()
        if HAS_PROC and job.shim is not None and is_here and is_alive(job.shim):
            self._readings.request()
        else:
            self._reader = None
            self.show_not_live(job, is_here)

    def open_reader(self, target: Target, directory: Path, secret: Sequence[str]) -> LiveReader[Found]:
        """A reader of the processes of the job; `directory` has its files."""
        raise NotImplementedError

    def show_live(self, found: Found) -> None:
        """Show what was read, unless the pane is gone."""
        raise NotImplementedError

    def show_not_live(self, job: Job, is_here: bool) -> None:
        """Show what is known of a job that cannot be read now."""
        raise NotImplementedError

    async def _read(self) -> None:
        job, directory = self._job, self.screen.output_directory
        if job is None or directory is None:
            return
        if self._reader is None:
            target, config = target_in(directory, job), self.screen.console.options.config
            if target is None:
                return
            self._reader = self.open_reader(target, directory, config.texts("run.redact") if config else ())
        # Many sockets, or a file on a network file system, take long: the reader of the stores does not wait for it.
        self.show_live(await asyncio.get_running_loop().run_in_executor(None, self._reader.read))
