"""The cgroup of a job, where jobtop may create one, and what it has counted at the end.

It counts what the kernel forgets elsewhere: CPU times of children of a parent that ignores SIGCHLD, and OOM kills.
Without a limit that is to hold (see enforcing.py) it changes nothing for the job, and it is never required.
"""

import errno
import os
from collections.abc import Iterable, Iterator, Mapping

from jobtop.core.job_id import JobId
from jobtop.core.procfs import read_text, word_in
from jobtop.core.record import record

PREFIX = "jobtop-"
V2_LIMITS = ("memory.max", "memory.high", "memory.swap.max", "pids.max", "cpu.max", "cpuset.cpus")
EVIDENCE = {
    "v2": ("cpu.stat", "memory.peak", "memory.events", "io.stat"),
    "memory": ("memory.max_usage_in_bytes", "memory.oom_control"),
    "cpuacct": ("cpuacct.usage", "cpuacct.usage_user"),
    "cpu": ("cpuacct.usage", "cpuacct.usage_user"),  # where both are mounted together
}


@record
class Hierarchy:
    """One mounted tree of cgroups and where this process is in it."""

    kind: str
    mount: str
    own: str


@record
class JobCgroup:
    """The directories made for one job, and the files in them worth keeping when it ends."""

    directories: tuple[str, ...] = ()
    files: tuple[tuple[str, str], ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def joins(self) -> tuple[str, ...]:
        return tuple(f"{directory}/cgroup.procs" for directory in self.directories)


@record
class Reading:
    """What a job's own cgroup counted."""

    cpu_user_seconds: float | None = None
    cpu_system_seconds: float | None = None
    memory_peak_bytes: int | None = None
    oom_kills: int | None = None


def hierarchies(proc: str = "/proc/self", with_cpu: bool = False) -> list[Hierarchy]:
    """The trees that a cgroup of a job is useful in: v2, v1 memory, and v1 cpuacct without `cpu` beside it.

    A new cgroup in a `cpu` hierarchy would change how the job is scheduled against everything else: only if it has to.
    Its `cpu.stat` has no times, so it comes last.
    """
    found = {tree.kind: tree for tree in all_hierarchies(proc) if tree.kind in EVIDENCE}
    if "v2" in found:
        found.pop("cpuacct", None)
    scheduling = found.pop("cpu", None)
    return [*found.values(), *([scheduling] if scheduling and with_cpu else [])]


def all_hierarchies(proc: str = "/proc/self") -> list[Hierarchy]:
    """Every mounted tree that jobtop can use, and our place in it."""
    own_paths = {}
    for line in read_text(f"{proc}/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        own_paths[controllers] = path
    found: dict[str, Hierarchy] = {}
    for line in read_text(f"{proc}/mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        if not after.startswith("cgroup"):
            continue
        words, (fstype, _, options) = before.split(), after.split(" ", 2)
        root, mount = words[3], words[4].replace("\\040", " ")
        kind: str | None
        if fstype == "cgroup2":
            kind, own = "v2", own_paths.get("")
        elif fstype == "cgroup":
            controllers = next((names for names in own_paths if names and set(names.split(",")) <= _words(options)), "")
            kind, own = _v1_kind(controllers), own_paths.get(controllers)
        else:
            continue
        inside = _inside(own, root)
        if kind and inside is not None and kind not in found:
            found[kind] = Hierarchy(kind, mount, inside)
    return list(found.values())


def cpu_quota(proc: str = "/proc/self") -> float | None:
    """How many CPUs the quota of our cgroups allows; None without a quota."""
    quotas = []
    for tree in all_hierarchies(proc):
        here = tree.own
        while tree.kind in ("v2", "cpu"):
            quotas.append(_quota(tree.mount + here))
            if not here:
                break
            here = here.rpartition("/")[0]
    return min((quota for quota in quotas if quota is not None), default=None)


def make(job_id: JobId, proc: str = "/proc/self", with_cpu: bool = False) -> JobCgroup:
    """Make the job's cgroups; what could not be made, and why, is in `problems`."""
    directories, problems = [], []
    files: list[tuple[str, str]] = []
    for tree in hierarchies(proc, with_cpu):
        directory, problem = _make_in(tree, PREFIX + job_id)
        if problem:
            problems.append(problem)
        if directory:
            directories.append(directory)
            files += evidence_files(tree.kind, directory)
    if not directories and not problems:
        problems.append("no cgroup file system is mounted")
    return JobCgroup(tuple(directories), tuple(files), tuple(problems))


def evidence_files(kind: str, directory: str) -> tuple[tuple[str, str], ...]:
    """The files of a job's cgroup that are kept at the end, by name, with their paths."""
    return tuple((name, f"{directory}/{name}") for name in EVIDENCE[kind] if _exists(directory, name))


def own_procs(proc: str = "/proc/self") -> str | None:
    """The `cgroup.procs` we are in, of a tree in which a job's cgroup could be made."""
    files = (f"{tree.mount}{tree.own}/cgroup.procs" for tree in hierarchies(proc))
    return next((file for file in files if os.access(file, os.W_OK)), None)


def discard(directories: Iterable[str]) -> bool:
    """Remove cgroups without processes; False if one still has processes."""
    populated = False
    for directory in directories:
        inner = os.listdir(directory) if os.path.isdir(directory) else []
        populated |= not discard(f"{directory}/{name}" for name in inner if name.startswith(PREFIX))
        try:
            os.rmdir(directory)
        except OSError as error:
            populated |= error.errno == errno.EBUSY
    return not populated


def mounted(directories: Iterable[str], proc: str = "/proc/self") -> tuple[str, ...]:
    """Those of some plain paths that are inside of a cgroup file system."""
    kinds: dict[str, str] = {}  # a later mount at the same place hides the earlier one
    for line in read_text(f"{proc}/mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        kinds[before.split(" ", 5)[4].replace("\\040", " ")] = after.split(" ", 1)[0]
    return tuple(path for path in directories if _mount_kind(path, kinds) in ("cgroup", "cgroup2"))


def _mount_kind(path: str, kinds: Mapping[str, str]) -> str | None:
    """The type of the innermost mount above a path."""
    while len(path) > 1:
        path = os.path.dirname(path)
        if path in kinds:
            return kinds[path]
    return None


def possible_directories(job_id: JobId, proc: str = "/proc/self") -> list[str]:
    """Where `make`, called from here, may have put the cgroups of a job."""
    return [f"{place}/{PREFIX}{job_id}" for tree in hierarchies(proc, True) for place in _places(tree)]


def reading(evidence: Mapping[str, str]) -> Reading:
    """What the kept files say; a file that was not there leaves its numbers absent."""
    stat, events = pairs(evidence.get("cpu.stat", "")), pairs(evidence.get("memory.events", ""))
    control = pairs(evidence.get("memory.oom_control", ""))
    user = stat["user_usec"] / 1e6 if "user_usec" in stat else None
    system = stat["system_usec"] / 1e6 if "system_usec" in stat else None
    if "usage_usec" in stat and user is not None and system is not None:
        user, system = _scaled(user, system, stat["usage_usec"] / 1e6)
    elif (total := number(evidence.get("cpuacct.usage"))) is not None:
        user = (number(evidence.get("cpuacct.usage_user")) or 0) / 1e9
        system = max(0.0, total / 1e9 - user)
    peak = number(evidence.get("memory.peak", evidence.get("memory.max_usage_in_bytes")))
    return Reading(user, system, peak, events.get("oom_kill", control.get("oom_kill")))


def ambient_oom_file(proc: str = "/proc/self") -> str | None:
    """The counter of OOM kills around us, for when the job has no memory cgroup of its own."""
    for tree in hierarchies(proc):
        name = {"v2": "memory.events", "memory": "memory.oom_control"}.get(tree.kind)
        if name and _exists(tree.mount + tree.own, name):
            return f"{tree.mount}{tree.own}/{name}"
    return "/proc/vmstat" if "oom_kill" in read_text("/proc/vmstat") else None


def oom_count(text: str) -> int | None:
    """The `oom_kill` line of memory.events, memory.oom_control or /proc/vmstat."""
    return number_in(text, "oom_kill ")


def _make_in(tree: Hierarchy, name: str) -> tuple[str | None, str | None]:
    """Make a directory for the job in one tree, or say why not."""
    fallback, problem = None, f"{tree.mount}{tree.own}: not allowed"
    for parent in _places(tree):
        directory = f"{parent}/{name}"
        try:
            os.mkdir(directory)
        except OSError as error:
            problem = f"{parent}: {os.strerror(error.errno or 0)}"
            continue
        if not os.access(f"{directory}/cgroup.procs", os.W_OK):
            os.rmdir(directory)
        elif tree.kind != "v2" or _exists(directory, "memory.events"):
            if fallback:
                os.rmdir(fallback)
            return directory, None
        elif fallback is None:
            fallback = directory
        else:
            os.rmdir(directory)
    return (fallback, None) if fallback else (None, problem)


def _places(tree: Hierarchy) -> Iterator[str]:
    """Our own cgroup, and in v2 those above it for as long as moving there would leave no limit behind.

    A v2 cgroup with processes in it cannot give its children a memory controller; one further up often can.
    A job inside a job stays inside.
    """
    here = tree.own
    yield tree.mount + here
    while tree.kind == "v2" and here:
        if os.path.basename(here).startswith(PREFIX) or is_limited(tree.mount + here):
            return
        here = os.path.dirname(here) if here.count("/") > 1 else ""
        if not os.access(f"{tree.mount}{here}/cgroup.procs", os.W_OK):
            return
        yield tree.mount + here


def is_limited(directory: str, but: str = "") -> bool:
    """Whether a v2 cgroup limits its processes, apart from one thing."""
    unlimited = ("", "max", "max 100000")
    return any(read_text(f"{directory}/{name}").strip() not in unlimited for name in V2_LIMITS if name != but)


def _inside(own: str | None, root: str) -> str | None:
    """Our place below a mount that shows the tree from `root` on; None if it does not show it."""
    base = root.rstrip("/")
    if own is None or "/.." in own or not (own == root or own.startswith(f"{base}/")):
        return None
    return own.removeprefix(base).rstrip("/")


def _quota(directory: str) -> float | None:
    words = read_text(f"{directory}/cpu.max").split()
    if not words:
        words = [read_text(f"{directory}/cpu.cfs_{name}_us").strip() for name in ("quota", "period")]
    if len(words) != 2 or not all(word.isdigit() for word in words):  # "max" and -1 are no limit
        return None
    return int(words[0]) / int(words[1])


def _v1_kind(controllers: str) -> str | None:
    names = _words(controllers)
    if "cpu" in names:
        return "cpu"
    return next((name for name in ("memory", "cpuacct") if name in names and "cpuset" not in names), None)


def _words(text: str) -> set[str]:
    return set(text.split(","))


def _exists(directory: str, name: str) -> bool:
    return os.path.exists(f"{directory}/{name}")


def pairs(text: str) -> dict[str, int]:
    """The lines `name number` of a file."""
    rows = (line.split() for line in text.splitlines())
    return {row[0]: value for row in rows if len(row) == 2 and (value := number(row[1])) is not None}


def number_in(text: str, name: str) -> int | None:
    """The number after a name and a blank at the beginning of a line; None if there is none."""
    return number(word_in(text, name)) if name in text else None


def number(text: str | None) -> int | None:
    """A counter of the kernel; None if it is no number, or one that the store could not keep."""
    digits = (text or "").strip()
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 19 else None


def _scaled(user: float, system: float, total: float) -> tuple[float, float]:
    share = user / (user + system) if user + system > 0 else 1.0
    return total * share, total * (1 - share)
