"""The memory of each NUMA node, as /sys/devices/system/node reports it."""

from __future__ import annotations

import os
import re

from jobtop.core.measure.collectors.attribute import read_attribute
from jobtop.core.procfs import word_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jobtop.core.measure.collectors.host.files import Counters

NODE = re.compile(r"node(\d+)$")


def read_nodes(sys: str = "/sys") -> dict[str, Counters]:
    """The values of each node by its number; a node that reports nothing is left out."""
    directory = f"{sys}/devices/system/node"
    try:
        names = os.listdir(directory)
    except OSError:
        return {}
    numbers = sorted(int(match[1]) for name in names if (match := NODE.match(name)))
    nodes = {str(number): read_node(f"{directory}/node{number}") for number in numbers}
    return {name: values for name, values in nodes.items() if any(value is not None for value in values.values())}


def read_node(directory: str) -> Counters:
    """Memory of a node: what is in use without page cache and reclaimable memory, as for the host."""
    amounts: dict[str, int] = {}
    for line in (read_attribute(f"{directory}/meminfo").text or "").splitlines():
        words = line.split()  # Node 0 MemTotal: 11757788 kB
        if len(words) == 5 and words[3].isdecimal():
            amounts[words[2].rstrip(":")] = int(words[3]) * 1024
    total, free, pages = (amounts.get(name) for name in ("MemTotal", "MemFree", "FilePages"))
    cached = None if pages is None else max(0, pages - amounts.get("Shmem", 0) - amounts.get("SwapCached", 0))
    used = None
    if total is not None and free is not None and cached is not None:
        used = max(0, total - free - cached - amounts.get("SReclaimable", 0))
    misses = word_in(read_attribute(f"{directory}/numastat").text or "", "numa_miss ")
    return {
        "mem.total": total,
        "mem.used": used,
        "mem.cached": cached,
        "numa.misses": int(misses) if misses.isdecimal() else None,
    }
