"""Captures a job at the moment of an alert: its processes, Python stacks if py-spy is installed, its last output."""

from __future__ import annotations

import os
import shutil
import subprocess
import time

from jobtop.core.clock import iso
from jobtop.core.measure.live.processes import LiveProcesses
from jobtop.core.text.terminal_text import without_escapes
from jobtop.core.units import format_bytes, format_duration, printable
from jobtop.lifecycle.kinds.registry import kind_of
from jobtop.store.output.captures import PREFIX, capture_names
from jobtop.store.output.text import Output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jobtop.core.measure.live.processes import ProcessLine
    from jobtop.core.model import Job
    from jobtop.core.paths import StatePaths

LAST_LINES = 200
RATE_SECONDS = 0.2  # between the two readings that CPU percentages come from
MOST_STACKS = 8
STACK_SECONDS = 5.0
LONGEST_STACK = 64 * 1024
MOST_KEPT = 20  # captures of one job


def capture(paths: StatePaths, job: Job, why: str, secrets: Sequence[str] = ()) -> str:
    """Write a capture into the directory of the job; return the name of the file. OSError if it cannot be written."""
    directory = paths.names.job(job.id)
    kept = capture_names(directory)
    for name in kept[: len(kept) - MOST_KEPT + 1]:
        os.unlink(f"{directory}/{name}")
    moment = time.time()
    name = f"{PREFIX}{time.strftime('%Y%m%dT%H%M%S', time.gmtime(moment))}-{int(moment % 1 * 1e6):06}.txt"
    text = "\n".join(_lines(paths, job, why, moment, secrets)) + "\n"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(f"{directory}/{name}", flags, 0o600), "w", errors="replace") as file:
        file.write(text)
    return name


def _lines(paths: StatePaths, job: Job, why: str, moment: float, secrets: Sequence[str]) -> Iterator[str]:
    yield f"{iso(moment)}  job {job.id[:8]} {printable(job.name)}"
    yield printable(why)
    yield ""
    processes = read_processes(paths, job, secrets)
    yield "PROCESSES"
    yield f"{'PID':>8} {'PARENT':>8} {'CPU%':>6} {'MEMORY':>10} {'AGE':>8} S COMMAND"
    for line in processes:
        row = line.row
        percent = "–" if row.cpu_percent is None else f"{row.cpu_percent:.1f}"
        memory, age = format_bytes(row.memory_bytes), format_duration(row.age_seconds)
        yield f"{row.pid:>8} {row.parent:>8} {percent:>6} {memory:>10} {age:>8} {row.state} {printable(row.command)}"
    yield ""
    yield from stacks([line.row.pid for line in processes])
    yield f"LAST {LAST_LINES} LINES OF OUTPUT"
    for name, stream in (("stdout", 0), ("stderr", 1)):
        output = Output(paths.job(job.id), [stream])
        output.refresh()
        for line_row in output.rows_before(output.size, LAST_LINES):
            plain = without_escapes(line_row.text.encode("utf-8", "replace")).decode("utf-8", "replace")
            yield f"{name}: {printable(plain)}"


def read_processes(paths: StatePaths, job: Job, secrets: Sequence[str]) -> tuple[ProcessLine, ...]:
    """The processes of a job now; none if it has ended."""
    target = kind_of(job).target(paths, job)
    if target is None:
        return ()
    live = LiveProcesses(target, secrets)
    try:
        live.read()
        time.sleep(RATE_SECONDS)
        return live.read().processes
    finally:
        live.close()


def stacks(pids: Sequence[int]) -> Iterator[str]:
    """The Python stacks of these processes, by py-spy; nothing if it is not installed."""
    program = shutil.which("py-spy")
    if program is None:
        return
    yield "STACKS (py-spy)"
    for pid in pids[:MOST_STACKS]:
        try:
            done = subprocess.run(
                [program, "dump", "--nonblocking", "--pid", str(pid)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=STACK_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.returncode == 0:
            yield from (printable(line) for line in done.stdout[:LONGEST_STACK].decode("utf-8", "replace").splitlines())
    yield ""
