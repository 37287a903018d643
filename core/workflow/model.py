"""Workflows as jobtop knows them after a file was read, checked and expanded. Pure."""

from __future__ import annotations

from typing import Any

from jobtop.core.model import RetryRule
from jobtop.core.record import fresh, record

Place = tuple[str | int, ...]


@record
class Problem:
    """A mistake in a file: where it is, and what is wrong, with what helps."""

    text: str
    where: str = ""  # such as jobs.train.depends_on
    line: int | None = None

    def sentence(self, path: str) -> str:
        """`flow.yaml:12: jobs.train.depends_on: there is no job "prep" (did you mean "prepare"?)`."""
        head = path if self.line is None else f"{path}:{self.line}"
        return f"{head}: {self.where}: {self.text}" if self.where else f"{head}: {self.text}"


@record
class Requirements:
    """What a job asks for; None is nothing."""

    name: str
    cpus: float | None = None
    memory_bytes: int | None = None
    gpus: int | None = None
    nodes: int = 1
    runtime_seconds: float | None = None


@record
class Action:
    """Commands that are run when something has happened to the workflow or to some of its jobs."""

    trigger: str
    commands: tuple[str, ...] = ()
    jobs: tuple[str, ...] = ()  # names, after the regexes were applied; empty: not about jobs
    place: Place = ()


@record
class MonitorSettings:
    """The `resource_monitor` section, with the seed's defaults."""

    enabled: bool = True
    granularity: str = "summary"
    interval_seconds: float = 5.0
    generate_plots: bool = False


@record
class WorkflowFile:
    """A file that jobs read or write."""

    name: str
    path: str


@record
class UserData:
    """A JSON value that jobs read or write."""

    name: str
    data: Any = None
    is_ephemeral: bool = False


@record
class WorkflowJob:
    """One job of an expanded workflow; `after` has the names of those that must succeed before it starts."""

    name: str
    command: str
    after: tuple[str, ...] = ()
    requirements: Requirements | None = None
    failure_rules: tuple[RetryRule, ...] = ()
    cancel_on_failure: bool = True  # it is cancelled if one of those before it does not succeed
    params: dict[str, Any] = fresh(default_factory=dict)
    inputs: tuple[str, ...] = ()  # names of files
    outputs: tuple[str, ...] = ()
    data_inputs: tuple[str, ...] = ()  # names of user data
    data_outputs: tuple[str, ...] = ()
    tags: dict[str, str] = fresh(default_factory=dict)
    env: dict[str, str] = fresh(default_factory=dict)
    priority: int = 0
    image: str | None = None
    timeout_seconds: float | None = None
    retries: int = 0
    place: Place = ()
    line: int | None = None


@record
class Workflow:
    """A workflow file, expanded; jobs are in an order in which they can run."""

    name: str
    jobs: dict[str, WorkflowJob] = fresh(default_factory=dict)
    files: dict[str, WorkflowFile] = fresh(default_factory=dict)
    user_data: dict[str, UserData] = fresh(default_factory=dict)
    actions: tuple[Action, ...] = ()
    monitor: MonitorSettings = MonitorSettings()
    sort_method: str = "none"
    description: str | None = None
    project: str | None = None
    user: str | None = None
    warnings: tuple[str, ...] = ()

    @property
    def edges(self) -> int:
        return sum(len(job.after) for job in self.jobs.values())
