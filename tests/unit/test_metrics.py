"""The catalogue holds exactly the keys the design promises, each of a sensible kind, and each has a reader."""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from captured_hosts import below_machine, slow_reader
from drm import DrmMachine

from diag_messages import diag_socket
from energy import PoweredMachine
from jobtop.core.errors import BadValue
from jobtop.core.measure.collectors.gpu.nvidia_session import NvidiaSession
from jobtop.core.measure.collectors.gpu.nvidia_source import NvidiaSource
from jobtop.core.measure.collectors.host.reading import HostCollector, HostSample, host_frame
from jobtop.core.measure.collectors.host.slow_source import SlowHostSource
from jobtop.core.measure.collectors.host.source import device_readings
from jobtop.core.measure.collectors.job_cgroup import CgroupReader
from jobtop.core.measure.collectors.network.job_sockets import JobSockets, JobTraffic
from jobtop.core.measure.collectors.network.namespaces import Namespace
from jobtop.core.measure.collectors.pid_owners import PidOwners
from jobtop.core.measure.derive import derive
from jobtop.core.measure.source import Readings
from jobtop.core.measure.target import Target
from jobtop.core.metrics import (
    BY_KEY,
    CATALOGUE,
    DEVICE_SCOPES,
    JOB_COLUMNS,
    Fold,
    Kind,
    Metric,
    Scope,
    Unit,
    find_metric,
    metrics_of,
    nearest,
)
from jobtop.core.model import Identity, Limits, Sample
from jobtop.core.text.metric_notes import NOTES, note_of
from limited import LIMITS, PID, LimitedMachine, limited_target
from nvml import FakeGpu, fake_nvml, load_in_this_process
from processes import FakeProc, fold
from support import ROOT

NET = "net.rx_bytes net.tx_bytes net.rx_packets net.tx_packets net.errors net.drops"
JOB = f"""
    cpu.percent cpu.user cpu.system cpu.throttled cpu.pressure mem.used mem.rss mem.pss mem.vms mem.swap mem.cgroup
    mem.anon mem.file mem.shmem mem.faults_minor mem.faults_major mem.oom_kills mem.pressure io.read_bytes
    io.write_bytes io.read_chars io.write_chars io.read_ops io.write_ops io.pressure proc.count proc.threads proc.fds
    proc.switches_voluntary proc.switches_involuntary proc.forks_denied {NET} gpu.util gpu.mem_used
    energy.cpu energy.gpu limit.cpus limit.memory limit.pids limit.fds
"""
GPU = """
    gpu.util gpu.mem_used gpu.mem_total gpu.temp gpu.power gpu.power_limit gpu.clock_sm gpu.clock_mem gpu.fan
    gpu.ecc_errors gpu.throttled gpu.processes energy.gpu gpu.mem_free gpu.encoder gpu.decoder gpu.pcie_rx gpu.pcie_tx
"""
DISK = """
    disk.read_bytes disk.write_bytes disk.read_ops disk.write_ops disk.read_time disk.write_time disk.busy disk.used
    disk.total
"""
HOST = f"""
    cpu.percent cpu.iowait cpu.steal load.1 load.5 load.15 mem.total mem.available mem.used mem.cached swap.used
    swap.total {DISK} {NET} cpu.pressure mem.pressure io.pressure temp energy.cpu
"""

# What nothing reads yet, by scope: a new reader takes its keys from here.
AWAITED = {
    Scope.JOB: "",
    Scope.GPU: "",
    Scope.CONTAINER: JOB,
    Scope.HOST: "",
    Scope.CORE: "",
    Scope.DISK: "",
    Scope.INTERFACE: "",
    Scope.NUMA: "",
    Scope.SENSOR: "",
    Scope.BATTERY: "",
    Scope.PACKAGE: "",
}
OWN_SOURCES = (Scope.GPU, Scope.PACKAGE)  # that the source of the host does not read
COLLECTORS = sorted((ROOT / "core/measure/collectors").rglob("*.py"))
CONTAINER_READERS = {"docker.py", "podman.py", "container.py"}


@pytest.mark.parametrize(
    ("scope", "keys"),
    [
        *((Scope.JOB, JOB), (Scope.CONTAINER, JOB), (Scope.GPU, GPU), (Scope.HOST, HOST), (Scope.INTERFACE, NET)),
        (Scope.CORE, "cpu.percent cpu.iowait cpu.steal"),
        (Scope.DISK, DISK),
        (Scope.NUMA, "mem.total mem.used mem.cached numa.misses"),
        (Scope.SENSOR, "temp fan.speed"),
        (Scope.BATTERY, "battery.charge battery.power"),
        (Scope.PACKAGE, "energy.cpu"),
    ],
)
def test_each_scope_has_exactly_the_promised_keys(scope: Scope, keys: str) -> None:
    assert sorted(metric.key for metric in metrics_of(scope)) == sorted(keys.split())


def test_a_key_is_one_row_and_a_title_says_one_thing() -> None:
    assert len(BY_KEY) == len(CATALOGUE)
    assert len({metric.title for metric in CATALOGUE}) == len(CATALOGUE)


@pytest.mark.parametrize("metric", CATALOGUE, ids=lambda metric: metric.key)
def test_a_row_is_sound(metric: Metric) -> None:
    assert len(set(metric.scopes)) == len(metric.scopes) > 0
    assert (metric.fold is Fold.NONE) == (Scope.JOB not in metric.scopes)
    assert not metric.key.endswith("_bytes") or metric.unit is Unit.BYTES
    assert metric.unit is not Unit.PERCENT or metric.kind is Kind.GAUGE
    assert metric.unit is not Unit.JOULES or metric.kind is Kind.COUNTER


@pytest.mark.parametrize(
    ("key", "unit", "kind", "fold"),
    [
        ("cpu.user", Unit.SECONDS, Kind.COUNTER, Fold.SUM),
        ("cpu.throttled", Unit.SECONDS, Kind.COUNTER, Fold.OWN),
        ("mem.used", Unit.BYTES, Kind.GAUGE, Fold.SUM),
        ("mem.pressure", Unit.SECONDS, Kind.COUNTER, Fold.OWN),
        ("mem.faults_major", Unit.COUNT, Kind.COUNTER, Fold.SUM),
        ("io.read_chars", Unit.BYTES, Kind.COUNTER, Fold.SUM),
        ("net.drops", Unit.COUNT, Kind.COUNTER, Fold.OWN),
        ("proc.fds", Unit.COUNT, Kind.GAUGE, Fold.SUM),
        ("limit.cpus", Unit.CORES, Kind.GAUGE, Fold.OWN),
        ("gpu.clock_sm", Unit.HERTZ, Kind.GAUGE, Fold.NONE),
        ("energy.gpu", Unit.JOULES, Kind.COUNTER, Fold.OWN),
        ("disk.busy", Unit.SECONDS, Kind.COUNTER, Fold.NONE),
    ],
)
def test_units_kinds_and_folds_are_those_of_the_source(key: str, unit: Unit, kind: Kind, fold: Fold) -> None:
    metric = find_metric(key)
    assert (metric.unit, metric.kind, metric.fold) == (unit, kind, fold)


def test_an_unknown_key_names_the_nearest() -> None:
    assert nearest("gpu.utl") == "gpu.util"
    assert nearest("xyzzy") is None
    with pytest.raises(BadValue, match=r'^unknown metric "gpu.utl" \(did you mean "gpu.util"\?\)$'):
        find_metric("gpu.utl")


def test_a_row_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        CATALOGUE[0].title = "x"  # type: ignore[misc]
    assert not hasattr(CATALOGUE[0], "__dict__")


def a_cgroup(directory: Path) -> str:
    """A cgroup of version 2 with every file that is read."""
    directory.mkdir()
    stall = "some avg10=0.00 avg60=0.00 avg300=0.00 total=7\n"
    files = {
        "cpu.stat": "usage_usec 9\nuser_usec 5\nsystem_usec 4\nthrottled_usec 3\n",
        "memory.stat": "anon 1\nfile 2\nshmem 3\n",
        "memory.current": "6\n",
        "memory.events": "oom 0\noom_kill 0\n",
        "pids.events": "max 0\n",
        **dict.fromkeys(("cpu.pressure", "memory.pressure", "io.pressure"), stall),
    }
    for name, text in files.items():
        (directory / name).write_text(text)
    return str(directory)


def keys_read_of_a_job(below: Path) -> set[str]:
    """What the readers of a job with all sources give: of its processes, of its cgroup, and derived of both."""
    proc = FakeProc(below / "proc")
    proc.put(50, 1)
    for pid in (60, 61):
        proc.put(pid, 50, cpu=1.0)
    table = proc.table()
    tree = table.add(50)
    table.sweep()
    table.read_details(1.0)
    cgroup = CgroupReader([a_cgroup(below / "cgroup")])
    counted, _ = cgroup.read()
    on_gpu = readings_of_a_gpu(below, 60, {"job": Target(Identity("", 50, None), 0.0)}).jobs["job"]
    values = (
        fold(tree)
        | limits_of_a_job(below)
        | counted
        | readings_of_energy(below).jobs["a"]
        | on_gpu
        | values_of_a_socket()
    )
    cgroup.close()
    table.close()
    before, after = (Sample(elapsed, tuple(map(values.get, JOB_COLUMNS))) for elapsed in (1.0, 2.0))
    derived = {key for key, value in derive(before, after).values.items() if value is not None}
    return values.keys() | derived


def values_of_a_socket() -> dict[str, float | int]:
    """What a connection tells of its job, and what a network namespace does."""
    sockets = JobSockets()
    sockets.jobs["job"] = traffic = JobTraffic()
    sockets.take_listed([diag_socket(1, 5, 10, 20)], lambda inodes: dict.fromkeys(inodes, frozenset({"job"})))
    namespace = Namespace(existed=False)
    namespace.read("/proc/self/net/dev")
    namespace.close()
    return namespace.values() | traffic.values()


def readings_of_a_gpu(below: Path, pid: int, jobs: dict[str, Target]) -> Readings:
    """What NVIDIA's library tells of a GPU with one process, and of the job of that process."""
    nvml = fake_nvml(below)
    load_in_this_process(nvml)
    nvml.show(FakeGpu("GPU-0", processes=((pid, 1, 1),)))
    source = NvidiaSource(NvidiaSession(sys=str(below)), PidOwners(str(below / "proc")))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in nvml.env.items():
            patch.setenv(name, value)
        readings = source.collect(jobs)
        source.close()
    return readings


def limits_of_a_job(below: Path) -> dict[str, float]:
    """What a process tells of its limits, and what its job asked for."""
    machine = LimitedMachine(below / "limited", "container")
    machine.put("", {"pids.max": "100"})
    machine.put_process(PID, limits=LIMITS.format(1024))
    return machine.values(limited_target(declared=Limits(cpus=1.0, memory_bytes=1)))


def readings_of_energy(below: Path) -> Readings:
    """What the counters of two CPU packages tell, of a job that has run too."""
    machine = PoweredMachine(below / "powered")
    machine.collect()
    machine.run(11, 1.0)
    machine.use(1.0, busy=1.0, z0=40)
    readings = machine.collect()
    machine.close()
    return readings


def keys_read_of_a_package(below: Path) -> set[str]:
    return {key for _, values in readings_of_energy(below).devices for key in values}


def keys_read_of_a_gpu(below: Path) -> set[str]:
    """What a GPU of NVIDIA and one of AMD have together."""
    amd = DrmMachine(below / "amd", "amd-dgpu")
    both = [*readings_of_a_gpu(below, 1, {}).devices, *amd.collect().devices]
    amd.close()
    return {key for _, values in both for key, value in values.items() if value is not None}


def samples_of_a_host(below: Path) -> tuple[HostSample, HostSample]:
    """Two samples of a machine that tells everything."""
    captured = below_machine("manycore", below)
    moments = iter([1.0, 2.0])
    collector = HostCollector(str(below / "proc"), str(below / "sys"), str(below), lambda: next(moments))
    before = collector.collect()
    for file in (captured / "proc-later").rglob("*"):
        if file.is_file():
            (below / "proc" / file.relative_to(captured / "proc-later")).write_text(file.read_text())
    after = collector.collect()
    collector.close()
    return before, after


def keys_read_of_a_host(below: Path) -> set[str]:
    """What the reader of a machine gives."""
    frame = host_frame(*samples_of_a_host(below))
    return {key for key, value in frame.values.items() if value is not None} | readings_of_energy(below).host.keys()


def keys_read_of_devices(scope: Scope, below: Path) -> set[str]:
    """What the source of the host gives of its devices of one kind."""
    before, after = samples_of_a_host(below)
    slow = slow_reader(below)
    readings = device_readings(before, after, slow.space())
    readings += SlowHostSource(lambda: slow).collect({}).devices
    of_kind = [values for device, values in readings if device.kind == scope]
    return {key for values in of_kind for key, value in values.items() if value is not None}


@pytest.mark.parametrize(
    ("scope", "read"),
    [
        (Scope.JOB, keys_read_of_a_job),
        (Scope.HOST, keys_read_of_a_host),
        (Scope.GPU, keys_read_of_a_gpu),
        (Scope.PACKAGE, keys_read_of_a_package),
        *((scope, partial(keys_read_of_devices, scope)) for scope in DEVICE_SCOPES if scope not in OWN_SOURCES),
    ],
)
def test_every_row_has_a_reader_and_every_key_of_a_reader_a_row(
    scope: Scope, read: Callable[[Path], set[str]], tmp_path: Path
) -> None:
    found, awaited = read(tmp_path), set(AWAITED[scope].split())
    assert found | awaited == {metric.key for metric in metrics_of(scope)}
    assert found & awaited == set()


def test_what_is_awaited_has_no_reader_yet() -> None:
    sources = "\n".join(path.read_text() for path in COLLECTORS if path.parent.name != "host")
    literals = set(re.findall(r'"([a-z]+\.[a-z_]+)"', sources))
    assert literals & {"cpu.user", "proc.fds", "mem.oom_kills"}, "the readers name their keys"
    assert literals & {*AWAITED[Scope.JOB].split(), *AWAITED[Scope.GPU].split()} == set()
    assert {path.name for path in COLLECTORS} & CONTAINER_READERS == set()


@pytest.mark.parametrize("scope", [scope for scope in Scope if scope is not Scope.CONTAINER])
def test_every_row_says_where_it_is_read_and_how_exact_it_is_and_no_note_is_left_over(scope: Scope) -> None:
    keys = [metric.key for metric in metrics_of(scope)]
    used = {pattern for key in keys for pattern, note in NOTES[scope].items() if note is note_of(scope, key)}
    assert used == NOTES[scope].keys()
    assert all(field for key in keys for field in note_of(scope, key))
