"""Prints the end of a job's output after the console has closed, so that it stays in the terminal's scrollback."""

from __future__ import annotations

import os
import shutil
import sys

from jobtop.core.text.terminal_text import line_runs, printed
from jobtop.core.units import format_bytes
from jobtop.store.output.logs import open_log
from jobtop.store.output.text import Output, Row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jobtop.cli.app import App
    from jobtop.core.model import Job
    from jobtop.core.text.terminal_text import TextStyle

MOST_LINES = 200  # a longer output is cut to its last lines
LAST_LINES = 20
STDERR = 1


def print_last_output(app: App, job: Job) -> None:
    """Print a short output whole, and of a long one its last lines.

    Standard error that is no terminal has got its output while the job ran. A terminal that was closed is no error.
    """
    try:
        output = Output(app.paths.job(job.id), (0, STDERR) if os.isatty(2) else (0,))
        output.refresh()
        rows = output.rows_before(output.size, MOST_LINES + 1)
        if len(rows) > MOST_LINES:
            rows = rows[-LAST_LINES:]
            _print(0, f"… only the last {LAST_LINES} lines; all of them: jobtop logs {job.id[:8]}")
        for row, style in zip(rows, output.styles(rows), strict=True):
            _print(row.stream, row_text(row, style, app.uses_color(row.stream + 1)))
    except OSError:
        return


def row_text(row: Row, style: TextStyle, color: bool) -> str:
    """A row in its colours; other control characters are shown, not obeyed."""
    if row.left_out is not None:
        return f"[jobtop: {format_bytes(row.left_out)} left out here: run.log_max]"
    return printed(line_runs(row.raw, style)[0], color)


def _print(stream: int, line: str) -> None:
    print(line, file=sys.stderr if stream == STDERR else sys.stdout, flush=True)


def copy_output(app: App, job: Job) -> None:
    """Copy the job's logs to the terminal, where they would have gone without the console."""
    for stream in (0, STDERR):
        if os.isatty(stream + 1):
            copy_log(app, job, stream)


def copy_log(app: App, job: Job, stream: int) -> None:
    """Copy one log of a job, byte by byte, to our own stream."""
    target = sys.stderr if stream == STDERR else sys.stdout
    try:
        with open(open_log(app.paths.job(job.id), stream), "rb") as log:
            shutil.copyfileobj(log, target.buffer)
            target.flush()
    except OSError:
        return
