"""Copy a store while other processes write it."""

from __future__ import annotations

import sqlite3

from jobtop.core.errors import StoreDamaged, StoreUnavailable
from jobtop.store.database import REMEDIES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from jobtop.store.database import Database

    Progress = Callable[[int, int], object]  # the number of pages copied, and of all pages

PAGES_AT_ONCE = 1000


def backup(source: Database, target: Path, progress: Progress | None = None) -> None:
    """Copy a store as it is at one moment, and check the copy: StoreDamaged if the check fails."""
    with source.reading() as connection:
        # A statement fixes what this transaction sees. Otherwise each write of another process restarts the copy.
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()

        def report(_: int, left: int, total: int) -> None:
            if progress is not None:
                progress(total - left, total)

        copy = sqlite3.connect(target, isolation_level=None)
        try:
            connection.backup(copy, pages=PAGES_AT_ONCE, progress=report, sleep=0)
            answer = copy.execute("PRAGMA quick_check(1)").fetchone()[0]
        except sqlite3.Error as error:
            if error.sqlite_errorcode in REMEDIES:
                raise StoreUnavailable(f"{target}: {REMEDIES[error.sqlite_errorcode]}") from error
            raise
        finally:
            copy.close()
    if answer != "ok":
        raise StoreDamaged(f"{target}: the copy is damaged ({answer}); check the store: jobtop store check")
