"""Queues all jobs of a workflow in one transaction; a retry leaves out what an earlier run has done."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys

from jobtop.core.config import load
from jobtop.core.errors import UsageError
from jobtop.core.job_id import JobId
from jobtop.core.model import Limits, Queued, RetryRule, Status
from jobtop.core.record import as_dict, record, replace
from jobtop.core.run.containers.order import ContainerOrder
from jobtop.core.run.request import Request, prepare, user_name
from jobtop.core.run.shell import PLAIN_SHELL, line_shell
from jobtop.core.run.supervisor import new_id
from jobtop.core.state_files import remove_file
from jobtop.core.units import printable
from jobtop.core.workflow.hosting import limits_of
from jobtop.core.workflow.plan import REPORT, PlannedJob, fingerprint, free_name, planned_jobs, to_run_again
from jobtop.core.workflow.progress import RunJob
from jobtop.store.workflows import Workflows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from jobtop.core.config import Config
    from jobtop.core.model import Job, JobSpec
    from jobtop.core.workflow.model import MonitorSettings, Workflow, WorkflowJob
    from jobtop.lifecycle.queue import Queue
    from jobtop.store.workflows import WorkflowRow

UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")


@record
class RunOptions:
    """How to run a workflow: at most `parallel` jobs at once, files of the run in `output_dir`."""

    cwd: str
    output_dir: str = "output"
    parallel: int | None = None


@record
class StartedRun:
    """A run that was queued."""

    workflow_id: int
    run_id: int
    jobs: tuple[RunJob, ...]


class Submission:
    """Plans the jobs of one workflow, and queues them."""

    def __init__(self, queue: Queue, workflow: Workflow, file: str, options: RunOptions) -> None:
        self.queue, self.workflow, self.file, self.options = queue, workflow, file, options
        self.store = Workflows(queue.jobs.database)
        self.files = {name: each.path for name, each in workflow.files.items()}
        self.plans = planned_jobs(workflow, self.files, {})  # without the paths of user data, which differ by workflow
        self.fingerprints = {plan.name: self._fingerprint(plan) for plan in self.plans}

    def start(self, environ: Mapping[str, str], sets: Sequence[str]) -> StartedRun:
        """Queue all jobs as the first run of a new workflow."""
        with self.queue.jobs.database.writing():
            workflow_id = self.store.add(
                self.workflow.name,
                os.path.join(self.options.cwd, self.file),
                self.options.cwd,
                self.queue.paths.host,
                user_name(),
            )
            self._write_data(workflow_id, set(self.workflow.user_data))
            return self._queue_run(workflow_id, {}, environ, sets)

    def start_again(
        self, before: WorkflowRow, earlier: Sequence[RunJob], environ: Mapping[str, str], sets: Sequence[str]
    ) -> StartedRun:
        """Queue what `to_run_again` names; the rest is kept from the last run."""
        again = self.to_run_again(before.id, earlier)
        kept = {job.name: job for job in earlier if job.name in self.fingerprints and job.name not in again}
        written = {name for job in self.workflow.jobs.values() for name in job.data_outputs}
        self._write_data(before.id, set(self.workflow.user_data) - written)
        with self.queue.jobs.database.writing():
            return self._queue_run(before.id, kept, environ, sets)

    def to_run_again(self, workflow_id: int, earlier: Sequence[RunJob]) -> set[str]:
        """The jobs that have not succeeded, that have changed, or that have lost a file; and all that come after."""
        return to_run_again(self.plans, self.done_before(workflow_id, earlier))

    def done_before(self, workflow_id: int, earlier: Sequence[RunJob]) -> set[str]:
        """The jobs that have succeeded, that are the same now, and that have left all files that they write."""
        data = self.data_paths(workflow_id)
        return {
            job.name
            for job in earlier
            if job.status is Status.SUCCESS
            and self.fingerprints.get(job.name) == job.fingerprint
            and self._has_outputs(job.name, data)
        }

    def data_paths(self, workflow_id: int) -> dict[str, str]:
        """The files with the user data of a workflow."""
        return data_paths(self.workflow, os.path.join(self.options.output_dir, "user_data", str(workflow_id)))

    def _has_outputs(self, name: str, data: Mapping[str, str]) -> bool:
        job = self.workflow.jobs.get(name)
        if job is None:
            return True
        paths = [*(self.files[each] for each in job.outputs), *(data[each] for each in job.data_outputs)]
        return all(os.path.exists(os.path.join(self.options.cwd, path)) for path in paths)

    def _fingerprint(self, plan: PlannedJob) -> str:
        job = plan.job
        if job is None:
            return fingerprint(plan, self.options.cwd, ())
        written = {name for each in self.workflow.jobs.values() for name in each.outputs}
        paths = [self.files[name] for name in job.inputs if name not in written]
        states = [(path, file_state(os.path.join(self.options.cwd, path))) for path in paths]
        values = [(name, self.workflow.user_data[name].data) for name in job.data_inputs]
        return fingerprint(plan, self.options.cwd, [*states, *((name, json.dumps(value)) for name, value in values)])

    def _queue_run(
        self, workflow_id: int, kept: Mapping[str, RunJob], environ: Mapping[str, str], sets: Sequence[str]
    ) -> StartedRun:
        """Insert the run and its jobs; nothing is left behind if that fails."""
        monitor = self.workflow.monitor
        settings = {"parallel": self.options.parallel, "output_dir": self.output_dir, "monitor": as_dict(monitor)}
        run_id = self.store.add_run(workflow_id, settings)
        data = self.data_paths(workflow_id)
        plans = [*planned_jobs(self.workflow, self.files, data), *self._report(workflow_id, run_id)]
        ids = {plan.name: new_id() for plan in plans if plan.name not in kept}
        config = load((*sets, *monitor_settings(monitor)), environ, self.options.cwd)
        owner = Owner(self, workflow_id, run_id, config)
        jobs: list[RunJob] = []
        try:
            for position, plan in enumerate(plans):
                if plan.name in kept:
                    jobs.append(replace(kept[plan.name], position=position, first_id=kept[plan.name].id, is_kept=True))
                    continue
                job, spec = owner.prepared(plan, ids[plan.name])
                queued = self.queue.submit(job, spec, owner.entry(plan, ids))
                print_of = self.fingerprints.get(plan.name, "")
                jobs.append(
                    RunJob(
                        *(position, plan.name, plan.role, queued.id, plan.after, plan.after_end, print_of),
                        id=queued.id,
                        seq=queued.seq,
                        status=Status.QUEUED,
                    )
                )
            self.store.add_jobs(workflow_id, run_id, jobs)
        except BaseException:
            for job_id in ids.values():
                remove_file(self.queue.paths.spec(job_id))
            raise
        return StartedRun(workflow_id, run_id, tuple(jobs))

    @property
    def output_dir(self) -> str:
        return os.path.join(self.options.cwd, self.options.output_dir)

    def _report(self, workflow_id: int, run_id: int) -> list[PlannedJob]:
        """The job that writes the files of the run after its end, if the file of the workflow asks for any."""
        monitor = self.workflow.monitor
        if not monitor.enabled or not (monitor.granularity == "time_series" or monitor.generate_plots):
            return []
        root = f"store.dir={self.queue.paths.root}"
        words = (sys.executable, "-m", "jobtop", "--set", root, "workflow", "report", str(workflow_id))
        name = free_name(REPORT, {plan.name: plan for plan in self.plans})
        everything = tuple(plan.name for plan in self.plans)
        return [PlannedJob(name, REPORT, shlex.join((*words, "--run-id", str(run_id))), after_end=everything)]

    def _write_data(self, workflow_id: int, names: set[str]) -> None:
        """Write the user data that the file has, where jobs read it; only this user can read the directory."""
        for name, path in self.data_paths(workflow_id).items():
            data = self.workflow.user_data[name].data
            if name not in names:
                continue
            target = os.path.join(self.options.cwd, path)
            try:
                os.makedirs(os.path.dirname(os.path.dirname(target)), exist_ok=True)
                os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)
                if data is not None:
                    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
                    with open(os.open(target, flags, 0o600), "w") as file:
                        json.dump(data, file)
            except OSError as error:
                raise UsageError(f"{printable(target)}: {error.strerror}; choose another --output-dir") from None


class Owner:
    """Makes the jobs of one run."""

    def __init__(self, submission: Submission, workflow_id: int, run_id: int, config: Config) -> None:
        self.submission, self.workflow_id, self.run_id, self.config = submission, workflow_id, run_id, config
        options = submission.options
        self.group = None if options.parallel is None else f"workflow {workflow_id}"
        self.shell = line_shell()
        self.tags = {"workflow": submission.workflow.name, "workflow_run": f"{workflow_id}.{run_id}"}

    def prepared(self, plan: PlannedJob, job_id: JobId) -> tuple[Job, JobSpec]:
        """The record and the spec of a job of the run."""
        cwd, job = self.submission.options.cwd, plan.job
        shell = self.shell if job is None or job.image is None else PLAIN_SHELL
        request = Request(
            (shell, "-c", plan.command),
            cwd,
            name=plan.name,
            env=self._environment(plan),
            tags=self.tags,
            limits=Limits(cpus=0.0),
        )
        if job is not None:
            limits = replace(limits_of(job.requirements), timeout_seconds=job.timeout_seconds)
            request = replace(request, params=job.params, tags=job.tags | self.tags, limits=limits)
            if job.image is not None:
                order = ContainerOrder(job.image, (f"{cwd}:{cwd}",), workdir=cwd, env=request.env, gpus=limits.gpus)
                request = replace(request, kind="container", container=order)
        made, spec = prepare(request, job_id, self.submission.queue.paths.host, self.config)
        return made, spec if job is None else replace(spec, retry_rules=rules_of(job))

    def entry(self, plan: PlannedJob, ids: Mapping[str, JobId]) -> Queued:
        """The queue entry of a job; what an earlier run has done is not waited for."""
        job, options = plan.job, self.submission.options
        after, after_end = (tuple(ids[name] for name in names if name in ids) for names in (plan.after, plan.after_end))
        if job is None:
            return Queued(after=after, after_end=after_end)
        retries = max((job.retries, *(rule.max_retries for rule in job.failure_rules)))
        return Queued(job.priority, self.group, options.parallel, after, after_end, retries=retries)

    def _environment(self, plan: PlannedJob) -> dict[str, str]:
        """The variables of a job; those of Torc too, so that its users' scripts find them."""
        own = {} if plan.job is None else plan.job.env
        workflow_id, run_id = str(self.workflow_id), str(self.run_id)
        return {
            "JOBTOP_WORKFLOW_ID": workflow_id,
            "JOBTOP_WORKFLOW_RUN_ID": run_id,
            "TORC_WORKFLOW_ID": workflow_id,
            "TORC_RUN_ID": run_id,
            "TORC_JOB_NAME": plan.name,
            "TORC_OUTPUT_DIR": self.submission.output_dir,
            **own,
        }


def rules_of(job: WorkflowJob) -> tuple[RetryRule, ...]:
    """Which failures of a job are tried again; `retries` counts for those that no handler names."""
    if not job.failure_rules or not job.retries:
        return job.failure_rules
    return (*job.failure_rules, RetryRule(max_retries=job.retries))


def monitor_settings(monitor: MonitorSettings) -> tuple[str, ...]:
    """The `resource_monitor` section as settings of jobtop."""
    if not monitor.enabled:
        return ("monitor.enabled=false",)
    interval = f"monitor.interval={max(0.1, monitor.interval_seconds):g}s"
    return (interval, "monitor.enabled=true", f"monitor.granularity={monitor.granularity}")


def data_paths(workflow: Workflow, directory: str) -> dict[str, str]:
    """A file for each user data; names that are no file names are changed, and stay different."""
    paths: dict[str, str] = {}
    for name in workflow.user_data:
        stem = UNSAFE.sub("_", name)[:80] or "data"
        path, number = os.path.join(directory, f"{stem}.json"), 1
        while path in paths.values():
            number += 1
            path = os.path.join(directory, f"{stem}-{number}.json")
        paths[name] = path
    return paths


def file_state(path: str) -> list[int] | None:
    """What changes when a file is written: its size and its time; None if it is not there."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return [found.st_size, found.st_mtime_ns]


def settings_of(options: dict[str, Any], cwd: str) -> RunOptions:
    """The options of an earlier run, for a retry of it."""
    parallel, output = options.get("parallel"), options.get("output_dir")
    return RunOptions(
        cwd, output if type(output) is str else "output", parallel if type(parallel) is int and parallel > 0 else None
    )
