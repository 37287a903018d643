"""Explains why a job ended, from its record, its events and its last output, most important first. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum

from jobtop.core.model import Job, Status
from jobtop.core.record import record
from jobtop.core.run.outcome import signal_name
from jobtop.core.units import format_bytes, format_duration, format_percent, number_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NEAR_LIMIT = 0.92
SHELL_SIGNAL_CODES = range(129, 160)  # shells return 128 + signal number for a command that a signal ended
BAD_ENDS = frozenset({Status.FAILED, Status.TIMEOUT, Status.CANCELLED, Status.ERROR, Status.LOST})
SIGNAL_MEANINGS = {
    "SIGSEGV": "it accessed memory that is not its own: a bug, or a stack that grew too large (ulimit -s)",
    "SIGBUS": "it accessed memory that could not be provided: a mapped file that shrank, or a full disk or /dev/shm",
    "SIGABRT": "it called abort: an assertion failed, or the C library found an error",
    "SIGFPE": "it divided by zero, or did another invalid arithmetic operation",
    "SIGILL": "it executed an instruction that this processor does not have: built for another one?",
    "SIGPIPE": "it wrote to a pipe or socket that no process reads any more",
    "SIGXCPU": "it used up its CPU time (ulimit -t)",
    "SIGXFSZ": "it wrote a file larger than allowed (ulimit -f)",
    "SIGSYS": "it made a system call that is forbidden here (seccomp)",
}


class LineKind(Enum):
    """What a line is: what happened, evidence for it, the job's own output, or advice."""

    VERDICT = "verdict"
    EVIDENCE = "evidence"
    OUTPUT = "output"
    ADVICE = "advice"


@record
class EndingLine:
    """A line of an explanation; its text may contain unescaped output of the job."""

    kind: LineKind
    text: str


EventRow = tuple[float, str, "Mapping[str, Any]"]  # time, kind and details


def needs_explanation(job: Job) -> bool:
    """Return whether the end of a job needs an explanation: it ended badly, or an OOM kill happened in it."""
    return job.status in BAD_ENDS or (job.status.ended and "oom_killed" in job.flags)


def explain_end(job: Job, events: Sequence[EventRow] = (), last_output: Sequence[str] = ()) -> list[EndingLine]:
    """Return why a job ended, as far as known; empty for a job that runs or ended well."""
    if not needs_explanation(job):
        return []
    lines = [EndingLine(LineKind.VERDICT, _verdict(job))]
    lines += [
        EndingLine(LineKind.EVIDENCE, text)
        for text in (*_memory_evidence(job), *_exit_evidence(job), *_stop_evidence(job, events))
    ]
    lines += [EndingLine(LineKind.ADVICE, text) for text in _advice(job)]
    lines += [EndingLine(LineKind.OUTPUT, text) for text in last_output]
    return lines


def _verdict(job: Job) -> str:
    after = f" after {format_duration(job.duration_seconds)}" if job.duration_seconds is not None else ""
    reason = job.reason or job.error
    return f"{job.status}{after}" + (f": {reason}" if reason else "")


def _memory_evidence(job: Job) -> Iterator[str]:
    usage, limit = job.usage, job.limits.memory_bytes
    if usage.oom_kills and "OOM" not in (job.reason or ""):
        killed = number_of(usage.oom_kills, "process", "processes")
        yield f"the kernel's OOM killer ended {killed} of this job (oom_kill)"
    peak = usage.memory_peak_bytes
    if peak is not None and limit and peak >= NEAR_LIMIT * limit:
        share = format_percent(peak / limit)
        yield f"its memory peaked at {format_bytes(peak)}, {share} of the {format_bytes(limit)} it asked for"
    elif usage.oom_kills and peak is not None:
        yield f"its memory peaked at {format_bytes(peak)}"


def _exit_evidence(job: Job) -> Iterator[str]:
    is_out_of_memory = bool(job.usage.oom_kills)
    if job.signal is not None:
        name = signal_name(job.signal)
        if name in SIGNAL_MEANINGS:
            yield f"{name}: {SIGNAL_MEANINGS[name]}"
        elif name == "SIGKILL" and job.status is Status.FAILED and not is_out_of_memory:
            yield "SIGKILL came from outside; no OOM kill was counted in this job, so the sender is not known"
    elif job.exit_code in SHELL_SIGNAL_CODES and job.status is Status.FAILED and job.exit_code is not None:
        name = signal_name(job.exit_code - 128)
        text = f"{job.exit_code} is 128 + {job.exit_code - 128}: shells return it for a command that {name} ended"
        yield text + (f" ({SIGNAL_MEANINGS[name]})" if name in SIGNAL_MEANINGS else "")
    if "left_running" in job.flags:
        yield "descendants of it are still running"


def _stop_evidence(job: Job, events: Sequence[EventRow]) -> Iterator[str]:
    start, request = job.start_time, job.stop_request
    if request is not None and start is not None:
        ended = f"; it ended {format_duration(max(0.0, job.end_time - request.at))} later" if job.end_time else ""
        yield f"{request.by} asked it to stop {format_duration(max(0.0, request.at - start))} after its start{ended}"
    slept = sum(float(detail.get("seconds") or 0.0) for _, kind, detail in events if kind == "suspended")
    if slept:
        yield f"the machine was suspended for {format_duration(slept)} during the job"


def _advice(job: Job) -> Iterator[str]:
    """Yield advice, only where the cause is certain."""
    if job.usage.oom_kills and job.limits.memory_bytes and job.limits.enforced:
        yield "give it more memory (--memory), or look at the memory chart for where it grew"
    elif job.status is Status.TIMEOUT and job.limits.timeout_seconds is not None:
        yield f"if it needs more time: raise --timeout, which was {format_duration(job.limits.timeout_seconds)}"
