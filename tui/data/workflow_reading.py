"""What the Workflows page and the screen of a run read from a store; all of it runs in the reader's thread."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from jobtop.core.errors import UsageError
from jobtop.core.metrics import JOB_COLUMNS
from jobtop.core.record import fresh, record
from jobtop.core.workflow.ordering import depths, ordered
from jobtop.core.workflow.progress import RunJob, RunSummary, summarize
from jobtop.core.workflow.usage import UsageGrid
from jobtop.store.database import Database
from jobtop.store.samples.series import SeriesStore
from jobtop.store.workflow_states import RunStates
from jobtop.store.workflows import RunRow, WorkflowRow, Workflows

MOST_WORKFLOWS = 200
MOST_SERIES = 24  # jobs with samples that one reading reads; the next one goes on
SHORT_SECONDS = 3.0  # a shorter job has too few samples: its averages are shown
USER, SYSTEM, MEMORY = (JOB_COLUMNS.index(key) for key in ("cpu.user", "cpu.system", "mem.used"))


@record
class WorkflowEntry:
    """A workflow with its last run, as the Workflows page lists it."""

    store: Path
    workflow: WorkflowRow
    run: RunRow
    jobs: tuple[RunJob, ...]

    @property
    def key(self) -> tuple[Path, int]:
        return self.store, self.workflow.id


class WorkflowList:
    """Reads the newest workflows of a store again and again."""

    def __init__(self, store: Path) -> None:
        self.store = store
        self._states = RunStates()
        self._seen: object = None
        self._entries: dict[int, WorkflowEntry] = {}

    def read(self, database: Database) -> list[WorkflowEntry]:
        """The workflows, the newest first."""
        seen = database.version_seen()
        if seen == self._seen:
            return list(self._entries.values())
        rows = Workflows(database).last_runs(MOST_WORKFLOWS)
        changed = self._states.read(database, [(workflow.id, run.run_id) for workflow, run in rows])
        entries = {}
        for workflow, run in rows:
            known, key = self._entries.get(workflow.id), (workflow.id, run.run_id)
            if known is None or key in changed or known.run != run or known.workflow != workflow:
                known = WorkflowEntry(self.store, workflow, run, tuple(self._states.jobs[key]))
            entries[workflow.id] = known
        self._entries, self._seen = entries, seen
        return list(entries.values())


@record
class RunCurves:
    """The CPU percent and the memory of a whole run, by seconds since its first start."""

    times: Sequence[float] = ()
    cpu: Sequence[float] = ()
    memory: Sequence[float] = ()


@record
class RunView:
    """A run of a workflow as its screen shows it."""

    store: Path
    workflow: WorkflowRow
    run: RunRow
    runs: tuple[int, ...]
    jobs: tuple[RunJob, ...]
    stages: Mapping[str, int] = fresh(default_factory=dict)
    curves: RunCurves = RunCurves()
    is_complete: bool = True  # False: the samples of more jobs are still to be read

    def summary(self, now: float) -> RunSummary:
        return summarize(self.jobs, now)

    @property
    def is_over(self) -> bool:
        return not any(job.is_live or job.will_retry for job in self.jobs)


class RunReading:
    """Reads one run again and again; what was read before is kept."""

    def __init__(self, store: Path, workflow_id: int, run_id: int | None) -> None:
        self.store, self.workflow_id, self.run_id = store, workflow_id, run_id
        self._states, self._usage = RunStates(), RunUsage()
        self._stages: dict[str, int] = {}
        self._seen: object = None
        self._view: RunView | None = None

    def read(self, database: Database) -> RunView | None:
        """The run as it is now; None if it is no longer in the store. Nothing is read if nothing has changed."""
        seen = database.version_seen()
        if seen == self._seen and self._view is not None and self._view.is_complete:
            return self._view
        store = Workflows(database)
        try:
            workflow = store.find(str(self.workflow_id))
            runs = store.runs(workflow.id)
            run = next((each for each in runs if each.run_id == self.run_id), None) or runs[-1]
        except (UsageError, IndexError):
            return None
        if workflow.id != self.workflow_id:
            return None
        self.run_id = run.run_id
        self._states.read(database, [(workflow.id, run.run_id)])
        jobs = tuple(self._states.jobs[workflow.id, run.run_id])
        if len(self._stages) != len(jobs):
            self._stages = stages_of(jobs)
        is_complete = self._usage.read(database, jobs)
        curves = self._usage.curves(time.time())
        self._seen = seen
        numbers = tuple(each.run_id for each in runs)
        self._view = RunView(self.store, workflow, run, numbers, jobs, self._stages, curves, is_complete)
        return self._view


def stages_of(jobs: Sequence[RunJob]) -> dict[str, int]:
    """How many jobs must end one after the other before each one; names that the run does not have are ignored."""
    names = {job.name for job in jobs}
    after = {job.name: tuple(name for name in (*job.after, *job.after_end) if name in names) for job in jobs}
    order, circle = ordered(after)
    found = depths(after, order)
    return found | dict.fromkeys(names - found.keys(), max(found.values(), default=0) + 1) if circle else found


class RunUsage:
    """Adds up the samples of the jobs of a run; each sample is read once."""

    def __init__(self) -> None:
        self.grid = UsageGrid()
        self._begin: float | None = None
        self._added: set[str] = set()  # ids of attempts that are done with
        self._last: dict[str, tuple[int | None, float, float]] = {}  # cursor, elapsed, CPU seconds

    def read(self, database: Database, jobs: Sequence[RunJob]) -> bool:
        """Read new samples; return False if there are more to read."""
        ran = [job for job in jobs if job.start_time is not None and not job.is_kept and job.id not in self._added]
        if self._begin is None:
            self._begin = min((job.start_time for job in ran if job.start_time is not None), default=None)
        left, store = MOST_SERIES, SeriesStore(database)
        for job in ran:
            seconds = job.seconds(time.time()) or 0.0
            if job.end_time is not None and seconds < SHORT_SECONDS and job.id not in self._last:
                self._add_average(job)
            elif job.end_time is None and seconds < SHORT_SECONDS:
                continue
            elif left:
                left -= 1
                self._add_samples(store, job)
        return left > 0

    def curves(self, now: float) -> RunCurves:
        return RunCurves() if self._begin is None else RunCurves(*self.grid.curves(now - self._begin))

    def _add_average(self, job: RunJob) -> None:
        begin = (job.start_time or 0.0) - (self._begin or 0.0)
        seconds = job.seconds(time.time()) or 0.0
        self.grid.add(begin, begin + seconds, job.mean_cpu_percent, job.mean_memory_bytes)
        self._added.add(job.id)

    def _add_samples(self, store: SeriesStore, job: RunJob) -> None:
        cursor, last, used = self._last.get(job.id, (None, 0.0, 0.0))
        begin = (job.start_time or 0.0) - (self._begin or 0.0)
        news = store.follow(-1 if job.seq is None else job.seq, cursor)
        for sample in news.samples:
            user, system, memory = sample.values[USER], sample.values[SYSTEM], sample.values[MEMORY]
            seconds, cpu = sample.elapsed - last, None
            if user is not None and system is not None and seconds > 0:
                cpu, used = max(0.0, 100 * (user + system - used) / seconds), user + system
            self.grid.add(begin + last, begin + sample.elapsed, cpu, memory)
            last = max(last, sample.elapsed)
        if job.end_time is None:
            self._last[job.id] = news.cursor, last, used
            return
        self._add_rest(job, begin, last, used)
        self._last.pop(job.id, None)
        self._added.add(job.id)

    def _add_rest(self, job: RunJob, begin: float, last: float, used: float) -> None:
        """Add what an ended job used after its last sample: the rest of its totals."""
        seconds = job.seconds(time.time()) or 0.0
        if seconds > last:
            total = (job.mean_cpu_percent or 0.0) * seconds / 100
            cpu = max(0.0, 100 * (total - used) / (seconds - last))
            self.grid.add(begin + last, begin + seconds, cpu, job.mean_memory_bytes)
