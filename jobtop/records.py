"""What the functions of the package return: jobs and samples as plain typed records, and the errors about jobs."""

from __future__ import annotations

import dataclasses
import subprocess
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from jobtop.core.errors import JobtopError
from jobtop.core.model import Limits, Usage

if TYPE_CHECKING:
    from types import ModuleType

    import pandas as pd  # type: ignore[import-not-found, import-untyped, unused-ignore]

    from jobtop.core.model import Job

__all__ = ["JobFailed", "JobList", "JobRecord", "JobTimeout", "Limits", "Series", "Usage"]


@dataclass(frozen=True, slots=True, repr=False)
class JobRecord:
    """A job as it was when it was read. What is not known is None, never 0.

    The attributes have the names of the keys that `jobtop show ID --json` prints.
    """

    id: str
    name: str
    status: str
    """`queued`, `running`, `paused`, `success`, `failed`, `timeout`, `cancelled`, `error`, `lost` or `unknown`."""
    command: tuple[str, ...]
    """The command; what looks like a password or a token is hidden."""
    exit_code: int | None
    signal: int | None
    """The signal that ended it."""
    reason: str | None
    """Why it ended, in words; None if it succeeded."""
    error: str | None
    flags: tuple[str, ...]
    """Such as `oom_killed` or `left_running`."""
    submitted_at: datetime | None
    start_time: datetime | None
    end_time: datetime | None
    duration_seconds: float | None
    resource_usage: Usage
    """What it used: `cpu_total_seconds`, `memory_peak_bytes`, `io_read_bytes`, …"""
    limits: Limits
    """What it asked for: `cpus`, `memory_bytes`, …"""
    params: dict[str, Any]
    tags: dict[str, str]
    note: str | None
    tool: str | None
    script: str | None
    host: str
    user: str
    cwd: str
    pid: int | None
    kind: str
    """`process`, `container`, `python`, …"""
    seq: int | None
    """Its number in the store."""
    external_id: str | None
    parent_id: str | None
    """The job that it was started in."""
    incomplete: tuple[str, ...]
    """What could not be measured, and why."""
    limited_by: str | None
    """What limited it most: `cpu`, `memory`, `storage`, …"""
    stdout: str | None = None
    """Its output, if `jobtop.run` captured it."""
    stderr: str | None = None
    _shape: dict[str, Any] = field(default_factory=dict, compare=False)

    def __repr__(self) -> str:
        return f"<JobRecord {self.id[:8]} {self.name}: {self.status}>"

    @property
    def ok(self) -> bool:
        """Whether it has succeeded."""
        return self.status == "success"

    @property
    def ended(self) -> bool:
        """Whether it has ended, in whatever way."""
        return self.status not in ("queued", "running", "paused")

    @property
    def returncode(self) -> int | None:
        """The exit code as `subprocess` has it: -N if signal N ended it; None if it has none (yet)."""
        return -self.signal if self.signal is not None else self.exit_code

    def to_json(self) -> dict[str, Any]:
        """Return the record as the dict that `jobtop show ID --json` prints; without the cost."""
        return {**self._shape}


def record_of(job: Job, stdout: str | None = None, stderr: str | None = None) -> JobRecord:
    """Return the public record of a job."""
    names = {one.name for one in dataclasses.fields(JobRecord)} - OTHERS
    plain = {name: getattr(job, name) for name in names}
    moments = {name: moment(getattr(job, name)) for name in MOMENTS}
    return JobRecord(
        **plain | moments | {"id": str(job.id), "status": str(job.status)},
        resource_usage=job.usage,
        stdout=stdout,
        stderr=stderr,
        _shape=job.to_json(),
    )


MOMENTS = frozenset({"submitted_at", "start_time", "end_time"})
OTHERS = MOMENTS | {"resource_usage", "stdout", "stderr", "_shape", "id", "status"}


def moment(seconds: float | None) -> datetime | None:
    """Return seconds since the epoch as a time in UTC."""
    try:
        return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):  # an imported record may have any number
        return None


class JobList(list[JobRecord]):
    """Jobs, in the order that was asked for."""

    def to_pandas(self) -> pd.DataFrame:
        """Return a pandas DataFrame with a row per job, its `id` as the index.

        Nested values have dots in their names, such as `resource_usage.cpu_total_seconds` and `params.lr`.
        """
        module = import_pandas()
        frame = module.json_normalize([tabular(job.to_json()) for job in self])
        for name in MOMENTS & set(frame.columns):
            frame[name] = module.to_datetime(frame[name], utc=True)
        return frame.set_index("id") if "id" in frame.columns else frame


@dataclass(frozen=True, slots=True)
class Series:
    """The samples of a job: a time each, and for each metric as many values."""

    job_id: str
    elapsed: list[float]
    """Seconds since the job started."""
    values: dict[str, list[float | int | None]]
    """The values of each metric; None where it is not known."""
    start_time: datetime | None = None
    """When the job started."""

    def __getitem__(self, metric: str) -> list[float | int | None]:
        return self.values[metric]

    def __len__(self) -> int:
        return len(self.elapsed)

    def to_pandas(self) -> pd.DataFrame:
        """Return a pandas DataFrame with a column per metric and the seconds since the start as the index."""
        module = import_pandas()
        return module.DataFrame(self.values, index=module.Index(self.elapsed, name="elapsed"))


def tabular(shape: dict[str, Any]) -> dict[str, Any]:
    """Return a record without what has another shape in each job."""
    return {name: value for name, value in shape.items() if name not in ("findings", "metrics", "environment")}


def import_pandas() -> ModuleType:
    try:
        import pandas as pd  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ImportError as error:
        raise JobtopError(f"to_pandas() needs pandas: python -m pip install pandas ({error})") from error
    else:
        return pd  # type: ignore[no-any-return, unused-ignore]


class JobFailed(JobtopError, subprocess.CalledProcessError):  # noqa: N818
    """A job that was to succeed (`check=True`) has not; `job` is its record. Also a CalledProcessError."""

    def __init__(self, job: JobRecord) -> None:
        code = job.returncode
        subprocess.CalledProcessError.__init__(
            self, 1 if code is None else code, list(job.command), job.stdout, job.stderr
        )
        self.job = job

    def __str__(self) -> str:
        why = f": {self.job.reason}" if self.job.reason else ""
        return f"job {self.job.id[:8]} ({self.job.name}) ended with status {self.job.status}{why}"

    def __reduce__(self) -> tuple[type[JobFailed], tuple[JobRecord]]:
        return type(self), (self.job,)


class JobTimeout(JobtopError, TimeoutError):  # noqa: N818
    """A job has not ended in the time that `wait` was given; the job goes on. Also a TimeoutError."""
