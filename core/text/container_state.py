"""The state and the limits of a container in words. Pure."""

from __future__ import annotations

from jobtop.core.units import format_bytes, number_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jobtop.core.measure.collectors.docker.model import Container, ContainerLimits


def state_text(container: Container) -> str:
    """Such as `running (healthy)`, `exited (137, out of memory)`."""
    said = []
    if container.exit_code is not None:
        said.append(str(container.exit_code))
    if container.is_oom_killed and not container.is_alive:
        said.append("out of memory")
    if container.health is not None and container.is_alive:
        said.append(container.health)
    return container.state + (f" ({', '.join(said)})" if said else "")


def limits_text(limits: ContainerLimits) -> str:
    """Such as `memory 512.0 MiB, 1.5 CPUs, 100 pids`."""
    said = [
        *([f"memory {format_bytes(limits.memory_bytes)}"] if limits.memory_bytes is not None else ()),
        *([f"{limits.cpus:g} CPU{'' if limits.cpus == 1 else 's'}"] if limits.cpus is not None else ()),
        *([number_of(limits.pids, "pid")] if limits.pids is not None else ()),
    ]
    return ", ".join(said) or "none"
