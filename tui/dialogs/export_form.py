"""The form that writes the samples of jobs to a file, as `jobtop export` does."""

from __future__ import annotations

import asyncio
import csv
import os
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType

from jobtop.core.errors import BadValue, JobtopError
from jobtop.core.series.readings import KEYS, SampleReader
from jobtop.core.series.readings import csv_row as values_of
from jobtop.store.database import open_to_read
from jobtop.store.jobs import Jobs
from jobtop.store.samples.curves import Curves
from jobtop.tui.actions import FORM, bindings
from jobtop.tui.data.view import JobRow
from jobtop.tui.dialogs.dialog import Dialog, KeyButton
from jobtop.tui.dialogs.fields import FormField, LineInput
from jobtop.tui.widgets.cells import safe_text
from jobtop.tui.workers import start_work

if TYPE_CHECKING:
    from _csv import Writer


class ExportForm(Dialog[None]):
    """Asks for the path of a new file; an existing file is not overwritten."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings(FORM)]
    title_words = "Export samples as CSV"

    def __init__(self, rows: Sequence[JobRow]) -> None:
        super().__init__()
        self.rows = rows
        self._is_writing = False

    def parts(self) -> ComposeResult:
        yield FormField("path", "File", LineInput(default_path(self.rows)))

    def keys(self) -> Iterable[KeyButton]:
        yield KeyButton("form.submit", "Write", field_keys=("enter",))
        yield KeyButton("form.leave")

    def on_mount(self) -> None:
        self.query_one(FormField).editor.focus()

    def on_input_submitted(self) -> None:
        self.action_submit()

    def action_submit(self) -> None:
        if not self._is_writing:
            self._is_writing = True
            start_work(self, self._write, self.query_one(FormField).value)

    async def _write(self, text: str) -> None:
        try:
            path, lines = await asyncio.to_thread(write_samples, self.rows, text)
        except (JobtopError, OSError) as error:
            self.query_one(FormField).problem = words_of(error)
            return
        finally:
            self._is_writing = False
        self.app.notify(safe_text(f"{path}: {lines} samples"), markup=False)
        _ = self.dismiss(None)


def default_path(rows: Sequence[JobRow]) -> str:
    """A file name that every file system accepts."""
    names = {re.sub(r"[^\w.-]+", "-", row.job.name, flags=re.ASCII).strip("-.")[:30] or "job" for row in rows}
    name = names.pop() if len(names) == 1 else "jobs"
    return f"{name}-{rows[0].job.id[:8]}.csv" if len(rows) == 1 else f"{name}.csv"


def words_of(error: Exception) -> str:
    return os.strerror(error.errno or 0) if isinstance(error, OSError) else str(error)


def write_samples(rows: Sequence[JobRow], text: str) -> tuple[Path, int]:
    """Write all samples of each job, or nothing; several jobs go into one table; its first column is the job."""
    if not text.strip():
        raise BadValue("No file given")
    path = Path(os.path.abspath(os.path.expanduser(text.strip())))
    if path.exists():
        raise BadValue("This file exists: choose another name")
    part = path.with_name(f".{path.name[:200]}.{os.getpid()}.part")
    try:
        with part.open("x", encoding="utf-8", errors="backslashreplace", newline="") as file:
            count = _write(csv.writer(file, lineterminator="\n"), rows)
        part.replace(path)
    finally:
        with suppress(FileNotFoundError):
            part.unlink()
    return path, count


def _write(writer: Writer, rows: Sequence[JobRow]) -> int:
    is_single, count = len(rows) == 1, 0
    writer.writerow([*([] if is_single else ["job_id"]), "timestamp", "elapsed", *KEYS])
    for row in rows:
        database = open_to_read(row.store)
        try:
            job = Jobs(database).find(row.job.id)
            samples = Curves(database).follow(job, None).samples
        finally:
            database.close()
        own = [] if is_single else [job.id]
        writer.writerows([*own, *values_of(job, reading, KEYS)] for reading in SampleReader().read(samples))
        count += len(samples)
    return count
