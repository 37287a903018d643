"""The processes inside a container: read from /proc by its cgroup, or as its engine lists them."""

from __future__ import annotations

import os
import time

from jobtop.core.clock import BOOTTIME
from jobtop.core.measure.collectors.docker.cgroup_paths import container_cgroups
from jobtop.core.measure.collectors.members import PPID, RSS, START, STATE, STIME, THREADS, TICK_SECONDS, UTIME
from jobtop.core.measure.collectors.threads import read_arguments
from jobtop.core.measure.live.processes import Rates
from jobtop.core.measure.snapshot import ProcessRow
from jobtop.core.procfs import read_text
from jobtop.core.redact import redact_command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobtop.core.measure.collectors.docker.model import Container

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
MOST = 500  # processes that are read
PID_TITLES, PARENT_TITLES, COMMAND_TITLES = ("PID",), ("PPID",), ("CMD", "COMMAND")


class ContainerProcesses:
    """Reads the processes of one container again and again; percentages are of the time since the reading before."""

    def __init__(self, container: Container, secret: Sequence[str] = (), proc: str = "/proc") -> None:
        self._proc, self._secret, self._rates = proc, tuple(secret), Rates()
        pid = container.pid
        self._directories = container_cgroups(pid, container.id, proc) if pid is not None else ()

    @property
    def is_visible(self) -> bool:
        """Whether the processes can be seen here; if not, the engine has to be asked."""
        return bool(self._directories)

    def read(self) -> list[ProcessRow]:
        """The processes now; one that exits meanwhile is left out."""
        now = time.clock_gettime(BOOTTIME)
        self._rates.advance(now)
        rows = (self._row(pid, now) for pid in pids_in(self._directories)[:MOST])
        return [row for row in rows if row is not None]

    def _row(self, pid: int, now: float) -> ProcessRow | None:
        text = read_text(f"{self._proc}/{pid}/stat")
        fields = text.rpartition(")")[2].split()
        if len(fields) <= RSS:
            return None
        start = int(fields[START])
        cpu = (int(fields[UTIME]) + int(fields[STIME])) * TICK_SECONDS
        words = read_arguments(pid, self._proc)
        name = text[text.find("(") + 1 : text.rfind(")")]
        return ProcessRow(
            pid=pid,
            parent=int(fields[PPID]),
            command=" ".join(redact_command(words, self._secret)) if words else f"[{name}]",
            cpu_seconds=cpu,
            cpu_percent=self._rates.percent(pid, start, cpu),
            memory_bytes=int(fields[RSS]) * PAGE_BYTES,
            threads=int(fields[THREADS]),
            age_seconds=max(0.0, now - start * TICK_SECONDS),
            state=fields[STATE],
        )


def pids_in(directories: Sequence[str]) -> list[int]:
    """The processes of a cgroup and of those below it, from the first hierarchy that lists any."""
    for directory in directories:
        texts = (read_text(f"{place}/cgroup.procs") for place, _, _ in os.walk(directory))
        # 0 is a process of another pid namespace.
        found = sorted({int(word) for text in texts for word in text.split() if word.isdigit() and word != "0"})
        if found:
            return found
    return []


def listed_processes(
    titles: Sequence[str], rows: Sequence[Sequence[str]], secret: Sequence[str] = ()
) -> list[ProcessRow]:
    """The processes as an engine lists them: pids, parents and commands; all numbers are not known."""
    pid, parent, command = (place_of(titles, names) for names in (PID_TITLES, PARENT_TITLES, COMMAND_TITLES))
    if pid is None:
        return []
    found = []
    for row in rows[:MOST]:
        number, above = cell(row, pid), cell(row, parent)
        if number.isdigit():
            words = redact_command(cell(row, command).split(), secret)
            above_number = int(above) if above.isdigit() else 0
            found.append(
                ProcessRow(int(number), above_number, " ".join(words) or "?", 0.0, None, None, None, None, "?")
            )
    return found


def place_of(titles: Sequence[str], names: Sequence[str]) -> int | None:
    return next((place for place, title in enumerate(titles) if title.upper() in names), None)


def cell(row: Sequence[str], place: int | None) -> str:
    return row[place].strip() if place is not None and place < len(row) else ""
