"""What is read of a container while its screen is open: its log, its processes and its inspection, each in a thread."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from jobtop.core.errors import JobtopError
from jobtop.core.text.engine_answer import redacted_answer
from jobtop.tui.data.containers.log_tail import LogTail
from jobtop.tui.data.job_reading import ProcessList
from jobtop.tui.palette import Tone
from jobtop.tui.widgets.cells import Span
from jobtop.tui.widgets.json_view import json_paragraphs
from jobtop.tui.widgets.log_view import LogView
from jobtop.tui.widgets.prose import Paragraph, Prose
from jobtop.tui.widgets.tables.processes import ProcessTree
from jobtop.tui.workers import RepeatedWork, in_daemon

if TYPE_CHECKING:
    from jobtop.core.measure.collectors.docker.model import Container
    from jobtop.core.measure.collectors.docker.snapshot import ContainerRow, EngineState
    from jobtop.tui.data.containers.source import ProcessReader
    from jobtop.tui.screens.container.screen import ContainerScreen

TAIL = 2000  # past lines that are read first
INSPECT_SECONDS = 10.0  # between two inspections while the pane is open
Start = tuple[int | None, float | None]


class Inside:
    """Belongs to the screen of a container; reads what its visible panes show."""

    def __init__(self, screen: ContainerScreen) -> None:
        self._screen = screen
        self._row: ContainerRow | None = None
        self._engine: EngineState | None = None
        self._log_of: float | None = None  # the start of the container whose log is open
        self._has_log = False
        self._reader: tuple[Start, ProcessReader] | None = None
        self._inspected: tuple[float, str] | None = None  # when, and in which state
        self._processes = RepeatedWork(screen, self._read_processes, "processes")
        self._inspection = RepeatedWork(screen, self._inspect, "inspect")

    def look(self, row: ContainerRow, engine: EngineState | None, is_gone: bool) -> None:
        """Read what is visible, if its engine is known and the container is there."""
        self._row, self._engine = row, engine
        if engine is None or is_gone:
            return
        container, visible = row.container, set(self._screen.visible_panes())
        if not self._has_log or (container.started_at != self._log_of and container.is_alive):
            self._open_log(container)
        if "tree" in visible:
            if container.is_alive:
                self._processes.request()
            else:
                self._show_processes(ProcessList(), f"it does not run ({container.state})")
        if "inspect" in visible and self._is_inspection_due(container):
            self._inspected = time.monotonic(), container.state
            self._inspection.request()

    def _open_log(self, container: Container) -> None:
        """Follow the log; after a restart again, from its last lines on."""
        engine = self._engine
        assert engine is not None
        self._has_log, self._log_of = True, container.started_at
        log = self._screen.container_feed.source.follow_log(engine.endpoint, container, TAIL)
        self._screen.query_one(LogView).open(LogTail(log).start())

    async def _read_processes(self) -> None:
        row, engine = self._row, self._engine
        if row is None or engine is None:
            return
        container, source = row.container, self._screen.container_feed.source
        start = container.pid, container.started_at
        try:
            if self._reader is None or self._reader[0] != start:
                reader = await in_daemon(source.processes, engine.endpoint, container, self._secret)
                self._reader = start, reader
            found = await in_daemon(self._reader[1].read)
        except (JobtopError, OSError) as error:
            self._show_processes(ProcessList(), str(error))
        else:
            self._show_processes(ProcessList(tuple(found)), "no processes are visible")

    def _show_processes(self, found: ProcessList, empty: str) -> None:
        for tree in self._screen.query(ProcessTree):
            tree.show(found, empty, self._screen.others("tree"))

    @property
    def _secret(self) -> tuple[str, ...]:
        config = self._screen.console.options.config
        return tuple(config.texts("run.redact")) if config is not None else ()

    def _is_inspection_due(self, container: Container) -> bool:
        if self._inspected is None:
            return True
        at, state = self._inspected
        return state != container.state or time.monotonic() - at > INSPECT_SECONDS

    async def _inspect(self) -> None:
        row, engine = self._row, self._engine
        if row is None or engine is None:
            return
        source = self._screen.container_feed.source
        try:
            answer = await in_daemon(source.inspect, engine.endpoint, row.container)
            text = json_paragraphs(redacted_answer(answer, self._secret))
        except (JobtopError, OSError) as error:
            text = (Paragraph(str(error), Tone.YELLOW),)
        for pane in self._screen.query("#inspect").results(Prose):
            pane.text = text
            pane.set_title([Span("Inspect", Tone.TEXT, True), Span(self._screen.others("inspect"), Tone.FAINT)])
            pane.set_subtitle([Span("secrets are hidden", Tone.GREY)])
