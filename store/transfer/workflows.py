"""Import Snakemake's benchmark files and Nextflow's trace files, which have one line for each job.

The inverse of `core.workflows`. MB means 1024 × 1024 bytes in these files.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from jobtop.core.errors import BadValue
from jobtop.core.model import Limits, Status, Usage
from jobtop.core.units import parse_size
from jobtop.store.transfer.values import (
    MIB,
    ImportContext,
    ImportedJob,
    amount,
    job_columns,
    moment,
    number,
    seconds,
    text,
)

SNAKEMAKE, NEXTFLOW = "snakemake", "nextflow"
SNAKEMAKE_KNOWN = frozenset(
    "s h:m:s max_rss max_vms max_pss io_in io_out mean_load cpu_time jobid rule_name wildcards params threads".split()
)
NEXTFLOW_KNOWN = frozenset(
    "task_id hash native_id process tag name status exit submit start complete duration realtime %cpu peak_rss rss"
    " peak_vmem vmem rchar wchar read_bytes write_bytes vol_ctxt inv_ctxt cpus memory time workdir script hostname"
    " attempt error_action".split()
)
STATUSES = {
    "COMPLETED": Status.SUCCESS,
    "CACHED": Status.SUCCESS,
    "FAILED": Status.FAILED,
    "ABORTED": Status.CANCELLED,
}
UNKNOWN_EXIT = 2**31 - 1
TIME_OF_FILE = "start_time, end_time: from when the file was written"
UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
ABSENT_MARKS = {"", "-", "NA", "nan", "NaN"}
Line = dict[str, str]  # the values of a line by column, without absent ones


def is_snakemake(names: Sequence[str]) -> bool:
    """Whether a header is that of a benchmark file."""
    return {"s", "h:m:s"} <= set(names)


def is_nextflow(names: Sequence[str]) -> bool:
    """Whether a header is that of a trace file."""
    return bool({"task_id", "hash"} & set(names)) and bool({"realtime", "duration", "%cpu", "status"} & set(names))


def read_snakemake(paths: Sequence[Path], context: ImportContext) -> Iterator[ImportedJob]:
    """The runs of a rule; the end of a single run is the modification time of the file, which has no other time."""
    for path in paths:
        lines = list(table_lines(path, context))
        context.leave_out(SNAKEMAKE, {name for _, line in lines for name in line} - SNAKEMAKE_KNOWN)
        end = path.stat().st_mtime if len(lines) == 1 else None
        for line_number, line in lines:
            if seconds(line.get("s")) is None:
                context.cannot_read(path, line_number, "it has no time")
                continue
            yield snakemake_job(path, line_number, line, end, context)


def snakemake_job(path: Path, line_number: int, line: Line, end: float | None, context: ImportContext) -> ImportedJob:
    """Convert one run of a rule."""
    length, shared = seconds(line["s"]), amount(line.get("max_pss"), MIB)
    resident, virtual = amount(line.get("max_rss"), MIB), amount(line.get("max_vms"), MIB)
    peaks = {"mem.rss": resident, "mem.pss": shared, "mem.vms": virtual}
    job = context.job(
        SNAKEMAKE,
        path.stem,
        line_number,
        sorted(line.items()),
        external_id=text(line.get("jobid")),
        name=text(line.get("rule_name")) or path.stem,
        tool=text(line.get("rule_name")),
        params={key: value for key in ("wildcards", "params") if (value := line.get(key))},
        limits=Limits(cpus=number(line.get("threads")) or None),
        start_time=None if end is None or length is None else end - length,
        end_time=end,
        duration_seconds=length,
        usage=Usage(
            cpu_total_seconds=seconds(line.get("cpu_time")),
            cpu_percent_mean=seconds(line.get("mean_load")),
            memory_peak_bytes=resident if shared is None else shared,
            io_read_bytes=amount(line.get("io_in"), MIB),
            io_write_bytes=amount(line.get("io_out"), MIB),
        ),
        metrics={key: {"min": None, "mean": None, "peak": peak} for key, peak in peaks.items() if peak is not None},
        sources={"cpu": SNAKEMAKE, "memory_peak": "rss" if shared is None else "pss", "io": SNAKEMAKE},
        incomplete=() if end is None else (TIME_OF_FILE,),
    )
    return ImportedJob(job_columns(job))


def read_nextflow(paths: Sequence[Path], context: ImportContext) -> Iterator[ImportedJob]:
    """The tasks of a run; a cached task has the id of the same task in the earlier run."""
    for path in paths:
        names: set[str] = set()
        for line_number, line in table_lines(path, context):
            names |= line.keys()
            if line.get("name", line.get("process")) is None and line.get("hash") is None:
                context.cannot_read(path, line_number, "it has neither a name nor a hash")
                continue
            yield nextflow_job(line, context)
        context.leave_out(NEXTFLOW, names - NEXTFLOW_KNOWN)


def nextflow_job(line: Line, context: ImportContext) -> ImportedJob:
    """Convert one task."""
    name = line.get("name") or line.get("process") or line["hash"]
    submitted, length, length_with_queue = (
        moment_of(line.get("submit")),
        duration(line.get("realtime")),
        duration(line.get("duration")),
    )
    end = moment_of(line.get("complete"))
    if end is None and submitted is not None and length_with_queue is not None:
        end = submitted + length_with_queue
    start = moment_of(line.get("start"))
    if start is None and end is not None and length is not None:
        start = end - length
    load, code = seconds(line.get("%cpu", "").rstrip("%")), amount(line.get("exit"))
    virtual = size(line.get("peak_vmem", line.get("vmem")))
    job = context.job(
        NEXTFLOW,
        line.get("hash"),
        line.get("submit"),
        *(() if "hash" in line and "submit" in line else sorted(line.items())),
        external_id=line.get("hash") or line.get("task_id"),
        name=name,
        tool=line.get("process") or name.partition(" (")[0],
        command=tuple(line["script"].split()) if "script" in line else None,
        tags={"attempt": line["attempt"]} if line.get("attempt", "1") != "1" else None,
        host=line.get("hostname"),
        cwd=line.get("workdir"),
        params={"native_id": line["native_id"]} if "native_id" in line else None,
        status=STATUSES.get(line.get("status", ""), Status.UNKNOWN),
        exit_code=None if code == UNKNOWN_EXIT else code,
        submitted_at=submitted,
        start_time=start,
        end_time=end,
        duration_seconds=length,
        limits=Limits(
            cpus=number(line.get("cpus")) or None,
            memory_bytes=size(line.get("memory")),
            runtime_seconds=duration(line.get("time")),
        ),
        usage=Usage(
            cpu_total_seconds=None if load is None or length is None else load / 100 * length,
            cpu_percent_mean=load,
            memory_peak_bytes=size(line.get("peak_rss", line.get("rss"))),
            io_read_bytes=size(line.get("read_bytes")),
            io_write_bytes=size(line.get("write_bytes")),
            io_read_chars=size(line.get("rchar")),
            io_write_chars=size(line.get("wchar")),
            switches_voluntary=amount(line.get("vol_ctxt")),
            switches_involuntary=amount(line.get("inv_ctxt")),
        ),
        metrics={} if virtual is None else {"mem.vms": {"min": None, "mean": None, "peak": virtual}},
        sources={"cpu": "%cpu", "memory_peak": "rss", "io": NEXTFLOW},
    )
    return ImportedJob(job_columns(job))


def table_lines(path: Path, context: ImportContext) -> Iterator[tuple[int, Line]]:
    """The lines of a table with their numbers; recent versions of Snakemake write JSON Lines too."""
    if path.suffix == ".jsonl":
        for line_number, entry in context.json_objects(path, context.lines(path)):
            yield (
                line_number,
                {key: text(value) or "" for key, value in entry.items() if text(value) not in ABSENT_MARKS},
            )
        return
    rows = context.csv_rows(path, delimiter="\t", quoting=csv.QUOTE_NONE)
    names = [word.strip() for word in next(rows, (0, []))[1]]
    for line_number, words in rows:
        if len(words) != len(names):
            context.cannot_read(path, line_number, f"it has {len(words)} columns, not {len(names)}")
            continue
        values = zip(names, map(str.strip, words), strict=True)
        yield line_number, {name: value for name, value in values if value not in ABSENT_MARKS}


def duration(words: str | None) -> float | None:
    """The seconds of a text such as `1h 2m 3.5s`; a bare number, as in a raw trace, is milliseconds."""
    if words is None:
        return None
    if (bare := seconds(words, 0.001)) is not None:
        return bare
    parts = re.findall(r"([\d.]+)\s*(ms|[smhd])(?![a-z])", words)
    values = [seconds(value, UNITS[unit]) for value, unit in parts]
    return sum(filter(None, values)) if values and None not in values else None


def size(words: str | None) -> int | None:
    """The bytes of a text such as `3.1 MB`, or of a bare number."""
    if words is None or (bare := amount(words)) is not None:
        return None if words is None else bare
    try:
        return parse_size(words)
    except BadValue:
        return None


def moment_of(words: str | None) -> float | None:
    """Seconds since the epoch, from a local time or, as in a raw trace, from milliseconds since the epoch."""
    return moment(seconds(words, 0.001)) if words is not None and words.isdigit() else moment(words)
