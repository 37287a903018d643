"""Prune a store as a policy says: thin old samples to one a minute, then delete all but the record of a job.

The work is done in steps of some milliseconds, so that other processes do not wait long. Each step is one transaction:
a process that is killed between two steps leaves an intact store, and the next pass continues.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial

from jobtop.core.model import Kept
from jobtop.core.procfs import boot_id
from jobtop.core.retention import (
    MACHINE,
    MINUTES_GAIN,
    PRUNED,
    RUNNING,
    Budget,
    JobSizes,
    Move,
    Policy,
    Removed,
    Report,
    gain_by_minutes,
    may_shrink,
    move_by_age,
    protection,
    sizes_after,
)
from jobtop.core.state_files import remove_directory, remove_file
from jobtop.store.alerts.alert_rows import AlertStore
from jobtop.store.jobs import NEXT_TOUCH, placeholders
from jobtop.store.samples import head
from jobtop.store.samples.head import DEVICES, HOSTS, JOBS, LAYOUTS, NAMED, Layout
from jobtop.store.samples.rollup import drop_some, roll_some
from jobtop.store.samples.series import MOST_TRIMMED, SeriesStore
from jobtop.store.upkeep.job_sizes import (
    JobFiles,
    measure_job,
    prunable_seqs,
    read_prunable,
    sum_file_bytes,
    used_page_bytes,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jobtop.core.model import Job
    from jobtop.core.paths import StatePaths
    from jobtop.store.database import Database

    Steps = Iterator[None]

READ_SECONDS = 0.005  # of reading in one step
JOBS_AT_ONCE = 200
THINNED_AT_ONCE = 300  # rows
DELETED_AT_ONCE = 150  # rows
MOST_ROUNDS = 10  # of pruning by size: how much thinning frees is only known afterwards
MINUTE_SECONDS = 60.0


class Retention:
    """One pass over a store: prune by age, then by size. With `is_dry` it only reports what it would delete.

    With `only`, the numbers of some jobs, nothing else is pruned. `by` is the verb that a user called, if one did.
    """

    def __init__(
        self,
        database: Database,
        paths: StatePaths,
        policy: Policy,
        is_dry: bool = False,
        only: Collection[int] | None = None,
        by: str | None = None,
    ) -> None:
        self.by = by
        self.database, self.paths, self.policy, self.is_dry, self.only = database, paths, policy, is_dry, only
        self.now = time.time()
        self.report = Report()
        self.processed_samples = 0
        self.examined_jobs = self.jobs_to_examine = 0
        self._file_bytes = 0
        self._files = JobFiles(paths)
        self._steps = self.steps()

    def step(self) -> bool:
        """Work for some milliseconds; whether there is more to do."""
        return next(self._steps, self) is None

    def steps(self) -> Steps:
        """The whole pass; any time may pass between two steps."""
        if not self.is_dry:
            yield from self._seal()
        yield from self._measure_files()
        self.report.total_bytes = self._bytes()
        yield from self._prune_jobs_by_age()
        if self.only is None:
            if not self.is_dry:
                AlertStore(self.database).resolve_left_open(boot_id(), self.paths.host)
            yield from self._prune_hosts_by_age()
        for _ in range(1 if self.is_dry else MOST_ROUNDS):
            if self.policy.max_bytes is None or self._bytes() <= self.policy.max_bytes:
                break
            pruned_before = self.report.jobs
            yield from self._prune_jobs_by_size(self._bytes() - self.policy.max_bytes)
            if self.report.jobs == pruned_before:
                break
        self.report.left_bytes = self._bytes()
        if self.policy.max_bytes is not None:
            self.report.over_bytes = max(0, self.report.left_bytes - self.policy.max_bytes)

    def _bytes(self) -> int:
        """The size of the history now; in a dry pass, after what would be deleted."""
        with self.database.reading() as connection:
            used = used_page_bytes(connection)
        return used + self._file_bytes - (self.report.freed_bytes if self.is_dry else 0)

    def _seal(self) -> Steps:
        """Pack the samples that a killed writer left in the head, and delete head rows that are packed already."""
        for layout in LAYOUTS:
            series = SeriesStore(self.database, layout)
            while series.seal_ended(1):
                yield
            last: int | None = -1
            while last is not None:
                with self.database.writing() as connection:
                    last, _ = head.trim(connection, layout, last + 1, MOST_TRIMMED)
                yield

    def _measure_files(self) -> Steps:
        """Add up the files that jobs have beside the store."""
        for seqs in self._chunks(self._prunable_seqs()):
            with self.database.reading() as connection:
                self._file_bytes += sum_file_bytes(connection, self._files, seqs)
            yield

    def _prunable_seqs(self, before: float = float("inf")) -> Sequence[int]:
        with self.database.reading() as connection:
            return prunable_seqs(connection, before)

    def _chunks(self, seqs: Sequence[int]) -> Iterator[Sequence[int]]:
        self.examined_jobs, self.jobs_to_examine = 0, len(seqs)
        for begin in range(0, len(seqs), JOBS_AT_ONCE):
            yield seqs[begin : begin + JOBS_AT_ONCE]
            self.examined_jobs = begin + JOBS_AT_ONCE

    def _measured(self, seqs: Sequence[int]) -> Iterator[JobSizes | None]:
        """The sizes of some jobs; None where a step ends."""
        for chunk in self._chunks(seqs):
            step_start = time.monotonic()
            with self.database.reading() as connection:
                rows = read_prunable(connection, chunk)
            for row in rows:
                with self.database.reading() as connection:
                    measure = partial(
                        measure_job, connection, self._files, now=self.now, raw_seconds=self.policy.raw_seconds
                    )
                    measured = self.database.decode_rows((row,), measure)
                yield from measured
                if time.monotonic() - step_start > READ_SECONDS:
                    yield None
                    step_start = time.monotonic()

    def _prune_jobs_by_age(self) -> Steps:
        empty_moves: list[Move] = []  # of jobs without anything to delete: marked many at once
        seqs = self._prunable_seqs(self.now - self.policy.raw_seconds)
        for job in self._measured(seqs if self.only is None else [seq for seq in seqs if seq in self.only]):
            if job is None:
                yield
                continue
            move = move_by_age(self.policy, job, self.now)
            if move is None:
                continue
            if job.all_bytes:
                yield from self._carry_out(move)
                continue
            empty_moves.append(move)
            if len(empty_moves) >= JOBS_AT_ONCE:
                self._mark(empty_moves)
                empty_moves = []
                yield
        self._mark(empty_moves)
        yield

    def _prune_jobs_by_size(self, over_bytes: int) -> Steps:
        """Prune the oldest jobs until this many bytes are freed."""
        seqs = self._prunable_seqs()
        thinnable_bytes = 0
        protected_bytes: dict[str, int] = {}
        for job in self._measured_after_age(seqs):
            if job is None:
                yield
            elif may_shrink(self.policy, job, self.now):
                thinnable_bytes += gain_by_minutes(job)
            else:
                why = protection(self.policy, job, self.now) or RUNNING
                protected_bytes[why] = protected_bytes.get(why, 0) + job.all_bytes + job.spec_bytes
        budget = Budget(over_bytes, thinnable_bytes)
        for job in self._measured_after_age(seqs):
            if job is None:
                yield
            elif may_shrink(self.policy, job, self.now):
                move = budget.decide(job)
                if move is not None:
                    yield from self._carry_out(move)
            if budget.over_bytes <= 0:
                break
        self.report.held = protected_bytes

    def _measured_after_age(self, seqs: Sequence[int]) -> Iterator[JobSizes | None]:
        """The sizes of jobs after pruning by age; in a dry pass, which has not pruned, they are estimated."""
        for job in self._measured(seqs):
            move = move_by_age(self.policy, job, self.now) if job is not None and self.is_dry else None
            yield job if move is None else sizes_after(move)

    def _carry_out(self, move: Move) -> Steps:
        self.report.add_move(move)
        if self.is_dry or not self._is_unpinned(move.job):
            return
        if move.to is Kept.RECORD:
            yield from self._delete_all_but_record(move)
            self._note_deletion(move)
        else:
            yield from self._thin(move)
        if move.to is not move.job.kept:
            self._set_kept([move.job.seq], move.to)
        yield

    def _is_unpinned(self, job: JobSizes) -> bool:
        """Whether a job is still in the store and not pinned: a user may have pinned it after it was measured."""
        with self.database.reading() as connection:
            row = connection.execute("SELECT pinned FROM jobs WHERE seq = ?", (job.seq,)).fetchone()
        return row is not None and not row[0]

    def _thin(self, move: Move) -> Steps:
        """Thin samples up to a moment to one a minute; the snapshots of the same time first."""
        seq = move.job.seq
        with self.database.reading() as connection:
            begin = connection.execute(
                "SELECT min(first_elapsed) FROM blocks JOIN series USING (job_seq)"
                " WHERE job_seq = ? AND last_id > rolled_until",
                (seq,),
            ).fetchone()[0]
        yield from self._thin_rows("snapshots", JOBS.owner, seq, begin or 0.0, move.until)
        yield from self._roll(JOBS, seq, move.until)
        for named_seq in self._seqs(NAMED, JOBS, seq):
            yield from self._roll(NAMED, named_seq, move.until)

    def _roll(self, layout: Layout, seq: int, until: float) -> Steps:
        """Thin the samples of an owner up to a moment."""
        while count := roll_some(self.database, layout, seq, until):
            self.processed_samples += count
            yield

    def _seqs(self, part: Layout, layout: Layout, seq: int) -> list[int]:
        """The numbers of the named series of a job, or of the devices of a host."""
        with self.database.reading() as connection:
            sql = f"SELECT seq FROM {part.owners} WHERE {layout.owner} = ?"
            return [row[0] for row in connection.execute(sql, (seq,))]

    def _delete_all_but_record(self, move: Move) -> Steps:
        """Delete all but the record of a job; its files first, because a full disk then has room for the rest."""
        job = move.job
        if job.file_bytes:
            remove_directory(self.paths.job(job.id))
            self._file_bytes -= job.file_bytes
            yield
        if move.takes_spec and job.spec_bytes:
            remove_file(self.paths.spec(job.id))
            self._file_bytes -= job.spec_bytes
        yield from self._delete_rows("snapshots", JOBS.owner, "elapsed", job.seq)
        yield from self._delete_rows("log_marks", JOBS.owner, "elapsed_seconds", job.seq)
        while drop_some(self.database, JOBS, job.seq):
            yield
        for named_seq in self._seqs(NAMED, JOBS, job.seq):
            while drop_some(self.database, NAMED, named_seq):
                yield
            with self.database.writing() as connection:
                connection.execute("DELETE FROM named WHERE seq = ?", (named_seq,))
            yield
        self.processed_samples += job.samples + job.minutes

    def _note_deletion(self, move: Move) -> None:
        """Add an event to a job that lost samples or output, so that verbs can say when and why."""
        detail = json.dumps({"reason": self.by or move.by})
        with self.database.writing() as connection:
            sql = "INSERT INTO events (job_seq, at, kind, detail) SELECT seq, ?, ?, ? FROM jobs WHERE seq = ?"
            connection.execute(sql, (self.now, PRUNED, detail, move.job.seq))

    def _mark(self, moves: Sequence[Move]) -> None:
        """Report the moves of jobs that have nothing to delete, and set their `kept` in one transaction each."""
        for move in moves:
            self.report.add_move(move)
        for kept in (Kept.MINUTES, Kept.RECORD):
            self._set_kept([move.job.seq for move in moves if move.to is kept], kept)

    def _set_kept(self, seqs: Sequence[int], kept: Kept) -> None:
        if not seqs or self.is_dry:
            return
        with self.database.writing() as connection:
            connection.execute(
                f"UPDATE jobs SET kept = ?, touched = {NEXT_TOUCH} WHERE seq IN ({placeholders(seqs)}) AND NOT pinned",
                (kept, *seqs),
            )

    def _prune_hosts_by_age(self) -> Steps:
        """Prune the samples and events of hosts and of their devices; pruning by size leaves them alone."""
        with self.database.reading() as connection:
            boots = connection.execute("SELECT seq, boot_time FROM hosts").fetchall()
        policy = self.policy
        for seq, boot_time in boots:
            thin_until = self.now - policy.raw_seconds - boot_time
            delete_until = self.now - max(policy.raw_seconds, policy.rollup_seconds) - boot_time
            owners = [(HOSTS, seq), *((DEVICES, device_seq) for device_seq in self._seqs(DEVICES, HOSTS, seq))]
            if not self.is_dry:
                yield from self._delete_rows("host_details", HOSTS.owner, "elapsed", seq, delete_until)
                yield from self._thin_rows("host_details", HOSTS.owner, seq, 0.0, thin_until)
            for layout, owner in owners:
                self._report_machine(layout, owner, thin_until, delete_until)
                while not self.is_dry and drop_some(self.database, layout, owner, delete_until):
                    yield
                if not self.is_dry:
                    yield from self._roll(layout, owner, thin_until)
        if not self.is_dry:
            yield from self._delete_machine_events(self.now - max(policy.raw_seconds, policy.rollup_seconds))
            yield from self._delete_old_alerts(self.now - max(policy.raw_seconds, policy.rollup_seconds))
            self._delete_empty_devices()

    def _delete_machine_events(self, until: float) -> Steps:
        """Delete the events of hosts and devices up to a moment."""
        for owner in (HOSTS.owner, DEVICES.owner):
            chosen = f"SELECT id FROM events WHERE {owner} IS NOT NULL AND at <= ? LIMIT {DELETED_AT_ONCE}"
            count = DELETED_AT_ONCE
            while count == DELETED_AT_ONCE:
                with self.database.writing() as connection:
                    count = connection.execute(f"DELETE FROM events WHERE id IN ({chosen})", (until,)).rowcount
                yield

    def _delete_old_alerts(self, until: float) -> Steps:
        """Delete resolved alerts of hosts and devices and messages that are done with, up to a moment.

        Alerts of jobs stay as long as the record of their job.
        """
        old = (
            ("alerts", "state = 'resolved' AND job_seq IS NULL AND began_at <= :until AND resolved_at <= :until"),
            ("messages", "sent_at <= :until OR given_up_at <= :until"),
        )
        for table, condition in old:
            chosen = f"SELECT id FROM {table} WHERE {condition} LIMIT {DELETED_AT_ONCE}"
            count = DELETED_AT_ONCE
            while count == DELETED_AT_ONCE:
                with self.database.writing() as connection:
                    sql = f"DELETE FROM {table} WHERE id IN ({chosen})"
                    count = connection.execute(sql, {"until": until}).rowcount
                yield
        with self.database.writing() as connection:
            connection.execute("DELETE FROM alert_marks WHERE until <= ?", (self.now,))
            connection.execute(
                "DELETE FROM alert_marks WHERE kind IN ('seen', 'mute_job') AND name NOT IN (SELECT id FROM jobs)"
            )
        yield

    def _delete_empty_devices(self) -> None:
        """Delete devices of earlier boots that have neither samples nor events nor alerts left."""
        with self.database.writing() as connection:
            connection.execute(
                f"DELETE FROM devices WHERE {DEVICES.is_over}"
                " AND NOT EXISTS (SELECT 1 FROM device_blocks WHERE device_seq = devices.seq)"
                " AND NOT EXISTS (SELECT 1 FROM events WHERE device_seq = devices.seq)"
                " AND NOT EXISTS (SELECT 1 FROM alerts WHERE device_seq = devices.seq)"
            )

    def _report_machine(self, layout: Layout, seq: int, thin_until: float, delete_until: float) -> None:
        """Add to the report how many samples of a host or a device are to be thinned and deleted."""
        with self.database.reading() as connection:
            deleted = connection.execute(
                f"SELECT coalesce(sum(samples), 0), coalesce(sum(length(data)), 0) FROM {layout.blocks}"
                f" WHERE {layout.owner} = ? AND last_elapsed <= ?",
                (seq, delete_until),
            ).fetchone()
            thinned = connection.execute(
                f"SELECT coalesce(sum(samples), 0), coalesce(sum(length(data)), 0) * {MINUTES_GAIN}"
                f" FROM {layout.blocks} JOIN {layout.series} USING ({layout.owner})"
                f" WHERE {layout.owner} = ? AND last_elapsed BETWEEN ? AND ? AND last_id > rolled_until",
                (seq, delete_until, thin_until),
            ).fetchone()
        for then, (samples, size) in ((Kept.MINUTES, thinned), (Kept.RECORD, deleted)):
            if samples:
                self.report.add(MACHINE, then, Removed(0, samples, 0, round(size)))

    def _thin_rows(self, table: str, owner: str, seq: int, begin: float, until: float) -> Steps:
        """Delete all rows of a job or host between two moments but the last of every minute."""
        while True:
            with self.database.reading() as connection:
                rows = connection.execute(
                    f"SELECT elapsed FROM {table} WHERE {owner} = ? AND elapsed >= ? AND elapsed <= ?"
                    f" ORDER BY elapsed LIMIT {THINNED_AT_ONCE}",
                    (seq, begin, until),
                ).fetchall()
            last_of_minute = {elapsed // MINUTE_SECONDS: elapsed for (elapsed,) in rows}
            to_delete = [(seq, elapsed) for (elapsed,) in rows if last_of_minute[elapsed // MINUTE_SECONDS] != elapsed]
            if to_delete:
                with self.database.writing() as connection:
                    connection.executemany(f"DELETE FROM {table} WHERE {owner} = ? AND elapsed = ?", to_delete)
                yield
            if len(rows) < THINNED_AT_ONCE:
                return
            begin = rows[-1][0]  # the next rows may belong to its minute

    def _delete_rows(self, table: str, owner: str, at: str, seq: int, until: float = float("inf")) -> Steps:
        """Delete the rows of a job or host up to a moment; `at` is the column with the moment of a row."""
        while True:
            with self.database.writing() as connection:
                count = connection.execute(
                    f"DELETE FROM {table} WHERE {owner} = :seq AND {at} <= (SELECT max({at}) FROM (SELECT {at}"
                    f" FROM {table} WHERE {owner} = :seq AND {at} <= :until ORDER BY {at} LIMIT {DELETED_AT_ONCE}))",
                    {"seq": seq, "until": until},
                ).rowcount
            if not count:
                return
            yield


def set_pinned(database: Database, jobs: Iterable[Job], pinned: bool) -> None:
    """Pin jobs, so that retention never prunes them, or unpin them."""
    with database.writing() as connection:
        for job in jobs:
            connection.execute(
                f"UPDATE jobs SET pinned = ?, touched = {NEXT_TOUCH} WHERE seq = ?", (int(pinned), job.seq)
            )
