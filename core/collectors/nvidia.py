"""NVIDIA's GPUs through NVML; the one door to it."""

from __future__ import annotations


def device_count() -> int:
    """How many GPUs NVML knows of; none where it, its driver or its library is not there."""
    try:
        import pynvml  # type: ignore[import-untyped,unused-ignore]

        pynvml.nvmlInit()
    except Exception:  # noqa: BLE001 - a collector's border: whatever a driver does is no GPU
        return 0
    try:
        return int(pynvml.nvmlDeviceGetCount())
    except pynvml.NVMLError:
        return 0
    finally:
        pynvml.nvmlShutdown()
