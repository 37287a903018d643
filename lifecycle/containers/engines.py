"""Chooses the engine of a container job: the one that was asked for, or the first that answers."""

from __future__ import annotations

import time

from jobtop.core.errors import EngineError
from jobtop.core.measure.collectors.docker.client import Engine
from jobtop.core.measure.collectors.docker.finding import open_engines
from jobtop.core.measure.collectors.docker.model import Endpoint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from jobtop.core.measure.collectors.docker.model import EngineInfo

SECONDS = 2.0  # for all engines together: verbs answer within 3 s, also on a busy machine
INFO_SECONDS = 30.0  # for an engine that has answered to say what it is
NAMED = ("DOCKER_HOST", "CONTAINER_HOST")  # with one of these, or a context, no other engine is tried
ASKED_FOR = "--engine"


def engine_at(url: str, name: str | None = None, timeout_seconds: float = SECONDS) -> Engine:
    """The engine at an address, not connected yet."""
    known = name or ("podman" if "podman" in url else "docker")
    return Engine(Endpoint(known, url, ASKED_FOR), timeout_seconds)


def find_engine(
    wanted: str | None, environ: Mapping[str, str], seconds: float = SECONDS, root: str = "/"
) -> tuple[Engine, EngineInfo]:
    """The engine of this address or name, or the first that answers; EngineError says what was tried."""
    if wanted is not None and "://" in wanted:
        engine = engine_at(wanted, timeout_seconds=seconds)
        return engine, _asked(engine)
    engines = open_engines(environ, wanted, root)
    if engines[0].endpoint.origin in NAMED or engines[0].endpoint.origin.startswith("context "):
        engines = engines[:1]
    problems, due = [], time.monotonic() + seconds
    for position, engine in enumerate(engines):
        engine.timeout_seconds = max(0.2, (due - time.monotonic()) / (len(engines) - position))
        try:
            return engine, _asked(engine)
        except EngineError as error:
            problems.append(str(error))
    raise EngineError(problems[0] if len(problems) == 1 else f"no container engine answers: {'; '.join(problems)}")


def _asked(engine: Engine) -> EngineInfo:
    try:
        return engine.info(INFO_SECONDS)
    except EngineError:
        engine.close()
        raise
