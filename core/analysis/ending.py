"""Why a job ended as it did: what its record, its timeline and its last words say, the most telling first. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum

from jobtop.core.model import Job, Status
from jobtop.core.record import record
from jobtop.core.run.outcome import signal_name
from jobtop.core.units import format_bytes, format_duration, format_percent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NEAR_LIMIT = 0.92
SHELL_SIGNALS = range(129, 160)  # 128 + the number of the signal that ended the command of a shell
BAD_ENDS = frozenset({Status.FAILED, Status.TIMEOUT, Status.CANCELLED, Status.ERROR, Status.LOST})
SIGNALS = {
    "SIGSEGV": "it touched memory that is not its own: a bug, or a stack that grew too large (ulimit -s)",
    "SIGBUS": "it touched memory that could not be had: a mapped file that shrank, or a full disk or /dev/shm",
    "SIGABRT": "it gave up by itself (abort): an assertion or the C library found something wrong",
    "SIGFPE": "it divided by zero, or the like",
    "SIGILL": "it met an instruction this processor does not know: built for another one?",
    "SIGPIPE": "it wrote to somebody who had stopped reading",
    "SIGXCPU": "it used up its CPU time (ulimit -t)",
    "SIGXFSZ": "it wrote a file larger than it may (ulimit -f)",
    "SIGSYS": "it made a system call that is forbidden here (seccomp)",
}


class Kind(Enum):
    """What a line says: what happened, what speaks for it, what the job said itself, what to do."""

    VERDICT = "verdict"
    EVIDENCE = "evidence"
    WORDS = "words"
    ADVICE = "advice"


@record
class Line:
    """A line of an explanation; text from outside is as it came."""

    kind: Kind
    text: str


Happened = tuple[float, str, "Mapping[str, Any]"]  # when, what, and its details


def is_telling(job: Job) -> bool:
    """Whether there is anything to explain: what ended well needs no reason."""
    return job.status in BAD_ENDS or (job.status.ended and "oom_killed" in job.flags)


def ending(job: Job, events: Sequence[Happened] = (), last_words: Sequence[str] = ()) -> list[Line]:
    """Why it ended, as far as anybody knows; nothing for a job that runs or went well."""
    if not is_telling(job):
        return []
    lines = [Line(Kind.VERDICT, _verdict(job))]
    lines += [Line(Kind.EVIDENCE, text) for text in (*_of_memory(job), *_of_exit(job), *_of_time(job, events))]
    lines += [Line(Kind.ADVICE, text) for text in _advice(job)]
    lines += [Line(Kind.WORDS, text) for text in last_words]
    return lines


def _verdict(job: Job) -> str:
    after = f" after {format_duration(job.duration_seconds)}" if job.duration_seconds is not None else ""
    reason = job.reason or job.error
    return f"{job.status}{after}" + (f": {reason}" if reason else "")


def _of_memory(job: Job) -> Iterator[str]:
    usage, limit = job.usage, job.limits.memory_bytes
    if usage.oom_kills and "OOM" not in (job.reason or ""):
        yield f"the kernel's OOM killer ended {_count(usage.oom_kills, 'process')} of this job (oom_kill)"
    peak = usage.memory_peak_bytes
    if peak is not None and limit and peak >= NEAR_LIMIT * limit:
        share = format_percent(peak / limit)
        yield f"its memory peaked at {format_bytes(peak)}, {share} of the {format_bytes(limit)} it asked for"
    elif usage.oom_kills and peak is not None:
        yield f"its memory peaked at {format_bytes(peak)}"


def _of_exit(job: Job) -> Iterator[str]:
    is_out_of_memory = bool(job.usage.oom_kills)
    if job.signal is not None:
        name = signal_name(job.signal)
        if name in SIGNALS:
            yield f"{name}: {SIGNALS[name]}"
        elif name == "SIGKILL" and job.status is Status.FAILED and not is_out_of_memory:
            yield "SIGKILL came from outside; no OOM kill was counted in this job, so by whom is not known"
    elif job.exit_code in SHELL_SIGNALS and job.status is Status.FAILED and job.exit_code is not None:
        name = signal_name(job.exit_code - 128)
        said = f"{job.exit_code} is 128 + {job.exit_code - 128}: shells say so of a command that {name} ended"
        yield said + (f" ({SIGNALS[name]})" if name in SIGNALS else "")
    if "left_running" in job.flags:
        yield "descendants of it live on"


def _of_time(job: Job, events: Sequence[Happened]) -> Iterator[str]:
    start, asked = job.start_time, job.stop_request
    if asked is not None and start is not None:
        ended = f", and it ended {format_duration(max(0.0, job.end_time - asked.at))} later" if job.end_time else ""
        yield f"{asked.by} asked it to end {format_duration(max(0.0, asked.at - start))} after its start{ended}"
    slept = sum(float(detail.get("seconds") or 0.0) for _, kind, detail in events if kind == "suspended")
    if slept:
        yield f"the machine slept for {format_duration(slept)} meanwhile"


def _advice(job: Job) -> Iterator[str]:
    """Only where one cause is plain."""
    if job.usage.oom_kills and job.limits.memory_bytes and job.limits.enforced:
        yield "give it more memory (--memory), or look at the memory chart for where it grew"
    elif job.status is Status.TIMEOUT and job.limits.timeout_seconds is not None:
        yield f"if it needs longer: --timeout, which was {format_duration(job.limits.timeout_seconds)}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 'es'}"
