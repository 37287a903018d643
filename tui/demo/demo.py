"""`jobtop --demo`: the store of a simulated machine, which keeps running while the console is open.

All values are invented and the same each time; the store is in a temporary directory.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count, zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory

from jobtop.core.alerts.model import State, Transition
from jobtop.core.alerts.rule_set import default_rules
from jobtop.core.measure.collectors.proc import identify
from jobtop.core.model import Sample, Status
from jobtop.core.paths import StatePaths
from jobtop.core.record import replace
from jobtop.store.agents import register
from jobtop.store.alerts.alert_rows import AlertStore
from jobtop.store.database import open_to_write
from jobtop.store.jobs import Event, Jobs
from jobtop.store.queue_rows import set_slots
from jobtop.store.samples.devices import DeviceRecord
from jobtop.store.samples.head import HOSTS
from jobtop.store.samples.hosts import boot_number
from jobtop.store.samples.named import NamedRecord
from jobtop.store.samples.series import SeriesStore
from jobtop.store.samples.snapshots import Snapshots
from jobtop.tui.app import Console, Options
from jobtop.tui.demo.data import CHILDREN, PAUSED, QUEUED, RUNNING, SHORT, SLOTS
from jobtop.tui.demo.demo_job import DemoAlert, DemoJob, End
from jobtop.tui.demo.load import CAPACITY, GPU_PRODUCT, HOST, UPTIME_SECONDS, DemoMachine, DeviceReading
from jobtop.tui.demo.record import BOOT, DemoRun, begun, finished_job, new_run, past_runs
from jobtop.tui.demo.workflows import keep_workflows

FINE_SECONDS = 300  # the recent past of live jobs that is simulated second by second
REFUSAL = "this is a demo: nothing can be run or stopped in it"
COARSE_SECONDS, MOST_COARSE = 15.0, 120
SNAPSHOT_SECONDS = 10
DEVICE_SECONDS = 5  # between two samples of devices other than GPUs
SHORT_EVERY, SHORT_SECONDS = 17, 11
SHORT_ENDS = "ssfs"
OUTPUTS_AT_ONCE, SEALED_AT_ONCE = 40, 8


class DemoStore:
    """Writes the demo into its store."""

    def __init__(self, paths: StatePaths, boot_time: float) -> None:
        self.database = open_to_write(paths)
        self.jobs, self.snapshots = Jobs(self.database), Snapshots(self.database)
        self.series, self.host = SeriesStore(self.database), SeriesStore(self.database, HOSTS)
        self.alerts, self._rules = AlertStore(self.database), {rule.name: rule for rule in default_rules()}
        self._host_seq = self._boot(boot_time)
        self.devices, self.named = DeviceRecord(self.database, self._host_seq), NamedRecord(self.database)

    def write(
        self, runs: Sequence[DemoRun], host: Sequence[Sample] = (), devices: Sequence[DeviceReading] = ()
    ) -> None:
        """Write what has happened since the last call, in one transaction."""
        with self.database.writing():
            for run in runs:
                self._write_record(run)
            columns = [[(run.number, sample) for sample in run.samples] for run in runs]
            # The first sample of each run, then the second of each: rows of one time are stored together.
            self.series.append([row for rows in zip_longest(*columns) for row in rows if row is not None])
            self.snapshots.keep_all((run.number, *taken) for run in runs for taken in run.snapshots)
            self.host.append([(self._host_seq, sample) for sample in host])
            if devices:
                self.devices.append(devices)
            self.named.append(row for run in runs if not run.job.status.ended for row in run.gpu_rows())
            for run in runs:
                if run.job.status.ended:
                    self.jobs.add_log_marks(run.job, run.marks)

    def raise_alerts(self, runs: Sequence[DemoRun], since: float, until: float) -> None:
        """Write the alerts of the jobs that began in a time, as an engine does."""
        for run in runs:
            started = run.job.start_time or 0.0
            for found in run.load.demo_job.alerts:
                if since < started + found.after <= until:
                    self._raise_alert(run, found, started + found.after, until)

    def _raise_alert(self, run: DemoRun, found: DemoAlert, at: float, now: float) -> None:
        rule = self._rules[found.rule]
        state = State.PENDING if found.is_pending else State.FIRING
        fired = Transition(rule, run.job.id, state, at, at - rule.for_seconds, found.value, found.text)
        transitions = [fired]
        if found.lasts is not None and at + found.lasts <= now:
            transitions.append(replace(fired, state=State.RESOLVED, at=at + found.lasts))
        raised = self.alerts.apply(transitions, lambda _: run.number)
        if found.is_acknowledged:
            self.alerts.acknowledge([raised[0].id], run.job.user, "the limit is meant to be low")

    def clean_up(self) -> None:
        """Seal and clean up, as an engine does between two samples."""
        self.series.seal_ended(SEALED_AT_ONCE)
        while self.series.step() or self.host.step() or self.devices.store.step() or self.named.step():
            pass

    def close(self) -> None:
        self.database.close()

    def _write_record(self, run: DemoRun) -> None:
        events = sorted(run.events, key=lambda event: event.at)
        if run.job.seq is None:
            run.job = self.jobs.insert(run.job, *events)
        elif events:
            run.job = self.jobs.change(run.job.id, lambda _: (run.job, events))

    def _boot(self, boot_time: float) -> int:
        """The number of a simulated boot: `HostRecord` records only the real one."""
        return boot_number(self.database, BOOT, boot_time)


class Demo:
    """The simulated jobs and machine; `advance` lets a second of both pass."""

    def __init__(self, root: Path, now: float) -> None:
        self.paths, self.now = StatePaths(root, HOST), now
        self.boot_time = now - UPTIME_SECONDS
        self.machine = DemoMachine()
        self.live: list[DemoRun] = []
        self._numbers = count(1)
        self._seconds = 0
        self._devices: list[DeviceReading] = []  # that are not written yet
        store = DemoStore(self.paths, self.boot_time)
        try:
            self._without_output = past_runs(now)
            store.write(self._without_output)
            self._begin_all(store)
            self._without_output += keep_workflows(store, self.live, now)
            self._without_output.sort(key=begun)
            for group, slots in SLOTS.items():
                set_slots(store.database, group, slots)
            register(store.database, identify(os.getpid()))  # so that queued jobs have an agent
        finally:
            store.close()

    def advance(self, store: DemoStore, now: float) -> None:
        """Simulate until a moment, and write what happened."""
        if self._seconds % SHORT_EVERY == 0:
            number = next(self._numbers)
            self.live.append(new_run(SHORT[number % len(SHORT)], number, now - 1, self.boot_time, now - 1))
        before = self.now
        host = self._advance(now)
        for run in self.live:
            if run.job.name in SHORT_NAMES and run.load.elapsed >= SHORT_SECONDS:
                end = End(SHORT_ENDS[run.load.pid % len(SHORT_ENDS)])
                run.job = finished_job(run.job, run.samples, now, run.load.elapsed, end)
                run.events.append(Event(now, "exited", {"status": str(run.job.status), "reason": run.job.reason}))
        store.write(self.live, [host], self._take_devices())
        store.raise_alerts(self.live, before, now)
        write_output(self.paths, self.live)
        self.live = [run for run in self.live if not run.job.status.ended]

    def write_past_output(self, most: int) -> bool:
        """Write the output of some past runs, newest first; return whether there are more. Creating files is slow."""
        write_output(self.paths, self._without_output[-most:])
        del self._without_output[-most:]
        return bool(self._without_output)

    def _begin_all(self, store: DemoStore) -> None:
        """Start all live jobs: their past in large steps, the last minutes second by second."""
        rows = [
            *((demo_job, age, False) for demo_job, age in RUNNING),
            *((demo_job, age, True) for demo_job, age in PAUSED),
        ]
        self.live = [self._begin(*row) for row in sorted(rows, key=lambda row: -row[1])]
        ids = {run.job.name: run.job.id for run in self.live}
        for run in self.live:
            run.job = replace(run.job, parent_id=ids.get(CHILDREN.get(run.job.name, "")))
            simulate_start(run, self.now - FINE_SECONDS)
        now = self.now
        host = [self._advance(now + second) for second in range(1 - FINE_SECONDS, 1)]
        waiting = [new_run(demo_job, next(self._numbers), now - age, self.boot_time, None) for demo_job, age in QUEUED]
        store.write([*self.live, *waiting], host, self._take_devices())
        store.raise_alerts(self.live, -float("inf"), now)
        write_output(self.paths, self.live)
        while store.series.seal_due(len(self.live)):
            pass

    def _begin(self, demo_job: DemoJob, age: float, is_paused: bool) -> DemoRun:
        started = self.now - age
        run = new_run(demo_job, next(self._numbers), started - 0.1, self.boot_time, started)
        if demo_job.gpu is not None:
            run.events.append(Event(started + 4, "gpu_used", {"gpu": str(demo_job.gpu), "product": GPU_PRODUCT}))
        if demo_job.queue.group is not None:
            run.job = replace(run.job, queue=demo_job.queue)
        if is_paused:
            run.job = replace(run.job, status=Status.PAUSED)
            run.events.append(Event(self.now - FINE_SECONDS, "paused", {}))
        return run

    def _take_devices(self) -> list[DeviceReading]:
        taken, self._devices = self._devices, []
        return taken

    def _advance(self, now: float) -> Sample:
        """Advance all live jobs to a moment; return the sample of the machine."""
        self.now = now
        alive = [run for run in self.live if run.age(now) > 0]
        for run in alive:
            advance_run(run, now)
            if self._seconds % SNAPSHOT_SECONDS == 0:
                run.take_snapshot()
        self._seconds += 1
        self.machine.advance(now, now - self.boot_time, [run.load for run in alive])
        self._devices += self.machine.gpu_readings(round(now - self.boot_time, 3))
        if self._seconds % DEVICE_SECONDS == 0:
            self._devices += self.machine.other_readings(round(now - self.boot_time, 3))
        return Sample(round(now - self.boot_time, 3), tuple(map(self.machine.counted().get, HOSTS.keys)))


SHORT_NAMES = frozenset(demo_job.name for demo_job in SHORT)


def write_output(paths: StatePaths, runs: Iterable[DemoRun]) -> None:
    """Write the output to the files of the shim."""
    for run in runs:
        directory = paths.job(run.job.id)
        directory.mkdir(parents=True, exist_ok=True)
        marks = [f"{elapsed:.3f} {stdout} {stderr}" for elapsed, stdout, stderr in run.marks]
        for name, lines in (("stdout.log", run.output), ("stderr.log", run.errors), ("marks", marks)):
            if lines:
                with (directory / name).open("a", encoding="utf-8") as file:
                    file.writelines(f"{line}\n" for line in lines)
        run.clear()


def simulate_start(run: DemoRun, until: float) -> None:
    """Simulate the beginning of a long run."""
    seconds = run.age(until)
    steps = min(MOST_COARSE, int(seconds / COARSE_SECONDS))
    for place in range(steps):
        run.add_sample(run.load.advance(seconds / steps), 1)
        if place % SNAPSHOT_SECONDS == 0:
            run.take_snapshot()


def advance_run(run: DemoRun, now: float) -> None:
    """Advance a run to a moment, by one sample."""
    seconds = run.age(now) - run.load.elapsed
    if run.job.status is Status.PAUSED:
        run.add_sample(run.load.idle(seconds), 0)
        return
    before = run.load.elapsed // run.load.demo_job.seconds_per_line
    sample = run.load.advance(seconds)
    run.add_sample(sample, int(run.load.elapsed // run.load.demo_job.seconds_per_line - before))


class DemoThread(threading.Thread):
    """The thread that advances the demo every second."""

    def __init__(self, demo: Demo) -> None:
        super().__init__(name="jobtop-demo", daemon=True)
        self.demo = demo
        self._stopped = threading.Event()

    def run(self) -> None:
        store = DemoStore(self.demo.paths, self.demo.boot_time)
        due = time.monotonic() + 1.0
        while not self._stopped.wait(max(0.0, due - time.monotonic())):
            due += 1.0
            self.demo.advance(store, time.time())
            self.demo.write_past_output(OUTPUTS_AT_ONCE)
            store.clean_up()
        store.close()

    def stop(self) -> None:
        self._stopped.set()
        self.join(5.0)


@contextmanager
def demo(now: float | None = None) -> Iterator[Demo]:
    """The demo until the end of the block; with a given moment, time does not advance."""
    with TemporaryDirectory(prefix="jobtop-demo-", ignore_cleanup_errors=True) as root:
        if now is not None:
            made = Demo(Path(root), now)
            made.write_past_output(OUTPUTS_AT_ONCE)
            yield made
            return
        made = Demo(Path(root), time.time())
        thread = DemoThread(made)
        thread.start()
        try:
            yield made
        finally:
            thread.stop()


@contextmanager
def demo_console(options: Options) -> Iterator[Console]:
    """The console on a running demo, in which no job can be started or stopped."""
    with demo() as made:
        yield Console(replace(of_demo(made, options), is_readonly=True, readonly_words=REFUSAL))


def of_demo(made: Demo, options: Options) -> Options:
    """The options for a console that shows a demo."""
    from jobtop.tui.demo.containers import DemoContainers
    from jobtop.tui.demo.processes import DemoProcessSource

    containers = DemoContainers({run.job.name: run.job.id for run in made.live})
    processes = DemoProcessSource(lambda: [run.load for run in made.live])
    return replace(
        options,
        stores=(made.paths.store,),
        own=made.paths,
        machine=made.machine,
        containers=containers,
        processes=processes,
        capacity=CAPACITY,
    )
