"""Captured cgroup trees, rebuilt below a directory, and a kernel that fills in and clears what is made in them."""

import errno
import os
import shutil
from pathlib import Path

import pytest

from support import ROOT

DATA = ROOT / "tests/data"
CGROUP_ROOT = "/sys/fs/cgroup"
V2_FILES = {"cgroup.procs": "", "cgroup.subtree_control": "", "cpu.stat": "usage_usec 0\nuser_usec 0\nsystem_usec 0\n"}
V2_MEMORY_FILES = {"memory.peak": "0\n", "memory.events": "oom 0\noom_kill 0\n", "memory.max": "max\n"}
V1_FILES = {
    "memory": {"memory.max_usage_in_bytes": "0\n", "memory.oom_control": "oom_kill_disable 0\noom_kill 0\n"},
    "cpuacct": {"cpuacct.usage": "0\n", "cpuacct.usage_user": "0\n"},
    "cpu": {"cpu.cfs_quota_us": "-1\n", "cpu.cfs_period_us": "100000\n"},
}


def capture(name: str, below: Path) -> Path:
    """A directory like /proc/self with the captured `cgroup` and `mountinfo`; cgroups are mounted below `below`."""
    proc = below / "proc/self"
    proc.mkdir(parents=True)
    for file in (DATA / "cgroup" / name).iterdir():
        (proc / file.name).write_text(file.read_text().replace(CGROUP_ROOT, f"{below}{CGROUP_ROOT}"))
    return proc


class Kernel:
    """What the kernel does when a cgroup is made or removed, for trees of plain files; `closed` cannot be written."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.closed: dict[str, int] = {}
        self.made: list[str] = []
        self.populated: set[str] = set()
        self._mkdir, self._rmdir, self._access = os.mkdir, os.rmdir, os.access
        monkeypatch.setattr(os, "mkdir", self.mkdir)
        monkeypatch.setattr(os, "rmdir", self.rmdir)
        monkeypatch.setattr(os, "access", self.access)

    def grow(self, directory: Path, kind: str = "v2", passing_on: str = "", **files: str) -> None:
        """Make a cgroup that was there before, with those above it that are missing."""
        for place in reversed([directory, *directory.parents]):
            if not place.exists():
                self._mkdir(place)
        self._fill(directory, V2_FILES if kind == "v2" else {"cgroup.procs": "", **V1_FILES[kind]})
        if kind == "v2":
            (directory / "cgroup.subtree_control").write_text(passing_on)
        self._fill(directory, {name.replace("_", "."): text for name, text in files.items()})

    def mkdir(self, path: str, mode: int = 0o777) -> None:
        parent = Path(path).parent
        if (number := self.closed.get(str(parent))) is not None:
            raise OSError(number, os.strerror(number), path)
        self._mkdir(path, mode)
        if not (parent / "cgroup.procs").exists():
            return
        self.made.append(path)
        if (parent / "cgroup.subtree_control").exists():
            passed_on = (parent / "cgroup.subtree_control").read_text()
            self._fill(Path(path), V2_FILES | (V2_MEMORY_FILES if "memory" in passed_on else {}))
        else:
            kind = next(kind for kind, files in V1_FILES.items() if (parent / next(iter(files))).exists())
            self._fill(Path(path), {"cgroup.procs": "", **V1_FILES[kind]})

    def rmdir(self, path: str, **options: int) -> None:
        if str(path) in self.populated:
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), path)
        if Path(path, "cgroup.procs").exists():
            shutil.rmtree(path)
            return
        self._rmdir(path, **options)

    def access(self, path: str, mode: int) -> bool:
        return not any(Path(path).is_relative_to(place) for place in self.closed) and self._access(path, mode)

    @staticmethod
    def _fill(directory: Path, files: dict[str, str]) -> None:
        for name, text in files.items():
            (directory / name).write_text(text)
