"""Joblet's `<job-uuid>/<time>.jsonl.gz`: samples of the cgroups of its jobs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from jobtop.core.model import Limits, Monitor
from jobtop.store.transfer.samples import Point, sampled
from jobtop.store.transfer.values import Intake, Taken, amount, moment, number, seconds, text

KIND = "joblet"
MICROSECOND, NANOSECOND = 1e-6, 1e-9
NO_LIMIT = 2**62  # what a cgroup without one is said to have
SOURCES = {"cpu": "cgroup", "memory_peak": "cgroup", "io": "cgroup"}
WHOLE_GPUS = "gpu: of whole devices, whoever used them"
LEFT_OUT = ("io.total_read_ops", "io.total_write_ops", "pressure averages", "gpu temperature, power and clocks")
Shape = dict[str, Any]


def fits(shape: Shape) -> bool:
    """Whether an object is one of its samples."""
    return {"job_id", "timestamp", "cpu", "memory"} <= shape.keys()


def read(paths: Sequence[Path], intake: Intake) -> Iterator[Taken]:
    """Every job of a directory, from all of its files."""
    points: dict[str, list[Point]] = {}
    last: dict[str, Shape] = {}
    found = (sample for path in sorted(paths) for sample in samples_of(path, intake))
    for job, at, shape in intake.most_samples(paths[0].parent, found):
        points.setdefault(job, []).append((at, values_of(shape)))
        last[job] = shape
    if points:
        intake.leave_out(KIND, LEFT_OUT)
    for job, shape in last.items():
        yield taken(job, points[job], shape, intake)


def samples_of(path: Path, intake: Intake) -> Iterator[tuple[str, float, Shape]]:
    """The samples of a file: of which job, when, what."""
    for place, shape in intake.shapes(path, intake.lines(path, is_packed=path.suffix == ".gz")):
        at = moment(shape.get("timestamp"))
        if at is None or not fits(shape):
            intake.cannot_read(path, place, "it is no sample of Joblet")
        else:
            yield text(shape["job_id"]) or path.parent.name, at, shape


def taken(job: str, points: list[Point], last: Shape, intake: Intake) -> Taken:
    limits = part(last, "limits")
    cpus, interval = seconds(limits.get("cpu"), 0.01), seconds(last.get("sample_interval"), NANOSECOND)
    made = intake.job(
        KIND,
        job,
        external_id=job,
        name=job[:8],
        limits=Limits(cpus=cpus or None, memory_bytes=amount(limits.get("memory")) or None),
        monitor=Monitor(interval_seconds=interval or None),
        sources=SOURCES,
        incomplete=(WHOLE_GPUS,) if any("gpu.util" in values for _, values in points) else (),
    )
    return sampled(made, points)


def values_of(shape: Shape) -> dict[str, float | int | None]:
    """A sample by key. Its operations are those of devices, and pids are threads; what it never fills is 0 there."""
    cpu, memory, traffic, net = (part(shape, name) for name in ("cpu", "memory", "io", "network"))
    pids = part(shape, "process")
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
        values |= {f"net.{way}_{what}": amount(net.get(f"total_{way}_{what}")) for way, what in NET}
        values |= {f"net.{key}": _both(net, name) for key, name in (("errors", "errors"), ("drops", "dropped"))}
    return values | gpus(shape.get("gpu"))


NET = (("rx", "bytes"), ("tx", "bytes"), ("rx", "packets"), ("tx", "packets"))


def gpus(devices: object) -> dict[str, float | int | None]:
    """The sum over its GPUs; of their memory what its processes have, where that is known."""
    known = [device for device in devices if isinstance(device, dict)] if isinstance(devices, list) else []
    if not known:
        return {}
    used = [amount(device.get("processes_memory")) or amount(device.get("memory_used")) for device in known]
    return {
        "gpu.util": sum(number(device.get("utilization")) or 0 for device in known),
        "gpu.mem_used": sum(filter(None, used)),
    }


def limit(value: object) -> int | None:
    found = amount(value)
    return found if found and found < NO_LIMIT else None


def part(shape: Shape, name: str) -> Shape:
    found = shape.get(name)
    return found if isinstance(found, dict) else {}


def _both(net: Shape, name: str) -> int | None:
    received, sent = amount(net.get(f"total_rx_{name}")), amount(net.get(f"total_tx_{name}"))
    return None if received is None or sent is None else received + sent
