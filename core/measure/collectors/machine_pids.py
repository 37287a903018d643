"""Pids of the whole machine, which drivers report, as pids of here: jobtop may run in a container."""

from __future__ import annotations

import os
import re

from jobtop.core.procfs import read_text

FIRST_NAMESPACE = 0xEFFFFFFC  # the inode of the pid namespace of the whole machine (PROC_PID_INIT_INO)
KTHREADD, FLAGS, START = 2, 6, 19  # a pid; fields of /proc/PID/stat after the name
KERNEL_THREAD = 0x00200000  # PF_KTHREAD; only the first namespace has such processes
UNSEEN = "a driver knows processes by the machine's pids, which this container does not see"


class MachinePids:
    """Translates pids by NSpid, where a container has the machine's /proc mounted somewhere beside its own."""

    def __init__(self, proc: str = "/proc") -> None:
        self._proc = proc
        self._machine_proc = proc if is_first_namespace(proc) else self._find_machine_proc()
        self._depth = 1
        if self._machine_proc not in (None, proc):
            self._depth = len(_namespace_pids(f"{self._machine_proc}/self"))

    def problem(self) -> str | None:
        """Why pids of the machine mean nothing here, or None."""
        return UNSEEN if self._machine_proc is None else None

    def local(self, pid: int) -> int | None:
        """The pid of here of a process; None if it has exited, or runs outside of this container."""
        if self._machine_proc == self._proc:
            return pid
        above = f"{self._machine_proc}/{pid}"
        pids = _namespace_pids(above)
        if self._machine_proc is None or len(pids) < self._depth:
            return None
        found = pids[self._depth - 1]
        here = f"{self._proc}/{found}"
        # Another container may have a process with the same pid: it has other ones below, or started at another time.
        is_same = _namespace_pids(here) == pids[self._depth - 1 :] and _start(here) == _start(above) != ""
        return found if is_same else None

    def _find_machine_proc(self) -> str | None:
        """Where the /proc of the first namespace is mounted: kernel threads are seen only there."""
        for line in read_text(f"{self._proc}/self/mountinfo").splitlines():
            place, _, kind = line.partition(" - ")
            if kind.startswith("proc ") and len(fields := place.split()) > 4 and fields[3] == "/":
                path = re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), fields[4])
                if _flags(f"{path}/{KTHREADD}") & KERNEL_THREAD and _namespace_pids(f"{path}/self"):
                    return path
        return None


def is_first_namespace(proc: str) -> bool:
    """Whether this process sees all processes of the machine; True where the kernel does not tell."""
    try:
        return os.stat(f"{proc}/self/ns/pid").st_ino == FIRST_NAMESPACE
    except OSError:
        return True


def _namespace_pids(process: str) -> list[int]:
    """The pids of a process in all namespaces that see it, the outermost first."""
    for line in read_text(f"{process}/status").splitlines():
        if line.startswith("NSpid:"):
            return [int(word) for word in line.split()[1:] if word.isdecimal()]
    return []


def _stat(process: str) -> list[str]:
    return read_text(f"{process}/stat").rpartition(")")[2].split()


def _start(process: str) -> str:
    fields = _stat(process)
    return fields[START] if len(fields) > START else ""


def _flags(process: str) -> int:
    fields = _stat(process)
    return int(fields[FLAGS]) if len(fields) > FLAGS and fields[FLAGS].isdecimal() else 0
