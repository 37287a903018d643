"""Finds the cgroup directories of a container by the pid of a process in it."""

from __future__ import annotations

import os

from jobtop.core.procfs import read_text
from jobtop.core.record import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

USEFUL = frozenset({"cpu", "cpuacct", "memory", "pids", "blkio"})  # controllers of version 1


@record
class CgroupMount:
    """A mounted tree of cgroups: its controllers of version 1, none for version 2; the part mounted, and where."""

    controllers: frozenset[str]
    root: str
    place: str


def cgroup_mounts(proc: str = "/proc") -> list[CgroupMount]:
    """The trees of cgroups that this process sees, version 2 first."""
    found = []
    for line in read_text(f"{proc}/self/mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        kind, *rest = after.split(" ")
        words = before.split(" ")
        if kind not in ("cgroup", "cgroup2") or len(words) < 5 or not rest:
            continue
        controllers = frozenset() if kind == "cgroup2" else frozenset(rest[-1].split(",")) & USEFUL
        if controllers or kind == "cgroup2":
            found.append(CgroupMount(controllers, words[3].rstrip("/"), words[4].replace("\\040", " ")))
    return sorted(found, key=lambda mount: bool(mount.controllers))


def container_cgroups(
    pid: int, container_id: str, proc: str = "/proc", mounts: Iterable[CgroupMount] | None = None
) -> tuple[str, ...]:
    """The directories of a container, version 2 first; none if they cannot be read here.

    A pid may be that of another machine, or belong to another process by now: only paths with the id of the container
    count. They end at the id: a container may have cgroups of its own below.
    """
    mounts = cgroup_mounts(proc) if mounts is None else mounts
    paths = {names: found for names, path in _lines(proc, pid) if (found := _up_to(path, container_id)) is not None}
    directories = []
    for mount in mounts if paths else ():
        for controllers, path in paths.items():
            inside = _below(path, mount.root) if _is_of(controllers, mount) else None
            if inside is not None and os.path.isdir(directory := f"{mount.place}{inside}"):
                directories.append(directory)
    return tuple(dict.fromkeys(directories))


def container_id_in(cgroup_text: str, ids: Iterable[str]) -> str | None:
    """Which of these containers a process is in, by its /proc/PID/cgroup; the innermost of several."""
    best: tuple[int, str] | None = None
    for container_id in ids:
        at = cgroup_text.find(container_id)
        if at >= 0 and (best is None or at > best[0]):
            best = at, container_id
    return None if best is None else best[1]


def _lines(proc: str, pid: int) -> list[tuple[frozenset[str], str]]:
    """The controllers and the path of each cgroup of a process."""
    parts = (line.split(":", 2) for line in read_text(f"{proc}/{pid}/cgroup").splitlines())
    return [(frozenset(part[1].split(",")) - {""}, part[2]) for part in parts if len(part) == 3]


def _is_of(controllers: frozenset[str], mount: CgroupMount) -> bool:
    return bool(controllers & mount.controllers) if mount.controllers else not controllers


def _up_to(path: str, container_id: str) -> str | None:
    """A path up to the part with the id, such as docker/ID or docker-ID.scope; None if it has none."""
    parts = path.split("/")
    if ".." in parts:
        return None
    for number, part in enumerate(parts):
        if container_id in part:
            return "/".join(parts[: number + 1])
    return None


def _below(path: str, root: str) -> str | None:
    """A path below a mount that shows the tree from `root` on; None if it does not show it."""
    return path.removeprefix(root) if path == root or path.startswith(f"{root}/") else None
