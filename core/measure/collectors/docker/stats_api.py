"""What an engine's stats answer says a container uses: of Docker and Podman, of both versions of cgroups. Pure."""

from __future__ import annotations

from jobtop.core.measure.collectors.docker.answers import integer, items, mapping, moment, text
from jobtop.core.measure.collectors.docker.usage import Usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from jobtop.core.measure.collectors.docker.snapshot import Number

NETWORK = {
    "net.rx_bytes": ("rx_bytes",),
    "net.tx_bytes": ("tx_bytes",),
    "net.rx_packets": ("rx_packets",),
    "net.tx_packets": ("tx_packets",),
    "net.errors": ("rx_errors", "tx_errors"),
    "net.drops": ("rx_dropped", "tx_dropped"),
}
NO_STORAGE = "the engine reports no block I/O of it"
NO_NETWORK = "the engine reports no network of it"
NO_GPU = "engines do not report GPUs"
NO_DETAILS = "the engine reports only memory with page cache"


def usage_in(answer: Any) -> Usage | None:
    """What a container uses; None if it does not run: its answer has the year 1 or no CPU time."""
    answer = mapping(answer)
    read_at = moment(answer.get("read"))
    cpu = _cpu(mapping(answer.get("cpu_stats")))
    if read_at is None or "cpu.user" not in cpu:
        return None
    memory = mapping(answer.get("memory_stats"))
    stat = mapping(memory.get("stats"))
    storage, network = _storage(mapping(answer.get("blkio_stats"))), _network(answer)
    tasks = integer(mapping(answer.get("pids_stats")).get("current"))
    values = {**cpu, **_memory(memory, stat), **storage, **network, **({"proc.threads": tasks} if tasks else {})}
    charged, inactive = integer(memory.get("usage")), _first(stat, "total_inactive_file", "inactive_file")
    absent = {"gpu": NO_GPU} | ({"io": NO_STORAGE} if not storage else {})
    absent |= {"net": NO_NETWORK} if not network else {}
    absent |= {"mem": NO_DETAILS} if "mem.used" not in values else {}
    return Usage(
        values,
        read_at,
        None if charged is None or inactive is None else max(0, charged - inactive),
        integer(memory.get("max_usage")) or None,  # Podman says 0 where it does not know
        absent,
    )


def _cpu(stats: dict[str, Any]) -> dict[str, Number]:
    """The CPU time; user and system are made of ticks in version 1, their sum is not."""
    usage = mapping(stats.get("cpu_usage"))
    total = integer(usage.get("total_usage"))
    if total is None:
        return {}
    user, system = integer(usage.get("usage_in_usermode")), integer(usage.get("usage_in_kernelmode"))
    known = (user or 0) + (system or 0)
    in_user_mode = total * (user or 0) / known if known else float(total)
    found: dict[str, Number] = {"cpu.user": in_user_mode / 1e9, "cpu.system": (total - in_user_mode) / 1e9}
    throttled = integer(mapping(stats.get("throttling_data")).get("throttled_time"))
    return found if throttled is None else found | {"cpu.throttled": throttled / 1e9}


def _memory(memory: dict[str, Any], stat: dict[str, Any]) -> dict[str, Number]:
    """Version 1 has rss and cache where version 2 has anon and file; Podman leaves the details out.

    Version 1 does not tell shared memory here; its pages are in the lists of anonymous ones.
    """
    anon, shmem = _first(stat, "total_rss", "anon", "rss"), _first(stat, "total_shmem", "shmem")
    listed = [_first(stat, f"total_{name}", name) for name in ("active_anon", "inactive_anon")]
    if anon is not None and shmem is None and None not in listed:
        shmem = max(0, sum(count or 0 for count in listed) - anon)
    found = {
        "mem.cgroup": memory.get("usage"),
        "mem.anon": anon,
        "mem.file": _first(stat, "total_cache", "file"),
        "mem.shmem": shmem,
        "mem.used": None if anon is None or shmem is None else anon + shmem,
        "mem.faults_major": _first(stat, "total_pgmajfault", "pgmajfault"),
    }
    return _known(found)


def _storage(stats: dict[str, Any]) -> dict[str, Number]:
    """The bytes read and written; an empty list is unknown: new kernels count nothing before a rule exists."""
    rows = [mapping(row) for row in items(stats.get("io_service_bytes_recursive"))]
    counted: dict[str, Number] = {}
    for row in rows:
        name, value = (text(row.get("op")) or "").lower(), integer(row.get("value"))
        if name in ("read", "write") and value is not None:
            key = f"io.{name}_bytes"
            counted[key] = counted.get(key, 0) + value
    return counted


def _network(answer: dict[str, Any]) -> dict[str, Number]:
    interfaces = [mapping(each) for each in mapping(answer.get("networks")).values()]
    if not interfaces:
        return {}
    counts = {
        key: [integer(interface.get(name)) for interface in interfaces for name in names]
        for key, names in NETWORK.items()
    }
    return {key: sum(count or 0 for count in found) for key, found in counts.items() if None not in found}


def _first(stat: dict[str, Any], *names: str) -> int | None:
    return next((value for name in names if (value := integer(stat.get(name))) is not None), None)


def _known(values: dict[str, Any]) -> dict[str, Number]:
    return {key: number for key, value in values.items() if (number := integer(value)) is not None}
