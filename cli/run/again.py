"""`jobtop rerun ID` and `run --like ID`: the request of an earlier job, with changes."""

from __future__ import annotations

import os
import shlex

from jobtop.cli.app import App
from jobtop.cli.run.options import CONTAINER_KEYS
from jobtop.core.errors import BadValue, UsageError
from jobtop.core.model import Limits
from jobtop.core.record import replace
from jobtop.core.redact import redact_command
from jobtop.core.run.changed_command import is_shell_line, parameter_value, replace_arguments, with_parameter
from jobtop.core.run.request import Request, default_name, script_of, typed
from jobtop.lifecycle.start import request_again, spec_of
from jobtop.lifecycle.tools import handed_params, with_changed_params

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from jobtop.core.model import Job

LIMITS = {
    "cpus": "cpus",
    "memory": "memory_bytes",
    "runtime": "runtime_seconds",
    "gpus": "gpus",
    "timeout": "timeout_seconds",
    "pids": "pids",
}


def request_like(app: App, words: tuple[str, ...], options: dict[str, Any]) -> Request:
    """The request of the job that --like names, changed by the options and by the words after the options.

    The words are the new command, or, for `rerun`, the new arguments of the same program.
    """
    reference = options["like"]
    if words and words[0].startswith("-") and not options.get("keeps_program"):
        remedy = f"jobtop rerun {shlex.quote(reference)} -- {shlex.join(words)}"
        raise UsageError(f'"{words[0]}" is not a program; to replace only the arguments: {remedy}')
    job = app.jobs().find(reference)
    app.close()  # the new job opens the store again
    request = request_again(app.paths, job)
    before = request.command
    if words and options.get("keeps_program"):
        request = replace(request, command=new_arguments(job, before, words), script=None)
    elif words:
        request = with_command(request, ("/bin/sh", "-c", " ".join(words)) if options["shell"] else words)
    request = with_options(app, request, options)
    given = dict(options["param"])
    if words:
        request = replace(request, params=params_of(before, request) | {key: typed(given[key]) for key in given})
    else:
        request = with_params(app, request, given)
    check(request)
    keep_sampling(app, job, options)
    if request.command != before and not options.get("quiet"):
        shown = redact_command(list(request.command), app.config.texts("run.redact"))
        app.warn(f"the command is now: {shlex.join(shown)}")
    return request


def new_arguments(job: Job, command: tuple[str, ...], arguments: tuple[str, ...]) -> tuple[str, ...]:
    """The command with new arguments; UsageError for a shell command line, which has none."""
    if not command:  # an image's own
        return arguments
    if is_shell_line(command):
        line = f"jobtop run --like {job.id[:8]} --shell -- 'NEW LINE'"
        raise UsageError(f"job {job.id[:8]} is a shell command line, which has no arguments to replace: {line}")
    return replace_arguments(command, arguments)


def with_command(request: Request, command: tuple[str, ...]) -> Request:
    """The request with another command; a name and a tool that followed from the old command follow from the new."""
    before = request.command or command
    is_default = request.name == default_name(before, script_of(before), is_shell_line(before))
    return replace(
        request,
        command=command,
        script=None,
        name=default_name(command, script_of(command), is_shell_line(command)) if is_default else request.name,
        tool=None if request.tool == os.path.basename(before[0]) else request.tool,
    )


def with_options(app: App, request: Request, options: dict[str, Any]) -> Request:
    """The request, changed by the options that were given."""
    from jobtop.cli.run.launch import working_directory

    limits = {field: options[key] for key, field in LIMITS.items() if options[key] is not None}
    cwd = working_directory(options["cwd"]) if options["cwd"] is not None else request.cwd
    container = request.container
    if container is not None:
        from jobtop.cli.run.containers import changed_order

        container = changed_order(app, container, options, cwd)
        limits["enforced"] = any(
            limits.get(field, getattr(request.limits, field)) for field in ("memory_bytes", "cpus", "pids")
        )
    else:
        refuse_container_options(options)
        limits["enforced"] = request.limits.enforced or options["enforce"]
    texts = ("name", "tool", "note", "external_id", "after_exit", "nice", "ionice")
    return replace(
        request,
        **{key: options[key] for key in texts if options[key] is not None},
        cwd=cwd,
        env=dict(options["env"]) if container is None else {},
        container=container,
        tags=request.tags | dict(options["tag"]),
        parent_id=app.environ.get("JOBTOP_JOB_ID"),
        limits=replace(request.limits, **limits),
        grace_seconds=options["grace"] if options["grace"] is not None else request.grace_seconds,
        pty=bool(options["pty"]) and not options["detach"],
        detached=bool(options["detach"]),
    )


def refuse_container_options(options: dict[str, Any]) -> None:
    """Raise BadValue for options of containers: the earlier job was a command on this host."""
    for key in ("image", *CONTAINER_KEYS):
        if options.get(key):
            raise BadValue(f"--{key}: that job ran no container; give --image IMAGE and the command to a new run")


def with_params(app: App, request: Request, given: dict[str, str]) -> Request:
    """The request with other parameters, in the record and, where the command line has them, in the command."""
    if given and (handed := handed_params(request)) is not None:
        return with_params_of_tool(app, request, handed, given)
    command = request.command
    for name, value in given.items():
        changed = with_parameter(command, name, value)
        if changed is None:
            app.warn(
                f"the command has no {name}: it is only recorded as a parameter (-- ARGUMENT… changes the command)"
            )
        command = changed or command
    typed_values = {name: typed(value) for name, value in given.items()}
    return replace(request, command=command, params=request.params | typed_values)


def with_params_of_tool(app: App, request: Request, handed: dict[str, Any], given: dict[str, str]) -> Request:
    """The request of a job that a tool ran, with other parameters: they are in its environment."""
    from jobtop.core.run.tools import find_tool

    changes = {name: typed(value) for name, value in given.items()}
    tool = find_tool(app.config, request.tool or "", app.environ)
    request = with_changed_params(request, tool, handed | changes)
    return replace(request, params=request.params | changes)


def params_of(before: tuple[str, ...], request: Request) -> dict[str, Any]:
    """The recorded parameters, as the new command gives them; without those that only the old command had."""
    params: dict[str, Any] = {}
    for name, value in request.params.items():
        now = parameter_value(request.command, name)
        if now is not None:
            params[name] = typed(now)
        elif parameter_value(before, name) is None:
            params[name] = value
    return params


def check(request: Request) -> None:
    """Raise BadValue if the request cannot work."""
    if not os.path.isdir(request.cwd):
        raise BadValue(f"the directory of that job does not exist any more: {request.cwd} (give --cwd DIR)")
    limits: Limits = request.limits
    if limits.enforced and not (limits.memory_bytes or limits.cpus):
        raise BadValue("--enforce: there is nothing to enforce; give --memory SIZE, --cpus N or both")


def keep_sampling(app: App, job: Job, options: dict[str, Any]) -> None:
    """Sample as the earlier job was sampled, unless the options say otherwise."""
    spec = spec_of(app.paths, job)
    sets = []
    if spec.interval_seconds is not None and options["interval"] is None:
        sets.append(f"monitor.interval={spec.interval_seconds}")
    if not spec.is_watched and options["interval"] is None:
        sets.append("monitor.enabled=false")
    app.add_settings(sets)
