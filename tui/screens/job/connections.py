"""The open sockets of the job on its screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobtop.core.measure.live.connections import ConnectionReader, LiveConnections
from jobtop.core.model import Job
from jobtop.core.text.connection_text import denied_text, not_live_text
from jobtop.tui.screens.job.live_pane import LivePane
from jobtop.tui.widgets.tables.connections import ConnectionTable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from jobtop.core.measure.target import Target

NONE_OPEN = "no sockets are open now"


class JobConnections(LivePane[LiveConnections]):
    """Shows sockets with their bytes and rates."""

    pane = "connections"

    def open_reader(self, target: Target, directory: Path, secret: Sequence[str]) -> ConnectionReader:
        return ConnectionReader(target, secret)

    def show_live(self, found: LiveConnections) -> None:
        for table in self.screen.query(ConnectionTable):
            table.show(found.connections, denied_text(found) or NONE_OPEN, self.screen.others(self.pane))

    def show_not_live(self, job: Job, is_here: bool) -> None:
        table = self.screen.query_one(ConnectionTable)
        table.show((), not_live_text(job, is_here), self.screen.others(self.pane))
