"""What sampling may cost: the budget that applies, and whether it suffices for the intervals that users asked for."""

from __future__ import annotations

from jobtop.core.units import format_duration, format_percent, number_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobtop.core.config import Config

ASKED_BUDGET = 0.05  # of a core, for intervals that a user asked for, unless monitor.budget is set
# CPU time on the machine that jobtop is developed on; a job with many processes takes more.
TICK_SECONDS, SAMPLE_SECONDS = 0.0003, 0.0002


def asked_budget(config: Config) -> float:
    """Return the share of a core that sampling may use for intervals that a user asked for."""
    return config.number("monitor.budget") if config.is_set("monitor.budget") else ASKED_BUDGET


def expected_load(intervals: Sequence[float]) -> float:
    """Return the share of a core that one sampler of these jobs needs."""
    return TICK_SECONDS / min(intervals) + sum(SAMPLE_SECONDS / interval for interval in intervals)


def shortage_notice(config: Config, others: Sequence[float] = ()) -> str | None:
    """Return one line if the budget will not suffice for the interval that was asked for; None if it will.

    `others` are the intervals of other jobs that the same process samples.
    """
    interval = config.interval("monitor.interval")
    if interval is None or not config.boolean("monitor.enabled"):
        return None
    budget, load = asked_budget(config), expected_load([interval, *others])
    if load <= budget:
        return None
    jobs = f"{number_of(len(others) + 1, 'job')}, one of them every {format_duration(interval)},"
    sampled = jobs if others else f"a job every {format_duration(interval)}"
    return (
        f"to sample {sampled} takes about {format_percent(load)} of a core, more than the budget of"
        f" {format_percent(budget)}: samples will be taken less often (monitor.budget)"
    )
