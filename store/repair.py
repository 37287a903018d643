"""Repair: set a damaged store aside, and open a store again that was deleted or replaced while it was open."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import suppress

from jobtop.core.errors import StoreUnavailable
from jobtop.core.state_files import make_state_dirs
from jobtop.store.creation import make_empty
from jobtop.store.database import DAMAGED, Database, connect, error_code, locked, open_current, open_once, open_to_write
from jobtop.store.files import JOURNALS, files_of, is_cut, remove_journals, suspicion
from jobtop.store.schema import VERSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jobtop.core.paths import StatePaths


def open_repaired(paths: StatePaths, network: bool | None = None) -> Database:
    """The store after damage was found: if it fails its check it is renamed, and a new one is begun."""
    aside = set_aside_if_damaged(paths)
    database = open_current(paths, network)
    if aside is not None:
        kept = os.path.basename(aside)
        database.notice = f"{paths.names.store} was damaged: it is kept as {kept}, and a new history was started"
    return database


def set_aside_if_damaged(paths: StatePaths) -> str | None:
    """Rename a store that fails its check a second time, under the lock; its new name, None if it was sound."""
    store = paths.names.store
    with locked(paths.names):
        with suppress(OSError):
            os.unlink(suspicion(store))
        if _is_sound(store):
            return None
        stamp, number = time.strftime("%Y%m%dT%H%M%S"), 0
        aside = f"{store}.damaged-{stamp}"
        while os.path.exists(aside):
            number += 1
            aside = f"{store}.damaged-{stamp}-{number}"
        for suffix in ("", *JOURNALS):
            if os.path.exists(f"{store}{suffix}"):
                os.rename(f"{store}{suffix}", f"{aside}{suffix}")
        make_empty(store)  # at once: other processes are about to open it
        return aside


def open_again(old: Database, paths: StatePaths, network: bool | None) -> Database:
    """Open the store that replaced an open one, without the journals of the old one."""
    store = paths.names.store
    try:
        make_state_dirs(paths.names.root)
        with locked(paths.names):
            file, wal = files_of(store)
            old.save_wal()
            if file != old.files[0] and file is not None and wal is not None and wal == old.files[1]:
                remove_journals(store)  # they are of the old file: SQLite would put its pages into the new one
            elif file == old.files[0] and not is_cut(store):
                fresh = open_once(paths, network, old.patience_seconds)
                with fresh.alone() as connection:
                    connection.execute(
                        f"PRAGMA user_version = {VERSION}"
                    )  # a write: processes with the old WAL see that there is a new one
                return fresh
    except OSError as error:
        raise StoreUnavailable(f"{paths.names.root}: {os.strerror(error.errno or 0)}") from error
    return open_to_write(paths, network, old.patience_seconds)


def _is_sound(path: str) -> bool:
    """Whether the file is whole, or at least not known to be damaged."""
    if not os.path.exists(path):
        return True
    if is_cut(path):
        return False
    try:
        connection = connect(path, "mode=rw")
        try:
            return str(connection.execute("PRAGMA quick_check(1)").fetchone()[0]) == "ok"
        finally:
            connection.close()
    except sqlite3.Error as error:
        return error_code(error) not in DAMAGED
