"""The keys of workflow files, and what their values have to be. Pure."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any

from jobtop.core.errors import BadValue
from jobtop.core.units import parse_duration, parse_size, printable

Parser = Callable[[Any], Any]

ISO_DURATION = re.compile(
    r"P(?:(\d+(?:\.\d+)?)W)?(?:(\d+(?:\.\d+)?)D)?(?:T(?:(\d+(?:\.\d+)?)H)?(?:(\d+(?:\.\d+)?)M)?(?:(\d+(?:\.\d+)?)S)?)?"
)
ISO_SECONDS = (604800.0, 86400.0, 3600.0, 60.0, 1.0)
SHORTEST_INTERVAL_SECONDS = 0.1


def text(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise BadValue("has to be a text")
    if "\0" in str(value):
        raise BadValue("has a zero byte in it")
    return str(value)


def word(value: Any) -> str:
    """A name: a text with something in it."""
    found = text(value)
    if not found.strip():
        raise BadValue("must not be empty")
    return found


def texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list):
        raise BadValue("has to be a list of texts")
    return [text(each) for each in value]


def boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise BadValue("has to be true or false")
    return value


def number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise BadValue("has to be a number")
    return value


def whole(value: Any) -> int:
    found = number(value)
    if found != int(found):
        raise BadValue("has to be a whole number")
    return int(found)


def count(value: Any) -> int:
    found = whole(value)
    if found < 0 or found > 1_000_000:
        raise BadValue("has to be a whole number from 0 to 1000000")
    return found


def cpus(value: Any) -> float:
    found = number(value)
    if found <= 0:
        raise BadValue("has to be more than 0")
    return found


def size(value: Any) -> int:
    """`"512k"`, `"1m"`, `"2g"`; binary. A number is bytes."""
    found = parse_size(text(value))
    if found <= 0:
        raise BadValue("has to be more than 0")
    return found


def duration(value: Any) -> float:
    """Seconds of an ISO 8601 duration such as `PT30M`, or of one as jobtop writes it, such as `30m`."""
    said = text(value).strip()
    match = ISO_DURATION.fullmatch(said.upper())
    if match and any(match.groups()):
        return sum(float(amount or 0) * seconds for amount, seconds in zip(match.groups(), ISO_SECONDS, strict=True))
    if said.upper().startswith("P"):
        raise BadValue(f'"{printable(said[:40])}" is not a duration, such as PT30M, P1DT12H or 30m')
    return parse_duration(said)


def interval(value: Any) -> float:
    found = number(value)
    if found < SHORTEST_INTERVAL_SECONDS:
        raise BadValue(f"has to be at least {SHORTEST_INTERVAL_SECONDS} seconds")
    return found


def table(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadValue("has to be a table")
    return value


def text_table(value: Any) -> dict[str, str]:
    return {key: text(each) for key, each in table(value).items()}


def variables(value: Any) -> dict[str, str]:
    """The environment of a job."""
    found = text_table(value)
    for key in found:
        if not key or "=" in key or "\0" in key:
            raise BadValue(f'"{printable(key[:40])}" cannot be the name of a variable')
    return found


def tags(value: Any) -> dict[str, str]:
    """A table, or a list of `key` and `key=value`."""
    if isinstance(value, dict):
        return text_table(value)
    pairs = (each.partition("=") for each in texts(value))
    return {key: said for key, _, said in pairs}


def tables(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise BadValue("has to be a list")
    return value


def anything(value: Any) -> Any:
    return value


def codes(value: Any) -> tuple[int, ...]:
    if not isinstance(value, list) or not value:
        raise BadValue("has to be a list of exit codes")
    found = tuple(whole(each) for each in value)
    if any(not 0 <= each <= 255 for each in found):
        raise BadValue("has exit codes that are not from 0 to 255")
    return found


def one_of(*names: str) -> Parser:
    def parse(value: Any) -> str:
        said = text(value).lower()
        if said not in names:
            raise BadValue(f'is "{printable(said[:40])}"; it has to be {" or ".join(names)}')
        return said

    return parse


def json_text(value: Any) -> Any:
    """`metadata` is JSON in a text; a table is accepted too."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        raise BadValue("is not JSON") from None


LISTS = (
    *("depends_on", "depends_on_regexes", "input_files", "output_files", "input_file_regexes", "output_file_regexes"),
    *("input_user_data", "output_user_data", "input_user_data_regexes", "output_user_data_regexes"),
)
PARAMETERS: dict[str, Parser] = {
    "parameters": table,
    "parameter_mode": one_of("product", "zip"),
    "use_parameters": texts,
}
ASKED: dict[str, Parser] = {
    "num_cpus": cpus,
    "memory": size,
    "num_gpus": count,
    "num_nodes": count,
    "runtime": duration,
}
JOB: dict[str, Parser] = {
    "name": word,
    "command": word,
    "invocation_script": word,
    "resource_requirements": anything,  # a name, or a table of its own
    "failure_handler": text,
    "scheduler": text,
    "cancel_on_blocking_job_failure": boolean,
    "supports_termination": boolean,
    **dict.fromkeys(LISTS, texts),
    **PARAMETERS,
    "tags": tags,
    "priority": whole,
    "env": variables,
    "image": word,
    "timeout": duration,
    "retries": count,
    **ASKED,
}
FILE: dict[str, Parser] = {"name": word, "path": word, **PARAMETERS}
USER_DATA: dict[str, Parser] = {"name": word, "data": anything, "is_ephemeral": boolean, **PARAMETERS}
REQUIREMENTS: dict[str, Parser] = {"name": word, **ASKED}
RULE: dict[str, Parser] = {
    "exit_codes": codes,
    "match_all_exit_codes": boolean,
    "recovery_script": word,
    "max_retries": count,
}
HANDLER: dict[str, Parser] = {"name": word, "rules": tables}
TRIGGERS = ("on_workflow_start", "on_workflow_complete", "on_jobs_ready", "on_jobs_complete")
ACTION: dict[str, Parser] = {
    "trigger_type": one_of(*TRIGGERS),
    "action_type": one_of("run_commands", "schedule_nodes"),
    "jobs": texts,
    "job_name_regexes": texts,
    "commands": texts,
    "persistent": boolean,
    **dict.fromkeys(
        ("scheduler", "scheduler_type", "num_allocations", "start_one_worker_per_node", "max_parallel_jobs"), anything
    ),
}
MONITOR: dict[str, Parser] = {
    "enabled": boolean,
    "granularity": one_of("summary", "time_series"),
    "sample_interval_seconds": interval,
    "generate_plots": boolean,
}
SCHEDULER: dict[str, Parser] = dict.fromkeys(
    "name account partition nodes walltime mem gres qos ntasks_per_node tmp extra".split(), anything
)
SERVER_ONLY = (
    *("use_pending_failed", "compute_node_expiration_buffer_seconds", "compute_node_wait_for_new_jobs_seconds"),
    *("compute_node_ignore_workflow_completion", "compute_node_wait_for_healthy_database_minutes"),
    *("compute_node_min_time_for_new_jobs_seconds", "slurm_defaults"),
)
WORKFLOW: dict[str, Parser] = {
    "name": word,
    "user": text,
    "description": text,
    "project": text,
    "metadata": json_text,
    "parameters": table,
    "jobs": tables,
    "files": tables,
    "user_data": tables,
    "resource_requirements": tables,
    "failure_handlers": tables,
    "slurm_schedulers": tables,
    "resource_monitor": table,
    "actions": tables,
    "jobs_sort_method": one_of("none", "gpus_runtime_memory", "gpus_memory_runtime"),
    **dict.fromkeys(SERVER_ONLY, anything),
}
