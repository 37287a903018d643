"""Check a whole store: pages, tables, references, and every stored value."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping

from jobtop.core.errors import BlockDamaged, StoreDamaged, StoreUnavailable
from jobtop.core.record import record
from jobtop.core.series.blocks import open_block
from jobtop.store.alerts.alert_rows import SELECT as SELECT_ALERTS
from jobtop.store.alerts.alert_rows import alert_from_row
from jobtop.store.alerts.marks import COLUMNS as MARK_COLUMNS
from jobtop.store.alerts.marks import decision_from_row
from jobtop.store.alerts.outbox import COLUMNS as MESSAGE_COLUMNS
from jobtop.store.alerts.outbox import outgoing_from_row
from jobtop.store.database import SETTING_ASIDE, TOO_BIG, Database, error_code, open_to_read
from jobtop.store.follows import COLUMNS as FOLLOW_COLUMNS
from jobtop.store.follows import follow_from_row
from jobtop.store.rows import event_from_row, is_number, job_from_row, mark_from_row
from jobtop.store.samples.head import DEVICES, HOSTS, JOBS, LAYOUTS, NAMED, Layout
from jobtop.store.samples.hosts import unpacked_detail
from jobtop.store.samples.snapshots import unpacked_members
from jobtop.store.upkeep.tables import Columns, expected_tables, triggers, wrong_tables, wrong_values
from jobtop.store.workflows import JOB_COLUMNS as WORKFLOW_JOB_COLUMNS
from jobtop.store.workflows import WORKFLOW_COLUMNS, planned_from_row, run_from_row, workflow_from_row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    Progress = Callable[[int, int], object]  # the number of blocks checked, and of all blocks

BLOCKS_AT_ONCE = 200
MOST_PROBLEMS = 100
OWNER_NAMES = {
    JOBS: "SELECT id, name FROM jobs WHERE seq = ?",
    NAMED: "SELECT id, jobs.name FROM named JOIN jobs ON jobs.seq = job_seq WHERE named.seq = ?",
    DEVICES: "SELECT NULL, kind || ' ' || name FROM devices WHERE seq = ?",
}
DECODERS: dict[str, tuple[str, Callable[[Any], object]]] = {  # tables with rows that are decoded to check them
    "jobs": ("SELECT * FROM jobs", job_from_row),
    "events": ("SELECT at, kind, detail FROM events", event_from_row),
    "log_marks": ("SELECT elapsed_seconds, stdout_bytes, stderr_bytes FROM log_marks", mark_from_row),
    "alerts": (SELECT_ALERTS, alert_from_row),
    "messages": (f"SELECT {MESSAGE_COLUMNS} FROM messages", outgoing_from_row),
    "alert_marks": (f"SELECT {MARK_COLUMNS} FROM alert_marks", decision_from_row),
    "container_follows": (f"SELECT {FOLLOW_COLUMNS} FROM container_follows", follow_from_row),
    "workflows": (f"SELECT {WORKFLOW_COLUMNS} FROM workflows", workflow_from_row),
    "workflow_runs": ("SELECT run_id, at, settings FROM workflow_runs", run_from_row),
    "workflow_jobs": (f"SELECT {WORKFLOW_JOB_COLUMNS} FROM workflow_jobs", planned_from_row),
}
JOINED = {"alerts": ("jobs", "hosts", "devices")}  # tables that the statement of a table reads too


@record
class Problem:
    """One defect of a store: its table, a description, and the job and the time span it affects, where known."""

    where: str
    what: str
    job_id: str | None = None
    name: str | None = None
    first_elapsed: float | None = None
    last_elapsed: float | None = None
    samples: int | None = None


def check(path: Path, progress: Progress | None = None) -> Iterator[Problem]:
    """Yield every defect of a store: in its pages, tables, references, values, blocks and snapshots."""
    try:
        database = open_to_read(path)
    except StoreDamaged as error:
        yield Problem("file", str(error).removesuffix(SETTING_ASIDE))
        return
    try:
        expected = expected_tables(database.version)
        with database.reading() as connection:
            for (message,) in connection.execute(f"PRAGMA integrity_check({MOST_PROBLEMS})").fetchall():
                lines = [line for line in message.splitlines() if line != "ok" and not line.startswith("***")]
                yield from (Problem("file", line) for line in lines)
            wrong = dict(wrong_tables(connection, expected))
            yield from (Problem(table, what) for table, what in wrong.items())
            for table, name in triggers(connection):
                yield Problem(table, f"it has the trigger {name}; jobtop makes none")
        readable = {table: columns for table, columns in expected.items() if table not in wrong}
        yield from _damaged_rows(database, readable)
        if "jobs" in readable:  # a damaged block is reported with the name of its job
            yield from _damaged_samples(database, readable, progress)
    except StoreDamaged as error:
        yield Problem("file", str(error).removesuffix(SETTING_ASIDE))
    except StoreUnavailable as error:
        if not isinstance(error.__cause__, sqlite3.Error) or error_code(error.__cause__) != TOO_BIG:
            raise
        yield from _too_large_rows(database, expected)
    finally:
        database.close()


def _too_large_rows(database: Database, tables: Mapping[str, Columns]) -> Iterator[Problem]:
    """Rows with a value too large for SQLite to hand out; nothing else is checked in such a store."""
    found: list[Problem] = []
    with database.reading() as connection:
        for table in tables:
            keys = [row[1] for row in connection.execute(f"PRAGMA table_info({table})") if row[5]]
            for key in connection.execute(f"SELECT {', '.join(keys)} FROM {table}").fetchall() if keys else ():
                condition = " AND ".join(f"{name} IS ?" for name in keys)
                try:
                    connection.execute(f"SELECT * FROM {table} WHERE {condition}", tuple(key)).fetchall()
                except sqlite3.DataError:
                    words = ", ".join(f"{name} {value}" for name, value in zip(keys, key, strict=True))
                    found.append(Problem(table, f"the row with {words} has a value that is too large to be read"))
                if len(found) == MOST_PROBLEMS:
                    break
    yield from found


def _damaged_rows(database: Database, tables: Mapping[str, Columns]) -> Iterator[Problem]:
    """Rows that refer to a missing job or host, and values that jobtop never writes."""
    with database.reading() as connection:
        if "jobs" in tables:
            yield from _orphaned_rows(connection)
        for table, (sql, decode) in DECODERS.items():
            if table in tables and tables.keys() >= {*JOINED.get(table, ())}:
                database.decode_rows(connection.execute(sql), decode)
    yield from (Problem("row", why) for why in database.damaged)
    for table in sorted(tables.keys() - DECODERS.keys()):
        with database.reading() as connection:
            wrong = list(wrong_values(connection, table, tables[table]))
        yield from (Problem(table, what) for what in wrong)


def _orphaned_rows(connection: sqlite3.Connection) -> Iterator[Problem]:
    """Rows that refer to a job or a host that is not in the store."""
    try:
        for table, row, parent, _ in connection.execute("PRAGMA foreign_key_check").fetchmany(MOST_PROBLEMS):
            yield Problem(table, f"row {row} belongs to one that is not in {parent}")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_ERROR:
            raise
        yield Problem("file", str(error))  # a referenced table lacks its key


def _damaged_samples(database: Database, tables: Mapping[str, Columns], progress: Progress | None) -> Iterator[Problem]:
    """Blocks and snapshots that cannot be decoded."""
    for layout in LAYOUTS:
        if layout.blocks in tables:
            yield from _damaged_blocks(database, layout, progress)
    if "snapshots" in tables:
        yield from _damaged_values(database, "snapshots", JOBS, "members", unpacked_members)
    if "host_details" in tables:
        yield from _damaged_values(database, "host_details", HOSTS, "detail", unpacked_detail)


def _damaged_blocks(database: Database, layout: Layout, progress: Progress | None) -> Iterator[Problem]:
    """Blocks that cannot be decoded; read in many short transactions, so that no writer waits long.

    Values of a wrong type are skipped: `wrong_values` reports them by their column.
    """
    last_id = done = 0
    columns = f"id, {layout.owner}, first_elapsed, last_elapsed, samples, data"
    with database.reading() as connection:
        total = connection.execute(f"SELECT count(*) FROM {layout.blocks}").fetchone()[0]
    while True:
        with database.reading() as connection:
            sql = f"SELECT {columns} FROM {layout.blocks} WHERE id > ? ORDER BY id LIMIT {BLOCKS_AT_ONCE}"
            rows = connection.execute(sql, (last_id,)).fetchall()
            problems = [
                Problem(layout.blocks, what, *_id_and_name(connection, layout, owner), first, end, samples)
                for _, owner, first, end, samples, data in rows
                if is_number(first) and is_number(end) and type(samples) is int and type(data) is bytes
                if (what := _block_damage(data, samples)) is not None
            ]
        yield from problems
        if not rows:
            return
        last_id, done = rows[-1][0], done + len(rows)
        if progress is not None:
            progress(done, total)


def _block_damage(data: bytes, samples: int) -> str | None:
    """Why a block cannot be decoded, or has another number of samples than its row says; None if it is intact."""
    try:
        block = open_block(data)
        block.decode()
    except BlockDamaged as error:
        return str(error)
    return None if block.count == samples else f"a block has {block.count} samples instead of {samples}"


def _damaged_values(
    database: Database, table: str, layout: Layout, column: str, unpacked: Callable[[bytes], object]
) -> Iterator[Problem]:
    """Values of a packed column that cannot be unpacked."""
    with database.reading() as connection:
        rows = connection.execute(f"SELECT {layout.owner}, elapsed, {column} FROM {table}")
        damaged = [(owner, elapsed) for owner, elapsed, data in rows if unpacked(data) is None]
        named = [(elapsed, _id_and_name(connection, layout, owner)) for owner, elapsed in damaged]
    for elapsed, id_and_name in named:
        at = elapsed if is_number(elapsed) else None
        yield Problem(table, "it is not what was written", *id_and_name, at, at)


def _id_and_name(connection: sqlite3.Connection, layout: Layout, owner: object) -> tuple[str | None, str | None]:
    """The id and the name of the job that a block belongs to, or the name of its device; (None, None) for a host."""
    if layout not in OWNER_NAMES:
        return None, None
    row = connection.execute(OWNER_NAMES[layout], (owner,)).fetchone()
    return (row[0], row[1]) if row and {str, type(None)}.issuperset(map(type, row)) else (None, None)
