"""The batteries of the machine, as /sys/class/power_supply reports them; those of mice and pens are not its own."""

from __future__ import annotations

import os

from jobtop.core.measure.collectors.attribute import read_attribute, read_number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jobtop.core.measure.collectors.host.files import Counters

SIGNS = {"Discharging": 1, "Charging": -1}
MICRO = 1e-6


def read_batteries(sys: str = "/sys") -> dict[str, Counters]:
    """Charge in percent, and the power that it supplies: less than 0 while it is charged."""
    directory = f"{sys}/class/power_supply"
    try:
        names = sorted(os.listdir(directory))
    except OSError:
        return {}
    found: dict[str, Counters] = {}
    for name in names:
        entry = f"{directory}/{name}"
        is_own = _word(f"{entry}/type") == "Battery" and _word(f"{entry}/scope") not in ("Device", None)
        if is_own and _word(f"{entry}/present") not in ("0", None):
            values: Counters = {"battery.charge": read_charge(entry), "battery.power": read_power(entry)}
            if any(value is not None for value in values.values()):
                found[name] = values
    return found


def read_charge(entry: str) -> float | None:
    """Percent of the full charge."""
    percent: float | None = read_number(f"{entry}/capacity")
    if percent is None:
        pairs = (
            (read_number(f"{entry}/{what}_now"), read_number(f"{entry}/{what}_full")) for what in ("energy", "charge")
        )
        percent = next((now / full * 100 for now, full in pairs if now is not None and full), None)
    return percent if percent is not None and 0 <= percent <= 100 else None


def read_power(entry: str) -> float | None:
    """Watts; the sign is that of the status, since drivers disagree about the sign of a current."""
    microwatts: float | None = read_number(f"{entry}/power_now")
    if microwatts is None:
        current, voltage = read_number(f"{entry}/current_now"), read_number(f"{entry}/voltage_now")
        microwatts = None if current is None or voltage is None else current * voltage * MICRO
    if microwatts is None:
        return None
    sign = SIGNS.get(_word(f"{entry}/status") or "")
    if sign is None:
        return 0.0 if microwatts == 0 else None
    return abs(microwatts) * MICRO * sign


def _word(path: str) -> str | None:
    """The word in a file; empty if the battery has no such file, None if it cannot be read."""
    attribute = read_attribute(path)
    return attribute.name if attribute.is_there else ""
