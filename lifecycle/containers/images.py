"""Has the image of a container job ready: looks for it, and pulls it if the job wants that."""

from __future__ import annotations

from jobtop.core.errors import EngineError, NoSuchImage
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
        raise NoSuchImage(f"{name} has no image {shown}, and --pull never forbids to pull it ({remedy(engine)})")
    on_step = on_pull()
    try:
        for step in engine.pull(reference):
            on_step(step)
    except EngineError as error:
        raise NoSuchImage(f"{name} cannot pull {shown}: {why_not(engine, error)} ({remedy(engine)})") from error
    found = engine.image(reference)
    if found is None:
        raise NoSuchImage(f"{name} has pulled {shown}, but has no such image")
    return found


def why_not(engine: Engine, error: EngineError) -> str:
    """What the engine said, without its name, which is said already."""
    return str(error).removeprefix(f"{engine.endpoint.name} ({engine.endpoint.url}): ")


def remedy(engine: Engine) -> str:
    program = "podman" if "podman" in engine.endpoint.name else "docker"
    return f"is the name right? {program} images lists the images that are here"
