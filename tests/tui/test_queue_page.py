"""The Queue page shows the queue in start order with reasons, and changes it by keys."""

import time
from pathlib import Path

import pytest

from jobtop.core.model import Limits, Queued, Status
from jobtop.core.paths import StatePaths
from jobtop.core.run.scheduling import Capacity
from jobtop.store.agents import register
from jobtop.store.database import open_to_write
from jobtop.store.jobs import Jobs
from jobtop.store.queue_rows import set_slots
from jobtop.tui.app import Options
from jobtop.tui.screens.queue import QueuePage
from records import HERE, HOSTILE_TEXTS, kept_jobs, live_job, made_job, queued_job, this_process
from visiting import Visitor, own_store, visit

NARROW, WIDE = (60, 15), (160, 42)


def two_cpus(home: Path, **values: object) -> Options:
    return own_store(StatePaths(home, HERE), capacity=Capacity(2.0, 8 << 30), **values)


def keep_busy_queue(home: Path, with_agent: bool = True) -> None:
    """Two CPUs are taken by a job that has run for a minute, and usually takes ten."""
    now = time.time()
    past = [made_job(name="train", duration_seconds=600.0, start_time=now - 9000 * n) for n in (1, 2, 3)]
    running = live_job(name="train", start_time=now - 60.0, limits=Limits(cpus=2.0))
    waiting = [
        queued_job(name="eval", submitted_at=now - 90.0, limits=Limits(cpus=1.0, memory_bytes=1 << 30)),
        queued_job(name="urgent", submitted_at=now - 30.0, queue=Queued(priority=7)),
        queued_job(name="etl", submitted_at=now, queue=Queued(group="nightly"), limits=Limits(runtime_seconds=7200.0)),
    ]
    kept_jobs(home, *past, running, *waiting)
    database = open_to_write(StatePaths(home, HERE))
    try:
        set_slots(database, "nightly", 0)
        if with_agent:
            register(database, this_process())
    finally:
        database.close()


def stored(home: Path, name: str) -> tuple[Status, int]:
    database = open_to_write(StatePaths(home, HERE))
    try:
        job = Jobs(database).find(name)
        assert job.queue is not None
        return job.status, job.queue.priority
    finally:
        database.close()


def line_with(screen: str, word: str) -> str:
    return next(line for line in screen.splitlines() if word in line)


def test_an_empty_queue_says_how_to_queue_a_job(home: Path) -> None:
    kept_jobs(home)

    async def scene(visitor: Visitor) -> None:
        await visitor.press("7")
        await visitor.shows("No queued jobs", "jobtop submit", "0 of 2")

    visit(home, scene, options=two_cpus(home))


def test_jobs_are_in_start_order_with_reasons_and_expected_starts(home: Path) -> None:
    keep_busy_queue(home)

    async def scene(visitor: Visitor) -> None:
        await visitor.press("7")
        screen = await visitor.shows("urgent", "2 of 2", "nightly", "3 jobs in start order")
        lines = [line_with(screen, name) for name in ("urgent", "eval", "etl")]
        assert [screen.index(line) for line in lines] == sorted(screen.index(line) for line in lines)
        assert "waits for 1 CPU: 0 of 2 are free" in lines[0]
        assert "≈8m" in lines[0], "the running job ends nine minutes from now"
        assert "1.0G" in lines[1]
        assert "2h00m" in lines[2]
        assert "nightly: it has no slots" in lines[2]
        assert "≈" not in lines[2]

    visit(home, scene, options=two_cpus(home))


def test_keys_change_the_priority_and_cancel_after_a_question(home: Path) -> None:
    keep_busy_queue(home, with_agent=False)

    async def scene(visitor: Visitor) -> None:
        await visitor.press("7")
        await visitor.shows("urgent", "no agent")
        page = visitor.console.screen
        assert isinstance(page, QueuePage)
        await visitor.press("down", "plus")
        await visitor.until(lambda: stored(home, "eval")[1] == 1)
        await visitor.press("minus")
        await visitor.until(lambda: stored(home, "eval")[1] == 0)
        await visitor.press("x")
        await visitor.shows("Stop this job?", "leaves the queue")
        await visitor.press("y")
        await visitor.until(lambda: stored(home, "eval")[0] is Status.CANCELLED)
        await visitor.until(lambda: [row.job.name for row in page.rows] == ["urgent", "etl"])

    visit(home, scene, options=two_cpus(home))


def test_a_readonly_console_changes_no_priority(home: Path) -> None:
    keep_busy_queue(home)

    async def scene(visitor: Visitor) -> None:
        await visitor.press("7")
        screen = await visitor.shows("urgent")
        assert "Sooner" not in screen
        await visitor.press("plus")
        await visitor.until(lambda: visitor.console._notifications)
        assert stored(home, "urgent")[1] == 7

    visit(home, scene, options=two_cpus(home, is_readonly=True))


@pytest.mark.parametrize("size", [NARROW, WIDE], ids=str)
def test_hostile_texts_are_shown_and_not_obeyed(home: Path, size: tuple[int, int]) -> None:
    kept_jobs(home, *(queued_job(name=text, queue=Queued(group=text)) for text in HOSTILE_TEXTS.values()))

    async def scene(visitor: Visitor) -> None:
        await visitor.press("7")
        screen = await visitor.shows("[/b]", f"{len(HOSTILE_TEXTS)} jobs")
        assert "\x1b" not in screen
        await visitor.press("G", "tab", "G")

    visit(home, scene, size, two_cpus(home))


def test_lists_and_the_job_screen_say_the_position(home: Path) -> None:
    keep_busy_queue(home)

    async def scene(visitor: Visitor) -> None:
        screen = await visitor.shows("#1 in the queue: waits for")
        assert "queued #1" in line_with(screen, "urgent")
        await visitor.press("2")
        await visitor.shows("History", "#2 in the queue: waits for")
        row = next(row for row in visitor.console.view.rows if row.job.name == "etl") if visitor.console.view else None
        assert row is not None
        await visitor.console.open_job(row.job.id)
        await visitor.shows("#3 in the queue: group nightly")

    visit(home, scene, (220, 42), two_cpus(home))
