"""Opens the store of this host for a reader: reconciled first, or read-only where it cannot be written."""

from __future__ import annotations

import os

from jobtop.core.errors import StoreDamaged, StoreError, StoreUnavailable, UnknownJob
from jobtop.store.jobs import Jobs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from jobtop.core.config import Config
    from jobtop.core.paths import StatePaths
    from jobtop.store.database import Database


def has_store(paths: StatePaths) -> bool:
    """Return whether anything was ever recorded on this host."""
    for path in (paths.store, paths.unrecorded):
        try:
            os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise StoreUnavailable(f"{path}: {os.strerror(error.errno or 0)}") from error
        return True
    return False


def open_jobs(paths: StatePaths, config: Config, warn: Callable[[str], None]) -> Jobs:
    """Open and reconcile this host's store; opened read-only, with a warning, where it cannot be written."""
    from jobtop.store.database import open_to_read

    if not has_store(paths):
        raise UnknownJob(f"no job has been recorded in {paths.store} yet (jobtop run -- COMMAND records one)")
    try:
        database = _open_reconciled(paths, config)
    except StoreUnavailable as error:
        try:
            database = open_to_read(paths.store)
        except StoreError:
            raise error from None
        warn(database.notice or f"reading only: {error}")
        return Jobs(database)
    if database.notice:
        warn(database.notice)
    return Jobs(database)


def _open_reconciled(paths: StatePaths, config: Config) -> Database:
    """Open the store for writing, repaired if it is damaged, and record the ends of jobs without a recorder."""
    from jobtop.lifecycle.reconcile import reconcile
    from jobtop.lifecycle.spec_files import sweep_specs
    from jobtop.store.database import open_to_write
    from jobtop.store.repair import open_repaired

    network = config.switch("store.network")
    database = open_to_write(paths, network)
    try:
        try:
            reconcile(Jobs(database), paths)
        except StoreDamaged:
            database.close()
            database = open_repaired(paths, network)
            reconcile(Jobs(database), paths)
        sweep_specs(paths, config.number("store.spec_days"))
    except BaseException:
        database.close()
        raise
    return database
