"""The form that runs a job: its fields are checked one by one, and the job is started in a thread."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.suggester import SuggestFromList
from textual.widgets import Input

from jobtop.core.errors import JobtopError, StoreError
from jobtop.core.model import Status
from jobtop.core.redact import HIDDEN
from jobtop.store.database import Database
from jobtop.store.jobs import Jobs, Query
from jobtop.tui.actions import COMMAND, FORM, bindings
from jobtop.tui.data.operations import NewJob, start
from jobtop.tui.dialogs.dialog import Dialog, KeyButton, KeyHint
from jobtop.tui.dialogs.fields import FormField, LineInput, LinesInput, Tick, focus_first_problem
from jobtop.tui.dialogs.form_values import SHELL, Filled, current_directory, read_form, terminal_note
from jobtop.tui.widgets.cells import safe_text
from jobtop.tui.workers import start_work

if TYPE_CHECKING:
    from jobtop.tui.app import Console

PAST = 500
LONGEST = 1000
TALL = 22  # rows from which groups of fields are separated


class CommandLine(LineInput):
    """The command field; it completes earlier commands, and up and down step through those that begin like the text."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings(COMMAND)]

    def __init__(self) -> None:
        super().__init__(placeholder="e.g. python train.py --lr 0.1")
        self.past: Sequence[str] = ()
        self._typed, self._shown, self._place = "", "", -1

    def offer(self, past: Sequence[str]) -> None:
        """Set the earlier commands, newest first."""
        self.past = past
        self.suggester = SuggestFromList(past, case_sensitive=True)

    def action_older(self) -> None:
        self._walk(1)

    def action_newer(self) -> None:
        self._walk(-1)

    def _walk(self, step: int) -> None:
        if self.value != self._shown:
            self._typed, self._place = self.value, -1
        others = [line for line in self.past if line != self._typed]
        fitting = [line for line in others if line.startswith(self._typed)] or others
        self._place = max(-1, min(self._place + step, len(fitting) - 1))
        self.value = self._shown = fitting[self._place] if self._place >= 0 else self._typed
        self.cursor_position = len(self.value)


class RunForm(Dialog[None]):
    """The form over the current screen; nothing happens until it is submitted."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings(FORM)]
    DEFAULT_CSS = """
    RunForm {
        #dialog { width: 84; }
        .pair { height: auto; }
        &.-tall .-last { margin-bottom: 1; }
        .pair FormField.-second { margin-left: 2; }
        .-queue { display: none; }
        &.-queued .-queue { display: block; }
    }
    """

    def __init__(self, filled: Filled | None = None) -> None:
        super().__init__()
        self.filled = filled
        self.title_words = "Run a job" if filled is None else "Run again with changes"
        self.shell_lines: frozenset[str] = frozenset()
        self._is_starting = False

    def parts(self) -> ComposeResult:
        self._fit()
        yield FormField("command", "Command", CommandLine())
        yield Tick("run in a shell, for pipes, variables and *", id="shell", classes="-last")
        with Horizontal(classes="pair"):
            yield FormField("name", "Name", LineInput(placeholder="from the command"))
            yield FormField("tool", "Tool", LineInput(placeholder="from the command"), "-second")
        yield FormField("cwd", "Directory", LineInput(shown_directory()), "-last")
        yield FormField("env", "Environment", LinesInput("KEY=VALUE, one per line"))
        yield FormField("params", "Parameters", LineInput(placeholder="e.g. lr=0.1, epochs=3"))
        yield FormField("tags", "Tags", LineInput(placeholder="e.g. sweep, project=ocr"), "-last")
        with Horizontal(classes="pair"):
            yield FormField("cpus", "CPUs", LineInput(placeholder="e.g. 4"))
            yield FormField("memory", "Memory", LineInput(placeholder="e.g. 8G"), "-second")
        with Horizontal(classes="pair"):
            yield FormField("runtime", "Time", LineInput(placeholder="e.g. 1h30m"))
            yield FormField("timeout", "Stop after", LineInput(placeholder="never"), "-second")
        yield FormField("gpus", "GPUs", LineInput(placeholder="e.g. 1"))
        yield Tick("enforce CPU and memory limits", id="enforce", classes="-last")
        yield FormField("interval", "Interval", LineInput(placeholder="between samples, e.g. 5s"), "-last")
        yield Tick("wait in the queue", id="queue")
        with Horizontal(classes="pair -queue"):
            yield FormField("group", "Group", LineInput(placeholder="a name"))
            yield FormField("priority", "Priority", LineInput(placeholder="0"), "-second")
        with Horizontal(classes="pair -queue"):
            yield FormField("at", "Not before", LineInput(placeholder="e.g. 22:00"))
            yield FormField("retries", "Retries", LineInput(placeholder="0"), "-second")
        yield FormField("after", "After", LineInput(placeholder="ids of jobs that must succeed first"), "-queue")

    def keys(self) -> Iterable[KeyButton | KeyHint]:
        yield KeyButton("form.submit", "Run", field_keys=("enter",))
        yield KeyButton("form.leave")
        yield KeyHint("up", "earlier commands")
        yield KeyHint("tab", "next field")

    def on_mount(self) -> None:
        if self.filled is not None:
            self._fill(self.filled)
        self.set_focus(self.query_one(CommandLine))  # at once: keys that are typed ahead are for it
        start_work(self, self._offer_past_commands)

    def _fill(self, filled: Filled) -> None:
        """Show the values of an earlier job."""
        for key, text in filled.texts.items():
            self.query_one(f"#{key}", FormField).value = text
        for key, is_on in filled.ticks.items():
            self.query_one(f"#{key}", Tick).value = is_on
        for key, text in filled.defaults.items():
            self.query_one(f"#{key} Input", Input).placeholder = text
        for key, text in filled.notes.items():
            self.call_after_refresh(setattr, self.query_one(f"#{key}", FormField), "problem", text)

    def on_resize(self) -> None:
        self._fit()

    def _fit(self) -> None:
        self.set_class(self.app.size.height >= TALL, "-tall")

    @property
    def console(self) -> Console:
        from jobtop.tui.app import Console

        assert isinstance(self.app, Console)
        return self.app

    async def _offer_past_commands(self) -> None:
        own = self.console.options.own
        if own is None:
            return
        with suppress(StoreError, OSError):  # there may be no store yet, and the screen below reports problems
            past = await self.console.reader.read(own.store, past_commands)
            self.shell_lines = frozenset(line for line, is_shell in past if is_shell)
            self.query_one(CommandLine).offer([line for line, _ in past])

    def on_input_changed(self, message: Input.Changed) -> None:
        """Switch the shell on for an earlier shell command; say it if the command needs a terminal of its own."""
        if not isinstance(message.input, CommandLine):
            return
        if message.value in self.shell_lines:
            self.query_one("#shell", Tick).value = True
        self.query_one("#command", FormField).problem = terminal_note(message.value)

    def on_tick_switched(self) -> None:
        """Check the command again, and show the fields of the queue only if the job is to be queued."""
        self.query_one("#command", FormField).problem = ""
        self.set_class(self.query_one("#queue", Tick).value, "-queued")

    def on_input_submitted(self) -> None:
        self.action_submit()

    def action_submit(self) -> None:
        if not self._is_starting:
            self._is_starting = True
            start_work(self, self._start)

    async def _start(self) -> None:
        """Start the job, or show at each field what is wrong with it."""
        try:
            texts = {str(field.id): field.value for field in self.query(FormField)}
            ticks = {str(tick.id): tick.value for tick in self.query(Tick)}
            new_job, problems = await asyncio.to_thread(read_form, texts, ticks, self.filled)
            if new_job is not None:
                problems = await self._run(new_job)
            for field in self.query(FormField):
                field.problem = problems.get(str(field.id), "")
            focus_first_problem(self)
        finally:
            self._is_starting = False

    async def _run(self, new_job: NewJob) -> dict[str, str]:
        try:
            job, warnings = await asyncio.to_thread(start, self.console.options, new_job)
        except (JobtopError, OSError) as error:
            return {"command": str(error)}
        for warning in warnings:
            self.app.notify(safe_text(warning), severity="warning", markup=False)
        if job.status is Status.ERROR:
            self.console.feed.poll_now()
            return {"command": job.reason or "The job could not be started"}
        _ = self.dismiss(None)
        self.app.call_later(self.console.select_job, job.id)
        return {}


def shown_directory() -> str:
    """The current directory if it has no control characters; an empty field means the same."""
    here = current_directory()
    return here if here == safe_text(here) else ""


def past_commands(database: Database) -> list[tuple[str, bool]]:
    """Earlier command lines, each with whether it is for a shell, newest first; redacted ones are left out."""
    lines: dict[str, bool] = {}
    for job in Jobs(database).select(Query(limit=PAST)):
        is_shell = job.command[:2] == SHELL and len(job.command) == 3
        line = job.command[2] if is_shell else shlex.join(job.command)
        if HIDDEN not in line and line == safe_text(line) and len(line) <= LONGEST:
            lines.setdefault(line, is_shell)
    return list(lines.items())
