"""NVIDIA's GPUs through NVML; the one door to it."""

from __future__ import annotations

from functools import cache


def device_count() -> int:
    """How many GPUs NVML knows of; none where it, its driver or its library is not there."""
    try:
        return _counted()
    except Exception:  # noqa: BLE001 - a collector's border: whatever a driver does is no GPU
        return 0


@cache  # of answers, not of errors: `nvmlInit` can take two seconds, and a driver may be loaded later
def _counted() -> int:
    import pynvml  # type: ignore[import-untyped,unused-ignore]

    pynvml.nvmlInit()
    try:
        return int(pynvml.nvmlDeviceGetCount())
    finally:
        pynvml.nvmlShutdown()
