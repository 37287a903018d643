"""The alerts of the OCR callback: a threshold that is crossed in one reading is told at once."""

from __future__ import annotations

from jobtop.resource_numbers import gpu_numbers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

MARK = "⚠️ "
HOT_CELSIUS = 80.0


def underused_gpus(metrics: Mapping[str, float], threshold: float) -> Iterator[str]:
    """Yield a text for each GPU below the threshold; the name of the only GPU is left out, as in the OCR callback."""
    for number in gpu_numbers(metrics):
        util = metrics.get(f"gpu_{number}_util")
        if util is not None and util < threshold * 100:
            yield f"{MARK}{_gpu_name(metrics, number)} underutilized: {util:.1f}% {_limit(threshold)}"


def memory_pressure(metrics: Mapping[str, float], threshold: float) -> Iterator[str]:
    """Yield a text if more of the machine's memory is in use than the threshold."""
    used = metrics.get("memory_percent")
    if used is not None and used > threshold * 100:
        yield f"{MARK}High memory usage: {used:.1f}% {_limit(threshold)}"


def io_bottleneck(metrics: Mapping[str, float], threshold: float) -> Iterator[str]:
    """Yield a text if tasks waited for I/O longer than the threshold.

    The share of all cores never gets high on a machine with many of them, so the pressure counts too.
    """
    waits = [metrics[name] for name in ("io_wait_pct", "io_pressure_pct") if name in metrics]
    if waits and max(waits) > threshold * 100:
        yield f"{MARK}I/O bottleneck: {max(waits):.1f}% wait time {_limit(threshold)}"


def hot_gpus(metrics: Mapping[str, float]) -> Iterator[str]:
    """Yield a text for each GPU above 80 °C."""
    for number in gpu_numbers(metrics):
        temperature = metrics.get(f"gpu_{number}_temp_c")
        if temperature is not None and temperature > HOT_CELSIUS:
            yield f"{MARK}{_gpu_name(metrics, number)} temperature high: {temperature:g}°C"


def alerts_text(alerts: Sequence[str]) -> str:
    """Return the block that lists alerts."""
    return "\n".join([f"[Resources] {MARK}ALERTS:", *(f"  - {alert.removeprefix(MARK)}" for alert in alerts)])


def _gpu_name(metrics: Mapping[str, float], number: int) -> str:
    return "GPU" if gpu_numbers(metrics) == [0] else f"GPU {number}"


def _limit(threshold: float) -> str:
    return f"(threshold: {threshold * 100:g}%)"
