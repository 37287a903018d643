"""How a container ended, from what its engine says, and the facts of its job that follow from that."""

from __future__ import annotations

from jobtop.core.procfs import signals
from jobtop.core.run.containers.file import Told

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobtop.core.measure.collectors.docker.model import Container

REMOVED = "the container was removed, or its engine did not say how it ended"


def told_by(container: Container | None, sent: Sequence[int] = ()) -> Told:
    """What the engine says about an ended container; None if it is gone.

    An engine reports 137 for `exit 137` and for SIGKILL: a signal is certain only after an OOM kill, or if it was sent.
    """
    if container is None:
        return Told(error=REMOVED)
    code, number = container.exit_code, None
    if code is not None and code - 128 in sent:
        number = code - 128
    elif code == 128 + signals.SIGKILL and container.is_oom_killed:
        number = int(signals.SIGKILL)
    if signals.SIGPIPE in sent and number in (signals.SIGPIPE, signals.SIGKILL):
        number = int(signals.SIGPIPE)
    return Told(
        finished_at=container.finished_at,
        exit_code=code,
        signal=number,
        is_oom_killed=container.is_oom_killed,
        error=container.error,
        restarts=container.restarts,
        health=container.health,
    )
