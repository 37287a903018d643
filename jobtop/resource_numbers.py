"""The numbers of a training, made of the readings of its block, under the names of the OCR callback; no state, no I/O.

What is not known has no key. A megabyte is 1024 × 1024 bytes, as in that callback.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    Metrics = dict[str, float]
    Reading = Mapping[str, Any]

MIB = 1 << 20
ABSENT = "–"
GPU_COLUMNS = ("util", "memory_used_mb", "memory_total_mb", "memory_pct", "temp_c", "power_w")
CPU_COLUMNS = ("cpu_percent", "cpu_process_percent")
MEMORY_COLUMNS = ("memory_system_mb", "memory_available_mb", "memory_percent", "memory_process_mb")
DISK_COLUMNS = ("disk_read_mb", "disk_write_mb", "io_read_rate_mbps", "io_write_rate_mbps")
WAIT_COLUMNS = ("io_wait_pct", "io_pressure_pct")
NETWORK_COLUMNS = ("net_recv_mb", "net_sent_mb", "net_recv_rate_mbps", "net_sent_rate_mbps")


def gpu_metrics(reading: Reading, environ: Mapping[str, str]) -> Metrics:
    """Return the numbers of each GPU that the training can see, numbered as nvidia-smi does."""
    metrics: Metrics = {}
    for number, gpu in _visible_gpus(_training_gpus(reading.get("gpus", ())), environ):
        used, total = gpu.get("gpu.mem_used"), gpu.get("gpu.mem_total")
        values = {
            "util": gpu.get("gpu.util"),
            "memory_used_mb": _megabytes(used),
            "memory_total_mb": _megabytes(total),
            "memory_pct": None if used is None or not total else 100 * used / total,
            "temp_c": gpu.get("gpu.temp"),
            "power_w": gpu.get("gpu.power"),
        }
        metrics |= _known({f"gpu_{number}_{name}": value for name, value in values.items()})
    return metrics


def cpu_memory_metrics(reading: Reading) -> Metrics:
    """Return CPU and memory of the machine, of each core, and of the training with all its processes."""
    host, job, cores = reading.get("host", {}), reading.get("job", {}), reading.get("cores", ())
    total, available, busy = host.get("mem.total"), host.get("mem.available"), host.get("cpu.percent")
    values = {
        "cpu_percent": None if busy is None else busy / _core_count(reading),
        "cpu_process_percent": job.get("cpu.percent"),
        "memory_system_mb": _megabytes(total),
        "memory_available_mb": _megabytes(available),
        "memory_percent": None if available is None or not total else 100 * (total - available) / total,
        "memory_process_mb": _megabytes(job.get("mem.used", job.get("mem.rss"))),
    }
    return _known(values | {f"cpu_core_{number}_percent": percent for number, percent in enumerate(cores)})


def wait_metrics(reading: Reading) -> Metrics:
    """Return the waiting for I/O: its share of the time of all cores, and the share of time in which a task waited."""
    host = reading.get("host", {})
    waiting, pressure = host.get("cpu.iowait"), host.get("io.pressure")
    values = {
        "io_wait_pct": None if waiting is None else waiting / _core_count(reading),
        "io_pressure_pct": None if pressure is None else min(100.0, 100 * pressure),
    }
    return _known(values)


def network_rates(reading: Reading) -> Metrics:
    """Return how fast the machine received and sent before the reading."""
    host = reading.get("host", {})
    rates = zip(NETWORK_COLUMNS[2:], ("net.rx_bytes", "net.tx_bytes"), strict=True)
    return _known({name: _megabytes(host.get(key)) for name, key in rates})


class Traffic:
    """How far counters have grown since the last check; with the time of a reading, also how fast."""

    def __init__(self, names: Mapping[str, str], rates: Mapping[str, str], starts_at_zero: bool = False) -> None:
        self._names, self._rate_names = names, rates
        self._before = (0.0, 0.0) if starts_at_zero else None
        self._seen: dict[str, tuple[float, float]] = {}
        self._rates: Metrics = {}

    def metrics(self, counters: Mapping[str, float], seconds: float = 0.0) -> Metrics:
        """Return the growth and the rate of each counter.

        The same reading again has the same rates, and no growth: what was read meanwhile is not known yet.
        """
        metrics: Metrics = {}
        for key, name in self._names.items():
            value, before = counters.get(key), self._seen.get(key, self._before)
            if value is None:
                continue
            self._seen[key] = (seconds, value)
            if before is None or value < before[1] or (self._rate_names and seconds <= before[0]):
                continue
            metrics[name] = (value - before[1]) / MIB
            if key in self._rate_names:
                self._rates[self._rate_names[key]] = metrics[name] / (seconds - before[0])
        return metrics | self._rates


def disk_traffic() -> Traffic:
    """What the processes of the training read from and wrote to storage; counters are 0 when its block begins."""
    keys = ("io.read_bytes", "io.write_bytes")
    names, rates = (dict(zip(keys, part, strict=True)) for part in (DISK_COLUMNS[:2], DISK_COLUMNS[2:]))
    return Traffic(names, rates, starts_at_zero=True)


def network_traffic() -> Traffic:
    """What the machine received and sent."""
    return Traffic({"net.rx_bytes": "net_recv_mb", "net.tx_bytes": "net_sent_mb"}, {})


def gpu_numbers(metrics: Mapping[str, float]) -> list[int]:
    """Return the numbers of the GPUs that metrics are of."""
    words = (name.split("_") for name in metrics if name.startswith("gpu_"))
    return sorted({int(parts[1]) for parts in words if parts[1].isdigit()})


def columns(metrics: Mapping[str, float], with_cpu: bool, with_io: bool) -> list[str]:
    """Return the columns of a file for such metrics: also those that are not known yet, in an order that is kept."""
    names = [f"gpu_{number}_{name}" for number in gpu_numbers(metrics) for name in GPU_COLUMNS]
    if with_cpu:
        names += (*CPU_COLUMNS, *MEMORY_COLUMNS)
    if with_io:
        names += (*DISK_COLUMNS, *WAIT_COLUMNS)
    if with_cpu:
        names += (f"cpu_core_{number}_percent" for number in range(os.cpu_count() or 0))
    if with_io:
        names += NETWORK_COLUMNS
    return list(dict.fromkeys([*names, *metrics]))


def console_text(batch: int, metrics: Mapping[str, float]) -> str:
    """Return the block that is printed every few batches; a line of which nothing is known is left out."""
    lines = [f"[Resources] Batch {batch}:", *(_gpu_line(metrics, number) for number in gpu_numbers(metrics))]

    def shown(name: str, form: str = ".1f") -> str:
        return format(metrics[name], form) if name in metrics else ABSENT

    if any(name in metrics for name in CPU_COLUMNS):
        lines.append(f"  CPU: {shown('cpu_percent')}% (process: {shown('cpu_process_percent')}%)")
    if "memory_available_mb" in metrics and metrics.get("memory_system_mb"):
        available, total = metrics["memory_available_mb"], metrics["memory_system_mb"]
        lines.append(f"  Memory: {available:.0f}/{total:.0f} MB available ({100 * available / total:.0f}%)")
    if any(name in metrics for name in (*DISK_COLUMNS, *WAIT_COLUMNS)):
        read, written = shown("io_read_rate_mbps"), shown("io_write_rate_mbps")
        lines.append(f"  I/O: Read {read} MB/s, Write {written} MB/s, Wait {shown('io_wait_pct')}%")
    return "\n".join(lines)


def _gpu_line(metrics: Mapping[str, float], number: int) -> str:
    def value(name: str) -> float | None:
        return metrics.get(f"gpu_{number}_{name}")

    util, used, total, temperature = map(value, ("util", "memory_used_mb", "memory_total_mb", "temp_c"))
    parts = [f"{ABSENT if util is None else format(util, '.1f')}% util"]
    if used is not None:
        of_total = "" if not total else f"/{total:.0f}"
        parts.append(f"{used:.0f}{of_total} MB" + (f" ({100 * used / total:.0f}%)" if total else ""))
    if temperature is not None:
        parts.append(f"{temperature:.0f}°C")
    return f"  GPU {number}: {', '.join(parts)}"


def _training_gpus(gpus: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Leave out parts of GPUs, which the whole GPU counts, and graphics without memory of their own."""
    whole = [gpu for gpu in gpus if "." not in str(gpu.get("name", "")).partition("-")[0]] or list(gpus)
    usable = [gpu for gpu in whole if gpu.get("vendor") == "nvidia" or gpu.get("gpu.mem_total")]
    return sorted(usable, key=lambda gpu: gpu.get("vendor") != "nvidia")


def _visible_gpus(
    gpus: Sequence[Mapping[str, Any]], environ: Mapping[str, str]
) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield the GPUs that CUDA_VISIBLE_DEVICES leaves, with their numbers; all of them where that is not certain."""
    own, mask = [gpu for gpu in gpus if gpu.get("vendor") == "nvidia"], environ.get("CUDA_VISIBLE_DEVICES")
    # CUDA numbers GPUs by speed, unless told to; of one product there is no difference.
    is_numbered = environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID" or len({gpu.get("product") for gpu in own}) == 1
    seen = {str(number) for number in range(len(own))}
    if mask is not None and own and is_numbered:
        from jobtop.core.run.capacity import visible

        names = visible(mask, len(own))
        seen = set(names) if all(map(str.isdigit, names)) else seen
    for number, gpu in enumerate(gpus):
        if gpu.get("vendor") != "nvidia" or str(number) in seen:
            yield number, gpu


def _core_count(reading: Reading) -> int:
    return len(reading.get("cores", ())) or os.cpu_count() or 1


def _megabytes(value: float | None) -> float | None:
    return None if value is None else value / MIB


def _known(values: Mapping[str, float | None]) -> Metrics:
    return {name: value for name, value in values.items() if value is not None}
