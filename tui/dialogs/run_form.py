"""The form that runs a job: its fields are checked one by one, and the job is started in a thread."""

from __future__ import annotations

import asyncio
import os
import shlex
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.message import Message
from textual.suggester import SuggestFromList
from textual.widgets import Input

from jobtop.core.errors import EngineError, JobtopError, StoreError
from jobtop.core.model import Status
from jobtop.core.redact import HIDDEN
from jobtop.core.units import format_bytes
from jobtop.lifecycle.containers.images import PullSum, local_images
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
    from jobtop.core.measure.collectors.docker.model import PullStep
    from jobtop.tui.app import Console

PAST = 500
LONGEST = 1000
MOST_NAMED = 3  # local images in the empty field
ENFORCE, ENFORCED = "enforce CPU and memory limits", "CPU and memory limits always hold in a container"
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


class ImageLine(LineInput):
    """The image field; it completes the local images of Docker and Podman."""

    def __init__(self) -> None:
        super().__init__(placeholder="runs in a container, e.g. python:3.12")

    def offer(self, names: Sequence[str]) -> None:
        self.suggester = SuggestFromList(names, case_sensitive=True)
        if names:
            self.placeholder = f"runs in a container, e.g. {', '.join(names[:MOST_NAMED])}"


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

    class ImagesRead(Message):
        """The local images were read."""

        def __init__(self, names: Sequence[str]) -> None:
            super().__init__()
            self.names = names

    class Pulling(Message):
        """An image is being pulled; the words say how far it is."""

        def __init__(self, words: str) -> None:
            super().__init__()
            self.words = words

    def __init__(self, filled: Filled | None = None) -> None:
        super().__init__()
        self._has_left = threading.Event()
        self._has_asked_for_images = False
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
        yield FormField("cwd", "Directory", LineInput(shown_directory()))
        yield FormField("image", "Image", ImageLine(), "-last")
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
        yield Tick(ENFORCE, id="enforce", classes="-last")
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

    def on_descendant_focus(self, message: events.DescendantFocus) -> None:
        """Read the local images when their field is reached: most forms are used without it."""
        if isinstance(message.widget, ImageLine) and not self._has_asked_for_images:
            self._has_asked_for_images = True
            threading.Thread(target=self._read_images, name="jobtop-images", daemon=True).start()

    def _read_images(self) -> None:
        """In a thread that nothing waits for, since an engine may hang."""
        names = [name for name in local_images(os.environ) if name == safe_text(name) and len(name) <= LONGEST]
        self.post_message(self.ImagesRead(names))

    def on_run_form_images_read(self, message: ImagesRead) -> None:
        self.query_one(ImageLine).offer(message.names)

    def on_run_form_pulling(self, message: Pulling) -> None:
        self.query_one("#image", FormField).note = message.words

    def on_unmount(self) -> None:
        self._has_left.set()

    def on_input_changed(self, message: Input.Changed) -> None:
        """Switch the shell on for an earlier shell command; say it if the command needs a terminal of its own."""
        if isinstance(message.input, ImageLine):
            tick = self.query_one("#enforce", Tick)
            tick.title = ENFORCED if message.value.strip() else ENFORCE
            tick.repaint()
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

    def _begin_pull(self) -> Callable[[PullStep], None]:
        """Say how far the pull is; called in a thread. A form that is closed ends it, and no job starts."""
        pulled = PullSum()

        def show(step: PullStep) -> None:
            if self._has_left.is_set():
                raise EngineError("the form was closed")
            size = pulled.take(step)
            words = step.text if size is None else f"{format_bytes(size[0])} of {format_bytes(size[1])}"
            self.post_message(self.Pulling(f"pulling: {safe_text(words)}"))

        self.post_message(self.Pulling("pulling …"))
        return show

    async def _run(self, new_job: NewJob) -> dict[str, str]:
        try:
            job, warnings = await asyncio.to_thread(
                start, self.console.options, new_job, self._begin_pull, lambda: not self._has_left.is_set()
            )
        except EngineError as error:
            return {"image": str(error)}
        except (JobtopError, OSError) as error:
            return {"command": str(error)}
        finally:
            for field in self.query("#image").results(FormField):  # none if the form was closed meanwhile
                field.note = ""
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
        if line and HIDDEN not in line and line == safe_text(line) and len(line) <= LONGEST:
            lines.setdefault(line, is_shell)
    return list(lines.items())
