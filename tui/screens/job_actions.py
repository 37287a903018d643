"""Actions on jobs for every page that lists jobs: stop, pause, run again, pin, compare, export, copy the id."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from jobtop.core.errors import JobtopError
from jobtop.core.model import Job, Status
from jobtop.core.paths import StatePaths
from jobtop.tui.actions import Action
from jobtop.tui.data.view import JobRow
from jobtop.tui.page import MOST_NAMED, Page
from jobtop.tui.palette import STATUS_GLYPHS, Tone
from jobtop.tui.widgets.cells import Span, fitted
from jobtop.tui.widgets.columns import Column
from jobtop.tui.widgets.prose import BLANK, Paragraph
from jobtop.tui.widgets.table import Table
from jobtop.tui.workers import start_work

# Imported when first used: the import takes as long as all other panes together.
if TYPE_CHECKING:
    from jobtop.tui.data.operations import Operation, OperationResult, StartFunction
    from jobtop.tui.dialogs.confirm import Confirm

COMPARABLE = range(2, 7)
LABEL_CELLS = 40
WAITING_MEANINGS = {
    "Stop": "It has not started: it leaves the queue, and is recorded as cancelled.",
    "Kill": "It has not started: it leaves the queue, and is recorded as cancelled.",
    "Pause": "It stays in the queue, and does not start until you resume it.",
    "Resume": "It may start again when its turn comes.",
}


class JobActions(Page):
    """A page with actions on its chosen jobs."""

    _offered: bool | None = None

    @property
    def chosen_rows(self) -> Sequence[JobRow]:
        """The rows of the marked jobs, or of the job under the cursor."""
        raise NotImplementedError

    @property
    def has_live_choice(self) -> bool:
        """Whether one of the chosen jobs can be stopped."""
        return any(not row.job.status.ended or "left_running" in row.job.flags for row in self.chosen_rows)

    def is_offered(self, action: Action) -> bool:
        """Offer to stop running jobs, and to run ended jobs again."""
        if action.id in ("jobs.stop", "jobs.again") and self.has_live_choice is (action.id == "jobs.again"):
            return False
        return super().is_offered(action)

    def refresh_keys(self) -> None:
        """Update the keys if another job is chosen, or the chosen one has ended."""
        if self._offered is not (offered := self.has_live_choice):
            self._offered = offered
            self.update_keys()

    def action_stop_jobs(self) -> None:
        from jobtop.tui.data.operations import STOP

        self.ask_for(STOP)

    def action_kill_jobs(self) -> None:
        from jobtop.tui.data.operations import KILL

        self.ask_for(KILL)

    def action_pause_jobs(self) -> None:
        from jobtop.tui.data.operations import PAUSE, RESUME

        paused = [row.job.status is Status.PAUSED for row in self.chosen_rows]
        self.ask_for(RESUME if paused and all(paused) else PAUSE)

    def ask_for(self, operation: Operation) -> None:
        """Do an operation to the chosen jobs, if it is possible and the user confirms."""
        if rows := self.rows_to_change():
            start_work(self.app, self._ask_for, operation, rows, group="ask", exclusive=True)

    async def _ask_for(self, operation: Operation, rows: Sequence[JobRow]) -> None:
        from jobtop.tui.data.operations import refusal

        refusals = await asyncio.gather(*(asyncio.to_thread(refusal, row, operation) for row in rows))
        self.say_all([why for why in refusals if why is not None], "warning")
        ready = [row for row, why in zip(rows, refusals, strict=True) if why is None]
        if not ready:
            return
        is_meant = await self.app.push_screen_wait(question(operation, ready))
        if is_meant:
            start_work(self.app, self._carry_out, operation, ready, group="act")

    async def _carry_out(self, operation: Operation, rows: Sequence[JobRow]) -> None:
        from jobtop.tui.data.operations import carry_out, wait_for_end

        results = await asyncio.gather(*(asyncio.to_thread(carry_out, row, operation) for row in rows))
        self.console.feed.poll_now()
        self.say_all([word for result in results for word in problems_of(result)], "warning")
        done = [(row, result.job) for row, result in zip(rows, results, strict=True) if result.job is not None]
        if not operation.ends_job:
            self.say_all([f"{operation.done} {label(job)}" for _, job in done])
            return
        ends = await asyncio.gather(*(wait_for_end(row, job, operation) for row, job in done))
        self.console.feed.poll_now()
        self.say_all([f"{label(job)}: {end_words(job, operation)}" for job in ends if job is not None])
        stuck = [job for (_, job), end in zip(done, ends, strict=True) if end is None]
        self.say_all([f"{label(job)} has processes that cannot be killed" for job in stuck], "error")

    def action_change_job(self) -> None:
        """Open the form that runs a job, filled in from the chosen job."""
        rows = self.rows_to_change()
        if len(rows) > 1:
            self.say(f"{len(rows)} jobs are marked: choose one to change, or run all again with R", "warning")
        elif rows:
            start_work(self.app, self._change_job, rows[0], group="ask", exclusive=True)

    async def _change_job(self, row: JobRow) -> None:
        from jobtop.tui.dialogs.form_values import filled_form
        from jobtop.tui.dialogs.run_form import RunForm

        try:
            paths = StatePaths(row.store.parent, row.job.host)
            filled = await asyncio.to_thread(filled_form, paths, row.job, os.environ)
        except (JobtopError, OSError) as error:
            self.say(str(error), "warning")
            return
        await self.app.push_screen(RunForm(filled))

    def action_run_again(self) -> None:
        """Run the chosen jobs again as they were, if the user confirms."""
        if rows := self.rows_to_change():
            start_work(self.app, self._ask_to_run_again, rows, group="ask", exclusive=True)

    async def _ask_to_run_again(self, rows: Sequence[JobRow]) -> None:
        from jobtop.tui.data.operations import queue_again, start_again
        from jobtop.tui.dialogs.run_again import NOW, QUEUE, RunAgain

        answer = await self.app.push_screen_wait(RunAgain(len(rows), named_rows(rows)))
        if answer == NOW:
            start_work(self.app, self._begin_again, rows, start_again, "runs", group="act")
        elif answer == QUEUE:
            start_work(self.app, self._begin_again, rows, queue_again, "is queued", group="act")

    async def _begin_again(self, rows: Sequence[JobRow], begin: StartFunction, done: str) -> None:
        started: list[Job] = []
        for row in rows:
            try:
                job, warnings = await asyncio.to_thread(begin, self.console.options, row)
            except (JobtopError, OSError) as error:
                self.say(str(error), "warning")
                continue
            self.say_all(warnings, "warning")
            if job.status is Status.ERROR:
                self.say(f"{label(job)}: {job.reason}", "error")
            else:
                started.append(job)
        self.console.feed.poll_now()
        self.say_all([f"{label(job)} {done}" for job in started])
        if len(started) == 1:
            await self.console.select_job(started[0].id)

    def action_pin_jobs(self) -> None:
        if rows := self.rows_to_change():
            is_pinned = all(row.job.pinned for row in rows)
            start_work(self.app, self._pin, rows, not is_pinned, group="act")

    async def _pin(self, rows: Sequence[JobRow], pinned: bool) -> None:
        from jobtop.tui.data.operations import pin

        refusals = await asyncio.gather(*(asyncio.to_thread(pin, row, pinned) for row in rows))
        self.console.feed.poll_now()
        self.say_all([why for why in refusals if why is not None], "warning")
        done = [row.job for row, why in zip(rows, refusals, strict=True) if why is None]
        words = "pinned: all its data is kept" if pinned else "unpinned: old data will be deleted"
        self.say_all([f"{label(job)} is {words}" for job in done])

    def action_acknowledge_jobs(self) -> None:
        if rows := self.rows_to_change():
            start_work(self.app, self._acknowledge_jobs, rows, group="act")

    async def _acknowledge_jobs(self, rows: Sequence[JobRow]) -> None:
        """Acknowledge the open alerts and the failures of jobs."""
        from jobtop.tui.data.alert_operations import acknowledge_jobs

        decision = await asyncio.to_thread(acknowledge_jobs, rows)
        self.say_all(decision.refusals, "warning")
        if decision.count or not decision.refusals:
            self.say(f"{decision.count} acknowledged" if decision.count else "Nothing to acknowledge")
        self.incident_watch.forget()
        self.console.feed.poll_now()

    async def action_compare_marked(self) -> None:
        ids = [row.job.id for row in self.chosen_rows]
        if len(ids) in COMPARABLE:
            await self.console.open_compare(ids)
        else:
            self.say(f"Mark {COMPARABLE[0]} to {COMPARABLE[-1]} jobs with Space, then press c", "warning")

    async def action_export_job(self) -> None:
        from jobtop.tui.dialogs.export_form import ExportForm

        if rows := self.chosen_rows:
            await self.app.push_screen(ExportForm(rows))
        else:
            self.say("No job selected", "warning")

    def action_copy_id(self) -> None:
        ids = " ".join(row.job.id for row in self.chosen_rows)
        if ids:
            self.app.copy_to_clipboard(ids)
            self.say(f"copied {ids[:8]}" + ("…" if len(ids) > 36 else ""))

    def on_mount(self) -> None:
        """Hide the columns that were hidden last time."""
        self.every_column = {table.id: table.columns for table in self.query(Table)}
        for table in self.query(Table):
            hidden = self.console.preferences.hidden(self.columns_name(table))
            if hidden:
                show_columns(table, self.every_column[table.id], hidden)

    async def action_choose_columns(self) -> None:
        from jobtop.tui.dialogs.choose_columns import ChooseColumns

        table = self.focused if isinstance(self.focused, Table) else next(iter(self.query(Table)), None)
        if table is None:
            self.say("No table here", "warning")
            return
        every = self.every_column.setdefault(table.id, table.columns)
        hidden = {column.key for column in every} - {column.key for column in table.columns}

        def choose(hidden: frozenset[str]) -> None:
            show_columns(table, every, hidden)
            self.console.preferences.keep_hidden(self.columns_name(table), hidden)

        await self.app.push_screen(ChooseColumns(every, frozenset(hidden), choose))

    def columns_name(self, table: Table[JobRow]) -> str:
        """The name under which the hidden columns of a table are remembered."""
        return f"{type(self).__name__.lower()}.{table.id}"

    def rows_to_change(self) -> Sequence[JobRow]:
        """The chosen jobs, if this console may change them; tells the user why there are none."""
        if self.console.options.is_readonly:
            self.say(self.console.options.readonly_words, "warning")
            return ()
        rows = self.chosen_rows
        if not rows:
            self.say("No job selected", "warning")
        return rows


def question(operation: Operation, rows: Sequence[JobRow]) -> Confirm:
    """The dialog that asks whether to do an operation to these jobs."""
    from jobtop.tui.dialogs.confirm import Confirm

    lines = named_rows(rows)
    title = f"{operation.title} {'this job' if len(rows) == 1 else f'{len(rows)} jobs'}?"
    return Confirm(title, [*lines, BLANK, Paragraph(meaning(operation, rows), Tone.GREY)], operation.title, "Cancel")


def meaning(operation: Operation, rows: Sequence[JobRow]) -> str:
    """What an operation does to these jobs."""
    from jobtop.tui.data.operations import STOP, stop_words

    if all(row.job.start_time is None and row.job.status in (Status.QUEUED, Status.PAUSED) for row in rows):
        return WAITING_MEANINGS.get(operation.title, operation.meaning)
    graces = {row.job.grace_seconds for row in rows}
    return stop_words(graces.pop() if len(graces) == 1 else None) if operation is STOP else operation.meaning


def named_rows(rows: Sequence[JobRow]) -> list[Paragraph]:
    """A line for each job, with a limit."""
    more = [Paragraph(f"and {len(rows) - MOST_NAMED} more", Tone.GREY)] if len(rows) > MOST_NAMED else []
    return [*map(named, rows[:MOST_NAMED]), *more]


def named(row: JobRow) -> Paragraph:
    sign, tone = STATUS_GLYPHS[str(row.job.status)]
    sign_and_id = [Span(f"{sign} ", tone), Span(f"{row.job.id[:8]}  ", Tone.GREY)]
    return Paragraph(fitted(row.job.name, LABEL_CELLS).rstrip(), Tone.TEXT, sign_and_id, bold=True)


def label(job: Job) -> str:
    """A job's name and id, shortened."""
    return f"{fitted(job.name, LABEL_CELLS).rstrip()} ({job.id[:8]})"


def end_words(job: Job, operation: Operation) -> str:
    """How the job ended, from its record if that is finished."""
    return (job.reason or str(job.status)) if job.status.ended else operation.done


def problems_of(result: OperationResult) -> list[str]:
    return [*result.warnings, *([result.refusal] if result.refusal is not None else [])]


def show_columns(table: Table[JobRow], every: Sequence[Column[JobRow]], hidden: frozenset[str]) -> None:
    table.columns = tuple(column for column in every if column.key not in hidden)
