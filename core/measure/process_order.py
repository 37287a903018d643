"""The processes of a job in the order in which they are shown: below their parents, or sorted. Pure."""

from __future__ import annotations

from jobtop.core.measure.snapshot import ProcessRow

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

SORTS: dict[str, Callable[[ProcessRow], float]] = {
    "cpu": lambda row: row.cpu_percent or 0.0,
    "memory": lambda row: row.memory_bytes or 0,
    "threads": lambda row: row.threads or 0,
    "age": lambda row: row.age_seconds or 0.0,
    "pid": lambda row: row.pid,
}


def family(rows: Iterable[ProcessRow]) -> list[tuple[int, ProcessRow]]:
    """Each row with its depth in the tree, children by pid; every row exactly once."""
    known = {row.pid: row for row in rows}
    below: dict[int | None, list[ProcessRow]] = {}
    for row in sorted(known.values(), key=lambda row: -row.pid):
        is_child = row.parent in known and row.parent != row.pid
        below.setdefault(row.parent if is_child else None, []).append(row)
    found: list[tuple[int, ProcessRow]] = []
    waiting = [(0, row) for row in below.pop(None, [])]
    while waiting or below:
        if not waiting:  # a pid that was reused between two readings can make a ring
            waiting = [(0, row) for row in below.pop(next(iter(below)))]
        depth, row = waiting.pop()
        found.append((depth, row))
        waiting += [(depth + 1, child) for child in below.pop(row.pid, [])]
    return found
