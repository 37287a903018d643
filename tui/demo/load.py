"""What the simulated jobs use, second by second; all jobs together add up to the load of the machine."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from math import exp
from random import Random

from jobtop.core.measure.device import Device
from jobtop.core.measure.snapshot import ProcessRow
from jobtop.core.metrics import JOB_COLUMNS, Kind, find_metric
from jobtop.core.model import Sample
from jobtop.core.run.scheduling import Capacity
from jobtop.store.samples.head import HOSTS
from jobtop.store.samples.live import KEPT_SAMPLES
from jobtop.tui.data.machine import MachinePast
from jobtop.tui.data.view import MachineView, read_only
from jobtop.tui.demo.demo_job import GIB, MIB, DemoJob
from jobtop.tui.demo.devices import DemoDevices

Number = float | int
DeviceReading = tuple[Device, float, Mapping[str, Number | None]]
HOST = "atlas"
CORES = 16
MEMORY_BYTES, SWAP_BYTES, DISK_BYTES = 64 * GIB, 8 * GIB, 1843 * GIB
OTHERS_BYTES, OTHERS_CORES = 4.6 * GIB, 0.5
CAPACITY = Capacity(CORES, MEMORY_BYTES, ("nvidia:0", "nvidia:1"))  # for the queue
DISK_BYTES_A_SECOND = 1100 * MIB
GPU_BYTES, GPU_PRODUCT, GPU_WATTS, IDLE_GPU_WATTS = 24 * GIB, "NVIDIA GeForce RTX 4090", 450.0, 60.0
HOT_PERCENT = 96  # a GPU that is busier is at its power limit
UPTIME_SECONDS = 12.4 * 86400
SYSTEM_SHARE = 0.08
WEIGHTS = (0.1, 0.6, 0.8, 1.0, 1.1, 1.3)  # shares of the work that a core gets for a while


class Load:
    """One run of a simulated job: what it uses now, and its counters since the start."""

    def __init__(self, demo_job: DemoJob, seed: str, pid: int, seconds: float | None = None, size: float = 1.0) -> None:
        self.demo_job, self.pid, self.size = demo_job, pid, size
        self._random = Random(seed)
        self._stretch = (
            1.0 if seconds is None or demo_job.memory_curve.repeats else seconds / demo_job.memory_curve.seconds
        )
        self._drift = 0.0
        self.elapsed = 0.0
        self.is_paused = False
        self.lines = 0
        self.cores = self.memory = self.read_rate = self.write_rate = 0.0
        self.gpu_percent: float | None = None
        self._user = self._system = self._throttled = self._stalled = 0.0
        self._read = self._written = 0.0
        self._processes = sum(process.count for process in demo_job.tree)
        self._threads = sum(process.count * process.threads for process in demo_job.tree)

    def advance(self, seconds: float) -> Sample:
        """Advance by some seconds; return the sample at the end."""
        demo_job, chance = self.demo_job, self._random
        self.elapsed += seconds
        self.is_paused = False
        self._drift = 0.75 * self._drift + chance.gauss(0, demo_job.noise)
        level = max(0.0, demo_job.cpu_curve.at(self.elapsed) + self._drift)
        most = demo_job.limits.cpus or CORES
        self.cores = min(demo_job.cores * level, most)
        held = demo_job.memory_curve.at(self.elapsed / self._stretch)
        self.memory = demo_job.memory * self.size * (held * 0.98 + 0.01 + 0.01 * chance.random())
        self.read_rate = demo_job.read_rate * (0.4 + 1.2 * chance.random()) * min(1.0, level)
        self.write_rate = demo_job.write_rate * (0.3 + 1.4 * chance.random()) * min(1.0, level)
        if demo_job.gpu is not None:
            self.gpu_percent = min(100.0, demo_job.gpu_percent * min(1.0, level + 0.12) + chance.gauss(0, 1.5))
        self._user += self.cores * seconds * (1 - SYSTEM_SHARE)
        self._system += self.cores * seconds * SYSTEM_SHARE
        self._throttled += 0.31 * seconds if "throttled" in demo_job.flags else 0.0
        self._stalled += 0.03 * seconds * level
        self._read += self.read_rate * seconds
        self._written += self.write_rate * seconds
        return Sample(round(self.elapsed, 3), tuple(map(self._values().get, JOB_COLUMNS)))

    def idle(self, seconds: float) -> Sample:
        """Advance by some seconds without using anything, as a paused job does."""
        self.elapsed += seconds
        self.is_paused = True
        self.cores = self.read_rate = self.write_rate = 0.0
        return Sample(round(self.elapsed, 3), tuple(map(self._values().get, JOB_COLUMNS)))

    def _values(self) -> dict[str, Number | None]:
        demo_job, held = self.demo_job, int(self.memory)
        return {
            "cpu.user": round(self._user, 6),
            "cpu.system": round(self._system, 6),
            "cpu.throttled": round(self._throttled, 6) if demo_job.limits.enforced else None,
            "cpu.pressure": round(self._stalled, 6),
            "mem.used": held,
            "mem.rss": int(held * 1.06),
            "io.read_bytes": int(self._read),
            "io.write_bytes": int(self._written),
            "proc.count": self._processes,
            "proc.threads": self._threads,
            "proc.fds": 12 * self._processes + 7,
            "gpu.util": None if self.gpu_percent is None else round(self.gpu_percent, 1),
            "gpu.mem_used": int(demo_job.gpu_memory) if demo_job.gpu is not None else None,
            "energy.cpu": round(11.0 * self._user, 3),
            "limit.cpus": demo_job.limits.cpus if demo_job.limits.enforced else None,
            "limit.memory": demo_job.limits.memory_bytes if demo_job.limits.enforced else None,
        }

    def processes(self) -> list[ProcessRow]:
        """The current processes of the job."""
        rows: list[ProcessRow] = []
        above = [self.pid - 1]
        for process in self.demo_job.tree:
            del above[process.depth + 1 :]
            for _ in range(process.count):
                pid = self.pid + 3 * len(rows)
                share = process.cpu if process.count == 1 else process.cpu * (0.6 + 0.8 * self._random.random())
                percent = 100 * self.cores * share
                age = self.elapsed if process.depth < 2 else min(self.elapsed, 1 + 9 * self._random.random())
                rows.append(
                    ProcessRow(
                        pid,
                        above[-1],
                        process.command,
                        round((self._user + self._system) * process.cpu * age / (self.elapsed or 1.0), 2),
                        round(percent, 2),
                        int(self.memory * process.memory),
                        process.threads,
                        round(age, 3),
                        "T" if self.is_paused else "R" if percent > 20 else "S",
                    )
                )
            above.append(rows[-1].pid)
        return rows

    def line(self) -> str:
        """The next line of its output."""
        self.lines += 1
        template = self.demo_job.output_lines[self.lines % len(self.demo_job.output_lines)]
        chance = self._random.random()
        return template.format(
            n=self.lines,
            x=400 + 900 * chance,
            y=0.4 + chance,
            small=int(10 * chance),
            falling=0.62 + 2.1 * exp(-self.lines / 180) + 0.05 * chance,
            rising=76 * (1 - exp(-self.lines / 90)) + chance,
        )


class DemoMachine:
    """The simulated machine: the sum of its jobs, plus a little load of other processes."""

    def __init__(self) -> None:
        self._random = Random("surroundings")
        self._aims = [self._random.choice(WEIGHTS) for _ in range(CORES)]
        self._weights = self._aims
        self._loads: list[float] | None = None
        self._line: deque[float | None] = deque(maxlen=KEPT_SAMPLES)
        self._past = MachinePast()
        self._totals = dict.fromkeys((key for key in HOSTS.keys if find_metric(key).kind is Kind.COUNTER), 0.0)
        self._devices = DemoDevices()
        self.machine: MachineView | None = None

    def read(self) -> MachineView | None:
        """The machine now, for the feed of the console."""
        return self.machine

    def advance(self, at: float, uptime: float, loads: Sequence[Load]) -> None:
        """Advance by a second, with these loads."""
        chance = self._random
        cores = self._shared(sum(load.cores for load in loads) + OTHERS_CORES)
        total = sum(cores)
        self._line.append(total / CORES)
        self._loads = averaged(self._loads, total / 100 + 0.6 + 0.4 * chance.random())
        read, write = sum(load.read_rate for load in loads), sum(load.write_rate for load in loads)
        held = sum(load.memory for load in loads) + OTHERS_BYTES
        values: dict[str, Number | None] = {
            "cpu.percent": total,
            "cpu.iowait": 0.02 + 0.03 * chance.random(),
            "cpu.steal": 0.0,
            **{f"load.{minutes}": load for minutes, load in zip((1, 5, 15), self._loads, strict=True)},
            "mem.used": held,
            "mem.total": MEMORY_BYTES,
            "mem.available": MEMORY_BYTES - held,
            "mem.cached": 9.1 * GIB,
            "swap.used": 0.31 * GIB,
            "swap.total": SWAP_BYTES,
            "disk.read_bytes": read,
            "disk.write_bytes": write,
            "disk.busy": min(1.0, (read + 1.6 * write) / DISK_BYTES_A_SECOND + 0.04 * chance.random()),
            "disk.used": 0.58 * DISK_BYTES,
            "disk.total": DISK_BYTES,
            "net.rx_bytes": (8 + 3 * chance.random()) * MIB,
            "net.tx_bytes": 0.9 * read * 0.4 + 2 * MIB,
            "cpu.pressure": 0.05 + 0.04 * chance.random(),
            "mem.pressure": 0.004 * chance.random(),
            "io.pressure": 0.03 + 0.04 * chance.random(),
            "temp": 61 + 6 * total / (100 * CORES),
        }
        detail = {
            "uptime_seconds": uptime,
            "cores": {str(core): core_shares(core, percent) for core, percent in enumerate(cores)},
            "disks": {"nvme0n1": {key: values[key] for key in ("disk.read_bytes", "disk.write_bytes", "disk.busy")}},
            "interfaces": {"eth0": {key: values[key] for key in ("net.rx_bytes", "net.tx_bytes")}},
            "gpus": (found := gpus(loads)),
            "gpu_products": dict.fromkeys(found, GPU_PRODUCT),
        }
        self.machine = self._past.with_past(
            MachineView(HOST, at, read_only(values), read_only(detail), tuple(self._line))
        )

    def gpu_readings(self, elapsed: float) -> list[DeviceReading]:
        """What is recorded of the GPUs now, `elapsed` seconds after the boot."""
        assert self.machine is not None
        return [(Device("gpu", name), elapsed, values) for name, values in self.machine.detail["gpus"].items()]

    def counted(self) -> dict[str, Number | None]:
        """The values to record: what the view shows as a rate is a counter here."""
        assert self.machine is not None
        known = [key for key in self._totals if key in self.machine.values]
        for key in known:
            self._totals[key] += self.machine.values[key] or 0.0
        counted = {key: int(total) if key.endswith("_bytes") else total for key, total in self._totals.items()}
        return {**self.machine.values, **{key: counted[key] for key in known}}

    def other_readings(self, elapsed: float) -> list[DeviceReading]:
        """The devices beside GPUs, to record."""
        assert self.machine is not None
        return [(device, elapsed, values) for device, values in self._devices.readings(self.machine).items()]

    def _shared(self, busy: float) -> list[float]:
        """The percentage of each core, if so many cores are busy and a scheduler spreads the work."""
        chance = self._random
        self._aims = [chance.choice(WEIGHTS) if chance.random() < 0.06 else aim for aim in self._aims]
        self._weights = [0.7 * weight + 0.3 * aim for weight, aim in zip(self._weights, self._aims, strict=True)]
        share = busy / sum(self._weights)
        return [100 * min(1.0, share * weight * (0.8 + 0.4 * chance.random())) for weight in self._weights]


def core_shares(core: int, percent: float) -> list[float]:
    """How busy a core is, and how long it waits for I/O, in percent: few cores have to do with the disk."""
    return [round(percent, 3), min(round(100 - percent, 3), 14.0) if core % 5 == 3 else 0.4, 0.0]


def gpus(loads: Sequence[Load]) -> dict[str, dict[str, Number | None]]:
    """The values of each GPU by its number, with the keys of the catalogue."""
    found: dict[str, dict[str, Number | None]] = {}
    for load in sorted(loads, key=lambda load: load.demo_job.gpu or 0):
        percent = load.gpu_percent
        if load.demo_job.gpu is not None and percent is not None:
            found[str(load.demo_job.gpu)] = {
                "gpu.util": round(percent, 1),
                "gpu.mem_used": int(load.demo_job.gpu_memory),
                "gpu.mem_total": GPU_BYTES,
                "gpu.mem_free": GPU_BYTES - int(load.demo_job.gpu_memory),
                "gpu.temp": round(48 + 0.3 * percent),
                "gpu.power": round(IDLE_GPU_WATTS + (GPU_WATTS - IDLE_GPU_WATTS) * min(1.0, percent / HOT_PERCENT)),
                "gpu.power_limit": GPU_WATTS,
                "gpu.throttled": int(percent >= HOT_PERCENT),
            }
    return found


def averaged(before: list[float] | None, now: float) -> list[float]:
    """The three load averages after another second."""
    if before is None:
        return [now, now * 0.93, now * 0.84]
    return [load + (now - load) * (1 - exp(-1 / seconds)) for load, seconds in zip(before, (60, 300, 900), strict=True)]
