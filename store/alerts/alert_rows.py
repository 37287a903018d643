"""Read and write alerts: one row for each time that a rule was true of a job, of the host or of a device."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Sequence

from jobtop.core.alerts.model import MOMENTARY, OPEN_STATES, RuleKind, Severity, State
from jobtop.core.errors import RowDamaged
from jobtop.core.job_id import is_job_id
from jobtop.core.measure.device import Device
from jobtop.core.model import LIVE
from jobtop.core.record import record
from jobtop.store.alerts.writing import insert_alert, resolve_alert, touch_jobs, update_alert
from jobtop.store.jobs import SEQ_IN_LIST, Event, Jobs, sql_list, stored_text
from jobtop.store.rows import are_numbers, check_moments, check_texts, parse_mapping, parse_member, quote_value
from jobtop.store.schema import has_tables_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from typing import Any

    from jobtop.core.alerts.model import Owner, Transition
    from jobtop.store.alerts.writing import OwnerColumn
    from jobtop.store.database import Database


ALERTS_SINCE_VERSION = 10  # of the schema
HAPPENED = "happened"
MOST = 1000
COLUMNS = (
    "alerts.id, alerts.job_seq, alerts.device_seq, rule, alerts.kind, severity, state, began_at, fired_at, resolved_at,"
    " acknowledged_at, acknowledged_by, alerts.note, value, worst, level, text, detail, flapping, step,"
    " jobs.id AS job_id, jobs.name AS job_name, jobs.host AS job_host, hosts.name AS host_name,"
    " devices.kind AS device_kind, devices.name AS device_name"
)
JOINS = (
    "LEFT JOIN jobs ON jobs.seq = alerts.job_seq LEFT JOIN devices ON devices.seq = alerts.device_seq"
    " LEFT JOIN hosts ON hosts.seq = coalesce(alerts.host_seq, devices.host_seq)"
)
SELECT = f"SELECT {COLUMNS} FROM alerts {JOINS}"
# The same words as in the index alerts_open: otherwise SQLite does not use it.
OPEN = "alerts.state <> 'resolved'"
STATE_RANK = "CASE state WHEN 'firing' THEN 0 WHEN 'acknowledged' THEN 1 WHEN 'pending' THEN 2 ELSE 3 END"
SETTLE_SECONDS = 60.0
MOMENTS = ("began_at", "fired_at", "resolved_at", "acknowledged_at")


@record
class StoredAlert:
    """One alert as the store has it. `host` is the name of the host of its job or of its device, if it is known.

    `value` made it fire, `worst` is the farthest from the level since. `fired_at` is None while it is pending.
    """

    id: int
    job_seq: int | None
    job_id: str | None
    job_name: str | None
    host: str | None
    device: Device | None
    rule: str
    kind: RuleKind
    severity: Severity
    state: State
    began_at: float
    fired_at: float | None
    resolved_at: float | None
    acknowledged_at: float | None
    acknowledged_by: str | None
    note: str | None
    value: float | None
    worst: float | None
    level: float | None
    text: str
    detail: dict[str, Any]
    is_flapping: bool
    step: int

    @property
    def owner(self) -> Owner:
        """The id of its job, its device, or None for the host."""
        return self.job_id if self.job_id is not None else self.device

    @property
    def is_moment(self) -> bool:
        """Whether it is about one moment, such as a failed job: it did not last, and nothing was resolved."""
        is_instant = self.kind is RuleKind.EVENT and self.fired_at == self.resolved_at
        return self.state is State.RESOLVED and (is_instant or bool(self.detail.get(MOMENTARY)))

    @property
    def state_word(self) -> str:
        """The state as people read it: an alert about one moment has happened."""
        return HAPPENED if self.is_moment else str(self.state)

    @property
    def is_open(self) -> bool:
        """Whether its condition is still true."""
        return self.state in OPEN_STATES


@record
class AlertCounts:
    """How many alerts of a job have fired, are still open, and were not acknowledged; and the worst severity."""

    fired: int
    active: int
    unseen: int
    severity: Severity


class AlertStore:
    """The alerts of one store."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def apply(self, transitions: Iterable[Transition], job_seq_of: Callable[[str], int]) -> list[StoredAlert]:
        """Write changes of states; return the alerts with a changed state, in the same order.

        A part of the caller's transaction, if there is one. An owner has at most one open alert of a rule: a
        transition changes it. An alert that resolves before it fired is deleted and not returned; the alerts of a
        deleted job are not written.
        """
        changed = []
        with self.database.writing() as connection:
            for transition in transitions:
                column = self._owner_column(connection, transition.owner, job_seq_of)
                if column is not None and (found := self._apply(connection, transition, column)) is not None:
                    changed.append(found)
        return changed

    def _owner_column(
        self, connection: sqlite3.Connection, owner: Owner, job_seq_of: Callable[[str], int]
    ) -> OwnerColumn | None:
        """The column and the number of an owner; None for a job that is not in the store."""
        if not isinstance(owner, str):
            return self._machine_column(connection, owner)
        seq = job_seq_of(owner)
        is_stored = connection.execute("SELECT 1 FROM jobs WHERE seq = ?", (seq,)).fetchone() is not None
        return ("job_seq", seq) if is_stored else None

    def _machine_column(self, connection: sqlite3.Connection, device: Device | None) -> OwnerColumn:
        """The same for the host and its devices; their modules are imported here: the end of a job needs none."""
        if device is None:
            from jobtop.store.samples.hosts import this_boot

            return "host_seq", this_boot(self.database)
        from jobtop.store.samples.devices import DeviceRecord

        return "device_seq", DeviceRecord(self.database).number(connection, device)

    def _apply(self, connection: sqlite3.Connection, transition: Transition, column: OwnerColumn) -> StoredAlert | None:
        """Write one change; return the alert if its state changed."""
        row = connection.execute(
            f"SELECT id, state, fired_at, acknowledged_at, worst FROM alerts WHERE {column[0]} = ?"
            f" AND rule = CAST(? AS TEXT) AND {OPEN} ORDER BY id DESC LIMIT 1",
            (column[1], stored_text(transition.rule.name)),
        ).fetchone()
        if transition.state is State.RESOLVED:
            number = None if row is None else resolve_alert(connection, row, transition)
        elif row is None:
            number = insert_alert(connection, transition, column)
        else:
            number = update_alert(connection, row, transition)
        if number is None:
            return None
        if is_for_timeline(transition):
            self._add_event(connection, transition, column, number)
        return self._found(connection, number)

    def _add_event(
        self, connection: sqlite3.Connection, transition: Transition, column: OwnerColumn, number: int
    ) -> None:
        """Add the change to the timeline of the owner, and count it as a change of the job."""
        rule, owner = transition.rule, transition.owner
        kind = "alert_resolved" if transition.state is State.RESOLVED else "alert"
        detail = {"text": transition.text, "severity": str(rule.severity), "rule": rule.name, "alert": number}
        event = Event(transition.at, kind, detail)
        if isinstance(owner, str):
            Jobs(self.database).add_events([(column[1], event)])
            touch_jobs(connection, [column[1]])
        else:
            from jobtop.store.events import MachineEvents

            MachineEvents(self.database).add([(owner, event)])

    def find(self, number: int) -> StoredAlert | None:
        """The alert with this id; None if there is none, or it cannot be read."""
        with self.database.reading() as connection:
            return self._found(connection, number) if has_tables_of(connection, ALERTS_SINCE_VERSION) else None

    def _found(self, connection: sqlite3.Connection, number: int) -> StoredAlert | None:
        rows = connection.execute(f"{SELECT} WHERE alerts.id = ?", (number,)).fetchall()
        return next(iter(self.database.decode_rows(rows, alert_from_row)), None)

    def open_alerts(self, job_seq: int | None = None) -> list[StoredAlert]:
        """The alerts that are not resolved, the oldest first: all, or those of one job."""
        if job_seq is None:
            return self._select(OPEN, (), "ORDER BY alerts.id")
        return self._select(f"alerts.job_seq = ? AND {OPEN}", (job_seq,), "ORDER BY alerts.id")

    def open_of_machine(self, boot: str) -> list[StoredAlert]:
        """The alerts of one boot of the host and of its devices that are not resolved."""
        return self._select(f"hosts.boot = ? AND {OPEN}", (boot,), "ORDER BY alerts.id")

    def listing(
        self,
        states: Sequence[State] = (),
        severity: Sequence[Severity] = (),
        rule: str | None = None,
        job_seq: int | None = None,
        since: float | None = None,
        limit: int | None = MOST,
    ) -> list[StoredAlert]:
        """Alerts that meet every condition: firing, acknowledged, pending, resolved ones, each the newest first.

        `rule` may have the wildcards `*` and `?`. `since` leaves out alerts that were resolved before.
        """
        conditions: list[str] = ["1"]
        values: list[object] = []
        if states:
            conditions.append(f"state IN ({sql_list(states)})")
        if severity:
            conditions.append(f"severity IN ({sql_list(severity)})")
        if rule is not None:
            conditions.append("rule GLOB CAST(? AS TEXT)")
            values.append(stored_text(rule.replace("[", "[[]")))
        if job_seq is not None:
            conditions.append("alerts.job_seq = ?")
            values.append(job_seq)
        if since is not None:
            conditions.append(f"({OPEN} OR coalesce(resolved_at, began_at) >= ?)")
            values.append(since)
        order = f"ORDER BY {STATE_RANK}, coalesce(fired_at, began_at) DESC, alerts.id DESC"
        return self._select(" AND ".join(conditions), values, order, limit)

    def _select(
        self, condition: str, values: Sequence[object], order: str, limit: int | None = None
    ) -> list[StoredAlert]:
        limited = "" if limit is None else f"LIMIT {limit:d}"
        with self.database.reading() as connection:
            if not has_tables_of(connection, ALERTS_SINCE_VERSION):
                return []
            rows = connection.execute(f"{SELECT} WHERE {condition} {order} {limited}", values).fetchall()
        return self.database.decode_rows(rows, alert_from_row)

    def acknowledge(self, ids: Iterable[int], by: str, note: str | None = None) -> list[StoredAlert]:
        """Note that a person has seen alerts; return those that are in the store.

        A firing alert becomes acknowledged, a pending one when it fires; a resolved one stays resolved. The first
        acknowledgement keeps its time and its name; a later one changes the note.
        """
        found = []
        with self.database.writing() as connection:
            for number in ids:
                connection.execute(
                    "UPDATE alerts SET acknowledged_at = coalesce(acknowledged_at, ?),"
                    " acknowledged_by = coalesce(acknowledged_by, CAST(? AS TEXT)),"
                    " note = coalesce(CAST(? AS TEXT), note),"
                    f" state = iif(state = '{State.FIRING}', '{State.ACKNOWLEDGED}', state) WHERE id = ?",
                    (time.time(), stored_text(by), None if note is None else stored_text(note), number),
                )
                if (alert := self._found(connection, number)) is not None:
                    found.append(alert)
            touch_jobs(connection, [alert.job_seq for alert in found if alert.job_seq is not None])
        return found

    def was_open_since(self, alert: StoredAlert, since: float) -> bool:
        """Whether the owner of an alert had another alert of the same rule that was over only after a moment."""
        with self.database.reading() as connection:
            found = connection.execute(
                "SELECT 1 FROM alerts JOIN alerts AS this ON this.id = ? WHERE alerts.id <> this.id"
                " AND alerts.rule = this.rule AND alerts.job_seq IS this.job_seq AND alerts.host_seq IS this.host_seq"
                " AND alerts.device_seq IS this.device_seq AND alerts.fired_at IS NOT NULL AND alerts.resolved_at >= ?",
                (alert.id, since),
            ).fetchone()
        return found is not None

    def set_step(self, number: int, step: int) -> None:
        """Note how many steps of its rule an alert has taken."""
        with self.database.writing() as connection:
            connection.execute("UPDATE alerts SET step = ? WHERE id = ?", (step, number))

    def resolve_left_open(self, boot: str, host: str) -> int:
        """Resolve the open alerts of ended jobs and of earlier boots of a host; return their number.

        An engine that was killed, or a machine that went down, leaves them open. The engine of a job that has just
        ended resolves its alerts itself.
        """
        now = time.time()
        left = (
            f"SELECT alerts.id FROM alerts JOIN jobs ON jobs.seq = alerts.job_seq WHERE {OPEN}"
            f" AND jobs.settled <> 0 AND jobs.status NOT IN ({sql_list(sorted(LIVE))})"
            f" AND coalesce(jobs.end_time, 0) < {now - SETTLE_SECONDS}"
            " UNION ALL SELECT alerts.id FROM alerts LEFT JOIN devices ON devices.seq = device_seq"
            " JOIN hosts ON hosts.seq = coalesce(alerts.host_seq, devices.host_seq)"
            f" WHERE {OPEN} AND hosts.boot <> ? AND hosts.name = CAST(? AS TEXT)"
        )
        with self.database.writing() as connection:
            numbers = json.dumps([row[0] for row in connection.execute(left, (boot, stored_text(host)))])
            chosen = "id IN (SELECT value FROM json_each(?))"
            connection.execute(f"DELETE FROM alerts WHERE fired_at IS NULL AND {chosen}", (numbers,))
            cursor = connection.execute(
                f"UPDATE alerts SET state = '{State.RESOLVED}', resolved_at = max(?, fired_at) WHERE {chosen}",
                (now, numbers),
            )
        return cursor.rowcount

    def counts_by_job(self, seqs: Iterable[int]) -> dict[int, AlertCounts]:
        """The counts of alerts that fired, by the number of their job; jobs without any are left out."""
        with self.database.reading() as connection:
            if not has_tables_of(connection, ALERTS_SINCE_VERSION):
                return {}
            rows = connection.execute(
                f"SELECT job_seq, count(*), sum({OPEN}), sum(acknowledged_at IS NULL),"
                " max(CASE severity WHEN 'critical' THEN 2 WHEN 'warning' THEN 1 ELSE 0 END) FROM alerts"
                f" WHERE fired_at IS NOT NULL AND job_{SEQ_IN_LIST} GROUP BY job_seq",
                (json.dumps(list(seqs)),),
            ).fetchall()
        return {row[0]: AlertCounts(row[1], row[2], row[3], list(Severity)[row[4]]) for row in rows}


def is_for_timeline(transition: Transition) -> bool:
    """Whether a change is an event of its owner. How a job ended is one already, and a moment has no end."""
    if transition.state is State.PENDING:
        return False
    is_momentary = bool(transition.detail.get(MOMENTARY))
    return not is_momentary or (transition.state is State.FIRING and transition.rule.kind is not RuleKind.EVENT)


def alert_from_row(row: sqlite3.Row) -> StoredAlert:
    """Decode a row of `SELECT`."""
    try:
        return _alert(row)
    except RowDamaged as error:
        raise RowDamaged(f"alert {quote_value(row['id'])}: {error}") from None


def _alert(row: sqlite3.Row) -> StoredAlert:
    check_moments(row, MOMENTS, ("began_at",))
    check_texts(row, ("rule", "text"), ("acknowledged_by", "note", "host_name", "job_host"))
    if not are_numbers((row["value"], row["worst"], row["level"])) or type(row["step"]) is not int:
        raise RowDamaged("its value, its level or its step is no number")
    if row["job_seq"] is not None and (not is_job_id(row["job_id"]) or type(row["job_name"]) is not str):
        raise RowDamaged("there is no such job")
    if row["device_seq"] is not None:
        check_texts(row, ("device_kind", "device_name"))
    # By position: a listing may have thousands, and names take twice as long.
    return StoredAlert(
        row["id"],
        row["job_seq"],
        row["job_id"],
        row["job_name"],
        row["job_host"] if row["job_seq"] is not None else row["host_name"],
        None if row["device_seq"] is None else Device(row["device_kind"], row["device_name"]),
        row["rule"],
        parse_member(RuleKind, row["kind"], "kind"),
        parse_member(Severity, row["severity"], "severity"),
        parse_member(State, row["state"], "state"),
        row["began_at"],
        row["fired_at"],
        row["resolved_at"],
        row["acknowledged_at"],
        row["acknowledged_by"],
        row["note"],
        row["value"],
        row["worst"],
        row["level"],
        row["text"],
        parse_mapping(row["detail"], "detail"),
        bool(row["flapping"]),
        row["step"],
    )
