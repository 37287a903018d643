"""`jobtop logs`: prints the output of a job, all of it or the last lines, and follows it."""

import os
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import click

from jobtop.cli.app import App
from jobtop.cli.completion import complete_job_id
from jobtop.cli.text.output_lines import LinePrinter
from jobtop.cli.text.sample_text import deleted_text
from jobtop.cli.text.tables import STREAM, stream_format_options
from jobtop.cli.values import Count
from jobtop.core.errors import StoreBusy, UnknownJob, UsageError
from jobtop.core.model import Job, Kept
from jobtop.core.paths import StatePaths
from jobtop.core.run.terminal_input import has_terminal
from jobtop.core.text.output_streams import PlainStream, TerminalStream
from jobtop.core.text.terminal_text import style_after
from jobtop.lifecycle.kinds.registry import why_no_output
from jobtop.lifecycle.queue import Queue
from jobtop.lifecycle.reconcile import current
from jobtop.lifecycle.wait import Looks, unattended
from jobtop.store.jobs import Jobs
from jobtop.store.output.logs import CHUNK_BYTES, STREAMS, extent_at, is_one_log, log_path, open_log, tail_start
from jobtop.store.output.whole import left_out_line
from jobtop.store.references import FORMS_HELP

POLL_SECONDS = 0.2
NO_OUTPUT_SECONDS = 3.0
NO_OUTPUT_HINT = (
    "no output yet; many programs buffer their output unless it goes to a terminal"
    " (PYTHONUNBUFFERED=1, stdbuf -oL, jobtop run --pty)"
)


@click.command(epilog=FORMS_HELP)
@click.argument("reference", metavar="ID", shell_complete=complete_job_id)
@click.option("-f", "--follow", is_flag=True, help="Print new output until the job has ended.")
@click.option("--stdout", "stdout", is_flag=True, help="Only the job's standard output.")
@click.option("--stderr", "stderr", is_flag=True, help="Only the job's standard error.")
@click.option("--tail", type=Count(0), metavar="N", help="Only the last N lines of each.")
@click.option("--raw", is_flag=True, help="Print the bytes of the output unchanged, with all control characters.")
@stream_format_options("Print the lines as a JSON list; with --follow as JSON Lines.")
@click.pass_obj
def logs(app: App, /, reference: str, follow: bool, tail: int | None, raw: bool, style: str, **chosen: bool) -> int:
    """Print a job's output: its standard output to standard output, its standard error to standard error.

    On a terminal the output has its colours; no other control sequence has an effect. In a pipe or a file it has
    none.
    """
    style = ("jsonl" if follow else "json") if style == STREAM else style
    if follow and style == "json":
        raise UsageError("--follow needs --format jsonl: --format json is one list")
    jobs, job = app.find(reference)
    directory = StatePaths(jobs.database.path.parent, job.host).job(job.id)
    if has_not_begun(job, directory) and not wait_for_start(app, jobs, job, directory, follow):
        return 0
    if (why := no_output_reason(jobs, job, directory)) is not None:
        raise UnknownJob(why)
    if chosen["stderr"] and not chosen["stdout"] and is_one_log(directory):
        app.warn(f"stdout and stderr of this job are one log: jobtop logs {job.id[:8]}")
        return 0
    numbers = [number for number, stream in enumerate(STREAMS) if chosen[stream] or not any(chosen.values())]
    printer = None if style == "table" else LinePrinter(job, style, jobs.log_marks(job), follow, raw)
    readers: list[LogReader] = [
        LogReader(directory, number, writer(app, number + 1, raw))
        if printer is None
        else LineReader(directory, number, printer)
        for number in numbers
    ]
    for reader in readers:
        if tail is not None:
            reader.skip_to(tail_start(directory, reader.stream, tail))
    marks = jobs.log_marks(job) if tail is None and len(readers) == 2 else []
    for _, stdout_bytes, stderr_bytes in marks:
        readers[0].print(stdout_bytes)
        readers[1].print(stderr_bytes)
    for reader in readers:
        reader.print(None)
    if follow:
        follow_output(app, jobs, job, directory, readers)
    for reader in readers:
        reader.finish()
    if printer is not None:
        printer.close()
    warn_if_empty(app, job, directory)
    return 0


def warn_if_empty(app: App, job: Job, directory: Path) -> None:
    """Warn that a job has written nothing, so that an empty answer is not taken for a fault."""
    if not has_written(directory):
        app.warn(f"job {job.id[:8]} {'wrote no output' if job.status.ended else 'has written no output yet'}")


def writer(app: App, descriptor: int, raw: bool) -> TerminalStream | PlainStream | None:
    """Return what turns output into text for a descriptor: a terminal, a pipe or a file; None for unchanged bytes."""
    if raw:
        return None
    color = app.uses_color(descriptor)
    return TerminalStream(color) if color or os.isatty(descriptor) else PlainStream()


def follow_output(app: App, jobs: Jobs, job: Job, directory: Path, readers: Sequence["LogReader"]) -> None:
    """Print new output until the job has ended; warn once if there is none after some seconds."""
    looks = Looks(jobs.database.path, app.config.switch("store.network"))
    since, has_checked = time.monotonic(), False
    while True:
        has_job_ended = looks.is_due() and has_ended(app, jobs, job)
        for reader in readers:
            reader.print(None)
        if has_job_ended:
            return
        if not has_checked and time.monotonic() - since >= NO_OUTPUT_SECONDS:
            has_checked = True
            if not has_written(directory) and not has_terminal(directory):
                app.warn(NO_OUTPUT_HINT)
        time.sleep(POLL_SECONDS)


def no_output_reason(jobs: Jobs, job: Job, directory: Path) -> str | None:
    """Return why there is no output of a job here; None if there may be some."""
    if (why := why_no_output(job)) is not None:
        return f"job {job.id[:8]} has no output here: {why}"
    if directory.is_dir():
        return None
    if job.kept is Kept.RECORD:
        deleted = deleted_text(jobs.database, job)
        return f"the output of job {job.id[:8]} was {deleted} (jobtop pin keeps all data)"
    return f"the output of job {job.id[:8]} is not beside its store (it ran on {job.host})"


def has_not_begun(job: Job, directory: Path) -> bool:
    """Return whether a queued job has not been started yet."""
    return job.queue is not None and job.start_time is None and not directory.is_dir()


def wait_for_start(app: App, jobs: Jobs, job: Job, directory: Path, follow: bool) -> bool:
    """Warn that a job has not started; if following, wait for it. Return False if there is nothing to print."""
    short, queue, has_warned = job.id[:8], Queue(jobs, app.paths), False
    if not job.status.ended:
        what = "its output follows when it has started" if follow else "it has no output yet"
        app.warn(f"job {short} is queued: {what} (jobtop queue says why)")
    looks = Looks(jobs.database.path, app.config.switch("store.network"))
    while follow and has_not_begun(job, directory) and not job.status.ended:
        if not has_warned and (why := unattended(queue, [job])) is not None:
            has_warned = True
            app.warn(why)
        looks.wait(POLL_SECONDS)
        with suppress(StoreBusy):  # try again later
            job = current(jobs, app.paths, job)
    if job.status.ended and has_not_begun(job, directory):
        app.warn(f"job {short} was not run, so there is no output: {job.reason}")
    return not has_not_begun(job, directory)


def has_written(directory: Path) -> bool:
    """Return whether a job has written any output."""
    paths = [log_path(directory, number) for number in range(len(STREAMS))]
    return any(path.stat().st_size for path in paths if path.exists())


def has_ended(app: App, jobs: Jobs, job: Job) -> bool:
    """Return whether a job will write no more output."""
    try:
        found = current(jobs, app.paths, job)
    except StoreBusy:  # try again later
        return False
    return found.settled or (found.status.ended and "left_running" not in found.flags)


class LogReader:
    """Prints one log file from an offset on, and how much is missing where the middle of a long log was dropped."""

    def __init__(self, directory: Path, stream: int, writer: TerminalStream | PlainStream | None) -> None:
        self.directory, self.stream, self.writer = directory, stream, writer
        self.offset = 0

    def skip_to(self, offset: int) -> None:
        """Start at an offset, with the colours that are set there."""
        self.offset = offset
        with suppress(OSError), open(open_log(self.directory, self.stream), "rb") as log:
            log.seek(max(0, offset - CHUNK_BYTES))
            style = style_after(log.read(min(offset, CHUNK_BYTES)))
            if isinstance(self.writer, TerminalStream):
                self.writer.begin_with(style)

    def print(self, until: int | None) -> None:
        """Print from the current offset to `until`, or to the end."""
        try:
            fd = open_log(self.directory, self.stream)
        except OSError:
            return
        try:
            end = os.fstat(fd).st_size if until is None else min(until, os.fstat(fd).st_size)
            while self.offset < end:
                self._print_extent(fd, end)
        finally:
            os.close(fd)

    def _print_extent(self, fd: int, end: int) -> None:
        extent = extent_at(fd, self.offset, end)
        if extent.is_hole:
            self.offset = extent.stop
            self._write_hole(extent.stop - extent.start)
            return
        data = os.pread(fd, min(CHUNK_BYTES, extent.stop - self.offset), self.offset)
        self.offset += len(data)
        self._write(data)

    def _write_hole(self, size: int) -> None:
        self._write(left_out_line(size))

    def finish(self) -> None:
        """Print what waited for more: the start of an escape sequence or of a character."""
        self._write(b"", is_end=True)

    def _write(self, data: bytes, is_end: bool = False) -> None:
        if self.writer is not None:
            made = self.writer.feed(data, is_end)
            data = made.encode("utf-8", "replace") if isinstance(made, str) else made
        stream = sys.stdout.buffer if self.stream == 0 else sys.stderr.buffer
        stream.write(data)
        stream.flush()


class LineReader(LogReader):
    """Hands each line of one log file to a printer of lines, with the offset in the log where the line ends."""

    def __init__(self, directory: Path, stream: int, printer: LinePrinter) -> None:
        super().__init__(directory, stream, None)
        self.printer = printer
        self._begun = b""  # a line that has not ended yet

    def _write(self, data: bytes, is_end: bool = False) -> None:
        *lines, self._begun = (self._begun + data).split(b"\n")
        end = self.offset - len(self._begun) - sum(len(line) + 1 for line in lines)
        for line in lines:
            end += len(line) + 1
            self.printer.print_line(self.stream, line, end)
        if is_end and self._begun:
            self.printer.print_line(self.stream, self._begun, self.offset)
            self._begun = b""
        self.printer.flush()

    def _write_hole(self, size: int) -> None:
        if self._begun:
            self.printer.print_line(self.stream, self._begun, self.offset - size)
            self._begun = b""
        self.printer.print_hole(self.stream, size)
