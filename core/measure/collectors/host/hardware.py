"""What /sys reports about the machine: which disks and interfaces are hardware, and the temperature.

Traffic of a partition, a mapper device, a bridge or a bond is counted again by what lies below it.
"""

import os
import re
from collections.abc import Iterable

from jobtop.core.measure.collectors.attribute import read_attribute

MEMORY_DISKS = re.compile(r"(loop|ram|zram)\d+$")
STACKED_DISKS = re.compile(r"(dm-|md|bcache|drbd|fd|sr|nbd)\d")
VIRTUAL_INTERFACES = re.compile(
    r"lo\d*$|(veth|docker|br-|br\d|virbr|lxc|lxd|cni|cali|flannel|cilium|kube|podman|vmnet|vnet|tun|tap|wg|tailscale|utun"
    r"|bond|team|vlan|macvtap|ifb|dummy|sit|gre|ip6|ipip|tunl|awdl|llw|anpi|gif|stf|ap\d|bridge)"
)
CPU_CHIPS = {"coretemp", "k10temp", "k8temp", "zenpower", "via_cputemp", "cpu_thermal", "soc_thermal"}
# GPUs have a temperature of their own, and reading a sleeping card or disk wakes it.
OTHER_CHIPS = re.compile(r"amdgpu|radeon|nouveau|i915|xe$|drivetemp|nvme|iwlwifi|mt7\d|ath\d|mlx|bnxt|INT3400")
CPU_ZONES = re.compile(r"x86_pkg|cpu|soc|tsens", re.IGNORECASE)
BOARD = 2  # the rank of sensors that are not of the CPU


def physical_disks(names: Iterable[str], sys: str = "/sys") -> tuple[frozenset[str], frozenset[str]]:
    """Which of these names are disks, and which of those are real hardware.

    Of a multipath NVMe disk these are its paths: the virtual disk above them counts nothing on older kernels.
    """
    everything = sorted(names)
    if not os.path.isdir(f"{sys}/block"):
        disks = {name for name in everything if not _is_partition(name, everything)}
        disks = {name for name in disks if not MEMORY_DISKS.match(name)}
        return frozenset(disks), frozenset(name for name in disks if not STACKED_DISKS.match(name))
    disks, physical = set(), set()
    for name in everything:
        entry = f"{sys}/block/{name.replace('/', '!')}"
        if MEMORY_DISKS.match(name) or not os.path.exists(entry):
            continue
        disks.add(name)
        if "/devices/virtual/" not in os.path.realpath(entry):
            physical.add(name)
    return frozenset(disks), frozenset(physical or {name for name in disks if not STACKED_DISKS.match(name)})


def physical_interfaces(names: Iterable[str], sys: str = "/sys") -> frozenset[str]:
    """Which of these interfaces are real hardware; in a container, which has none, those that lead out of it."""
    everything = set(names)
    entries = {name: f"{sys}/class/net/{name}" for name in everything}
    # On Azure the synthetic device and the card it is master of both count the same packets.
    physical = {
        name
        for name, entry in entries.items()
        if os.path.exists(f"{entry}/device") and not os.path.exists(f"{entry}/master/device")
    }
    return frozenset(physical or {name for name in everything if not VIRTUAL_INTERFACES.match(name)})


class Thermometer:
    """The hottest sensor of the CPU, or of those on the board that answer, where the CPU has none.

    It is not known if a sensor of the CPU cannot be read, or what a chip is: that one may be the hottest.
    """

    def __init__(self, sys: str = "/sys") -> None:
        self._sys = sys
        self._ranks: list[list[str]] | None = None
        self.problem: str | None = None

    def read(self) -> float | None:
        """Degrees Celsius, or None with a `problem`; sensors are looked for again when one is gone."""
        for is_known in (self._ranks is not None, False):
            try:
                degrees = self._hottest()
            except UnknownSensor as unknown:
                degrees, self.problem = None, str(unknown)
            if degrees is not None:
                self.problem = None
                return degrees
            self._ranks = None
            if not is_known:
                break
        return None

    def _hottest(self) -> float | None:
        """Degrees Celsius; None with a `problem` if no sensor has a plausible value."""
        if self._ranks is None:
            self._ranks = self._sensors()
        for rank, paths in enumerate(self._ranks):
            read = _degrees if rank < BOARD else _degrees_if_any
            if sane := [degrees for path in paths if (degrees := read(path)) is not None]:
                return max(sane)
        places = f"{self._sys}/class/hwmon and {self._sys}/class/thermal"
        why = "gives a plausible value" if any(self._ranks) else "belongs to a CPU or board"
        self.problem = f"no sensor in {places} {why}"
        return None

    def _sensors(self) -> list[list[str]]:
        """Files to read, in three ranks: chips of the CPU, thermal zones of it, anything else of the board."""
        ranks: list[list[str]] = [[], [], []]
        for chip in _entries(f"{self._sys}/class/hwmon", "hwmon"):
            name = _name(f"{chip}/name")
            if not OTHER_CHIPS.match(name):
                inputs = [entry for entry in _entries(chip, "temp") if entry.endswith("_input")]
                ranks[0 if name in CPU_CHIPS else BOARD] += inputs
        for zone in _entries(f"{self._sys}/class/thermal", "thermal_zone"):
            kind = _name(f"{zone}/type")
            if not OTHER_CHIPS.match(kind):
                ranks[1 if CPU_ZONES.search(kind) else BOARD].append(f"{zone}/temp")
        return ranks


class UnknownSensor(Exception):  # noqa: N818 - it is a value of `problem`
    """A sensor, or what it measures, cannot be read; the message names the file and the reason."""


def _is_partition(name: str, everything: list[str]) -> bool:
    """Whether the kernel made this name from another's: sda1 of sda, nvme0n1p1 of nvme0n1."""
    disk = re.sub(r"(?<=\d)p\d+$|(?<=[^\d])\d+$", "", name)
    return disk != name and disk in everything


def _entries(directory: str, prefix: str) -> list[str]:
    """The entries of a directory with a prefix; none if there is no such directory."""
    try:
        return [f"{directory}/{name}" for name in sorted(os.listdir(directory)) if name.startswith(prefix)]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise UnknownSensor(f"{directory}: {os.strerror(error.errno or 0)}") from error


def _name(path: str) -> str:
    attribute = read_attribute(path)
    if attribute.name is None:
        raise UnknownSensor(attribute.problem or f"{path}: not a name")
    return attribute.name


def _degrees(path: str) -> float | None:
    """A sensor that is not connected reads 0, −128 or 255, or has no value (ENODATA)."""
    attribute = read_attribute(path)
    if attribute.number is None:
        if attribute.is_there or not os.path.exists(path):
            raise UnknownSensor(attribute.problem or f"{path}: not a number")
        return None
    degrees = attribute.number / 1000
    return degrees if 0 < degrees < 150 else None


def _degrees_if_any(path: str) -> float | None:
    """The same of a sensor on the board: one that cannot be read is passed over."""
    try:
        return _degrees(path)
    except UnknownSensor:
        return None
