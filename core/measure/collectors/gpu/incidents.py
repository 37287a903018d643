"""Events of GPUs: slowed down by heat or power, lost, found again; of the device, and of each job on it. Pure."""

from __future__ import annotations

from jobtop.core.measure.device import Device
from jobtop.core.measure.live.newest_gpus import gpu_number
from jobtop.core.measure.source import Remarks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from jobtop.core.measure.source import Event

    Owner = str | None  # a job key, or None for the device itself

# A GPU at its power limit is slowed down for a second, then not: a slowdown ends when there was none for this long.
CALM_SECONDS = 60.0


class GpuIncidents:
    """Compares what is read of GPUs with what was read before; `take` returns the events since the last call."""

    def __init__(self) -> None:
        self._slowed: dict[tuple[str, Owner], dict[str, float]] = {}  # when each reason was last read
        self._lost: dict[str, tuple[str, frozenset[str]]] = {}  # by UUID: the name, and the jobs on it
        self._interrupted: dict[str, set[str]] = {}  # by job: the GPUs that did not answer for a time
        self._events: list[Event] = []

    def see(self, uuid: str, name: str, slowdowns: Iterable[str] | None, jobs: Collection[str], now: float) -> None:
        """A GPU was read, with the reasons why it is slowed down (None: not known) and the jobs on it."""
        lost = self._lost.pop(uuid, None)
        if lost is not None:
            self._add(name, lost[1], "gpu_found", {})
        if slowdowns is None:
            return
        reasons = sorted(slowdowns)
        for owner in (None, *sorted(jobs)):
            self._compare(uuid, name, owner, reasons, now)

    def lose(self, uuid: str, name: str, reason: str, jobs: Collection[str]) -> None:
        """A GPU does not answer any more."""
        if uuid not in self._lost:
            self._lost[uuid] = name, frozenset(jobs)
            self._add(name, jobs, "gpu_lost", {"reason": reason})
            for job in jobs:
                self._interrupted.setdefault(job, set()).add(name)
        for key in [key for key in self._slowed if key[0] == uuid]:
            del self._slowed[key]

    def forget(self, job: str) -> None:
        """Free what is kept for a job that has ended."""
        for key in [key for key in self._slowed if key[1] == job]:
            del self._slowed[key]
        self._interrupted.pop(job, None)
        self._lost = {uuid: (name, jobs - {job}) for uuid, (name, jobs) in self._lost.items()}

    def remarks(self) -> dict[str, Remarks]:
        """What the records of jobs have to say: a part of their use of a GPU that was lost is missing."""
        return {
            job: Remarks(
                incomplete=tuple(
                    f"gpu: GPU {gpu_number(name)} did not answer for a time: what the job used of it then is missing"
                    for name in sorted(names)
                )
            )
            for job, names in self._interrupted.items()
        }

    def take(self) -> list[Event]:
        taken, self._events = self._events, []
        return taken

    def _compare(self, uuid: str, name: str, owner: Owner, reasons: list[str], now: float) -> None:
        known = self._slowed.get((uuid, owner), {})
        kept = {reason: at for reason, at in known.items() if now - at < CALM_SECONDS} | dict.fromkeys(reasons, now)
        if kept.keys() - known.keys():
            self._tell(owner, name, "gpu_throttled", {"reasons": sorted(kept)})
        elif known and not kept:
            self._tell(owner, name, "gpu_unthrottled", {})
        self._slowed[uuid, owner] = kept

    def _add(self, name: str, jobs: Iterable[str], kind: str, detail: dict[str, object]) -> None:
        for owner in (None, *sorted(jobs)):
            self._tell(owner, name, kind, detail)

    def _tell(self, owner: Owner, name: str, kind: str, detail: dict[str, object]) -> None:
        if owner is None:
            self._events.append((Device("gpu", name), kind, dict(detail)))
        else:
            self._events.append((owner, kind, {"gpu": name, **detail}))
