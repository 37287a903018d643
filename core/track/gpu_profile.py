"""What the GPUs of a machine did during a tracked block, in the shape of Keystone's `gpu_stats`.

Keystone knows one GPU of each vendor. Its keys are here means over the readings, and of several GPUs: the mean of their
utilisation, the sum of their memory, the temperature of the hottest. `gpus` has each of them.
"""

from __future__ import annotations

import re

from jobtop.core.measure.live.newest_gpus import gpu_number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    Number = int | float

MIB = 1 << 20
MEASURED = ("gpu.util", "gpu.mem_used", "gpu.mem_total", "gpu.temp", "gpu.power")


def vendor_of(name: str) -> str:
    """The vendor in the name of a GPU: `intel` of `intel0-00:02.0`; those of NVIDIA have a number alone."""
    found = re.match(r"([a-z][a-z_]*)\d*-", name)
    return found[1] if found else "nvidia"


class OneGpu:
    """The readings of one GPU: how many there were of each gauge, their sum and the highest."""

    def __init__(self, name: str, product: str | None) -> None:
        self.name, self.product = name, product
        self.is_instance = "." in gpu_number(name)  # a part of a GPU, which is counted by the whole one
        self._counts: dict[str, int] = {}
        self._sums: dict[str, Number] = {}
        self.highest: dict[str, Number] = {}

    def add(self, gauges: Mapping[str, Any]) -> None:
        for key in MEASURED:
            value = gauges.get(key)
            if value is not None:
                self._counts[key] = self._counts.get(key, 0) + 1
                self._sums[key] = self._sums.get(key, 0) + value
                self.highest[key] = max(self.highest.get(key, value), value)

    def mean(self, key: str) -> float | None:
        return self._sums[key] / self._counts[key] if key in self._counts else None

    def summary(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "product": self.product,
            **_usage([self]),
            "max_gpu_utilization_percent": _rounded(self.highest.get("gpu.util")),
            "max_memory_used_mb": _megabytes(self.highest.get("gpu.mem_used")),
            "max_temperature_celsius": _rounded(self.highest.get("gpu.temp")),
            "power_watts": _rounded(self.mean("gpu.power")),
            "max_power_watts": _rounded(self.highest.get("gpu.power")),
        }


class GpuTally:
    """Sums up the readings of all GPUs, by vendor."""

    def __init__(self) -> None:
        self._gpus: dict[str, dict[str, OneGpu]] = {}

    def add(self, gpus: Iterable[Mapping[str, Any]]) -> None:
        """Take one reading of each GPU; those that are not in it have no reading."""
        for place, gauges in enumerate(gpus):
            name = str(gauges.get("name", place))
            known = self._gpus.setdefault(str(gauges.get("vendor", "nvidia")), {})
            if name not in known:
                known[name] = OneGpu(name, gauges.get("product"))
            known[name].add(gauges)

    def summary(self) -> dict[str, Any]:
        """By vendor; empty without a GPU."""
        return {vendor: _vendor_summary(vendor, list(gpus.values())) for vendor, gpus in self._gpus.items()}


def _vendor_summary(vendor: str, gpus: list[OneGpu]) -> dict[str, Any]:
    whole = [gpu for gpu in gpus if not gpu.is_instance] or gpus
    each = [gpu.summary() for gpu in gpus]
    if vendor == "intel":
        return {"render_busy_percent": _rounded(_mean(gpu.mean("gpu.util") for gpu in whole)), "available": True} | {
            "gpus": each
        }
    return _usage(whole) | {"gpus": each}


def _usage(gpus: list[OneGpu]) -> dict[str, Any]:
    """Keystone's five keys; how full the memory is, is its part in use."""
    used, total = (_sum(gpu.mean(key) for gpu in gpus) for key in ("gpu.mem_used", "gpu.mem_total"))
    heat = [degrees for gpu in gpus if (degrees := gpu.mean("gpu.temp")) is not None]
    return {
        "gpu_utilization_percent": _rounded(_mean(gpu.mean("gpu.util") for gpu in gpus)),
        "memory_utilization_percent": None if used is None or not total else _rounded(100 * used / total),
        "memory_used_mb": _megabytes(used),
        "memory_total_mb": _megabytes(total),
        "temperature_celsius": _rounded(max(heat, default=None)),
    }


def _sum(values: Iterable[float | None]) -> float | None:
    """The sum; None if one is not known."""
    listed = list(values)
    known = [value for value in listed if value is not None]
    return sum(known) if known and len(known) == len(listed) else None


def _mean(values: Iterable[float | None]) -> float | None:
    """The mean of those that are known."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _megabytes(value: Number | None) -> float | None:
    return None if value is None else round(value / MIB, 6)


def _rounded(value: Number | None) -> float | None:
    return None if value is None else round(float(value), 3)
