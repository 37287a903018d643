"""A /proc of plain files, and the pid clocks of the processes in it."""

import errno
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from jobtop.core.measure.collectors import jobs
from jobtop.core.measure.collectors.members import PAGE_BYTES, TICK_SECONDS, Tree
from jobtop.core.measure.collectors.processes import ProcessTable
from jobtop.core.measure.target import Target
from jobtop.core.measure.watch import values_by_key
from jobtop.core.model import Identity
from jobtop.core.procfs import pid_clock

MIB = 1024 * 1024


def below(pid: int, start_boottime: float = 0.0, cgroups: Iterable[str] = (), includes_root: bool = False) -> Target:
    """What to sample below a process."""
    return Target(Identity("boot", pid, None), start_boottime, includes_root, tuple(cgroups))


def fold(tree: Tree) -> dict[str, int | float]:
    """What the processes of a job use together, as far as it is known."""
    return values_by_key(jobs.fold(tree))


class FakeProc:
    """Processes that live as long as the test says; `clocks` are their CPU times in nanoseconds."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.clocks: dict[int, int] = {}

    def table(self, most_descriptors: int = 1000) -> ProcessTable:
        return ProcessTable(str(self.root), self.clock, most_descriptors)

    def clock(self, number: int) -> int:
        for pid, nanoseconds in self.clocks.items():
            if pid_clock(pid) == number:
                return nanoseconds
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    def put(
        self,
        pid: int,
        parent: int,
        *,
        start: int = 100,
        cpu: float = 0.0,
        user: float = 0.0,
        system: float = 0.0,
        children: tuple[float, float] = (0.0, 0.0),
        rss: int = MIB,
        pss: int | None = None,
        chars: int = 0,
        faults: int = 0,
        name: str = "work",
        state: str = "S",
    ) -> None:
        """Make a process, or change it: the files are written in place, as a kept descriptor reads them."""
        fields = ["0"] * 50
        fields[0], fields[1], fields[7], fields[19] = state, str(parent), str(faults), str(start)
        for index, seconds in zip((11, 12, 13, 14), (user, system, *children), strict=True):
            fields[index] = str(round(seconds / TICK_SECONDS))
        fields[17], fields[20], fields[21] = "1", str(2 * rss), str(rss // PAGE_BYTES)
        io = [f"rchar: {chars}", "wchar: 0", "syscr: 1", "syscw: 0", "read_bytes: 0", "write_bytes: 0"]
        status = (
            f"RssAnon:\t{rss // 1024} kB\nVmSwap:\t0 kB\nvoluntary_ctxt_switches:\t7\nnonvoluntary_ctxt_switches:\t2\n"
        )
        directory = self.root / str(pid)
        (directory / "fd").mkdir(parents=True, exist_ok=True)
        (directory / "stat").write_text(f"{pid} ({name}) {' '.join(fields)}\n")
        (directory / "io").write_text("\n".join(io) + "\n")
        (directory / "status").write_text(status)
        (directory / "smaps_rollup").write_text(f"Rss: 0 kB\nPss: {(rss if pss is None else pss) // 1024} kB\n")
        self.clocks[pid] = round(cpu * 1e9)

    def end(self, pid: int) -> None:
        shutil.rmtree(self.root / str(pid))
        self.clocks.pop(pid, None)
