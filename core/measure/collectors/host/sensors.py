"""The temperatures and fans of the machine: every sensor of /sys/class/hwmon, and the thermal zones.

GPUs are left to the sources of GPUs. A device that sleeps is not asked, since that wakes it. A disk behind `drivetemp`
never is: each reading would start its idle timer again. A chip without a name could be one of these.
"""

from __future__ import annotations

import os
import re
from collections import Counter

from jobtop.core.measure.collectors.attribute import read_attribute, read_name, read_number
from jobtop.core.record import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from jobtop.core.measure.collectors.host.files import Counters

# INT3400 is a switch of the firmware; its temperature is not measured.
NEVER_READ = re.compile(r"amdgpu|radeon|nouveau|nvidia|i915|xe$|drivetemp|INT3400", re.IGNORECASE)
INPUT = re.compile(r"(temp|fan)(\d+)_input$")
KEYS = {"temp": "temp", "fan": "fan.speed"}
FASTEST_RPM = 100_000
LOOK_AGAIN = 6  # readings, after which new sensors are looked for


@record
class Sensor:
    """One file of a sensor, what it measures, and the device that must not sleep when it is read."""

    name: str
    key: str
    path: str
    device: str


class Sensors:
    """Reads all sensors; which there are is looked up now and then, as a module may be loaded or a disk plugged in."""

    def __init__(self, sys: str = "/sys") -> None:
        self._sys = sys
        self._sensors: list[Sensor] = []
        self._readings_left = 0

    def collect(self) -> dict[str, Counters]:
        """The values by the name of the sensor; one that gives no plausible value, or sleeps, is left out."""
        if self._readings_left <= 0 or not self._sensors:
            self._readings_left, self._sensors = LOOK_AGAIN, find_sensors(self._sys)
        self._readings_left -= 1
        found: dict[str, Counters] = {}
        for sensor in self._sensors:
            if not is_asleep(sensor.device) and (value := read_sensor(sensor)) is not None:
                found[sensor.name] = {sensor.key: value}
        return found


def find_sensors(sys: str) -> list[Sensor]:
    """The sensors of all chips and thermal zones, with different names."""
    return _told_apart([*_chip_sensors(f"{sys}/class/hwmon"), *_zone_sensors(f"{sys}/class/thermal")])


def read_sensor(sensor: Sensor) -> float | None:
    """Degrees Celsius or revolutions per minute; a sensor that is not connected reads 0, −128 or 255 degrees."""
    number = read_number(sensor.path)
    if number is None:
        return None
    if sensor.key == "fan.speed":
        return number if 0 <= number < FASTEST_RPM else None
    degrees = number / 1000
    return degrees if 0 < degrees < 150 else None


def is_asleep(device: str) -> bool:
    """Whether a device, or the one that it is a part of, is suspended."""
    statuses = (f"{device}/power/runtime_status", f"{device}/device/power/runtime_status")
    return any(read_attribute(path).text in ("suspended", "suspending") for path in statuses)


def _chip_sensors(directory: str) -> list[Sensor]:
    read = {chip: read_name(f"{directory}/{chip}/name") for chip in _numbered(directory, "hwmon")}
    names = {chip: name for chip, name in read.items() if name and not NEVER_READ.match(name)}
    alike = Counter(names.values())
    found = []
    for chip, name in names.items():
        entry = f"{directory}/{chip}"
        device = f"{entry}/device"
        if alike[name] > 1:
            # The device has the same name after the next boot; the number of the chip may be another one.
            names[chip] = os.path.basename(os.path.realpath(device)) if os.path.exists(device) else f"{name} {chip}"
        for measured, number in sorted(_inputs(entry), key=lambda found: (found[0] != "temp", found[1])):
            label = read_name(f"{entry}/{measured}{number}_label") or f"{measured}{number}"
            path = f"{entry}/{measured}{number}_input"
            found.append(Sensor(f"{names[chip]} {label}", KEYS[measured], path, device))
    return found


def _zone_sensors(directory: str) -> list[Sensor]:
    found = []
    for zone in _numbered(directory, "thermal_zone"):
        entry = f"{directory}/{zone}"
        kind = read_name(f"{entry}/type")
        # Most zones are sensors of hwmon too, in a directory below them.
        if kind and not NEVER_READ.match(kind) and not _numbered(entry, "hwmon"):
            found.append(Sensor(kind, "temp", f"{entry}/temp", f"{entry}/device"))
    return found


def _told_apart(sensors: list[Sensor]) -> list[Sensor]:
    """Sensors with a name that others have too get the name of their file."""
    alike = Counter(sensor.name for sensor in sensors)
    return [
        Sensor(f"{sensor.name} {_file_name(sensor.path)}", sensor.key, sensor.path, sensor.device)
        if alike[sensor.name] > 1
        else sensor
        for sensor in sensors
    ]


def _file_name(path: str) -> str:
    """What tells a sensor from others with the same label: `temp7`, or `zone 1`."""
    directory, file = os.path.split(path)
    if file == "temp":
        return os.path.basename(directory).replace("thermal_zone", "zone ")
    return file.removesuffix("_input")


def _inputs(entry: str) -> Iterable[tuple[str, int]]:
    return ((match[1], int(match[2])) for name in _listed(entry) if (match := INPUT.match(name)))


def _numbered(directory: str, prefix: str) -> list[str]:
    """The entries with this prefix and a number, in the order of the numbers."""
    names = [name for name in _listed(directory) if name.startswith(prefix) and name[len(prefix) :].isdecimal()]
    return sorted(names, key=lambda name: int(name[len(prefix) :]))


def _listed(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []
