"""A directory like /proc with processes that have files open, for tests: fd links, fdinfo, io and maps."""

import os
from pathlib import Path


class FileProc:
    """Processes below a directory; `open` gives one a descriptor, `at` moves its position."""

    def __init__(self, below: Path) -> None:
        self.root = below / "proc"

    @property
    def path(self) -> str:
        return str(self.root)

    def process(self, pid: int, read: int = 0, written: int = 0, maps: str = "") -> None:
        for name in ("fd", "fdinfo"):
            (self.root / str(pid) / name).mkdir(parents=True, exist_ok=True)
        if not (self.root / str(pid) / "root").is_symlink():
            os.symlink("/", self.root / str(pid) / "root")
        (self.root / str(pid) / "maps").write_text(maps)
        (self.root / str(pid) / "cmdline").write_text(f"worker\0{pid}\0")
        self.counters(pid, read, written)

    def counters(self, pid: int, read: int, written: int = 0) -> None:
        """What the process has read and written by system calls."""
        (self.root / str(pid) / "io").write_text(f"rchar: {read}\nwchar: {written}\nsyscr: 1\n")

    def open(self, pid: int, fd: int, target: Path | str, position: int = 0, flags: int = os.O_RDONLY) -> None:
        os.symlink(target, self.root / f"{pid}/fd/{fd}")
        self.at(pid, fd, position, flags)

    def at(self, pid: int, fd: int, position: int, flags: int = os.O_RDONLY) -> None:
        text = f"pos:\t{position}\nflags:\t{flags | 0o100000:07o}\nmnt_id:\t29\n"
        (self.root / f"{pid}/fdinfo/{fd}").write_text(text)

    def close(self, pid: int, fd: int) -> None:
        (self.root / f"{pid}/fd/{fd}").unlink()
        (self.root / f"{pid}/fdinfo/{fd}").unlink()


def sized(path: Path, size: int) -> Path:
    """A file with this size that takes no space."""
    with path.open("wb") as file:
        file.truncate(size)
    return path
