"""What workflow systems write down of their jobs: Snakemake's benchmark files, Nextflow's trace files. A line a job.

The inverse of `core.workflows`; MB is 1024 × 1024 bytes there.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from jobtop.core.errors import BadValue
from jobtop.core.model import Limits, Status, Usage
from jobtop.core.units import parse_size
from jobtop.store.transfer.values import MIB, Intake, Taken, amount, moment, number, row_of, seconds, text

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
MARKS = {"", "-", "NA", "nan", "NaN"}  # for what is not known
Line = dict[str, str]


def is_snakemake(names: Sequence[str]) -> bool:
    return {"s", "h:m:s"} <= set(names)


def is_nextflow(names: Sequence[str]) -> bool:
    return bool({"task_id", "hash"} & set(names)) and bool({"realtime", "duration", "%cpu", "status"} & set(names))


def read_snakemake(paths: Sequence[Path], intake: Intake) -> Iterator[Taken]:
    """The runs of a rule, a line each; when they were is not written anywhere but on the file itself."""
    for path in paths:
        lines = list(rows(path, intake))
        intake.leave_out(SNAKEMAKE, {name for _, line in lines for name in line} - SNAKEMAKE_KNOWN)
        written = path.stat().st_mtime if len(lines) == 1 else None
        for place, line in lines:
            if seconds(line.get("s")) is None:
                intake.cannot_read(path, place, "it has no time")
                continue
            yield snakemake_job(path, place, line, written, intake)


def snakemake_job(path: Path, place: int, line: Line, written: float | None, intake: Intake) -> Taken:
    length, shared = seconds(line["s"]), amount(line.get("max_pss"), MIB)
    resident, virtual = amount(line.get("max_rss"), MIB), amount(line.get("max_vms"), MIB)
    peaks = {"mem.rss": resident, "mem.pss": shared, "mem.vms": virtual}
    job = intake.job(
        SNAKEMAKE,
        path.stem,
        place,
        sorted(line.items()),
        external_id=text(line.get("jobid")),
        name=text(line.get("rule_name")) or path.stem,
        tool=text(line.get("rule_name")),
        params={key: value for key in ("wildcards", "params") if (value := line.get(key))},
        limits=Limits(cpus=number(line.get("threads")) or None),
        start_time=None if written is None or length is None else written - length,
        end_time=written,
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
        incomplete=() if written is None else (TIME_OF_FILE,),
    )
    return Taken(row_of(job))


def read_nextflow(paths: Sequence[Path], intake: Intake) -> Iterator[Taken]:
    """The tasks of a run; one that was cached is the task of the run before."""
    for path in paths:
        names: set[str] = set()
        for place, line in rows(path, intake):
            names |= line.keys()
            if line.get("name", line.get("process")) is None and line.get("hash") is None:
                intake.cannot_read(path, place, "it has neither a name nor a hash")
                continue
            yield nextflow_job(line, intake)
        intake.leave_out(NEXTFLOW, names - NEXTFLOW_KNOWN)


def nextflow_job(line: Line, intake: Intake) -> Taken:
    name = line.get("name") or line.get("process") or line["hash"]
    submitted, length, whole = (
        moment_of(line.get("submit")),
        duration(line.get("realtime")),
        duration(line.get("duration")),
    )
    end = moment_of(line.get("complete"))
    if end is None and submitted is not None and whole is not None:
        end = submitted + whole
    start = moment_of(line.get("start"))
    if start is None and end is not None and length is not None:
        start = end - length
    load, code = seconds(line.get("%cpu", "").rstrip("%")), amount(line.get("exit"))
    virtual = size(line.get("peak_vmem", line.get("vmem")))
    job = intake.job(
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
    return Taken(row_of(job))


def rows(path: Path, intake: Intake) -> Iterator[tuple[int, Line]]:
    """The lines of a table, by column, without what is not known; newer Snakemakes write JSON Lines too."""
    lines = intake.lines(path)
    if path.suffix == ".jsonl":
        for place, shape in intake.shapes(path, lines):
            yield place, {key: text(value) or "" for key, value in shape.items() if text(value) not in MARKS}
        return
    reader = csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
    names: list[str] = []
    try:
        for words in reader:
            if not names:
                names = [word.strip() for word in words]
            elif words and len(words) != len(names):
                intake.cannot_read(path, reader.line_num, f"it has {len(words)} columns, not {len(names)}")
            elif words:
                known = ((name, word.strip()) for name, word in zip(names, words, strict=True))
                yield reader.line_num, {name: word for name, word in known if word not in MARKS}
    except csv.Error as error:
        intake.cannot_read(path, reader.line_num, str(error))


def duration(words: str | None) -> float | None:
    """Seconds of `1h 2m 3.5s`; a bare number is milliseconds, as in a raw trace."""
    if words is None:
        return None
    if (bare := seconds(words, 0.001)) is not None:
        return bare
    parts = re.findall(r"([\d.]+)\s*(ms|[smhd])(?![a-z])", words)
    values = [seconds(value, UNITS[unit]) for value, unit in parts]
    return sum(filter(None, values)) if values and None not in values else None


def size(words: str | None) -> int | None:
    """Bytes of `3.1 MB`, or of a bare number."""
    if words is None or (bare := amount(words)) is not None:
        return None if words is None else bare
    try:
        return parse_size(words)
    except BadValue:
        return None


def moment_of(words: str | None) -> float | None:
    """A local time, or milliseconds since the epoch, as in a raw trace."""
    return moment(seconds(words, 0.001)) if words is not None and words.isdigit() else moment(words)
