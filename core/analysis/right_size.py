"""What a job that succeeded could ask for instead, where it used much less than it asked for. Pure."""

from __future__ import annotations

from math import ceil

from jobtop.core.analysis.advice import size_text
from jobtop.core.model import Job, Status
from jobtop.core.text.memory_text import is_peak_upper_bound
from jobtop.core.units import format_bytes, parse_size

LITTLE = 0.5  # of what was asked for
MARGIN = 1.2  # on the peak
FEWEST_SAMPLES = 10  # a short job says little about what it needs


def smaller_requests(job: Job) -> list[str]:
    """A sentence for memory and for CPUs, each only where half of it would have been enough."""
    if job.status is not Status.SUCCESS or (job.usage.samples or 0) < FEWEST_SAMPLES:
        return []
    lines = []
    peak, asked = job.usage.memory_peak_bytes, job.limits.memory_bytes
    if peak and asked and not is_peak_upper_bound(job) and peak < LITTLE * asked:
        enough = size_text(MARGIN * peak)
        if parse_size(enough) < asked:
            lines.append(
                f"it used at most {format_bytes(peak)} of the {format_bytes(asked)} it asked for:"
                f" --memory {enough} is enough"
            )
    percent, cpus = job.usage.cpu_percent_peak, job.limits.cpus
    if percent is not None and cpus and percent / 100 < LITTLE * cpus:
        lines.append(
            f"it used at most {percent / 100:.1f} of the {cpus:g} CPUs it asked for:"
            f" --cpus {max(1, ceil(percent / 100))} is enough"
        )
    return lines
