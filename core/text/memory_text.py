"""What the memory peak of a job counts, for verbs and the console. `run` imports it: nothing heavy belongs here."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jobtop.core.model import Job

SAME_SHARE = 0.95  # of the peak: a sampled peak above this share is about the same
WITH_FILES, WITHOUT_FILES = "with mapped files", "without mapped files"

UPPER_BOUNDS = ("rusage_floor", "cgroup_peak")  # of memory peaks; the second one in older records


def is_peak_upper_bound(job: Job) -> bool:
    """Return whether the memory peak of a job is only an upper bound."""
    return job.sources.get("memory_peak") in UPPER_BOUNDS


def counts_mapped_files(job: Job) -> bool:
    """Return whether the memory peak of an ended job counts mapped files, and its samples do not, or only a share.

    The kernel's high-water mark of a process counts them, as the samples of the resident size do. A peak above these
    samples too was between two samples.
    """
    peak, is_mark = job.usage.memory_peak_bytes, job.sources.get("memory_peak") in ("rusage", "vmhwm")
    used, resident = (job.metrics.get(key, {}).get("peak") for key in ("mem.used", "mem.rss"))
    return bool(is_mark and peak and used and resident and used < SAME_SHARE * peak <= resident)
