"""The cgroups of a container: a parent of ours around it where possible, and what they have counted at the end.

The counters of the parent outlive the container, so that a short container is counted exactly.
"""

from __future__ import annotations

import os
import time

from jobtop.core.measure.collectors import cgroup
from jobtop.core.measure.collectors.docker.cgroup_paths import cgroup_mounts
from jobtop.core.procfs import read_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from jobtop.core.measure.collectors.docker.model import EngineInfo

FILES = tuple(
    dict.fromkeys((*(name for names in cgroup.EVIDENCE.values() for name in names), "blkio.throttle.io_service_bytes"))
)
OOM_V1, OOM_V2 = "memory.oom_control", "memory.events"
OWN_DRIVER = "cgroupfs"  # with systemd a parent has to be a slice, which stays behind
REMOVE_SECONDS, REMOVE_PAUSE_SECONDS = 3.0, 0.01
SUPERVISOR = "conmon"  # Podman puts the process that supervises a container into this cgroup beside it


def parent_name(job_id: str) -> str:
    """The cgroup around the container of a job, as engines name it."""
    return f"/{cgroup.PREFIX}{job_id}"


def may_have_parent(info: EngineInfo, url: str, proc: str = "/proc") -> bool:
    """Whether the engine can be given a parent that we can remove afterwards."""
    mounts = cgroup_mounts(proc)
    is_local = url.startswith("unix://") and not info.is_rootless
    if not is_local or info.cgroup_driver != OWN_DRIVER or not mounts:
        return False
    return all(not mount.root and os.access(mount.place, os.W_OK) for mount in mounts)


def parent_directories(job_id: str, proc: str = "/proc") -> tuple[str, ...]:
    """Where the parent of a container may be, in every tree of cgroups."""
    name, places = parent_name(job_id), []
    for line in read_text(f"{proc}/self/mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        if after.startswith("cgroup"):
            places.append(before.split(" ")[4].replace("\\040", " "))
    return tuple(place + name for place in places)


def existing(directories: Iterable[str]) -> tuple[str, ...]:
    return tuple(directory for directory in directories if os.path.isdir(directory))


def read_evidence(directories: Iterable[str]) -> dict[str, str]:
    """The texts of the files worth keeping, of each name the first; CPU time is without that of the supervisor."""
    texts: dict[str, str] = {}
    for directory in directories:
        for name in FILES:
            if name not in texts and (text := read_text(f"{directory}/{name}")):
                texts[name] = less_part(text, read_text(f"{directory}/{SUPERVISOR}/{name}")) if "cpu" in name else text
    return texts


def less_part(text: str, part: str) -> str:
    """The counters of a CPU file less those of a part: one number, or lines with a name and a number."""
    counted = {words[0]: words[-1] for line in part.splitlines() if (words := line.split())}
    lines = []
    for line in text.splitlines():
        *name, value = line.split()
        less = part.strip() if not name else counted.get(name[0], "")
        is_counted = value.isdecimal() and less.isdecimal()
        lines.append(" ".join((*name, str(max(0, int(value) - int(less))) if is_counted else value)))
    return "\n".join(lines) + "\n"


def merged(own: dict[str, str], parents: dict[str, str]) -> dict[str, str]:
    """What the parents counted, and from the container's own what version 1 does not hand up: its OOM kills.

    A counter of the parent is never below that of the container; one that reads less was not read at the end. Without
    the container's own, version 1 does not tell whether there were OOM kills.
    """
    texts = own | parents
    for name in (OOM_V1, OOM_V2):
        if name in own and (cgroup.oom_count(own[name]) or 0) > (cgroup.oom_count(texts[name]) or 0):
            texts[name] = own[name]
    if OOM_V1 not in own and not cgroup.oom_count(texts.get(OOM_V1, "")):
        texts.pop(OOM_V1, None)
    return texts


def counted_oom(texts: dict[str, str]) -> int:
    """How many OOM kills these files have counted."""
    return max(cgroup.oom_count(texts.get(name, "")) or 0 for name in (OOM_V1, OOM_V2))


def _is_removed(directory: str) -> bool:
    """Try to remove a cgroup; another process may do the same."""
    try:
        return not os.path.isdir(directory) or cgroup.discard((directory,))
    except FileNotFoundError:
        return True


def remove_parents(directories: Iterable[str]) -> bool:
    """Remove the parents after their container, and say whether all are gone; a task that exits keeps them busy."""
    parents = list(directories)
    left, due = [*(f"{parent}/{SUPERVISOR}" for parent in parents), *parents], time.monotonic() + REMOVE_SECONDS
    while left:
        left = [directory for directory in left if not _is_removed(directory)]
        if left and time.monotonic() > due:
            return False
        if left:
            time.sleep(REMOVE_PAUSE_SECONDS)
    return True
