"""Messages about alerts that are to be sent, or were: each is kept until its action has accepted it."""

from __future__ import annotations

import json
import time

from jobtop.core.alerts.model import Severity, State
from jobtop.core.errors import RowDamaged
from jobtop.core.record import record
from jobtop.store.alerts.alert_rows import ALERTS_SINCE_VERSION
from jobtop.store.alerts.counts import UNSENT, count_unsent
from jobtop.store.jobs import stored_text
from jobtop.store.rows import check_moments, check_texts, parse_json, parse_mapping, parse_member, quote_value
from jobtop.store.schema import has_tables_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from jobtop.store.alerts.alert_rows import StoredAlert
    from jobtop.store.database import Database

COLUMNS = (
    "id, key, rule, action, origin, state, severity, created_at, ready_at, next_try_at, tries, problem, sent_at,"
    " given_up_at, members, content"
)
MOST = 1000


@record
class Outgoing:
    """One message. `action` and `origin` name its action and the file of the action, `members` are ids of alerts.

    It may be sent from `ready_at` on, after a failure from `next_try_at` on. `content` is None until it is composed.
    """

    id: int
    key: str
    rule: str
    action: str
    origin: str
    state: State
    severity: Severity
    created_at: float
    ready_at: float
    next_try_at: float
    tries: int
    problem: str | None
    sent_at: float | None
    given_up_at: float | None
    members: tuple[int, ...]
    content: dict[str, Any] | None

    @property
    def due_at(self) -> float:
        """The moment from which it may be sent."""
        return max(self.ready_at, self.next_try_at)


class Outbox:
    """The messages of one store."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def add(
        self,
        key: str,
        rule: str,
        action: str,
        origin: str,
        state: State,
        severity: Severity,
        created_at: float,
        ready_at: float,
        members: Iterable[int],
        content: Mapping[str, object] | None = None,
    ) -> int:
        """Add a message and return its id; a message with the same key is added once."""
        with self.database.writing() as connection:
            connection.execute(
                "INSERT OR IGNORE INTO messages (key, rule, action, origin, state, severity, created_at, ready_at,"
                " next_try_at, members, content) VALUES (CAST(? AS TEXT), CAST(? AS TEXT), CAST(? AS TEXT),"
                " CAST(? AS TEXT), ?, ?, ?, ?, ?, ?, ?)",
                (
                    *map(stored_text, (key, rule, action, origin)),
                    *(str(state), str(severity), created_at, ready_at, ready_at, json.dumps(list(members))),
                    None if content is None else json.dumps(content),
                ),
            )
            sql = "SELECT id FROM messages WHERE key = CAST(? AS TEXT)"
            return int(connection.execute(sql, (stored_text(key),)).fetchone()[0])

    def append_members(self, number: int, alert_ids: Iterable[int]) -> bool:
        """Add alerts to a message; False, and no change, if it is composed, sent or given up already."""
        with self.database.writing() as connection:
            sql = f"SELECT {COLUMNS} FROM messages WHERE id = ? AND content IS NULL AND tries = 0 AND {UNSENT}"
            rows = self.database.decode_rows(connection.execute(sql, (number,)).fetchall(), outgoing_from_row)
            if not rows:
                return False
            members = list(dict.fromkeys((*rows[0].members, *alert_ids)))
            connection.execute("UPDATE messages SET members = ? WHERE id = ?", (json.dumps(members), number))
        return True

    def withdraw(self, number: int, alert_id: int) -> bool:
        """Take an alert out of a message; False, and no change, if it is composed, sent or given up already."""
        with self.database.writing() as connection:
            sql = f"SELECT {COLUMNS} FROM messages WHERE id = ? AND content IS NULL AND tries = 0 AND {UNSENT}"
            rows = self.database.decode_rows(connection.execute(sql, (number,)).fetchall(), outgoing_from_row)
            if not rows:
                return False
            members = [member for member in rows[0].members if member != alert_id]
            if members:
                connection.execute("UPDATE messages SET members = ? WHERE id = ?", (json.dumps(members), number))
            else:
                connection.execute("DELETE FROM messages WHERE id = ?", (number,))
        return True

    def set_content(self, number: int, content: Mapping[str, object]) -> None:
        """Keep what a message says: each try sends the same, and no more alerts are added to it."""
        with self.database.writing() as connection:
            connection.execute("UPDATE messages SET content = ? WHERE id = ?", (json.dumps(content), number))

    def postpone(self, number: int, ready_at: float) -> None:
        """Let a message wait longer before its first try, as in quiet hours."""
        with self.database.writing() as connection:
            connection.execute(
                f"UPDATE messages SET ready_at = ?, next_try_at = max(next_try_at, ?) WHERE id = ? AND {UNSENT}",
                (ready_at, ready_at, number),
            )

    def waiting(self, now: float) -> list[Outgoing]:
        """The messages that are not ready yet: more alerts may be added to them."""
        return self._select(f"{UNSENT} AND ready_at > ?", (now,), "ready_at, id")

    def unsent(self) -> list[Outgoing]:
        """All messages that are neither sent nor given up, in the order of sending."""
        return self._select(UNSENT, (), "ready_at, id")

    def due(self, now: float) -> list[Outgoing]:
        """The next message of each action, if it may be sent now; call it again after a message was sent.

        An action gets its messages in the order in which they became ready: one that failed and is to be tried again
        later holds back the later ones of its action, not those of other actions.
        """
        return [message for message in self._heads() if message.due_at <= now]

    def next_due_at(self) -> float | None:
        """When the next message may be sent; None if there is none."""
        return min((message.due_at for message in self._heads()), default=None)

    def _heads(self) -> list[Outgoing]:
        """The message of each action that has to be sent first."""
        heads: dict[tuple[str, str], Outgoing] = {}
        for message in self.unsent():
            heads.setdefault((message.action, message.origin), message)
        return list(heads.values())

    def mark_sent(self, number: int, at: float | None = None) -> None:
        """Note that the action has accepted a message."""
        self._set(number, "sent_at = ?, tries = tries + 1, problem = NULL", (time.time() if at is None else at,))

    def mark_failed(self, number: int, problem: str, next_try_at: float) -> None:
        """Note why a try failed, and when the next one follows."""
        self._set(
            number, "problem = CAST(? AS TEXT), next_try_at = ?, tries = tries + 1", (stored_text(problem), next_try_at)
        )

    def give_up(self, number: int, problem: str | None = None, at: float | None = None) -> None:
        """Note that a message is not tried any more; without a `problem` it keeps that of its last try."""
        problem_text = None if problem is None else stored_text(problem)
        moment = time.time() if at is None else at
        self._set(number, "given_up_at = ?, problem = coalesce(CAST(? AS TEXT), problem)", (moment, problem_text))

    def _set(self, number: int, assignments: str, values: tuple[object, ...]) -> None:
        with self.database.writing() as connection:
            connection.execute(f"UPDATE messages SET {assignments} WHERE id = ? AND {UNSENT}", (*values, number))

    def find(self, number: int) -> Outgoing | None:
        """The message with this id; None if there is none, or it cannot be read."""
        return next(iter(self._select("id = ?", (number,), "id")), None)

    def about(self, alert: StoredAlert) -> list[Outgoing]:
        """All messages about an alert, the oldest first; it may have been added to one that was older than itself."""
        has_it = "EXISTS (SELECT 1 FROM json_each(members) WHERE value = ?)"
        condition = f"rule = CAST(? AS TEXT) AND ready_at >= ? AND json_valid(members) AND {has_it}"
        return self._select(condition, (stored_text(alert.rule), alert.began_at, alert.id), "id")

    def unsent_count(self) -> int:
        """How many messages are neither sent nor given up."""
        return count_unsent(self.database)

    def listing(self, since: float | None = None, rule: str | None = None, limit: int = MOST) -> list[Outgoing]:
        """Messages of every state that were created since a moment, the newest first."""
        conditions, values = ["1"], list[object]()
        if since is not None:
            conditions.append("created_at >= ?")
            values.append(since)
        if rule is not None:
            conditions.append("rule = CAST(? AS TEXT)")
            values.append(stored_text(rule))
        return self._select(" AND ".join(conditions), values, "id DESC", limit)

    def _select(self, condition: str, values: Sequence[object], order: str, limit: int | None = None) -> list[Outgoing]:
        limited = "" if limit is None else f"LIMIT {limit:d}"
        with self.database.reading() as connection:
            if not has_tables_of(connection, ALERTS_SINCE_VERSION):
                return []
            sql = f"SELECT {COLUMNS} FROM messages WHERE {condition} ORDER BY {order} {limited}"
            rows = connection.execute(sql, values).fetchall()
        return self.database.decode_rows(rows, outgoing_from_row)


def outgoing_from_row(row: sqlite3.Row) -> Outgoing:
    """Decode a row of `messages`."""
    try:
        return _outgoing(row)
    except RowDamaged as error:
        raise RowDamaged(f"message {quote_value(row['id'])}: {error}") from None


def _outgoing(row: sqlite3.Row) -> Outgoing:
    check_texts(row, ("key", "rule", "action", "origin", "members"), ("problem", "content"))
    moments = ("created_at", "ready_at", "next_try_at")
    check_moments(row, (*moments, "sent_at", "given_up_at"), moments)
    members = parse_json(row["members"], "members")
    if type(members) is not list or not {int}.issuperset(map(type, members)):
        raise RowDamaged(f"members is {quote_value(row['members'])}")
    if type(row["tries"]) is not int:
        raise RowDamaged(f"tries is {quote_value(row['tries'])}")
    return Outgoing(
        state=parse_member(State, row["state"], "state"),
        severity=parse_member(Severity, row["severity"], "severity"),
        members=tuple(members),
        content=None if row["content"] is None else parse_mapping(row["content"], "content"),
        **{name: row[name] for name in (*moments, "id", "key", "rule", "action", "origin")},
        **{name: row[name] for name in ("tries", "problem", "sent_at", "given_up_at")},
    )
