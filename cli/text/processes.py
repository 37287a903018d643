"""The processes of a job as a page of text, as JSON and as CSV rows."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jobtop.cli.run.summary import colored
from jobtop.cli.text.tables import TableColumn, table, truncate
from jobtop.core.clock import iso, local
from jobtop.core.measure.live.processes import ProcessLine
from jobtop.core.measure.snapshot import ProcessRow
from jobtop.core.model import SCHEMA_VERSION, Job
from jobtop.core.record import as_dict, fields
from jobtop.core.text.usage_text import GLYPHS
from jobtop.core.units import cell_width, format_bytes, format_duration, format_percent, number_of, printable

LONGEST_COMMAND = 1000
MOST_INDENTS = 16
STATES = {"R": "run", "S": "sleep", "D": "disk", "T": "stop", "t": "trace", "Z": "zombie", "I": "idle", "X": "dead"}
SORTS: dict[str, Callable[[ProcessLine], float]] = {
    "cpu": lambda line: -(line.row.cpu_percent or 0.0),
    "memory": lambda line: -(line.row.memory_bytes or 0),
    "pid": lambda line: line.row.pid,
    "age": lambda line: -(line.row.age_seconds or 0.0),
}
PROCESS_FIELDS = [name for name in fields(ProcessRow) if name != "busiest"]
EMPTY_CSV_ROW = dict.fromkeys(("job_id", "elapsed", "pid", "tid", *PROCESS_FIELDS, "memory_kind"))
DIGITS = {"cpu_percent": 2, "cpu_seconds": 6, "age_seconds": 2}


@dataclass(frozen=True, slots=True)
class ProcessListing:
    """A job and its processes, read `elapsed` seconds after its start; `values` are keyed by catalogue key."""

    job: Job
    processes: tuple[ProcessLine, ...] | None = None
    elapsed: float | None = None
    values: Mapping[str, float | int | None] | None = None
    live: bool = False


def page(listing: ProcessListing, sort: str | None, color: bool, columns: int | None) -> Iterator[str]:
    """Yield the job's status and a line per process, none wider than the terminal."""
    processes = listing.processes
    yield header(listing, color, columns)
    if not listing.live:
        since = f"{format_duration(listing.elapsed)} after its start, at {local(wall_time(listing))}"
        yield f"as it was last seen, {since}:" if processes else no_processes_text(listing.job)
    if processes:
        text = table(table_columns(processes, columns), table_rows(processes, sort))
        yield from (line if columns is None else truncate(line, columns) for line in text.split("\n"))


def no_processes_text(job: Job) -> str:
    """Return why there are no processes to show."""
    if job.start_time is not None or job.queue is None:
        return "its processes are not known"
    return "it was not run" if job.status.ended else "it is queued and has no processes yet (jobtop queue)"


def header(listing: ProcessListing, color: bool, columns: int | None) -> str:
    """Return the first line; the name is cut to the space that is left."""
    job, values = listing.job, listing.values or {}
    state = f"{GLYPHS[job.status]} {job.status}"
    details = f" after {format_duration(job.duration_seconds)}" if job.status.ended else ""
    details += f" ({printable(job.reason)})" if job.status.ended and job.reason else ""
    if listing.live:
        details += ", descendants left running" if job.status.ended else ""
        details += f"  {format_duration(listing.elapsed)}  CPU {percent_text(values.get('cpu.percent'))}"
        details += f"  memory {format_bytes(values.get('mem.used'))}"
        details += f"  {number_of(values.get('proc.count'), 'process', 'processes')}"
    if columns is not None:
        details = truncate(details, columns - cell_width(state) - 10)
    room = 40 if columns is None else columns - cell_width(state) - cell_width(details) - 2
    return f"{truncate(printable(job.name), room)}  {colored(state, job.status, color)}{details}"


def table_columns(processes: Sequence[ProcessLine], columns: int | None) -> list[TableColumn]:
    """Return the columns; the memory column is titled by the kind of memory it shows."""
    kinds = {line.memory_kind for line in processes}
    memory = (kinds.pop() or "memory") if len(kinds) == 1 else "memory"
    right = ("PID", "CPU", "TIME", memory.upper(), "THR")
    widest = LONGEST_COMMAND if columns is None else columns
    number_columns = [TableColumn(title, right=True) for title in right]
    return [
        *number_columns,
        TableColumn("STATE"),
        TableColumn("AGE", right=True),
        TableColumn("COMMAND", widest=widest),
    ]


def table_rows(processes: Sequence[ProcessLine], sort: str | None) -> Iterator[tuple[str, ...]]:
    """Yield a row per process, followed by a row per thread if threads were read."""
    is_mixed = len({line.memory_kind for line in processes}) > 1
    for depth, line in in_display_order(processes, sort):
        row = line.row
        indent = "  " * min(depth - 1, MOST_INDENTS) + "└ " if depth else ""
        memory = format_bytes(row.memory_bytes) + (f" {line.memory_kind}" if is_mixed else "")
        command = indent + row.command[:LONGEST_COMMAND]
        yield (
            *(str(row.pid), percent_text(row.cpu_percent), format_duration(row.cpu_seconds), memory),
            *(str(row.threads), STATES.get(row.state, row.state), format_duration(row.age_seconds), command),
        )
        for thread in line.threads if len(line.threads) > 1 else ():
            yield (
                *(str(thread.tid), percent_text(thread.cpu_percent), format_duration(thread.cpu_seconds)),
                *("", "", STATES.get(thread.state, thread.state), "", f"{' ' * len(indent)}· {thread.name}"),
            )


def in_display_order(processes: Sequence[ProcessLine], sort: str | None) -> Iterator[tuple[int, ProcessLine]]:
    """Yield processes with their depth: a flat list if sorted, else a tree in which siblings are ordered by pid."""
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


def percent_text(percent: float | None) -> str:
    return format_percent(None if percent is None else percent / 100)


def wall_time(listing: ProcessListing) -> float | None:
    """Return when the processes were read, in seconds since the epoch."""
    start = listing.job.start_time
    return None if start is None or listing.elapsed is None else start + listing.elapsed


def listing_json(listing: ProcessListing) -> dict[str, Any]:
    values = listing.values or {}
    return {
        "schema_version": SCHEMA_VERSION,
        "job_id": listing.job.id,
        "name": listing.job.name,
        "status": str(listing.job.status),
        "live": listing.live,
        "elapsed": rounded(listing.elapsed, 3),
        "timestamp": iso(wall_time(listing)),
        "cpu": {"percent": rounded(values.get("cpu.percent"), 2)},
        "mem": {"used": values.get("mem.used")},
        "proc": {"count": values.get("proc.count"), "threads": values.get("proc.threads")},
        "processes": None if listing.processes is None else list(map(process_json, listing.processes)),
    }


def process_json(line: ProcessLine) -> dict[str, Any]:
    """Return a process as JSON; `thread_list` is null if threads were not read."""
    threads = [rounded_values(as_dict(thread)) for thread in line.threads]
    process = {name: getattr(line.row, name) for name in PROCESS_FIELDS}
    return {**rounded_values(process), "memory_kind": line.memory_kind, "thread_list": threads or None}


def csv_rows(listing: ProcessListing) -> list[dict[str, Any]]:
    """Return a CSV row per process and per thread; a thread has a `tid`, and its name as the command."""
    found = []
    for line in listing.processes or ():
        about = {**EMPTY_CSV_ROW, "job_id": listing.job.id, "elapsed": rounded(listing.elapsed, 3), "pid": line.row.pid}
        process = process_json(line)
        threads = [thread | {"command": thread.pop("name")} for thread in process.pop("thread_list") or ()]
        found += [about | values for values in (process, *threads)]
    return found


def rounded_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values rounded to the digits that are measured."""
    return {key: rounded(value, DIGITS[key]) if key in DIGITS else value for key, value in values.items()}


def rounded(number: float | None, digits: int) -> float | None:
    return None if number is None else round(number, digits)
