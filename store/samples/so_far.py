"""What a running job has used so far, from its samples."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from jobtop.core.model import Job
from jobtop.core.record import replace
from jobtop.store.samples.curves import Curves

Number = float | int
ENERGIES = {"energy.cpu": "energy_cpu_joules", "energy.gpu": "energy_gpu_joules"}  # and their fields in a record
NETWORK = {"net.rx_bytes": "net_rx_bytes", "net.tx_bytes": "net_tx_bytes"}
CPU_TIMES = ("cpu.user", "cpu.system")


def with_usage_so_far(curves: Curves, job: Job) -> Job:
    """Return a running job with its duration, and what it used so far; other jobs unchanged."""
    if job.status.ended or job.start_time is None:
        return job
    series = curves.series(job, (*CPU_TIMES, "mem.used", *ENERGIES, *NETWORK))
    values, elapsed = series.values, max(0.0, time.time() - job.start_time)
    known = {"cpu_total_seconds": cpu_so_far(job, values), "memory_peak_bytes": memory_so_far(job, values)}
    known |= {field: values[key][-1] for key, field in (ENERGIES | NETWORK).items() if values[key]}
    usage = replace(job.usage, **{key: value for key, value in known.items() if value is not None})
    return replace(job, usage=usage, duration_seconds=elapsed)


def cpu_so_far(job: Job, values: Mapping[str, Sequence[Number | None]]) -> Number | None:
    """Return the CPU time of a running job at its newest sample."""
    times = [value for key in CPU_TIMES for value in values[key][-1:] if value is not None]
    return None if job.status.ended or len(times) < len(CPU_TIMES) else sum(times)


def memory_so_far(job: Job, values: Mapping[str, Sequence[Number | None]]) -> Number | None:
    """Return the memory peak of a running job in its samples."""
    return None if job.status.ended else max((value for value in values["mem.used"] if value is not None), default=None)
