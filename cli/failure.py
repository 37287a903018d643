"""Turns exceptions into one line on standard error and an exit code."""

import errno
import os
import sys

from jobtop.core.errors import ExitCode, JobtopError
from jobtop.core.units import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


NO_THREAD_MESSAGE = "can't start new thread"  # Python's message where fork(2) fails with EAGAIN
MOST_BUG_CHARACTERS = 200
REMEDIES = {
    errno.ENOSPC: "make room where the output goes",
    errno.EDQUOT: "make room where the output goes",
    errno.EFBIG: "raise `ulimit -f`",
    errno.EMFILE: "raise `ulimit -n`",
    errno.ENFILE: "the system has no more open files to give",
}


def run_reporting_errors(call: "Callable[[], int | None]") -> int | None:
    """Return what the call returns; if it raises, print the error to standard error and return an exit code."""
    try:
        code = call()
        sys.stdout.flush()
    except JobtopError as error:
        return report_failure(str(error), error.exit_code)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader of our output has gone. Python would report it once more when it closes stdout.
        discard_output()
        return 141
    except OSError as error:
        remedy = REMEDIES.get(error.errno or 0)
        if remedy is None:
            from jobtop.core.run.start_problems import missing_part

            part = missing_part()
            return _report_bug(error) if part is None else report_failure(part, ExitCode.FAILED)
        discard_output()
        return report_failure(f"{os.strerror(error.errno or 0)}: {remedy}", ExitCode.FAILED)
    except Exception as error:  # noqa: BLE001 - a user never sees a traceback
        if isinstance(error, RuntimeError) and str(error) == NO_THREAD_MESSAGE:
            from jobtop.core.run.start_problems import TOO_MANY

            return report_failure(TOO_MANY, ExitCode.FAILED)
        return _report_bug(error)
    return code


def discard_output() -> None:
    """Redirect standard output to /dev/null, or to standard error if /dev/null cannot be opened."""
    try:
        null = os.open(os.devnull, os.O_WRONLY)
    except OSError:  # no more files may be open, or there is no /dev/null
        null = 2
    os.dup2(null, 1)


def report_failure(text: str, code: int) -> int:
    """Print one error line to standard error and return the exit code."""
    print_error(f"jobtop: {printable(text)}")
    return code


def print_error(text: str) -> None:
    """Print text to standard error; do nothing if standard error is closed."""
    try:
        print(text.replace("\n", "\r\n") + "\r" if is_raw_terminal(2) else text, file=sys.stderr, flush=True)
    except OSError:
        return


def is_raw_terminal(fd: int) -> bool:
    """Return whether a line feed alone does not return to column 0: `run` passes all keys to a job."""
    if not os.isatty(fd):
        return False
    import termios

    return not termios.tcgetattr(fd)[1] & termios.OPOST


def _report_bug(error: Exception) -> int:
    """Report a bug in jobtop: one line for the user, the traceback in the log."""
    import traceback

    from jobtop.core.journal import write
    from jobtop.core.paths import StatePaths, hostname, state_dir

    try:
        log = StatePaths(state_dir(os.environ), hostname()).log
        write(log, "ERROR", "".join(traceback.format_exception(error)).rstrip())
        where = f"; the details are in {log}"
    except (OSError, JobtopError):
        where = ""
    text = str(error)
    shown = text if len(text) <= MOST_BUG_CHARACTERS else text[:MOST_BUG_CHARACTERS] + "…"
    return report_failure(f"a bug in jobtop: {type(error).__name__}: {shown}{where}", ExitCode.FAILED)
