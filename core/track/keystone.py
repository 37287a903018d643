"""The shapes of Keystone: a job as a line of its `jobs_history.jsonl`, and what its classes return. Pure.

Absent is None here, which is `null` in the file; code that was written for Keystone compares numbers without a look, so
what its classes return has NaN in these places.
"""

from __future__ import annotations

from jobtop.core.clock import iso
from jobtop.core.model import Status
from jobtop.core.record import record
from jobtop.core.track.profile import MIB, ProfileTally, io_stats, megabytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from jobtop.core.analysis.statistics import Summary

NAN = float("nan")
STATUSES = (Status.SUCCESS, Status.FAILED, Status.TIMEOUT, Status.ERROR)  # that a caller may give a job
PROFILE, HAS_RESULT = "profile", "has_result"  # in the findings of a job
PROFILER = "ResourceProfiler"  # the tool of profiles, which are no jobs of Keystone
# Keys with a text or a list, which stay None where there is none.
TEXTS = frozenset("tool script error start_time end_time stdout stderr detailed_profile name product".split())
PARTS = {  # what can be chosen of a profile, and its key there
    "cpu": "cpu",
    "memory": "memory",
    "process_cpu": "process_cpu",
    "process_memory": "process_memory",
    "io": "io_stats",
    "gpu": "gpu_stats",
    "network": "network",
    "container": "container_stats",
}
ALWAYS = ("duration_seconds", "samples_collected", "sampling_interval_seconds")


@record
class Task:
    """One ended job, as its row in the store says."""

    task_id: str
    tool: str | None
    script: str | None
    params: dict[str, Any]
    start_time: float | None
    end_time: float | None
    duration_seconds: float | None
    status: str
    exit_code: int | None
    signal: int | None
    error: str | None
    cpu_user_seconds: float | None
    cpu_system_seconds: float | None
    cpu_total_seconds: float | None
    memory_peak_bytes: int | None
    findings: dict[str, Any]


def task_entry(task: Task, absent: float | None = None) -> dict[str, Any]:
    """A job as a line of the file, or with NaN as `absent`; `detailed_profile` only if it was profiled."""
    findings, code = task.findings, task.exit_code
    if code is None and task.signal is not None:
        code = -task.signal
    user, system, total, peak = (
        task.cpu_user_seconds,
        task.cpu_system_seconds,
        task.cpu_total_seconds,
        task.memory_peak_bytes,
    )
    entry = {
        "task_id": task.task_id,
        "tool": task.tool,
        "script": task.script,
        "params": task.params,
        "start_time": naive_utc(task.start_time),
        "end_time": naive_utc(task.end_time),
        "duration_seconds": absent if task.duration_seconds is None else round(task.duration_seconds, 6),
        "status": task.status,
        "returncode": absent if code is None else code,
        "resource_usage": {
            "cpu_user_seconds": absent if user is None else round(user, 6),
            "cpu_system_seconds": absent if system is None else round(system, 6),
            "cpu_total_seconds": absent if total is None else round(total, 6),
            "memory_peak_mb": absent if peak is None else round(peak / MIB, 6),
        },
        "error": task.error,
        "has_result": bool(findings.get(HAS_RESULT)),
    }
    profile = findings.get(PROFILE)
    if isinstance(profile, dict):
        entry["detailed_profile"] = profile if absent is None else with_nan(profile)
    return entry


def with_nan(value: Any, key: str | None = None) -> Any:
    """The same with NaN where a number is absent; texts stay None, and parameters are the caller's."""
    if isinstance(value, dict):
        return {name: item if name == "params" else with_nan(item, name) for name, item in value.items()}
    if isinstance(value, list):
        return [with_nan(item, key) for item in value]
    return NAN if value is None and key not in TEXTS else value


def complete_profile(
    profile: Mapping[str, Any] | None,
    job: Mapping[str, Any],
    interval_seconds: float,
    container_stats: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """A profile with the exact totals of its job, as JSON, in place of sampled ones; all keys, also without samples."""
    usage, duration = job.get("resource_usage") or {}, job.get("duration_seconds")
    found = dict(ProfileTally().summary(duration or 0.0, interval_seconds) if profile is None else profile)
    if duration is not None:
        found["duration_seconds"] = rounded(duration)
    cpu = dict(found.get("process_cpu") or {})
    found["process_cpu"] = cpu | {
        "mean_percent": rounded(first(usage.get("cpu_percent_mean"), cpu.get("mean_percent")), 3),
        "max_percent": rounded(highest(cpu.get("max_percent"), usage.get("cpu_percent_peak")), 3),
    }
    memory = dict(found.get("process_memory") or {})
    found["process_memory"] = memory | {
        "mean_mb": first(memory.get("mean_mb"), megabytes(usage.get("memory_mean_bytes"))),
        "max_mb": highest(memory.get("max_mb"), megabytes(usage.get("memory_peak_bytes"))),
        "min_mb": first(memory.get("min_mb"), megabytes(usage.get("memory_min_bytes"))),
    }
    traffic = dict(found.get("io_stats") or {})
    exact = io_stats(usage.get("io_read_bytes"), usage.get("io_write_bytes"), None, None)
    found["io_stats"] = traffic | {key: value for key, value in exact.items() if value is not None}
    return found | {"container_stats": dict(container_stats or {})}


def chosen_parts(profile: Mapping[str, Any], metrics: Iterable[str] | None) -> dict[str, Any]:
    """A profile with the chosen parts alone; None are all."""
    if metrics is None:
        return dict(profile)
    keys = {*ALWAYS, *(PARTS[name] for name in metrics)}
    return {key: value for key, value in profile.items() if key in keys}


def summary_statistics(overall: Summary, groups: Mapping[str | None, Summary]) -> dict[str, Any]:
    """Keystone's statistics of ended jobs; the rate of success is in percent of all of them."""
    tools = {tool: group for tool, group in groups.items() if tool is not None and group.ended}
    found: dict[str, Any] = {
        "total_jobs": overall.ended,
        "successful": overall.successful,
        "failed": overall.failed,
        "success_rate": success_percent(overall),
        "total_cpu_time_seconds": rounded(overall.cpu.total or 0.0),
        "total_duration_seconds": rounded(overall.duration.total or 0.0),
        "average_duration_seconds": rounded(overall.duration.mean),
        "by_tool": {tool: tool_statistics(group) for tool, group in tools.items()},
    }
    if None in groups and groups[None].ended:
        found["ungrouped"] = tool_statistics(groups[None])
    return found


def tool_statistics(group: Summary) -> dict[str, Any]:
    return {
        "count": group.ended,
        "successful": group.successful,
        "failed": group.failed,
        "success_rate": success_percent(group),
        "total_duration": rounded(group.duration.total or 0.0),
        "total_cpu_time": rounded(group.cpu.total or 0.0),
        "average_duration": rounded(group.duration.mean),
    }


def success_percent(group: Summary) -> float | None:
    return round(100 * group.successful / group.ended, 2) if group.ended else None


def naive_utc(moment: float | None) -> str | None:
    """A time as Keystone writes it: UTC with microseconds, without a zone."""
    text = iso(moment)
    return None if text is None else text.removesuffix("Z")


def rounded(value: float | None, digits: int = 6) -> float | None:
    return None if value is None else round(float(value), digits)


def first(*values: float | None) -> float | None:
    return next((value for value in values if value is not None), None)


def highest(*values: float | None) -> float | None:
    return max((value for value in values if value is not None), default=None)
