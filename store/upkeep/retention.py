"""Lets old jobs go, tier by tier, as a policy says; in steps of some milliseconds, so that nobody waits for it.

Every step is whole: whoever is killed between two leaves a sound store, and the next one goes on.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from jobtop.core.model import Kept
from jobtop.core.retention import (
    MACHINE,
    RUNNING,
    THINNED,
    Budget,
    Holding,
    Move,
    Policy,
    Report,
    Went,
    after,
    by_age,
    may_go_for_size,
    protection,
    thinnable,
)
from jobtop.core.state_files import remove_directory, remove_file
from jobtop.store.jobs import NEXT_TOUCH
from jobtop.store.samples import head
from jobtop.store.samples.head import HOSTS, JOBS
from jobtop.store.samples.rollup import drop_some, roll_some
from jobtop.store.samples.series import TRIMMED_ROWS, SeriesStore
from jobtop.store.upkeep.job_sizes import Places, files_of, holding_of, numbers, rows_of, used_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jobtop.core.model import Job
    from jobtop.core.paths import StatePaths
    from jobtop.store.database import Database

    Steps = Iterator[None]

STEP_SECONDS = 0.005  # of reading; then somebody else may
MARKED_AT_ONCE = 200  # jobs
THINNED_AT_ONCE = 300  # rows
DELETED_AT_ONCE = 150
MOST_ROUNDS = 10  # what thinning gains is only known afterwards
MINUTE_SECONDS = 60.0


class Retention:
    """One pass over a store: all that is due by age, then by size; `is_dry`: only to tell what that would be."""

    def __init__(self, database: Database, paths: StatePaths, policy: Policy, is_dry: bool = False) -> None:
        self.database, self.paths, self.policy, self.is_dry = database, paths, policy, is_dry
        self.now = time.time()
        self.report = Report()
        self.done_samples = 0
        self.looked_at = self.to_look_at = 0
        self._file_bytes = 0
        self._places = Places(paths)
        self._steps = self.steps()

    def step(self) -> bool:
        """Some milliseconds of it; whether there is more."""
        return next(self._steps, self) is None

    def steps(self) -> Steps:
        """All of it; between any two steps there may be as much time as anybody likes."""
        if not self.is_dry:
            yield from self._seal()
        yield from self._measure()
        self.report.total_bytes = self._bytes()
        yield from self._let_jobs_age()
        yield from self._let_machines_age()
        for _ in range(1 if self.is_dry else MOST_ROUNDS):
            if self.policy.max_bytes is None or self._bytes() <= self.policy.max_bytes:
                break
            moved = self.report.jobs
            yield from self._shrink(self._bytes() - self.policy.max_bytes)
            if self.report.jobs == moved:
                break
        self.report.left_bytes = self._bytes()
        if self.policy.max_bytes is not None:
            self.report.over_bytes = max(0, self.report.left_bytes - self.policy.max_bytes)

    def _bytes(self) -> int:
        """What all takes now, or would."""
        with self.database.reading() as connection:
            used = used_bytes(connection)
        return used + self._file_bytes - (self.report.freed_bytes if self.is_dry else 0)

    def _seal(self) -> Steps:
        """Pack what a writer that was killed left, and delete what is packed and was not deleted yet."""
        for layout in (JOBS, HOSTS):
            series = SeriesStore(self.database, layout)
            while series.seal_ended(1):
                yield
            last: int | None = -1
            while last is not None:
                with self.database.writing() as connection:
                    last, _ = head.trim(connection, layout, last + 1, TRIMMED_ROWS)
                yield

    def _measure(self) -> Steps:
        """What jobs have beside the store."""
        for seqs in self._chunks(self._numbers()):
            with self.database.reading() as connection:
                self._file_bytes += files_of(connection, self._places, seqs)
            yield

    def _numbers(self, before: float = float("inf")) -> Sequence[int]:
        with self.database.reading() as connection:
            return numbers(connection, before)

    def _chunks(self, seqs: Sequence[int]) -> Iterator[Sequence[int]]:
        self.looked_at, self.to_look_at = 0, len(seqs)
        for begin in range(0, len(seqs), MARKED_AT_ONCE):
            yield seqs[begin : begin + MARKED_AT_ONCE]
            self.looked_at = begin + MARKED_AT_ONCE

    def _holdings(self, seqs: Sequence[int]) -> Iterator[Holding | None]:
        """What each of some jobs holds, and None wherever it is time for somebody else."""
        for chunk in self._chunks(seqs):
            begun = time.monotonic()
            with self.database.reading() as connection:
                rows = rows_of(connection, chunk)
            for row in rows:
                with self.database.reading() as connection:
                    held = partial(holding_of, connection, self._places, now=self.now, raw=self.policy.raw_seconds)
                    holdings = self.database.sound((row,), held)
                yield from holdings
                if time.monotonic() - begun > STEP_SECONDS:
                    yield None
                    begun = time.monotonic()

    def _let_jobs_age(self) -> Steps:
        bare: list[Move] = []
        for holding in self._holdings(self._numbers(self.now - self.policy.raw_seconds)):
            if holding is None:
                yield
                continue
            move = by_age(self.policy, holding, self.now)
            if move is None:
                continue
            if holding.all_bytes:
                yield from self._carry_out(move)
                continue
            bare.append(move)
            if len(bare) >= MARKED_AT_ONCE:
                self._mark(bare)
                bare = []
                yield
        self._mark(bare)
        yield

    def _shrink(self, over_bytes: int) -> Steps:
        """Let go of what has to be, so that all takes so much less."""
        seqs = self._numbers()
        thinnable_bytes = 0
        held: dict[str, int] = {}
        for holding in self._to_shrink(seqs):
            if holding is None:
                yield
            elif may_go_for_size(self.policy, holding, self.now):
                thinnable_bytes += thinnable(holding)
            else:
                why = protection(self.policy, holding, self.now) or RUNNING
                held[why] = held.get(why, 0) + holding.all_bytes + holding.spec_bytes
        budget = Budget(over_bytes, thinnable_bytes)
        for holding in self._to_shrink(seqs):
            if holding is None:
                yield
            elif may_go_for_size(self.policy, holding, self.now):
                move = budget.decide(holding)
                if move is not None:
                    yield from self._carry_out(move)
            if budget.over_bytes <= 0:
                break
        self.report.held = held

    def _to_shrink(self, seqs: Sequence[int]) -> Iterator[Holding | None]:
        """What jobs hold once age has done its work, which it has not if that is only looked at."""
        for holding in self._holdings(seqs):
            move = by_age(self.policy, holding, self.now) if holding is not None and self.is_dry else None
            yield holding if move is None else after(move)

    def _carry_out(self, move: Move) -> Steps:
        self.report.add_move(move)
        if self.is_dry or not self._is_free(move.holding):
            return
        if move.to is Kept.RECORD:
            yield from self._let_go(move)
        else:
            yield from self._thin(move)
        if move.to is not move.holding.kept:
            self._mark_as([move.holding.seq], move.to)
        yield

    def _is_free(self, holding: Holding) -> bool:
        """Whether a job may still go: it may have been pinned a moment ago."""
        with self.database.reading() as connection:
            row = connection.execute("SELECT pinned FROM jobs WHERE seq = ?", (holding.seq,)).fetchone()
        return row is not None and not row[0]

    def _thin(self, move: Move) -> Steps:
        """Make minutes of samples up to a moment; snapshots of the same time first."""
        seq = move.holding.seq
        with self.database.reading() as connection:
            begin = connection.execute(
                "SELECT min(first_elapsed) FROM blocks JOIN series USING (job_seq)"
                " WHERE job_seq = ? AND last_id > rolled_until",
                (seq,),
            ).fetchone()[0]
        yield from self._thin_rows("snapshots", JOBS.owner, seq, begin or 0.0, move.until)
        while count := roll_some(self.database, JOBS, seq, move.until):
            self.done_samples += count
            yield

    def _let_go(self, move: Move) -> Steps:
        """All but the record; what is beside the store first: where the disk is full that makes room."""
        of = move.holding
        if of.file_bytes:
            remove_directory(self.paths.job(of.id))
            self._file_bytes -= of.file_bytes
            yield
        if move.takes_spec and of.spec_bytes:
            remove_file(self.paths.spec(of.id))
            self._file_bytes -= of.spec_bytes
        yield from self._delete_rows("snapshots", JOBS.owner, "elapsed", of.seq)
        yield from self._delete_rows("log_marks", JOBS.owner, "elapsed_seconds", of.seq)
        while drop_some(self.database, JOBS, of.seq):
            yield
        self.done_samples += of.samples + of.minutes

    def _mark(self, moves: Sequence[Move]) -> None:
        """Jobs that hold nothing, many at once."""
        for move in moves:
            self.report.add_move(move)
        for kept in (Kept.MINUTES, Kept.RECORD):
            self._mark_as([move.holding.seq for move in moves if move.to is kept], kept)

    def _mark_as(self, seqs: Sequence[int], kept: Kept) -> None:
        if not seqs or self.is_dry:
            return
        with self.database.writing() as connection:
            connection.execute(
                f"UPDATE jobs SET kept = ?, touched = {NEXT_TOUCH}"
                f" WHERE seq IN ({', '.join('?' * len(seqs))}) AND NOT pinned",
                (kept, *seqs),
            )

    def _let_machines_age(self) -> Steps:
        """The curves of the machine around jobs, by age alone."""
        with self.database.reading() as connection:
            boots = connection.execute("SELECT seq, boot_time FROM hosts").fetchall()
        policy = self.policy
        for seq, boot_time in boots:
            raw = self.now - policy.raw_seconds - boot_time
            last = self.now - max(policy.raw_seconds, policy.rollup_seconds) - boot_time
            if self.is_dry:
                self._tell_machine(seq, raw, last)
                continue
            yield from self._delete_rows("host_details", HOSTS.owner, "elapsed", seq, last)
            yield from self._thin_rows("host_details", HOSTS.owner, seq, 0.0, raw)
            self._tell_machine(seq, raw, last)
            while drop_some(self.database, HOSTS, seq, last):
                yield
            while count := roll_some(self.database, HOSTS, seq, raw):
                self.done_samples += count
                yield

    def _tell_machine(self, seq: int, raw: float, last: float) -> None:
        with self.database.reading() as connection:
            gone = connection.execute(
                "SELECT coalesce(sum(samples), 0), coalesce(sum(length(data)), 0) FROM host_blocks"
                " WHERE host_seq = ? AND last_elapsed <= ?",
                (seq, last),
            ).fetchone()
            thinned = connection.execute(
                f"SELECT coalesce(sum(samples), 0), coalesce(sum(length(data)), 0) * {THINNED} FROM host_blocks"
                " JOIN host_series USING (host_seq)"
                " WHERE host_seq = ? AND last_elapsed BETWEEN ? AND ? AND last_id > rolled_until",
                (seq, last, raw),
            ).fetchone()
        for then, (samples, size) in ((Kept.MINUTES, thinned), (Kept.RECORD, gone)):
            if samples:
                self.report.add(MACHINE, then, Went(0, samples, 0, round(size)))

    def _thin_rows(self, table: str, owner: str, seq: int, begin: float, until: float) -> Steps:
        """Let the last row of every minute stay."""
        while True:
            with self.database.reading() as connection:
                rows = connection.execute(
                    f"SELECT elapsed FROM {table} WHERE {owner} = ? AND elapsed >= ? AND elapsed <= ?"
                    f" ORDER BY elapsed LIMIT {THINNED_AT_ONCE}",
                    (seq, begin, until),
                ).fetchall()
            last_of = {moment // MINUTE_SECONDS: moment for (moment,) in rows}
            gone = [(seq, moment) for (moment,) in rows if last_of[moment // MINUTE_SECONDS] != moment]
            if gone:
                with self.database.writing() as connection:
                    connection.executemany(f"DELETE FROM {table} WHERE {owner} = ? AND elapsed = ?", gone)
                yield
            if len(rows) < THINNED_AT_ONCE:
                return
            begin = rows[-1][0]  # its minute may go on

    def _delete_rows(self, table: str, owner: str, at: str, seq: int, until: float = float("inf")) -> Steps:
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
    """Say of jobs that they stay whole, or need not."""
    with database.writing() as connection:
        for job in jobs:
            connection.execute(
                f"UPDATE jobs SET pinned = ?, touched = {NEXT_TOUCH} WHERE seq = ?", (int(pinned), job.seq)
            )
