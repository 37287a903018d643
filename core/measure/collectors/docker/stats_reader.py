"""Asks one engine for the stats of containers, in a thread of its own: for those without a cgroup that we can read."""

from __future__ import annotations

import threading
import time

from jobtop.core.errors import EngineError
from jobtop.core.measure.collectors.docker.client import Engine
from jobtop.core.measure.collectors.docker.stats_api import usage_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from jobtop.core.measure.collectors.docker.model import Endpoint
    from jobtop.core.measure.collectors.docker.usage import Usage

INTERVAL_SECONDS = 1.0  # between the starts of two rounds …
LARGEST_SHARE = 0.25  # … of which asking takes at most so much: engines have other work
STALE_SECONDS = 15.0  # after which an old answer counts no longer
NOT_YET = "the engine was not asked yet"
NO_NUMBERS = "the engine has no numbers of it"


class StatsReader:
    """The newest answers of an engine. Set `ids` to the containers that are wanted; the thread lives until `close`."""

    def __init__(
        self,
        endpoint: Endpoint,
        opener: Callable[[Endpoint], Engine] = Engine,
    ) -> None:
        self._endpoint, self._opener = endpoint, opener
        self._found: dict[str, tuple[float, Usage | None, str | None]] = {}
        self.ids: list[str] = []
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"jobtop-stats-{endpoint.name}", daemon=True)
        self._thread.start()

    def newest(self, container_id: str) -> tuple[Usage | None, str | None]:
        """The last answer about a container, or why there is none."""
        at, usage, why = self._found.get(container_id, (time.monotonic(), None, NOT_YET))
        if usage is not None and time.monotonic() - at > STALE_SECONDS:
            return None, f"the engine has not answered for {time.monotonic() - at:.0f} s"
        return usage, why

    def close(self) -> None:
        """Ask the thread to end, which it does after the answer that it waits for."""
        self._stopped.set()

    def _run(self) -> None:
        engine = self._opener(self._endpoint)
        try:
            while not self._stopped.is_set():
                began = time.monotonic()
                self._round(engine)
                took = time.monotonic() - began
                self._stopped.wait(max(INTERVAL_SECONDS - took, took * (1 / LARGEST_SHARE - 1)))
        finally:
            engine.close()

    def _round(self, engine: Engine) -> None:
        ids = list(self.ids)
        for container_id in ids:
            if self._stopped.is_set():
                return
            try:
                usage = usage_in(engine.stats(container_id))
                why = None if usage is not None else NO_NUMBERS
            except EngineError as error:
                usage, why = None, str(error)
            self._found[container_id] = time.monotonic(), usage, why
        self._found = {key: found for key, found in self._found.items() if key in ids}
