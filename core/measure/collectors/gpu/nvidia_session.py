"""Which NVIDIA GPUs can be read now: NVML is opened when it is needed, and again after a GPU or its driver was lost."""

from __future__ import annotations

import time

from jobtop.core.measure.collectors.gpu.nvidia import Nvml, NvmlProblem
from jobtop.core.measure.collectors.gpu.nvidia_driver import cards

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from jobtop.core.measure.collectors.gpu.nvidia import Gpu

LIST_SECONDS = 30.0  # between two lists of the GPUs: MIG instances come and go
FIRST_RETRY_SECONDS, LONGEST_RETRY_SECONDS = 5.0, 300.0


class NvidiaSession:
    """The GPUs of an open NVML. After a problem it is opened again, each time after twice as long.

    `reason`: why NVML or a GPU is not read now. `lost`: the GPUs that do not answer, by UUID, with their names and the
    reason; one of them that is read again must be taken out with `find`.
    """

    def __init__(
        self,
        library: Nvml | None = None,
        sys: str = "/sys",
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._library, self._sys, self._monotonic = library or Nvml(), sys, monotonic
        self._gpus: dict[str, Gpu] = {}  # by UUID
        self._unread: set[str] = set()  # since NVML was opened last
        self.lost: dict[str, tuple[str, str]] = {}
        self._list_at = -float("inf")
        self._listed: tuple[str, ...] | None = None
        self._retry_at: float | None = None
        self._retry_seconds = FIRST_RETRY_SECONDS
        self._trouble_at = -float("inf")
        self.reason: str | None = None

    def gpus(self) -> list[Gpu]:
        """The GPUs and MIG instances that can be read now: those that are not lost, and awake."""
        now, asleep = self._monotonic(), cards(self._sys)
        is_due = self._retry_at is None or now >= self._retry_at
        if not self._library.is_open and asleep and all(asleep.values()):
            self.reason = "the GPUs are asleep"
        elif (self._retry_at is not None or not self._library.is_open) and is_due:
            self._open(asleep)
        elif self._library.is_open and (now >= self._list_at or awake_of(asleep) != self._listed):
            self._list(asleep)
        return [
            gpu for gpu in self._gpus.values() if gpu.uuid not in self._unread and not asleep.get(gpu.card or "", False)
        ]

    def knows(self, uuid: str) -> bool:
        """Whether a GPU exists; one that is lost may come back."""
        return self._retry_at is not None or uuid in self._gpus

    def lose(self, gpu: Gpu, problem: NvmlProblem) -> None:
        """Note that a GPU did not answer: it is lost, or its driver is gone."""
        self._unread.add(gpu.uuid)
        self.lost.setdefault(gpu.uuid, (gpu.name, str(problem)))
        self._retry_later(f"GPU {gpu.name}: {problem}")

    def find(self, gpu: Gpu) -> None:
        """Note that a GPU answers."""
        self.lost.pop(gpu.uuid, None)

    def close(self) -> None:
        self._library.close()
        self._gpus = {}

    def _open(self, asleep: dict[str, bool]) -> None:
        self._library.close()
        self._gpus, self._unread, self._retry_at = {}, set(), None
        try:
            self._library.open()
        except NvmlProblem as problem:
            self._retry_later(str(problem))
        else:
            self._list(asleep)

    def _list(self, asleep: dict[str, bool]) -> None:
        """List the GPUs that are awake; those that were listed before keep what is known of them."""
        self._list_at, self._listed = self._monotonic() + LIST_SECONDS, awake_of(asleep)
        try:
            gpus, problems = self._library.gpus(self._listed)
        except NvmlProblem as problem:
            self._library.close()
            self._lose_all(str(problem))
            self._retry_later(str(problem))
            return
        before, self._gpus = self._gpus, {gpu.uuid: gpu for gpu in gpus}
        self._gpus |= {uuid: known for uuid, known in before.items() if asleep.get(known.card or "", False)}
        for uuid, known in before.items():
            if uuid in self._gpus:
                known.has_instances = self._gpus[uuid].has_instances
                self._gpus[uuid] = known
        if problems:
            self._retry_later("; ".join(problems))
        elif not self._unread:
            self.reason = None

    def _lose_all(self, reason: str) -> None:
        for gpu in self._gpus.values():
            if not gpu.is_mig:
                self.lost.setdefault(gpu.uuid, (gpu.name, reason))
        self._gpus = {}

    def _retry_later(self, reason: str) -> None:
        self.reason, now = reason, self._monotonic()
        if now - self._trouble_at > LONGEST_RETRY_SECONDS + LIST_SECONDS:
            self._retry_seconds = FIRST_RETRY_SECONDS
        self._trouble_at = now
        if self._retry_at is None:
            self._retry_at = now + self._retry_seconds
            self._retry_seconds = min(2 * self._retry_seconds, LONGEST_RETRY_SECONDS)


def awake_of(asleep: dict[str, bool]) -> tuple[str, ...] | None:
    """The addresses of the cards that are awake; None if none is asleep."""
    return tuple(card for card, is_asleep in asleep.items() if not is_asleep) if any(asleep.values()) else None
