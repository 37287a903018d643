"""A machine with energy counters, of which a test moves the counters, the busy time and the clock."""

from pathlib import Path

from jobtop.core.measure.collectors.energy.powercap import find_packages
from jobtop.core.measure.collectors.energy.rapl import RaplSource
from jobtop.core.measure.collectors.process_source import ProcessSource
from jobtop.core.measure.source import Readings
from processes import FakeProc, below
from support import ROOT

CAPTURED = ROOT / "tests/data/energy"
JOULE = 1_000_000


class PoweredMachine:
    """A captured machine with two jobs: a has the process 11, b has 21."""

    def __init__(self, root: Path, capture: str = "server") -> None:
        self.sys, self.now = root, 100.0
        for line in (CAPTURED / f"{capture}.txt").read_text().splitlines():
            path, _, text = line.split(" ", 2)
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(f"{text}\n")
        self.ticks = [1000, 97000]  # busy, idle
        self.proc = FakeProc(root / "proc")
        self.jobs = {"a": below(10), "b": below(20)}
        self.processes = ProcessSource(self.proc.table())
        self.cpu = {11: 0.0, 21: 0.0}
        for pid, parent in ((1, 0), (10, 1), (20, 1), (11, 10), (21, 20)):
            self.proc.put(pid, parent)
        self.source = RaplSource(
            find_packages(str(root)), str(root / "proc"), self.processes, boottime=lambda: self.now
        )

    def zone(self, name: str) -> Path:
        return self.sys / "class/powercap" / name / "energy_uj"

    def use(self, seconds: float = 1.0, busy: float = 0.0, cores: int = 4, **joules: float) -> None:
        """Let time pass, in which the cores are busy for some seconds in sum and zones use energy: `z0_1=5`."""
        self.now += seconds
        self.ticks = [self.ticks[0] + round(busy * 100), self.ticks[1] + round((cores * seconds - busy) * 100)]
        (self.sys / "proc/stat").write_text(f"cpu  {self.ticks[0]} 0 500 {self.ticks[1]} 1500 0 0 0 0 0\ncpu0 1 1\n")
        for short, amount in joules.items():
            directory = self.zone("intel-rapl:" + short.removeprefix("z").replace("_", ":")).parent
            span = int((directory / "max_energy_range_uj").read_text())
            value = int((directory / "energy_uj").read_text()) + round(amount * JOULE)
            (directory / "energy_uj").write_text(f"{value % span}\n")

    def run(self, pid: int, seconds: float) -> None:
        self.cpu[pid] += seconds
        self.proc.put(pid, pid - 1, cpu=self.cpu[pid])

    def collect(self) -> Readings:
        self.processes.collect(self.jobs)
        return self.source.collect(self.jobs)

    def close(self) -> None:
        self.source.close()
        self.processes.close()
