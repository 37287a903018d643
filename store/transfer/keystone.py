"""Import Keystone's `jobs_history.jsonl`: one JSON object per line for each job of its Celery workers."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import lru_cache
from pathlib import Path

from jobtop.store.transfer.values import (
    LATEST,
    MIB,
    NO_OBJECT,
    Columns,
    ImportContext,
    ImportedJob,
    JsonObject,
    amount,
    column_text,
    job_columns,
    job_id,
    moment,
    nested_object,
    number,
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
# Keystone reads the worker before and after a job; the memory is that of the worker at the end.
INCOMPLETE = ("cpu, memory: measured of the Celery worker, not of what it ran",)


def matches(entry: JsonObject) -> bool:
    """Whether a JSON object is a job of Keystone."""
    return "task_id" in entry and ("resource_usage" in entry or "status" in entry)


def read(paths: Sequence[Path], context: ImportContext) -> Iterator[ImportedJob]:
    """All jobs. Lines become columns directly: creating a `Job` for each would take most of the time."""
    sources = {"cpu": KIND, "memory_peak": KIND, "io": KIND}
    shared = job_columns(context.job(KIND, sources=sources, incomplete=INCOMPLETE))
    own = columns({"task_id": ""}, context).keys()
    shared = {name: value for name, value in shared.items() if name not in own} | {"monitor": "{}"}
    shared_without_monitor = {name: value for name, value in shared.items() if name != "monitor"}
    for path in paths:
        for line_number, entry in context.json_objects(path, context.lines(path)):
            if not matches(entry):
                context.cannot_read(path, line_number, "it is not a job of Keystone")
                continue
            if not entry.keys() <= KNOWN:
                context.leave_out(KIND, entry.keys() - KNOWN)
            if PROFILE in entry:
                profile = nested_object(entry, PROFILE)
                yield ImportedJob(
                    columns(entry, context) | profile_columns(profile, context), (), shared_without_monitor
                )
            else:
                yield ImportedJob(columns(entry, context), (), shared)


def columns(entry: JsonObject, context: ImportContext) -> Columns:
    """The columns of a job, without those of its profile. Its times are UTC, without a zone."""
    get = entry.get
    task, tool, script = text(entry["task_id"]), get("tool"), get("script")
    start, params, usage, code = get("start_time"), get("params"), get("resource_usage"), number(get("returncode"))
    usage = usage if isinstance(usage, dict) else NO_OBJECT
    duration, cpu = seconds(get("duration_seconds")), seconds(usage.get("cpu_total_seconds"))
    return {
        "id": job_id(KIND, task, start),
        "external_id": column_text(task),
        "name": column_text(name_of(text(script), text(tool))),
        "tool": column_text(tool),
        "script": column_text(script),
        "params": json.dumps(context.params(params)) if params and isinstance(params, dict) else "{}",
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
    """Seconds since the epoch, from ISO 8601, which without a zone is UTC."""
    try:
        found = datetime.fromisoformat(f"{value}+00:00").timestamp()
    except ValueError:
        return moment(value, is_utc=True)
    return found if 0 <= found < LATEST else None


@lru_cache(4096)
def name_of(script: str | None, tool: str | None) -> str:
    """The name of a job: that of its script, or its tool."""
    return (script and os.path.splitext(os.path.basename(script))[0]) or tool or KIND


def profile_columns(profile: JsonObject, context: ImportContext) -> Columns:
    """The columns from a job's profile; its CPU percentages are 0 for the process, and otherwise those of the host."""
    context.leave_out(KIND, (f"{PROFILE}.{key}" for key in PROFILE_LEFT_OUT))
    memory, traffic = (nested_object(profile, key) for key in ("process_memory", "io_stats"))
    return {
        "memory_mean_bytes": amount(memory.get("mean_mb"), MIB),
        "memory_min_bytes": amount(memory.get("min_mb"), MIB),
        "io_read_bytes": amount(traffic.get("read_mb"), MIB),
        "io_write_bytes": amount(traffic.get("write_mb"), MIB),
        "samples": amount(profile.get("samples_collected")),
        "monitor": json.dumps({"interval_seconds": seconds(profile.get("sampling_interval_seconds"))}),
    }
