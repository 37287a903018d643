"""A container as a block of lines, from what its engine says, with everything that looks secret hidden."""

import time
from collections.abc import Iterator, Sequence
from typing import Any

from jobtop.core.clock import local
from jobtop.core.measure.collectors.docker.answers import integer, items, mapping, text, words
from jobtop.core.measure.collectors.docker.model import Container, ContainerLimits
from jobtop.core.redact import HIDDEN, is_secret, redact_command, redact_mapping, redact_text
from jobtop.core.text.shell_text import shell_text
from jobtop.core.units import format_bytes, format_duration, number_of, printable

COMMANDS = frozenset({"Args", "Cmd", "Entrypoint", "Command", "Test", "CreateCommand"})
ENVIRONMENTS = frozenset({"Env"})
DEEPEST = 40
LABEL_WIDTH = 13
MOST_LABEL_CHARACTERS = 200


def redacted_answer(answer: Any, patterns: Sequence[str], key: str = "", depth: int = 0) -> Any:
    """Return an engine's answer with secret values hidden: of the environment, in commands, labels and other texts."""
    if depth > DEEPEST:
        return None
    if isinstance(answer, dict):
        return {name: redacted_answer(value, patterns, str(name), depth + 1) for name, value in answer.items()}
    if isinstance(answer, list):
        if key in ENVIRONMENTS:
            return [redacted_variable(each, patterns) if isinstance(each, str) else each for each in answer]
        if key in COMMANDS and all(isinstance(each, str) for each in answer):
            return redact_command(answer, patterns)
        return [redacted_answer(each, patterns, key, depth + 1) for each in answer]
    if isinstance(answer, str):
        return HIDDEN if answer and is_secret(key) else redact_text(answer, patterns)
    return answer


def redacted_variable(assignment: str, patterns: Sequence[str]) -> str:
    name, sign, value = assignment.partition("=")
    return f"{name}{sign}{redact_mapping({name: value}, patterns)[name]}"


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


def limits_text(limits: ContainerLimits) -> str:
    """Such as `memory 512.0 MiB, 1.5 CPUs, 100 pids`."""
    said = [
        *([f"memory {format_bytes(limits.memory_bytes)}"] if limits.memory_bytes is not None else ()),
        *([f"{limits.cpus:g} CPU{'' if limits.cpus == 1 else 's'}"] if limits.cpus is not None else ()),
        *([number_of(limits.pids, "pid")] if limits.pids is not None else ()),
    ]
    return ", ".join(said) or "none"


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
