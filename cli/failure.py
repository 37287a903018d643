"""The border where errors become one line on standard error and an exit code."""

import errno
import os
import sys

from jobtop.core.errors import ExitCode, JobtopError
from jobtop.core.units import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


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
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 141
    except OSError as error:
        remedy = REMEDIES.get(error.errno or 0)
        if remedy is None:
            return _internal(error)
        os.dup2(os.open(os.devnull, os.O_WRONLY) if error.errno != errno.EMFILE else 2, 1)
        return complain(f"{os.strerror(error.errno or 0)}: {remedy}", ExitCode.FAILED)
    except Exception as error:  # noqa: BLE001 - a user never sees a traceback
        return _internal(error)
    return code


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
