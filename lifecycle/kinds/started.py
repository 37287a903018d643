"""Creates `started` for a job without a shim, as a shim would."""

from __future__ import annotations

import os

from jobtop.core.errors import StoreUnavailable
from jobtop.core.shim.facts import text_of
from jobtop.core.state_files import make_state_dirs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jobtop.core.job_id import JobId
    from jobtop.core.model import Identity
    from jobtop.core.paths import StatePaths
    from jobtop.core.shim.facts import Started


def create_started(paths: StatePaths, job_id: JobId, root: Identity, start_time: float, start_boottime: float) -> bytes:
    """Create `started` for a job with its main process as root process; return the text of the file.

    FileExistsError if the job has started before.
    """
    process = f"{root.pid} {root.start}"
    facts: Started = {
        "version": 1,
        "boot": root.boot,
        "shim": process,
        "main": process,
        "start": f"{start_time:.6f} {start_boottime:.6f}",
        "limits": [],
        "subreaper": 0,
        "cgroups": [],
    }
    text, directory = text_of(facts), paths.job(job_id)
    try:
        make_state_dirs(paths.root, paths.jobs, directory)
        with open(directory / "started", "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(text)
    except FileExistsError:
        raise
    except OSError as error:
        why = f"{paths.jobs}: {os.strerror(error.errno or 0)}"
        raise StoreUnavailable(f"{why}; set JOBTOP_HOME to a directory that can be written") from error
    return text
