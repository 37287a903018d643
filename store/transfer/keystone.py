"""Keystone's `jobs_history.jsonl`: a line of JSON for each job of its Celery workers."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from jobtop.store.transfer.values import (
    LATEST,
    MIB,
    Intake,
    Taken,
    amount,
    column_text,
    job_id,
    moment,
    number,
    row_of,
    seconds,
    text,
)

KIND = "keystone"
STATUSES = ("success", "failed", "timeout", "error")
KNOWN = frozenset(
    "task_id tool script params start_time end_time duration_seconds status returncode resource_usage error"
    " detailed_profile".split()
)
PROFILE = "detailed_profile"
PROFILE_LEFT_OUT = ("cpu", "memory", "process_cpu", "gpu_stats", "container_stats")
# It reads the worker before and after; the memory is what that held at the end.
INCOMPLETE = ("cpu, memory: measured of the Celery worker, not of what it ran",)
Shape = dict[str, Any]
NOTHING: Shape = {}


def fits(shape: Shape) -> bool:
    """Whether an object is one of its lines."""
    return "task_id" in shape and ("resource_usage" in shape or "status" in shape)


def read(paths: Sequence[Path], intake: Intake) -> Iterator[Taken]:
    """Every job; columns without the way over `Job`, which would take most of the time."""
    sources = {"cpu": KIND, "memory_peak": KIND, "io": KIND}
    common = row_of(intake.job(KIND, sources=sources, incomplete=INCOMPLETE))
    own = columns({"task_id": ""}, intake).keys()
    common = {name: value for name, value in common.items() if name not in own} | {"monitor": "{}"}
    without_monitor = {name: value for name, value in common.items() if name != "monitor"}
    for path in paths:
        for place, shape in intake.shapes(path, intake.lines(path)):
            if not fits(shape):
                intake.cannot_read(path, place, "it is no job of Keystone")
                continue
            if not shape.keys() <= KNOWN:
                intake.leave_out(KIND, shape.keys() - KNOWN)
            if PROFILE in shape:
                yield Taken(columns(shape, intake) | profiled(shape[PROFILE], intake), (), without_monitor)
            else:
                yield Taken(columns(shape, intake), (), common)


def columns(shape: Shape, intake: Intake) -> Shape:
    """What a line says, by column. It writes UTC without saying so."""
    get = shape.get
    task, tool, script = text(shape["task_id"]), get("tool"), get("script")
    start, params, usage, code = get("start_time"), get("params"), get("resource_usage"), number(get("returncode"))
    usage = usage if isinstance(usage, dict) else NOTHING
    duration, cpu = seconds(get("duration_seconds")), seconds(usage.get("cpu_total_seconds"))
    return {
        "id": job_id(KIND, task, start),
        "external_id": column_text(task),
        "name": column_text(name_of(text(script), text(tool))),
        "tool": column_text(tool),
        "script": column_text(script),
        "params": json.dumps(intake.params(params)) if params and isinstance(params, dict) else "{}",
        "start_time": utc(start),
        "end_time": utc(get("end_time")),
        "duration_seconds": duration,
        "status": status if (status := get("status")) in STATUSES else "unknown",
        "exit_code": None if code is None or code < 0 else int(code),
        "signal": None if code is None or code >= 0 else int(-code),
        "error": column_text(get("error")),
        "cpu_user_seconds": seconds(usage.get("cpu_user_seconds")),
        "cpu_system_seconds": seconds(usage.get("cpu_system_seconds")),
        "cpu_total_seconds": cpu,
        "cpu_percent_mean": 100 * cpu / duration if cpu is not None and duration else None,
        "memory_peak_bytes": amount(usage.get("memory_peak_mb"), MIB),
    }


def utc(value: object) -> float | None:
    """A moment that is in UTC unless it says otherwise."""
    try:
        found = datetime.fromisoformat(f"{value}+00:00").timestamp()
    except ValueError:
        return moment(value, is_utc=True)
    return found if 0 <= found < LATEST else None


@lru_cache(4096)
def name_of(script: str | None, tool: str | None) -> str:
    return (script and os.path.splitext(os.path.basename(script))[0]) or tool or KIND


def profiled(profile: object, intake: Intake) -> Shape:
    """What its profiler adds. The percentages are left out: those of the process are always 0, others the machine's."""
    intake.leave_out(KIND, (f"{PROFILE}.{key}" for key in PROFILE_LEFT_OUT))
    parts = profile if isinstance(profile, dict) else NOTHING
    memory, traffic = (
        found if isinstance(found := parts.get(key), dict) else NOTHING for key in ("process_memory", "io_stats")
    )
    return {
        "memory_mean_bytes": amount(memory.get("mean_mb"), MIB),
        "memory_min_bytes": amount(memory.get("min_mb"), MIB),
        "io_read_bytes": amount(traffic.get("read_mb"), MIB),
        "io_write_bytes": amount(traffic.get("write_mb"), MIB),
        "samples": amount(parts.get("samples_collected")),
        "monitor": json.dumps({"interval_seconds": seconds(parts.get("sampling_interval_seconds"))}),
    }
