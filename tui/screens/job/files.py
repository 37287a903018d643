"""The files of the job on its screen: those that are open, or of an ended job those in its record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobtop.core.measure.live.files import FileReader, LiveFiles
from jobtop.core.model import Job
from jobtop.core.text.file_text import denied_text, no_files_text
from jobtop.tui.screens.job.live_pane import LivePane
from jobtop.tui.widgets.tables.files import FileTable, kept_rows, live_row

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from jobtop.core.measure.target import Target

NONE_OPEN = "no data files are open now"


class JobFiles(LivePane[LiveFiles]):
    """Shows files with their positions and rates."""

    pane = "files"

    def open_reader(self, target: Target, directory: Path, secret: Sequence[str]) -> FileReader:
        return FileReader(target, str(directory.parent), secret=secret)

    def show_live(self, found: LiveFiles) -> None:
        reason = denied_text(found) or NONE_OPEN
        for table in self.screen.query(FileTable):
            table.show(list(map(live_row, found.files)), True, reason, self.screen.others(self.pane))

    def show_not_live(self, job: Job, is_here: bool) -> None:
        table = self.screen.query_one(FileTable)
        table.show(kept_rows(job), False, no_files_text(job, is_here), self.screen.others(self.pane))
