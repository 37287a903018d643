"""What limited a job, in one word with its evidence: for the whole run and for each tenth of it. Pure.

The rules are tried from top to bottom, and the first that fits gives the word. A rule does not fit if its numbers are
absent. Without CPU time nothing is said. `waiting` and `nothing` are said only if it is known that storage is not the
limit.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import pairwise

from jobtop.core.record import record
from jobtop.core.units import format_bytes, format_percent, number_of

Number = float | int
Column = Sequence[Number | None]

PARTS = 10
SHORTEST_SECONDS = 2.0  # a shorter run has too few samples
LEAST_KNOWN = 0.25  # of a part: a rate over less of it says nothing about the rest

THROTTLED_SHARE = 0.20  # of the CPU time that it could have used, withheld by the limit of CPUs …
THROTTLED_LEAST = 0.05  # … and at least this much of the time of one core
MEMORY_STALL_SHARE = 0.20  # of the time, by mem.pressure
MAJOR_FAULTS_PER_SECOND = 100.0  # pages read back from storage
IO_STALL_SHARE = 0.40  # of the time, by io.pressure: more than computing could hide …
IO_STALL_SHARE_IDLE = 0.20  # … and enough if the CPU is not the limit
HOST_STORAGE_SHARE = 0.40  # of the time the host's disks were busy, or its tasks were stalled for I/O
OWN_IO_BYTES_PER_SECOND = 256 * 1024  # a job with less traffic is not what makes the disks busy
GPU_PERCENT = 70.0
CPU_SHARE_OF_ALLOWED = 0.80
CPU_CORES_ALWAYS = 0.85  # of one core: at least one thread computes all the time, or waits for a core to do so
CPU_STALL_SHARE = 0.40  # of the time, by cpu.pressure; less is enough together with the time that it computed
HOST_CPU_SHARE, HOST_CPU_OWN_CORES = 0.95, 0.30  # a job that computes on a machine that is busy
STEAL_CORES = 0.10
NETWORK_BYTES_PER_SECOND = 1024 * 1024
WAITING_CORES = 0.10

JOB_KEYS = (
    "cpu.user",
    "cpu.system",
    "cpu.throttled",
    "cpu.pressure",
    "mem.pressure",
    "mem.faults_major",
    "io.pressure",
    "io.read_bytes",
    "io.write_bytes",
    "net.rx_bytes",
    "net.tx_bytes",
    "gpu.util",
)
HOST_KEYS = ("cpu.percent", "cpu.iowait", "cpu.steal", "disk.busy", "io.pressure")
GAUGES = frozenset({"gpu.util", "cpu.percent"})


class Limit(StrEnum):
    """What limited a job."""

    CPU = "cpu"
    MEMORY = "memory"
    STORAGE = "storage"
    NETWORK = "network"
    GPU = "gpu"
    THROTTLING = "throttling"
    WAITING = "waiting"
    NOTHING = "nothing"


HELP = {
    Limit.CPU: "more threads or processes, more CPUs, or faster code (jobtop top ID --threads shows the busy ones)",
    Limit.MEMORY: "more memory (--memory), or less data in memory at once",
    Limit.STORAGE: "larger reads and writes, fewer small files, a local disk, or reading ahead while it computes",
    Limit.NETWORK: "transferring less (compression, a copy nearby), or transferring while it computes",
    Limit.GPU: "nothing cheap: the GPU is in use; a faster GPU or a second one",
    Limit.THROTTLING: "a higher limit of CPUs (--cpus), or fewer threads",
    Limit.WAITING: "looking at what it waits for: a timer, a lock, another process or a service",
    Limit.NOTHING: "looking at the tenths of the run: no single resource stands out",
}


@record
class Verdict:
    """A word with its evidence; the word is None if it is not known, and then `evidence` says why."""

    word: Limit | None
    evidence: str

    def to_json(self) -> dict[str, str | None]:
        return {"word": None if self.word is None else str(self.word), "evidence": self.evidence}


@record
class Limits:
    """What limited a whole run, and each of its tenths."""

    whole: Verdict
    parts: tuple[Verdict, ...]


@record
class Curves:
    """The series of an owner: counters as totals, gauges as they are, by catalogue key."""

    times: Sequence[float]
    values: Mapping[str, Column]


NO_CURVES = Curves((), {})


@record
class Use:
    """What a job used in a part of its run, and what the host did: CPU in cores, other times as shares of the time."""

    cores: float | None = None
    allowed: float | None = None
    throttled: float | None = None
    cpu_stall: float | None = None
    memory_stall: float | None = None
    major_faults: float | None = None
    io_stall: float | None = None
    io_bytes: float | None = None
    net_bytes: float | None = None
    gpu_percent: float | None = None
    host_cpu: float | None = None  # share of all CPUs
    host_iowait: float | None = None
    host_steal: float | None = None
    host_disk: float | None = None
    host_io_stall: float | None = None


@record
class Setting:
    """What a job could use: CPUs (None: not known) and GPUs; and how many CPUs its host has."""

    cpus: float | None = None
    gpus: int = 1
    host_cpus: int = 1


def find_limits(job: Curves, host: Curves, seconds: float, setting: Setting) -> Limits | None:
    """What limited a run of some seconds; None if it was too short or there are no samples."""
    if seconds < SHORTEST_SECONDS or len(job.times) < 2:
        return None
    edges = [seconds * part / PARTS for part in range(PARTS + 1)]
    parts = tuple(judge(_use(job, host, start, end, setting)) for start, end in pairwise(edges))
    return Limits(_of_whole(parts, judge(_use(job, host, 0.0, seconds, setting))), parts)


def _of_whole(parts: Sequence[Verdict], mean: Verdict) -> Verdict:
    """The word of most tenths; among equals that of the means of the run, which also have the evidence."""
    counts = Counter(part.word for part in parts if part.word is not None)
    if not counts:
        return mean
    most = max(counts.values())
    words = [word for word, count in counts.items() if count == most]
    word = mean.word if mean.word in words else words[0]
    if word is mean.word:
        return mean
    example = next(part for part in parts if part.word is word)
    return Verdict(word, f"in {most} of {len(parts)} tenths of the run, such as: {example.evidence}")


def judge(use: Use) -> Verdict:
    """The word for a part of a run."""
    if use.cores is None:
        return Verdict(None, "its CPU time is not known")
    return next(_verdicts(use, use.cores))


def _verdicts(use: Use, cores: float) -> Iterator[Verdict]:
    """The verdicts of all rules that fit, the first of which counts; the last one always fits."""
    yield from _throttling(use, cores)
    yield from _memory(use)
    yield from _storage(use, cores, IO_STALL_SHARE)
    if _reaches(use.gpu_percent, GPU_PERCENT):
        yield Verdict(Limit.GPU, f"its GPUs were used at {_share((use.gpu_percent or 0.0) / 100)} (gpu.util)")
    yield from _cpu(use, cores)
    yield from _storage(use, cores, IO_STALL_SHARE_IDLE)
    if _reaches(use.net_bytes, NETWORK_BYTES_PER_SECOND):
        rate = format_bytes(use.net_bytes)
        yield Verdict(
            Limit.NETWORK, f"it transferred {rate}/s and used {_share(cores)} of one core (net.rx_bytes, net.tx_bytes)"
        )
    if use.io_stall is None and not _is_storage_idle(use):
        yield Verdict(None, "it used little CPU, and whether it waited for storage is not known here (no io.pressure)")
    if cores < WAITING_CORES:
        yield Verdict(Limit.WAITING, f"it used {_share(cores)} of one core and hardly any storage")
    yield Verdict(Limit.NOTHING, f"it used {_share(cores)} of one core, and no resource was used up")


def _throttling(use: Use, cores: float) -> Iterator[Verdict]:
    """By the share of the CPU time that it could have used: the kernel adds up the throttled time of all CPUs."""
    throttled = use.throttled or 0.0
    if throttled >= THROTTLED_LEAST and throttled >= THROTTLED_SHARE * (cores + throttled):
        share = _share(throttled / (cores + throttled))
        yield Verdict(Limit.THROTTLING, f"its CPU limit withheld {share} of the CPU time it could use (cpu.throttled)")


def _memory(use: Use) -> Iterator[Verdict]:
    if _reaches(use.memory_stall, MEMORY_STALL_SHARE):
        yield Verdict(Limit.MEMORY, f"stalled {_share(use.memory_stall)} of the time for memory (mem.pressure)")
    if _reaches(use.major_faults, MAJOR_FAULTS_PER_SECOND) and not _reaches(use.cores, CPU_CORES_ALWAYS):
        faults = f"{use.major_faults:.0f} pages a second"
        yield Verdict(Limit.MEMORY, f"{faults} were read back from storage (mem.faults_major)")


def _storage(use: Use, cores: float, stall_share: float) -> Iterator[Verdict]:
    """By the job's own stalls; without these by what it transferred while the disks of the host were busy."""
    if use.io_stall is not None:
        if use.io_stall >= stall_share:
            yield Verdict(Limit.STORAGE, f"stalled {_share(use.io_stall)} of the time for I/O (io.pressure)")
        return
    if cores >= CPU_CORES_ALWAYS or not _reaches(use.io_bytes, OWN_IO_BYTES_PER_SECOND):
        return
    host = {
        "the host's disks were busy": use.host_disk,
        "tasks of the host were stalled for I/O": use.host_io_stall,
        "a core of the host waited for I/O": use.host_iowait,
    }
    what, share = max(host.items(), key=lambda item: item[1] or 0.0)
    if _reaches(share, HOST_STORAGE_SHARE):
        rate = format_bytes(use.io_bytes)
        yield Verdict(Limit.STORAGE, f"it transferred {rate}/s while {what} {_share(share)} of the time")


def _is_storage_idle(use: Use) -> bool:
    return use.io_bytes is not None and use.io_bytes < OWN_IO_BYTES_PER_SECOND


def _cpu(use: Use, cores: float) -> Iterator[Verdict]:
    of = f" of {use.allowed:g} allowed" if use.allowed is not None else ""
    steal = f"; other virtual machines took {_share(use.host_steal)} of a core (cpu.steal)"
    more = steal if _reaches(use.host_steal, STEAL_CORES) else ""
    if use.allowed is not None and cores >= CPU_SHARE_OF_ALLOWED * use.allowed:
        yield Verdict(Limit.CPU, f"it used {cores:.1f} CPUs{of} (cpu.percent){more}")
    elif cores >= CPU_CORES_ALWAYS:
        busy = number_of(round(cores), "busy thread")
        yield Verdict(Limit.CPU, f"it used {cores:.1f} CPUs{of}, as {busy} would (cpu.percent){more}")
    elif _reaches(use.cpu_stall, CPU_STALL_SHARE) or cores + (use.cpu_stall or 0.0) >= CPU_CORES_ALWAYS:
        waited = _share(use.cpu_stall)
        text = f"it used {_share(cores)} of one core and waited {waited} of the time for a free one (cpu.pressure)"
        yield Verdict(Limit.CPU, f"{text}{more}")
    elif _reaches(use.host_cpu, HOST_CPU_SHARE) and cores >= HOST_CPU_OWN_CORES:
        busy = _share(use.host_cpu)
        yield Verdict(Limit.CPU, f"it used {cores:.1f} CPUs while those of the host were {busy} busy{more}")


def _reaches(value: float | None, threshold: float) -> bool:
    return value is not None and value >= threshold


def _share(value: float | None) -> str:
    return format_percent(None if value is None else min(1.0, value))


def _use(job: Curves, host: Curves, start: float, end: float, setting: Setting) -> Use:
    """The means of a part of a run."""

    def of_job(key: str) -> float | None:
        return mean_rate(job, key, start, end)

    def of_host(key: str) -> float | None:
        return mean_rate(host, key, start, end)

    host_percent, gpu_percent = of_host("cpu.percent"), of_job("gpu.util")
    return Use(
        _sum(of_job("cpu.user"), of_job("cpu.system")),
        setting.cpus,
        of_job("cpu.throttled"),
        of_job("cpu.pressure"),
        of_job("mem.pressure"),
        of_job("mem.faults_major"),
        of_job("io.pressure"),
        _sum(of_job("io.read_bytes"), of_job("io.write_bytes")),
        _sum(of_job("net.rx_bytes"), of_job("net.tx_bytes")),
        None if gpu_percent is None else gpu_percent / setting.gpus,
        None if host_percent is None else host_percent / (100.0 * setting.host_cpus),
        of_host("cpu.iowait"),
        of_host("cpu.steal"),
        of_host("disk.busy"),
        of_host("io.pressure"),
    )


def _sum(*values: float | None) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def mean_rate(curves: Curves, key: str, start: float, end: float) -> float | None:
    """How fast a counter grew between two moments, or the mean of a gauge; None if too little of it is known."""
    column = curves.values.get(key)
    if column is None:
        return None
    points = [(moment, value) for moment, value in zip(curves.times, column, strict=True) if value is not None]
    if len(points) < 2:
        return None
    first, last = max(start, points[0][0]), min(end, points[-1][0])
    if last - first < LEAST_KNOWN * (end - start) or last <= first:
        return None
    if key in GAUGES:
        return _mean(points, first, last)
    growth = _value_at(points, last) - _value_at(points, first)
    return growth / (last - first) if growth >= 0 else None  # it was started again in between


def _mean(points: Sequence[tuple[float, Number]], start: float, end: float) -> float:
    """The mean of a gauge, which holds from its sample back to the one before."""
    moments = [moment for moment, _ in points]
    inside = points[bisect_right(moments, start) : bisect_left(moments, end) + 1]
    return sum(value for _, value in inside) / len(inside)


def _value_at(points: Sequence[tuple[float, Number]], moment: float) -> float:
    """The value of a counter at a moment, between the samples before and after it."""
    place = bisect_left(points, (moment, float("-inf")))
    if place == 0 or points[place][0] == moment:
        return points[place][1]
    (before, low), (after, high) = points[place - 1], points[place]
    return low + (high - low) * (moment - before) / (after - before)
