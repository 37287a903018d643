"""How long tasks were stalled because they waited for CPU, memory or I/O (PSI), for the host or one cgroup.

Only `total` is kept: the kernel's averages hide spikes.
"""

from jobtop.core.measure.collectors.open_file import KeptFile
from jobtop.core.record import record

RESOURCES = {"cpu.pressure": "cpu", "mem.pressure": "memory", "io.pressure": "io"}
REMEDY = "the kernel has no pressure stall information, or needs psi=1 on its command line"


@record
class Stall:
    """Seconds since boot in which some tasks were stalled, and in which all of them were; None is not known."""

    some: float | None = None
    full: float | None = None


NOT_KNOWN = Stall()


def stall(text: str) -> Stall:
    """What a pressure file says; lines and words it did not have when this was written are passed over."""
    totals: dict[str, float] = {}
    for line in text.splitlines():
        kind, _, rest = line.partition(" ")
        microseconds = rest.rpartition("total=")[2].strip()
        if "total=" in rest and microseconds.isdecimal():
            totals[kind] = int(microseconds) / 1e6
    return Stall(totals.get("some"), totals.get("full"))


class PressureCollector:
    """The pressure files of a directory: /proc/pressure, or a cgroup's with `suffix` ".pressure"."""

    name = "pressure"

    def __init__(self, directory: str = "/proc/pressure", suffix: str = "") -> None:
        self._files = {key: KeptFile(f"{directory}/{resource}{suffix}") for key, resource in RESOURCES.items()}
        self._is_host = not suffix
        self.missing: dict[str, str] = {}

    def available(self) -> str | None:
        """Why nothing can be read here, or None."""
        if any(stall.some is not None for stall in self.collect().values()):
            return None
        return next(iter(self.missing.values()))

    def collect(self) -> dict[str, Stall]:
        """Stalls by catalogue key; why one is not known is in `missing`."""
        stalls = {key: stall(file.read()) for key, file in self._files.items()}
        self.missing = {
            key: f"{file.problem or f'{file.path}: no total'} ({REMEDY})"
            for key, file in self._files.items()
            if stalls[key].some is None
        }
        if self._is_host:
            # Of a whole machine it means nothing and reads 0 (Documentation/accounting/psi.rst).
            stalls["cpu.pressure"] = Stall(stalls["cpu.pressure"].some)
        return stalls

    def close(self) -> None:
        for file in self._files.values():
            file.close()
