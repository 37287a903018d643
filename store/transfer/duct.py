"""con-duct's `PREFIX_info.json` and `PREFIX_usage.jsonl`: how a command ended, and what `ps` said of it meanwhile."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

from jobtop.core.model import Job, Status, Usage
from jobtop.core.record import replace
from jobtop.core.run.request import default_name, script_of
from jobtop.store.transfer.samples import Point, observed, sampled, samples_from
from jobtop.store.transfer.values import Intake, Taken, amount, moment, number, row_of, seconds, text

KIND = "con-duct"
INFO = "info.json"
ENDINGS = (INFO, "usage.jsonl", "usage.json")  # the last until its version 0.18
LEFT_OUT = ("pmem", "system", "env", "gpu", "the processes of each report")
OF_PS = "cpu: percentages of ps, each the mean over the life of a process"
SOURCES = {"cpu": "ps", "memory_peak": "rss"}
Shape = dict[str, Any]


def fits(shape: Shape) -> bool:
    """Whether an object is the information of a run, or a report of its usage."""
    return "execution_summary" in shape or {"timestamp", "totals", "processes"} <= shape.keys()


def files_of_run(path: Path) -> tuple[Path, ...]:
    """The files of the run that a file is of, whichever of them it is."""
    for ending in ENDINGS:
        if path.name.endswith(ending):
            stem = path.name.removesuffix(ending)
            return tuple(file for ending in ENDINGS if (file := path.with_name(stem + ending)).is_file())
    return (path,)


def read(paths: Sequence[Path], intake: Intake) -> Iterator[Taken]:
    """The job of one run. Without its information, as where con-duct was killed, the samples are all there is."""
    info: Shape = {}
    points: list[Point] = []
    for path in paths:
        if path.name.endswith(INFO):
            info = info_of(path, intake)
        else:
            points += intake.most_samples(path, points_of(path, intake))
    if not info and not points:
        return
    intake.leave_out(KIND, LEFT_OUT)
    if info:
        yield run(info, points, intake)
    else:
        name = paths[-1].name.rpartition("usage")[0].strip("_-.") or KIND
        yield sampled(
            intake.job(KIND, min(points, key=itemgetter(0)), name=name, sources=SOURCES, incomplete=(OF_PS,)), points
        )


def info_of(path: Path, intake: Intake) -> Shape:
    try:
        shape = json.loads(intake.whole_text(path))
    except (ValueError, RecursionError):
        shape = None
    if isinstance(shape, dict) and isinstance(shape.get("execution_summary"), dict):
        return shape
    intake.cannot_read(path, None, "it is no information of con-duct, which leaves it empty when it is killed")
    return {}


def points_of(path: Path, intake: Intake) -> Iterator[Point]:
    """Its reports: the mean percentage since the report before, sizes at their largest."""
    for place, shape in intake.shapes(path, intake.lines(path)):
        at, totals, means = moment(shape.get("timestamp")), _part(shape, "totals"), _part(shape, "averages")
        if at is None or not totals:
            intake.cannot_read(path, place, "it is no report of con-duct")
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
                "proc.count": len(_part(shape, "processes")) or None,
            },
        )


def run(info: Shape, points: Sequence[Point], intake: Intake) -> Taken:
    """A job whose end is known."""
    summary = _part(info, "execution_summary")
    start = moment(summary.get("start_time"))
    command = text(info.get("command")) or text(summary.get("command")) or ""
    job = replace(
        outcome(
            intake.job(KIND, command, summary.get("start_time"), summary.get("wall_clock_time"), **who(info)), summary
        ),
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
    return observed(job, samples, points) if samples else Taken(row_of(job))


def who(info: Shape) -> Shape:
    """Who ran what where. It keeps the words of a command without what held them together."""
    system, summary = _part(info, "system"), _part(info, "execution_summary")
    words = tuple((text(info.get("command")) or text(summary.get("command")) or "").split())
    script = script_of(words) if words else None
    return {
        "command": words,
        "script": script,
        "name": default_name(words, script, False) if words else None,
        "tool": default_name(words, None, False) if words else None,
        "host": text(system.get("hostname")),
        "user": text(system.get("user")) or text(system.get("uid")),
        "cwd": text(info.get("working_directory")) or text(summary.get("working_directory")),
        "external_id": text(_part(info, "env").get("SLURM_JOB_ID")),
        "sources": SOURCES,
        "incomplete": (OF_PS,),
    }


def outcome(job: Job, summary: Shape) -> Job:
    code = number(summary.get("exit_code"))
    if code is None:
        return job
    status = Status.FAILED if code else Status.SUCCESS
    if code < 0:
        return replace(job, status=status, signal=int(-code))
    return replace(job, status=status, exit_code=int(code))


def _part(shape: Shape, name: str) -> Shape:
    found = shape.get(name)
    return found if isinstance(found, dict) else {}
