"""The fastest way to start `jobtop run`: starts the shim first, imports the rest meanwhile, never imports click."""

import gc
import os

from jobtop.core.run.supervisor import Supervisor, open_terminal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def fast_run(arguments: "Sequence[str]") -> tuple[int | None, Supervisor | None]:
    """Return the exit code of `run`; None, and a waiting shim, if click has to parse these arguments."""
    gc.disable()
    supervisor = early_supervisor("--pty" in arguments or os.isatty(1))
    from jobtop.cli.failure import run_reporting_errors
    from jobtop.cli.run.launch import run_from_arguments

    return run_reporting_errors(lambda: run_from_arguments(arguments, supervisor)), supervisor


def early_supervisor(with_terminal: bool) -> Supervisor | None:
    """Start a shim that waits for its job: it starts while jobtop imports the rest, and exits if no job comes."""
    try:
        return Supervisor(open_terminal() if with_terminal else None)
    except OSError:  # `run` tries again and reports the reason
        return None
