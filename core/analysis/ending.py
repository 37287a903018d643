"""Explains why a job ended, from its record, its events and its last output, most important first. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum

from jobtop.core.analysis.advice import advice
from jobtop.core.analysis.evidence import Cause, Evidence, Source, evidence_of
from jobtop.core.analysis.reasons import OOM_KILLED, record_evidence
from jobtop.core.model import Job, Status
from jobtop.core.procfs import signals
from jobtop.core.record import record
from jobtop.core.units import format_bytes, format_duration, format_percent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NEAR_LIMIT = 0.92
SIGKILL = signals.SIGKILL
BAD_ENDS = frozenset({Status.FAILED, Status.TIMEOUT, Status.CANCELLED, Status.ERROR, Status.LOST})


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
    return job.status in BAD_ENDS or (job.status.ended and OOM_KILLED in job.flags)


def explain_end(job: Job, events: Sequence[EventRow] = (), last_output: Sequence[str] = ()) -> list[EndingLine]:
    """Return why a job ended, as far as known; empty for a job that runs or ended well."""
    if not needs_explanation(job):
        return []
    lines = [EndingLine(LineKind.VERDICT, _verdict(job))]
    # Records of older versions have no evidence of their own.
    evidence = evidence_of(job.findings) or list(record_evidence(job))
    texts = (
        *(text for seen in evidence if (text := _shown(job, seen)) is not None),
        *_memory_evidence(job),
        *_exit_evidence(job, evidence),
        *_stop_evidence(job, events),
    )
    lines += [EndingLine(LineKind.EVIDENCE, text) for text in texts]
    lines += [EndingLine(LineKind.ADVICE, text) for text in advice(job, evidence)]
    lines += [EndingLine(LineKind.OUTPUT, text) for text in last_output]
    return lines


def _verdict(job: Job) -> str:
    after = f" after {format_duration(job.duration_seconds)}" if job.duration_seconds is not None else ""
    reason = job.reason or job.error
    return f"{job.status}{after}" + (f": {reason}" if reason else "")


def _shown(job: Job, seen: Evidence) -> str | None:
    """The text of evidence with its source; None if the reason or another line says the same."""
    if seen.source is Source.CGROUP and "OOM" in (job.reason or ""):
        return None
    if seen.source is Source.LIMIT:
        is_new = seen.kind is Cause.OUT_OF_MEMORY and "limit" not in (job.reason or "")
        return seen.text if is_new or seen.kind is Cause.ALLOCATION else None
    if seen.kind is Cause.LAST_LINE:
        return seen.text
    return f"{seen.source}: {seen.text}" if seen.source in (Source.OUTPUT, Source.KERNEL_LOG) else seen.text


def _memory_evidence(job: Job) -> Iterator[str]:
    usage, limit = job.usage, job.limits.memory_bytes
    peak = usage.memory_peak_bytes
    if peak is not None and limit and peak >= NEAR_LIMIT * limit:
        share = format_percent(peak / limit)
        yield f"its memory peaked at {format_bytes(peak)}, {share} of the {format_bytes(limit)} it asked for"
    elif peak is not None and (usage.oom_kills or OOM_KILLED in job.flags):
        yield f"its memory peaked at {format_bytes(peak)}"


def _exit_evidence(job: Job, evidence: Sequence[Evidence]) -> Iterator[str]:
    is_explained = any(seen.source is not Source.SIGNAL for seen in evidence)
    if job.signal == SIGKILL and job.status is Status.FAILED and not is_explained and "OOM" not in (job.reason or ""):
        yield "SIGKILL came from outside; no OOM kill was counted in this job, so the sender is not known"
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
