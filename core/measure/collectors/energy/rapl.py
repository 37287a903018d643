"""The source of the energy of the CPU: of each package, of the host, and of jobs by their share of CPU time."""

from __future__ import annotations

import time

from jobtop.core.clock import BOOTTIME
from jobtop.core.measure.collectors.cgroup_source import CgroupSource
from jobtop.core.measure.collectors.energy.powercap import (
    CounterFiles,
    EnergyError,
    find_packages,
    joules_between,
    read_problem,
)
from jobtop.core.measure.collectors.energy.shares import METHOD, EnergyShares
from jobtop.core.measure.collectors.members import TICK_SECONDS
from jobtop.core.measure.collectors.open_file import KeptFile
from jobtop.core.measure.collectors.process_fields import is_count
from jobtop.core.measure.collectors.process_source import USER, ProcessSource
from jobtop.core.measure.device import Device
from jobtop.core.measure.source import Readings, Remarks
from jobtop.core.record import record
from jobtop.core.units import format_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from jobtop.core.measure.collectors.energy.powercap import Package
    from jobtop.core.measure.collectors.energy.shares import JobEnergy
    from jobtop.core.measure.source import DeviceReading, Jobs, Number
    from jobtop.core.measure.sources import Options

MOST_FAILURES = 3  # readings in a row without an answer, until the numbers are absent
MISSED_SECONDS = 0.1  # of CPU time that are no news
KEY = "energy.cpu"


@record
class MachineReading:
    """All counters at one moment: seconds since boot, microjoules by zone, and core seconds busy and idle."""

    boottime: float
    microjoules: tuple[int, ...]
    busy_seconds: float
    idle_seconds: float


class RaplSource:
    """Reads the counters in the tick, right after the CPU times of the jobs, which the energy is divided by."""

    name = "energy"
    interval_seconds = None

    def __init__(
        self,
        packages: list[Package],
        proc: str = "/proc",
        processes: ProcessSource | None = None,
        cgroups: CgroupSource | None = None,
        boottime: Callable[[], float] = lambda: time.clock_gettime(BOOTTIME),
    ) -> None:
        self._packages, self._processes, self._cgroups, self._boottime = packages, processes, cgroups, boottime
        self._counters = CounterFiles(packages)
        self._stat = KeptFile(f"{proc}/stat")
        self._before: MachineReading | None = None
        self._joules = [0.0] * len(packages)
        self._failures = 0
        self._told: dict[str, tuple[float | None, float]] = {}  # the energy and missed time of jobs, as last returned
        self.shares = EnergyShares()

    def available(self) -> str | None:
        """Why it cannot be used here, or None."""
        return read_problem(self._packages)

    def collect(self, jobs: Jobs) -> Readings:
        """The energy of the packages and the host since the first reading, and of those jobs that have run.

        A reading that fails is made up for by the next one; after some in a row the numbers are absent. So are those of
        the machine after a time of which the energy is not known.
        """
        try:
            is_known = self._add(self._read())
        except EnergyError:
            self._failures += 1
            if self._failures >= MOST_FAILURES:
                raise
            return Readings()
        self._failures = 0
        values, remarks = self._of_jobs(jobs)
        devices: list[DeviceReading] = [
            (Device("package", package.name), {KEY: joules if is_known else None})
            for package, joules in zip(self._packages, self._joules, strict=True)
        ]
        return Readings(
            jobs=values, remarks=remarks, devices=devices, host={KEY: sum(self._joules) if is_known else None}
        )

    def forget(self, key: str) -> None:
        self.shares.forget(key)
        self._told.pop(key, None)

    def close(self) -> None:
        self._counters.close()
        self._stat.close()

    def _read(self) -> MachineReading:
        microjoules = self._counters.read()
        words = self._stat.read().partition("\n")[0].split()
        if len(words) < 6 or words[0] != "cpu" or not all(map(is_count, words[1:])):
            raise EnergyError(self._stat.problem or f"{self._stat.path}: no CPU times")
        user, nice, system, idle, waiting, *interrupts = (int(word) * TICK_SECONDS for word in words[1:8])
        # What guests of a virtual machine use is in `user` and `nice`; stolen time was used by others.
        busy = user + nice + system + sum(interrupts)
        return MachineReading(self._boottime(), tuple(microjoules), busy, idle + waiting)

    def _add(self, now: MachineReading) -> bool:
        """Add what was used since the reading before; whether that is known."""
        before, self._before = self._before, now
        if before is None:
            return True
        seconds = now.boottime - before.boottime
        zones = zip(before.microjoules, now.microjoules, self._counters.zones, strict=True)
        grown = iter([joules_between(was, value, seconds, zone) for was, value, zone in zones])
        by_package = [[next(grown) for _ in package.zones] for package in self._packages]
        known = [[joules for joules in part if joules is not None] for part in by_package]
        if known != by_package:
            self.shares.skip()
            return False
        joules = [sum(part) for part in known]
        self._joules = [total + new for total, new in zip(self._joules, joules, strict=True)]
        self.shares.add(sum(joules), now.busy_seconds - before.busy_seconds, now.idle_seconds - before.idle_seconds)
        return True

    def _of_jobs(self, jobs: Jobs) -> tuple[dict[str, dict[str, Number]], dict[str, Remarks]]:
        values: dict[str, dict[str, Number]] = {}
        remarks: dict[str, Remarks] = {}
        for key in jobs if self._processes is not None else ():
            cpu_seconds = self._cpu_seconds(key)
            if cpu_seconds is None:
                continue
            job = self.shares.share(key, cpu_seconds)
            was_joules, was_missed = self._told.get(key, (None, 0.0))
            if job.joules is not None and job.joules != was_joules:
                values[key] = {KEY: job.joules}
            if (was_joules is None and job.joules is not None) or job.missed_seconds != was_missed:
                remarks[key] = remarks_on(job)
            self._told[key] = job.joules, job.missed_seconds
        return values, remarks

    def _cpu_seconds(self, key: str) -> float | None:
        """The CPU time of a job: of its processes, or of its cgroup, which also counts those that were not reaped.

        None if no process of it was ever seen.
        """
        assert self._processes is not None
        processes = self._processes.jobs.get(key)
        counted = self._cgroups.cpu_seconds(key) if self._cgroups is not None else 0.0
        if processes is not None and processes.row[USER] is None and not counted:
            return None
        return max(processes.cpu_seconds if processes is not None else 0.0, counted)


def remarks_on(job: JobEnergy) -> Remarks:
    """How the energy of a job was found, and for how much of its CPU time it is not known."""
    sources = {} if job.joules is None else {"energy_cpu": METHOD}
    if job.missed_seconds < MISSED_SECONDS:
        return Remarks(sources)
    missed = format_duration(job.missed_seconds)
    return Remarks(
        sources, (f"energy_cpu: without {missed} of CPU time: the energy counter was reset or read too late",)
    )


def open_source(options: Options) -> RaplSource:
    processes, cgroups = options.opened.get("processes"), options.opened.get("cgroups")
    return RaplSource(
        find_packages(options.sys),
        options.proc,
        processes if isinstance(processes, ProcessSource) else None,
        cgroups if isinstance(cgroups, CgroupSource) else None,
    )
