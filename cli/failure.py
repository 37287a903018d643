"""The border where errors become one line on standard error and an exit code."""

import errno
import os
import sys

from jobtop.core.errors import ExitCode, JobtopError
from jobtop.core.units import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


NO_THREAD = "can't start new thread"  # what Python says where fork(2) would say EAGAIN
REMEDIES = {
    errno.ENOSPC: "make room where the output goes",
    errno.EDQUOT: "make room where the output goes",
    errno.EFBIG: "raise `ulimit -f`",
    errno.EMFILE: "raise `ulimit -n`",
    errno.ENFILE: "the system has no more open files to give",
}


def guarded(call: "Callable[[], int | None]") -> int | None:
    """What the call returns; for whatever goes wrong in it, an exit code, and the words on standard error."""
    try:
        code = call()
        sys.stdout.flush()
    except JobtopError as error:
        return complain(str(error), error.exit_code)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # Whoever read our output has left; Python would complain once more when it closes stdout.
        discard_output()
        return 141
    except OSError as error:
        remedy = REMEDIES.get(error.errno or 0)
        if remedy is None:
            from jobtop.core.run.start_problems import missing_part

            part = missing_part()
            return _internal(error) if part is None else complain(part, ExitCode.FAILED)
        discard_output()
        return complain(f"{os.strerror(error.errno or 0)}: {remedy}", ExitCode.FAILED)
    except Exception as error:  # noqa: BLE001 - a user never sees a traceback
        if isinstance(error, RuntimeError) and str(error) == NO_THREAD:
            from jobtop.core.run.start_problems import TOO_MANY

            return complain(TOO_MANY, ExitCode.FAILED)
        return _internal(error)
    return code


def discard_output() -> None:
    """Let what is still to be written to standard output vanish, or appear among the errors."""
    try:
        null = os.open(os.devnull, os.O_WRONLY)
    except OSError:  # no more files may be open, or there is no /dev/null
        null = 2
    os.dup2(null, 1)


def complain(text: str, code: int) -> int:
    """One line, whatever the text holds, and the code again."""
    try:
        print(f"jobtop: {printable(text)}", file=sys.stderr, flush=True)
    except OSError:  # standard error is gone: nobody is listening
        return code
    return code


def _internal(error: Exception) -> int:
    """Our own mistake: one line for the user, the traceback into the log."""
    import traceback

    from jobtop.core.journal import write
    from jobtop.core.paths import StatePaths, hostname, state_dir

    try:
        log = StatePaths(state_dir(os.environ), hostname()).log
        write(log, "ERROR", "".join(traceback.format_exception(error)).rstrip())
        where = f"; the details are in {log}"
    except (OSError, JobtopError):
        where = ""
    return complain(f"a mistake in jobtop itself: {type(error).__name__}: {error}{where}", ExitCode.FAILED)
