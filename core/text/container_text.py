"""The container of a job as text: what it was, what its runtime cost, and how a container differs from a command."""

from __future__ import annotations

from jobtop.core.analysis.container_overhead import CPU, MEMORY, START, TIME, overhead
from jobtop.core.run.containers.facts import container_facts
from jobtop.core.units import format_bytes, format_duration, format_percent, number_of, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jobtop.core.analysis.container_overhead import Overhead
    from jobtop.core.model import Job

SHORT_ID = 12
MINUTE = 60.0


def container_line(job: Job) -> str | None:
    """Return name, image and engine of the container of a job; None if it did not run in one."""
    facts = container_facts(job)
    if facts is None:
        return None
    short = None if facts.id is None else facts.id[:SHORT_ID]
    service = "/".join(filter(None, (facts.project, facts.service)))
    parts = [
        " ".join(filter(None, (facts.name, f"({short})" if short and short != facts.name else ""))),
        f"image {facts.image or facts.image_id}" if facts.image or facts.image_id else "",
        facts.digest if facts.digest and facts.digest not in (facts.image or "") else "",
        f"service {service}" if service else "",
        facts.engine or "",
        facts.health or "",
        number_of(facts.restarts, "restart") if facts.restarts else "",
        "kept" if facts.is_kept else "",
    ]
    return printable(", ".join(filter(None, parts))) or None


def overhead_line(job: Job) -> str | None:
    """Return how long the container took to start, and what its runtime used beside the job; None if not known."""
    facts = container_facts(job)
    if facts is None:
        return None
    runtime, total = facts.runtime, job.usage.cpu_total_seconds
    parts = []
    if facts.start_seconds is not None:
        parts.append(f"started in {format_duration(facts.start_seconds)}")
    if runtime.cpu_seconds is not None:
        share = f", {format_percent(runtime.cpu_seconds / total)} of the CPU time of the job" if total else ""
        parts.append(f"runtime used {format_duration(runtime.cpu_seconds)} of CPU{share}")
    if runtime.memory_bytes is not None:
        parts.append(
            f"{'' if runtime.cpu_seconds is not None else 'runtime used '}{format_bytes(runtime.memory_bytes)}"
        )
    what = f" ({printable(runtime.what)})" if runtime.what and len(parts) > (facts.start_seconds is not None) else ""
    return "; ".join(parts) + what if parts else None


def overhead_sentences(jobs: Sequence[Job]) -> list[str]:
    """Return how each of the other jobs differs from the first, where one ran in a container and one did not."""
    return [
        sentence
        for other in jobs[1:]
        if (found := overhead(jobs[0], other)) is not None and (sentence := overhead_sentence(found))
    ]


def overhead_sentence(found: Overhead) -> str:
    """Return the differences as one sentence: `The container took 0.4 s longer to start, its runtime used 12 MiB.`"""
    parts = [*_took(found), *_used(found)]
    return f"The container ({found.container.id[:8]}) {', '.join(parts)}." if parts else ""


def _took(found: Overhead) -> Iterator[str]:
    """How much longer it took to start, and in all, which includes the start."""
    parts = []
    for key, what in ((START, "to start"), (TIME, "in all")):
        difference, share = found.differences.get(key), found.shares.get(key)
        if difference is not None:
            by = f" ({format_percent(abs(share))})" if share is not None and key == TIME else ""
            parts.append(f"{_seconds(abs(difference))} {'longer' if difference >= 0 else 'less'} {what}{by}")
    if parts:
        yield f"took {' and '.join(parts)}"


def _used(found: Overhead) -> Iterator[str]:
    more = [
        f"{text(abs(difference))} {'more' if difference >= 0 else 'less'} {what}"
        for key, text, what in ((CPU, _seconds, "CPU time"), (MEMORY, format_bytes, "memory at its peak"))
        if (difference := found.differences.get(key)) is not None
    ]
    if more:
        yield f"used {' and '.join(more)}"
    runtime = found.runtime
    amounts = [
        f"{_seconds(runtime.cpu_seconds)} of CPU" if runtime.cpu_seconds is not None else "",
        format_bytes(runtime.memory_bytes) if runtime.memory_bytes is not None else "",
    ]
    if any(amounts):
        yield f"its runtime used {' and '.join(filter(None, amounts))}"


def _seconds(seconds: float) -> str:
    return f"{seconds:.2g} s" if seconds < 1 else f"{seconds:.1f} s" if seconds < MINUTE else format_duration(seconds)
