"""Whether a job ran before this process watched it: what it received and sent until then is not counted here.

Earlier samples of another process may have it: a total adds up what each process that watched the job has counted.
"""

from __future__ import annotations

import os
import time

from jobtop.core.clock import BOOTTIME
from jobtop.core.procfs import start_ticks
from jobtop.core.units import format_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jobtop.core.measure.target import Target

LATE_SECONDS = 5.0  # after the start of a job: later than any first reading of a new job


def seconds_before(target: Target) -> float | None:
    """How long a job ran before this process watched it; None if it started the job, or saw it start."""
    late = time.clock_gettime(BOOTTIME) - target.start_boottime
    ticks = start_ticks(os.getpid())
    own_start = 0.0 if ticks is None else ticks / os.sysconf("SC_CLK_TCK")
    return late if late > LATE_SECONDS or target.start_boottime < own_start - 1.0 else None


def counted_from_text(seconds: float) -> str:
    """The remark about a job that was not watched from its start."""
    return f"network: counted from {format_duration(seconds)} after its start on"
