"""Reads what a container uses from its cgroup files and its network namespace, without asking its engine."""

from __future__ import annotations

import os
import time

from jobtop.core.clock import BOOTTIME
from jobtop.core.measure.collectors import cgroup
from jobtop.core.measure.collectors.docker.usage import Usage
from jobtop.core.measure.collectors.host.files import NET_KEYS, parse_net_dev
from jobtop.core.measure.collectors.job_cgroup import CgroupReader, decoded
from jobtop.core.measure.collectors.open_file import KeptFile
from jobtop.core.measure.collectors.storage import V1_BYTES, V2_FILE, parse_blkio, parse_io_stat
from jobtop.core.procfs import read_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobtop.core.measure.collectors.docker.model import Container
    from jobtop.core.measure.collectors.docker.snapshot import Number

LOOPBACK = "lo"
PEAKS = ("memory.peak", "memory.max_usage_in_bytes")
SWAPS = ("memory.swap.current",)
TASKS = "pids.current"
RECURSIVE = f"{V1_BYTES}_recursive"
STORAGE = (V2_FILE, RECURSIVE, V1_BYTES)
UNCOUNTED = "this kernel counts no block I/O of the container"
HOST_NETWORK = "it uses the network of its host"
SHARED_NETWORK = "it uses the network of another container"
NO_NETWORK = "it has no network"
NO_GPU = "this machine has no GPU that can be read"


class CgroupNumbers:
    """The files of one container, kept open; `close` after a reading closes them until the next one."""

    def __init__(self, container: Container, directories: Sequence[str], proc: str = "/proc") -> None:
        self._reader = CgroupReader(directories)
        self._files = {name: KeptFile(path, True) for name, path in _paths(directories).items()}
        self._network = NetworkNumbers(container, proc)

    def read(self) -> Usage | None:
        """What it uses now; None if its cgroups are gone."""
        values, moment = self._reader.read()
        if not values:
            return None
        stat = self._reader.content("memory.stat")
        is_v1 = "total_rss " in stat
        contents = {name: decoded(file.read_bytes()) for name, file in self._files.items()}
        values |= self._memory_values(stat, is_v1, contents)
        if (tasks := cgroup.number(contents.get(TASKS))) is not None:
            values["proc.threads"] = tasks
        absent = {"gpu": NO_GPU}
        storage = storage_values(contents)
        network, why = self._network.read()
        if not storage:
            absent["io"] = UNCOUNTED
        if why is not None:
            absent["net"] = why
        charged, inactive = (
            values.get("mem.cgroup"),
            cgroup.number_in(stat, "total_inactive_file " if is_v1 else "inactive_file "),
        )
        return Usage(
            values | storage | network,
            time.clock_gettime(BOOTTIME) if moment is None else moment,
            None if charged is None or inactive is None else max(0, int(charged) - inactive),
            next((peak for name in PEAKS if (peak := cgroup.number(contents.get(name))) is not None), None),
            absent,
        )

    def close(self) -> None:
        self._reader.close()
        for file in self._files.values():
            file.close()

    @staticmethod
    def _memory_values(stat: str, is_v1: bool, contents: dict[str, str]) -> dict[str, Number]:
        prefix = "total_" if is_v1 else ""
        found = {
            "mem.swap": cgroup.number_in(stat, "total_swap ") if is_v1 else cgroup.number(contents.get(SWAPS[0])),
            "mem.faults_major": cgroup.number_in(stat, f"{prefix}pgmajfault "),
        }
        faults, major = cgroup.number_in(stat, f"{prefix}pgfault "), found["mem.faults_major"]
        if faults is not None and major is not None:
            found["mem.faults_minor"] = max(0, faults - major)
        return {key: value for key, value in found.items() if value is not None}


class NetworkNumbers:
    """The counters of a container's own network namespace, all interfaces but loopback."""

    def __init__(self, container: Container, proc: str = "/proc") -> None:
        self._proc, self._pid, mode = proc, container.pid, container.network_mode or ""
        self._namespace = self._number(self._pid)
        is_host = self._namespace is not None and self._namespace == self._number("1" if proc == "/proc" else "self")
        self._why: str | None = None
        if mode == "host" or is_host:
            self._why = HOST_NETWORK
        elif mode.startswith(("container:", "ns:")):
            self._why = SHARED_NETWORK

    def read(self) -> tuple[dict[str, Number], str | None]:
        """What it received and sent, or why that is not known."""
        if self._why is not None:
            return {}, self._why
        counters = parse_net_dev(read_text(f"{self._proc}/{self._pid}/net/dev"))
        if not counters or self._number(self._pid) != self._namespace:
            return {}, "its network namespace cannot be read"
        found = [counted for name, counted in counters.items() if name != LOOPBACK]
        if not found:
            return {}, NO_NETWORK
        return {key: sum(counted.get(key) or 0 for counted in found) for key in NET_KEYS}, None

    def _number(self, process: int | str | None) -> int | None:
        """The number of the namespace of a process; None if it belongs to another user."""
        try:
            return os.stat(f"{self._proc}/{process}/ns/net").st_ino
        except OSError:
            return None


def storage_values(contents: dict[str, str]) -> dict[str, Number]:
    """The bytes read and written; version 1 counts nothing before a rule for a device exists, so 0 is unknown there."""
    if V2_FILE in contents:
        counted = parse_io_stat(contents[V2_FILE])
    else:
        counted = parse_blkio(contents.get(RECURSIVE) or contents.get(V1_BYTES, ""), "")
        if not any(count for counts in counted.values() for count in counts.values()):
            return {}
    return {
        f"io.{name}": sum(counts.get(name, 0) for counts in counted.values()) for name in ("read_bytes", "write_bytes")
    }


def _paths(directories: Sequence[str]) -> dict[str, str]:
    """The files that are there beside those of CgroupReader; of several with one name the first."""
    names = (*PEAKS, *SWAPS, TASKS, *STORAGE)
    paths = [(name, f"{directory}/{name}") for directory in directories for name in names]
    return {name: path for name, path in reversed(paths) if os.path.exists(path)}
