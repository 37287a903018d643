"""Which processes have started and exited since the last call, mostly without a listing of /proc."""

from __future__ import annotations

import os
from threading import get_native_id

from jobtop.core.measure.collectors.open_file import KeptFile
from jobtop.core.measure.collectors.process_fields import is_count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

LONGEST_UNLISTED = 10  # calls until /proc is listed again
MOST_NEW_PIDS = 256  # that are tried one by one: a listing of 1,000 processes takes as long


class PidChanges:
    """Pids that are new, and pids that are gone as far as a listing has shown.

    `is_wrapped`: the kernel started again with low pids, so any pid may belong to another process now.
    """

    __slots__ = ("gone", "is_wrapped", "new", "was_listed")

    def __init__(self, new: set[int], gone: set[int], was_listed: bool = False, is_wrapped: bool = False) -> None:
        self.new, self.gone, self.was_listed, self.is_wrapped = new, gone, was_listed, is_wrapped


class PidWatch:
    """Follows the pids of a machine.

    The kernel gives pids out in turn, threads included: those since the last call are between two readings of
    `ns_last_pid`. A pid that has a CPU clock is a process; a thread has none of its own. A process that exited is found
    by its clock, or by a listing.
    """

    def __init__(self, proc: str, has_clock: Callable[[int], bool]) -> None:
        self.proc, self._has_clock = proc, has_clock
        self._names: set[str] = set()
        self._last_pid_file = KeptFile(f"{proc}/sys/kernel/ns_last_pid")
        self._last_pid: int | None = None
        self._unborn: list[int] = []  # given out, but without a clock yet, or no more
        self._unlisted = LONGEST_UNLISTED

    def list_next(self) -> None:
        """List /proc in the next call."""
        self._unlisted = LONGEST_UNLISTED

    def changes(self) -> PidChanges:
        """What has changed since the last call."""
        text = self._last_pid_file.read().strip()
        before, self._last_pid = self._last_pid, int(text) if is_count(text) else None
        last, self._unlisted = self._last_pid, self._unlisted + 1
        if last is None or before is None:
            return self._listed()
        if self._unlisted >= LONGEST_UNLISTED or not before <= last <= before + MOST_NEW_PIDS:
            return self._listed(is_wrapped=last < before)
        unborn, self._unborn = self._unborn, [pid for pid in range(before + 1, last + 1) if not self._has_clock(pid)]
        new = set(range(before + 1, last + 1)).difference(self._unborn)
        new.update(pid for pid in unborn if self._has_clock(pid))  # between the two a process may have been made
        if (own_thread := get_native_id()) != os.getpid():  # the one thread that has a clock, that of its process
            new.discard(own_thread)
        self._names.update(map(str, new))
        return PidChanges(new, set())

    def close(self) -> None:
        self._last_pid_file.close()

    def _listed(self, is_wrapped: bool = False) -> PidChanges:
        try:
            names = set(os.listdir(self.proc))
        except OSError:  # no descriptor left (EMFILE)
            if not self._names:  # nothing is known yet: without processes a job would seem to use nothing
                raise
            return PidChanges(set(), set())
        before, self._names = self._names, names
        self._unlisted, self._unborn = 0, []
        return PidChanges(_pids(names - before), _pids(before - names), was_listed=True, is_wrapped=is_wrapped)


def _pids(names: Iterable[str]) -> set[int]:
    return {int(name) for name in names if name.isdigit()}
