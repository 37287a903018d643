"""Machines on which each source reads all that it can: three readings in a row, the same whenever they are repeated."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from captured_hosts import below_machine, slow_reader
from drm import DrmMachine

from energy import PoweredMachine
from jobtop.core.measure.collectors.cgroup_source import CgroupSource
from jobtop.core.measure.collectors.energy.powercap import find_packages
from jobtop.core.measure.collectors.energy.rapl import RaplSource
from jobtop.core.measure.collectors.files.source import FileSource
from jobtop.core.measure.collectors.gpu.drm_source import DrmSource
from jobtop.core.measure.collectors.host.reading import HostCollector
from jobtop.core.measure.collectors.host.slow_source import SlowHostSource
from jobtop.core.measure.collectors.host.source import HostSource
from jobtop.core.measure.collectors.network.namespaces import NamespaceTraffic
from jobtop.core.measure.collectors.network.source import NetworkSource
from jobtop.core.measure.collectors.pid_owners import PidOwners
from jobtop.core.measure.collectors.process_source import ProcessSource
from jobtop.core.measure.source import Readings
from jobtop.core.measure.sources import Options
from jobtop.core.measure.target import Target
from jobtop.core.model import Identity
from limited import LIMITS, PID, LimitedMachine, limited_target
from open_files import sized
from processes import FakeProc, below

MIB = 1 << 20
READINGS = 3
JOBS = {"a": below(10), "b": below(20)}


class FaultyMachine:
    """One source on its machine; `start` opens it anew, `advance` lets time pass until a reading."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.step = 0

    def start(self) -> None:
        raise NotImplementedError

    def advance(self, step: int) -> None:
        self.step = step

    def collect(self) -> Readings:
        raise NotImplementedError

    def available(self) -> str | None:
        """Why the source cannot be used here, or None."""
        return None

    def reasons(self) -> dict[str, str]:
        """Why values of the host are not known."""
        return {}

    def close(self) -> None:
        raise NotImplementedError


class Host(FaultyMachine):
    """The host: its files change between the first two readings."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.captured = below_machine("manycore", root)

    def start(self) -> None:
        proc, sys = str(self.root / "proc"), str(self.root / "sys")
        self.reader = HostCollector(proc, sys, str(self.root), lambda: 100.0 + self.step, 0.0)
        self.source = HostSource(self.reader)

    def advance(self, step: int) -> None:
        super().advance(step)
        if step > 1:
            return
        place = self.captured / ("proc-later" if step else "proc")
        for file in place.rglob("*"):
            if file.is_file():
                (self.root / "proc" / file.relative_to(place)).write_bytes(file.read_bytes())

    def collect(self) -> Readings:
        readings = self.source.collect({})
        for key in ("disk.used", "disk.total"):  # of the file system of the test, which changes
            readings.host.pop(key)
        return readings

    def reasons(self) -> dict[str, str]:
        return self.reader.missing

    def close(self) -> None:
        self.source.close()


class SlowDevices(FaultyMachine):
    """Disks, NUMA nodes, sensors and batteries."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        below_machine("manycore", root)

    def start(self) -> None:
        self.source = SlowHostSource(lambda: slow_reader(self.root))

    def collect(self) -> Readings:
        readings = self.source.collect({})
        readings.host.update(
            {f"{disk}:{at}": n for disk, both in self.source.space().items() for at, n in enumerate(both)}
        )
        return readings

    def close(self) -> None:
        self.source.close()


class Processes(FaultyMachine):
    """A job with two processes, and one with one."""

    details_seconds = 1.0

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.proc = FakeProc(root / "proc")
        self.advance(0)
        (root / "proc/meminfo").write_text("Shmem: 1000 kB\n")
        (root / "proc/sys/kernel").mkdir(parents=True)
        (root / "proc/sys/kernel/ns_last_pid").write_text("99\n")

    def start(self) -> None:
        self.source = self.processes = ProcessSource(self.proc.table())
        self.processes.details_seconds = self.details_seconds

    def advance(self, step: int) -> None:
        super().advance(step)
        for pid, parent in ((1, 0), (10, 1), (11, 10), (12, 11), (20, 1), (21, 20)):
            self.proc.put(
                pid,
                parent,
                start=100 + pid,
                cpu=1.0 + step,
                user=0.5,
                system=0.5,
                chars=1000 * pid * (step + 1),
                faults=7,
            )

    def collect(self) -> Readings:
        return self.processes.collect(JOBS)

    def close(self) -> None:
        self.processes.close()


class Cgroups(FaultyMachine):
    """A job in cgroups of version 2, another in those of version 1."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        for name in ("v2", "memory", "cpuacct", "cpu"):
            (root / name).mkdir()
        (root / "cpu/cpu.cfs_quota_us").write_text("50000\n")
        self.jobs = {
            "a": below(10, cgroups=[str(root / "v2")], includes_root=True),
            "b": below(20, cgroups=[str(root / name) for name in ("memory", "cpuacct", "cpu")]),
        }
        self.advance(0)

    def start(self) -> None:
        self.source = CgroupSource()

    def advance(self, step: int) -> None:
        super().advance(step)
        more = 1000 * step
        pressure = f"some avg10=0.00 avg60=0.00 avg300=0.00 total={5000 + more}\nfull avg10=0.00 total=1\n"
        files = {
            "v2/cpu.stat": f"usage_usec {9000 + more}\nuser_usec {6000 + more}\nsystem_usec 3000\n"
            "nr_periods 5\nnr_throttled 3\nthrottled_usec 700\n",
            "v2/memory.stat": f"anon {100 + more}\nfile 50\nkernel 4096\nkernel_stack 10\nshmem 20\nfile_mapped 1\n",
            "v2/memory.current": "123456\n",
            "v2/memory.events": "low 0\nhigh 0\nmax 3\noom 2\noom_kill 1\n",
            "v2/pids.events": "max 12\n",
            **{f"v2/{name}.pressure": pressure for name in ("cpu", "memory", "io")},
            "v2/io.stat": "8:0 rbytes=4096 wbytes=8192 rios=1 wios=2 dbytes=0 dios=0\n"
            "8:16 rbytes=100 wbytes=200 rios=3 wios=4 dbytes=0 dios=0\n",
            "memory/memory.stat": f"cache 1\nrss 1\ntotal_cache 50\ntotal_rss {100 + more}\ntotal_shmem 20\n",
            "memory/memory.usage_in_bytes": "4242424\n",
            "memory/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n",
            "cpuacct/cpuacct.usage": f"{9_000_000_000 + more}\n",
            "cpuacct/cpuacct.usage_user": f"{6_000_000_000 + more}\n",
            "cpu/cpu.stat": "nr_periods 5\nnr_throttled 3\nthrottled_time 700000000\n",
        }
        for name, text in files.items():
            (self.root / name).write_text(text)

    def collect(self) -> Readings:
        return self.source.collect(self.jobs)

    def close(self) -> None:
        self.source.close()


class Limits(FaultyMachine):
    """A process with limits of its cgroup and of its open files."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.machine = LimitedMachine(root, "container")
        self.machine.put("", {"cpu.max": "200000 100000", "memory.max": str(1 << 30), "pids.max": "1234"})
        self.machine.put_process(
            PID,
            status="Name:\tx\nCpus_allowed_list:\t0-7\n",
            limits=LIMITS.format(2048),
            environ="HOME=/root\0",
        )

    def start(self) -> None:
        self.sources = [self.machine.source() for _ in range(READINGS)]

    def collect(self) -> Readings:
        return self.sources[self.step].collect({"job": limited_target()})

    def close(self) -> None:
        for source in self.sources:
            source.close()


class Energy(FaultyMachine):
    """Two packages with their memory, and two jobs that run."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.powered = PoweredMachine(root)
        self.powered.close()
        self.counters = {path: int(path.read_text()) for path in root.glob("class/powercap/*/energy_uj")}

    def start(self) -> None:
        machine = self.powered
        machine.processes = ProcessSource(machine.proc.table())
        packages = find_packages(str(self.root))
        machine.source = RaplSource(packages, str(self.root / "proc"), machine.processes, boottime=lambda: machine.now)

    def advance(self, step: int) -> None:
        super().advance(step)
        machine = self.powered
        machine.now = 100.0 + step
        for path, counter in self.counters.items():
            span = int((path.parent / "max_energy_range_uj").read_text())
            path.write_text(f"{(counter + step * 20_000_000) % span}\n")
        (self.root / "proc/stat").write_text(
            f"cpu  {1000 + 200 * step} 0 500 {97000 + 200 * step} 1500 0 0 0 0 0\ncpu0 1 1\n"
        )
        for pid in (11, 21):
            machine.proc.put(pid, pid - 1, cpu=1.0 * step)

    def collect(self) -> Readings:
        return self.powered.collect()

    def available(self) -> str | None:
        return self.powered.source.available()

    def close(self) -> None:
        self.powered.close()


class Gpus(FaultyMachine):
    """A card with a process of a job on it."""

    tree, fdinfo = "amd-dgpu", "amdgpu"

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.machine = DrmMachine(root, self.tree, jobs=JOBS.items())
        for pid, parent in ((1, 0), (10, 1), (11, 10), (20, 1), (21, 20)):
            self.machine.proc.put(pid, parent, start=100 + pid)
        self.machine.open_gpu(11, 7, f"{self.fdinfo}-1")
        self.machine.close()

    def start(self) -> None:
        machine = self.machine
        machine.table = machine.proc.table()
        machine.processes = ProcessSource(machine.table)
        options = Options(proc=str(machine.proc.root), sys=str(machine.sys), without=frozenset({"intel_gpu_top"}))
        machine.source = DrmSource(options, machine.processes, lambda: machine.now)

    def advance(self, step: int) -> None:
        super().advance(step)
        self.machine.now = 1000.0 + step
        self.machine.open_gpu(11, 7, f"{self.fdinfo}-{min(step, 1) + 1}")

    def collect(self) -> Readings:
        return self.machine.collect(0.0)

    def close(self) -> None:
        self.machine.close()


class IntelGpus(Gpus):
    """The same with a card of Intel."""

    tree, fdinfo = "intel-xe", "xe"


class Files(FaultyMachine):
    """A job that reads and writes two files."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.proc = FakeProc(root / "proc")
        self.proc.put(11, 10, start=111)
        fd = root / "proc/11/fd"
        (root / "proc/11/fdinfo").mkdir()
        for number, name in ((3, "in"), (4, "out")):
            os.symlink(sized(root / name, 300 * MIB), fd / str(number))
        self.advance(0)

    def start(self) -> None:
        self.processes = ProcessSource(self.proc.table())
        self.source = FileSource(
            self.processes, str(self.proc.root), clock=lambda: 100.0 + 2 * self.step, below=lambda _: [11]
        )

    def advance(self, step: int) -> None:
        super().advance(step)
        for number, flags in ((3, os.O_RDONLY), (4, os.O_WRONLY)):
            text = f"pos:\t{10 * MIB * step}\nflags:\t{flags | 0o100000:07o}\nmnt_id:\t29\n"
            (self.root / f"proc/11/fdinfo/{number}").write_text(text)
        (self.root / "proc/11/io").write_text(f"rchar: {20 * MIB * step}\nwchar: {20 * MIB * step}\nsyscr: 1\n")

    def collect(self) -> Readings:
        return self.source.collect({"job": Target(Identity("boot", 10, None), 100.0)})

    def close(self) -> None:
        self.source.close()
        self.processes.close()


class Namespaces(FaultyMachine):
    """A job in a network namespace of its own; sockets come by netlink, and from no file."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.proc = FakeProc(root / "proc")
        for pid, parent in ((1, 0), (10, 1), (11, 10)):
            self.proc.put(pid, parent, start=100 + pid)
            (root / f"proc/{pid}/ns").mkdir()
            (root / f"proc/{pid}/ns/net").write_text("")
        (root / "proc/11/net").mkdir()
        self.advance(0)

    def start(self) -> None:
        self.processes = ProcessSource(self.proc.table())
        proc = str(self.root / "proc")
        self.source = NetworkSource(Options())
        self.source._namespaces = NamespaceTraffic(PidOwners(proc, self.processes), self.processes, proc)

    def advance(self, step: int) -> None:
        super().advance(step)
        head = "Inter-|   Receive  |  Transmit\n face |bytes packets errs drop fifo frame compressed multicast|bytes\n"
        rows = [
            f"{name}: {(step + 1) * most} 5 0 1 0 0 0 0 {(step + 1) * most} 7 0 2 0 0 0 0\n"
            for name, most in (("lo", 9), ("eth0", 5000), ("eth1", 700))
        ]
        (self.root / "proc/11/net/dev").write_text(head + "".join(rows))

    def collect(self) -> Readings:
        jobs = {"a": JOBS["a"]}
        self.processes.collect(jobs)
        return self.source.collect(jobs)

    def close(self) -> None:
        self.source.close()
        self.processes.close()


MACHINES: dict[str, Callable[[Path], FaultyMachine]] = {
    "host": Host,
    "devices": SlowDevices,
    "processes": Processes,
    "cgroups": Cgroups,
    "limits": Limits,
    "energy": Energy,
    "drm amd": Gpus,
    "drm intel": IntelGpus,
    "files": Files,
    "network": Namespaces,
}
