"""Whether the agent's budget suffices to sample one more job as often as a user asked for."""

from __future__ import annotations

from jobtop.core.model import AT_WORK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jobtop.core.config import Config
    from jobtop.store.jobs import Jobs


def shortage_beside_others(config: Config, jobs: Jobs, job_id: str) -> str | None:
    """Return one line if the agent will sample the new job less often than asked for, because of the others it samples.

    Costs nothing if no interval was asked for.
    """
    if config.interval("monitor.interval") is None:
        return None
    from jobtop.core.measure.budget import shortage_notice
    from jobtop.store.agents import registered
    from jobtop.store.jobs import Query

    agent = registered(jobs.database)
    samplers = (None, agent.identity if agent is not None else None)  # without a recorder: the agent will find it soon
    running = [job for job in jobs.select(Query(statuses=tuple(AT_WORK), limit=None)) if job.recorder in samplers]
    intervals = (job.monitor.interval_seconds for job in running if job.id != job_id)
    return shortage_notice(config, [seconds for seconds in intervals if seconds])
