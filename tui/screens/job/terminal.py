"""The terminal of the job on its screen: what the user types into it, its size, and whether the job waits for input."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from jobtop.core.measure.collectors.terminal_wait import any_waits_for_input
from jobtop.core.model import Job
from jobtop.core.paths import hostname
from jobtop.core.run.terminal_input import TerminalInput, has_terminal, open_input
from jobtop.tui.data.job_reading import JobView
from jobtop.tui.widgets.output_view import OutputView
from jobtop.tui.workers import RepeatedWork, start_work

if TYPE_CHECKING:
    from jobtop.tui.screens.job.screen import JobScreen

NO_TERMINAL = "has no terminal: only a job that jobtop run starts at a terminal has one"


class JobTerminal:
    """Belongs to the screen of a job; opens the terminal when it is first needed."""

    def __init__(self, screen: JobScreen) -> None:
        self.screen = screen
        self._input: TerminalInput | None = None
        self._size: tuple[int, int] | None = None  # that was set last
        self._fitting = RepeatedWork(screen, self._fit, "terminal")

    @property
    def view(self) -> OutputView:
        return self.screen.query_one(OutputView)

    def begin_typing(self) -> None:
        """Send all keys to the job, or say why that is not possible."""
        job = self.screen.job
        if job is None or self.screen.output_directory is None:
            return
        if (why := self._refusal(job)) is not None:
            self.screen.say(why, "warning")
        else:
            start_work(self.screen, self._begin_typing, job, group="typing")

    def _refusal(self, job: Job) -> str | None:
        options = self.screen.console.options
        if options.is_readonly:
            return options.readonly_words
        if job.status.ended:
            return f"{job.name} has ended: there is nothing to type into"
        if job.host != hostname():
            return f"{job.name} runs on {job.host}: open the console there to type into it"
        return None

    async def _begin_typing(self, job: Job) -> None:
        if not await self._open():
            self.screen.say(f"{job.name} {NO_TERMINAL}", "warning")
            return
        self.screen.go_to(None)
        self.screen.open_pane("output")
        self.view.begin_typing(job.name)
        self.screen.update_keys()
        self.fit()

    def send(self, data: bytes) -> None:
        """Type into the job; typing ends with the job."""
        if self._input is None or not self._input.type(data):
            self.close()
            self.view.action_end_typing()
            self.screen.say("the job does not take any input: it has ended, or it is stopped", "warning")

    def fit(self) -> None:
        """Give the terminal the size of the output, if the job belongs to this console or the user types into it."""
        options = self.screen.console.options
        is_own = options.is_attended and options.job_id == self.screen.job_id
        if is_own or self.view.takes_all_keys:
            self._fitting.request()

    async def _fit(self) -> None:
        job, size = self.screen.job, self.view.text_size
        if job is None or job.status.ended or size == self._size or not self.view.is_on_view:
            return
        if await self._open() and self._input is not None and self._input.resize(*size):
            self._size = size

    async def look(self, job_view: JobView) -> None:
        """Say whether the job waits for input; only where its processes can be read."""
        directory, processes = self.screen.output_directory, job_view.processes
        is_here = not job_view.job.status.ended and processes.at is None and self.screen.moment is None
        if job_view.job.status.ended:
            self.view.action_end_typing()
            self.close()
        is_waiting = False
        if is_here and directory is not None and not self.screen.console.options.is_readonly:
            pids = [row.pid for row in processes.rows]
            is_waiting = await asyncio.to_thread(_waits_for_input, directory, pids)
        if self.screen.is_attached:
            self.view.say_waiting(is_waiting)

    def close(self) -> None:
        if self._input is not None:
            self._input.close()
        self._input = None

    async def _open(self) -> bool:
        """Open the terminal; False if the job has none."""
        directory = self.screen.output_directory
        if self._input is None and directory is not None:
            opened = await asyncio.to_thread(open_input, str(directory))
            self.close()
            self._input = opened
        return self._input is not None


def _waits_for_input(directory: Path, pids: list[int]) -> bool:
    return has_terminal(directory) and any_waits_for_input(pids)
