"""`JobMonitor`: Keystone's job monitor on jobtop's tracked blocks and store, with the same calls and result shapes."""

from __future__ import annotations

import logging
import os
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from jobtop.core.model import Status
from jobtop.core.track.keystone import HAS_RESULT, NAN, PROFILE, STATUSES, Task, complete_profile, task_entry, with_nan
from jobtop.core.track.params import plain_params

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any, TypeVar

    from jobtop.core.config import Config
    from jobtop.core.paths import StatePaths
    from jobtop.lifecycle.containers.beside import ContainerWatch
    from jobtop.store.database import Database
    from jobtop.store.jobs import Query
    from jobtop.tracking import Block

    T = TypeVar("T")

__all__ = ["JobMonitor", "JobTracker", "get_monitor"]

logger = logging.getLogger(__name__)
PROFILE_SECONDS = 0.5  # between two readings of a profile
DIRECTORY = "JOBTOP_KEYSTONE_DIR"
LOG_DIR_TAG = "log_dir"  # of jobs of a monitor with a directory of its own


class ActiveJob:
    """A job that is monitored: its block, and what the caller said about it."""

    def __init__(self, task_id: str, tool: str | None, script: str | None, params: object) -> None:
        self.task_id, self.tool, self.script, self.params = task_id, tool, script, plain_params(params)
        self.block: Block | None = None
        self.container: ContainerWatch | None = None
        self.start_time, self.began, self.process = time.time(), time.monotonic(), os.getpid()


class JobTracker:
    """What `track_job` gives: `set_status` says how the job ends; `stats` is, afterwards, what the job used."""

    def __init__(self, task_id: str) -> None:
        self.task_id = task_id
        self.status: str = Status.SUCCESS
        self.returncode: int | None = 0
        self.error: str | None = None
        self.result: Any = None
        self.stats: dict[str, Any] | None = None

    def set_status(
        self, status: str, returncode: int | None = None, error: str | None = None, result: Any = None
    ) -> None:
        """Set how the job ends: success, failed, timeout or error."""
        self.status, self.returncode, self.error, self.result = checked_status(status), returncode, error, result


class JobMonitor:
    """Measures jobs of this process and remembers them, as Keystone's class of this name does.

    Each job is a tracked block: this process and the processes that it starts until the job is stopped. History and
    statistics are those of all ended jobs in jobtop's store; with `log_dir`, those of monitors with this directory.
    Each job is also appended to `jobs_history.jsonl` there, by default in `$JOBTOP_KEYSTONE_DIR` or `keystone/` in the
    state directory. With `enable_profiling=False` jobs have no `detailed_profile`.
    """

    def __init__(self, log_dir: str | os.PathLike[str] | None = None, enable_profiling: bool = True) -> None:
        self.enable_profiling = enable_profiling
        self.log_dir = _default_directory() if log_dir is None else os.path.abspath(os.path.expanduser(log_dir))
        self._own_directory = None if log_dir is None else self.log_dir
        self._active: dict[str, ActiveJob] = {}
        self._lock = threading.Lock()

    @property
    def history_file(self) -> str | None:
        """The path of `jobs_history.jsonl`; None if no home directory is known."""
        from jobtop.store.history_file import NAME

        return None if self.log_dir is None else os.path.join(self.log_dir, NAME)

    def start_monitoring(
        self,
        task_id: str,
        tool: str | None = None,
        script: str | None = None,
        params: Mapping[str, Any] | None = None,
        container_name: str | None = None,
    ) -> None:
        """Begin to measure a job; with `container_name`, also what this container uses."""
        job = ActiveJob(str(task_id), tool, script, params)
        with self._lock:
            before = self._active.pop(job.task_id, None)
        if before is not None and before.process == os.getpid():
            logger.warning("Job %s is started again before it was stopped", job.task_id)
            self._end(before, Status.ERROR, None, "started again before it was stopped", None)
        logger.info("Starting job %s: tool=%s, script=%s, params=%s", job.task_id, tool, script, shown(job.params))
        if container_name is not None and self.enable_profiling:
            from jobtop.lifecycle.containers.beside import ContainerWatch

            # Before the block, and ended after it: its process is none of the job.
            job.container = ContainerWatch(str(container_name), PROFILE_SECONDS)
        job.block = self._open_block(job)
        with self._lock:
            self._active[job.task_id] = job

    def stop_monitoring(
        self,
        task_id: str,
        status: str = "success",
        returncode: int | None = None,
        error: str | None = None,
        result: Any = None,
    ) -> dict[str, Any]:
        """End a job, record it, and return what it used; empty if no such job is monitored."""
        wanted = checked_status(status)
        with self._lock:
            job = self._active.pop(str(task_id), None)
        if job is None or job.process != os.getpid():  # a forked child has a copy of the jobs of its parent
            logger.warning("Job %s is not monitored: start_monitoring was not called for it", task_id)
            return {}
        return self._end(job, wanted, returncode, error, result)

    @contextmanager
    def track_job(
        self,
        task_id: str,
        tool: str | None = None,
        script: str | None = None,
        params: Mapping[str, Any] | None = None,
        container_name: str | None = None,
    ) -> Iterator[JobTracker]:
        """Measure a `with` block as a job; it is a success unless `set_status` says otherwise or it raises."""
        tracker = JobTracker(str(task_id))
        self.start_monitoring(task_id, tool, script, params, container_name)
        try:
            yield tracker
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else int(error.code is not None)
            tracker.set_status("failed" if code else "success", code, None if code == 0 else f"SystemExit: {error}")
            raise
        except BaseException as error:
            tracker.set_status("error", None, f"{type(error).__name__}: {error}".removesuffix(": "))
            raise
        finally:
            tracker.stats = self.stop_monitoring(
                task_id, tracker.status, tracker.returncode, tracker.error, tracker.result
            )

    def get_job_history(
        self, limit: int | None = None, tool: str | None = None, status: str | None = None
    ) -> list[dict[str, Any]]:
        """The ended jobs, the newest first; a number that is not known is NaN."""
        from jobtop.store.task_rows import read_tasks

        if limit is not None and limit <= 0:
            return []
        query = self._query(limit, tool, status)
        return [task_entry(task, NAN) for task in _read(lambda database: read_tasks(database, query)) or ()]

    def get_job_stats(self, task_id: str) -> dict[str, Any] | None:
        """One ended job by its task id, or by its id in jobtop; None if there is none."""
        from jobtop.store.task_rows import find_task

        found = _read(lambda database: find_task(database, str(task_id)))
        return None if found is None else task_entry(found, NAN)

    def get_summary_statistics(self) -> dict[str, Any]:
        """Totals of all ended jobs and of each tool; rates of success are in percent of all of them."""
        from jobtop.core.analysis.statistics import statistics
        from jobtop.core.track.keystone import summary_statistics
        from jobtop.store.task_rows import read_task_figures

        query = self._query(None, None, None)
        found = statistics(_read(lambda database: read_task_figures(database, query)) or ())
        summary: dict[str, Any] = with_nan(summary_statistics(found.overall, found.groups))
        return summary

    def _query(self, limit: int | None, tool: str | None, status: str | None) -> Query:
        from jobtop.store.jobs import Query
        from jobtop.store.ordering import sort_key

        tag = None if self._own_directory is None else f"{LOG_DIR_TAG}={self._own_directory}"
        statuses = () if status is None else (str(status).lower(),)
        return Query(tool=tool, statuses=statuses, tag=tag, sort=sort_key("newest"), limit=limit)

    def _open_block(self, job: ActiveJob) -> Block:
        from jobtop.tracking import open_block

        stem = os.path.splitext(os.path.basename(job.script))[0] if job.script else None
        return open_block(
            stem or job.tool or job.task_id,
            tool=job.tool,
            script=job.script,
            params=job.params,
            tags={} if self._own_directory is None else {LOG_DIR_TAG: self._own_directory},
            external_id=job.task_id,
            interval=PROFILE_SECONDS if self.enable_profiling else None,
            profile=self.enable_profiling,
        )

    def _end(
        self, job: ActiveJob, status: str, returncode: int | None, error: str | None, result: Any
    ) -> dict[str, Any]:
        block = job.block
        assert block is not None
        record = block.close(status, returncode, None if error is None else str(error))
        stats = None if job.container is None else job.container.close()
        if job.container is not None and job.container.problem is not None:
            logger.warning("Job %s has no numbers of its container: %s", job.task_id, job.container.problem)
        findings: dict[str, Any] = {HAS_RESULT: result is not None}
        if self.enable_profiling:
            findings[PROFILE] = complete_profile(block.profile, record, PROFILE_SECONDS, stats)
        task = task_of(job, record, status, returncode, error, findings)
        entry = task_entry(task)
        if record:
            _keep_findings(record["id"], findings)
        self._append(entry)
        log_end(entry)
        return task_entry(task, NAN)

    def _append(self, entry: dict[str, Any]) -> None:
        """Write the line of an ended job; a problem is logged and costs this line alone."""
        import json

        from jobtop.store.history_file import append_line

        try:
            if self.log_dir is None:
                raise OSError("no home directory is known: set JOBTOP_KEYSTONE_DIR")
            append_line(self.log_dir, json.dumps(entry, default=str))
        except (OSError, ValueError) as error:
            logger.warning("Job %s is not in %s: %s", entry["task_id"], self.history_file, error)


def task_of(
    job: ActiveJob,
    record: Mapping[str, Any],
    status: str,
    returncode: int | None,
    error: str | None,
    findings: dict[str, Any],
) -> Task:
    """An ended job as its record says; of a block that could not be recorded, its time alone is known."""
    from jobtop.core.clock import from_iso

    usage = record.get("resource_usage") or {}
    duration, end = time.monotonic() - job.began, time.time()
    return Task(
        task_id=job.task_id,
        tool=record.get("tool", job.tool),
        script=record.get("script", job.script),
        params=record["params"] if record else shown(job.params),
        start_time=from_iso(record["start_time"]) if record else job.start_time,
        end_time=from_iso(record["end_time"]) if record else end,
        duration_seconds=record["duration_seconds"] if record else duration,
        status=str(record.get("status", status)),
        exit_code=record.get("exit_code") if record else returncode,
        signal=record.get("signal"),
        error=record.get("error", error),
        cpu_user_seconds=usage.get("cpu_user_seconds"),
        cpu_system_seconds=usage.get("cpu_system_seconds"),
        cpu_total_seconds=usage.get("cpu_total_seconds"),
        memory_peak_bytes=usage.get("memory_peak_bytes"),
        findings=findings,
    )


def checked_status(status: str) -> str:
    """A status that a job can be given; ValueError names them for any other."""
    word = str(status).lower()
    if word not in STATUSES:
        raise ValueError(f'"{status}" is not how a job ends: use {", ".join(STATUSES)}')
    return word


def log_end(entry: Mapping[str, Any]) -> None:
    """Log how a job ended, in Keystone's words."""
    task_id, status, code = entry["task_id"], entry["status"], entry["returncode"]
    took = "unknown" if entry["duration_seconds"] is None else f"{entry['duration_seconds']:.2f}s"
    seconds = entry["resource_usage"]["cpu_total_seconds"]
    cpu = "unknown" if seconds is None else f"{seconds:.2f}s"
    if status == Status.SUCCESS:
        logger.info("Job %s completed successfully - Duration: %s, CPU: %s", task_id, took, cpu)
    elif status == Status.TIMEOUT:
        logger.warning("Job %s timed out - Duration: %s", task_id, took)
    elif status == Status.FAILED:
        text = f": {entry['error']}" if entry["error"] else ""
        logger.error("Job %s failed with return code %s - Duration: %s%s", task_id, code, took, text)
    else:
        logger.error("Job %s ended with an error - Duration: %s: %s", task_id, took, entry["error"] or "unknown")


def shown(params: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters without passwords and tokens."""
    from jobtop.core.redact import redact_mapping

    return redact_mapping({str(key): value for key, value in params.items()})


def _settings() -> tuple[StatePaths, Config]:
    """The settings that apply here and now, and the state directory that they name."""
    from jobtop.core.config import load
    from jobtop.core.paths import StatePaths, hostname

    try:
        directory = os.getcwd()
    except FileNotFoundError:
        directory = "/"
    config = load((), os.environ, directory)
    return StatePaths(config.text("store.dir"), hostname()), config


def _default_directory() -> str | None:
    """The directory of the file: the one of the variable, else one in the state directory; None if there is none."""
    from jobtop.core.errors import JobtopError

    if named := os.environ.get(DIRECTORY):
        return os.path.abspath(os.path.expanduser(named))
    try:
        return os.path.join(_settings()[0].names.root, "keystone")
    except JobtopError:
        return None


def _read(read: Callable[[Database], T]) -> T | None:
    """What a function reads from this host's store; None, with a warning, if it cannot be read, or if there is none."""
    from jobtop.core.errors import JobtopError
    from jobtop.lifecycle.opening import has_store, open_jobs

    try:
        paths, config = _settings()
        if not has_store(paths):
            return None
        database = open_jobs(paths, config, logger.warning).database
        try:
            return read(database) if database.version else None
        finally:
            database.close()
    except JobtopError as error:
        logger.warning("The history cannot be read: %s", error)
        return None


def _keep_findings(job_id: str, findings: dict[str, Any]) -> None:
    """Add to the record of a job what only this class knows; a problem is logged."""
    from jobtop.core.errors import JobtopError
    from jobtop.core.record import replace
    from jobtop.store.database import open_to_write
    from jobtop.store.jobs import Jobs

    try:
        paths, config = _settings()
        database = open_to_write(paths, config.switch("store.network"))
        try:
            Jobs(database).change(job_id, lambda job: (replace(job, findings=job.findings | findings), ()))
        finally:
            database.close()
    except JobtopError as error:
        logger.warning("The profile of job %s is not recorded: %s", job_id[:8], error)


_shared: list[JobMonitor] = []
_creating = threading.Lock()


def get_monitor() -> JobMonitor:
    """The monitor that a whole program shares; its directory is the default one."""
    with _creating:
        if not _shared:
            _shared.append(JobMonitor())
        return _shared[0]
