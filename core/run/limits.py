"""Makes limits hold: by the job's own cgroup, else by the CPUs it may run on and by whoever samples it."""

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
SUDDEN_BYTES_PER_SECOND = 1 << 30  # what a job that stood still may begin to take without a warning
HASTE = 2  # growth may double before the next look
COST_RATIO = 4  # a look may cost a fifth of a core: of a job with hundreds of gigabytes it takes the kernel a second


def enforce(spec: JobSpec, own: JobCgroup, come_up: Callable[[], int] | None) -> tuple[JobCgroup, EnforcedLimits]:
    """Set what can be set before the job begins: in its own cgroup or, if that cannot hold all, in one of systemd's.

    Which cgroup it is at last, and what the shim has to know and to do. `come_up` gives its number if it has to move.
    """
    limits, affinity = _set(spec, own.directories)
    wanted = {CONTROLLERS[what] for what, _, _ in limits}
    held = {CONTROLLERS[what] for what, how, _ in limits if how.startswith("cgroup")}
    if come_up is not None and held != wanted:
        from jobtop.core.measure.collectors.cgroup import discard
        from jobtop.core.run import scope

        scoped = scope.make(spec.id, wanted, held, spec.detached, come_up)
        if scoped.directories:
            discard(own.directories)
            own = scoped
            limits, affinity = _set(spec, own.directories)
            limits = [(what, how.replace("cgroup v2", BY_SYSTEMD), where) for what, how, where in limits]
        else:
            own = replace(own, problems=(*own.problems, *scoped.problems))
    return own, {"limits": limits, "memory_limit": spec.hold_memory_bytes, "affinity": affinity}


def _set(spec: JobSpec, directories: Sequence[str]) -> tuple[list[LimitRow], int | None]:
    """Who holds what, and the number of CPUs the job has to choose itself."""
    limits: list[LimitRow] = []
    affinity = None
    if spec.hold_memory_bytes is not None:
        limits.append(_hold_memory(directories, spec.hold_memory_bytes))
    if spec.hold_cpus is not None:
        row, affinity = _hold_cpus(directories, spec.hold_cpus)
        limits.append(row)
    return limits, affinity


def _hold_memory(directories: Sequence[str], limit: int) -> LimitRow:
    """Swap is no way out, and what the kernel ends for it it ends as a whole, where the cgroup has files for that."""
    for directory in directories:
        if _write(directory, "memory.max", limit):
            _write(directory, "memory.swap.max", 0)
            _write(directory, "memory.oom.group", 1)
            return "memory", "cgroup v2", directory
        if _write(directory, "memory.limit_in_bytes", limit):
            _write(directory, "memory.memsw.limit_in_bytes", limit)
            return "memory", "cgroup v1", directory
    return "memory", "sampling", ""


def _hold_cpus(directories: Sequence[str], cpus: float) -> tuple[LimitRow, int | None]:
    """How, and the number of CPUs the job has to choose itself for want of a cgroup."""
    period = PERIOD_MICROSECONDS if cpus >= 0.01 else LONG_PERIOD_MICROSECONDS
    quota = max(LEAST_QUOTA_MICROSECONDS, round(cpus * period))
    for directory in directories:
        if _write(directory, "cpu.max", f"{quota} {period}"):
            return ("cpus", "cgroup v2", directory), None
        if _write(directory, "cpu.cfs_period_us", period) and _write(directory, "cpu.cfs_quota_us", quota):
            return ("cpus", "cgroup v1", directory), None
    if not hasattr(os, "sched_setaffinity"):
        return ("cpus", "nothing", "this system can neither limit nor place a job"), None
    if cpus != int(cpus):
        return ("cpus", "nothing", f"without a cgroup only whole CPUs can be made to hold, not {cpus:g}"), None
    return ("cpus", "affinity", ""), int(cpus)


def _write(directory: str, name: str, value: object) -> bool:
    """Whether the kernel took it; no file is no controller."""
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
    """Keeps the memory of one job below its limit: looks the more often the less room is left, and has it killed.

    Counted is what no page cache can give back: anonymous and shared memory, and what of it was swapped out.
    """

    def __init__(
        self, shim: Identity, limit_bytes: int, proc: str = "/proc", tell: Callable[[Identity, int], bool] = send
    ) -> None:
        self.shim, self.limit_bytes, self.proc, self.tell = shim, limit_bytes, proc, tell
        self.due = -float("inf")
        self.over_bytes: int | None = None  # what it held when it was stopped for that
        self._seen: tuple[float, int] | None = None  # when, and how much was resident
        self._shared: tuple[int, dict[tuple[int, int], int]] | None = None  # of all together, and what each held then

    def look(self, members: Collection[Member], now: float) -> bool:
        """Whether the job was over its limit, and is being killed."""
        began = time.thread_time()
        living = [member for member in members if member.threads > 0]
        resident = sum(member.rss + ((member.slow or (0,))[0] or 0) for member in living)
        used = resident if resident <= self.limit_bytes else self._used(living)
        if used > self.limit_bytes:
            self.over_bytes, self.due = used, float("inf")
            return self.tell(self.shim, OVER_LIMIT_SIGNAL)
        wait = max(self._patience(resident, used, now), COST_RATIO * (time.thread_time() - began))
        self.due = now + min(LONGEST_WAIT_SECONDS, wait)
        return False

    def _patience(self, resident: int, used: int, now: float) -> float:
        """How long it takes the job to get to its limit, if it makes haste."""
        before, self._seen = self._seen or (now - LONGEST_WAIT_SECONDS, 0), (now, resident)
        growth = (resident - before[1]) / max(now - before[0], SHORTEST_WAIT_SECONDS)
        least = SHORTEST_WAIT_SECONDS if growth > 0 else CALM_WAIT_SECONDS
        return max(least, (self.limit_bytes - used) / max(SUDDEN_BYTES_PER_SECOND, HASTE * growth))

    def _used(self, members: Sequence[Member]) -> int:
        """At least what the job holds; exact if that is over the limit. The dear files are read only to tell."""
        own = {(member.pid, member.start): self._own(member) for member in members}
        held = sum(own.values())
        if held <= self.limit_bytes or len(members) == 1:
            return held
        if self._shared is not None:
            before, each = self._shared
            bound = before + sum(max(0, size - each.get(who, 0)) for who, size in own.items())
            if bound <= self.limit_bytes:
                return bound
        exact = sum(self._share(member, own[member.pid, member.start]) for member in members)
        self._shared = exact, own
        return exact

    def _own(self, member: Member) -> int:
        """Without the files it has mapped, which the kernel can drop; with what others share of it."""
        text = read_text(f"{self.proc}/{member.pid}/status")
        if "RssAnon:" not in text:  # gone, or before Linux 4.5
            return member.rss if text else 0
        return 1024 * sum(value_in(text, name) for name in ("RssAnon:", "RssShmem:", "VmSwap:"))

    def _share(self, member: Member, own: int) -> int:
        """Its share of what it holds; all of it where that is not ours to see."""
        text = read_text(f"{self.proc}/{member.pid}/smaps_rollup")
        if not text:
            return own
        return 1024 * (value_in(text, "Pss:") - value_in(text, "Pss_File:") + value_in(text, "SwapPss:"))
