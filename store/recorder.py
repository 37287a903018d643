"""Keeps the record of the job that `run` runs; whatever the store does, the job and its exit code come first."""

import json
import os
import signal
import time
from collections.abc import Callable

from jobtop.core import evidence
from jobtop.core.errors import JobtopError, StoreError
from jobtop.core.evidence import Facts, Started
from jobtop.core.model import Job, JobSpec, StopRequest
from jobtop.core.paths import StatePaths, make_private_dir
from jobtop.core.record import replace
from jobtop.store import reconcile
from jobtop.store.database import open_to_write
from jobtop.store.jobs import Jobs, event


class Recorder:
    """One job's way into the store. The first failure is said in one line; from then on it is kept in memory."""

    def __init__(self, paths: StatePaths, network: bool | None, warn: Callable[[str], None]) -> None:
        self.paths, self.network, self.warn = paths, network, warn
        self.jobs: Jobs | None = None
        self.directory: str | None = None

    def begin(self, job: Job, spec: JobSpec) -> Job:
        """Keep the job before it starts; in the worst case only on the screen."""
        try:
            for parent in (self.paths.root, self.paths.jobs, self.paths.specs):
                make_private_dir(parent)
            self.paths.job(job.id).mkdir(mode=0o700)
            self.directory = str(self.paths.job(job.id))
            write_private(str(self.paths.spec(job.id)), json.dumps(spec.to_json()))
        except OSError as error:
            self.warn(f"nothing of this job can be kept in {self.paths.root} ({os.strerror(error.errno or 0)})")
            return job
        try:
            database = open_to_write(self.paths, self.network)
            if database.notice:
                self.warn(database.notice)
            self.jobs = Jobs(database)
            return self.jobs.insert(job, event("submitted"))
        except StoreError as error:
            self._give_up(error)
            return job

    def started(self, job: Job, started: Started) -> Job:
        job = evidence.begin(job, started)
        return self._change(job, lambda row: (evidence.begin(row, started), (event("started", pid=started.main.pid),)))

    def detached(self, job: Job) -> Job:
        """Nobody waits for this job: whoever opens the store next looks after it."""
        job = self._change(job, lambda row: (replace(row, recorder=None), ()))
        if self.jobs is None:
            self._keep_beside(replace(job, recorder=None))
        return job

    def stop_requested(self, job: Job, number: int) -> Job:
        asked = StopRequest(signal.Signals(number).name, time.time())
        job = replace(job, stop_request=asked)
        return self._change(
            job, lambda row: (replace(row, stop_request=asked), (event("stop_requested", by=asked.by),))
        )

    def paused(self, job: Job, paused: bool) -> Job:
        return self._change(
            reconcile.paused_or_running(job, paused)[0], lambda row: reconcile.paused_or_running(row, paused)
        )

    def finish(self, job: Job, ended: Facts | None) -> Job:
        """The finished record, kept if it can be; None: the shim was killed."""
        if self.jobs is not None:
            try:
                if ended is not None:
                    return reconcile.finish(self.jobs, self.paths, job, ended)
                return reconcile.reconcile_one(self.jobs, self.paths, job)
            except JobtopError as error:
                self._give_up(error)
        if ended is not None:
            job = evidence.conclude(job, ended)
        else:
            job = evidence.lost(job, "its supervisor vanished, so its end is not known", None)
        self._keep_beside(job)
        return job

    def _change(self, fallback: Job, change: Callable[[Job], tuple[Job, tuple[object, ...]]]) -> Job:
        if self.jobs is None:
            return fallback
        try:
            return self.jobs.change(fallback.id, change)  # type: ignore[arg-type]
        except JobtopError as error:
            self._give_up(error)
            return fallback

    def _give_up(self, error: JobtopError) -> None:
        self.jobs = None
        self.warn(f"this job is not in the history yet: {error}")

    def _keep_beside(self, job: Job) -> None:
        """Where the next verb that can write the store takes it in."""
        if self.directory is None:
            return
        try:
            make_private_dir(self.paths.unrecorded)
            write_private(str(self.paths.unrecorded / f"{job.id}.json"), json.dumps(job.to_json()))
        except OSError as error:
            self.warn(f"the record of this job cannot be kept ({os.strerror(error.errno or 0)})")


def write_private(path: str, text: str) -> None:
    """A file for this user only, whole or not at all."""
    draft = f"{path}.{os.getpid()}.new"
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        with open(fd, "w") as file:
            file.write(text)
        os.rename(draft, path)
    except OSError:
        os.unlink(draft)
        raise
