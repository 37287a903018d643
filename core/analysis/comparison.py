"""Jobs beside each other: what each used against the first, and what they were asked that is not the same. Pure."""

from __future__ import annotations

from enum import Enum

from jobtop.core.query.conditions import as_text
from jobtop.core.record import as_dict, record
from jobtop.core.units import format_bytes, format_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from jobtop.core.model import Job

SAME_WITHIN = 0.01  # of the first: no two runs take the same time
LEFT_OUT = "…"


class Kind(Enum):
    """How a number is written."""

    SECONDS = "seconds"
    BYTES = "bytes"
    SHARE = "share"  # 1.0 is all
    COUNT = "count"


class Verdict(Enum):
    """What a difference means; UNJUDGED where more is neither good nor bad, or nothing is known."""

    BETTER = "better"
    WORSE = "worse"
    SAME = "same"
    UNJUDGED = "unjudged"


@record
class Measure:
    """A number that a job ends with, and whether less of it is better; None if neither is."""

    label: str
    kind: Kind
    is_less_better: bool | None
    read: Callable[[Job], float | None]


@record
class Change:
    """How a number differs from that of the first job: by how much, by which share of it, and what that means."""

    difference: float | None
    share: float | None
    verdict: Verdict


@record
class Total:
    """One measure of all jobs, in their order."""

    measure: Measure
    values: tuple[float | None, ...]

    def change(self, position: int) -> Change:
        """How a job differs from the first; by no share of nothing."""
        first, value = self.values[0], self.values[position]
        if first is None or value is None:
            return Change(None, None, Verdict.UNJUDGED)
        share = (value - first) / abs(first) if first else None
        return Change(value - first, share, _verdict(self.measure, value - first, share))


@record
class Difference:
    """Something that was not the same for all jobs; None for those that were not asked it."""

    label: str
    values: tuple[str | None, ...]


def totals(jobs: Sequence[Job]) -> list[Total]:
    """What the jobs used: every measure that is known of any of them."""
    rows = [Total(measure, tuple(map(measure.read, jobs))) for measure in MEASURES]
    return [row for row in rows if any(value is not None for value in row.values)]


def differences(jobs: Sequence[Job]) -> list[Difference]:
    """What is not the same in name, command, parameters, tags, host and limits."""
    found = [
        Difference("name", tuple(job.name for job in jobs)),
        Difference("status", tuple(str(job.status) for job in jobs)),
        Difference("command", differing_words([job.command for job in jobs])),
        *_mapped("param", [job.params for job in jobs]),
        *_mapped("tag", [job.tags for job in jobs]),
        *(Difference(label, tuple(getattr(job, label) for job in jobs)) for label in ("tool", "host", "user")),
        Difference("directory", tuple(job.cwd for job in jobs)),
        *_mapped("limit", [_limits(job) for job in jobs]),
        Difference("CPUs allowed", tuple(_number(job.usage.cpus_allowed) for job in jobs)),
    ]
    return [row for row in found if len(set(row.values)) > 1]


def differing_words(commands: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """The commands without the words that all of them begin or end with."""
    shortest = min(map(len, commands), default=0)
    begin = next((at for at in range(shortest) if len({command[at] for command in commands}) > 1), shortest)
    rest = shortest - begin
    end = next((at for at in range(rest) if len({command[-1 - at] for command in commands}) > 1), rest)
    # One word before says what it is that differs: `--lr 0.1`.
    begin = max(0, begin - 1)
    shown = (command[begin : len(command) - end] for command in commands)
    return tuple(
        " ".join([*([LEFT_OUT] if begin else []), *words, *([LEFT_OUT] if end else [])]) if words else LEFT_OUT
        for words in shown
    )


def _verdict(measure: Measure, difference: float, share: float | None) -> Verdict:
    if difference == 0 or (share is not None and abs(share) < SAME_WITHIN):
        return Verdict.SAME
    if measure.is_less_better is None:
        return Verdict.UNJUDGED
    return Verdict.BETTER if (difference < 0) == measure.is_less_better else Verdict.WORSE


def _mapped(label: str, mappings: Sequence[dict[str, Any]]) -> list[Difference]:
    keys = dict.fromkeys(key for mapping in mappings for key in mapping)
    return [
        Difference(f"{label} {key}", tuple(as_text(one[key]) if key in one else None for one in mappings))
        for key in keys
    ]


def _limits(job: Job) -> dict[str, str]:
    """The limits that were set, as people write them."""
    limits = as_dict(job.limits)
    shown = {}
    for key, value in limits.items():
        if value is not None and value is not False:
            label, _, unit = key.rpartition("_") if key.endswith(("_bytes", "_seconds")) else (key, "", "")
            write = {"bytes": format_bytes, "seconds": format_duration}.get(unit, _number)
            shown[label] = str(write(value))
    return shown


def _number(value: float | bool | None) -> str | None:
    return None if value is None else "yes" if value is True else f"{value:g}"


def _usage(name: str) -> Callable[[Job], float | None]:
    def read(job: Job) -> float | None:
        value: float | None = getattr(job.usage, name)
        return value

    return read


def _mean_load(job: Job) -> float | None:
    percent = job.usage.cpu_percent_mean
    return None if percent is None else percent / 100


MEASURES = (
    Measure("time", Kind.SECONDS, True, lambda job: job.duration_seconds),
    Measure("CPU time", Kind.SECONDS, True, _usage("cpu_total_seconds")),
    Measure("efficiency", Kind.SHARE, False, _usage("cpu_efficiency")),
    Measure("CPU mean", Kind.SHARE, None, _mean_load),
    Measure("memory peak", Kind.BYTES, True, _usage("memory_peak_bytes")),
    Measure("memory mean", Kind.BYTES, True, _usage("memory_mean_bytes")),
    Measure("read", Kind.BYTES, None, _usage("io_read_bytes")),
    Measure("written", Kind.BYTES, None, _usage("io_write_bytes")),
    Measure("processes", Kind.COUNT, None, _usage("processes_seen")),
    Measure("threads", Kind.COUNT, None, _usage("threads_peak")),
    Measure("hard faults", Kind.COUNT, True, _usage("faults_major")),
    Measure("exit code", Kind.COUNT, None, lambda job: job.exit_code),
)
