"""What the pages of containers share: the monitor runs while one is visible, and actions on the chosen containers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from jobtop.core.errors import JobtopError
from jobtop.core.units import number_of
from jobtop.tui.actions import Action
from jobtop.tui.data.containers.rows import job_of, jobs_by_container
from jobtop.tui.page import MOST_NAMED, Page
from jobtop.tui.palette import Tone
from jobtop.tui.widgets.cells import Span, fitted, safe_text
from jobtop.tui.widgets.prose import BLANK, Paragraph
from jobtop.tui.widgets.tables.containers import glyph_of
from jobtop.tui.workers import in_daemon, start_work

if TYPE_CHECKING:
    from jobtop.core.measure.collectors.docker.snapshot import ContainerRow
    from jobtop.tui.data.containers.feed import ContainerFeed
    from jobtop.tui.data.containers.operations import ContainerOperation
    from jobtop.tui.dialogs.confirm import Confirm

LOOK_SECONDS = 0.25  # between two looks for a new snapshot, which the monitor makes every second
LINGER_SECONDS = 10.0  # that the monitor runs on after the pages are left
LABEL_CELLS = 40
SHORT_ID = 12


class ContainerPage(Page):
    """A page of containers."""

    _offered: tuple[bool, bool] | None = None

    @property
    def container_feed(self) -> ContainerFeed:
        return self.console.container_feed

    def on_mount(self) -> None:
        self.container_feed.start()
        self.set_interval(LOOK_SECONDS, self.look)

    def on_screen_resume(self) -> None:
        self.container_feed.start()
        self.look(at_once=True)

    def on_screen_suspend(self) -> None:
        self.console.set_timer(LINGER_SECONDS, self.stop_if_left)

    def stop_if_left(self) -> None:
        """Stop the monitor if the user has gone to another page; one below a dialog is still visible."""
        if not isinstance(self.console.visible_page, ContainerPage):
            self.container_feed.stop()

    def look(self, at_once: bool = False) -> None:
        """Show what is new, if this page is visible."""
        if self.console.is_frozen or self.console.visible_page is not self:
            return
        if self.container_feed.look() or at_once:
            self.show_containers()
            self.refresh_keys()

    def show_containers(self) -> None:
        """Show the newest snapshot."""
        raise NotImplementedError

    @property
    def chosen_rows(self) -> Sequence[ContainerRow]:
        """The marked containers, or the one under the cursor."""
        raise NotImplementedError

    @property
    def jobs(self) -> dict[str, str]:
        """The live jobs of containers, by the ids of the containers."""
        view = self.console.view
        return jobs_by_container(view.rows) if view is not None else {}

    def chosen_job(self) -> str | None:
        """The job of the chosen container, if a store of this console knows it or its label names it."""
        rows = self.chosen_rows
        return job_of(rows[0], self.jobs) if len(rows) == 1 else None

    def is_offered(self, action: Action) -> bool:
        """Offer to stop containers that run, and to record them; in a read-only console, only to open their jobs."""
        rows = self.chosen_rows
        if action.place == "containers" and not rows:
            return False
        if action.id == "containers.stop" and not any(row.container.is_alive for row in rows):
            return False
        if action.id == "containers.job":
            is_watchable = not self.console.options.is_readonly and any(row.container.is_alive for row in rows)
            return is_watchable or self.chosen_job() is not None
        return super().is_offered(action)

    def refresh_keys(self) -> None:
        """Update the keys if what can be done to the chosen containers has changed."""
        offered = any(row.container.is_alive for row in self.chosen_rows), self.chosen_job() is not None
        if offered != self._offered:
            self._offered = offered
            self.update_keys()

    def action_stop(self) -> None:
        from jobtop.tui.data.containers.operations import STOP

        self.ask_for(STOP)

    def action_kill(self) -> None:
        from jobtop.tui.data.containers.operations import KILL

        self.ask_for(KILL)

    def action_restart(self) -> None:
        from jobtop.tui.data.containers.operations import RESTART

        self.ask_for(RESTART)

    def action_pause(self) -> None:
        from jobtop.tui.data.containers.operations import PAUSE, RESUME

        states = {row.container.state for row in self.chosen_rows}
        self.ask_for(RESUME if states == {"paused"} else PAUSE)

    def ask_for(self, operation: ContainerOperation) -> None:
        """Do an operation to the chosen containers, if it is possible and the user confirms."""
        from jobtop.tui.data.containers.operations import refusal

        rows = self.rows_to_change()
        refusals = [self.refusal_of_job(row) or refusal(row.container, operation) for row in rows]
        self.say_all([why for why in refusals if why is not None], "warning")
        ready = [row for row, why in zip(rows, refusals, strict=True) if why is None]
        if ready:
            start_work(self.app, self._ask_for, operation, ready, group="ask", exclusive=True)

    def refusal_of_job(self, row: ContainerRow) -> str | None:
        """Acting on a job that jobtop started, instead of its container, keeps its record right."""
        found = self.console.row(row.job_id) if row.job_id is not None else None
        if found is None or found.job.status.ended:
            return None
        return f"{row.container.name} is the container of job {found.job.id[:8]}: open the job with w, and act on it"

    async def _ask_for(self, operation: ContainerOperation, rows: Sequence[ContainerRow]) -> None:
        if await self.app.push_screen_wait(question(operation, rows)):
            start_work(self.app, self._carry_out, operation, rows, group="act")

    async def _carry_out(self, operation: ContainerOperation, rows: Sequence[ContainerRow]) -> None:
        from jobtop.tui.data.containers.operations import carry_out

        source, known = self.container_feed.source, []
        for row in rows:
            engine = self.container_feed.engine(row.container.engine)
            if engine is not None:
                known.append((row, engine.endpoint))
        calls = (in_daemon(carry_out, source, endpoint, row.container, operation) for row, endpoint in known)
        problems = await asyncio.gather(*calls)
        self.say_all([why for why in problems if why is not None], "error")
        done = [row for (row, _), why in zip(known, problems, strict=True) if why is None]
        self.say_all([f"{operation.done} {label(row)}" for row in done])

    async def action_watch(self) -> None:
        """Open the job of the container; if it has none, record it as one."""
        job_id = self.chosen_job()
        if job_id is not None:
            await self.console.open_job(job_id)
        elif rows := self.rows_to_change():
            start_work(self.app, self._record, rows, group="act")

    async def _record(self, rows: Sequence[ContainerRow]) -> None:
        from jobtop.tui.data.containers.operations import record_as_job

        for row in rows:
            engine = self.container_feed.engine(row.container.engine)
            if engine is None or row.container.id in self.jobs:
                continue
            try:
                job = await in_daemon(record_as_job, self.console.options, engine.endpoint, row.container)
            except (JobtopError, OSError) as error:
                self.say(str(error), "warning")
            else:
                self.say(f"{label(row)} is recorded as job {job.id[:8]} from now on; w opens the job")
        self.console.feed.poll_now()

    def action_copy_id(self) -> None:
        ids = [row.container.id for row in self.chosen_rows]
        if ids:
            self.app.copy_to_clipboard(" ".join(ids))
            self.say(f"copied {ids[0][:SHORT_ID]}" + (f" and {len(ids) - 1} more" if len(ids) > 1 else ""))

    def rows_to_change(self) -> Sequence[ContainerRow]:
        """The chosen containers, if this console may change them; tells the user why there are none."""
        if self.console.options.is_readonly:
            self.say(self.console.options.readonly_words, "warning")
            return ()
        if not (rows := self.chosen_rows):
            self.say("No container selected", "warning")
        return rows


def question(operation: ContainerOperation, rows: Sequence[ContainerRow]) -> Confirm:
    """The dialog that asks whether to do an operation to these containers."""
    from jobtop.tui.dialogs.confirm import Confirm

    what = "this container" if len(rows) == 1 else number_of(len(rows), "container")
    more = [Paragraph(f"and {len(rows) - MOST_NAMED} more", Tone.GREY)] if len(rows) > MOST_NAMED else []
    lines = [*map(named, rows[:MOST_NAMED]), *more, BLANK, Paragraph(operation.meaning, Tone.GREY)]
    return Confirm(f"{operation.title} {what}?", lines, operation.title, "Cancel")


def named(row: ContainerRow) -> Paragraph:
    sign, tone = glyph_of(row.container)
    sign_and_engine = [Span(f"{sign} ", tone), Span(f"{safe_text(row.container.engine)[:LABEL_CELLS]}  ", Tone.GREY)]
    return Paragraph(fitted(row.container.name, LABEL_CELLS).rstrip(), Tone.TEXT, sign_and_engine, bold=True)


def label(row: ContainerRow) -> str:
    """The name of a container after that of its engine, shortened."""
    return f"{row.container.engine}/{fitted(row.container.name, LABEL_CELLS).rstrip()}"
