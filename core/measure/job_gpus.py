"""The names of the series of what a job uses of one GPU: `gpu.util@0-8f6c77aa`."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

GPU_KEYS = PERCENT, MEMORY = "gpu.util", "gpu.mem_used"
SIGN = "@"


def series_name(key: str, device: str) -> str:
    """The name of the series of one metric of a job on one GPU."""
    return f"{key}{SIGN}{device}"


def parse_series(name: str) -> tuple[str, str] | None:
    """The metric and the device in the name of a series; None if a job chose the name itself."""
    key, sign, device = name.partition(SIGN)
    return (key, device) if sign and device and key in GPU_KEYS else None


def devices_in(names: Iterable[str]) -> list[str]:
    """The GPUs in names of series, in their order."""
    found = dict.fromkeys(parsed[1] for name in names if (parsed := parse_series(name)) is not None)
    return list(found)
