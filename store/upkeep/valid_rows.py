"""Which rows of another store may be copied: SQL conditions, and the functions that they call."""

from __future__ import annotations

from jobtop.core.alerts.model import RuleKind, Severity, State
from jobtop.core.errors import BlockDamaged
from jobtop.core.series.blocks import MAX_SECONDS, decode
from jobtop.store.rows import EARLIEST, LARGEST, LATEST, MOST_TEXT_CHARACTERS
from jobtop.store.samples.head import LAYOUTS
from jobtop.store.samples.packed import unpack

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

STORED_AS = {"INTEGER": "'integer'", "REAL": "'real', 'integer'", "TEXT": "'text'", "BLOB": "'blob'"}
IS_OBJECT = "iif(json_valid(detail), json_type(detail), '') = 'object'"
HAS_VALID_SPAN = " AND ".join(
    f"{name} BETWEEN -{MAX_SECONDS} AND {MAX_SECONDS}" for name in ("first_elapsed", "last_elapsed")
)
# SQLite may evaluate conditions in any order: `iif` keeps values of another type from the functions.
IS_BLOCK = "iif(typeof(data) = 'blob' AND typeof(samples) = 'integer', is_block(data, samples), 0)"
ALERT_TEXTS = ("rule", "text", "note", "acknowledged_by")
VALID_ROW = {
    "events": (IS_OBJECT, f"at BETWEEN {EARLIEST} AND {LATEST}"),
    "alerts": (
        IS_OBJECT,
        *(
            f"({name} IS NULL OR {name} BETWEEN -{LARGEST} AND {LARGEST})"
            for name in ("value", "worst", "level", "step")
        ),
        *(f"coalesce(length({name}), 0) <= {MOST_TEXT_CHARACTERS}" for name in ALERT_TEXTS),
        *(
            f"({name} IS NULL OR {name} BETWEEN {EARLIEST} AND {LATEST})"
            for name in ("began_at", "fired_at", "resolved_at", "acknowledged_at")
        ),
        *(
            f"{name} IN ({', '.join(repr(str(word)) for word in words)})"
            for name, words in {"state": State, "severity": Severity, "kind": RuleKind}.items()
        ),
    ),
    "log_marks": (f"elapsed_seconds BETWEEN -{MAX_SECONDS} AND {MAX_SECONDS}",),
    **{layout.blocks: (IS_BLOCK, HAS_VALID_SPAN) for layout in LAYOUTS},
    "snapshots": ("iif(typeof(members) = 'blob', is_packed(members), 0)",),
    "host_details": ("iif(typeof(detail) = 'blob', is_packed(detail), 0)",),
}


def register_functions(connection: sqlite3.Connection) -> None:
    """Give a connection the functions that the conditions call."""
    connection.create_function("is_block", 2, _is_block)
    connection.create_function("is_packed", 1, _is_packed)


def valid_row(connection: sqlite3.Connection, table: str, columns: str) -> str:
    """The SQL condition for rows that this store's table accepts and that can be read again."""
    copied = set(columns.split(", "))
    conditions = [*VALID_ROW.get(table, ())]
    for row in connection.execute(f"PRAGMA main.table_info({table})"):
        if row["name"] in copied and row["type"] in STORED_AS:
            kinds = STORED_AS[row["type"]] if row["notnull"] else f"{STORED_AS[row['type']]}, 'null'"
            conditions.append(f"typeof({row['name']}) IN ({kinds})")
    return " AND ".join(conditions)


def _is_block(data: bytes, samples: int) -> bool:
    """Whether a block has a right checksum, table and times, and as many samples as its row says.

    Decoding all columns would take twenty times as long, and every reader of a column checks it.
    """
    try:
        return len(decode(data, ()).elapsed) == samples
    except BlockDamaged:
        return False


def _is_packed(data: bytes) -> bool:
    return unpack(data) is not None
