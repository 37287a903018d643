"""The source of jobs in containers that no file of this machine counts: their engine, here or elsewhere, is asked."""

from __future__ import annotations

from jobtop.core.errors import EngineError
from jobtop.core.measure.collectors.docker.client import Engine
from jobtop.core.measure.collectors.docker.model import Endpoint
from jobtop.core.measure.collectors.docker.stats_api import usage_in
from jobtop.core.measure.source import Readings, Remarks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from jobtop.core.measure.collectors.docker.usage import Usage
    from jobtop.core.measure.source import Jobs, Number
    from jobtop.core.measure.sources import Options
    from jobtop.core.measure.target import Target

METHOD = "stats API"
INCOMPLETE = "cpu, memory, io: its engine reports them about each second, and not what came after its last report"


class ContainerSource:
    """Asks engines what their containers use; a job whose engine does not answer loses its values."""

    name = "containers"
    interval_seconds = 1.0
    most_cores = 0.02

    def __init__(self, opener: Callable[[Endpoint], Engine] = Engine) -> None:
        self._opener = opener
        self._engines: dict[str, Engine] = {}  # by address
        self._remarks: dict[str, Remarks] = {}

    def available(self) -> str | None:
        """None: it is only called for jobs that name their engine."""
        return None

    def collect(self, jobs: Jobs) -> Readings:
        """What the engines say; after an engine has failed once, its other jobs are not asked for in this call."""
        found: dict[str, dict[str, Number]] = {}
        silent: set[str] = set()
        for key, target in jobs.items():
            found[key] = {}
            if target.engine is None or target.engine in silent:
                continue
            try:
                usage = self._ask(target)
            except EngineError:
                silent.add(target.engine)
                continue
            if usage is not None:
                found[key] = usage.values
                if key not in self._remarks:
                    sources = {"cpu": METHOD, "memory_peak": METHOD, "io": METHOD}
                    self._remarks = self._remarks | {key: Remarks(sources, (INCOMPLETE,))}
        return Readings(found, remarks=self._remarks)

    def forget(self, key: str) -> None:
        self._remarks = {other: said for other, said in self._remarks.items() if other != key}

    def close(self) -> None:
        for engine in self._engines.values():
            engine.close()

    def _ask(self, target: Target) -> Usage | None:
        url = target.engine or ""
        if url not in self._engines:
            self._engines[url] = self._opener(Endpoint("engine", url, "the job"))
        return usage_in(self._engines[url].stats(target.container_id or ""))


def open_source(options: Options) -> ContainerSource:  # noqa: ARG001 - all sources are opened alike
    return ContainerSource()
