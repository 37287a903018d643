"""The memory peak of a container is one figure, whatever was read of it in its short life."""

from typing import Any

import pytest

from jobtop.core.model import Job, Limits, Usage
from jobtop.core.record import replace
from jobtop.core.run.containers.file import ContainerFile
from jobtop.core.run.containers.outcome import completed
from records import made_job

MIB = 1 << 20


def ended(peak: int | None, source: str | None, used: int | None, **usage: Any) -> Job:
    """A job as its samples describe it; `used` is the largest sample."""
    sources = {} if source is None else {"memory_peak": source}
    metrics = {} if used is None else {"mem.used": {"peak": float(used)}}
    counts = Usage(memory_peak_bytes=peak, memory_cgroup_peak_bytes=29 * MIB, **usage)
    return replace(made_job(), kind="container", sources=sources, metrics=metrics, usage=counts)


@pytest.mark.parametrize(
    ("job", "read", "peak"),
    [
        (ended(28 * MIB, "vmhwm", 2 * MIB), 23 * MIB, 23 * MIB),  # the mark of a process counts mapped files
        (ended(28 * MIB, "vmhwm", 23 * MIB), None, 23 * MIB),
        (ended(28 * MIB, "vmhwm", None), None, None),
        (ended(None, None, None), 23 * MIB, 23 * MIB),
        (ended(None, None, None), None, None),
        (ended(23 * MIB, "cgroup", 23 * MIB), 20 * MIB, 23 * MIB),
    ],
)
def test_the_peak_is_without_mapped_files_or_absent(job: Job, read: int | None, peak: int | None) -> None:
    done = completed(job, ContainerFile(peak_bytes=read))
    assert done.usage.memory_peak_bytes == peak
    assert done.sources.get("memory_peak") == (None if peak is None else "cgroup")
    assert done.usage.memory_cgroup_peak_bytes == 29 * MIB


def test_a_container_that_ran_out_of_memory_held_its_limit() -> None:
    job = replace(ended(None, None, None, oom_kills=1), limits=Limits(memory_bytes=29 * MIB))
    assert completed(job, ContainerFile(peak_bytes=5 * MIB)).usage.memory_peak_bytes == 29 * MIB
