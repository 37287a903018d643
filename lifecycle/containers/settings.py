"""What a new container is made of, from the order of its job. Pure: engines take these values, see client.py."""

from __future__ import annotations

import os

from jobtop.core.errors import BadValue
from jobtop.core.measure.collectors.docker.model import JOB_LABEL
from jobtop.core.units import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from jobtop.core.model import Limits
    from jobtop.core.run.containers.order import ContainerOrder

NAME_PREFIX = "jobtop-"
JOB_ID = "JOBTOP_JOB_ID"


def short_name(job_id: str) -> str:
    """The name of the container of a job."""
    return NAME_PREFIX + job_id[:8]


def host_settings(order: ContainerOrder, limits: Limits, gpus: Sequence[str], parent: str | None) -> dict[str, Any]:
    """The limits, volumes, network and devices of a container. Swap does not extend its memory."""
    found: dict[str, Any] = {}
    if order.volumes:
        found["binds"] = list(order.volumes)
    if order.network is not None:
        found["network_mode"] = order.network
    if limits.memory_bytes:
        found |= {"mem_limit": limits.memory_bytes, "memswap_limit": limits.memory_bytes}
    if limits.cpus:
        found["nano_cpus"] = round(limits.cpus * 1e9)
    if limits.pids:
        found["pids_limit"] = limits.pids
    if gpus or order.gpus:
        which: dict[str, Any] = {"device_ids": list(gpus)} if gpus else {"count": order.gpus}
        found["device_requests"] = [which | {"capabilities": [["gpu"]]}]
    if parent is not None:
        found["cgroup_parent"] = parent
    return found


def container_settings(order: ContainerOrder, job_id: str, has_tty: bool, has_input: bool) -> dict[str, Any]:
    """Everything else. The environment of the caller stays outside."""
    found: dict[str, Any] = {
        "environment": {**(order.env or {}), JOB_ID: job_id},
        "labels": {JOB_LABEL: job_id},
        "tty": has_tty,
        "stdin_open": has_input,
    }
    if order.user is not None:
        found["user"] = order.user
    if order.workdir is not None:
        found["working_dir"] = order.workdir
    if order.entrypoint is not None:
        found["entrypoint"] = [order.entrypoint]
    return found


def volume(text: str, cwd: str, environ: Mapping[str, str]) -> str:
    """A volume as `docker run -v` takes it, with an absolute source; a source without a slash is a named volume."""
    source, colon, rest = text.partition(":")
    target = rest.partition(":")[0]
    if not colon or not source or not target.startswith("/"):
        raise BadValue(f'--volume: "{printable(text)}" is not SOURCE:/TARGET or SOURCE:/TARGET:ro')
    if source in (".", "..") or source.startswith(("./", "../", "~")):
        home = environ.get("HOME", "~")
        expanded = home + source[1:] if source == "~" or source.startswith("~/") else source
        source = os.path.normpath(os.path.join(cwd, expanded))
    elif "/" in source and not source.startswith("/"):
        source = os.path.normpath(os.path.join(cwd, source))
    return f"{source}:{rest}"
