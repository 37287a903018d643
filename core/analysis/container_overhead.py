"""What a container adds to a command: the same command with and without one, side by side. Pure."""

from __future__ import annotations

from jobtop.core.record import fresh, record
from jobtop.core.run.containers.facts import ATTACHED, Runtime, container_facts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jobtop.core.model import Job

SAME_WITHIN = 0.01  # a smaller difference says nothing
START, TIME, CPU, MEMORY = "start", "time", "cpu", "memory"


@record
class Overhead:
    """What the job in a container needed beyond the one without: seconds and bytes; what is not known is left out.

    A share is that of the job without a container.
    """

    container: Job
    runtime: Runtime
    differences: dict[str, float] = fresh(default_factory=dict)
    shares: dict[str, float] = fresh(default_factory=dict)


def start_seconds(job: Job) -> float | None:
    """The time from the submission of a job to its first process, in a container or not.

    None for a job that waited in the queue, and for a container that jobtop did not start.
    """
    facts = container_facts(job)
    started = job.start_time if facts is None else facts.started_at
    if job.queue is not None or ATTACHED in job.flags or job.submitted_at is None or started is None:
        return None
    return max(0.0, started - job.submitted_at)


def overhead(first: Job, second: Job) -> Overhead | None:
    """What the container costs, if exactly one of two jobs ran in one; whether they ran the same is for the caller."""
    facts = {container_facts(job) is not None: job for job in (first, second)}
    if len(facts) < 2:
        return None
    container, native = facts[True], facts[False]
    own = container_facts(container)
    found = Overhead(container, own.runtime if own is not None else Runtime())
    for key, read in (
        (START, start_seconds),
        (TIME, lambda job: job.duration_seconds),
        (CPU, lambda job: job.usage.cpu_total_seconds),
        (MEMORY, lambda job: job.usage.memory_peak_bytes),
    ):
        with_container, without = read(container), read(native)
        if with_container is None or without is None:
            continue
        if key in (CPU, MEMORY) and abs(with_container - without) <= SAME_WITHIN * without:
            continue
        found.differences[key] = with_container - without
        if without:
            found.shares[key] = (with_container - without) / without
    return found
