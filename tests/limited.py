"""A machine with limits: a captured tree of cgroups, and a process in it."""

from collections.abc import Mapping
from pathlib import Path

from jobtop.core.measure.collectors.limits.reading import CgroupLimits, LimitSet, find_mounts
from jobtop.core.measure.collectors.limits.source import LimitSource
from jobtop.core.measure.target import Target
from jobtop.core.model import Identity, Limits
from trees import CGROUP_ROOT, capture

PID = 71
LIMITS = """Limit                     Soft Limit           Hard Limit           Units
Max processes             100                  100                  processes
Max open files            {}                 1048576              files
"""


class LimitedMachine:
    """A captured tree of cgroups, and a process in it."""

    def __init__(self, below: Path, name: str) -> None:
        self.root, self.proc = below, capture(name, below).parent
        self.put_process(PID)

    def put_process(self, pid: int, **files: str) -> None:
        directory = self.proc / str(pid)
        directory.mkdir(exist_ok=True)
        (directory / "cgroup").write_text((self.proc / "self/cgroup").read_text())
        for name, text in files.items():
            (directory / name).write_text(text)

    def put(self, directory: str, files: Mapping[str, str]) -> None:
        place = self.root / CGROUP_ROOT.strip("/") / directory
        place.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (place / name).write_text(f"{text}\n")

    def found(self) -> LimitSet:
        return CgroupLimits(find_mounts(str(self.proc))).of_text((self.proc / str(PID) / "cgroup").read_text())

    def source(self, cores: int = 8) -> LimitSource:
        return LimitSource(str(self.proc), cores=cores)

    def values(self, target: Target) -> dict[str, float]:
        return self.source().collect({"job": target}).jobs.get("job", {})


def limited_target(pid: int = PID, declared: Limits | None = None, memory: int | None = None) -> Target:
    main = Identity("boot", pid, 5)
    return Target(Identity("boot", 1, 5), 0.0, memory_limit_bytes=memory, main=main, declared=declared)
