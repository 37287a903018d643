"""The cgroups of a job: how a process joins one, how they are removed, and what a refused one changes.

Part of every shim: standard library only, imports nothing later.
"""

import errno
import os
import time

from jobtop.core.shim.system_calls import write_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jobtop.core.shim.order import LimitRow, Order

REMOVE_ATTEMPTS, REMOVE_PAUSE_SECONDS = 100, 0.01


def join_cgroup(procs: str) -> bool:
    """Move this process into the cgroup of a `cgroup.procs` file; False if the cgroup is gone or refuses."""
    try:
        fd = os.open(procs, os.O_WRONLY | os.O_CLOEXEC)
        write_all(fd, b"0")
        os.close(fd)
    except OSError:
        return False
    return True


def forget_cgroup(order: "Order", directory: str) -> None:
    """Take a cgroup that the job could not join out of its order: its counters say nothing about the job."""
    order["evidence"] = [row for row in order["evidence"] if not row[1].startswith(directory)]
    order["limits"] = without_cgroup(order["limits"], directory)


def without_cgroup(limits: "list[LimitRow]", directory: str) -> "list[LimitRow]":
    """The limits if this cgroup cannot enforce any: the sampler enforces memory then, and nothing enforces CPUs."""
    lost = {"memory": ("memory", "sampling", ""), "cpus": ("cpus", "nothing", "it could not enter its cgroup")}
    return [lost[row[0]] if row[2] == directory else row for row in limits]


def remove_cgroups(directories: "list[str]") -> None:
    """Remove the cgroups of the job and of jobs inside it; an exiting task keeps its cgroup busy for a moment."""
    for directory in directories:
        inner = os.listdir(directory) if os.path.isdir(directory) else []
        remove_cgroups([os.path.join(directory, name) for name in inner if name.startswith("jobtop-")])
        for _ in range(REMOVE_ATTEMPTS):
            try:
                os.rmdir(directory)
            except OSError as error:
                if error.errno == errno.EBUSY:
                    time.sleep(REMOVE_PAUSE_SECONDS)
                    continue
            break
