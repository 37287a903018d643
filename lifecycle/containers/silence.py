"""Engines that do not answer: many jobs wait for one of them only once, and a process asks it ever less often."""

from __future__ import annotations

import time

from jobtop.core.errors import EngineSilent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from jobtop.core.measure.collectors.docker.client import Engine

ENGINE_SECONDS = 2.0  # for an engine to answer: verbs answer within 3 s
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 2.0, 16.0  # in which an engine that did not answer is not asked again


class Silence:
    """What this process knows of engines that did not answer, by their addresses."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._problems: dict[str, tuple[str, float, float]] = {}  # what it was, until when it counts, and for how long

    def check(self, engine: Engine) -> None:
        """Connect to an engine; EngineError if it does not answer, or did not a moment ago."""
        url = engine.endpoint.url
        problem, until, pause = self._problems.get(url, ("", 0.0, FIRST_PAUSE_SECONDS / 2))
        if self._clock() < until:
            raise EngineSilent(problem)
        try:
            engine.connect()
        except EngineSilent as error:
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
            self._problems[url] = str(error), self._clock() + pause, pause
            raise
        self._problems.pop(url, None)


SILENCE = Silence()
