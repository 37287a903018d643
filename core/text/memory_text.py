"""What the memory peak of a job counts, for verbs and the console. `run` imports it: nothing heavy belongs here."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jobtop.core.model import Job

SAME_SHARE = 0.95  # of the peak: a sampled peak above this share is about the same
WITH_FILES, WITHOUT_FILES = "with mapped files", "without mapped files"


def is_peak_upper_bound(job: Job) -> bool:
    """Return whether the memory peak of a job is only an upper bound."""
    return job.sources.get("memory_peak") == "rusage_floor"


def counts_mapped_files(job: Job) -> bool:
    """Return whether the memory peak of an ended job counts mapped files, and its samples do not.

    The kernel's high-water mark of a process does; a cgroup's anonymous memory does not, so the peak of a small job is
    well above its curve.
    """
    peak, sampled = job.usage.memory_peak_bytes, job.metrics.get("mem.used", {}).get("peak")
    is_mark = job.sources.get("memory_peak") in ("rusage", "vmhwm") and "mem.anon" in job.metrics
    return bool(is_mark and peak and sampled and sampled < SAME_SHARE * peak)
