"""Calls all sources of a sampler, and sorts what they read: values of jobs, of the host, of devices, named values."""

from __future__ import annotations

import time

from jobtop.core.clock import BOOTTIME
from jobtop.core.measure.collectors.process_source import ProcessSource
from jobtop.core.measure.collectors.processes import ProcessTable
from jobtop.core.measure.source_runs import FastRun, SlowRun
from jobtop.core.measure.sources import CONTAINERS, HOST_SOURCES, JOB_SOURCES, open_runs
from jobtop.core.measure.watch import UNKNOWN_ROW
from jobtop.core.metrics import JOB_COLUMNS
from jobtop.core.record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from jobtop.core.measure.collectors.host.reading import HostSample
    from jobtop.core.measure.device import Device
    from jobtop.core.measure.sampler import Happened
    from jobtop.core.measure.source import Jobs, Number, Readings, Remarks
    from jobtop.core.measure.source_runs import News, SourceStatus
    from jobtop.core.measure.sources import Options, Run
    from jobtop.core.measure.watch import Watch

JOB_KEYS = frozenset(JOB_COLUMNS)


class Collecting:
    """The sources of one sampler, and what they read for the next batch."""

    def __init__(self, options: Options, watches: Mapping[str, Watch]) -> None:
        self.options, self._watches = options, watches
        self._job_runs = open_runs(JOB_SOURCES, options)
        self._host_runs: list[Run] = []
        self._has_elsewhere = False  # a job that only an engine counts, now or before
        opened = options.opened.get("processes")
        # Limits are enforced and snapshots are taken by the processes, also if another source is in their place.
        self.processes = opened if isinstance(opened, ProcessSource) else ProcessSource(ProcessTable(options.proc))
        self._devices: list[tuple[Device, float, dict[str, Number | None]]] = []
        self._named: list[tuple[str, str, float, float]] = []
        self._events: list[Happened] = []
        self.products: dict[Device, str] = {}  # what the makers of devices call them
        self._due: list[Watch] = []
        self._with_news: dict[str, Watch] = {}
        self._due_jobs: Jobs = {}
        self._remarks: dict[str, dict[str, Remarks]] = {}  # that were taken last, by source
        self._last_host: HostSample | None = None
        self._host_values: dict[str, dict[str, Number | None]] = {}  # of sources beside the one of the host

    @property
    def problem(self) -> str | None:
        """What went wrong first in a source of numbers of jobs."""
        return next((f"{run.name}: {run.problem}" for run in self._job_runs if run.problem is not None), None)

    def problem_of(self, watch: Watch) -> str | None:
        """What went wrong first in a source of numbers of this job; a slow source has read few of the jobs."""
        runs = [run for run in self._job_runs if isinstance(run, FastRun) or run.name in watch.parts]
        return next((f"{run.name}: {run.problem}" for run in runs if run.problem is not None), None)

    @property
    def statuses(self) -> list[SourceStatus]:
        return [run.status for run in (*self._job_runs, *self._host_runs)]

    @property
    def records_host(self) -> bool:
        return bool(self._host_runs)

    def set_jobs(self, jobs: Jobs) -> None:
        """Let slow sources read these jobs; those that only an engine counts are given to one source."""
        elsewhere = {key: target for key, target in jobs.items() if target.engine is not None}
        here = {key: jobs[key] for key in jobs.keys() - elsewhere.keys()} if elsewhere else jobs
        for run in self._job_runs:
            if run.name != CONTAINERS:
                run.set_jobs(here)
            elif elsewhere or self._has_elsewhere:
                self._has_elsewhere = True
                run.set_jobs(elsewhere)

    def take_last_remarks(self, watch: Watch) -> None:
        """Give a job that has ended what slow sources said about it since the last tick."""
        for run in self._job_runs:
            remarks = run.newest_remarks(watch.key) if isinstance(run, SlowRun) else None
            if remarks is not None:
                watch.remarks[run.name] = remarks

    def conclude(self, key: str) -> list[tuple[str, Readings]]:
        """What sources read of a job that has ended, by their names; may wait some milliseconds for the kernel.

        Nothing of a job that only an engine counts: what is seen here is the process that waits for it.
        """
        watch = self._watches.get(key)
        if watch is not None and watch.target.engine is not None:
            return []
        read = ((run.name, run.conclude(key)) for run in self._job_runs)
        return [(name, readings) for name, readings in read if readings is not None]

    def forget(self, key: str) -> None:
        """Free what sources keep for a job."""
        self._due = []
        self._with_news.pop(key, None)
        for run in self._job_runs:
            run.forget(key)
        self.processes.forget(key)

    def record_host(self, is_ours: bool) -> None:
        """Read the host and its devices too from now on, or no longer."""
        if is_ours and not self._host_runs:
            self._host_runs = open_runs(HOST_SOURCES, self.options)
            for run in self._host_runs:
                run.set_jobs({})
        elif not is_ours:
            for run in self._host_runs:
                run.close()
            self._host_runs, self._last_host, self._host_values = [], None, {}

    def close(self) -> None:
        for run in self._job_runs:
            run.close()
        self.record_host(False)
        self.processes.close()

    def take_cost(self) -> float:
        """What slow sources have cost since the last call."""
        return sum(run.take_cost() for run in (*self._job_runs, *self._host_runs))

    def collect_jobs(self, due: list[Watch], boottime: float) -> tuple[list[Watch], dict[str, float], float]:
        """Give each job what the sources read of it.

        Returns the jobs in which a process has run, and the moments of the readings: of some jobs, and of the others.
        """
        if due != self._due:
            self._due = due
            self._due_jobs = {watch.key: watch.target for watch in due if watch.target.engine is None}
        moments: dict[str, float] = {}
        moved: list[Watch] = []
        for run in self._job_runs:
            news = run.poll(self._due_jobs)
            if news is None:
                if run.is_lost:
                    self._drop(run.name)
                continue
            readings = news.readings
            self._take(run, news, boottime)
            if readings.moment is not None:
                boottime = readings.moment
            moments.update(readings.moments)
            if run.source is self.processes:
                moved = [self._watches[key] for key in readings.rows]
        return moved, moments, boottime

    def collect_host(self) -> tuple[float, HostSample, HostSample] | None:
        """The host around the jobs: a moment since boot, the sample before and the one of now."""
        boottime, before, sample = time.clock_gettime(BOOTTIME), self._last_host, None
        for run in self._host_runs:
            news = run.poll({})
            if news is not None:
                self._take(run, news, boottime)
                sample = news.readings.host_sample or sample
            elif run.is_lost:
                self._drop(run.name)
        if sample is None:
            return None
        for values in self._host_values.values():
            sample = replace(sample, values=sample.values | values)
        self._last_host = sample
        return None if before is None else (boottime, before, sample)

    def _take(self, run: Run, news: News, boottime: float) -> None:
        """Take over what a source read; that of the host and its devices only if this process records the host."""
        readings, at, watches = news.readings, news.boottime or boottime, self._watches
        for key, row in readings.rows.items():
            if key in watches:
                watches[key].take_row(row)
                self._with_news[key] = watches[key]
        for key, values in readings.jobs.items():
            if key in watches:
                watches[key].take(run.name, known_values(values))
                if watches[key].has_news:
                    self._with_news[key] = watches[key]
        for (key, label), value in readings.named.items():
            if key in watches:
                self._named.append((key, label, max(0.0, at - watches[key].start), value))
        if readings.remarks is not self._remarks.get(run.name):
            self._take_remarks(run.name, readings.remarks)
        if readings.events:
            self._events += [(owner, time.time(), kind, detail) for owner, kind, detail in readings.events]
        if self._host_runs:
            self._take_machine(run.name, readings, at)

    def _take_remarks(self, name: str, remarks: dict[str, Remarks]) -> None:
        self._remarks[name] = remarks
        for key in remarks.keys() & self._watches.keys():
            self._watches[key].remarks[name] = remarks[key]

    def _take_machine(self, name: str, readings: Readings, at: float) -> None:
        """Take over what a source read of the host and its devices."""
        self._devices.extend((device, at, dict(values)) for device, values in readings.devices)
        if not readings.products.items() <= self.products.items():
            self.products = self.products | readings.products  # a new one: batches have the one before
        if readings.host and readings.host_sample is None:
            self._host_values[name] = readings.host

    def _drop(self, name: str) -> None:
        """Let the values of a source be absent."""
        self._host_values.pop(name, None)
        for watch in self._watches.values():
            if watch.parts.get(name):
                watch.take(name, {})
                self._with_news[watch.key] = watch
            if name == self.processes.name:
                watch.take_row(UNKNOWN_ROW)
                self._with_news[watch.key] = watch

    def take_news(self) -> list[Watch]:
        """The jobs that got new values since the last call."""
        taken, self._with_news = self._with_news, {}
        return list(taken.values())

    def take_devices(self) -> list[tuple[Device, float, dict[str, Number | None]]]:
        """The readings of devices since the last call."""
        taken, self._devices = self._devices, []
        return taken

    def take_events(self) -> list[Happened]:
        """The events since the last call; those of the host and its devices only if this process records the host."""
        taken, self._events = self._events, []
        return [
            event for event in taken if (event[0] in self._watches if isinstance(event[0], str) else self._host_runs)
        ]

    def take_named(self) -> list[tuple[str, str, float, float]]:
        """The values with names since the last call."""
        taken, self._named = self._named, []
        return taken


def known_values(values: Mapping[str, Number | None]) -> dict[str, Number]:
    """Only what the catalogue knows of a job, and only numbers."""
    return {key: value for key, value in values.items() if key in JOB_KEYS and value is not None}
