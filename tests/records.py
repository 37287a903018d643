"""Jobs as tests make them, what shims leave, and verbs called in this process."""

import io
import os
import sys
import uuid
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

from jobtop.core.job_id import JobId
from jobtop.core.model import Identity, Job, Queued, Status
from jobtop.core.paths import StatePaths, hostname
from jobtop.core.run.supervisor import new_id
from jobtop.store.database import open_to_write
from jobtop.store.jobs import Jobs

HERE = hostname()
NO_PROCESS = 2**22 + 7  # above the largest pid the kernel gives
HOSTILE_TEXTS = {
    "newlines": "two\nlines\r\nand\ta tab",
    "escapes": "\x1b[31mred\x1b]0;title\x07\x1b[2J\x9b31m",
    "controls": "".join(map(chr, range(1, 32))) + "\x7f\x80\x9f",
    "bidi": "user\u202etxt.exe\u202c\u2066x\u2069\u2028y\u2029z",
    "markup": "[/b][red]x[/red][link=file:///][/",
    "emoji": "naïve 日本語 👩‍👩‍👧 e\u0301 \U0010ffff",
    "quotes": "'\"`$(touch x);\\n%s{0},=\u00a0",
    "bytes that are no UTF-8": "caf\udce9 \udcff\udc80",
    "long": "x" * 20_000,
}


class Answer(NamedTuple):
    """What a verb said."""

    returncode: int
    stdout: str
    stderr: str


def call(*args: str) -> Answer:
    """A verb in this process, in the environment that the fixture `home` made: ten times as fast as a new one."""
    from jobtop.cli.main import main

    buffers = io.BytesIO(), io.BytesIO()
    out, err = (io.TextIOWrapper(buffer, "utf-8", "backslashreplace", newline="") for buffer in buffers)
    argv = sys.argv
    sys.argv = ["jobtop", *args]
    try:
        with redirect_stdout(out), redirect_stderr(err):
            code = main()
    finally:
        sys.argv = argv
    for stream in (out, err):
        stream.flush()
    return Answer(int(code), *(written.getvalue().decode() for written in buffers))


def assert_one_line(text: str, *words: str) -> None:
    """Assert that jobtop printed exactly one line to standard error, with all these words in it."""
    assert text.startswith("jobtop: "), text
    assert text.endswith("\n"), text
    assert text.count("\n") == 1, text
    for word in words:
        assert word in text, f"{word!r} is not in {text!r}"


def numbered_id(number: int) -> JobId:
    """An id that is always the same for a number."""
    return JobId(str(uuid.UUID(int=number)))


def made_job(**values: Any) -> Job:
    """A job that succeeded on this host, but for what is given."""
    defaults: dict[str, Any] = {
        "id": new_id(),
        "name": "train",
        "command": ("python", "train.py"),
        "host": HERE,
        "user": "ada",
        "cwd": "/home/ada/project",
        "status": Status.SUCCESS,
        "exit_code": 0,
        "submitted_at": 1_700_000_000.25,
        "start_time": 1_700_000_000.5,
        "end_time": 1_700_000_002.5,
        "duration_seconds": 2.0,
        "settled": True,
    }
    return Job(**defaults | values)


def running_job(**values: Any) -> Job:
    """A job of which only the start is known; its recorder has exited."""
    unknown = {"exit_code": None, "end_time": None, "duration_seconds": None, "settled": False}
    return made_job(
        **{"status": Status.RUNNING, "recorder": Identity("another boot", NO_PROCESS, 1)} | unknown | values
    )


def queued_job(**values: Any) -> Job:
    """A job that waits in the queue of this host."""
    unknown = {"exit_code": None, "start_time": None, "end_time": None, "duration_seconds": None, "settled": False}
    return made_job(**{"status": Status.QUEUED, "queue": Queued()} | unknown | values)


def live_job(**values: Any) -> Job:
    """A running job that this process supervises: nothing finishes its record."""
    us = this_process()
    return running_job(shim=us, recorder=us, **values)


def kept_jobs(root: Path, *jobs: Job) -> list[Job]:
    """The jobs as the store of this host keeps them, put there in this order."""
    database = open_to_write(StatePaths(root, HERE))
    try:
        return [Jobs(database).insert(job) for job in jobs]
    finally:
        database.close()


def leave_started(directory: Path, boot: str, shim: tuple[int, int | None], cgroups: tuple[str, ...] = ()) -> None:
    """The file by which a shim says that its job runs."""
    directory.mkdir(parents=True, exist_ok=True)
    rows = ["version 1", f"boot {boot}", f"shim {shim[0]} {shim[1]}", f"main {NO_PROCESS} 5"]
    rows += ["start 1700000000.500000 100.000000", "subreaper 1", *(f"cgroup {cgroup}" for cgroup in cgroups)]
    (directory / "started").write_text("\n".join(rows) + "\n")


def leave_ended(directory: Path, **facts: object) -> None:
    """The file by which a shim says how its job ended: 7 seconds, exit code 3, but for what is given."""
    directory.mkdir(parents=True, exist_ok=True)
    rows: dict[str, object] = {"version": 1, "final": 1, "status": 3 << 8}
    rows |= {"start": "1700000000.500000 100.0", "end": "1700000007.500000 107.0", "last": "1700000007.500000 107.0"}
    rows |= {
        "utime": 1.5,
        "stime": 0.25,
        "minflt": 10,
        "majflt": 1,
        "inblock": 2,
        "oublock": 4,
        "nvcsw": 5,
        "nivcsw": 6,
    }
    rows |= {"maxrss": 50 << 20, "floor": 5 << 20, "hwm": 0, "rchar": 100, "wchar": 200, "chars_missing": 0}
    rows |= {
        "reaped": 1,
        "seen": 1,
        "peak": 1,
        "threads": 1,
        "left": 0,
        "subreaper": 1,
        "own_cpu": 0.02,
        "own_rss": 4096,
    }
    (directory / "ended").write_text("".join(f"{key} {value}\n" for key, value in (rows | facts).items()))


def damage_pages(store: Path) -> bytes:
    """Zero the head of every page but the first, which tells the version; what the file holds then."""
    content = bytearray(store.read_bytes())
    size = int.from_bytes(content[16:18], "big")
    for start in range(size, len(content), size):
        content[start : start + 200] = bytes(200)
    store.write_bytes(content)
    return bytes(content)


def holds_controls(text: str) -> bool:
    """Whether text, besides the ends of its lines, has anything a terminal would obey."""
    return any(
        (character < " " and character != "\n")
        or "\x7f" <= character <= "\x9f"
        or character in "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u2028\u2029"
        or "\ud800" <= character <= "\udfff"
        for character in text
    )


def this_process() -> Identity:
    """The identity of the process that runs the tests."""
    from jobtop.core.measure.collectors.proc import identify

    return identify(os.getpid())
