"""A job that the agent records: its descriptors, and its row after a bug or in a new store."""

from __future__ import annotations

import os

from jobtop.core.measure.collectors import cgroup
from jobtop.core.measure.collectors.proc import is_alive
from jobtop.core.model import Job, Status
from jobtop.core.record import replace
from jobtop.store.jobs import Event, event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jobtop.core.measure.observation import Observation
    from jobtop.core.measure.target import Target
    from jobtop.core.model import Identity


class Recording:
    """A job that this agent records and, if `is_watched`, samples.

    `fd` is readable once the root process has exited, `main_fd` once the main process has. Until then a job with both
    has not ended, and its files are not looked at. With `has_past`, another process sampled the job before.
    """

    def __init__(self, job: Job, fd: int | None, main_fd: int | None, is_watched: bool, has_past: bool) -> None:
        self.job, self.fd, self.main_fd, self.is_watched, self.has_past = job, fd, main_fd, is_watched, has_past
        self.observed: Observation | None = None  # at its end


def awaited(target: Target) -> Identity:
    """The process with an exit that may be the end of the job."""
    return target.awaited or target.root


def rewritten(row: Job, known: Job) -> tuple[Job, tuple[Event, ...]]:
    """The row that a new store has of a known job, replaced by the known record unless both have the same recorder."""
    return (row if row.recorder == known.recorder else replace(known, seq=row.seq)), ()


def broken(row: Job, why: str) -> tuple[Job, tuple[Event, ...]]:
    """The record of a job that triggered a bug of jobtop; if the job is gone, its end stays unknown."""
    said = event("mistake", reason=why)
    row = replace(row, recorder=None)
    if row.shim is not None and is_alive(row.shim):
        return row, (said,)
    row = replace(row, settled=cgroup.discard(cgroup.possible_directories(row.id)))
    if row.status.ended:
        return row, ()
    status = Status.UNKNOWN if row.status.may_become(Status.UNKNOWN) else Status.ERROR
    return replace(row, status=status, reason=why, end_time=said.at), (said,)


def open_pidfd(pid: int) -> int | None:
    """A pidfd, readable once the process has exited; None if it is gone, or the system has no pidfds."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def open_pidfd_of(identity: Identity) -> int | None:
    """A pidfd of this very process; None if it has exited, or the system has no pidfds."""
    fd = open_pidfd(identity.pid)
    if fd is not None and not is_alive(identity):
        os.close(fd)
        return None
    return fd
