"""The form that runs a job: its fields are checked one by one, and the job is started in a thread."""

from __future__ import annotations

import asyncio
import os
import shlex
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.suggester import SuggestFromList
from textual.widgets import Input

from jobtop.core.config import interval
from jobtop.core.errors import BadValue, JobtopError, StoreError
from jobtop.core.model import Limits, Status
from jobtop.core.query.moments import parse_moment
from jobtop.core.redact import HIDDEN
from jobtop.core.run.request import Request, count, cpus, group_name, pairs, typed, whole_number
from jobtop.core.units import parse_duration, parse_size
from jobtop.lifecycle.submit import QueueOptions
from jobtop.store.database import Database
from jobtop.store.jobs import Jobs, Query
from jobtop.tui.actions import COMMAND, FORM, bindings
from jobtop.tui.data.operations import NewJob, start
from jobtop.tui.dialogs.dialog import Dialog, KeyButton
from jobtop.tui.dialogs.fields import FormField, LineInput, LinesInput, Tick, focus_first_problem
from jobtop.tui.widgets.cells import safe_text
from jobtop.tui.workers import start_work

if TYPE_CHECKING:
    from jobtop.tui.app import Console

SHELL = ("/bin/sh", "-c")
PAST = 500
LONGEST = 1000
OPERATORS = "|&;<>"
QUEUE = ("group", "priority", "at", "retries", "after")
TALL = 22  # rows from which groups of fields are separated


class CommandLine(LineInput):
    """The command field; it completes earlier commands, and up and down step through them."""

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
        fitting = [line for line in self.past if line.startswith(self._typed) and line != self._typed]
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
    title_words = "Run a job"

    def __init__(self) -> None:
        super().__init__()
        self.shell_lines: frozenset[str] = frozenset()
        self._is_starting = False

    def parts(self) -> ComposeResult:
        self._fit()
        yield FormField("command", "Command", CommandLine())
        yield Tick("shell: for pipes, variables, *", id="shell", classes="-last")
        with Horizontal(classes="pair"):
            yield FormField("name", "Name", LineInput(placeholder="the script's"))
            yield FormField("tool", "Tool", LineInput(placeholder="the program"), "-second")
        yield FormField("cwd", "Directory", LineInput(shown_directory()), "-last")
        yield FormField("env", "Environment", LinesInput("KEY=VALUE, a line each or with commas"))
        yield FormField("params", "Parameters", LineInput(placeholder="e.g. lr=0.1, epochs=3"))
        yield FormField("tags", "Tags", LineInput(placeholder="e.g. project=ocr"), "-last")
        with Horizontal(classes="pair"):
            yield FormField("cpus", "CPUs", LineInput(placeholder="e.g. 4"))
            yield FormField("memory", "Memory", LineInput(placeholder="e.g. 8G"), "-second")
        with Horizontal(classes="pair"):
            yield FormField("runtime", "Time", LineInput(placeholder="e.g. 1h30m"))
            yield FormField("timeout", "Stop after", LineInput(placeholder="never"), "-second")
        yield FormField("gpus", "GPUs", LineInput(placeholder="e.g. 1"))
        yield Tick("CPUs and memory hold: who takes more is stopped", id="enforce", classes="-last")
        yield FormField("interval", "Interval", LineInput(placeholder="between samples, e.g. 5s"), "-last")
        yield Tick("wait in the queue for its turn", id="queue")
        with Horizontal(classes="pair -queue"):
            yield FormField("group", "Group", LineInput(placeholder="with slots of its own"))
            yield FormField("priority", "Priority", LineInput(placeholder="0"), "-second")
        with Horizontal(classes="pair -queue"):
            yield FormField("at", "Not before", LineInput(placeholder="e.g. 22:00"))
            yield FormField("retries", "Retries", LineInput(placeholder="0"), "-second")
        yield FormField("after", "After", LineInput(placeholder="ids of jobs that have to succeed first"), "-queue")

    def keys(self) -> Iterable[KeyButton]:
        yield KeyButton("form.submit", "Run")
        yield KeyButton("form.leave")

    def on_mount(self) -> None:
        self.query_one(CommandLine).focus()
        start_work(self, self._offer_past_commands)

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
        """Switch the shell on if the typed line is an earlier shell command."""
        if message.value in self.shell_lines and isinstance(message.input, CommandLine):
            self.query_one("#shell", Tick).value = True

    def on_tick_switched(self) -> None:
        """Check the command again, and show the fields of the queue only if the job is to be queued."""
        self.query_one("#command", FormField).problem = ""
        self.set_class(self.query_one("#queue", Tick).value, "-queued")

    def on_input_submitted(self) -> None:
        self.focus_next()

    def action_submit(self) -> None:
        if not self._is_starting:
            self._is_starting = True
            start_work(self, self._start)

    async def _start(self) -> None:
        """Start the job, or show at each field what is wrong with it."""
        try:
            texts = {str(field.id): field.value for field in self.query(FormField)}
            ticks = {str(tick.id): tick.value for tick in self.query(Tick)}
            new_job, problems = await asyncio.to_thread(read_form, texts, ticks)
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
            return {"command": job.reason or "it could not be started"}
        _ = self.dismiss(None)
        self.app.call_later(self.console.select_job, job.id)
        return {}


def read_form(texts: Mapping[str, str], ticks: Mapping[str, bool]) -> tuple[NewJob | None, dict[str, str]]:
    """The job that the fields describe, or None and the problem of each wrong field."""
    is_shell, is_queued, is_enforced = (ticks.get(key, False) for key in ("shell", "queue", "enforce"))
    readers: dict[str, Callable[[str], Any]] = {
        "command": lambda text: command_words(text, is_shell),
        "cwd": directory,
        "env": pairs,
        "params": pairs,
        "tags": pairs,
        "cpus": cpus,
        "memory": parse_size,
        "runtime": parse_duration,
        "timeout": parse_duration,
        "gpus": count,
        "interval": interval,
        "group": group_name,
        "priority": whole_number,
        "retries": count,
        "at": lambda text: parse_moment(text, time.time()),
        "after": str.split,
    }
    if not is_queued:
        texts = {key: text for key, text in texts.items() if key not in QUEUE}
    values: dict[str, Any] = {}
    problems: dict[str, str] = {}
    for key, text in texts.items():
        words = text.strip()
        try:
            values[key] = readers.get(key, str)(words) if words or key in ("command", "cwd") else None
        except BadValue as error:
            problems[key] = str(error)
    if is_enforced and not problems and values["cpus"] is None and values["memory"] is None:
        problems["memory"] = "what is to hold? CPUs, memory, or both"
    if problems:
        return None, problems
    request = Request(
        command=values["command"],
        cwd=values["cwd"],
        is_shell=is_shell,
        name=values["name"],
        tool=values["tool"],
        env=values["env"] or {},
        params={key: typed(value) for key, value in (values["params"] or {}).items()},
        tags=values["tags"] or {},
        limits=Limits(
            values["cpus"], values["memory"], values["runtime"], values["gpus"], values["timeout"] or None, is_enforced
        ),
    )
    queue_options = None
    if is_queued:
        queue_options = QueueOptions(
            after=values["after"] or (),
            priority=values["priority"] or 0,
            group=values["group"],
            not_before=values["at"],
            retries=values["retries"] or 0,
        )
    return NewJob(request, values["interval"], queue_options), {}


def command_words(text: str, is_shell: bool) -> tuple[str, ...]:
    """The words of a command line; for a shell, the line as one word."""
    if not text:
        raise BadValue("what is to be run?")
    if is_shell:
        return (text,)
    try:
        words = tuple(shlex.split(text))
        lexer = shlex.shlex(text, posix=False, punctuation_chars=OPERATORS)
        operators = [word for word in lexer if not word.strip(OPERATORS)]
    except ValueError:
        raise BadValue("a quote in it is not closed") from None
    if operators:
        raise BadValue(f"{operators[0]} is for a shell: switch that on below, or quote it")
    return words


def directory(text: str) -> str:
    """The directory to run in."""
    path = os.path.abspath(os.path.expanduser(text or current_directory()))
    if not os.path.isdir(path):
        raise BadValue("there is no such directory")
    return path


def current_directory() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:  # it was removed
        return "/"


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
