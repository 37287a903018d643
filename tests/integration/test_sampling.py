"""The sampler against loads whose cost is known by construction, under a real shim."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from jobtop.core.evidence import Facts
from jobtop.core.metrics import JOB_COLUMNS
from jobtop.core.model import JobSpec, Sample
from jobtop.core.runner import Supervisor
from jobtop.core.sampler import Sampler
from jobtop.core.shim import BOOTTIME
from running import PYTHON, descendants, kill_if_alive
from support import wait_for

MIB = 1024 * 1024
CORES = os.cpu_count() or 1
USER, SYSTEM, USED = (JOB_COLUMNS.index(key) for key in ("cpu.user", "cpu.system", "mem.used"))
SHARED = """
import os, sys
memory = bytearray(b"x") * (300 << 20)
for _ in range(6):
    if os.fork() == 0:
        break
open(sys.argv[1], "a").write(f"{os.getpid()}\\n")
os.read(os.open(sys.argv[2], os.O_RDONLY), 1)
"""
SQUARE = """
import time
for _ in range(8):
    end = time.process_time() + 0.2
    while time.process_time() < end: pass
    time.sleep(0.2)
"""
BURST = """
import os, time
end = time.monotonic() + 3
while time.monotonic() < end:
    pid = os.fork()
    if pid == 0:
        while time.process_time() < 0.002: pass
        os._exit(0)
    os.waitpid(pid, 0)
"""


class Watched:
    """A job below its shim, sampled until its end."""

    def __init__(self, supervisor: Supervisor, sampler: Sampler) -> None:
        self.supervisor, self.sampler = supervisor, sampler
        self.samples: list[Sample] = []

    def end(self) -> Facts:
        """What the shim tells when the job is over."""
        told = self.supervisor.hear()
        assert told is not None
        last = self.sampler.forget(1)
        assert last is not None
        self.samples.append(last)
        return told

    def rates(self) -> list[float]:
        """Percent of one core between each two samples."""
        pairs = zip(self.samples, self.samples[1:], strict=False)
        return [100 * (cpu(b) - cpu(a)) / (b.elapsed - a.elapsed) for a, b in pairs if b.elapsed > a.elapsed]


def cpu(sample: Sample) -> float:
    user, system = sample.values[USER], sample.values[SYSTEM]
    assert user is not None
    assert system is not None
    return user + system


@contextmanager
def watched(tmp_path: Path, *command: str, interval: float = 0.1, budget: float = 1.0) -> Iterator[Watched]:
    supervisor = Supervisor()
    job = Watched(supervisor, Sampler(lambda samples: job.samples.extend(one for _, one in samples), budget))
    directory = tmp_path / "job"
    directory.mkdir()
    spec = JobSpec(supervisor.job_id, command, str(tmp_path), dict(os.environ), detached=True)
    try:
        begun = supervisor.begin(spec, str(directory), with_cgroup=False, with_stdin=False)
        assert begun is not None
        job.sampler.watch(1, supervisor.pid, time.clock_gettime(BOOTTIME), interval=interval)
        job.sampler.start()
        yield job
    finally:
        job.sampler.stop()
        for pid in descendants(supervisor.pid):
            kill_if_alive(pid)
        supervisor._bury()
        os.close(supervisor.status_read)


def recorded_seconds(told: Facts) -> float:
    return float(told["utime"]) + float(told["stime"])


def pss_of(pid: int) -> int:
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return int(text.split("\nPss:")[1].split()[0]) * 1024


def test_memory_shared_by_forks_counts_once(tmp_path: Path) -> None:
    pids, gate = tmp_path / "pids", tmp_path / "gate"
    os.mkfifo(gate)
    with watched(tmp_path, *PYTHON, SHARED, str(pids), str(gate)) as job:
        wait_for(lambda: pids.exists() and len(pids.read_text().split()) == 7, 30)
        truth = sum(pss_of(int(pid)) for pid in pids.read_text().split())

        def reads_right() -> bool:
            used = job.samples[-1].values[USED] if job.samples else None
            return used is not None and abs(used - truth) < 0.05 * truth

        seen = len(job.samples)
        wait_for(reads_right)
        wait_for(lambda: len(job.samples) > seen + 5)
        assert reads_right()
        with open(gate, "r+b", buffering=0) as opened:
            opened.write(b"." * 7)
            job.end()
    peak = max(sample.values[USED] or 0 for sample in job.samples)
    assert peak == pytest.approx(truth, rel=0.05)


def test_a_square_wave_has_its_mean_and_no_sample_is_impossible(tmp_path: Path) -> None:
    with watched(tmp_path, *PYTHON, SQUARE) as job:
        total = recorded_seconds(job.end())
    elapsed = job.samples[-1].elapsed - job.samples[0].elapsed
    mean = (cpu(job.samples[-1]) - cpu(job.samples[0])) / elapsed
    assert mean == pytest.approx((total - cpu(job.samples[0])) / elapsed, rel=0.02)
    assert cpu(job.samples[-1]) >= 1.6
    assert max(job.rates()) <= 100 * 1.02
    assert min(job.rates()) < 10


def test_the_curve_of_short_lived_processes_adds_up_to_the_recorded_total(tmp_path: Path) -> None:
    with watched(tmp_path, *PYTHON, BURST) as job:
        total = recorded_seconds(job.end())
    assert cpu(job.samples[-1]) == pytest.approx(total, rel=0.01, abs=0.02)
    assert min(job.rates()) >= 0
    assert max(job.rates()) <= 100 * CORES
