"""Shows the queue again whenever it changes: in place on a terminal, as tables in a pipe, as JSON Lines."""

import json
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from jobtop.cli.text.screen import Screen, can_paint
from jobtop.core.clock import local
from jobtop.core.errors import StoreBusy, UnknownJob
from jobtop.core.job_id import JobId
from jobtop.core.model import Job

QueueEntry = tuple[int, Job, str]  # position, job, reason
WATCH_SECONDS = 1.0


def watch_table(read: Callable[[], Sequence[QueueEntry]], draw: Callable[[Sequence[QueueEntry]], str]) -> None:
    """Show the queue each time it has changed, until the user leaves; in a pipe with the time above each table."""
    if can_paint():
        with Screen() as screen:
            entries: Sequence[QueueEntry] = ()
            painted: str | None = None
            while True:
                with suppress(StoreBusy):  # shown as it was; try again later
                    entries = read()
                if (text := draw(entries)) != painted:
                    screen.paint(partial(cut_lines, text))
                    painted = text
                if screen.wait(WATCH_SECONDS):
                    return
    shown: list[tuple[int, JobId, str]] | None = None
    while True:
        with suppress(StoreBusy):
            entries = read()
            facts = [(place, job.id, why) for place, job, why in entries]
            if facts != shown:
                print(*([] if shown is None else [""]), local(time.time()), draw(entries), sep="\n", flush=True)
                shown = facts
        time.sleep(WATCH_SECONDS)


def cut_lines(text: str, columns: int) -> list[str]:
    return [line[:columns] for line in text.splitlines()]


def watch_json_lines(read: Callable[[], Sequence[QueueEntry]], find: Callable[[str], Job]) -> None:
    """Print a job when it is queued, when its position or reason changes, and, with `null` for both, when it leaves."""
    shown: dict[str, tuple[int, str]] = {}
    while True:
        with suppress(StoreBusy):
            entries = read()
            for place, job, why in entries:
                if shown.get(job.id) != (place, why):
                    print(json.dumps(job.to_json() | {"position": place, "waits_for": why}))
            queued = {job.id for _, job, _ in entries}
            for job_id in [job_id for job_id in shown if job_id not in queued]:
                with suppress(UnknownJob):  # it was deleted
                    print(json.dumps(find(job_id).to_json() | {"position": None, "waits_for": None}))
            shown = {job.id: (place, why) for place, job, why in entries}
            sys.stdout.flush()
        time.sleep(WATCH_SECONDS)
