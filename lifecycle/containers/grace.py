"""How long a container has from SIGTERM to SIGKILL."""

from __future__ import annotations

from jobtop.core.measure.collectors.docker.answers import mapping, positive

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jobtop.core.measure.collectors.docker.client import Engine

GRACE_SECONDS = 10.0  # as engines wait for a container without a time of its own


def grace_of(engine: Engine, container_id: str, grace: float | None = None) -> float:
    """Return the grace period that was asked for, or that of the container."""
    if grace is not None:
        return grace
    return positive(mapping(engine.raw(container_id).get("Config")).get("StopTimeout")) or GRACE_SECONDS
