"""The energy counters of CPU packages in /sys/class/powercap (RAPL); AMD's have the same names as Intel's."""

from __future__ import annotations

import os

from jobtop.core.measure.collectors.attribute import Attribute, read_attribute, read_number
from jobtop.core.measure.collectors.open_file import KeptFile
from jobtop.core.measure.collectors.process_fields import is_count
from jobtop.core.record import record

MICRO = 1e-6
# More than any package draws. A counter that grows faster was reset; after a long pause it may have wrapped twice.
MOST_WATTS = 1500.0
SHORTEST_SECONDS = 0.05  # the counters are updated about every millisecond


class EnergyError(Exception):
    """The counters cannot be read; the message names the file and the reason."""


@record
class Zone:
    """One counter: its directory, and the highest value it counts to in microjoules; None if that is not known."""

    directory: str
    range_microjoules: int | None


@record
class Package:
    """A CPU package: its own counter and the one of its memory, where that is counted apart.

    `problem`: why it is not known which counters it has.
    """

    name: str
    zones: tuple[Zone, ...]
    problem: str | None = None


def find_packages(sys: str) -> list[Package]:
    """The packages of this machine, each with its `dram` zone if it has one.

    The zones `core` and `uncore` are parts of a package, `psys` includes all packages, and `intel-rapl-mmio` is a
    second interface to the same counters: adding any of them would count energy twice. A zone of which the name cannot
    be read may be any of these.
    """
    directory = f"{sys}/class/powercap"
    names = sorted(name for name in _listed(directory) if name.startswith("intel-rapl:"))
    titles = {name: read_attribute(f"{directory}/{name}/name") for name in names}
    packages, used = [], set[str]()
    for name in names:
        title = titles[name].name or name
        if name.count(":") != 1 or not (title.startswith("package") or title == name):
            continue
        parts = [name, *(below for below in names if below.startswith(f"{name}:"))]
        problem = next(filter(None, (_title_problem(f"{directory}/{part}/name", titles[part]) for part in parts)), None)
        memory = [part for part in parts if titles[part].name == "dram"]
        zones = tuple(_zone(f"{directory}/{zone}") for zone in (name, *memory))
        packages.append(Package(title if title not in used else f"{title}-{name}", zones, problem))
        used.add(title)
    return packages


def has_powercap(sys: str) -> bool:
    """Whether the kernel has energy counters of CPU packages."""
    return any(name.startswith("intel-rapl:") for name in _listed(f"{sys}/class/powercap"))


def read_problem(packages: list[Package]) -> str | None:
    """Why the counters cannot be read, or None."""
    if not packages:
        return "no CPU package has an energy counter"
    reader = CounterFiles(packages)
    try:
        reader.read()
    except EnergyError as problem:
        return str(problem)
    finally:
        reader.close()
    return None


class CounterFiles:
    """The counters of all packages, kept open."""

    def __init__(self, packages: list[Package]) -> None:
        self._problem = next((package.problem for package in packages if package.problem is not None), None)
        self.zones = [zone for package in packages for zone in package.zones]
        self._files = [KeptFile(f"{zone.directory}/energy_uj", is_one_record=True) for zone in self.zones]

    def read(self) -> list[int]:
        """All counters in microjoules, in the order of `zones`; EnergyError if one cannot be read."""
        if self._problem is not None:
            raise EnergyError(self._problem)
        values = []
        for file in self._files:
            text = file.read().strip()
            if not is_count(text):
                raise EnergyError(file.problem or f"{file.path}: not a number")
            values.append(int(text))
        return values

    def close(self) -> None:
        for file in self._files:
            file.close()


def joules_between(before: int, after: int, seconds: float, zone: Zone) -> float | None:
    """The energy between two readings of a counter; None if it was reset or may have wrapped more than once."""
    most = MOST_WATTS * max(seconds, SHORTEST_SECONDS)
    span = zone.range_microjoules
    grown = after - before
    if grown < 0 and span is not None:
        grown += span
    if grown < 0 or grown * MICRO > most or (span is not None and most > span * MICRO):
        return None
    return grown * MICRO


def _zone(directory: str) -> Zone:
    span = read_number(f"{directory}/max_energy_range_uj")
    return Zone(directory, span if span is not None and span > 0 else None)


def _title_problem(path: str, title: Attribute) -> str | None:
    return None if title.name is not None else title.problem or f"{path}: not a name"


def _listed(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []
