"""Writes the record of a job that `run` starts; errors of the store never change the job or its exit code."""

from __future__ import annotations

import json
import os
import time

from jobtop.core.errors import JobtopError, StoreBusy, StoreDamaged, StoreError, StoreReplaced, StoreUnavailable
from jobtop.core.model import Job, JobSpec, StopRequest
from jobtop.core.paths import StatePaths
from jobtop.core.procfs import status_value
from jobtop.core.record import replace
from jobtop.core.run import outcome
from jobtop.core.run.facts import Facts, Started
from jobtop.core.run.supervisor import AgentLaunch, agent_command
from jobtop.core.state_files import make_state_dirs
from jobtop.lifecycle.ends import started_change
from jobtop.lifecycle.kinds import process
from jobtop.lifecycle.kinds.process import shim_kind_of
from jobtop.store.database import Database, open_to_write
from jobtop.store.files import is_network
from jobtop.store.jobs import Event, Jobs, event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from jobtop.core.run.containers.file import ContainerFile

START_PATIENCE_SECONDS = 0.5
NOT_YET = "this job is not in the history yet: "


class Recorder:
    """Writes one job into the store; a store that cannot be written is one warning.

    If another process locks the store for long, changes are kept in memory and written at the end. If the store cannot
    be written at all, the record is kept in memory, and written to unrecorded/ID.json at the end.
    """

    def __init__(
        self,
        paths: StatePaths,
        network: bool | None,
        warn: Callable[[str], None],
        secrets: Sequence[str] | None = None,
    ) -> None:
        self.paths, self.network, self.secrets = paths, network, secrets
        self._warn, self._warned = warn, False
        self._late_problem: str | None = None
        self._waits_for_store = False
        self._unwritten: list[Callable[[Job], tuple[Job, tuple[Event, ...]]]] = []
        self.jobs: Jobs | None = None
        self.directory: str | None = None
        self.job: Job
        self.own_cost = process_cost  # the CPU seconds and the memory of recording and sampling

    def begin(self, job: Job, spec: JobSpec) -> None:
        """Write spec and row before the job starts, so that it is in the history even if this process is killed."""
        self.job = job
        names = self.paths.names
        directory = names.job(job.id)
        try:
            make_state_dirs(names.root, names.jobs, names.specs, names.unrecorded)
            os.mkdir(directory, 0o700)
            write_private(names.spec(job.id), json.dumps(spec.to_json()))
        except OSError as error:
            if os.path.isdir(directory):
                os.rmdir(directory)
            why = f"{names.root}: {os.strerror(error.errno or 0)}"
            self.warn(f"nothing of this job can be kept in {why}; set JOBTOP_HOME to a directory that can be written")
            return
        except StoreUnavailable as error:
            self.warn(f"nothing of this job is kept: {error}")
            return
        self.directory = directory
        try:
            self._insert()
        except StoreBusy:  # the start of the job does not wait for the store; its end does
            self._write_unrecorded()
            self._waits_for_store = True
        except StoreError as error:
            self._give_up(error)

    def successor(self, sets: Iterable[str] = ()) -> AgentLaunch | None:
        """How the shim starts an agent to record this job if this process is killed; None if nothing of it is kept."""
        if self.directory is None:
            return None
        lock_path = self.paths.names.agent
        if is_network(self.paths.names.store) if self.network is None else self.network:
            from jobtop.lifecycle import agent_lock

            try:
                lock_path = str(agent_lock.lock_path(self.paths, self.network))
            except (JobtopError, OSError):  # an agent could not take the lock either
                return None
        # Inside of another job the shim starts no agent itself: the agent would belong to that job.
        command = [] if self.job.parent_id is not None else agent_command(self.paths.names.root, sets)
        return AgentLaunch(lock_path, command)

    def started(self, started: Started) -> None:
        self.job = outcome.begin(self.job, started)
        self._change(started_change(started))

    def found_container(self, file: ContainerFile) -> None:
        """Write which container the job runs in."""
        from jobtop.core.run.containers.file import with_finding

        self.job = with_finding(self.job, file)
        self._change(lambda row: (with_finding(row, file), ()))

    def detached(self) -> None:
        """Stop recording the job: the agent, or the next verb that lists jobs, records its end."""
        self.job = replace(self.job, recorder=None)
        self._change(lambda row: (replace(row, recorder=None), ()))
        self._catch_up()
        if self.jobs is None:
            self._write_unrecorded()
        if self._late_problem:
            self.warn(self._late_problem)

    def stop_requested(self, by: str) -> None:
        asked = StopRequest(by, time.time())
        self.job = replace(self.job, stop_request=asked)
        self._change(lambda row: (replace(row, stop_request=asked), (event("stop_requested", by=asked.by),)))

    def paused(self, paused: bool) -> None:
        from jobtop.lifecycle.reconcile import paused_or_running

        self.job = paused_or_running(self.job, paused)[0]
        self._change(lambda row: paused_or_running(row, paused))

    def finish(self, ended: Facts | None, add_samples: Callable[[Job], Job] | None = None) -> Job:
        """Write how the job ended, and return the record; `ended` is None if the shim was killed.

        `add_samples` adds what was sampled to the record.
        """
        if ended is not None:
            cpu_seconds, rss_bytes = self.own_cost()
            ended.note("recorder_cpu", cpu_seconds)
            ended.note("recorder_rss", rss_bytes)
            self._warned |= "complained" in ended
        if self._late_problem:
            self.warn(self._late_problem)
        self._catch_up()
        if self.jobs is not None:
            try:
                if ended is not None:
                    return self._written(
                        self.jobs,
                        lambda jobs: shim_kind_of(self.job).finish(
                            jobs, self.paths, self.job, ended, add_samples, self.secrets
                        ),
                    )
                return self._written(self.jobs, self._without_shim)
            except JobtopError as error:
                self._give_up(error)
        if ended is not None:
            explain = process.explanation(None, self.paths, self.job, ended, secrets=self.secrets)
            self.job = shim_kind_of(self.job).concluded(self.paths, self.job, ended)
            self.job = self.job if add_samples is None else add_samples(self.job)
            self.job = self.job if explain is None else explain(self.job)
        else:
            self.job = outcome.lost(self.job, process.DIED, None)
        self.job = replace(self.job, seq=None)
        self._write_unrecorded()
        return self.job

    def _catch_up(self) -> None:
        """Write what could not be written while another process locked the store; now there is time to wait for it."""
        try:
            if self._waits_for_store:
                self.jobs = Jobs(open_to_write(self.paths, self.network))
                from jobtop.lifecycle.reconcile import import_unrecorded

                import_unrecorded(self.jobs, self.paths)
            if self.jobs is not None:
                self.jobs.database.wait_for_others()
                for change in self._unwritten:
                    self.job = self._changed(self.jobs, change)
        except JobtopError as error:
            self._give_up(error)

    def _without_shim(self, jobs: Jobs) -> Job:
        """Write the end of a job after its shim was killed while this process ran: it is lost, or never started."""
        return shim_kind_of(self.job).without_shim(jobs, self.paths, self.job)

    def close(self) -> None:
        if self.jobs is not None:
            self.jobs.database.close()

    def warn(self, text: str) -> None:
        if not self._warned:
            self._warned = True
            self._warn(text)

    def _insert(self) -> None:
        try:
            self._insert_into(open_to_write(self.paths, self.network, START_PATIENCE_SECONDS))
        except StoreDamaged:
            from jobtop.store.repair import open_repaired

            self._insert_into(open_repaired(self.paths, self.network))

    def _insert_into(self, database: Database) -> None:
        try:
            self.job = Jobs(database).insert(self.job, event("submitted"))
        except BaseException:
            database.close()
            raise
        if database.notice:
            self.warn(database.notice)
        self.jobs = Jobs(database)

    def _change(self, change: Callable[[Job], tuple[Job, tuple[Event, ...]]]) -> None:
        if self.jobs is None:
            if self._waits_for_store:
                self._unwritten.append(change)
            return
        try:
            self.job = self._changed(self.jobs, change)
        except StoreBusy:
            self._unwritten.append(change)
        except JobtopError as error:
            self.jobs = None
            self._late_problem = NOT_YET + str(error)  # the shim may print the same: said once, at the end

    def _changed(self, jobs: Jobs, change: Callable[[Job], tuple[Job, tuple[Event, ...]]]) -> Job:
        return self._written(jobs, lambda jobs: jobs.change(self.job.id, change))

    def _written(self, jobs: Jobs, write: Callable[[Jobs], Job]) -> Job:
        """The job after a write; if the store was deleted or replaced, the job is inserted into the new file first."""
        try:
            return write(jobs)
        except StoreReplaced:
            self.job = jobs.reinsert(self.job)
            if jobs.database.notice:
                self.warn(jobs.database.notice)
            return write(jobs)

    def _give_up(self, error: JobtopError) -> None:
        self.jobs = None
        self.warn(NOT_YET + str(error))

    def _write_unrecorded(self) -> None:
        """Write the record to unrecorded/ID.json; the next verb that can write the store imports it."""
        if self.directory is None:
            return
        from jobtop.lifecycle.reconcile import to_unrecorded

        names = self.paths.names
        try:
            make_state_dirs(names.root, names.unrecorded)
            write_private(names.late_record(self.job.id), json.dumps(to_unrecorded(self.job)))
        except (OSError, StoreUnavailable) as error:
            why = os.strerror(error.errno or 0) if isinstance(error, OSError) else error
            self.warn(f"the record of this job cannot be kept: {why}")


def process_cost() -> tuple[float, int]:
    """The CPU seconds and the largest memory of this process, which does nothing but record and sample its job."""
    return time.process_time(), status_value(os.getpid(), "VmHWM:") * 1024


def write_private(path: str, text: str) -> None:
    """Write a file with mode 0600; other processes see the whole file or no file."""
    draft = f"{path}.{os.getpid()}.new"
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with open(fd, "w") as file:
            file.write(text)
        os.rename(draft, path)
    except OSError:
        os.unlink(draft)
        raise
