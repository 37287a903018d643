"""Captured machines (tests/data/host): their files of /proc and /sys below a directory, and their slow devices."""

import shutil
from pathlib import Path

from jobtop.core.measure.collectors.host.slow_source import LinuxReader
from jobtop.core.measure.collectors.host.space import DiskSpace
from support import ROOT

GIB = 1 << 30
SPACES = {  # used and in all, by mount point; a path that is not here hangs on a real machine, and fails the test
    "/": (30 * GIB, 100 * GIB),
    "/boot": (1 * GIB, 2 * GIB),
    "/data": (500 * GIB, 1000 * GIB),
    "/scratch": (7 * GIB, 70 * GIB),
    "/snap/core/1": (1 * GIB, 1 * GIB),
}


def below_machine(name: str, below: Path) -> Path:
    """Write the files of a captured machine to `proc` and `sys` below a directory; return where they were captured."""
    captured = ROOT / "tests/data/host" / name
    shutil.copytree(captured / "proc", below / "proc")
    for line in (captured / "sys.txt").read_text().splitlines():
        path, sign, text = line.split(" ", 2)
        entry = below / "sys" / path
        entry.parent.mkdir(parents=True, exist_ok=True)
        if sign == "->":
            entry.symlink_to(text)
        else:
            entry.write_text(f"{text}\n")
    if (captured / "node").exists():
        shutil.copytree(captured / "node", below / "sys/devices/system/node")
    return captured


def space_of(place: str) -> tuple[int | None, int | None, str | None]:
    """The space of a captured mount point."""
    return (*SPACES[place], None)


def slow_reader(below: Path) -> LinuxReader:
    """A reader of the slow devices of a captured machine."""
    reader = LinuxReader(str(below / "proc"), str(below / "sys"))
    reader.disk_space = DiskSpace(str(below / "proc"), str(below / "sys"), space_of)
    return reader
