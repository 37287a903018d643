"""The values of the run form: as texts from an earlier job, and from texts to the job that is to be run."""

from __future__ import annotations

import os
import re
import shlex
import time
from collections.abc import Callable, Mapping
from typing import Any

from jobtop.core.config import interval
from jobtop.core.errors import BadValue
from jobtop.core.job_id import JobId
from jobtop.core.model import Job
from jobtop.core.paths import StatePaths
from jobtop.core.query.conditions import tag_text
from jobtop.core.query.moments import parse_moment
from jobtop.core.record import record, replace
from jobtop.core.redact import HIDDEN
from jobtop.core.run.containers.order import ContainerOrder
from jobtop.core.run.interactive import takes_over_terminal
from jobtop.core.run.request import (
    Request,
    count,
    cpus,
    default_name,
    group_name,
    image_name,
    pairs,
    script_of,
    tags,
    typed,
    whole_number,
)
from jobtop.core.units import parse_duration, parse_size
from jobtop.lifecycle.start import kept_spec, request_again
from jobtop.lifecycle.submit import QueueOptions
from jobtop.lifecycle.tools import handed_params, with_changed_params
from jobtop.tui.data.operations import NewJob
from jobtop.tui.widgets.cells import safe_text

SHELL = ("/bin/sh", "-c")
CONTAINER = "container"  # the kind of job in a container of its own
OPERATORS = "|&;<>"
QUEUE = ("group", "priority", "at", "retries", "after")
LINE_BREAKS = "it has line breaks or control characters: run it unchanged, or type another command"
# Variables that belong to a terminal or a login, or that jobtop sets: they stay as they were and are not shown.
UNSHOWN_VARIABLES = frozenset(
    "_ SHLVL PWD OLDPWD COLUMNS LINES TERM COLORTERM NO_COLOR LS_COLORS PS1 WINDOWID TMUX TMUX_PANE STY GPG_TTY DISPLAY"
    " WAYLAND_DISPLAY DBUS_SESSION_BUS_ADDRESS INVOCATION_ID JOURNAL_STREAM PAGER GIT_PAGER SYSTEMD_PAGER MANPAGER"
    " PYTHONUNBUFFERED JOBTOP_JOB_ID JOBTOP_PARAMS".split()
)
UNSHOWN_PREFIXES = ("SSH_", "XDG_SESSION_", "VTE_", "TERM_PROGRAM", "KONSOLE_", "ITERM_", "LC_TERMINAL")


@record
class Filled:
    """The form of an earlier job: its request, and the texts and ticks that stand for it.

    `defaults` are names that follow from the command, shown as placeholders; `notes` say what could not be filled in.
    """

    request: Request
    texts: Mapping[str, str]
    ticks: Mapping[str, bool]
    defaults: Mapping[str, str]
    notes: Mapping[str, str]

    @property
    def is_shell(self) -> bool:
        return self.ticks["shell"]

    @property
    def command(self) -> tuple[str, ...]:
        """The command as the form reads it: for a shell, the line as one word."""
        return self.request.command[2:] if self.is_shell else self.request.command


def filled_form(paths: StatePaths, job: Job, environ: Mapping[str, str]) -> Filled:
    """The form of an earlier job, from its exact command and environment; UsageError if these are not kept."""
    request = request_again(paths, job)
    spec = kept_spec(paths, JobId(job.id))
    is_shell = request.command[:2] == SHELL and len(request.command) == 3
    line = request.command[2] if is_shell else shlex.join(request.command)
    order = request.container
    named = request.command or (image_name(order.image if order is not None else ""),)  # an image has its own command
    usual = {"name": default_name(named, script_of(named), is_shell), "tool": os.path.basename(named[0])}
    shown = shown_environment(request.environment, environ) if order is None else shown_environment(order.env, {})
    limits, queue = job.limits, job.queue
    hidden = [key for key, value in job.params.items() if HIDDEN in str(value)]
    texts = {
        "command": safe_text(line),
        "name": "" if job.name == usual["name"] else safe_text(job.name),
        "tool": "" if job.tool in (None, usual["tool"]) else safe_text(str(job.tool)),
        "cwd": safe_text(request.cwd),
        "image": "" if order is None else safe_text(order.image),
        "env": "\n".join(f"{key}={value}" for key, value in shown.items() if is_readable_pair(key, value)),
        "params": pairs_text({key: value for key, value in job.params.items() if key not in hidden}),
        "tags": ", ".join(tag_text(key, value) for key, value in job.tags.items() if is_readable_tag(key, value)),
        "cpus": "" if limits.cpus is None else f"{limits.cpus:g}",
        "memory": size_text(limits.memory_bytes),
        "runtime": duration_text(limits.runtime_seconds),
        "timeout": duration_text(limits.timeout_seconds),
        "gpus": "" if limits.gpus is None else str(limits.gpus),
        "interval": duration_text(spec.interval_seconds if spec is not None else None),
        "group": "" if queue is None else queue.group or "",
        "priority": str(queue.priority) if queue is not None and queue.priority else "",
    }
    ticks = {"shell": is_shell, "enforce": limits.enforced, "queue": queue is not None}
    notes = {"params": f"{', '.join(map(safe_text, hidden))}: the value was secret, type it again"} if hidden else {}
    return Filled(request, texts, ticks, {key: safe_text(value) for key, value in usual.items()}, notes)


def shown_environment(environment: Mapping[str, str] | None, ours: Mapping[str, str]) -> dict[str, str]:
    """The variables of a job that differ from our own, without those of a terminal or login."""
    return {
        key: value
        for key, value in sorted((environment or {}).items())
        if ours.get(key) != value
        and key not in UNSHOWN_VARIABLES
        and not key.startswith(UNSHOWN_PREFIXES)
        and is_readable_pair(key, value)
    }


def is_readable_pair(key: str, value: object) -> bool:
    """Whether a text field can hold KEY=VALUE, and reads the same back."""
    text = f"{key}={value}"
    return text == safe_text(text) and text.strip(" \t,") == text and pairs(text) == {key: str(value)}


def is_readable_tag(key: str, value: str) -> bool:
    """Whether a text field can hold a tag, and reads the same back."""
    text = tag_text(key, value)
    return text == safe_text(text) and text.strip(" \t,") == text and tags(f"{text}, x") == {key: value, "x": ""}


def pairs_text(values: Mapping[str, object]) -> str:
    return ", ".join(f"{key}={value_text(value)}" for key, value in values.items() if is_shown_value(key, value))


def value_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def is_shown_value(key: str, value: object) -> bool:
    return is_readable_pair(key, value_text(value)) and (isinstance(value, str) or typed(value_text(value)) == value)


def size_text(size: int | None) -> str:
    """A size as `parse_size` reads it, exactly: `8G`, `512M`, `1000`."""
    if size is None:
        return ""
    for unit, factor in (("T", 2**40), ("G", 2**30), ("M", 2**20), ("K", 2**10)):
        if size and size % factor == 0:
            return f"{size // factor}{unit}"
    return str(size)


def duration_text(seconds: float | None) -> str:
    """A duration as `parse_duration` reads it, exactly: `1h30m`, `0.5s`."""
    if seconds is None:
        return ""
    if seconds != int(seconds) or seconds == 0:
        return f"{seconds!r}s"
    rest, parts = int(seconds), ""
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        number, rest = divmod(rest, length)
        parts += f"{number}{unit}" if number else ""
    return parts


def read_form(
    texts: Mapping[str, str], ticks: Mapping[str, bool], filled: Filled | None = None
) -> tuple[NewJob | None, dict[str, str]]:
    """The job that the fields describe, or None and the problem of each wrong field.

    If an earlier job filled them in, all that the fields do not show stays as it was.
    """
    is_shell, is_queued, is_enforced = (ticks.get(key, False) for key in ("shell", "queue", "enforce"))
    has_image = bool(texts.get("image", "").strip())
    readers: dict[str, Callable[[str], Any]] = {
        "command": lambda text: () if has_image and not text else changed_command(text, is_shell, filled),
        "image": image_reference,
        "cwd": lambda text: directory(exact_text("cwd", text, filled)),
        "name": lambda text: exact_text("name", text, filled),
        "tool": lambda text: exact_text("tool", text, filled),
        "env": pairs,
        "params": pairs,
        "tags": tags,
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
        problems["memory"] = "Give CPUs, memory or both to enforce"
    if problems:
        return None, problems
    request = make_request(values, is_shell and bool(values["command"]), is_enforced, filled)
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


def exact_text(key: str, text: str, filled: Filled | None) -> str:
    """The text of a field; if it is unchanged, the value that filled it in, which may have control characters."""
    before = str(getattr(filled.request, key)) if filled is not None else text
    return before if filled is not None and text == filled.texts[key].strip() else text


def make_request(values: Mapping[str, Any], is_shell: bool, is_enforced: bool, filled: Filled | None) -> Request:
    """The request for the values of the fields."""
    base = filled.request if filled is not None else Request((), "")
    params = {key: typed(value) for key, value in (values["params"] or {}).items()}
    given_tags, env, environment = values["tags"] or {}, values["env"] or {}, base.environment
    container = changed_container(base.container, values, env, filled)
    if filled is not None:
        unshown = {key: value for key, value in base.params.items() if not is_shown_value(key, value)}
        params = {key: value for key, value in unshown.items() if HIDDEN not in str(value)} | params
        given_tags = {key: value for key, value in base.tags.items() if not is_readable_tag(key, value)} | given_tags
        environment = without_removed(environment or {}, pairs(filled.texts["env"]), env, os.environ)
    if (container is None) != (base.container is None):
        environment = None
    limits = replace(
        base.limits,
        cpus=values["cpus"],
        memory_bytes=values["memory"],
        runtime_seconds=values["runtime"],
        gpus=values["gpus"],
        timeout_seconds=values["timeout"] or None,
    )
    is_held = is_enforced if container is None else bool(limits.cpus or limits.memory_bytes or limits.pids)
    request = replace(
        base,
        command=values["command"],
        script=base.script if values["command"] == base.command else None,
        cwd=values["cwd"],
        is_shell=is_shell,
        name=values["name"],
        tool=values["tool"],
        kind=changed_kind(base, container),
        container=container,
        env=env if container is None else {},
        environment=environment,
        params=params,
        tags=given_tags,
        limits=replace(limits, enforced=is_held),
    )
    handed = None if filled is None else handed_params(request)
    if handed is None or params == base.params:
        return request
    secret = {key: value for key, value in handed.items() if HIDDEN in str(base.params.get(key))}
    return with_changed_params(request, None, secret | params)


def changed_kind(base: Request, container: ContainerOrder | None) -> str:
    if container is not None:
        return CONTAINER
    return "process" if base.kind == CONTAINER else base.kind


def changed_container(
    order: ContainerOrder | None, values: Mapping[str, Any], env: dict[str, str], filled: Filled | None
) -> ContainerOrder | None:
    """The container of the job; of an earlier job, what the fields do not show stays as it was."""
    if not values.get("image"):
        return None
    if order is None or filled is None:
        return ContainerOrder(values["image"], env=env, gpus=values["gpus"])
    shown = shown_environment(order.env, {})
    unshown = {key: value for key, value in (order.env or {}).items() if key not in shown}
    return replace(order, image=values["image"], env=unshown | env, gpus=values["gpus"])


def image_reference(text: str) -> str:
    """The name of an image, with a tag or a digest."""
    if not re.fullmatch(r"[A-Za-z0-9][\w./:@+-]*", text, re.ASCII):
        raise BadValue(f'"{safe_text(text[:40])}" is not the name of an image, such as python:3.12')
    return text


def without_removed(
    environment: Mapping[str, str], shown: Mapping[str, str], wanted: Mapping[str, str], ours: Mapping[str, str]
) -> dict[str, str]:
    """The environment in which variables that the user removed from the form have our own values, or none."""
    removed = [key for key in shown if key not in wanted]
    kept = {key: value for key, value in environment.items() if key not in removed}
    return kept | {key: ours[key] for key in removed if key in ours}


def changed_command(text: str, is_shell: bool, filled: Filled | None) -> tuple[str, ...]:
    """The words of the command; an unchanged line is the command that filled it in, which may have line breaks."""
    if filled is not None and is_shell == filled.is_shell:
        if text == filled.texts["command"].strip():
            return filled.command
        if any(word != safe_text(word) for word in filled.command) and "\\" in text:
            raise BadValue(LINE_BREAKS)
    return command_words(text, is_shell)


def command_words(text: str, is_shell: bool) -> tuple[str, ...]:
    """The words of a command line; for a shell, the line as one word."""
    if not text:
        raise BadValue("No command given; only an image has its own")
    if is_shell:
        return (text,)
    try:
        words = tuple(shlex.split(text))
        lexer = shlex.shlex(text, posix=False, punctuation_chars=OPERATORS)
        operators = [word for word in lexer if not word.strip(OPERATORS)]
    except ValueError:
        raise BadValue("A quote is not closed") from None
    if operators:
        raise BadValue(f"{operators[0]} needs a shell: switch it on below, or quote the {operators[0]}")
    return words


def terminal_note(text: str) -> str:
    """Where to run a command that takes over the terminal; empty for other commands."""
    try:
        words = shlex.split(text)
    except ValueError:
        return ""
    if not takes_over_terminal(words):
        return ""
    return f"{words[0]} needs the whole terminal. Leave the console and type: jobtop run -- {text.strip()}"


def directory(text: str) -> str:
    """The directory to run in."""
    path = os.path.abspath(os.path.expanduser(text or current_directory()))
    if not os.path.isdir(path):
        raise BadValue("There is no such directory")
    return path


def current_directory() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:  # it was removed
        return "/"
