"""A container as a block of lines, from what its engine says; see core/text/engine_answer.py for its secrets."""

import time
from collections.abc import Iterator, Sequence
from typing import Any

from jobtop.core.clock import local
from jobtop.core.measure.collectors.docker.answers import integer, items, mapping, text, words
from jobtop.core.measure.collectors.docker.model import Container
from jobtop.core.text.container_state import limits_text
from jobtop.core.text.shell_text import shell_text
from jobtop.core.units import format_duration, printable

LABEL_WIDTH = 13
MOST_LABEL_CHARACTERS = 200


def facts(container: Container, answer: dict[str, Any], url: str) -> Iterator[str]:
    """Yield the lines; what the engine did not say is left out."""
    yield f"{printable(container.name)}  {container.id[:12]}  {printable(container.engine)} ({printable(url)})"
    for label, value in fact_rows(container, answer):
        if value:
            yield f"  {label:<{LABEL_WIDTH}}{printable(value)}"


def fact_rows(container: Container, answer: dict[str, Any]) -> Iterator[tuple[str, str]]:
    config, host = mapping(answer.get("Config")), mapping(answer.get("HostConfig"))
    yield "state", state_text(container, time.time())
    yield "error", container.error or ""
    yield "image", " ".join(each for each in (container.image, short_digest(container.image_id)) if each)
    yield "command", shell_text(container.command)
    yield "user", text(config.get("User")) or ""
    yield "directory", text(config.get("WorkingDir")) or ""
    yield "created", local(container.created_at) if container.created_at is not None else ""
    yield "restarts", restarts_text(container, host)
    yield "project", " / ".join(each for each in (container.project, container.service) if each)
    yield "job", container.job_id or ""
    yield "process", f"pid {container.pid}" if container.pid is not None and container.is_alive else ""
    yield "limits", limits_text(container.limits)
    yield from labelled("mounts", mount_lines(answer))
    yield from labelled("networks", network_lines(container, answer))
    yield from labelled("ports", port_lines(answer))
    yield from labelled("environment", words(config.get("Env")))
    labels = (f"{name}={value}"[:MOST_LABEL_CHARACTERS] for name, value in sorted(container.labels.items()))
    yield from labelled("labels", tuple(labels))


def labelled(label: str, lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the lines of one fact; only the first has the label."""
    for position, line in enumerate(lines):
        yield ("" if position else label), line


def short_digest(image_id: str | None) -> str:
    return "" if image_id is None else f"({image_id.removeprefix('sha256:')[:12]})"


def state_text(container: Container, now: float) -> str:
    """Such as `running (healthy) since 2026-11-18 04:00:00 (2h05m)`, or `exited 137 …, killed for lack of memory`."""
    said = container.state
    if container.health is not None and container.is_alive:
        said += f" ({container.health})"
    if container.exit_code is not None:
        said += f" with code {container.exit_code}"
    since = container.started_at if container.is_alive else container.finished_at
    if since is not None:
        said += f" since {local(since)} ({format_duration(max(0.0, now - since), is_counting=True)})"
    return said + (", out of memory" if container.is_oom_killed else "")


def restarts_text(container: Container, host: dict[str, Any]) -> str:
    if container.restarts is None:
        return ""
    policy = mapping(host.get("RestartPolicy"))
    name, most = text(policy.get("Name")), integer(policy.get("MaximumRetryCount"))
    limit = f", at most {most}" if most else ""
    return f"{container.restarts} (policy: {name or 'no'}{limit})"


def mount_lines(answer: dict[str, Any]) -> tuple[str, ...]:
    lines = []
    for mount in map(mapping, items(answer.get("Mounts"))):
        source, target = text(mount.get("Name")) or text(mount.get("Source")), text(mount.get("Destination"))
        kind, mode = text(mount.get("Type")) or "?", "" if mount.get("RW", True) else ", read-only"
        lines.append(f"{source or '?'} at {target or '?'} ({kind}{mode})")
    return tuple(lines)


def network_lines(container: Container, answer: dict[str, Any]) -> tuple[str, ...]:
    networks = mapping(mapping(answer.get("NetworkSettings")).get("Networks"))
    lines = []
    for name, value in networks.items():
        network = mapping(value)
        addresses = [text(network.get(key)) for key in ("IPAddress", "GlobalIPv6Address")]
        lines.append(" ".join([str(name), *(each for each in addresses if each)]))
    return tuple(lines) or ((container.network_mode,) if container.network_mode else ())


def port_lines(answer: dict[str, Any]) -> tuple[str, ...]:
    """The published ports, such as `127.0.0.1:8080 to 80/tcp`."""
    lines = []
    for port, bindings in mapping(mapping(answer.get("NetworkSettings")).get("Ports")).items():
        for binding in map(mapping, items(bindings)):
            address, number = text(binding.get("HostIp")) or "", text(binding.get("HostPort")) or "?"
            lines.append(f"{f'[{address}]' if ':' in address else address}:{number} to {port}")
    return tuple(lines)
