"""Machines with GPUs of AMD, Intel and others: captured trees of /sys, and processes that have GPUs open."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from jobtop.core.measure.collectors.gpu.drm_source import DrmSource
from jobtop.core.measure.collectors.process_source import ProcessSource
from jobtop.core.measure.source import Readings
from jobtop.core.measure.sources import Options
from jobtop.core.measure.target import Target
from processes import FakeProc
from support import ROOT

DATA = ROOT / "tests/data/gpu"
NOBODY = 65534
Values = dict[str, float | None]


def plant(below: Path, *names: str) -> Path:
    """Make a /sys from captured trees, in which `\\n` stands for a new line."""
    below.mkdir(parents=True, exist_ok=True)
    for name in names:
        for line in (DATA / f"{name}.txt").read_text().splitlines():
            path, sign, text = line.split(" ", 2)
            entry = below / path
            entry.parent.mkdir(parents=True, exist_ok=True)
            if sign == "->":
                entry.symlink_to(text)
            else:
                entry.write_text(text.replace("\\n", "\n") + "\n")
    return below


class DrmMachine:
    """A captured machine with jobs; time passes when something is collected."""

    def __init__(self, root: Path, *trees: str, jobs: Iterable[tuple[str, Target]] = (), without: str = "") -> None:
        self.sys = plant(root / "sys", *trees)
        self.proc = FakeProc(root / "proc")
        self.jobs = dict(jobs)
        self.now = 1000.0
        self.table = self.proc.table()
        self.processes = ProcessSource(self.table)
        options = Options(proc=str(self.proc.root), sys=str(self.sys), without=frozenset(without.split()))
        self.source = DrmSource(options, self.processes, lambda: self.now)

    def open_gpu(self, pid: int, descriptor: int, fdinfo: str, node: str = "renderD128") -> None:
        """Let a process have a GPU open, with the captured text of a driver."""
        directory = self.proc.root / str(pid)
        (directory / "fdinfo").mkdir(exist_ok=True)
        link = directory / "fd" / str(descriptor)
        if not link.is_symlink():
            link.symlink_to(f"/dev/dri/{node}")
        (directory / "fdinfo" / str(descriptor)).write_text((DATA / "fdinfo" / f"{fdinfo}.txt").read_text())

    def collect(self, seconds: float = 1.0) -> Readings:
        self.now += seconds
        if self.jobs:
            self.processes.collect(self.jobs)
        return self.source.collect(self.jobs)

    def device(self, seconds: float = 1.0) -> Values:
        [(_, values)] = self.collect(seconds).devices
        return dict(values)

    def job(self, key: str = "job", seconds: float = 1.0) -> Values:
        return dict(self.collect(seconds).jobs.get(key, {}))

    def file(self, name: str) -> Path:
        """The one file of the machine with this name, such as `gt0/rc6_residency_ms`."""
        [path] = [path for path in (self.sys / "devices").rglob(Path(name).name) if str(path).endswith(f"/{name}")]
        return path

    def write(self, name: str, text: object) -> None:
        self.file(name).write_text(f"{text}\n")

    def every_file(self) -> list[Path]:
        root = str(self.sys / "devices")
        return [
            Path(at) / name for at, _, names in os.walk(root) for name in names if not (Path(at) / name).is_symlink()
        ]

    def close(self) -> None:
        self.source.close()
        self.table.close()


@contextmanager
def as_user() -> Iterator[None]:
    """What a user without privileges may do, also where the tests run as root."""
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)
