"""The files in `specs`, which are needed to run jobs again: the old ones are removed once a day."""

from __future__ import annotations

import os
import time
from contextlib import suppress

from jobtop.core.errors import StoreError
from jobtop.core.job_id import JobId, is_job_id
from jobtop.core.state_files import remove_file, touch_state_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jobtop.core.paths import StatePaths

DAY_SECONDS = 86400.0


def sweep_specs(paths: StatePaths, days: float) -> None:
    """Remove the files of old jobs, at most once a day: they contain environments, with secrets."""
    names, now = paths.names, time.time()
    swept = f"{names.specs}/.swept"
    try:
        if os.path.lexists(swept) and now - os.lstat(swept).st_mtime < DAY_SECONDS:
            return
        touch_state_file(swept)
        stems = (name.removesuffix(".json") for name in os.listdir(names.specs) if name.endswith(".json"))
        ages = {JobId(stem): now - os.lstat(f"{names.specs}/{stem}.json").st_mtime for stem in stems if is_job_id(stem)}
        old = {job_id: age for job_id, age in ages.items() if age > min(days, 1) * DAY_SECONDS}
        waiting = ids_waiting(paths) if old else frozenset()
        for job_id, age in old.items():
            directory = names.job(job_id)
            never_started = age > DAY_SECONDS and os.path.isdir(directory) and not os.listdir(directory)
            if (age > days * DAY_SECONDS or never_started) and job_id not in waiting:
                remove_file(names.spec(job_id))
            if never_started:
                with suppress(OSError):
                    os.rmdir(directory)
    except (OSError, StoreError):  # the next sweep tries again
        return


def ids_waiting(paths: StatePaths) -> frozenset[str]:
    """The ids of the jobs that have not started yet: their files are kept, however old they are."""
    if not os.path.exists(paths.names.store):
        return frozenset()
    from jobtop.store.database import open_to_read
    from jobtop.store.queue_rows import unstarted_ids

    database = open_to_read(paths.names.store)
    try:
        return unstarted_ids(database)
    finally:
        database.close()
