"""Import Joblet's `<job-uuid>/<time>.jsonl.gz`: samples of the cgroups of its jobs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from jobtop.core.model import Limits, Monitor
from jobtop.store.transfer.samples import WHOLE_GPUS, Point, job_from_samples
from jobtop.store.transfer.values import (
    ImportContext,
    ImportedJob,
    JsonObject,
    amount,
    moment,
    nested_object,
    number,
    seconds,
    text,
)

KIND = "joblet"
MICROSECOND, NANOSECOND = 1e-6, 1e-9
NO_LIMIT = 2**62  # this and more means that a cgroup has no limit
NET_COUNTERS = ("rx_bytes", "tx_bytes", "rx_packets", "tx_packets")
NET_FAULTS = {"errors": "errors", "drops": "dropped"}  # keys of the catalogue, and of Joblet
SOURCES = {"cpu": "cgroup", "memory_peak": "cgroup", "io": "cgroup"}
LEFT_OUT = ("io.total_read_ops", "io.total_write_ops", "pressure averages", "gpu temperature, power and clocks")


def matches(entry: JsonObject) -> bool:
    """Whether a JSON object is a sample of Joblet."""
    return {"job_id", "timestamp", "cpu", "memory"} <= entry.keys()


def read(paths: Sequence[Path], context: ImportContext) -> Iterator[ImportedJob]:
    """All jobs in the files of a directory."""
    points: dict[str, list[Point]] = {}
    last_samples: dict[str, JsonObject] = {}
    samples = (sample for path in sorted(paths) for sample in samples_of(path, context))
    for job, at, sample in context.most_samples(paths[0].parent, samples):
        points.setdefault(job, []).append((at, values_of(sample)))
        last_samples[job] = sample
    if points:
        context.leave_out(KIND, LEFT_OUT)
    for job, last_sample in last_samples.items():
        yield imported_job(job, points[job], last_sample, context)


def samples_of(path: Path, context: ImportContext) -> Iterator[tuple[str, float, JsonObject]]:
    """The samples of a file, each with the id of its job and its time."""
    lines = context.lines(path, is_packed=path.suffix == ".gz")
    for line_number, entry in context.json_objects(path, lines):
        at = moment(entry.get("timestamp"))
        if at is None or not matches(entry):
            context.cannot_read(path, line_number, "it is not a sample of Joblet")
        else:
            yield text(entry["job_id"]) or path.parent.name, at, entry


def imported_job(job: str, points: list[Point], last_sample: JsonObject, context: ImportContext) -> ImportedJob:
    """Convert a job; its limits are those of its last sample."""
    limits = nested_object(last_sample, "limits")
    cpus, interval = seconds(limits.get("cpu"), 0.01), seconds(last_sample.get("sample_interval"), NANOSECOND)
    made = context.job(
        KIND,
        job,
        external_id=job,
        name=job[:8],
        limits=Limits(cpus=cpus or None, memory_bytes=amount(limits.get("memory")) or None),
        monitor=Monitor(interval_seconds=interval or None),
        sources=SOURCES,
        incomplete=(WHOLE_GPUS,) if any("gpu.util" in values for _, values in points) else (),
    )
    return job_from_samples(made, points)


def values_of(sample: JsonObject) -> dict[str, float | int | None]:
    """The values of a sample by key. Joblet counts threads as pids, and writes 0 for values that it does not know."""
    cpu, memory, traffic, net = (nested_object(sample, name) for name in ("cpu", "memory", "io", "network"))
    pids = nested_object(sample, "process")
    anon, shmem = amount(memory.get("anon")), amount(memory.get("shmem"))
    faults, major = amount(memory.get("pgfault")), amount(memory.get("pgmajfault"))
    values: dict[str, float | int | None] = {
        "cpu.user": seconds(cpu.get("user_usec"), MICROSECOND),
        "cpu.system": seconds(cpu.get("system_usec"), MICROSECOND),
        "cpu.throttled": seconds(cpu.get("throttled_usec"), MICROSECOND),
        "mem.cgroup": amount(memory.get("current")),
        "mem.anon": anon,
        "mem.file": amount(memory.get("file")),
        "mem.shmem": shmem,
        "mem.used": None if anon is None else anon + (shmem or 0),
        "mem.faults_major": major,
        "mem.faults_minor": None if faults is None else max(0, faults - (major or 0)),
        "mem.oom_kills": amount(memory.get("oom_kill")),
        "io.read_bytes": amount(traffic.get("total_read_bytes")),
        "io.write_bytes": amount(traffic.get("total_write_bytes")),
        "proc.threads": amount(pids.get("current")) or None,
        "proc.fds": amount(pids.get("open_fds")) or None,
        "limit.memory": limit(memory.get("max")),
        "limit.pids": limit(pids.get("max")),
    }
    if any(net.values()):
        values |= {f"net.{name}": amount(net.get(f"total_{name}")) for name in NET_COUNTERS}
        values |= {f"net.{key}": _received_and_sent(net, name) for key, name in NET_FAULTS.items()}
    return values | gpu_values(sample.get("gpu"))


def gpu_values(devices: object) -> dict[str, float | int | None]:
    """The sums over all GPUs; the memory is that of the job's processes, if the sample has it."""
    known = [device for device in devices if isinstance(device, dict)] if isinstance(devices, list) else []
    if not known:
        return {}
    used = [amount(device.get("processes_memory")) or amount(device.get("memory_used")) for device in known]
    return {
        "gpu.util": sum(number(device.get("utilization")) or 0 for device in known),
        "gpu.mem_used": sum(filter(None, used)),
    }


def limit(value: object) -> int | None:
    """The limit of a cgroup; None if it has none."""
    found = amount(value)
    return found if found and found < NO_LIMIT else None


def _received_and_sent(net: JsonObject, name: str) -> int | None:
    received, sent = amount(net.get(f"total_rx_{name}")), amount(net.get(f"total_tx_{name}"))
    return None if received is None or sent is None else received + sent
