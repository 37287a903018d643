"""Import con-duct's `PREFIX_info.json` and `PREFIX_usage.jsonl`: the outcome of a command, and samples by `ps`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from operator import itemgetter
from pathlib import Path

from jobtop.core.model import Job, Status, Usage
from jobtop.core.record import replace
from jobtop.core.run.request import default_name, script_of
from jobtop.store.transfer.samples import Point, job_from_samples, job_with_samples, samples_from
from jobtop.store.transfer.values import (
    ImportContext,
    ImportedJob,
    JsonObject,
    amount,
    job_columns,
    moment,
    nested_object,
    number,
    seconds,
    text,
)

KIND = "con-duct"
INFO = "info.json"
FILE_ENDINGS = (INFO, "usage.jsonl", "usage.json")  # the last one until version 0.18
LEFT_OUT = ("pmem", "system", "env", "gpu", "the processes of each report")
PS_PERCENTAGES = "cpu: percentages of ps, each the mean over the life of a process"
SOURCES = {"cpu": "ps", "memory_peak": "rss"}


def matches(entry: JsonObject) -> bool:
    """Whether a JSON object is the information of a run, or a report of its usage."""
    return "execution_summary" in entry or {"timestamp", "totals", "processes"} <= entry.keys()


def files_of_run(path: Path) -> tuple[Path, ...]:
    """The files of a run, given any of them."""
    for ending in FILE_ENDINGS:
        if path.name.endswith(ending):
            stem = path.name.removesuffix(ending)
            return tuple(file for ending in FILE_ENDINGS if (file := path.with_name(stem + ending)).is_file())
    return (path,)


def read(paths: Sequence[Path], context: ImportContext) -> Iterator[ImportedJob]:
    """The job of one run; a killed con-duct leaves no information of the run, only samples."""
    info: JsonObject = {}
    points: list[Point] = []
    for path in paths:
        if path.name.endswith(INFO):
            info = read_info(path, context)
        else:
            points += context.most_samples(path, points_of(path, context))
    if not info and not points:
        return
    context.leave_out(KIND, LEFT_OUT)
    if info:
        yield ended_job(info, points, context)
    else:
        name = paths[-1].name.rpartition("usage")[0].strip("_-.") or KIND
        first = min(points, key=itemgetter(0))
        yield job_from_samples(
            context.job(KIND, first, name=name, sources=SOURCES, incomplete=(PS_PERCENTAGES,)),
            points,
        )


def read_info(path: Path, context: ImportContext) -> JsonObject:
    """The information of a run; empty, with a note, if it cannot be read."""
    try:
        info = json.loads(context.whole_text(path))
    except (ValueError, RecursionError):
        info = None
    if isinstance(info, dict) and isinstance(info.get("execution_summary"), dict):
        return info
    context.cannot_read(path, None, "it is not the information of a run; a killed con-duct leaves this file empty")
    return {}


def points_of(path: Path, context: ImportContext) -> Iterator[Point]:
    """The reports as samples: mean percentages since the previous report, and the largest sizes since then."""
    for line_number, report in context.json_objects(path, context.lines(path)):
        at = moment(report.get("timestamp"))
        totals, means = nested_object(report, "totals"), nested_object(report, "averages")
        if at is None or not totals:
            context.cannot_read(path, line_number, "it is not a report of con-duct")
            continue
        percent = number(means.get("pcpu"))
        memory = amount(totals.get("rss"))
        yield (
            at,
            {
                "cpu.percent": number(totals.get("pcpu")) if percent is None else percent,
                "mem.used": memory,
                "mem.rss": memory,
                "mem.vms": amount(totals.get("vsz")),
                "proc.count": len(nested_object(report, "processes")) or None,
            },
        )


def ended_job(info: JsonObject, points: Sequence[Point], context: ImportContext) -> ImportedJob:
    """Convert a run with its information and samples."""
    summary = nested_object(info, "execution_summary")
    start = moment(summary.get("start_time"))
    key = (command_text(info), summary.get("start_time"), summary.get("wall_clock_time"))
    job = replace(
        with_outcome(context.job(KIND, *key, **description(info)), summary),
        start_time=start,
        end_time=moment(summary.get("end_time")),
        duration_seconds=seconds(summary.get("wall_clock_time")),
        note=text(info.get("message")),
        usage=Usage(
            cpu_percent_mean=seconds(summary.get("average_pcpu")),
            memory_peak_bytes=amount(summary.get("peak_rss")),
        ),
    )
    samples = [] if start is None else samples_from(points, start)
    return job_with_samples(job, samples, points) if samples else ImportedJob(job_columns(job))


def command_text(info: JsonObject) -> str:
    """The command of a run; con-duct writes its arguments without quotes."""
    return text(info.get("command")) or text(nested_object(info, "execution_summary").get("command")) or ""


def description(info: JsonObject) -> JsonObject:
    """The command, the user, the host and the directory of a run, as fields of Job."""
    system, summary = nested_object(info, "system"), nested_object(info, "execution_summary")
    words = tuple(command_text(info).split())
    script = script_of(words) if words else None
    return {
        "command": words,
        "script": script,
        "name": default_name(words, script, False) if words else None,
        "tool": default_name(words, None, False) if words else None,
        "host": text(system.get("hostname")),
        "user": text(system.get("user")) or text(system.get("uid")),
        "cwd": text(info.get("working_directory")) or text(summary.get("working_directory")),
        "external_id": text(nested_object(info, "env").get("SLURM_JOB_ID")),
        "sources": SOURCES,
        "incomplete": (PS_PERCENTAGES,),
    }


def with_outcome(job: Job, summary: JsonObject) -> Job:
    """The job with the status, and the exit code or the signal, of a run."""
    code = number(summary.get("exit_code"))
    if code is None:
        return job
    status = Status.FAILED if code else Status.SUCCESS
    if code < 0:
        return replace(job, status=status, signal=int(-code))
    return replace(job, status=status, exit_code=int(code))
