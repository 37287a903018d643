"""What the screen of a job reads from the store and from /proc; all of it runs in the reader's thread."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from jobtop.core.analysis.ending import needs_explanation
from jobtop.core.errors import UnknownJob
from jobtop.core.job_id import JobId
from jobtop.core.measure.collectors.busy_threads import KEPT as MOST_THREADS
from jobtop.core.measure.collectors.proc import is_alive
from jobtop.core.measure.live.processes import LiveProcesses, ProcessLine
from jobtop.core.measure.snapshot import ProcessRow
from jobtop.core.measure.target import target_in
from jobtop.core.metrics import JOB_COLUMNS, find_metric
from jobtop.core.model import Job
from jobtop.core.paths import StatePaths, hostname
from jobtop.core.procfs import HAS_PROC
from jobtop.core.record import fresh, record, replace
from jobtop.core.series.downsample import select_positions
from jobtop.core.series.drawing import Curve, make_curve
from jobtop.core.text.limits_used import LimitFacts, facts_of_record, facts_of_values
from jobtop.store.alerts.alert_rows import AlertStore, StoredAlert
from jobtop.store.database import Database
from jobtop.store.jobs import Event, Jobs
from jobtop.store.output.last_lines import read_error_lines
from jobtop.store.samples.curves import Curves
from jobtop.store.samples.snapshots import Snapshots
from jobtop.tui.chart.window import Bounds, TimeWindow
from jobtop.tui.data.job_gpus import JobGpu, read_job_gpus

Number = float | int
GROUPS: dict[str, tuple[str, ...]] = {
    "use": ("cpu.percent", "mem.used"),
    "io": ("io.read_bytes", "io.write_bytes"),
    "gpu": ("gpu.util", "gpu.mem_used"),
    "net": ("net.rx_bytes", "net.tx_bytes"),
    "energy": ("energy.cpu", "energy.gpu"),
    "pressure": ("cpu.pressure", "mem.pressure", "io.pressure"),
}
KEYS = tuple(key for keys in GROUPS.values() for key in keys)
MOST_KEYS = max(map(len, GROUPS.values()))
MARGIN = 0.1  # of the window's length, read before and after it
ALL = TimeWindow()
LAST_LINES = 6
MOST_ALERTS = 200
MOST_CORE_SHARE = 0.05  # of a core, for reading the processes


@record
class Viewport:
    """What the screen needs: a time window, its width in columns, and the selected moment, if any."""

    window: TimeWindow = ALL
    columns: int = 100
    moment: float | None = None
    with_threads: bool = False


@record
class JobNumbers:
    """The numbers of a job at a moment, or at its end; None is unknown."""

    elapsed: float | None = None
    cpu_percent: Number | None = None
    cpu_seconds: Number | None = None
    memory_bytes: Number | None = None
    memory_peak: Number | None = None
    read_bytes: Number | None = None
    write_bytes: Number | None = None
    read_rate: Number | None = None
    write_rate: Number | None = None
    processes: Number | None = None
    threads: Number | None = None
    received_bytes: Number | None = None
    sent_bytes: Number | None = None
    cpu_joules: Number | None = None
    gpu_joules: Number | None = None
    limits: LimitFacts = LimitFacts()


@record
class ProcessList:
    """The processes of a job, `at` seconds after its start; None: now."""

    rows: tuple[ProcessRow, ...] = ()
    at: float | None = None


@record
class JobView:
    """A job as its screen shows it."""

    job: Job
    events: tuple[Event, ...] = ()
    curves: Mapping[str, Curve] = fresh(default_factory=dict)
    run_bounds: Bounds = (0.0, 0.0)  # from the start of the job to the last known moment
    numbers: JobNumbers = JobNumbers()
    processes: ProcessList = ProcessList()
    last_lines: tuple[str, ...] = ()
    is_sampled: bool = False
    damaged: int = 0
    gpus: tuple[JobGpu, ...] = ()
    alerts: tuple[StoredAlert, ...] = ()  # open ones first, then the others, each newest first


class JobReading:
    """Reads one job again and again; what was read before is kept."""

    def __init__(self, job_id: str, store: Path, secret: Sequence[str] = ()) -> None:
        self.job_id, self.store = job_id, store
        self.directory = StatePaths(store.parent, hostname()).job(JobId(job_id))
        self.cache = CurveCache()
        self.local_processes = LocalProcesses(self.directory, secret)
        self.peak: Number | None = None
        self._last_lines: tuple[str, ...] | None = None

    def read(self, database: Database, viewport: Viewport) -> JobView | None:
        """Read the job as it is now, or at the requested moment; None if it is no longer in the store."""
        jobs, curves = Jobs(database), Curves(database)
        try:
            job = jobs.find(self.job_id)
        except UnknownJob:
            return None
        self.cache.read(curves, job, viewport)
        events = tuple(jobs.events(job))
        return JobView(
            job,
            events,
            dict(self.cache.curves),
            self.cache.run_bounds,
            self._numbers(curves, job, viewport.moment),
            self._processes(Snapshots(database), job, viewport),
            self._read_last_lines(job),
            job.seq is not None and curves.store.count(job.seq) > 0,
            self.cache.damaged,
            read_job_gpus(database, job, events, viewport.moment),
            tuple(AlertStore(database).listing(job_seq=job.seq, limit=MOST_ALERTS)) if job.seq is not None else (),
        )

    def close(self) -> None:
        self.local_processes.close()

    def _numbers(self, curves: Curves, job: Job, moment: float | None) -> JobNumbers:
        usage = job.usage
        self.peak = usage.memory_peak_bytes or _greatest(self.peak, self.cache.curves.get("mem.used"))
        if job.status.ended and moment is None:
            return JobNumbers(
                job.duration_seconds,
                usage.cpu_percent_mean,
                usage.cpu_total_seconds,
                memory_peak=self.peak,
                read_bytes=usage.io_read_bytes,
                write_bytes=usage.io_write_bytes,
                processes=usage.processes_peak,
                threads=usage.threads_peak,
                received_bytes=usage.net_rx_bytes,
                sent_bytes=usage.net_tx_bytes,
                cpu_joules=usage.energy_cpu_joules,
                gpu_joules=usage.energy_gpu_joules,
                limits=facts_of_record(job),
            )
        until = float("inf") if moment is None else moment
        samples = curves.store.newest(job.seq, 1, until) if job.seq is not None else []
        held = dict(zip(JOB_COLUMNS, samples[-1].values, strict=True)) if samples else {}
        user, system = held.get("cpu.user"), held.get("cpu.system")
        drawn = {key: value_at(curve, until) for key, curve in self.cache.curves.items()}
        return JobNumbers(
            moment,
            drawn.get("cpu.percent"),
            None if user is None or system is None else user + system,
            held.get("mem.used"),
            self.peak,
            held.get("io.read_bytes"),
            held.get("io.write_bytes"),
            drawn.get("io.read_bytes"),
            drawn.get("io.write_bytes"),
            held.get("proc.count"),
            held.get("proc.threads"),
            held.get("net.rx_bytes"),
            held.get("net.tx_bytes"),
            held.get("energy.cpu"),
            held.get("energy.gpu"),
            facts_of_values(held),
        )

    def _processes(self, snapshots: Snapshots, job: Job, viewport: Viewport) -> ProcessList:
        moment = viewport.moment
        if moment is None and (rows := self.local_processes.read(job, viewport.with_threads)) is not None:
            return ProcessList(rows)
        snapshot = snapshots.latest(job) if moment is None else snapshots.at(job, moment)
        if snapshot is None and moment is not None and (moments := snapshots.moments(job)):
            snapshot = snapshots.at(job, moments[0])
        return ProcessList() if snapshot is None else ProcessList(snapshot.members, snapshot.elapsed)

    def _read_last_lines(self, job: Job) -> tuple[str, ...]:
        """The end of its traceback or of its output; only if the job ended badly."""
        if not needs_explanation(job):
            return ()
        if self._last_lines is None:
            self._last_lines = read_error_lines(self.directory)[-LAST_LINES:]
        return self._last_lines


class CurveCache:
    """The curves of a job in a time window; while the job runs, only new samples are read."""

    def __init__(self) -> None:
        self.curves: dict[str, Curve] = {}
        self.run_bounds: Bounds = (0.0, 0.0)
        self.damaged = 0
        self._read: tuple[TimeWindow, int, bool] | None = None
        self._points = 0
        self._absent: set[str] = set()

    def read(self, curves: Curves, job: Job, viewport: Viewport) -> None:
        """Read a window: only new samples if it is the same window as before, else all of it."""
        wanted = viewport.window, viewport.columns, job.status.ended
        if wanted == self._read and (job.status.ended or self._extend(curves, job, viewport)):
            return
        self._read, self._points, self.damaged = wanted, 0, 0
        self.run_bounds = (0.0, _last_moment(curves, job))
        start, end = times_to_read(viewport.window, self.run_bounds[1])
        keys = [key for key in KEYS if key not in self._absent]
        series = curves.series(job, keys, start, end)
        self.damaged = series.damaged
        for group in GROUPS.values():
            self._set_curves(
                series.times, {key: series.values[key] for key in group if key in series.values}, viewport.columns
            )
        if job.status.ended and start is None:
            self._absent |= {key for key in keys if not self.curves[key].known()}

    def _extend(self, curves: Curves, job: Job, viewport: Viewport) -> bool:
        """Append new samples to the curves; False if all must be read again, because there were none or too many."""
        if viewport.window.end is not None:
            self.run_bounds = (0.0, _last_moment(curves, job))
            return True
        if not self._points or self._points > 4 * MOST_KEYS * viewport.columns:
            return False
        last = min(curve.times[-1] for curve in self.curves.values() if curve.times)
        series = curves.series(job, KEYS, last)
        if series.times and series.times[-1] > last:
            self.run_bounds = (0.0, series.times[-1])
            self._points += len(series.times) - 1
            for key, values in series.values.items():
                self._extend_curve(key, series.times, values)
        return True

    def _set_curves(self, times: list[float], values: Mapping[str, list[Number | None]], columns: int) -> None:
        """Set the curves of one chart; when they are thinned, each column keeps its minimum and maximum."""
        most = 2 * len(values) * columns
        kept = select_positions(times, list(values.values()), most) if len(times) > most else range(len(times))
        moments = [times[place] for place in kept]
        for key, column in values.items():
            self.curves[key] = make_curve(find_metric(key), moments, [column[place] for place in kept])
        self._points = max(self._points, len(moments))

    def _extend_curve(self, key: str, times: list[float], column: list[Number | None]) -> None:
        """Append new samples to a curve; a rate also needs the last sample before them."""
        before = self.curves[key]
        first = bisect_right(times, before.times[-1]) if before.times else 0
        if first < len(times):
            begin = max(0, first - 1)
            after = make_curve(before.metric, times[begin:], column[begin:])
            values = before.values + after.values[first - begin :]
            self.curves[key] = Curve(before.metric, before.times + times[first:], values)


class LocalProcesses:
    """The processes of a job that runs on this machine, read from /proc as often as that is cheap."""

    def __init__(self, directory: Path, secret: Sequence[str] = ()) -> None:
        self.directory, self.secret = directory, secret
        self._live_processes: LiveProcesses | None = None
        self._rows: tuple[ProcessRow, ...] = ()
        self._due = 0.0

    def read(self, job: Job, with_threads: bool = False) -> tuple[ProcessRow, ...] | None:
        """The live processes, if asked with their busiest threads; None if the job runs elsewhere or has ended."""
        if not HAS_PROC or job.shim is None or job.host != hostname() or not is_alive(job.shim):
            self.close()
            return None
        began = time.monotonic()
        if began < self._due:
            return self._rows
        if self._live_processes is None:
            target = target_in(self.directory, job)
            if target is None:  # a container that has not started, or runs elsewhere
                return None
            self._live_processes = LiveProcesses(target, self.secret)
        self._live_processes.with_threads = with_threads
        reading = self._live_processes.read()
        self._rows = tuple(with_busiest(line) for line in reading.processes)
        self._due = began + (time.monotonic() - began) / MOST_CORE_SHARE
        return self._rows

    def close(self) -> None:
        if self._live_processes is not None:
            with suppress(OSError):
                self._live_processes.close()
        self._live_processes = None


def with_busiest(line: ProcessLine) -> ProcessRow:
    """The row of a process with its busiest threads, as many as a snapshot keeps."""
    if not line.threads:
        return line.row
    busiest = sorted(line.threads, key=lambda thread: (-(thread.cpu_percent or 0.0), -thread.cpu_seconds))
    return replace(line.row, busiest=tuple(busiest[:MOST_THREADS]))


def times_to_read(window: TimeWindow, last: float) -> tuple[float | None, float | None]:
    """The start and end of what must be read for a window, if the job's last moment is `last`."""
    if window.span is None:
        return None, None
    margin = MARGIN * window.span
    if window.end is None:
        return max(0.0, last - window.span - margin), None
    return max(0.0, window.end - window.span - margin), window.end + margin


def _last_moment(curves: Curves, job: Job) -> float:
    samples = curves.store.newest(job.seq, 1) if job.seq is not None else []
    ended = (job.duration_seconds or 0.0) if job.status.ended else 0.0
    return max(ended, samples[-1].elapsed if samples else 0.0)


def value_at(curve: Curve, moment: float) -> Number | None:
    """The value of a curve at a moment: the last one before it."""
    place = bisect_right(curve.times, moment) - 1
    return curve.values[place] if place >= 0 else None


def _greatest(known: Number | None, curve: Curve | None) -> Number | None:
    values = [] if curve is None else curve.known()
    return max([*values, *([] if known is None else [known])], default=None)
