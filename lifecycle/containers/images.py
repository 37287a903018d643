"""Has the image of a container job ready: looks for it, and pulls it if the job wants that. Lists local images."""

from __future__ import annotations

from jobtop.core.errors import EngineError, NoSuchImage
from jobtop.core.measure.collectors.docker.finding import close_engines, open_engines
from jobtop.core.record import replace
from jobtop.core.units import printable
from jobtop.lifecycle.containers.engines import find_engine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jobtop.core.measure.collectors.docker.client import Engine
    from jobtop.core.measure.collectors.docker.model import Image, PullStep
    from jobtop.core.run.containers.order import ContainerOrder

    OnPull = Callable[[], Callable[[PullStep], None]]

PULL_SECONDS = 120.0  # without a word from the registry
NO_NAME = "<none>"
# What the network library of both engines says.
UNREACHABLE = (
    *("dial tcp", "no such host", "connection refused", "network is unreachable", "no route to host"),
    *("i/o timeout", "handshake timeout", "client.timeout", "deadline exceeded", "connection reset"),
)


def with_ready_image(order: ContainerOrder, environ: Mapping[str, str], on_pull: OnPull) -> ContainerOrder:
    """The order with the address of an engine that answers and has the image; EngineError if there is none."""
    engine, _ = find_engine(order.engine, environ)
    with engine:
        engine.timeout_seconds = PULL_SECONDS
        engine.close()  # connections have their timeout from the beginning
        ready_image(engine, order.image, order.pull, on_pull)
    pull = "missing" if order.pull == "always" else order.pull
    return replace(order, engine=engine.endpoint.url, pull=pull)


def local_images(environ: Mapping[str, str], root: str = "/") -> list[str]:
    """The names of the images that the engines have, each once; an engine that does not answer has none."""
    try:
        engines = open_engines(environ, root=root)
    except EngineError:
        return []
    names: set[str] = set()
    for engine in engines:
        try:
            names.update(name for image in engine.images() for name in image.names if NO_NAME not in name)
        except EngineError:
            continue
    close_engines(engines)
    return sorted(names)


def ready_image(engine: Engine, reference: str, policy: str, on_pull: OnPull) -> Image:
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
        why, what_to_do = why_not(engine, error), remedy(engine)
        if is_unreachable(why):
            why = f"the registry {printable(registry_of(reference))} could not be reached: {why}"
            what_to_do = "is the network up, and is a proxy needed?"
        raise NoSuchImage(f"{name} cannot pull {shown}: {why} ({what_to_do})") from error
    found = engine.image(reference)
    if found is None:
        raise NoSuchImage(f"{name} has pulled {shown}, but has no such image")
    return found


def why_not(engine: Engine, error: EngineError) -> str:
    """What the engine said, without its name, which is said already."""
    return str(error).removeprefix(f"{engine.endpoint.name} ({engine.endpoint.url}): ")


def is_unreachable(words: str) -> bool:
    """Whether an engine could not ask a registry at all, by what it says."""
    return any(sign in words.lower() for sign in UNREACHABLE)


def registry_of(reference: str) -> str:
    """The registry that engines ask for an image: the part before the first slash, if it looks like a host."""
    first, slash, _ = reference.partition("/")
    is_host = bool(slash) and ("." in first or ":" in first or first == "localhost")
    return first if is_host else "docker.io"


def remedy(engine: Engine) -> str:
    program = "podman" if "podman" in engine.endpoint.name else "docker"
    return f"is the name right? {program} images lists the images that are here"


class PullSum:
    """Adds up how many bytes of all layers of an image are there."""

    def __init__(self) -> None:
        self._layers: dict[str, tuple[int, int]] = {}

    def take(self, step: PullStep) -> tuple[int, int] | None:
        """The bytes that are there, and all; None while no size is known."""
        if step.layer is not None and step.total_bytes is not None:
            self._layers[step.layer] = step.done_bytes or 0, step.total_bytes
        elif step.layer in self._layers and step.text.endswith("complete"):
            total = self._layers[step.layer][1]
            self._layers[step.layer] = total, total
        if not self._layers:
            return None
        return sum(done for done, _ in self._layers.values()), sum(total for _, total in self._layers.values())
