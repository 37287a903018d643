"""Compares jobs with the first of them: what each used, and which of their parameters differ. Pure."""

from __future__ import annotations

from enum import Enum

from jobtop.core.analysis.container_overhead import start_seconds
from jobtop.core.query.conditions import as_text
from jobtop.core.record import as_dict, record
from jobtop.core.run.containers.facts import container_facts
from jobtop.core.units import format_bytes, format_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from jobtop.core.model import Job

SAME_WITHIN = 0.01  # a smaller relative difference counts as none: no two runs take exactly the same time
OMITTED = "…"


class NumberFormat(Enum):
    """How a number is formatted."""

    SECONDS = "seconds"
    BYTES = "bytes"
    SHARE = "share"  # 1.0 is all
    COUNT = "count"


class ChangeVerdict(Enum):
    """What a difference means; UNJUDGED where more is neither good nor bad, or a value is unknown."""

    BETTER = "better"
    WORSE = "worse"
    SAME = "same"
    UNJUDGED = "unjudged"


@record
class Measure:
    """A number of an ended job, and whether less of it is better; None if it is neither good nor bad."""

    label: str
    kind: NumberFormat
    is_less_better: bool | None
    read: Callable[[Job], float | None]


@record
class Change:
    """The difference of a number from that of the first job: absolute, relative, and what it means."""

    difference: float | None
    share: float | None
    verdict: ChangeVerdict


@record
class Total:
    """One measure of all jobs, in the order of the jobs."""

    measure: Measure
    values: tuple[float | None, ...]

    def change(self, position: int) -> Change:
        """Return how a job differs from the first; the relative difference is None if the first value is 0."""
        first, value = self.values[0], self.values[position]
        if first is None or value is None:
            return Change(None, None, ChangeVerdict.UNJUDGED)
        share = (value - first) / abs(first) if first else None
        return Change(value - first, share, _verdict(self.measure, value - first, share))


@record
class Difference:
    """A parameter that is not the same for all jobs; None for jobs that do not have it."""

    label: str
    values: tuple[str | None, ...]


def totals(jobs: Sequence[Job]) -> list[Total]:
    """Return what the jobs used: every measure that is known for at least one of them."""
    more = CONTAINER_MEASURES if any(container_facts(job) is not None for job in jobs) else ()
    rows = [Total(measure, tuple(map(measure.read, jobs))) for measure in (MEASURES[0], *more, *MEASURES[1:])]
    return [row for row in rows if any(value is not None for value in row.values)]


def differences(jobs: Sequence[Job]) -> list[Difference]:
    """Return what differs in name, status, command, parameters, tags, host and limits."""
    found = [
        Difference("name", tuple(job.name for job in jobs)),
        Difference("status", tuple(str(job.status) for job in jobs)),
        Difference("command", differing_words([job.command for job in jobs])),
        *_mapping_differences("param", [job.params for job in jobs]),
        *_mapping_differences("tag", [job.tags for job in jobs]),
        *(Difference(label, tuple(getattr(job, label) for job in jobs)) for label in ("tool", "host", "user")),
        Difference("kind", tuple(job.kind for job in jobs)),
        *_mapping_differences("container", [_container_texts(job) for job in jobs]),
        Difference("directory", tuple(job.cwd for job in jobs)),
        *_mapping_differences("limit", [_limit_texts(job) for job in jobs]),
        Difference("CPUs allowed", tuple(_number(job.usage.cpus_allowed) for job in jobs)),
    ]
    return [row for row in found if len(set(row.values)) > 1]


def differing_words(commands: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Return the commands without the words that all of them begin or end with."""
    shortest = min(map(len, commands), default=0)
    begin = next((at for at in range(shortest) if len({command[at] for command in commands}) > 1), shortest)
    rest = shortest - begin
    end = next((at for at in range(rest) if len({command[-1 - at] for command in commands}) > 1), rest)
    # The word before names what differs: `--lr 0.1`.
    begin = max(0, begin - 1)
    shown = (command[begin : len(command) - end] for command in commands)
    return tuple(
        " ".join([*([OMITTED] if begin else []), *words, *([OMITTED] if end else [])]) if words else OMITTED
        for words in shown
    )


def _verdict(measure: Measure, difference: float, share: float | None) -> ChangeVerdict:
    if difference == 0 or (share is not None and abs(share) < SAME_WITHIN):
        return ChangeVerdict.SAME
    if measure.is_less_better is None:
        return ChangeVerdict.UNJUDGED
    return ChangeVerdict.BETTER if (difference < 0) == measure.is_less_better else ChangeVerdict.WORSE


def _mapping_differences(label: str, mappings: Sequence[dict[str, Any]]) -> list[Difference]:
    keys = dict.fromkeys(key for mapping in mappings for key in mapping)
    return [
        Difference(f"{label} {key}", tuple(as_text(one[key]) if key in one else None for one in mappings))
        for key in keys
    ]


def _container_texts(job: Job) -> dict[str, str]:
    """Return image and engine of the container of a job."""
    facts = container_facts(job)
    known = {} if facts is None else {"image": facts.image or facts.image_id, "engine": facts.engine}
    return {key: text for key, text in known.items() if text is not None}


def _limit_texts(job: Job) -> dict[str, str]:
    """Return the limits that are set, formatted."""
    limits = as_dict(job.limits)
    texts = {}
    for key, value in limits.items():
        if value is not None and value is not False:
            label, _, unit = key.rpartition("_") if key.endswith(("_bytes", "_seconds")) else (key, "", "")
            formatted = {"bytes": format_bytes(value), "seconds": format_duration(value)}.get(unit, _number(value))
            texts[label] = str(formatted)
    return texts


def _number(value: float | bool | None) -> str | None:
    return None if value is None else "yes" if value is True else f"{value:g}"


def _usage(name: str) -> Callable[[Job], float | None]:
    def read(job: Job) -> float | None:
        value: float | None = getattr(job.usage, name)
        return value

    return read


def _runtime(name: str) -> Callable[[Job], float | None]:
    def read(job: Job) -> float | None:
        facts = container_facts(job)
        value: float | None = None if facts is None else getattr(facts.runtime, name)
        return value

    return read


def _mean_load(job: Job) -> float | None:
    percent = job.usage.cpu_percent_mean
    return None if percent is None else percent / 100


MEASURES = (
    Measure("time", NumberFormat.SECONDS, True, lambda job: job.duration_seconds),
    Measure("CPU time", NumberFormat.SECONDS, True, _usage("cpu_total_seconds")),
    Measure("efficiency", NumberFormat.SHARE, False, _usage("cpu_efficiency")),
    Measure("CPU mean", NumberFormat.SHARE, None, _mean_load),
    Measure("memory peak", NumberFormat.BYTES, True, _usage("memory_peak_bytes")),
    Measure("memory mean", NumberFormat.BYTES, True, _usage("memory_mean_bytes")),
    Measure("read", NumberFormat.BYTES, None, _usage("io_read_bytes")),
    Measure("written", NumberFormat.BYTES, None, _usage("io_write_bytes")),
    Measure("processes", NumberFormat.COUNT, None, _usage("processes_seen")),
    Measure("threads", NumberFormat.COUNT, None, _usage("threads_peak")),
    Measure("hard faults", NumberFormat.COUNT, True, _usage("faults_major")),
    Measure("exit code", NumberFormat.COUNT, None, lambda job: job.exit_code),
)
# Where one of the jobs ran in a container.
CONTAINER_MEASURES = (
    Measure("time to start", NumberFormat.SECONDS, True, start_seconds),
    Measure("runtime CPU", NumberFormat.SECONDS, True, _runtime("cpu_seconds")),
    Measure("runtime memory", NumberFormat.BYTES, True, _runtime("memory_bytes")),
)
