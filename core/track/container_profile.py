"""What one container used while it was watched, in the shape of Keystone's `container_stats`. Pure."""

from __future__ import annotations

from jobtop.core.clock import iso
from jobtop.core.record import as_dict
from jobtop.core.track.profile import Spread, megabytes, rounded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from jobtop.core.measure.collectors.docker.model import Container
    from jobtop.core.measure.collectors.docker.snapshot import ContainerRow

BINARY, DECIMAL = ("B", "KiB", "MiB", "GiB", "TiB", "PiB"), ("B", "kB", "MB", "GB", "TB", "PB")
TRAFFIC = ("net.rx_bytes", "net.tx_bytes", "io.read_bytes", "io.write_bytes")


class ContainerTally:
    """Sums up the readings of one container; a container that was started again goes on."""

    def __init__(self, host_memory_bytes: int | None) -> None:
        self._host_memory_bytes = host_memory_bytes
        self._cpu, self._memory = Spread(), Spread()
        self._limit_bytes: float | None = None
        self._last: dict[str, float] = {}
        self._earlier: dict[str, float] = {}  # what counters had reached before they began again
        self._read_at: float | None = None

    def add(self, row: ContainerRow) -> None:
        """Take a reading; one that was taken before, or has no numbers, changes nothing."""
        if row.source is None or row.read_at is None or row.read_at == self._read_at:
            return
        self._read_at = row.read_at
        self._cpu.add(row.cpu_percent)
        memory = row.working_set_bytes if row.working_set_bytes is not None else row.memory_bytes
        self._memory.add(memory)
        self._limit_bytes = row.values.get("limit.memory", self._limit_bytes)
        for key in TRAFFIC:
            value, before = row.values.get(key), self._last.get(key)
            if value is None:
                continue
            if before is not None and value < before:
                self._earlier[key] = self._earlier.get(key, 0) + before
            self._last[key] = value

    def stats(self) -> dict[str, Any]:
        """Keystone's texts, which are those of `docker stats`, and numbers beside them; empty without a reading.

        The percentage is a mean, memory is the most there was; traffic is that of the container since its start.
        """
        if self._read_at is None:
            return {}
        limit = self._limit_bytes or self._host_memory_bytes
        most = self._memory.highest
        share = 100 * most / limit if most is not None and limit else None
        received, sent, read, written = map(self._total, TRAFFIC)
        return {
            "cpu_percent": _number_text(self._cpu.mean),
            "memory_usage": f"{size_text(most, BINARY, 1024, 4)} / {size_text(limit, BINARY, 1024, 4)}",
            "memory_percent": _number_text(share),
            "net_io": f"{size_text(received, DECIMAL, 1000, 3)} / {size_text(sent, DECIMAL, 1000, 3)}",
            "block_io": f"{size_text(read, DECIMAL, 1000, 3)} / {size_text(written, DECIMAL, 1000, 3)}",
            "samples_collected": max(self._cpu.count, self._memory.count),
            "cpu_mean_percent": rounded(self._cpu.mean),
            "cpu_max_percent": rounded(self._cpu.highest),
            "memory_mean_mb": megabytes(self._memory.mean),
            "memory_max_mb": megabytes(most),
            "memory_limit_mb": megabytes(self._limit_bytes),
            "net_received_mb": megabytes(received),
            "net_sent_mb": megabytes(sent),
            "block_read_mb": megabytes(read),
            "block_write_mb": megabytes(written),
        }

    def _total(self, key: str) -> float | None:
        return None if key not in self._last else self._last[key] + self._earlier.get(key, 0)


def container_info(container: Container, engine: str) -> dict[str, Any]:
    """What an engine says about a container, as plain values; times are ISO 8601 in UTC."""
    limits = container.limits
    return {
        "id": container.id,
        "name": container.name,
        "status": container.state,
        "image": container.image,
        "engine": engine,
        "command": list(container.command),
        "created": iso(container.created_at),
        "started_at": iso(container.started_at),
        "finished_at": iso(container.finished_at),
        "exit_code": container.exit_code,
        "oom_killed": container.is_oom_killed,
        "restart_count": container.restarts,
        "health": container.health,
        "pid": container.pid,
        "network_mode": container.network_mode,
        "labels": dict(container.labels),
        "limits": as_dict(limits),
    }


def size_text(value: float | None, units: tuple[str, ...], step: int, digits: int) -> str:
    """A size as `docker stats` prints it; `--` is not known."""
    if value is None:
        return "--"
    place = 0
    while value >= step and place < len(units) - 1:
        value, place = value / step, place + 1
    return f"{value:.{digits}g}{units[place]}"


def _number_text(value: float | None) -> str:
    return "nan" if value is None else f"{value:.2f}"
