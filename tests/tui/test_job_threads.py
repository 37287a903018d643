"""The busiest threads below the processes of a job: hidden at first, of a moment of the past, and live."""

import os
import threading
from pathlib import Path

from job_pages import Made
from jobtop.core.measure.collectors.proc import identify
from jobtop.core.measure.snapshot import ProcessRow, ThreadLine
from jobtop.tui.data.job_reading import LocalProcesses
from jobtop.tui.screens.job.screen import JobScreen
from records import HERE, made_job, running_job
from sampled import steady
from visiting import Visitor


def with_threads(*names: str) -> ProcessRow:
    lines = tuple(ThreadLine(100 + at, name, "R", 1.0, 40.0 - at) for at, name in enumerate(names))
    return ProcessRow(7, 1, "train.py", 2.0, 99.0, 1 << 20, 3, 60.0, "R", lines)


def test_a_past_moment_shows_the_threads_of_its_snapshot(tmp_path: Path) -> None:
    made = Made(tmp_path, made_job(duration_seconds=600.0), steady(599))
    made.had(10.0, with_threads("early", "main")).had(500.0, with_threads("late", "\x1b[31mmain"))

    async def scene(visitor: Visitor, screen: JobScreen) -> None:
        assert "· late" not in await visitor.shows("train.py")
        await visitor.press("T")
        assert "\x1b" not in await visitor.shows("Processes 1", "· late", "100", "40")
        screen.go_to(20.0)
        await visitor.shows("· early")
        await visitor.press("T")
        await visitor.until(lambda: "· early" not in visitor.screen())

    made.open(scene)


def test_live_threads_are_read_only_if_they_are_shown(tmp_path: Path) -> None:
    ready = threading.Event()
    thread = threading.Thread(target=ready.wait)
    thread.start()
    local = LocalProcesses(tmp_path)
    job = running_job(pid=os.getpid(), shim=identify(os.getpid()), host=HERE)
    try:
        first = local.read(job)
        local._due = 0.0
        second = local.read(job, with_threads=True)
    finally:
        ready.set()
        thread.join()
        local.close()
    assert first is not None
    assert second is not None
    assert [row.busiest for row in first if row.pid == os.getpid()] == [()]
    (shown,) = (row.busiest for row in second if row.pid == os.getpid())
    assert len(shown) >= 2
