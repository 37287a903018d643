"""Enforces limits: with the cgroup of the job, or else CPUs with CPU affinity and memory with frequent checks."""

from __future__ import annotations

import os
import time

from jobtop.core.measure.collectors.proc import send
from jobtop.core.procfs import OVER_LIMIT_SIGNAL, read_text, value_in
from jobtop.core.record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from jobtop.core.measure.collectors.cgroup import JobCgroup
    from jobtop.core.measure.collectors.members import Member
    from jobtop.core.model import Identity, JobSpec
    from jobtop.core.shim.order import EnforcedLimits, LimitRow

CONTROLLERS = {"memory": "memory", "cpus": "cpu"}
BY_SYSTEMD = "cgroup v2 (systemd scope)"
PERIOD_MICROSECONDS, LONG_PERIOD_MICROSECONDS, LEAST_QUOTA_MICROSECONDS = 100_000, 1_000_000, 1000
LONGEST_WAIT_SECONDS, CALM_WAIT_SECONDS, SHORTEST_WAIT_SECONDS = 1.0, 0.1, 0.02
SUDDEN_BYTES_PER_SECOND = 1 << 30  # how fast an idle job may suddenly grow
GROWTH_FACTOR = 2  # a job may grow twice as fast until the next check
COST_RATIO = 4  # a check may take a fifth of a core; for hundreds of gigabytes the kernel needs a second


def enforce(
    spec: JobSpec, own: JobCgroup, wait_until_ready: Callable[[], int] | None
) -> tuple[JobCgroup, EnforcedLimits]:
    """Set the limits before the job starts: in the cgroup `own`, or in a scope of systemd if that can enforce more.

    Returns the cgroup that is used, and what enforces each limit. `wait_until_ready` returns the pid of the shim once
    the shim can be moved.
    """
    limits, affinity = _set(spec, own.directories)
    wanted = {CONTROLLERS[what] for what, _, _ in limits}
    present = {CONTROLLERS[what] for what, how, _ in limits if how.startswith("cgroup")}
    if wait_until_ready is not None and present != wanted:
        from jobtop.core.measure.collectors.cgroup import discard
        from jobtop.core.run import scope

        scoped = scope.make(spec.id, wanted, present, spec.detached, wait_until_ready)
        if scoped.directories:
            discard(own.directories)
            own = scoped
            limits, affinity = _set(spec, own.directories)
            limits = [(what, how.replace("cgroup v2", BY_SYSTEMD), where) for what, how, where in limits]
        else:
            own = replace(own, problems=(*own.problems, *scoped.problems))
    return own, {"limits": limits, "memory_limit": spec.hold_memory_bytes, "affinity": affinity}


def _set(spec: JobSpec, directories: Sequence[str]) -> tuple[list[LimitRow], int | None]:
    """Write the limits into the cgroups; what enforces each limit, and the number of CPUs to bind the job to."""
    limits: list[LimitRow] = []
    affinity = None
    if spec.hold_memory_bytes is not None:
        limits.append(_limit_memory(directories, spec.hold_memory_bytes))
    if spec.hold_cpus is not None:
        row, affinity = _limit_cpus(directories, spec.hold_cpus)
        limits.append(row)
    return limits, affinity


def _limit_memory(directories: Sequence[str], limit: int) -> LimitRow:
    """Limit memory, without swap; where the cgroup has the files for it, the OOM killer ends the whole job."""
    for directory in directories:
        if _write(directory, "memory.max", limit):
            _write(directory, "memory.swap.max", 0)
            _write(directory, "memory.oom.group", 1)
            return "memory", "cgroup v2", directory
        if _write(directory, "memory.limit_in_bytes", limit):
            _write(directory, "memory.memsw.limit_in_bytes", limit)
            return "memory", "cgroup v1", directory
    return "memory", "sampling", ""


def _limit_cpus(directories: Sequence[str], cpus: float) -> tuple[LimitRow, int | None]:
    """Limit CPU time; without a cgroup, return the number of CPUs to bind the job to."""
    period = PERIOD_MICROSECONDS if cpus >= 0.01 else LONG_PERIOD_MICROSECONDS
    quota = max(LEAST_QUOTA_MICROSECONDS, round(cpus * period))
    for directory in directories:
        if _write(directory, "cpu.max", f"{quota} {period}"):
            return ("cpus", "cgroup v2", directory), None
        if _write(directory, "cpu.cfs_period_us", period) and _write(directory, "cpu.cfs_quota_us", quota):
            return ("cpus", "cgroup v1", directory), None
    if not hasattr(os, "sched_setaffinity"):
        return ("cpus", "nothing", "this system can neither limit the CPUs of a job nor set its affinity"), None
    if cpus != int(cpus):
        return ("cpus", "nothing", f"without a cgroup only whole CPUs can be enforced, not {cpus:g}"), None
    return ("cpus", "affinity", ""), int(cpus)


def _write(directory: str, name: str, value: object) -> bool:
    """Write to a file of a cgroup; False if the controller is missing or the kernel refuses the value."""
    try:
        fd = os.open(f"{directory}/{name}", os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        os.write(fd, str(value).encode())
    except OSError:
        return False
    finally:
        os.close(fd)
    return True


class Guard:
    """Checks the memory of a job that no cgroup limits; signals the shim, which kills the job, if it exceeds its limit.

    The closer the limit, the more often it checks. It counts anonymous, shared and swapped memory; not mapped files,
    which the kernel can drop like page cache.
    """

    def __init__(
        self, shim: Identity, limit_bytes: int, proc: str = "/proc", signal: Callable[[Identity, int], bool] = send
    ) -> None:
        self.shim, self.limit_bytes, self.proc, self.signal = shim, limit_bytes, proc, signal
        self.due = -float("inf")  # when to check next
        self.over_bytes: int | None = None  # what the job used when it exceeded its limit
        self._last: tuple[float, int] | None = None  # the time of the last check, and the resident bytes
        self._shared: tuple[int, dict[tuple[int, int], int]] | None = None  # the last exact sum, and of which sizes

    def look(self, members: Collection[Member], now: float) -> bool:
        """Check the job; True if it exceeds its limit and is being killed."""
        began = time.thread_time()
        living = [member for member in members if member.threads > 0]
        resident = sum(member.rss + (member.swap or 0) for member in living)
        used = resident if resident <= self.limit_bytes else self._used(living)
        if used > self.limit_bytes:
            self.over_bytes, self.due = used, float("inf")
            return self.signal(self.shim, OVER_LIMIT_SIGNAL)
        wait = max(self._seconds_to_limit(resident, used, now), COST_RATIO * (time.thread_time() - began))
        self.due = now + min(LONGEST_WAIT_SECONDS, wait)
        return False

    def _seconds_to_limit(self, resident: int, used: int, now: float) -> float:
        """How long the job takes to reach its limit if it grows fast."""
        before, self._last = self._last or (now - LONGEST_WAIT_SECONDS, 0), (now, resident)
        growth = (resident - before[1]) / max(now - before[0], SHORTEST_WAIT_SECONDS)
        least = SHORTEST_WAIT_SECONDS if growth > 0 else CALM_WAIT_SECONDS
        return max(least, (self.limit_bytes - used) / max(SUDDEN_BYTES_PER_SECOND, GROWTH_FACTOR * growth))

    def _used(self, members: Sequence[Member]) -> int:
        """The memory of the job: exact if above the limit, else an upper bound, which needs no expensive files."""
        own = {(member.pid, member.start): self._own(member) for member in members}
        total = sum(own.values())
        if total <= self.limit_bytes or len(members) == 1:
            return total
        if self._shared is not None:
            before, each = self._shared
            bound = before + sum(max(0, size - each.get(process, 0)) for process, size in own.items())
            if bound <= self.limit_bytes:
                return bound
        exact = sum(self._share(member, own[member.pid, member.start]) for member in members)
        self._shared = exact, own
        return exact

    def _own(self, member: Member) -> int:
        """The memory of a process without mapped files, which the kernel can drop; shared memory counts in full."""
        text = read_text(f"{self.proc}/{member.pid}/status")
        if "RssAnon:" not in text:  # the process has exited, or the kernel is older than Linux 4.5
            return member.rss if text else 0
        return 1024 * sum(value_in(text, name) for name in ("RssAnon:", "RssShmem:", "VmSwap:"))

    def _share(self, member: Member, own: int) -> int:
        """The same with a share of shared memory instead of all; `own` if smaps_rollup cannot be read."""
        text = read_text(f"{self.proc}/{member.pid}/smaps_rollup")
        if not text:
            return own
        return 1024 * (value_in(text, "Pss:") - value_in(text, "Pss_File:") + value_in(text, "SwapPss:"))
