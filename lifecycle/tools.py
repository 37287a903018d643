"""The request to run a script with a tool of the configuration: `run --tool`, `submit --tool` and TaskPipeline."""

from __future__ import annotations

import json
import os

from jobtop.core.errors import BadValue, UsageError
from jobtop.core.record import replace
from jobtop.core.run.containers.order import ContainerOrder
from jobtop.core.run.request import script_of
from jobtop.core.run.tools import VARIABLE, params_text, tool_command
from jobtop.core.units import printable
from jobtop.lifecycle.containers.settings import volume

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from jobtop.core.run.request import Request
    from jobtop.core.run.tools import Tool


def with_tool(
    request: Request, tool: Tool, script: str, environ: Mapping[str, str], is_forced: bool = False
) -> Request:
    """Return the request with the command of a tool, or its container, and with the parameters in its environment.

    An image and options of the container that the request has already are kept. UsageError if there is no such script,
    unless the request is forced.
    """
    is_container = request.container is not None or tool.image is not None
    if not is_forced:
        refuse_missing_script(tool, script, request.cwd, is_container)
    command = tool_command(tool, script, request.params)
    handed = {VARIABLE: params_text(request.params)}
    request = replace(request, command=command, tool=tool.name, script=script)
    if not is_container:
        return replace(request, env=handed | request.env)
    order = request.container or ContainerOrder(image=str(tool.image), gpus=request.limits.gpus)
    volumes = (*(volume(text, request.cwd, environ) for text in tool.volumes), *order.volumes)
    order = replace(
        order,
        volumes=(*volumes, *missing_mounts(request.cwd, script, volumes)),
        workdir=order.workdir or request.cwd,
        env=handed | request.env | (order.env or {}),
    )
    limits = request.limits
    holds = bool(limits.memory_bytes or limits.cpus or limits.pids)  # the engine enforces them
    return replace(request, kind="container", container=order, env={}, limits=replace(limits, enforced=holds))


def missing_mounts(cwd: str, script: str, volumes: tuple[str, ...]) -> list[str]:
    """The volumes that put the working directory, and a script outside it, at the same paths in the container."""
    targets = [text.split(":")[1] for text in volumes]
    mounts = [] if is_within(cwd, targets) else [f"{cwd}:{cwd}"]
    directory = os.path.dirname(script)
    is_here = os.path.isabs(script) and os.path.exists(script)
    if is_here and not is_within(directory, [cwd, *targets]):
        mounts.append(f"{directory}:{directory}:ro")
    return mounts


def is_within(path: str, directories: list[str]) -> bool:
    return any(path == directory or path.startswith(directory.rstrip("/") + "/") for directory in directories)


def refuse_missing_script(tool: Tool, script: str, cwd: str, is_container: bool) -> None:
    """Raise UsageError if a script does not exist; an absolute path may also be one of the image."""
    if os.path.lexists(os.path.join(cwd, script)) or (is_container and os.path.isabs(script)):
        return
    shown, name = printable(script), printable(tool.name)
    why = f'"{shown}" is not a file in {printable(cwd)}, and the tool "{name}" needs a script'
    raise UsageError(f"{why} (for a command: --tool {name} -- COMMAND)")


def handed_params(request: Request) -> dict[str, Any] | None:
    """The parameters in the environment of a job that a tool ran, secrets too; None for any other job."""
    container = request.container
    env = (request.environment or {}) | request.env if container is None else container.env or {}
    try:
        found = json.loads(env[VARIABLE])
    except (KeyError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def with_changed_params(request: Request, tool: Tool | None, params: Mapping[str, Any]) -> Request:
    """Return the request of an earlier job of a tool with these parameters in its environment.

    Its command has them too, if the tool still makes the command of the earlier job from the parameters of then.
    """
    before = handed_params(request)
    if before is None:
        return request
    script = request.script or script_of(request.command or ("",))
    if tool is not None and script is not None and _makes(tool, script, before) == request.command:
        request = replace(request, command=tool_command(tool, script, params), script=script)
    handed = {VARIABLE: params_text(params)}
    if request.container is None:
        return replace(request, env=request.env | handed)
    return replace(request, container=replace(request.container, env=(request.container.env or {}) | handed))


def _makes(tool: Tool, script: str, params: Mapping[str, Any]) -> tuple[str, ...] | None:
    try:
        return tool_command(tool, script, params)
    except BadValue:  # the tool needs another parameter by now
        return None
