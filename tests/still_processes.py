"""Processes for the console that never change by themselves: a test says which."""

from collections.abc import Sequence
from typing import Any

from jobtop.core.measure.live.machine_processes import MachineProcess, ProcessMoment

AT = 5000.0  # seconds since boot
BOOT = "still"
MIB = 1 << 20


def still_process(pid: int, command: str = "work", parent: int = 1, **values: Any) -> MachineProcess:
    """A process of another user that uses a quarter of a core and 64 MiB."""
    name = command.split(" ", maxsplit=1)[0]
    made = MachineProcess(pid, 100 * pid, parent, 4242, "ada", "S", name, command, 25.0, 64 * MIB, 2, False)
    return made._replace(**values)


class StillProcesses:
    """A source that always reads the same processes."""

    boot = BOOT

    def __init__(self, *processes: MachineProcess) -> None:
        self.processes = processes
        self.readings, self.is_closed = 0, False

    def open(self, secret: Sequence[str]) -> "StillProcesses":
        self.is_closed = False
        return self

    def read(self) -> ProcessMoment:
        self.readings += 1
        return ProcessMoment(AT, self.processes)

    def close(self) -> None:
        self.is_closed = True
