"""What the record of a job says about its container: `findings["container"]`. Pure.

The kind of job and the engine write it, and it may come from an import: a value of the wrong type counts as absent.
"""

from __future__ import annotations

from jobtop.core.record import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from jobtop.core.model import Job

FINDING = "container"
ATTACHED = "attached"  # the flag of jobs that jobtop did not start


@record
class Runtime:
    """What the runtime of a container used beside the workload: CPU time, memory, and which processes these are of."""

    cpu_seconds: float | None = None
    memory_bytes: int | None = None
    what: str | None = None


@record
class ContainerFacts:
    """The container of a job; what is not known is None. Its texts come from outside."""

    engine: str | None = None  # its name, else its address
    address: str | None = None
    id: str | None = None
    name: str | None = None
    image: str | None = None
    image_id: str | None = None
    digest: str | None = None
    project: str | None = None  # of compose
    service: str | None = None
    restarts: int | None = None
    health: str | None = None
    is_kept: bool | None = None
    started_at: float | None = None  # by the clock of the engine
    start_seconds: float | None = None  # from the order to the start of its first process
    runtime: Runtime = Runtime()


def container_facts(job: Job) -> ContainerFacts | None:
    """The container that a job ran in; None for a job without one."""
    shape = job.findings.get(FINDING)
    if not isinstance(shape, dict):
        return None
    runtime = shape.get("runtime")
    runtime = runtime if isinstance(runtime, dict) else {}
    texts = ("id", "name", "image", "image_id", "digest", "project", "service", "health")
    kept = shape.get("kept")
    return ContainerFacts(
        engine=_text(shape.get("engine_name")) or _text(shape.get("engine")),
        address=_text(shape.get("engine")),
        **{key: _text(shape.get(key)) for key in texts},
        restarts=_whole(shape.get("restarts")),
        is_kept=kept if isinstance(kept, bool) else None,
        started_at=_number(shape.get("started_at")),
        start_seconds=_number(shape.get("start_seconds")),
        runtime=Runtime(
            _number(runtime.get("cpu_seconds")), _whole(runtime.get("memory_bytes")), _text(runtime.get("what"))
        ),
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _number(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value < float("inf") else None


def _whole(value: Any) -> int | None:
    number = _number(value)
    return None if number is None else int(number)
