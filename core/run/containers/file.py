"""The files of a container job in its directory: `order`, which its runner reads, and `container`, which it writes.

The file `container` is written when the container exists, when it has started and when it has ended. It decides which
processes are sampled and signalled and which cgroups are removed: a value of the wrong type counts as absent.
"""

from __future__ import annotations

import json
import os

from jobtop.core.measure.collectors import cgroup
from jobtop.core.model import Identity
from jobtop.core.record import as_dict, fields, fresh, record, replace
from jobtop.core.state_files import open_job_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from jobtop.core.model import Job

CONTAINER, ORDER = "container", "order"
VERSION = 1
MOST_BYTES = 4 * 1024 * 1024
LARGEST = 2**62


@record
class Told:
    """How a container ended, as far as that is known."""

    finished_at: float | None = None  # by the clock of the engine
    exit_code: int | None = None
    signal: int | None = None  # only if it is certain that a signal ended it
    is_oom_killed: bool | None = None
    failure: int | None = None  # 125, 126 or 127: the container could not be started
    error: str | None = None
    restarts: int | None = None
    health: str | None = None
    is_output_whole: bool | None = None  # False: the engine may have output that is not in the logs
    killed: str | None = None  # pid and name of the process that had to be killed after the grace


@record
class ContainerFile:
    """What is known of the container of a job; None: not known, or not yet."""

    engine: str | None = None  # the address
    engine_name: str | None = None
    product: str | None = None  # such as Docker 20.10
    id: str | None = None
    name: str | None = None
    image: str | None = None
    image_id: str | None = None
    digest: str | None = None
    project: str | None = None  # of compose
    service: str | None = None
    is_tty: bool | None = None
    is_kept: bool | None = None
    runner: Identity | None = None
    init: Identity | None = None  # the first process of the container; None if it cannot be seen here
    cgroups: tuple[str, ...] = ()  # the container's own
    parents: tuple[str, ...] = ()  # of ours, around it
    ordered_at: float | None = None
    started_at: float | None = None
    said_bytes: int = 0  # of the runner itself, at the beginning of the log of standard error
    told: Told | None = None  # once it has ended
    exited_boottime: float | None = None  # when its runner saw its first process exit, in seconds since boot
    peak_bytes: int | None = None  # the most memory that its runner saw, without page cache
    texts: dict[str, str] = fresh(default_factory=dict)  # files of its cgroups at the end
    runtime_seconds: float | None = None  # CPU time of the processes around it
    runtime_bytes: int | None = None
    runtime_what: str | None = None
    gone_at: float | None = None  # since when its end has been asked for in vain

    @property
    def is_complete(self) -> bool:
        """Whether all that its engine can say is known: how it ended, and its whole output."""
        return self.id is None or (self.told is not None and bool(self.told.is_output_whole))

    @property
    def start_seconds(self) -> float | None:
        """From the order to the start of its first process."""
        if self.ordered_at is None or self.started_at is None:
            return None
        return round(max(0.0, self.started_at - self.ordered_at), 6)

    def finding(self) -> dict[str, Any]:
        """The form in which the record of the job has it; see container_facts.py."""
        told = self.told or Told()
        found: dict[str, Any] = {key: getattr(self, key) for key in ("id", "name", "image", "image_id", "digest")}
        found |= {"engine": self.engine, "engine_name": self.engine_name, "product": self.product}
        found |= {"project": self.project, "service": self.service, "restarts": told.restarts, "health": told.health}
        found |= {"kept": self.is_kept, "started_at": self.started_at, "start_seconds": self.start_seconds}
        runtime = {
            "cpu_seconds": self.runtime_seconds,
            "memory_bytes": self.runtime_bytes,
            "what": self.runtime_what,
        }
        found["runtime"] = runtime if self.runtime_what is not None else None
        return {key: value for key, value in found.items() if value is not None}


def with_finding(job: Job, file: ContainerFile) -> Job:
    """The record of a job with what is known of its container; what it had and is not known now stays."""
    before = job.findings.get(CONTAINER)
    finding = (before if isinstance(before, dict) else {}) | file.finding()
    pid = job.pid if file.init is None else file.init.pid
    return replace(job, findings=job.findings | {CONTAINER: finding}, pid=pid)


def read_container(directory: object) -> ContainerFile | None:
    """The file of the container of a job; None if there is none, or it cannot be read."""
    shape = _read(directory, CONTAINER)
    if shape is None or shape.get("version") != VERSION:
        return None
    return _container(shape, str(directory))


def write_container(directory: object, file: ContainerFile) -> None:
    """Write the file, so that other processes see it whole, and it survives a crash of the machine."""
    shape: dict[str, Any] = {"version": VERSION, **as_dict(file)}
    inner = ((key, getattr(file, key)) for key in ("runner", "init", "told"))
    _write(directory, CONTAINER, shape | {key: None if value is None else as_dict(value) for key, value in inner})


def read_order(directory: object) -> dict[str, Any] | None:
    return _read(directory, ORDER)


def write_order(directory: object, order: dict[str, Any]) -> None:
    _write(directory, ORDER, order)


def _write(directory: object, name: str, shape: dict[str, Any]) -> None:
    path = os.path.join(str(directory), name)
    draft = f"{path}.{os.getpid()}.new"
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with open(fd, "w") as file:
        json.dump(shape, file)
        file.flush()
        os.fsync(fd)
    os.rename(draft, path)


def _read(directory: object, name: str) -> dict[str, Any] | None:
    try:
        fd = open_job_file(str(directory), name)
        with open(fd, "rb") as file:
            shape = json.loads(file.read(MOST_BYTES))
    except (OSError, ValueError):
        return None
    return shape if isinstance(shape, dict) else None


TEXTS = frozenset(
    "engine engine_name product id name image image_id digest project service runtime_what error health killed".split()
)
FLAGS = frozenset("is_tty is_kept is_oom_killed is_output_whole".split())
WHOLE = frozenset("said_bytes runtime_bytes exit_code signal failure restarts peak_bytes".split())
NUMBERS = frozenset("ordered_at started_at finished_at runtime_seconds gone_at exited_boottime".split())


def _plain(shape: dict[str, Any], names: frozenset[str]) -> dict[str, Any]:
    """The values of the right type; the others keep their defaults."""
    found = {}
    for key in names & shape.keys():
        value = shape[key]
        is_number = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= LARGEST
        if (
            (key in TEXTS and isinstance(value, str))
            or (key in FLAGS and isinstance(value, bool))
            or (key in WHOLE and is_number and isinstance(value, int))
            or (key in NUMBERS and is_number)
        ):
            found[key] = value
    return found


def _container(shape: dict[str, Any], directory: str) -> ContainerFile:
    told, texts = shape.get("told"), shape.get("texts")
    parent_name = cgroup.PREFIX + os.path.basename(directory)
    return ContainerFile(
        **_plain(shape, frozenset(fields(ContainerFile))),
        runner=_identity(shape.get("runner")),
        init=_identity(shape.get("init")),
        cgroups=_paths(shape.get("cgroups")),
        parents=tuple(path for path in _paths(shape.get("parents")) if os.path.basename(path) == parent_name),
        told=Told(**_plain(told, frozenset(fields(Told)))) if isinstance(told, dict) else None,
        texts={key: text for key, text in texts.items() if isinstance(text, str)} if isinstance(texts, dict) else {},
    )


def _paths(value: Any) -> tuple[str, ...]:
    words = [word for word in value if isinstance(word, str)] if isinstance(value, list) else []
    return tuple(word for word in words if word.startswith("/") and os.path.normpath(word) == word)


def _identity(value: Any) -> Identity | None:
    if not isinstance(value, dict):
        return None
    boot, pid, start = (value.get(key) for key in ("boot", "pid", "start"))
    if isinstance(pid, int) and 0 < pid < 2**31 and isinstance(start, int) and isinstance(boot, str):
        return Identity(boot, pid, start)
    return None
