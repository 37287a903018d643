"""`jobtop logs`: the output of a job, whole, its end, or as it comes."""

import codecs
import os
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import click

from jobtop.cli.app import App
from jobtop.cli.completion import job_ids
from jobtop.core.errors import StoreBusy, UnknownJob
from jobtop.core.model import Job, Kept
from jobtop.core.paths import StatePaths
from jobtop.core.units import format_bytes, printable
from jobtop.lifecycle.kinds.registry import kind_of
from jobtop.lifecycle.queue import Queue
from jobtop.lifecycle.reconcile import current
from jobtop.lifecycle.wait import Looks, unattended
from jobtop.store.jobs import Jobs
from jobtop.store.output.logs import CHUNK_BYTES, STREAMS, extent_at, log_path, open_log, tail_start

POLL_SECONDS = 0.2
SILENT_SECONDS = 3.0
SILENT = (
    "nothing written yet; a program may hold its output back while it is no terminal"
    " (PYTHONUNBUFFERED=1, stdbuf -oL, jobtop run --pty)"
)


@click.command()
@click.argument("reference", metavar="ID", shell_complete=job_ids)
@click.option("-f", "--follow", is_flag=True, help="Go on until the job has ended.")
@click.option("--stdout", "stdout", is_flag=True, help="Only its standard output.")
@click.option("--stderr", "stderr", is_flag=True, help="Only its standard error.")
@click.option("--tail", type=click.IntRange(0), metavar="N", help="Only the last N lines of each.")
@click.option("--raw", is_flag=True, help="Control characters too, when printing to a terminal.")
@click.pass_obj
def logs(app: App, /, reference: str, follow: bool, tail: int | None, raw: bool, **chosen: bool) -> int:
    """Print what a job wrote: its standard output to ours, its standard error to ours."""
    jobs, job = app.find(reference)
    directory = StatePaths(jobs.database.path.parent, job.host).job(job.id)
    if has_not_begun(job, directory) and not await_start(app, jobs, job, directory, follow):
        return 0
    if (why := why_nothing(job, directory)) is not None:
        raise UnknownJob(why)
    readers = [
        LogReader(directory, number, raw)
        for number, stream in enumerate(STREAMS)
        if chosen[stream] or not any(chosen.values())
    ]
    if chosen["stderr"] and not log_path(directory, 1).exists():
        app.warn(f"both streams of this job went to one place and are kept as one: jobtop logs {job.id[:8]}")
    for reader in readers:
        if tail is not None:
            reader.offset = tail_start(directory, reader.stream, tail)
    marks = jobs.log_marks(job) if tail is None and len(readers) == 2 else []
    for _, stdout_bytes, stderr_bytes in marks:
        readers[0].print(stdout_bytes)
        readers[1].print(stderr_bytes)
    for reader in readers:
        reader.print(None)
    if follow:
        print_on(app, jobs, job, directory, readers)
    return 0


def print_on(app: App, jobs: Jobs, job: Job, directory: Path, readers: Sequence["LogReader"]) -> None:
    """Print what comes until the job has ended; that nothing does is worth a word."""
    looks = Looks(jobs.database.path, app.config.switch("store.network"))
    since, is_heard = time.monotonic(), False
    while True:
        over = looks.is_due() and has_ended(app, jobs, job)
        for reader in readers:
            reader.print(None)
        if over:
            return
        if not is_heard and time.monotonic() - since >= SILENT_SECONDS:
            is_heard = True
            if not has_written(directory):
                app.warn(SILENT)
        time.sleep(POLL_SECONDS)


def why_nothing(job: Job, directory: Path) -> str | None:
    """Why there is no output of a job here."""
    if (why := kind_of(job).why_no_output) is not None:
        return f"job {job.id[:8]} has no output here: {why}"
    if directory.is_dir():
        return None
    if job.kept is Kept.RECORD:
        return f"the output of job {job.id[:8]} was let go: it is old (jobtop pin keeps jobs whole)"
    return f"the output of job {job.id[:8]} is not beside its store (it ran on {job.host})"


def has_not_begun(job: Job, directory: Path) -> bool:
    """Whether a job was queued and nobody has started it."""
    return job.queue is not None and job.start_time is None and not directory.is_dir()


def await_start(app: App, jobs: Jobs, job: Job, directory: Path, follow: bool) -> bool:
    """Say how things stand with a job that has not begun and, following, wait; False if there is nothing to print."""
    short, queue, is_told = job.id[:8], Queue(jobs, app.paths), False
    if not job.status.ended:
        what = "its output follows when it has begun" if follow else "it has written nothing yet"
        app.warn(f"job {short} waits for its turn: {what} (jobtop queue says why)")
    looks = Looks(jobs.database.path, app.config.switch("store.network"))
    while follow and has_not_begun(job, directory) and not job.status.ended:
        if not is_told and (why := unattended(queue, [job])) is not None:
            is_told = True
            app.warn(why)
        looks.wait(POLL_SECONDS)
        with suppress(StoreBusy):  # by and by it is not
            job = current(jobs, app.paths, job)
    if job.status.ended and has_not_begun(job, directory):
        app.warn(f"job {short} was not run, so there is no output: {job.reason}")
    return not has_not_begun(job, directory)


def has_written(directory: Path) -> bool:
    """Whether there is any output of a job."""
    paths = [log_path(directory, number) for number in range(len(STREAMS))]
    return any(path.stat().st_size for path in paths if path.exists())


def has_ended(app: App, jobs: Jobs, job: Job) -> bool:
    """Whether nothing more will come."""
    try:
        found = current(jobs, app.paths, job)
    except StoreBusy:  # by and by it is not
        return False
    return found.settled or (found.status.ended and "left_running" not in found.flags)


class LogReader:
    """One log file, read onwards; the middle of a log that was too long is a hole, and said to be one."""

    def __init__(self, directory: Path, stream: int, raw: bool) -> None:
        self.directory, self.stream = directory, stream
        self.plain = raw or not os.isatty(stream + 1)
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.offset = 0

    def print(self, until: int | None) -> None:
        """Everything from where we are to `until`, or to the end."""
        try:
            fd = open_log(self.directory, self.stream)
        except OSError:
            return
        try:
            end = os.fstat(fd).st_size if until is None else min(until, os.fstat(fd).st_size)
            while self.offset < end:
                self._step(fd, end)
        finally:
            os.close(fd)

    def _step(self, fd: int, end: int) -> None:
        extent = extent_at(fd, self.offset, end)
        if extent.is_hole:
            left_out = format_bytes(extent.stop - extent.start)
            self._write(f"\n[jobtop: {left_out} left out here: run.log_max]\n".encode())
            self.offset = extent.stop
            return
        data = os.pread(fd, min(CHUNK_BYTES, extent.stop - self.offset), self.offset)
        self.offset += len(data)
        self._write(data)

    def _write(self, data: bytes) -> None:
        if not self.plain:
            lines = self.decoder.decode(data).split("\n")
            data = "\n".join("\t".join(map(printable, line.split("\t"))) for line in lines).encode()
        stream = sys.stdout.buffer if self.stream == 0 else sys.stderr.buffer
        stream.write(data)
        stream.flush()
