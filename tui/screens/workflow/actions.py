"""What the pages of workflows share: a run is cancelled, or run again, after a question."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from jobtop.core.errors import JobtopError
from jobtop.core.record import record
from jobtop.core.units import number_of
from jobtop.tui.actions import WORKFLOWS, Action
from jobtop.tui.page import MOST_NAMED, Page
from jobtop.tui.palette import Tone
from jobtop.tui.widgets.cells import Span, fitted, safe_text
from jobtop.tui.widgets.prose import BLANK, Paragraph
from jobtop.tui.workers import in_daemon, start_work

if TYPE_CHECKING:
    from jobtop.store.workflows import WorkflowRow
    from jobtop.tui.data.workflow_operations import RunChange
    from jobtop.tui.dialogs.confirm import Confirm

LABEL_CELLS = 60
CANCEL_MEANING = "Jobs that wait are not started. Jobs that run get SIGTERM, and SIGKILL after their grace period."
RETRY_MEANING = "They are queued as the next run of the workflow. Jobs that have succeeded and not changed are kept."


@record
class ChosenRun:
    """The run that keys act on."""

    store: Path
    workflow: WorkflowRow
    run_id: int
    is_live: bool
    is_last: bool


class WorkflowPage(Page):
    """A page with actions on a run."""

    _offered: object = None

    @property
    def chosen_run(self) -> ChosenRun | None:
        """The run under the cursor, or that of the screen."""
        raise NotImplementedError

    def is_offered(self, action: Action) -> bool:
        """Offer to cancel a run that goes on, and to run an ended one again."""
        run = self.chosen_run
        if action.place == WORKFLOWS:
            is_possible = run is not None and run.is_live is (action.id == "workflows.cancel")
            return is_possible and super().is_offered(action)
        return super().is_offered(action)

    def refresh_keys(self) -> None:
        """Update the keys if what can be done to the chosen run has changed."""
        run = self.chosen_run
        offered = None if run is None else run.is_live
        if offered != self._offered:
            self._offered = offered
            self.update_keys()

    def action_cancel_run(self) -> None:
        run = self.run_to_change()
        if run is not None and not run.is_live:
            self.say(f"run {run.run_id} has ended already", "warning")
        elif run is not None:
            start_work(self.app, self._cancel, run, group="ask", exclusive=True)

    def action_retry_run(self) -> None:
        run = self.run_to_change()
        if run is not None and run.is_live:
            self.say(f"run {run.run_id} has not ended yet", "warning")
        elif run is not None:
            start_work(self.app, self._retry, run, group="ask", exclusive=True)

    def run_to_change(self) -> ChosenRun | None:
        """The chosen run, if this console may change it; tells the user why not."""
        from jobtop.tui.data.workflow_operations import refusal

        run = self.chosen_run
        if self.console.options.is_readonly:
            self.say(self.console.options.readonly_words, "warning")
            return None
        why = "No workflow selected" if run is None else refusal(self.console.options, run.store, run.workflow)
        if why is not None:
            self.say(why, "warning")
            return None
        return run

    async def _cancel(self, run: ChosenRun) -> None:
        from jobtop.tui.data.workflow_operations import cancel

        if await self.app.push_screen_wait(question("Cancel this run?", run, [], CANCEL_MEANING, "Cancel the run")):
            options = self.console.options
            start_work(self.app, self._change, lambda: cancel(options, run.workflow.id, run.run_id), group="act")

    async def _retry(self, run: ChosenRun) -> None:
        from jobtop.tui.data.workflow_operations import retry, to_retry

        options = self.console.options
        try:
            names = await in_daemon(to_retry, options, run.workflow.id)
        except (JobtopError, OSError) as error:
            self.say(str(error), "warning")
            return
        if not names:
            self.say("There is nothing to run again: all jobs have succeeded, and none has changed", "information")
        elif await self.app.push_screen_wait(question("Run it again?", run, names, RETRY_MEANING, "Run again")):
            start_work(self.app, self._change, lambda: retry(options, run.workflow.id), group="act")

    async def _change(self, change: Callable[[], RunChange]) -> None:
        try:
            result = await in_daemon(change)
        except (JobtopError, OSError) as error:
            self.say(str(error), "error")
            return
        self.console.feed.poll_now()
        if result.warnings:
            self.say("\n".join(result.warnings[:MOST_NAMED]), "warning")
        self.say(result.words)
        self.changed(result.run_id)

    def changed(self, run_id: int) -> None:
        """A run was cancelled, or this one was started."""


def question(title: str, run: ChosenRun, names: list[str], meaning: str, yes: str) -> Confirm:
    """The dialog that asks before a run is changed."""
    from jobtop.tui.dialogs.confirm import Confirm

    number = [Span(f"{run.workflow.id}.{run.run_id}  ", Tone.GREY)]
    lines = [Paragraph(fitted(run.workflow.name, LABEL_CELLS).rstrip(), Tone.TEXT, number, bold=True)]
    if names:
        more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
        shown = ", ".join(safe_text(name)[:LABEL_CELLS] for name in names[:MOST_NAMED])
        lines += [BLANK, Paragraph(f"{number_of(len(names), 'job')}: {shown}{more}")]
    return Confirm(title, [*lines, BLANK, Paragraph(meaning, Tone.GREY)], yes, "No")
