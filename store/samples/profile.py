"""The profile of a recorded job in the shape of Keystone's `detailed_profile`, from its samples and its record."""

from __future__ import annotations

import os

from jobtop.core.measure.device import Device
from jobtop.core.metrics import Scope
from jobtop.core.paths import hostname
from jobtop.core.track.gpu_profile import MEASURED, vendor_of
from jobtop.core.track.profile import TRAFFIC, ProfileTally, io_stats, megabytes, rounded
from jobtop.core.units import format_bytes
from jobtop.store.samples.curves import Curves
from jobtop.store.samples.devices import DeviceRecord
from jobtop.store.samples.hosts import HostRecord

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from jobtop.core.model import Job
    from jobtop.store.database import Database
    from jobtop.store.samples.joined import Series

JOB_KEYS = ("io.read_ops", "io.write_ops")
HOST_KEYS = ("cpu.percent", "mem.used", *TRAFFIC)
NEAR_SECONDS = 1.5  # of a job that is shorter than the time between two samples of the machine
MOST_POINTS = 5000
PROFILE = "profile"  # in the findings of a job that was profiled while it ran


def recorded_profile(database: Database, job: Job) -> dict[str, Any] | None:
    """The profile of an ended job; None if it was not sampled. What is not known is None.

    `cpu`, `memory`, `network` and `gpu_stats` are of the machine while the job ran; the rest is of the job, and exact.
    """
    found = job.findings.get(PROFILE)
    if isinstance(found, dict):
        return found
    usage, monitor = job.usage, job.monitor
    if job.duration_seconds is None or usage.samples is None or monitor.interval_seconds is None:
        return None
    tally = ProfileTally()
    for reading in _machine_readings(database, job):
        tally.add(reading)
    operations = Curves(database).series(job, JOB_KEYS, max_points=2)
    profile = tally.summary(job.duration_seconds, monitor.interval_seconds)
    profile |= {
        "samples_collected": usage.samples,
        "process_cpu": {
            "mean_percent": rounded(usage.cpu_percent_mean),
            "max_percent": rounded(usage.cpu_percent_peak),
            "min_percent": rounded(usage.cpu_percent_min),
        },
        "process_memory": {
            "mean_mb": megabytes(usage.memory_mean_bytes),
            "max_mb": megabytes(usage.memory_peak_bytes),
            "min_mb": megabytes(usage.memory_min_bytes),
        },
        "io_stats": io_stats(usage.io_read_bytes, usage.io_write_bytes, *(_last(operations, key) for key in JOB_KEYS)),
        "container_stats": _container_stats(job),
    }
    return profile


def _machine_readings(database: Database, job: Job) -> list[dict[str, Any]]:
    """The samples of the machine and its GPUs while the job ran, as readings for a tally."""
    hosts = HostRecord(database)
    series = _while_running(job, lambda start, end: hosts.around(job, HOST_KEYS, start, end, MOST_POINTS))
    cores = _core_count(hosts, job)
    readings = []
    for place in range(len(series.times)):
        values = {key: column[place] for key, column in series.values.items() if column[place] is not None}
        reading: dict[str, Any] = {
            "host": values,
            "host_counters": {key: values[key] for key in TRAFFIC if key in values},
        }
        readings.append(reading | ({"cores": [None] * cores} if cores else {}))
    return readings + _gpu_readings(database, job)


def _while_running(job: Job, read: Any) -> Series:
    """Samples while the job ran; of a job shorter than their interval, those just before and after it."""
    series: Series = read(None, None)
    return series if series.times else read(-NEAR_SECONDS, (job.duration_seconds or 0.0) + NEAR_SECONDS)


def _core_count(hosts: HostRecord, job: Job) -> int | None:
    detail = hosts.detail_at(job, (job.duration_seconds or 0.0) + NEAR_SECONDS)
    cores = detail.values.get("cores") if detail is not None else None
    if isinstance(cores, dict) and cores:
        return len(cores)
    return os.cpu_count() if job.host == hostname() else None


def _gpu_readings(database: Database, job: Job) -> list[dict[str, Any]]:
    """One reading for each sample of a GPU; those of several GPUs need not be of the same moments."""
    if job.shim is None:
        return []
    devices, readings = DeviceRecord(database), []
    for stored in devices.devices(job.shim.boot):
        if stored.kind != Scope.GPU:
            continue
        device = Device(stored.kind, stored.name)
        series = _while_running(job, lambda start, end, one=device: devices.around(job, one, MEASURED, start, end))
        for place in range(len(series.times)):
            gauges: Mapping[str, Any] = {key: column[place] for key, column in series.values.items()}
            readings.append({"gpus": [{"vendor": vendor_of(stored.name), "name": stored.name, **gauges}]})
    return readings


def _last(series: Series, key: str) -> float | None:
    return next((value for value in reversed(series.values[key]) if value is not None), None)


def _container_stats(job: Job) -> dict[str, str]:
    """What Keystone prints of a container: its mean CPU, its memory peak and its limit; empty for other jobs."""
    if job.kind != "container":
        return {}
    used, limit = job.usage.memory_peak_bytes, job.limits.memory_bytes
    texts = {
        "cpu_percent": None if job.usage.cpu_percent_mean is None else f"{job.usage.cpu_percent_mean:.2f}",
        "memory_usage": None if used is None else " / ".join(format_bytes(size) for size in (used, limit) if size),
        "memory_percent": None if used is None or not limit else f"{100 * used / limit:.2f}",
    }
    return {key: text for key, text in texts.items() if text is not None}
