"""The jobs of Torc's databases of samples, to draw them without importing them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from pathlib import Path

from jobtop.core.errors import UnknownJob, UsageError
from jobtop.core.metrics import find_metric
from jobtop.core.model import Job, Usage
from jobtop.core.record import replace
from jobtop.core.report.content import CPU, MEMORY, PROCESSES, ROWS, JobContent, thinned_curves
from jobtop.core.series.drawing import Number
from jobtop.core.units import printable
from jobtop.store.transfer.samples import Point
from jobtop.store.transfer.torc import UNREADABLE, connect, job_of, matches, point_of, raw_jobs
from jobtop.store.transfer.values import ImportContext


def read_databases(paths: Sequence[Path], wanted: Collection[int] = ()) -> list[JobContent]:
    """The jobs of some databases, or those of the wanted numbers; UsageError for a file that is not Torc's.

    UnknownJob if no database has a wanted number.
    """
    contents = [content for path in paths for content in _read(path, wanted)]
    known = {content.number for content in contents}
    missing = [number for number in wanted if str(number) not in known]
    if missing:
        raise UnknownJob(f"no job {', '.join(map(str, missing))} in {', '.join(map(str, paths))}")
    return contents


def _read(path: Path, wanted: Collection[int]) -> Iterator[JobContent]:
    if not path.exists():
        raise UsageError(f"{path}: there is no such file")
    if not path.is_file() or not matches(path):
        raise UsageError(f"{path}: it is not a database of samples as Torc writes them (job_resource_samples)")
    context = ImportContext()
    try:
        with closing(connect(path)) as connection:
            for number, name, rows in raw_jobs(connection, path, context):
                if wanted and number not in wanted:
                    continue
                yield content_of(job_of(path, context, number, name, rows), str(number), rows)
    except UNREADABLE as error:
        raise UsageError(f"{path}: {error}") from error


def content_of(job: Job, number: str, rows: Sequence[tuple[object, ...]]) -> JobContent:
    """A job with its curves; peaks and means are those of its samples, as Torc computes them."""
    points: list[Point] = sorted((point for row in rows if (point := point_of(row))), key=lambda point: point[0])
    start = points[0][0] if points else None
    times = [at - points[0][0] for at, _ in points]
    columns = {key: [values.get(key) for _, values in points] for key in ROWS}
    end = times[-1] if times else 0.0
    job = replace(
        job,
        start_time=start,
        end_time=None if start is None else start + end,
        duration_seconds=end or None,
        usage=_usage(columns),
    )
    metrics = [find_metric(key) for key in ROWS]
    safe = "".join(character if character.isalnum() else "_" for character in printable(number)[:40])
    return JobContent(job=job, number=safe, end=end, curves=thinned_curves(metrics, times, columns))


def _usage(columns: dict[str, list[Number | None]]) -> Usage:
    known = {key: [value for value in values if value is not None] for key, values in columns.items()}
    cpu, memory, processes = known[CPU], known[MEMORY], known[PROCESSES]
    return Usage(
        cpu_percent_peak=max(cpu, default=None),
        cpu_percent_mean=sum(cpu) / len(cpu) if cpu else None,
        memory_peak_bytes=round(max(memory)) if memory else None,
        memory_mean_bytes=round(sum(memory) / len(memory)) if memory else None,
        processes_peak=round(max(processes)) if processes else None,
        samples=max(map(len, known.values())),
    )
