"""What people decided about alerts: muted rules and jobs, rules that may act, failed jobs that were seen.

Beside it, the rules that cannot be evaluated.
"""

from __future__ import annotations

import time
from enum import StrEnum

from jobtop.core.alerts.isolation import digest_of
from jobtop.core.errors import RowDamaged
from jobtop.core.record import record
from jobtop.store.alerts.alert_rows import ALERTS_SINCE_VERSION
from jobtop.store.jobs import NEXT_TOUCH, stored_text
from jobtop.store.rows import check_moments, check_texts, parse_member
from jobtop.store.schema import has_tables_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable

    from jobtop.core.alerts.model import Rule
    from jobtop.store.database import Database

FAILED_SECONDS = 86400.0
COLUMNS = "kind, name, at, until, by, note"


class MarkKind(StrEnum):
    """What a mark says; its name is that of a rule, or the id of a job."""

    MUTE_RULE = "mute_rule"  # no messages and no actions of this rule
    MUTE_JOB = "mute_job"  # no messages and no actions about this job
    ARMED = "armed"  # the steps of this rule may act on jobs
    SEEN = "seen"  # this failed job was acknowledged
    FAILED = "failed"  # this rule cannot be evaluated: `note` says why, `by` is the digest of the rule


@record
class Mark:
    """One decision; it holds `until` a moment, or for ever."""

    kind: MarkKind
    name: str
    at: float
    until: float | None
    by: str
    note: str | None


class Marks:
    """The marks of one store. One whose time has passed does not count, and is deleted by the next change."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def set(self, kind: MarkKind, name: str, until: float | None = None, by: str = "", note: str | None = None) -> None:
        """Set a mark, or set it anew."""
        now = time.time()
        with self.database.writing() as connection:
            connection.execute("DELETE FROM alert_marks WHERE until <= ?", (now,))
            connection.execute(
                "INSERT OR REPLACE INTO alert_marks (kind, name, at, until, by, note)"
                " VALUES (?, CAST(? AS TEXT), ?, ?, CAST(? AS TEXT), CAST(? AS TEXT))",
                (
                    *(str(kind), stored_text(name), now, until, stored_text(by)),
                    None if note is None else stored_text(note),
                ),
            )

    def acknowledge_failures(self, jobs: Iterable[str], by: str, note: str | None = None) -> None:
        """Note that a person has seen the failures of jobs and the alerts about them; it is a change of the jobs."""
        with self.database.writing() as connection:
            for job_id in jobs:
                self.set(MarkKind.SEEN, job_id, None, by, note)
                connection.execute(
                    "UPDATE alerts SET acknowledged_at = ?, acknowledged_by = CAST(? AS TEXT),"
                    " note = CAST(? AS TEXT), state = iif(state = 'firing', 'acknowledged', state)"
                    " WHERE job_seq = (SELECT seq FROM jobs WHERE id = ?) AND kind = 'event' AND fired_at IS NOT NULL"
                    " AND acknowledged_at IS NULL",
                    (time.time(), stored_text(by), None if note is None else stored_text(note), job_id),
                )
                connection.execute(f"UPDATE jobs SET touched = {NEXT_TOUCH} WHERE id = ?", (job_id,))

    def clear(self, kind: MarkKind, name: str) -> bool:
        """Delete a mark; return whether it was there and counted."""
        now = time.time()
        with self.database.writing() as connection:
            connection.execute("DELETE FROM alert_marks WHERE until <= ?", (now,))
            sql = "DELETE FROM alert_marks WHERE kind = ? AND name = CAST(? AS TEXT)"
            return connection.execute(sql, (str(kind), stored_text(name))).rowcount > 0

    def all(self, kind: MarkKind | None = None, now: float | None = None) -> list[Mark]:
        """The marks that count, of one kind or of all kinds, the newest first."""
        now = time.time() if now is None else now
        condition, values = ("1", ()) if kind is None else ("kind = ?", (str(kind),))
        with self.database.reading() as connection:
            if not has_tables_of(connection, ALERTS_SINCE_VERSION):
                return []
            rows = connection.execute(
                f"SELECT {COLUMNS} FROM alert_marks WHERE {condition}"
                " AND (until IS NULL OR until > ?) ORDER BY at DESC, name",
                (*values, now),
            ).fetchall()
        return self.database.decode_rows(rows, decision_from_row)

    def names(self, kind: MarkKind, now: float | None = None) -> frozenset[str]:
        """The names of the marks of a kind that count."""
        return frozenset(mark.name for mark in self.all(kind, now))

    def set_failed(self, failures: Iterable[tuple[Rule, str]]) -> None:
        """Note for a day that rules cannot be evaluated as they are now, each with the reason."""
        for rule, reason in failures:
            self.set(MarkKind.FAILED, rule.name, time.time() + FAILED_SECONDS, digest_of(rule), reason)

    def has(self, kind: MarkKind, name: str, now: float | None = None) -> bool:
        """Whether a mark is set."""
        return self._has_any(((kind, name),), time.time() if now is None else now)

    def is_muted(self, rule: str, job_id: str | None, now: float) -> bool:
        """Whether the rule is muted, or the job."""
        wanted = [(MarkKind.MUTE_RULE, rule)]
        if job_id is not None:
            wanted.append((MarkKind.MUTE_JOB, job_id))
        return self._has_any(wanted, now)

    def _has_any(self, wanted: Iterable[tuple[MarkKind, str]], now: float) -> bool:
        with self.database.reading() as connection:
            if not has_tables_of(connection, ALERTS_SINCE_VERSION):
                return False
            sql = "SELECT 1 FROM alert_marks WHERE kind = ? AND name = CAST(? AS TEXT) AND (until IS NULL OR until > ?)"
            return any(
                connection.execute(sql, (str(kind), stored_text(name), now)).fetchone() is not None
                for kind, name in wanted
            )


def failure_of(rule: Rule, marks: Iterable[Mark]) -> str | None:
    """Why a rule cannot be evaluated as it is now; None if it can, as far as is known."""
    failed = [mark for mark in marks if mark.kind is MarkKind.FAILED and mark.name == rule.name]
    return failed[0].note if failed and failed[0].by == digest_of(rule) else None


def decision_from_row(row: sqlite3.Row) -> Mark:
    """Decode a row of `alert_marks`."""
    try:
        check_texts(row, ("name", "by"), ("note",))
        check_moments(row, ("at", "until"), ("at",))
        kind = parse_member(MarkKind, row["kind"], "kind")
    except RowDamaged as error:
        raise RowDamaged(f"a mark of alerts: {error}") from None
    return Mark(kind, row["name"], row["at"], row["until"], row["by"], row["note"])
