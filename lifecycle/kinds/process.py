"""The kind of jobs that jobtop starts: a command below its own shim, which reaps and counts all its processes."""

from __future__ import annotations

import os
import time

from jobtop.core.measure.collectors import cgroup
from jobtop.core.measure.collectors.proc import identify, is_alive, send, send_to_members
from jobtop.core.model import ENDS, Identity, Job, Status
from jobtop.core.procfs import (
    HAS_PROC,
    boot_id,
    children,
    descendants,
    freeze_descendants,
    read_text,
    signal_descendants,
    stat_fields,
    status_value,
)
from jobtop.core.procfs import signals as signal
from jobtop.core.record import replace
from jobtop.core.run import outcome
from jobtop.core.run.facts import ENDED, STARTED, reachable, read_facts, read_marks, read_started
from jobtop.lifecycle.ends import (
    LIMITED_SECONDS,
    end_events,
    flag_over_use,
    limits_of,
    seen_seconds,
    stored_observation,
)
from jobtop.lifecycle.kinds.kind import START_SECONDS, Unanswered
from jobtop.lifecycle.kinds.registry import kind_of
from jobtop.store.jobs import event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from jobtop.core.measure.target import Target
    from jobtop.core.model import Identity
    from jobtop.core.paths import StatePaths
    from jobtop.core.run.facts import Facts, Started
    from jobtop.core.run.supervisor import Supervisor
    from jobtop.lifecycle.kinds.kind import Order, Watched
    from jobtop.store.jobs import Event, Jobs

KNOWN_ENDS = ENDS - {Status.LOST}
DIED = "jobtop's supervisor died; exit status unknown"
DAMAGED = "exit status unknown: the files of jobtop's supervisor are damaged"
DELETED = "exit status unknown: the files of jobtop's supervisor were deleted"
NEVER_STARTED = "jobtop ended before it could start the command"
NO_SPEC = "its command and environment were deleted (store.spec_days); type them again: jobtop run -- COMMAND"
SILENT_DIRECTORY = "its working directory does not answer"
SILENT_SHIM = "its supervisor did not answer"
SHIM_KILLED = "its supervisor was killed before it could start the command"


class ProcessStart:
    """A shim that was sent its order."""

    def __init__(self, supervisor: Supervisor, directory: str | None) -> None:
        self.supervisor, self.directory = supervisor, directory

    @property
    def fd(self) -> int:
        return self.supervisor.status_read

    def answer(self) -> Facts | None:
        return self.supervisor.answer()

    def close(self) -> None:
        os.close(self.supervisor.status_read)

    def give_up(self) -> Unanswered:
        """Stop a shim that hangs, then look for `started`: continue the shim if it is there, else kill the shim.

        The first call only sends SIGSTOP. A stopped shim cannot start the job while its files are read.
        """
        shim = self.supervisor.pid
        state, parent = (*stat_fields(shim), "", "")[:2]
        exists = parent == str(os.getpid()) and state not in "ZX"
        if not HAS_PROC:
            return Unanswered()
        if exists and state not in "Tt":
            os.kill(shim, signal.SIGSTOP)
            return Unanswered()
        if self.directory is not None and os.path.lexists(os.path.join(self.directory, STARTED)):
            if exists:
                os.kill(shim, signal.SIGCONT)
            return Unanswered(read_facts(self.directory, STARTED)[0])
        why = SILENT_DIRECTORY if exists and children(shim) else SILENT_SHIM
        if exists:
            signal_descendants(shim, signal.SIGKILL)
            os.kill(shim, signal.SIGKILL)
        cgroup.discard(self.supervisor.cgroups)
        return Unanswered(why=why)


class ProcessKind:
    """A command below a shim."""

    name = "process"
    has_shim = True
    why_no_output: str | None = None
    knows_exit_status = True
    signals_processes = True

    def start(self, order: Order) -> ProcessStart:
        from jobtop.core.run.supervisor import Supervisor

        supervisor = order.supervisor or Supervisor()
        supervisor.order(order.spec, order.directory, order.with_cgroup, order.with_stdin, order.successor)
        return ProcessStart(supervisor, order.directory)

    def target(self, paths: StatePaths, job: Job) -> Target | None:
        from jobtop.core.measure.target import target_in

        return target_in(paths.job(job.id), job)

    def is_alive(self, job: Job) -> bool:
        return job.shim is not None and is_alive(job.shim)

    def has_ended(self, paths: StatePaths, job: Job) -> bool:
        """Whether there is a valid `ended`: a job that leaves processes running has ended, and its shim still runs."""
        directory = paths.names.job(job.id)
        # An agent asks for every job each second, and nearly all run: this costs a tenth of opening the file.
        return os.access(f"{directory}/{ENDED}", os.F_OK) and read_facts(directory, ENDED)[0] is not None

    def refusal(self, job: Job) -> str | None:
        return None

    def ensure_reachable(self, job: Job) -> None:
        """No engine is needed."""

    def stop(self, job: Job) -> bool:
        """Send TERM to the shim, which sends it to all processes, and KILL to those left after the grace period."""
        return send(root_of(job), signal.SIGTERM)

    def kill(self, job: Job) -> None:
        send_to_members(root_of(job), signal.SIGKILL)

    def signal(self, job: Job, number: int) -> None:
        send_to_members(root_of(job), number)

    def pause(self, job: Job) -> None:
        freeze_descendants(root_of(job).pid)

    def resume(self, job: Job) -> None:
        self.signal(job, signal.SIGCONT)

    def processes(self, job: Job) -> int:
        return len(descendants(root_of(job).pid))

    def survivors(self, paths: StatePaths, job: Job) -> list[Identity]:
        """If the shim is gone: the processes in the cgroups of the job, else its main process and the descendants."""
        started = read_started(paths.job(job.id))
        if started is None or is_alive(started.shim):
            return []
        pids = {int(pid) for path in started.cgroups for pid in read_text(f"{path}/cgroup.procs").split()}
        if not pids and is_alive(started.main):
            pids = {started.main.pid, *descendants(started.main.pid)}
        return [identify(pid) for pid in pids]

    def record_end(self, jobs: Jobs, paths: StatePaths, job: Job, watched: Watched | None = None) -> Job:
        ended = None if watched is None else read_facts(paths.job(job.id), ENDED)[0]
        if watched is None or ended is None:
            return update_from_files(jobs, paths, job)
        ended.note("recorder_cpu", watched.cpu_seconds or 0.0)
        ended.note("recorder_rss", watched.rss_bytes or status_value(os.getpid(), "VmHWM:") * 1024)
        add_samples = None if watched.observation is None else watched.observation.of
        return self.finish(jobs, paths, job, ended, add_samples)

    def finish(
        self,
        jobs: Jobs,
        paths: StatePaths,
        job: Job,
        ended: Facts,
        add_samples: Callable[[Job], Job] | None = None,
        secrets: Sequence[str] | None = None,
    ) -> Job:
        """Write how a job ended, for the process that recorded it."""
        return finish(jobs, paths, job, ended, add_samples=add_samples, secrets=secrets)

    def concluded(self, paths: StatePaths, job: Job, ended: Facts) -> Job:
        """The record of an ended job, without the store."""
        return outcome.conclude(job, ended)

    def without_shim(self, jobs: Jobs, paths: StatePaths, job: Job) -> Job:
        """Write what is known of a job after its shim was killed: it is lost, or never started."""
        job = update_from_files(jobs, paths, job)
        if job.status.ended or job.shim is not None:
            return job
        return never_started(jobs, job, SHIM_KILLED)

    def why_not_again(self, paths: StatePaths, job: Job) -> str | None:
        return None if os.path.lexists(paths.spec(job.id)) else NO_SPEC


KIND = ProcessKind()


def shim_kind_of(job: Job) -> ProcessKind:
    """The kind of a job that has a shim."""
    kind = kind_of(job)
    assert isinstance(kind, ProcessKind)
    return kind


def root_of(job: Job) -> Identity:
    """The root process of a job that has started."""
    assert job.shim is not None
    return job.shim


def update_from_files(jobs: Jobs, paths: StatePaths, job: Job) -> Job:
    """Update the row by the files of the shim, and return it: running, ended, lost, or never started."""
    directory = paths.job(job.id)
    facts, damage = read_facts(directory, STARTED)
    started = None if facts is None else reachable(facts.started())
    shim = job.shim if started is None else started.shim
    # First this, then `ended`: a shim writes `ended` before it exits.
    alive = shim is not None and is_alive(shim)
    ended, end_damage = read_facts(directory, ENDED)
    damage = end_damage or damage
    if started is not None and job.shim is None:
        job = jobs.change(job.id, lambda row: (outcome.begin(row, started), ()))
    if ended is not None:
        settled = ended.integer("final") == 1 or not alive
        if job.status.ended and not settled:
            return job
        add_samples = None if job.status.ended else stored_observation(jobs, job)
        return finish(jobs, paths, job, ended, settled, add_samples, started)
    if alive:
        return job
    if job.status in KNOWN_ENDS:
        return jobs.change(job.id, lambda row: (replace(row, settled=True), ()))
    if started is not None or damage is not None:
        why = died(started.main if started else None) if damage is None else f"{DAMAGED}: {damage}"
        return lose(jobs, paths, job, started, why)
    if job.shim is not None:  # the row says that it has started
        return lose(jobs, paths, job, None, DELETED)
    if job.queue is not None:  # it is still queued
        return job
    if time.time() - (job.submitted_at or 0) < START_SECONDS:
        return job
    cgroup.discard(cgroup.possible_directories(job.id))
    return never_started(jobs, job, NEVER_STARTED)


def never_started(jobs: Jobs, job: Job, why: str) -> Job:
    """Write that a job could not be started."""
    return jobs.change(job.id, lambda row: (outcome.never_started(row, why), (event("error", reason=why),)))


def finish(
    jobs: Jobs,
    paths: StatePaths,
    job: Job,
    ended: Facts,
    settled: bool | None = None,
    add_samples: Callable[[Job], Job] | None = None,
    started: Started | None = None,
    secrets: Sequence[str] | None = None,
    conclude: Callable[[Job, Facts], Job] = outcome.conclude,
) -> Job:
    """Write how a job ended and why, its totals with what samples add to them, and the marks of its output.

    `started` is for a row without a start, because its recorder was killed before it could write that. `secrets` are
    the expressions of `run.redact`; None reads them from the configuration. `conclude` derives the record.
    """
    began = job if started is None or job.shim is not None else outcome.begin(job, started)
    explain = explanation(jobs, paths, began, ended, secrets, conclude)
    has_samples = ran_long_enough(ended) and job.status not in KNOWN_ENDS
    limit = limits_of(jobs, conclude(began, ended)) if has_samples else None

    def concluded(row: Job) -> tuple[Job, Iterable[Event]]:
        row = row if started is None or row.shim is not None else outcome.begin(row, started)
        done = conclude(row, ended)
        done = done if add_samples is None or done.status is Status.ERROR else add_samples(done)
        if row.status not in KNOWN_ENDS:
            done = done if limit is None else limit(done)
            done = done if explain is None else explain(done)
        done = flag_over_use(done)
        if settled is not None:
            done = replace(done, settled=settled)
        return done, end_events(row, done, ended.moment("last")[0])

    done = jobs.change(job.id, concluded)
    jobs.add_log_marks(done, read_marks(paths.names.job(job.id))[0])
    return done


def ran_long_enough(ended: Facts) -> bool:
    """Whether a job ran long enough to say what limited it."""
    return "status" in ended and ended.moment("end")[1] - ended.moment("start")[1] >= LIMITED_SECONDS


def explanation(
    jobs: Jobs | None,
    paths: StatePaths,
    job: Job,
    ended: Facts,
    secrets: Sequence[str] | None = None,
    conclude: Callable[[Job, Facts], Job] = outcome.conclude,
) -> Callable[[Job], Job] | None:
    """A function that adds to the record why the job ended; None if it ended well, or that is recorded already."""
    if ended.get("status", "0") == "0" or job.status in KNOWN_ENDS:
        return None
    from jobtop.core.analysis.reasons import explained
    from jobtop.lifecycle.explaining import read_clues

    clues = read_clues(jobs, paths, conclude(job, ended), secrets)
    return lambda done: explained(done, clues)


def died(main: Identity | None) -> str:
    """The reason of a job without a known end; in the same boot, its main process may still run."""
    if main is None or main.boot != boot_id():
        return DIED
    return f"{DIED}. Check whether pid {main.pid} still runs"


def lose(jobs: Jobs, paths: StatePaths, job: Job, started: Started | None, why: str) -> Job:
    """Write that a job is lost, since its shim is gone without a valid `ended`; totals come from its cgroups.

    Its duration ends when it was last seen.
    """
    texts: dict[str, str] = {}
    directories = cgroup.possible_directories(job.id) if started is None else started.cgroups
    for directory in directories:
        for names in cgroup.EVIDENCE.values():
            texts |= {name: text for name in names if (text := read_text(f"{directory}/{name}"))}
    is_empty = cgroup.discard(directories)
    add_samples, seen = stored_observation(jobs, job), seen_seconds(jobs, job)
    from jobtop.core.analysis.reasons import explained
    from jobtop.lifecycle.explaining import read_clues

    began = replace(job if started is None else outcome.begin(job, started), duration_seconds=seen)
    lost = outcome.lost(began, why, None)
    is_new = job.status is not Status.LOST  # otherwise it is only looked at whether its processes have exited
    clues, limit = (read_clues(jobs, paths, lost), limits_of(jobs, lost)) if is_new else (None, None)

    def concluded(row: Job) -> tuple[Job, Iterable[Event]]:
        row = row if started is None else outcome.begin(row, started)
        known = replace(outcome.lost_with(row, why, cgroup.reading(texts)), duration_seconds=seen)
        known = known if add_samples is None or row.status is Status.LOST else add_samples(known)
        if clues is None:
            known = replace(known, reason=row.reason, findings=row.findings, limited_by=row.limited_by)
        else:
            known = outcome.with_storage(known, texts.get("io.stat", ""))
            known = explained(known if limit is None else limit(known), clues)
        return replace(known, settled=is_empty), () if row.status is Status.LOST else (
            event("lost", reason=known.reason),
        )

    return jobs.change(job.id, concluded)
