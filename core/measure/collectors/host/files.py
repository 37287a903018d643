"""What the files of /proc say about the machine, as counters by catalogue key; odd lines are passed over."""

import os
from collections.abc import Iterable, Mapping

from jobtop.core.record import record

Counters = dict[str, float | None]

TICK_SECONDS = 1 / os.sysconf("SC_CLK_TCK")
SECTOR_BYTES = 512  # of /proc/diskstats, whatever the disk has
DISK_KEYS = (
    *("disk.read_bytes", "disk.write_bytes", "disk.read_ops", "disk.write_ops"),
    *("disk.read_time", "disk.write_time", "disk.busy"),
)
NET_KEYS = ("net.rx_bytes", "net.tx_bytes", "net.rx_packets", "net.tx_packets", "net.errors", "net.drops")
MEMORY_FIELDS = frozenset({"MemTotal", "MemAvailable", "Buffers", "Cached", "Shmem", "SwapTotal", "SwapFree"})


@record
class CoreTimes:
    """Seconds of one core since boot: `rest` is all that was not work of this machine, iowait and steal included."""

    busy: float
    rest: float
    iowait: float | None = None
    steal: float | None = None


def parse_stat(text: str) -> dict[int, CoreTimes]:
    """The times of each core that is on. Those of guests are in `user` already."""
    cores = {}
    for line in text.partition("\nintr")[0].splitlines():
        words = line.split()
        if len(words) < 5 or not words[0].startswith("cpu") or words[0] == "cpu":
            continue
        try:
            core, ticks = int(words[0][3:]), list(map(int, words[1:9]))
        except ValueError:
            continue
        user, nice, system, idle, iowait, irq, softirq, steal = ticks + [0] * (8 - len(ticks))
        cores[core] = CoreTimes(
            (user + nice + system + irq + softirq) * TICK_SECONDS,
            (idle + iowait + steal) * TICK_SECONDS,
            iowait * TICK_SECONDS if len(ticks) > 4 else None,
            steal * TICK_SECONDS if len(ticks) > 7 else None,
        )
    return cores


def parse_loadavg(text: str) -> Counters:
    """The three load averages."""
    try:
        one, five, fifteen = map(float, text.split()[:3])
    except ValueError:
        return {}
    return {"load.1": one, "load.5": five, "load.15": fifteen}


def parse_meminfo(text: str) -> Counters:
    """Memory and swap. Shared memory is in `Cached`, but cannot be given back: it counts as used."""
    amounts: dict[str, int] = {}
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        words = rest.split() if name in MEMORY_FIELDS else ()
        if words and words[0].isdecimal():
            amounts[name] = int(words[0]) * 1024

    def known(*names: str) -> bool:
        return all(name in amounts for name in names)

    found: Counters = {"mem.total": amounts.get("MemTotal"), "mem.available": amounts.get("MemAvailable")}
    if known("MemTotal", "MemAvailable"):
        found["mem.used"] = amounts["MemTotal"] - amounts["MemAvailable"]
    if known("Cached"):
        cache = amounts["Cached"] + amounts.get("Buffers", 0) - amounts.get("Shmem", 0)
        found["mem.cached"] = max(0, cache)
    found["swap.total"] = amounts.get("SwapTotal")
    if known("SwapTotal", "SwapFree"):
        found["swap.used"] = amounts["SwapTotal"] - amounts["SwapFree"]
    return found


def parse_diskstats(text: str) -> dict[str, Counters]:
    """The counters of every block device, partitions and all."""
    devices: dict[str, Counters] = {}
    for line in text.splitlines():
        words = line.split()
        try:
            numbers = list(map(int, words[3:13]))
            devices[words[2]] = {
                "disk.read_bytes": numbers[2] * SECTOR_BYTES,
                "disk.write_bytes": numbers[6] * SECTOR_BYTES,
                "disk.read_ops": numbers[0],
                "disk.write_ops": numbers[4],
                "disk.read_time": numbers[3] / 1000,
                "disk.write_time": numbers[7] / 1000,
                "disk.busy": numbers[9] / 1000,
            }
        except (ValueError, IndexError):
            continue
    return devices


def parse_net_dev(text: str) -> dict[str, Counters]:
    """The counters of every interface of our network namespace."""
    interfaces: dict[str, Counters] = {}
    for line in text.splitlines():
        # Older kernels put no space after the colon, and an alias has one in its name.
        name, colon, numbers = line.rpartition(":")
        words = numbers.split()
        if not colon or len(words) < 12:
            continue
        try:
            interfaces[name.strip()] = {
                "net.rx_bytes": int(words[0]),
                "net.tx_bytes": int(words[8]),
                "net.rx_packets": int(words[1]),
                "net.tx_packets": int(words[9]),
                "net.errors": int(words[2]) + int(words[10]),
                "net.drops": int(words[3]) + int(words[11]),
            }
        except ValueError:
            continue
    return interfaces


def parse_uptime(text: str) -> float | None:
    """Seconds since boot."""
    try:
        return float(text.split(maxsplit=1)[0])
    except (ValueError, IndexError):
        return None


def total_of(devices: Mapping[str, Counters], chosen: Iterable[str], keys: Iterable[str]) -> Counters:
    """The sum of each key over the chosen devices; absent if there is none, or one does not tell."""
    counted = [devices[name] for name in chosen if name in devices]
    total: Counters = {}
    for key in keys:
        amounts = [amount for counters in counted if (amount := counters.get(key)) is not None]
        total[key] = sum(amounts) if amounts and len(amounts) == len(counted) else None
    return total
