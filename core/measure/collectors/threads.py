"""The command, the state and the threads of a process."""

from __future__ import annotations

import os

from jobtop.core.measure.collectors.members import START, STATE, STIME, TICK_SECONDS, UTIME
from jobtop.core.procfs import read_text
from jobtop.core.record import record


@record
class Task:
    """A thread, or a process by its first one: the name the kernel has for it, its state, its CPU time."""

    id: int
    start: int
    name: str
    state: str
    cpu_seconds: float


def read_task(directory: str, number: int) -> Task | None:
    """What `stat` says of a process or thread; None if it is gone."""
    text = read_text(f"{directory}/stat")
    # The name may hold spaces and brackets.
    name, fields = text[text.find("(") + 1 : text.rfind(")")], text.rpartition(")")[2].split()
    if len(fields) <= START:
        return None
    ticks = int(fields[UTIME]) + int(fields[STIME])
    return Task(number, int(fields[START]), name, fields[STATE], ticks * TICK_SECONDS)


def read_threads(pid: int, proc: str = "/proc") -> list[Task]:
    """The threads of a process; their CPU time in nanoseconds where the kernel tells.

    Another process's thread has no clock that we may read, as a process has.
    """
    directory = f"{proc}/{pid}/task"
    try:
        numbers = sorted(map(int, os.listdir(directory)))
    except OSError:
        return []
    return [thread for number in numbers if (thread := _read_thread(f"{directory}/{number}", number)) is not None]


def read_arguments(pid: int, proc: str = "/proc") -> tuple[str, ...]:
    """The words of its command line; none for a zombie, or without the right to see them."""
    text = read_text(f"{proc}/{pid}/cmdline").rstrip("\0")
    return tuple(text.split("\0")) if text else ()


def _read_thread(directory: str, number: int) -> Task | None:
    precise = read_text(f"{directory}/schedstat").split()
    thread = read_task(directory, number)
    if thread is None or not precise or precise[0] == "0":  # all is 0 where it is switched off
        return thread
    return Task(number, thread.start, thread.name, thread.state, int(precise[0]) / 1e9)
