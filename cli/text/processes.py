"""The processes of a job as a page of text, as JSON, and as rows of CSV."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jobtop.cli.run.summary import GLYPHS, colored
from jobtop.cli.text.tables import Column, cut, table
from jobtop.core.clock import iso, local
from jobtop.core.measure.live_processes import ProcessLine
from jobtop.core.measure.snapshot import ProcessRow
from jobtop.core.model import SCHEMA_VERSION, Job
from jobtop.core.record import as_dict, fields
from jobtop.core.units import ABSENT, cell_width, format_bytes, format_duration, format_percent, printable

LONGEST_COMMAND = 1000
DEEPEST = 16
STATES = {"R": "run", "S": "sleep", "D": "disk", "T": "stop", "t": "trace", "Z": "zombie", "I": "idle", "X": "dead"}
SORTS: dict[str, Callable[[ProcessLine], float]] = {
    "cpu": lambda line: -(line.row.cpu_percent or 0.0),
    "memory": lambda line: -(line.row.memory_bytes or 0),
    "pid": lambda line: line.row.pid,
    "age": lambda line: -line.row.age_seconds,
}
NO_ROW = dict.fromkeys(("job_id", "elapsed", "pid", "tid", *fields(ProcessRow), "memory_kind"))
DIGITS = {"cpu_percent": 2, "cpu_seconds": 6, "age_seconds": 2}


@dataclass(frozen=True, slots=True)
class Moment:
    """A job and its processes as they were read, `elapsed` after its start; `values` are by catalogue key."""

    job: Job
    processes: tuple[ProcessLine, ...] | None = None
    elapsed: float | None = None
    values: Mapping[str, float | int | None] | None = None
    live: bool = False


def page(moment: Moment, sort: str | None, color: bool, columns: int | None) -> Iterator[str]:
    """How the job stands, and a line a process, none wider than the terminal."""
    processes = moment.processes
    yield header(moment, color, columns)
    if not moment.live:
        since = f"{format_duration(moment.elapsed)} after its start, at {local(moment_of(moment))}"
        yield f"as it was last seen, {since}:" if processes else no_processes(moment.job)
    if processes:
        text = table(titles(processes, columns), cells(processes, sort))
        yield from (line if columns is None else cut(line, columns) for line in text.split("\n"))


def no_processes(job: Job) -> str:
    """Why there is none to show."""
    if job.start_time is not None or job.queue is None:
        return "which processes it had is not known"
    return "it was not run" if job.status.ended else "it waits for its turn, and has no processes yet (jobtop queue)"


def header(moment: Moment, color: bool, columns: int | None) -> str:
    """One line; the name gets what room is left."""
    job, values = moment.job, moment.values or {}
    state = f"{GLYPHS[job.status]} {job.status}"
    words = f" after {format_duration(job.duration_seconds)}" if job.status.ended else ""
    words += f" ({printable(job.reason)})" if job.status.ended and job.reason else ""
    if moment.live:
        words += ", descendants left running" if job.status.ended else ""
        words += f"  {format_duration(moment.elapsed)}  CPU {percent_words(values.get('cpu.percent'))}"
        words += f"  memory {format_bytes(values.get('mem.used'))}  {count_words(values.get('proc.count'))}"
    if columns is not None:
        words = cut(words, columns - cell_width(state) - 10)
    room = 40 if columns is None else columns - cell_width(state) - cell_width(words) - 2
    return f"{cut(printable(job.name), room)}  {colored(state, job.status, color)}{words}"


def count_words(processes: float | None) -> str:
    return f"{ABSENT if processes is None else processes} process{'' if processes == 1 else 'es'}"


def titles(processes: Sequence[ProcessLine], columns: int | None) -> list[Column]:
    """The memory column is called by what it holds."""
    kinds = {line.memory_kind for line in processes}
    memory = (kinds.pop() or "memory") if len(kinds) == 1 else "memory"
    right = ("PID", "CPU", "TIME", memory.upper(), "THR")
    widest = LONGEST_COMMAND if columns is None else columns
    numbers = [Column(title, right=True) for title in right]
    return [*numbers, Column("STATE"), Column("AGE", right=True), Column("COMMAND", widest=widest)]


def cells(processes: Sequence[ProcessLine], sort: str | None) -> Iterator[tuple[str, ...]]:
    """A row a process, and one below it for each of its threads where they were asked for."""
    is_mixed = len({line.memory_kind for line in processes}) > 1
    for depth, line in ordered(processes, sort):
        row = line.row
        indent = "  " * min(depth - 1, DEEPEST) + "└ " if depth else ""
        memory = format_bytes(row.memory_bytes) + (f" {line.memory_kind}" if is_mixed else "")
        command = indent + row.command[:LONGEST_COMMAND]
        yield (
            *(str(row.pid), percent_words(row.cpu_percent), format_duration(row.cpu_seconds), memory),
            *(str(row.threads), STATES.get(row.state, row.state), format_duration(row.age_seconds), command),
        )
        for thread in line.threads if len(line.threads) > 1 else ():
            yield (
                *(str(thread.tid), percent_words(thread.cpu_percent), format_duration(thread.cpu_seconds)),
                *("", "", STATES.get(thread.state, thread.state), "", f"{' ' * len(indent)}· {thread.name}"),
            )


def ordered(processes: Sequence[ProcessLine], sort: str | None) -> Iterator[tuple[int, ProcessLine]]:
    """Each with its depth: a list if sorted, else below their parents, by pid."""
    if sort is not None:
        yield from ((0, line) for line in sorted(processes, key=SORTS[sort]))
        return
    pids = {line.row.pid for line in processes}
    below: dict[int | None, list[ProcessLine]] = {}
    for line in sorted(processes, key=lambda line: -line.row.pid):
        below.setdefault(line.row.parent if line.row.parent in pids else None, []).append(line)
    waiting = [(0, line) for line in below.get(None, [])]
    while waiting:
        depth, line = waiting.pop()
        yield depth, line
        waiting += [(depth + 1, child) for child in below.get(line.row.pid, [])]


def percent_words(percent: float | None) -> str:
    return format_percent(None if percent is None else percent / 100)


def moment_of(moment: Moment) -> float | None:
    """When it was, in seconds since the epoch."""
    start = moment.job.start_time
    return None if start is None or moment.elapsed is None else start + moment.elapsed


def shape(moment: Moment) -> dict[str, Any]:
    values = moment.values or {}
    return {
        "schema_version": SCHEMA_VERSION,
        "job_id": moment.job.id,
        "name": moment.job.name,
        "status": str(moment.job.status),
        "live": moment.live,
        "elapsed": rounded(moment.elapsed, 3),
        "timestamp": iso(moment_of(moment)),
        "cpu": {"percent": rounded(values.get("cpu.percent"), 2)},
        "mem": {"used": values.get("mem.used")},
        "proc": {"count": values.get("proc.count"), "threads": values.get("proc.threads")},
        "processes": None if moment.processes is None else list(map(process_shape, moment.processes)),
    }


def process_shape(line: ProcessLine) -> dict[str, Any]:
    """`thread_list` is null where it was not asked for."""
    threads = [numbers(as_dict(thread)) for thread in line.threads]
    return {**numbers(as_dict(line.row)), "memory_kind": line.memory_kind, "thread_list": threads or None}


def rows(moment: Moment) -> list[dict[str, Any]]:
    """For CSV: a line a process and one a thread, which has a `tid` and a name for a command."""
    found = []
    for line in moment.processes or ():
        about = {**NO_ROW, "job_id": moment.job.id, "elapsed": rounded(moment.elapsed, 3), "pid": line.row.pid}
        process = process_shape(line)
        threads = [thread | {"command": thread.pop("name")} for thread in process.pop("thread_list") or ()]
        found += [about | values for values in (process, *threads)]
    return found


def numbers(values: Mapping[str, Any]) -> dict[str, Any]:
    """With no more digits than mean something."""
    return {key: rounded(value, DIGITS[key]) if key in DIGITS else value for key, value in values.items()}


def rounded(number: float | None, digits: int) -> float | None:
    return None if number is None else round(number, digits)
