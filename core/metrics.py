"""The catalogue: every number jobtop knows, one row each; schema, charts, alerts, exports and docs come from it.

Counters are cumulative, rates are derived from them. 100 % CPU is one core.
"""

from enum import StrEnum

from jobtop.core.errors import BadValue, did_you_mean, nearest_name
from jobtop.core.record import record
from jobtop.core.units import printable


class Unit(StrEnum):
    """What a value is stored in; `FLAG` is 0 or 1."""

    BYTES = "bytes"
    SECONDS = "seconds"
    PERCENT = "percent"
    COUNT = "count"
    CORES = "cores"
    CELSIUS = "celsius"
    WATTS = "watts"
    JOULES = "joules"
    HERTZ = "hertz"
    RPM = "rpm"
    BYTES_PER_SECOND = "bytes_per_second"
    FLAG = "flag"


class Kind(StrEnum):
    """A gauge is true at a moment; a counter only grows, and its differences mean something."""

    GAUGE = "gauge"
    COUNTER = "counter"


class Scope(StrEnum):
    """What a value is of; those after the host are kinds of devices."""

    JOB = "job"
    CONTAINER = "container"
    HOST = "host"
    GPU = "gpu"
    CORE = "core"
    DISK = "disk"
    INTERFACE = "interface"
    NUMA = "numa"
    SENSOR = "sensor"
    BATTERY = "battery"
    PACKAGE = "package"


class Fold(StrEnum):
    """How the values of processes make that of their job.

    `OWN`: the job has one as a whole (cgroup, namespace, limit). `NONE`: what it is of has no processes.
    """

    SUM = "sum"
    MAX = "max"
    OWN = "own"
    NONE = "none"


@record
class Metric:
    """One number the product knows."""

    key: str
    title: str
    unit: Unit
    kind: Kind
    scopes: tuple[Scope, ...]
    fold: Fold


GAUGE, COUNTER = Kind.GAUGE, Kind.COUNTER
JOB = (Scope.JOB, Scope.CONTAINER)
JOB_AND_HOST = (Scope.JOB, Scope.CONTAINER, Scope.HOST)
JOB_AND_GPU = (Scope.JOB, Scope.CONTAINER, Scope.GPU)
GPU = (Scope.GPU,)
HOST = (Scope.HOST,)
HOST_AND_CORE = (Scope.HOST, Scope.CORE)
HOST_AND_DISK = (Scope.HOST, Scope.DISK)
HOST_AND_NUMA = (Scope.HOST, Scope.NUMA)
SENSOR, BATTERY = (Scope.SENSOR,), (Scope.BATTERY,)
NETWORK = (*JOB_AND_HOST, Scope.INTERFACE)
LONGEST_SHOWN = 60  # of what is no key, in a message

CATALOGUE: tuple[Metric, ...] = (
    Metric("cpu.percent", "CPU", Unit.PERCENT, GAUGE, (*JOB_AND_HOST, Scope.CORE), Fold.SUM),
    Metric("cpu.user", "CPU time in user mode", Unit.SECONDS, COUNTER, JOB, Fold.SUM),
    Metric("cpu.system", "CPU time in the kernel", Unit.SECONDS, COUNTER, JOB, Fold.SUM),
    Metric("cpu.throttled", "time throttled by the CPU limit", Unit.SECONDS, COUNTER, JOB, Fold.OWN),
    Metric("cpu.pressure", "time stalled for CPU", Unit.SECONDS, COUNTER, JOB_AND_HOST, Fold.OWN),
    Metric("cpu.iowait", "CPU time idle while I/O was awaited", Unit.SECONDS, COUNTER, HOST_AND_CORE, Fold.NONE),
    Metric("cpu.steal", "CPU time taken by other virtual machines", Unit.SECONDS, COUNTER, HOST_AND_CORE, Fold.NONE),
    Metric("load.1", "load average, 1 minute", Unit.COUNT, GAUGE, HOST, Fold.NONE),
    Metric("load.5", "load average, 5 minutes", Unit.COUNT, GAUGE, HOST, Fold.NONE),
    Metric("load.15", "load average, 15 minutes", Unit.COUNT, GAUGE, HOST, Fold.NONE),
    Metric("mem.used", "memory in use, without page cache", Unit.BYTES, GAUGE, (*JOB_AND_HOST, Scope.NUMA), Fold.SUM),
    Metric("mem.rss", "resident memory, shared pages counted in each process", Unit.BYTES, GAUGE, JOB, Fold.SUM),
    Metric("mem.pss", "resident memory, shared pages split", Unit.BYTES, GAUGE, JOB, Fold.SUM),
    Metric("mem.vms", "virtual memory", Unit.BYTES, GAUGE, JOB, Fold.SUM),
    Metric("mem.swap", "swapped out", Unit.BYTES, GAUGE, JOB, Fold.SUM),
    Metric("mem.cgroup", "memory charged to the cgroup, with page cache", Unit.BYTES, GAUGE, JOB, Fold.OWN),
    Metric("mem.anon", "anonymous memory of the cgroup", Unit.BYTES, GAUGE, JOB, Fold.OWN),
    Metric("mem.file", "page cache of the cgroup", Unit.BYTES, GAUGE, JOB, Fold.OWN),
    Metric("mem.shmem", "shared memory and tmpfs of the cgroup", Unit.BYTES, GAUGE, JOB, Fold.OWN),
    Metric("mem.faults_minor", "page faults without I/O", Unit.COUNT, COUNTER, JOB, Fold.SUM),
    Metric("mem.faults_major", "page faults with I/O", Unit.COUNT, COUNTER, JOB, Fold.SUM),
    Metric("mem.oom_kills", "processes killed by the OOM killer", Unit.COUNT, COUNTER, JOB, Fold.OWN),
    Metric("mem.pressure", "time stalled for memory", Unit.SECONDS, COUNTER, JOB_AND_HOST, Fold.OWN),
    Metric("mem.total", "memory installed", Unit.BYTES, GAUGE, HOST_AND_NUMA, Fold.NONE),
    Metric("mem.available", "memory available without swapping", Unit.BYTES, GAUGE, HOST, Fold.NONE),
    Metric("mem.cached", "page cache", Unit.BYTES, GAUGE, HOST_AND_NUMA, Fold.NONE),
    Metric("swap.used", "swap in use", Unit.BYTES, GAUGE, HOST, Fold.NONE),
    Metric("swap.total", "swap of the host", Unit.BYTES, GAUGE, HOST, Fold.NONE),
    Metric("io.read_bytes", "read from storage", Unit.BYTES, COUNTER, JOB, Fold.SUM),
    Metric("io.write_bytes", "written to storage", Unit.BYTES, COUNTER, JOB, Fold.SUM),
    Metric("io.read_chars", "read by system calls", Unit.BYTES, COUNTER, JOB, Fold.SUM),
    Metric("io.write_chars", "written by system calls", Unit.BYTES, COUNTER, JOB, Fold.SUM),
    Metric("io.read_ops", "read system calls", Unit.COUNT, COUNTER, JOB, Fold.SUM),
    Metric("io.write_ops", "write system calls", Unit.COUNT, COUNTER, JOB, Fold.SUM),
    Metric("io.pressure", "time stalled for I/O", Unit.SECONDS, COUNTER, JOB_AND_HOST, Fold.OWN),
    Metric("disk.read_bytes", "read from disks", Unit.BYTES, COUNTER, HOST_AND_DISK, Fold.NONE),
    Metric("disk.write_bytes", "written to disks", Unit.BYTES, COUNTER, HOST_AND_DISK, Fold.NONE),
    Metric("disk.read_ops", "reads of disks", Unit.COUNT, COUNTER, HOST_AND_DISK, Fold.NONE),
    Metric("disk.write_ops", "writes to disks", Unit.COUNT, COUNTER, HOST_AND_DISK, Fold.NONE),
    Metric("disk.read_time", "time that reads of disks took", Unit.SECONDS, COUNTER, HOST_AND_DISK, Fold.NONE),
    Metric("disk.write_time", "time that writes to disks took", Unit.SECONDS, COUNTER, HOST_AND_DISK, Fold.NONE),
    Metric("disk.busy", "time disks were busy", Unit.SECONDS, COUNTER, HOST_AND_DISK, Fold.NONE),
    Metric("disk.used", "disk space in use", Unit.BYTES, GAUGE, HOST_AND_DISK, Fold.NONE),
    Metric("disk.total", "disk space", Unit.BYTES, GAUGE, HOST_AND_DISK, Fold.NONE),
    Metric("proc.count", "processes", Unit.COUNT, GAUGE, JOB, Fold.SUM),
    Metric("proc.threads", "threads", Unit.COUNT, GAUGE, JOB, Fold.SUM),
    Metric("proc.fds", "open files", Unit.COUNT, GAUGE, JOB, Fold.SUM),
    Metric("proc.switches_voluntary", "context switches to wait", Unit.COUNT, COUNTER, JOB, Fold.SUM),
    Metric("proc.switches_involuntary", "context switches by force", Unit.COUNT, COUNTER, JOB, Fold.SUM),
    Metric("proc.forks_denied", "processes refused by the limit of processes", Unit.COUNT, COUNTER, JOB, Fold.OWN),
    Metric("net.rx_bytes", "received", Unit.BYTES, COUNTER, NETWORK, Fold.OWN),
    Metric("net.tx_bytes", "sent", Unit.BYTES, COUNTER, NETWORK, Fold.OWN),
    Metric("net.rx_packets", "packets received", Unit.COUNT, COUNTER, NETWORK, Fold.OWN),
    Metric("net.tx_packets", "packets sent", Unit.COUNT, COUNTER, NETWORK, Fold.OWN),
    Metric("net.errors", "network errors", Unit.COUNT, COUNTER, NETWORK, Fold.OWN),
    Metric("net.drops", "packets dropped", Unit.COUNT, COUNTER, NETWORK, Fold.OWN),
    Metric("gpu.util", "GPU utilisation", Unit.PERCENT, GAUGE, JOB_AND_GPU, Fold.SUM),
    Metric("gpu.mem_used", "GPU memory in use", Unit.BYTES, GAUGE, JOB_AND_GPU, Fold.SUM),
    Metric("gpu.mem_total", "GPU memory", Unit.BYTES, GAUGE, GPU, Fold.NONE),
    Metric("gpu.mem_free", "free GPU memory", Unit.BYTES, GAUGE, GPU, Fold.NONE),
    Metric("gpu.temp", "GPU temperature", Unit.CELSIUS, GAUGE, GPU, Fold.NONE),
    Metric("gpu.power", "GPU power", Unit.WATTS, GAUGE, GPU, Fold.NONE),
    Metric("gpu.power_limit", "GPU power limit", Unit.WATTS, GAUGE, GPU, Fold.NONE),
    Metric("gpu.clock_sm", "GPU core clock", Unit.HERTZ, GAUGE, GPU, Fold.NONE),
    Metric("gpu.clock_mem", "GPU memory clock", Unit.HERTZ, GAUGE, GPU, Fold.NONE),
    Metric("gpu.fan", "GPU fan speed", Unit.PERCENT, GAUGE, GPU, Fold.NONE),
    Metric("gpu.ecc_errors", "GPU memory errors", Unit.COUNT, COUNTER, GPU, Fold.NONE),
    Metric("gpu.throttled", "GPU slowed down by heat or power", Unit.FLAG, GAUGE, GPU, Fold.NONE),
    Metric("gpu.encoder", "utilisation of the GPU's video encoder", Unit.PERCENT, GAUGE, GPU, Fold.NONE),
    Metric("gpu.decoder", "utilisation of the GPU's video decoder", Unit.PERCENT, GAUGE, GPU, Fold.NONE),
    Metric("gpu.pcie_rx", "received by the GPU over PCIe", Unit.BYTES_PER_SECOND, GAUGE, GPU, Fold.NONE),
    Metric("gpu.pcie_tx", "sent by the GPU over PCIe", Unit.BYTES_PER_SECOND, GAUGE, GPU, Fold.NONE),
    Metric("gpu.processes", "processes on the GPU", Unit.COUNT, GAUGE, GPU, Fold.NONE),
    Metric("energy.cpu", "energy of the CPU", Unit.JOULES, COUNTER, (*JOB_AND_HOST, Scope.PACKAGE), Fold.OWN),
    Metric("energy.gpu", "energy of the GPU", Unit.JOULES, COUNTER, JOB_AND_GPU, Fold.OWN),
    Metric("limit.cpus", "CPU limit", Unit.CORES, GAUGE, JOB, Fold.OWN),
    Metric("limit.memory", "memory limit", Unit.BYTES, GAUGE, JOB, Fold.OWN),
    Metric("limit.pids", "limit of processes and threads", Unit.COUNT, GAUGE, JOB, Fold.OWN),
    Metric("limit.fds", "limit of open files of one process", Unit.COUNT, GAUGE, JOB, Fold.OWN),
    Metric("temp", "temperature", Unit.CELSIUS, GAUGE, (Scope.HOST, Scope.SENSOR), Fold.NONE),
    Metric("fan.speed", "fan speed", Unit.RPM, GAUGE, SENSOR, Fold.NONE),
    Metric(
        "numa.misses",
        "pages given to processes of another node",
        Unit.COUNT,
        COUNTER,
        (Scope.NUMA,),
        Fold.NONE,
    ),
    Metric("battery.charge", "charge of the battery", Unit.PERCENT, GAUGE, BATTERY, Fold.NONE),
    Metric("battery.power", "power that the battery supplies", Unit.WATTS, GAUGE, BATTERY, Fold.NONE),
)

BY_KEY = {metric.key: metric for metric in CATALOGUE}
# A series with a name that a job chose has one value, which is no row of the catalogue.
VALUE = "value"
STORED_METRICS = BY_KEY | {VALUE: Metric(VALUE, "value of a chosen name", Unit.COUNT, GAUGE, (), Fold.NONE)}
DEVICE_SCOPES = tuple(scope for scope in Scope if scope not in JOB_AND_HOST)
# What is made of other metrics when it is read, and so not stored: a key, by scope, and what it is the sum of.
DERIVED: dict[Scope, dict[str, tuple[str, ...]]] = {
    Scope.JOB: {"cpu.percent": ("cpu.user", "cpu.system")},
    Scope.CONTAINER: {"cpu.percent": ("cpu.user", "cpu.system")},
}
# How many steps of a stored number make one; what counts in whole numbers is not here.
STEPS: dict[Unit, int] = {
    Unit.SECONDS: 1_000_000,
    Unit.PERCENT: 100,
    Unit.CORES: 1000,
    Unit.CELSIUS: 1000,
    Unit.WATTS: 1000,
    Unit.JOULES: 1000,
}
MEAN_COUNTS = frozenset({"load.1", "load.5", "load.15"})


def find_metric(key: str) -> Metric:
    """The row of a key; BadValue names the nearest one if there is none."""
    if key not in BY_KEY:
        shown = printable(key if len(key) <= LONGEST_SHOWN else key[:LONGEST_SHOWN] + "…")
        raise BadValue(f'unknown metric "{shown}"{did_you_mean(key, BY_KEY)}')
    return BY_KEY[key]


def metrics_of(scope: Scope) -> tuple[Metric, ...]:
    """What is known of a job, a container, the host or a device, in the order of the catalogue."""
    return tuple(metric for metric in CATALOGUE if scope in metric.scopes)


def columns(scope: Scope) -> tuple[str, ...]:
    """The keys that are stored of a scope, in the order of the catalogue."""
    derived = DERIVED.get(scope, {})
    return tuple(metric.key for metric in metrics_of(scope) if metric.key not in derived)


def device_columns() -> tuple[str, ...]:
    """The keys stored of devices of any kind, in the order of the catalogue."""
    stored = {key for scope in DEVICE_SCOPES for key in columns(scope)}
    return tuple(key for key in BY_KEY if key in stored)


def derived_of(scope: Scope | None) -> dict[str, tuple[str, ...]]:
    """The keys made of others when they are read; none where values have no single scope."""
    return {} if scope is None else DERIVED.get(scope, {})


def steps(key: str) -> int:
    """The resolution of a stored number: how many of its smallest steps make one."""
    return 100 if key in MEAN_COUNTS else STEPS.get(find_metric(key).unit, 1)


def nearest(key: str) -> str | None:
    """The key most like this one, or None."""
    return nearest_name(key, BY_KEY)


JOB_COLUMNS = columns(Scope.JOB)
