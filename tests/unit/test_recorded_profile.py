"""The profile of a recorded job: what it used, from its record, and the machine while it ran, from samples."""

import os
from pathlib import Path
from typing import Any

import pytest
from recorded_host import record_host

from jobtop.core.measure.device import Device
from jobtop.core.model import Job, Limits, Monitor, Status, Usage
from jobtop.store.database import Database
from jobtop.store.jobs import Jobs
from jobtop.store.leases import now_since_boot
from jobtop.store.samples.devices import DeviceRecord
from jobtop.store.samples.profile import recorded_profile
from records import HERE, made_job, this_process

MIB = 1 << 20
SECONDS_AGO = 60.0
USAGE = Usage(
    cpu_total_seconds=2.0,
    cpu_percent_mean=50.0,
    cpu_percent_peak=80.0,
    memory_peak_bytes=64 * MIB,
    memory_mean_bytes=32 * MIB,
    io_read_bytes=3 * MIB,
    io_write_bytes=MIB,
    samples=6,
)


def ended_job(jobs: Jobs, start: float, seconds: float, **values: Any) -> Job:
    """A job that began so many seconds after the first sample of the machine."""
    begin = now_since_boot() - SECONDS_AGO + start
    usual: dict[str, Any] = {"usage": USAGE, "monitor": Monitor(interval_seconds=1.0), "host": HERE}
    usual |= {"shim": this_process(), "start_boottime": begin, "duration_seconds": seconds}
    return jobs.insert(made_job(status=Status.SUCCESS, **usual | values))


def test_a_profile_has_the_exact_totals_of_the_job_and_the_machine_around_it(
    home: Path, jobs: Jobs, database: Database
) -> None:
    record_host(home, 10, SECONDS_AGO)
    gpu, begin = Device("gpu", "0"), now_since_boot() - SECONDS_AGO
    values = {"gpu.util": 80.0, "gpu.mem_used": 1024 * MIB, "gpu.mem_total": 4096 * MIB, "gpu.temp": 60.0}
    DeviceRecord(database).append([(gpu, begin + 3 + number, values) for number in range(2)])
    profile = recorded_profile(database, ended_job(jobs, 1.5, 5.0))
    assert profile is not None
    assert (profile["duration_seconds"], profile["samples_collected"], profile["sampling_interval_seconds"]) == (
        5,
        6,
        1,
    )
    assert profile["cpu"] == dict.fromkeys(("mean_percent", "max_percent", "min_percent"), 50 / (os.cpu_count() or 1))
    assert profile["memory"]["max_used_mb"] == 4096
    assert (profile["process_cpu"]["mean_percent"], profile["process_cpu"]["max_percent"]) == (50, 80)
    assert profile["process_memory"] == {"mean_mb": 32, "max_mb": 64, "min_mb": None}
    storage = profile["io_stats"]
    assert (storage["read_mb"], storage["write_mb"], storage["total_io_mb"], storage["read_count"]) == (3, 1, 4, None)
    assert profile["network"]["received_mb"] == pytest.approx(4000 / MIB, abs=1e-5)
    nvidia = profile["gpu_stats"]["nvidia"]
    assert (nvidia["gpu_utilization_percent"], nvidia["memory_used_mb"], nvidia["temperature_celsius"]) == (
        80,
        1024,
        60,
    )
    assert profile["container_stats"] == {}


def test_a_job_between_two_samples_has_those_before_and_after(home: Path, jobs: Jobs, database: Database) -> None:
    record_host(home, 10, SECONDS_AGO)
    profile = recorded_profile(database, ended_job(jobs, 1.4, 0.2))
    assert profile is not None
    assert profile["memory"]["mean_used_mb"] == 4096


def test_what_is_not_known_is_absent(jobs: Jobs, database: Database) -> None:
    profile = recorded_profile(database, ended_job(jobs, 1.5, 5.0))
    assert profile is not None
    assert set(profile["cpu"].values()) == set(profile["memory"].values()) == {None}
    assert profile["gpu_stats"] == {}
    unsampled = ended_job(jobs, 1.5, 5.0, usage=Usage(), monitor=Monitor())
    assert recorded_profile(database, unsampled) is None


def test_a_profile_that_was_taken_is_not_made_again(jobs: Jobs, database: Database) -> None:
    taken = {"duration_seconds": 7.0}
    assert recorded_profile(database, ended_job(jobs, 1.5, 5.0, findings={"profile": taken})) == taken


def test_a_job_in_a_container_has_its_use_as_keystone_prints_it(jobs: Jobs, database: Database) -> None:
    job = ended_job(jobs, 1.5, 5.0, kind="container", limits=Limits(memory_bytes=256 * MIB))
    profile = recorded_profile(database, job)
    assert profile is not None
    assert profile["container_stats"] == {
        "cpu_percent": "50.00",
        "memory_usage": "64.0 MiB / 256.0 MiB",
        "memory_percent": "25.00",
    }
