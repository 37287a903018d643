"""A snapshot of the container monitor as a page of text, grouped by compose project, and as JSON."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from jobtop.cli.text.tables import TableColumn, table, truncate
from jobtop.core.clock import iso
from jobtop.core.measure.collectors.docker.model import Container
from jobtop.core.measure.collectors.docker.snapshot import ContainerRow
from jobtop.core.model import SCHEMA_VERSION
from jobtop.core.record import as_dict
from jobtop.core.redact import redact_command
from jobtop.core.text.container_state import state_text
from jobtop.core.units import ABSENT, format_bytes, format_duration, format_percent, number_of, printable

SHORT_JOB = 8
MOST_NAMED = 3
MOST_REASONS = 6
NO_PROJECT = "(no compose project)"
COLUMNS = (
    *(TableColumn("ENGINE", widest=20), TableColumn("NAME", widest=40), TableColumn("STATE", widest=28)),
    *(TableColumn("CPU", right=True), TableColumn("MEMORY", right=True), TableColumn("OF LIMIT", right=True)),
    *(TableColumn("RECEIVED/s", right=True), TableColumn("SENT/s", right=True)),
    *(TableColumn("READ/s", right=True), TableColumn("WRITTEN/s", right=True)),
    *(TableColumn("PIDS", right=True), TableColumn("RESTARTS", right=True), TableColumn("UP", right=True)),
    *(TableColumn("JOB"), TableColumn("IMAGE", widest=60)),
)
GPU_COLUMN = TableColumn("GPU", widest=40)
# What the columns show, with the word for a reason why it is absent.
SHOWN = {
    "cpu.percent": "CPU",
    "mem.used": "memory",
    "net.rx_bytes": "network",
    "io.read_bytes": "I/O",
    "proc.threads": "pids",
}


def page(rows: Sequence[ContainerRow], jobs: Mapping[str, str], now: float, columns: int | None) -> Iterator[str]:
    """Yield a line for each container below its project, then why values are absent; none wider than the terminal.

    `jobs` are the ids of jobs by the ids of their containers.
    """
    ordered = sorted(rows, key=lambda row: (row.container.project is None, row.container.project or ""))
    has_gpus = any(row.gpus for row in ordered)
    shown = (*COLUMNS, GPU_COLUMN) if has_gpus else COLUMNS
    head, *lines = table(shown, (cells(row, jobs, now, has_gpus) for row in ordered)).split("\n")
    numbered = zip(ordered, lines, strict=True)
    has_projects = any(row.container.project for row in ordered)
    yield fitted(f"  {head}" if has_projects else head, columns)
    for project, group in groupby(numbered, key=lambda pair: pair[0].container.project):
        if has_projects:
            yield fitted(printable(project or NO_PROJECT), columns)
        for _, line in group:
            yield fitted(f"  {line}" if has_projects else line, columns)
    yield from (fitted(line, columns) for line in reason_lines(ordered))


def fitted(line: str, columns: int | None) -> str:
    return line if columns is None else truncate(line, columns)


def cells(row: ContainerRow, jobs: Mapping[str, str], now: float, has_gpus: bool) -> tuple[str, ...]:
    container, limit = row.container, row.container.limits
    used = row.memory_bytes
    job_id = row.job_id or jobs.get(container.id) or ""
    return (
        *(container.engine, container.name, state_text(container)),
        format_percent(None if row.cpu_percent is None else row.cpu_percent / 100),
        *(format_bytes(used), limit_text(used, limit.memory_bytes)),
        *(format_bytes(row.rates.get(key)) for key in ("net.rx_bytes", "net.tx_bytes")),
        *(format_bytes(row.rates.get(key)) for key in ("io.read_bytes", "io.write_bytes")),
        pids_text(row),
        ABSENT if container.restarts is None else str(container.restarts),
        up_text(container, now),
        job_id[:SHORT_JOB],
        container.image or container.image_id or ABSENT,
        *((gpu_text(row),) if has_gpus else ()),
    )


def limit_text(used: int | None, limit: int | None) -> str:
    """Such as `12.5 % of 512.0 MiB`."""
    if limit is None:
        return "" if used is None else "no limit"
    return format_bytes(limit) if used is None else f"{format_percent(used / limit)} of {format_bytes(limit)}"


def pids_text(row: ContainerRow) -> str:
    count, most = row.values.get("proc.threads"), row.container.limits.pids
    return ABSENT if count is None else f"{count:.0f}" if most is None else f"{count:.0f}/{most}"


def up_text(container: Container, now: float) -> str:
    """How long it has run; nothing for one that does not run."""
    if not container.is_alive:
        return ""
    since = container.started_at
    return ABSENT if since is None else format_duration(max(0.0, now - since), is_counting=True)


def gpu_text(row: ContainerRow) -> str:
    said = []
    for gpu in row.gpus:
        percent = None if gpu.percent is None else gpu.percent / 100
        said.append(f"{gpu.name} {format_percent(percent)} {format_bytes(gpu.memory_bytes)}")
    return ", ".join(said)


def reason_lines(rows: Sequence[ContainerRow]) -> Iterator[str]:
    """Yield why values of running containers are absent, each reason once with the containers that it is true for."""
    named: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if not row.container.is_alive:
            continue
        if row.why_absent is not None:
            named.setdefault(("all values", row.why_absent), []).append(row.container.name)
            continue
        for key, what in SHOWN.items():
            if key not in row.values and (why := row.reason(key)) is not None:
                named.setdefault((what, why), []).append(row.container.name)
    for (what, why), names in list(named.items())[:MOST_REASONS]:
        shown = ", ".join(names[:MOST_NAMED]) + (f" and {len(names) - MOST_NAMED} more" if names[MOST_NAMED:] else "")
        yield printable(f"{ABSENT} {what} of {shown}: {why}")
    if len(named) > MOST_REASONS:
        yield f"… and {number_of(len(named) - MOST_REASONS, 'more reason')} (--json has all)"


def container_json(
    row: ContainerRow, url: str | None, jobs: Mapping[str, str], at: float, patterns: Sequence[str] = ()
) -> dict[str, Any]:
    """Return a container with all its numbers; what is not known is null or missing, and `absent` says why."""
    container = row.container
    return {
        "schema_version": SCHEMA_VERSION,
        "timestamp": iso(at),
        "engine": container.engine,
        "engine_url": url,
        "id": container.id,
        "name": container.name,
        "project": container.project,
        "service": container.service,
        "state": container.state,
        "health": container.health,
        "exit_code": container.exit_code,
        "oom_killed": container.is_oom_killed,
        "image": container.image,
        "image_id": container.image_id,
        "command": redact_command(container.command, patterns),
        "created_at": iso(container.created_at),
        "started_at": iso(container.started_at),
        "finished_at": iso(container.finished_at),
        "restarts": container.restarts,
        "pid": container.pid,
        "job_id": row.job_id or jobs.get(container.id),
        "limits": as_dict(container.limits),
        "source": row.source,
        "working_set_bytes": row.working_set_bytes,
        "memory_peak_bytes": row.memory_peak_bytes,
        "gpus": [as_dict(gpu) for gpu in row.gpus],
        "metrics": nested({key: value for key, value in row.values.items() if not key.startswith("limit.")}),
        "rates": nested(row.rates),
        "absent": {"all": row.why_absent} if row.why_absent is not None else dict(row.absent),
    }


def nested(values: Mapping[str, int | float]) -> dict[str, Any]:
    """Return values nested at the dots of their keys, as in samples of jobs."""
    result: dict[str, Any] = {}
    for key, value in values.items():
        group, _, name = key.partition(".")
        result.setdefault(group, {})[name] = round(value, 6) if isinstance(value, float) else value
    return result


EMPTY_CSV_ROW = container_json(ContainerRow(Container("", "", "", "")), None, {}, 0.0)


def is_wanted(row: ContainerRow, words: Sequence[str], project: str | None, every: bool) -> bool:
    """Return whether a container is of a project, alive unless `every`, and has one of the words in its name."""
    container = row.container
    if project is not None and container.project != project:
        return False
    if not every and not container.is_alive:
        return False
    name = container.name.casefold()
    return not words or any(word.casefold() in name for word in words)
