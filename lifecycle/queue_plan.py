"""Reads the queued and running jobs of a host, at first all and then only changes, and plans which start next."""

from __future__ import annotations

from jobtop.core.clock import from_iso
from jobtop.core.errors import UnknownJob, UsageError
from jobtop.core.measure.collectors.proc import is_alive
from jobtop.core.model import LIVE, Identity, Status
from jobtop.core.run.scheduling import RETRIED, Running, Waiting, plan
from jobtop.store import queue_rows
from jobtop.store.rows import check_partial_row, parse_queue, parse_status

ATTACHED = '"attached"'  # among the flags of a job, as the store has them
COUNTED_REFRESHES = 5  # of so many, one counts the jobs although nothing waits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from jobtop.core.model import Job
    from jobtop.core.run.scheduling import Capacity, Plan
    from jobtop.lifecycle.queue import Queue


class Lineup:
    """The jobs of one host: those that are queued, those that use resources, and those to be tried again."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.waiting: dict[str, Waiting] = {}
        self.running: dict[str, Running] = {}
        self.to_retry: set[str] = set()
        self.groups: dict[str, int] = {}
        self._unsettled: set[str] = set()
        self._succeeded: set[str] = set()
        self._touch: int | None = None
        self._seq = 0
        self._refreshes = 0

    def refresh(self) -> bool:
        """Read new, changed and deleted jobs; True if there were any."""
        if self._touch is None:
            self._read_all()
            return True
        host, groups = self.queue.paths.host, self.queue.groups()
        self._refreshes += 1
        # While no job waits, a deleted one changes nothing.
        counts = bool(self.waiting or self.to_retry) or self._refreshes % COUNTED_REFRESHES == 0
        rows, unsettled, marks = queue_rows.read_changed(self.queue.jobs.database, host, self._touch, counts)
        self.queue.jobs.database.decode_rows(rows, self._take_in)
        changed = bool(rows) or groups != self.groups
        self.groups = groups
        # If these differ, a job was deleted. Then the next change may get the same number as the last one.
        if unsettled not in (None, len(self._unsettled)) or (marks.touch, marks.seq) != (self._touch, self._seq):
            self._read_all()
            return True
        return changed

    def plan(self, capacity: Capacity, now: float) -> Plan:
        """Which jobs to start now, and why the others wait."""
        return plan(self.waiting.values(), self.running.values(), capacity, self.slots(), self.outcomes(), now)

    def slots(self) -> dict[str, int]:
        """The slots of groups, as `jobtop group` or their jobs say."""
        known: list[Waiting | Running] = [*self.waiting.values(), *self.running.values()]
        slots = {job.group: job.slots for job in known if job.group is not None and job.slots is not None}
        return slots | self.groups

    def outcomes(self) -> dict[str, Status | None]:
        """The status of each job that queued jobs depend on."""
        asked = {job_id for job in self.waiting.values() for job_id in (*job.after, *job.after_end)}
        unknown = asked - self.waiting.keys() - self.running.keys() - self._succeeded
        outcomes: dict[str, Status | None] = dict.fromkeys(asked, Status.QUEUED)
        outcomes |= dict.fromkeys(asked & self._succeeded, Status.SUCCESS)
        if unknown:
            outcomes |= self.queue.outcomes(unknown)
            self._succeeded |= {job_id for job_id in unknown if outcomes[job_id] is Status.SUCCESS}
        return outcomes

    def needed(self) -> dict[str, set[str]]:
        """Each job that queued jobs depend on, and each attempt at it, with the ids of those queued jobs."""
        self.refresh()
        found: dict[str, set[str]] = {}
        for job in self.waiting.values():
            for job_id in (*job.after, *job.after_end):
                for attempt in self.queue.attempts(job_id):
                    found.setdefault(attempt, set()).add(job.id)
        return found

    @property
    def needs_gpus(self) -> bool:
        """Whether a queued job asks for GPUs."""
        return any(job.gpus for job in self.waiting.values())

    def retry_failed(self, now: float) -> list[Job]:
        """Queue a new job for each failed job with attempts left; the new jobs."""
        made = []
        for job_id in sorted(self.to_retry):
            self.to_retry.discard(job_id)
            try:
                made.append(self.queue.retry(self.queue.jobs.find(job_id), now))
            except UnknownJob:
                continue
            except UsageError as error:
                self.queue.give_up(job_id, str(error))
        return made

    def _read_all(self) -> None:
        for known in (self.waiting, self.running, self.to_retry, self._unsettled):
            known.clear()
        self.groups = self.queue.groups()
        rows, marks = queue_rows.read_all(self.queue.jobs.database, self.queue.paths.host)
        self._touch, self._seq = marks.touch, marks.seq
        self.queue.jobs.database.decode_rows(rows, self._take_in)

    def _take_in(self, row: Mapping[str, Any]) -> None:
        """Put a row into the collection for its status; a row that cannot be read is left out."""
        self._touch, self._seq = max(self._touch or 0, row["touched"]), max(self._seq, row["seq"])
        if row["host"] != self.queue.paths.host:
            return
        job_id = row["id"]
        self.waiting.pop(job_id, None)
        self.running.pop(job_id, None)
        (self._unsettled.discard if row["settled"] else self._unsettled.add)(job_id)
        check_partial_row(queue_rows.ROW_CHECKER, tuple(row))
        status, waits = parse_status(row["status"]), parse_queue(row["queue"])
        queued = {} if waits is None else waits.to_json()
        if status not in LIVE:
            again = status in RETRIED and queued.get("retries", 0) > 0 and queued.get("retried_by") is None
            (self.to_retry.add if again else self.to_retry.discard)(job_id)
        elif queued and status is not Status.RUNNING and row["shim_pid"] is None and not is_claimed(row):
            self.waiting[job_id] = waiting_row(row, queued)
        elif ATTACHED not in row["flags"]:  # what jobtop did not start reserves nothing: a service never ends
            self.running[job_id] = running_row(row, queued)


def is_claimed(row: Mapping[str, Any]) -> bool:
    """Whether the job has a recorder, and that process runs."""
    identity = row["recorder_pid"] and Identity(row["recorder_boot"], row["recorder_pid"], row["recorder_start"])
    return bool(identity) and is_alive(identity)


def waiting_row(row: Mapping[str, Any], queued: dict[str, Any]) -> Waiting:
    return Waiting(
        row["id"],
        (-queued["priority"], row["seq"]),
        queued["group"],
        row["limit_cpus"],
        row["limit_memory_bytes"],
        row["limit_gpus"],
        declared_seconds(row),
        tuple(queued["after"]),
        from_iso(queued["not_before"]),
        queued["attempt"],
        row["status"] == Status.PAUSED,
        row["reason"],
        tuple(queued["after_end"]),
        queued["slots"],
    )


def running_row(row: Mapping[str, Any], queued: dict[str, Any]) -> Running:
    seconds, start = declared_seconds(row), row["start_time"]
    known = seconds is not None and start is not None and row["status"] != Status.PAUSED
    return Running(
        row["id"],
        queued.get("group"),
        row["limit_cpus"],
        row["limit_memory_bytes"],
        row["limit_gpus"],
        tuple(queued.get("gpus", ())),
        start + seconds if known else None,
        row["parent_id"],
        queued.get("slots"),
    )


def declared_seconds(row: Mapping[str, Any]) -> float | None:
    declared = [row[key] for key in ("limit_runtime_seconds", "limit_timeout_seconds") if row[key] is not None]
    return min(declared, default=None)
