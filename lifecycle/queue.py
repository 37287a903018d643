"""The queue: a queued job is a row of the store, and the file specs/ID.json with its command and environment."""

from __future__ import annotations

import json
import os
import signal
import time
from contextlib import suppress

from jobtop.core.errors import StartError, StoreUnavailable, UnknownJob, UsageError
from jobtop.core.measure.collectors.proc import is_alive, send
from jobtop.core.model import Job, Limits, Monitor, Queued, Status, StopRequest, Usage
from jobtop.core.procfs import CALL_FOR_AGENT
from jobtop.core.record import replace
from jobtop.core.run.request import MOST
from jobtop.core.run.scheduling import retry_seconds, will_be_retried
from jobtop.core.run.shell import line_shell
from jobtop.core.run.supervisor import new_id
from jobtop.core.state_files import make_state_dirs, remove_file
from jobtop.lifecycle.agent_lock import ensure_agent
from jobtop.lifecycle.recorder import write_private
from jobtop.lifecycle.start import spec_of
from jobtop.store import queue_rows
from jobtop.store.agents import registered
from jobtop.store.jobs import event
from jobtop.store.queue_rows import read_statuses

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from jobtop.core.job_id import JobId
    from jobtop.core.model import Identity, JobSpec, RetryRule
    from jobtop.core.paths import StatePaths
    from jobtop.store.jobs import Event, Jobs

WAITING = frozenset({Status.QUEUED, Status.PAUSED})
CARRIED = (
    *("name", "command", "host", "user", "cwd", "external_id", "tool", "script", "params", "tags", "note"),
    *("kind", "environment"),
)
CALL_SECONDS, POLL_SECONDS = 5.0, 0.02
NO_AGENT = "no agent is running to start it, and none can be started inside a job (outside: jobtop agent start)"


class Queue:
    """What can be done with the queued jobs of a store."""

    def __init__(self, jobs: Jobs, paths: StatePaths) -> None:
        self.jobs, self.paths = jobs, paths

    def submit(self, job: Job, spec: JobSpec, queued: Queued) -> Job:
        """Queue a job; its command and environment are written before its row."""
        self._keep_spec(spec)
        try:
            return self.jobs.insert(waiting(job, queued), event("submitted"))
        except BaseException:
            remove_file(self.paths.spec(spec.id))
            raise

    def submit_all(self, ready: Sequence[tuple[Job, JobSpec, Queued]]) -> list[Job]:
        """Queue all jobs, or none; the store is not locked while their commands and environments are written."""
        kept: list[JobId] = []
        try:
            for _, spec, _ in ready:
                kept.append(spec.id)
                self._keep_spec(spec)
            with self.jobs.database.writing():
                return [self.jobs.insert(waiting(job, queued), event("submitted")) for job, _, queued in ready]
        except BaseException:
            for job_id in kept:
                remove_file(self.paths.spec(job_id))
            raise

    def claim(self, job_id: str, me: Identity, gpus: Iterable[str] = ()) -> Job | None:
        """Make `me` the recorder of a queued job, to start it; None if it does not wait any more."""
        try:
            seen = self.jobs.find(job_id)
        except UnknownJob:
            return None
        if not self.waits(seen):
            return None
        queued, is_ours = queue_rows.claim(self.jobs.database, job_id, seen.recorder, me, gpus)
        return replace(seen, recorder=me, reason=None, queue=queued) if is_ours else None

    def release(self, job_id: str, me: Identity) -> None:
        """Put a job that was claimed and not started back into the queue."""
        with suppress(UnknownJob):
            self.jobs.change(job_id, lambda row: (released(row) if row.recorder == me else row, ()))

    def put_off(self, job_id: str, me: Identity, why: str, seconds: float) -> None:
        """Put a job that could not be started back into the queue, not to be started for so many seconds."""
        until = time.time() + seconds

        def later(row: Job) -> tuple[Job, tuple[Event, ...]]:
            if row.recorder != me:
                return row, ()
            row = released(row)
            return replace(row, reason=why, queue=replace(row.queue or Queued(), not_before=until)), (
                event("put_off", reason=why),
            )

        with suppress(UnknownJob):
            self.jobs.change(job_id, later)

    def waits(self, job: Job) -> bool:
        """Whether a job waits in the queue: no process runs it or starts it. The claim of a killed agent is void."""
        if job.status not in WAITING or job.queue is None or job.shim is not None:
            return False
        if job.recorder is None:
            return True
        return not is_alive(job.recorder) and not os.path.exists(self.paths.job(job.id) / "started")

    def cancel(self, job_id: str, why: str, by: str | None = None) -> Job | None:
        """Cancel a queued job; None if it has started, or is being started."""
        asked = None if by is None else StopRequest(by, time.time())

        def cancelled(row: Job) -> tuple[Job, tuple[Event, ...]]:
            if not self.waits(row) or not self._prevent_start(row):
                return row, ()
            said = event("exited", status="cancelled", reason=why)
            ended = replace(row, status=Status.CANCELLED, reason=why, end_time=said.at, stop_request=asked)
            return replace(ended, recorder=None, settled=True), (said,)

        job = self.jobs.change(job_id, cancelled)
        return job if job.status is Status.CANCELLED else None

    def hold(self, job_id: str, held: bool) -> bool:
        """Pause a queued job, so that it is not started, or resume it; False if it does not wait any more."""
        wanted = Status.PAUSED if held else Status.QUEUED

        def changed(row: Job) -> tuple[Job, tuple[Event, ...]]:
            if not self.waits(row) or row.status is wanted:
                return row, ()
            return replace(row, status=wanted), (event("paused" if held else "resumed"),)

        return self.waits(self.jobs.change(job_id, changed))

    def change_priority(self, job_id: str, step: int) -> bool:
        """Add to the priority of a queued job; False if it does not wait any more."""

        def changed(row: Job) -> tuple[Job, tuple[Event, ...]]:
            if not self.waits(row):
                return row, ()
            queued = row.queue or Queued()
            priority = max(-MOST, min(MOST, queued.priority + step))
            said = event("priority", priority=priority, reason=f"now {priority}")
            return replace(row, queue=replace(queued, priority=priority)), (said,)

        return self.waits(self.jobs.change(job_id, changed))

    def retry(self, job: Job, now: float, by_hand: bool = False) -> Job:
        """Queue an ended job again as a new job, and write the new id into the old row; this succeeds only once."""
        spec, job_id = self.spec(job), new_id()
        rule = None if by_hand else retry_rule(job, spec)

        def retried(row: Job) -> tuple[Job, tuple[Event, ...]]:
            check_retry(row, by_hand)
            return replace(row, queue=replace(row.queue or Queued(), retried_by=job_id)), (event("retried", by=job_id),)

        env = spec.env | {"JOBTOP_JOB_ID": str(job_id)}
        self._keep_spec(replace(spec, id=job_id, env=env, detached=True, pty=False))
        recovery = None if rule is None else self._recovery(job, spec, rule, now)
        try:
            with self.jobs.database.writing():
                again = made_again(self.jobs.change(job.id, retried), job_id, now, by_hand)
                if recovery is not None:
                    self.jobs.insert(recovery, event("submitted", recovers=job.id))
                    again = replace(again, queue=replace(again.queue or Queued(), after=(recovery.id,)))
                return self.jobs.insert(again, event("submitted", retry_of=job.id))
        except BaseException:
            remove_file(self.paths.spec(job_id))
            if recovery is not None:
                remove_file(self.paths.spec(recovery.id))
            raise

    def _recovery(self, job: Job, spec: JobSpec, rule: RetryRule, now: float) -> Job | None:
        """The job that runs the recovery script of a rule before a retry, with its spec written; None without one."""
        if not rule.recovery_script:
            return None
        job_id, attempt = new_id(), (job.queue or Queued()).attempt
        command = (line_shell(), "-c", rule.recovery_script)
        env = spec.env | {
            "JOBTOP_JOB_ID": str(job_id),
            "TORC_JOB_ID": str(job.seq),
            "TORC_RETURN_CODE": str(job.exit_code),
            "TORC_ATTEMPT_ID": str(attempt),
        }
        self._keep_spec(
            replace(spec, id=job_id, env=env, command=command, timeout_seconds=None, container=None, retry_rules=())
        )
        carried = {name: getattr(job, name) for name in ("host", "user", "cwd", "tags", "environment")}
        return Job(
            id=job_id,
            **carried,
            name=f"{job.name} recovery",
            command=command,
            status=Status.QUEUED,
            submitted_at=now,
            limits=Limits(cpus=0.0),
            monitor=Monitor(interval_seconds=job.monitor.interval_seconds),
            queue=Queued(priority=(job.queue or Queued()).priority),
            grace_seconds=job.grace_seconds,
        )

    def spec(self, job: Job) -> JobSpec:
        """The command and environment of a job."""
        return spec_of(self.paths, job)

    def give_up(self, job_id: str, why: str) -> None:
        """Write that a job is not tried again although it has attempts left."""

        def given_up(row: Job) -> tuple[Job, tuple[Event, ...]]:
            return replace(row, queue=replace(row.queue or Queued(), retries=0)), (event("not_retried", reason=why),)

        self.jobs.change(job_id, given_up)

    def call_agent(self, environ: Mapping[str, str]) -> str | None:
        """Wake or start an agent; None, or why no agent runs that could start the queued jobs.

        Inside of a job no agent can be started: a process outside is asked to do so.
        """
        inside, there = environ.get("JOBTOP_JOB_ID"), registered(self.jobs.database)
        if inside is None:
            try:
                ensure_agent(self.jobs.database, self.paths)
            except StartError as error:
                return f"{error}; then start it: jobtop agent start (until then the job stays queued)"
            return None
        is_called = (there is not None and send(there.identity, signal.SIGUSR1)) or self._ask_outermost_run(inside)
        return None if is_called else NO_AGENT

    def _ask_outermost_run(self, job_id: str) -> bool:
        """Ask the `run` of the outermost job to start an agent, and wait for it; False if none came.

        An agent that is started here would belong to the job.
        """
        try:
            job = self.jobs.find(job_id)
            while job.parent_id is not None:
                job = self.jobs.find(job.parent_id)
        except UnknownJob:
            return False
        if job.recorder is None or not send(job.recorder, CALL_FOR_AGENT):
            return False
        deadline = time.monotonic() + CALL_SECONDS
        while registered(self.jobs.database) is None and queue_rows.has_queued(self.jobs.database, self.paths.host):
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_SECONDS)
        return True

    def groups(self) -> dict[str, int]:
        """The groups that have slots, and how many."""
        return queue_rows.groups(self.jobs.database)

    def set_slots(self, name: str, slots: int | None) -> None:
        """Set how many jobs of a group may run at once; None: no limit."""
        queue_rows.set_slots(self.jobs.database, name, slots)

    def outcomes(self, ids: Iterable[str]) -> dict[str, Status | None]:
        """The status of the last attempt at each job; `queued` if it will be tried again. None: it was deleted."""
        found: dict[str, Status | None] = {}
        with self.jobs.database.reading():
            rows = read_statuses(self.jobs.database, {job_id: job_id for job_id in ids})
            while rows:
                later = {}
                for asked, (status, queued) in rows.items():
                    found[asked] = Status.QUEUED if status and will_be_retried(status, queued) else status
                    if queued is not None and queued.retried_by is not None:
                        later[asked] = queued.retried_by
                rows = read_statuses(self.jobs.database, later)
        return found

    def last_attempt(self, job: Job) -> Job:
        """The job itself, or the last job that retried it."""
        while job.queue is not None and job.queue.retried_by is not None:
            try:
                job = self.jobs.find(job.queue.retried_by)
            except UnknownJob:
                break
        return job

    def attempts(self, job_id: str | None) -> list[str]:
        """The ids of a job and of the jobs that retried it."""
        found: list[str] = []
        with self.jobs.database.reading():
            while job_id is not None:
                found.append(job_id)
                queued = read_statuses(self.jobs.database, {job_id: job_id})[job_id][1]
                job_id = None if queued is None else queued.retried_by
        return found

    def _keep_spec(self, spec: JobSpec) -> None:
        try:
            make_state_dirs(self.paths.root, self.paths.jobs, self.paths.specs)
            write_private(str(self.paths.spec(spec.id)), json.dumps(spec.to_json()))
        except OSError as error:
            why = f"{self.paths.specs}: {os.strerror(error.errno or 0)}"
            raise StoreUnavailable(f"{why}; set JOBTOP_HOME to a directory that can be written") from error

    def _prevent_start(self, job: Job) -> bool:
        """Create an empty `started`, so that a shim of a killed agent cannot start the job; False if it has started."""
        if job.recorder is None:
            return True
        directory = self.paths.job(job.id)
        make_state_dirs(self.paths.root, self.paths.jobs, directory)
        try:
            os.close(os.open(directory / "started", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        except FileExistsError:
            return False
        return True


def waiting(job: Job, queued: Queued) -> Job:
    """The job as a queued one."""
    return replace(job, status=Status.QUEUED, queue=queued, recorder=None, settled=False)


def released(job: Job) -> Job:
    """The job without its recorder and its GPUs."""
    return replace(job, recorder=None, queue=replace(job.queue or Queued(), gpus=()))


def check_retry(job: Job, by_hand: bool) -> None:
    """Raise UsageError if a job cannot be queued again."""
    if not job.status.ended:
        raise UsageError(f"job {job.id[:8]} has not ended ({job.status}): there is nothing to retry")
    if job.queue is not None and job.queue.retried_by is not None:
        later = job.queue.retried_by[:8]
        raise UsageError(f"job {job.id[:8]} was already retried as {later}: jobtop retry {later}")
    if not by_hand and not will_be_retried(job.status, job.queue):
        raise UsageError(f"job {job.id[:8]} has no attempt left")


def retry_rule(job: Job, spec: JobSpec) -> RetryRule | None:
    """The rule by which a job is tried again; None if it has none. Raises UsageError if none of its rules fits."""
    if not spec.retry_rules:
        return None
    queued = job.queue or Queued()
    fitting = [rule for rule in spec.retry_rules if rule.fits(job.exit_code)]
    if not fitting:
        raise UsageError(f"exit code {job.exit_code} is not among those that are tried again")
    for rule in fitting:
        if queued.attempt <= rule.max_retries:
            return rule
    raise UsageError(f"it was tried {queued.attempt} times, as often as its failure handler says")


def made_again(job: Job, job_id: JobId, now: float, by_hand: bool) -> Job:
    """The next attempt at a job: later and with one attempt less, or `by_hand` at once and with all attempts again."""
    before = job.queue or Queued()
    queued = replace(before, retry_of=job.id, retried_by=None, gpus=(), not_before=None)
    if by_hand:
        queued = replace(queued, retries=before.retries + before.attempt - 1, attempt=1)
    else:
        delay = retry_seconds(before.attempt)
        queued = replace(queued, retries=before.retries - 1, attempt=before.attempt + 1, not_before=now + delay)
    if job.start_time is not None:  # the jobs it waited for have succeeded
        queued = replace(queued, after=(), after_end=())
    return Job(
        id=job_id,
        **{name: getattr(job, name) for name in CARRIED},
        status=Status.QUEUED,
        submitted_at=now,
        limits=job.limits,
        usage=Usage(cpus_allowed=job.usage.cpus_allowed),
        monitor=Monitor(interval_seconds=job.monitor.interval_seconds),
        queue=queued,
        grace_seconds=job.grace_seconds,
    )
