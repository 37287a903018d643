"""Divides the CPU time of a sampler among its jobs: at every moment equally among the jobs it samples."""

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class SharedCost:
    """CPU time of this process, per job that was watched meanwhile."""

    def __init__(self, clock: "Callable[[], float]" = time.process_time) -> None:
        self._clock = clock
        self._read = clock()
        self._each = 0.0
        self._since: dict[str, float] = {}

    def join(self, key: str) -> None:
        self._settle()
        self._since[key] = self._each

    def leave(self, key: str) -> float | None:
        """What the job cost since it joined; None if it never did."""
        self._settle()
        since = self._since.pop(key, None)
        return None if since is None else self._each - since

    def _settle(self) -> None:
        now = self._clock()
        if self._since:
            self._each += (now - self._read) / len(self._since)
        self._read = now
