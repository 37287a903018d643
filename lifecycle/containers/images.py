"""Has the image of a container job ready: looks for it, and pulls it if the job wants that."""

from __future__ import annotations

from jobtop.core.errors import NoSuchImage
from jobtop.core.units import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from jobtop.core.measure.collectors.docker.client import Engine
    from jobtop.core.measure.collectors.docker.model import Image, PullStep


def ready_image(
    engine: Engine, reference: str, policy: str, on_pull: Callable[[], Callable[[PullStep], None]]
) -> Image:
    """The image, pulled if it is missing or the policy says `always`; EngineError if it cannot be had.

    `on_pull` is called before a pull, and what it returns with each step.
    """
    found = None if policy == "always" else engine.image(reference)
    if found is not None:
        return found
    shown, name = printable(reference), engine.endpoint.name
    if policy == "never":
        raise NoSuchImage(f"{name} has no image {shown}, and --pull never forbids to fetch it")
    on_step = on_pull()
    for step in engine.pull(reference):
        on_step(step)
    found = engine.image(reference)
    if found is None:
        raise NoSuchImage(f"{name} has pulled {shown}, but has no such image")
    return found
