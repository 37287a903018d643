"""Where each metric is read, on which systems, and how exact it is: what docs/metrics.md adds to the catalogue."""

from fnmatch import fnmatchcase
from typing import NamedTuple

from jobtop.core.metrics import Scope

LINUX, ALL = "Linux", "Linux, macOS"
KERNEL = "the count of the kernel"


class Note(NamedTuple):
    """What docs/metrics.md says of a metric beside its row of the catalogue."""

    source: str
    platforms: str
    accuracy: str


NET_OF_JOB = Note(
    "counters of its own network namespace; else the bytes of its TCP sockets (sock_diag)",
    LINUX,
    "within 2 %; UDP and sockets that were not seen are missing: `incomplete` says so",
)
NET_PACKETS_OF_JOB = Note(
    "counters of its own network namespace; else the segments of its TCP sockets (sock_diag)",
    LINUX,
    "packets of a namespace are exact; else TCP segments alone, of sockets that were seen",
)
NAMESPACE_ALONE = Note("counters of its own network namespace", LINUX, "exact; absent without its own namespace")
CGROUP_V2 = "absent without a cgroup of its own"
DISKS = Note("`/proc/diskstats`; psutil elsewhere", ALL, KERNEL)
INTERFACES = Note("`/proc/net/dev`; psutil elsewhere", ALL, KERNEL)
GPU_DRIVERS = "NVML; sysfs of AMD and Intel"

# By scope and key; the first pattern that matches counts.
NOTES: dict[Scope, dict[str, Note]] = {
    Scope.JOB: {
        "cpu.percent": Note("the rate of `cpu.user` + `cpu.system`", LINUX, "within 2 % between two samples"),
        "cpu.user": Note(
            "clocks of processes, times of reaped children; `cpu.stat` of its cgroup",
            LINUX,
            "the sum within 1 %, or 20 ms",
        ),
        "cpu.system": Note("as `cpu.user`", LINUX, "the division into user and system is that of the kernel"),
        "cpu.throttled": Note("`cpu.stat` of its cgroup", LINUX, f"{KERNEL}; {CGROUP_V2}"),
        "*.pressure": Note("`*.pressure` of its cgroup (v2)", LINUX, f"{KERNEL}; {CGROUP_V2}"),
        "mem.used": Note(
            "`anon` + `shmem` of its cgroup; else the sum of PSS; else RSS of one process", LINUX, "within 5 %"
        ),
        "mem.rss": Note("`/proc/PID/stat`", LINUX, "counts shared pages in every process"),
        "mem.pss": Note("`/proc/PID/smaps_rollup`", LINUX, "exact when it is read, estimated in between"),
        "mem.vms": Note("`/proc/PID/stat`", LINUX, KERNEL),
        "mem.swap": Note("`/proc/PID/status`", LINUX, "as old as the last detailed read, at most some seconds"),
        "mem.cgroup": Note("`memory.current`", LINUX, f"{KERNEL}, with page cache; {CGROUP_V2}"),
        "mem.anon": Note("`memory.stat`", LINUX, f"{KERNEL}; {CGROUP_V2}"),
        "mem.file": Note("`memory.stat`", LINUX, f"{KERNEL}; {CGROUP_V2}"),
        "mem.shmem": Note("`memory.stat`", LINUX, f"{KERNEL}; {CGROUP_V2}"),
        "mem.faults_*": Note("`/proc/PID/stat`", LINUX, "exact, with reaped children"),
        "mem.oom_kills": Note("`memory.events`", LINUX, f"{KERNEL}; {CGROUP_V2}"),
        "io.*_bytes": Note("`/proc/PID/io`; `ru_inblock`, `ru_oublock` at the end", LINUX, "within 1 %"),
        "io.*": Note("`/proc/PID/io`", LINUX, "exact for processes that were seen"),
        "proc.fds": Note("`/proc/PID/fd`", LINUX, "as old as the last detailed read"),
        "proc.switches_*": Note("`/proc/PID/status`", LINUX, "absent after a process of the job has exited"),
        "proc.forks_denied": Note("`pids.events`", LINUX, f"{KERNEL}; {CGROUP_V2}"),
        "proc.*": Note("the process table", LINUX, "exact at the moment of the sample"),
        "net.*_bytes": NET_OF_JOB,
        "net.*_packets": NET_PACKETS_OF_JOB,
        "net.*": NAMESPACE_ALONE,
        "gpu.util": Note(
            "NVML and DRM `fdinfo`, by pid", LINUX, "as the driver counts; absent with MIG; 100 is one GPU"
        ),
        "gpu.mem_used": Note("NVML and DRM `fdinfo`, by pid", LINUX, "as the driver counts"),
        "energy.gpu": Note("energy of the GPUs, divided by use", LINUX, "a share: `sources.energy_gpu` has the method"),
        "energy.cpu": Note("RAPL, divided by CPU time", LINUX, "a share: `sources.energy_cpu` has the method"),
        "limit.fds": Note("`/proc/PID/limits`", LINUX, "exact"),
        "limit.*": Note(
            "cgroups above it, affinity, what it declared",
            LINUX,
            "the tightest; read every ten samples, of an idle job every sixty",
        ),
    },
    Scope.HOST: {
        "cpu.percent": Note("`/proc/stat`; psutil elsewhere", ALL, "in steps of 10 ms"),
        "cpu.iowait": Note("`/proc/stat`", LINUX, "in steps of 10 ms; the kernel may take it back"),
        "cpu.steal": Note("`/proc/stat`", LINUX, "in steps of 10 ms"),
        "load.*": Note("`/proc/loadavg`; psutil elsewhere", ALL, KERNEL),
        "*.pressure": Note("`/proc/pressure`", LINUX, KERNEL),
        "mem.*": Note("`/proc/meminfo`; psutil elsewhere", ALL, KERNEL),
        "swap.*": Note("`/proc/meminfo`; psutil elsewhere", ALL, KERNEL),
        "disk.used": Note("statvfs of the state directory", ALL, "every 10 s"),
        "disk.total": Note("statvfs of the state directory", ALL, "every 10 s"),
        "disk.*": Note("the sum over physical disks", ALL, KERNEL),
        "net.*": Note("the sum over physical interfaces", ALL, KERNEL),
        "energy.cpu": Note(
            "RAPL: packages and their memory", LINUX, "as the CPU counts; since Linux 5.10 for root only"
        ),
        "temp": Note(
            "hwmon and thermal zones of the CPU", LINUX, "the hottest sensor; absent if one cannot be read; every 10 s"
        ),
    },
    Scope.GPU: {
        "gpu.util": Note(f"{GPU_DRIVERS}; intel_gpu_top", LINUX, "as the driver counts, over its last sample period"),
        "gpu.mem_*": Note(GPU_DRIVERS, LINUX, "as the driver counts"),
        "gpu.processes": Note("NVML; DRM `fdinfo` of jobs", LINUX, "elsewhere than NVML only processes of jobs"),
        "energy.gpu": Note(
            "counter of NVML or hwmon; of AMD, power over time", LINUX, "of AMD an estimate from samples of the power"
        ),
        "gpu.encoder": Note("NVML", LINUX, "as the driver counts"),
        "gpu.decoder": Note("NVML", LINUX, "as the driver counts"),
        "gpu.pcie_*": Note("NVML", LINUX, "a mean over 20 ms, read seldom"),
        "gpu.*": Note(GPU_DRIVERS, LINUX, "as the driver reports; absent where it does not"),
    },
    Scope.CORE: {
        "cpu.percent": Note("`/proc/stat`; psutil elsewhere", ALL, "in steps of 10 ms"),
        "*": Note("`/proc/stat`", LINUX, "in steps of 10 ms"),
    },
    Scope.DISK: {
        "disk.used": Note("statvfs of the file systems on it", LINUX, "every 10 s"),
        "disk.total": Note("statvfs of the file systems on it", LINUX, "every 10 s"),
        "*": DISKS,
    },
    Scope.INTERFACE: {"*": INTERFACES},
    Scope.NUMA: {
        "numa.misses": Note("`numastat` of the node", LINUX, KERNEL),
        "*": Note("`meminfo` of the node", LINUX, "every 10 s"),
    },
    Scope.SENSOR: {"*": Note("hwmon and thermal zones", LINUX, "as the sensor reports, every 10 s")},
    Scope.BATTERY: {
        "battery.power": Note("`/sys/class/power_supply`", LINUX, "as the battery reports, every 10 s"),
        "*": Note("`/sys/class/power_supply`; psutil elsewhere", ALL, "as the battery reports, every 10 s"),
    },
    Scope.PACKAGE: {
        "*": Note("RAPL: the package and its memory", LINUX, "as the CPU counts; since Linux 5.10 for root only")
    },
}


def note_of(scope: Scope, key: str) -> Note:
    """What the page says of a metric; KeyError if a new metric has no note."""
    for pattern, note in NOTES[scope].items():
        if fnmatchcase(key, pattern):
            return note
    raise KeyError(f"core/text/metric_notes.py has no note for {key} of {scope}")
