"""The process table in /proc: fields of a process, its children and descendants, and signals to all of them.

Part of every shim: standard library only, imports nothing later.
"""

import errno
import os
import time

try:
    import _signal  # type: ignore[import-not-found]
except ImportError:  # this is a private module; another Python may not have it
    import signal as _signal
signals = _signal  # without the enumerations of the public module, which take memory and time in a shim

SHIM_NAME = "jobtop-shim"
CALL_FOR_AGENT = signals.SIGURG  # to the `run` of a job that has queued other jobs; ignored by default
SAME_REQUEST_SECONDS = 0.5  # timeout(1), scancel and systemd send TERM to a process and then to its group
OVER_LIMIT_SIGNAL = getattr(signals, "SIGRTMIN", signals.SIGXCPU)  # the sampler asks the shim to kill the job at once
BOOTTIME = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
HAS_PROC = os.path.isdir("/proc/self")
FORWARDED = tuple(
    getattr(signals, name) for name in ("SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGCONT", "SIGWINCH")
)


def read_text(path: str) -> str:
    """The content of a small file; empty if the file does not exist."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        parts = []
        while part := os.read(fd, 65536):
            parts.append(part)
        return b"".join(parts).decode("utf-8", "replace")
    except OSError:  # ESRCH: the process exited between open and read
        return ""
    finally:
        os.close(fd)


def boot_id() -> str:
    """The id of this boot, which makes a pid and a start time unique; the boot time where the kernel has no id."""
    if text := read_text("/proc/sys/kernel/random/boot_id").strip():
        return text
    import psutil  # never in a shim, which gets the id with its order

    return f"boot-{int(psutil.boot_time())}"


def stat_fields(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the name: state, ppid, …; the name can contain spaces and brackets."""
    return read_text(f"/proc/{pid}/stat").rpartition(")")[2].split()


def start_ticks(pid: int) -> int | None:
    """The start time of a process in clock ticks since boot; with pid and boot id it identifies the process."""
    fields = stat_fields(pid)
    return int(fields[19]) if len(fields) > 19 else None


def pid_clock(pid: int) -> int:
    """The id of the clock that counts the CPU time of a process (CPUCLOCK_SCHED of a thread group)."""
    return (~pid << 3) | 2


def children(pid: int) -> list[int]:
    """The children of all threads of a process."""
    found: list[int] = []
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return found
    for task in tasks:
        found.extend(map(int, read_text(f"/proc/{pid}/task/{task}/children").split()))
    return found


def parents() -> "list[tuple[int, int]]":
    """Every process and its parent, for kernels without `children` files; from `ps` on systems without /proc."""
    if HAS_PROC:
        pids = [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]
        return [(pid, int(fields[1])) for pid in pids if len(fields := stat_fields(pid)) > 1]
    reader, writer = os.pipe()
    ps = os.posix_spawnp(
        "ps", ["ps", "-axo", "pid=,ppid="], os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, writer, 1)]
    )
    os.close(writer)
    text = b""
    while part := os.read(reader, 65536):
        text += part
    os.close(reader)
    os.waitpid(ps, 0)
    return [(int(row[0]), int(row[1])) for row in map(bytes.split, text.splitlines()) if int(row[0]) != ps]


def scanned_descendants(root: int) -> list[int]:
    """All processes below a process, found by reading the whole process table."""
    below: dict[int, list[int]] = {}
    for pid, parent in parents():
        below.setdefault(parent, []).append(pid)
    order = [root]
    for pid in order:
        order.extend(below.get(pid, ()))
    return order[1:]


def descendants(root: int) -> list[int]:
    """All processes below a process, parents before children."""
    if not os.path.exists(f"/proc/self/task/{os.getpid()}/children"):
        return scanned_descendants(root)
    order, known = [root], {root}
    for pid in order:
        for child in children(pid):
            if child not in known:
                known.add(child)
                order.append(child)
    return order[1:]


def name_of(pid: int) -> str:
    """The name of a process in the kernel."""
    return read_text(f"/proc/{pid}/comm").rstrip("\n")


def signal_targets(root: int, number: int) -> "list[int]":
    """The processes below a shim that get a signal, if some of them belong to inner jobs with shims of their own.

    An inner `run` passes most signals on, and so does an inner shim without a `run`: the processes below them are left
    out and get the signal once. KILL leaves out inner shims while other processes are left, so that they can still
    record how their jobs ended.
    """
    members = descendants(root)
    inner = [pid for pid in members if name_of(pid) == SHIM_NAME]
    if not inner or number in (signals.SIGSTOP, signals.SIGCONT):
        return members
    if number == signals.SIGKILL:
        return [pid for pid in members if pid not in inner] or members
    orphans = set(children(root))  # an inner shim becomes our child when its `run` exits
    left_out = {pid for shim in inner for pid in descendants(shim)} | {pid for pid in inner if pid not in orphans}
    return [pid for pid in members if pid not in left_out]


def signal_descendants(root: int, number: int, without: "frozenset[int]" = frozenset()) -> "list[tuple[int, str]]":
    """Signal all processes below a shim; return the pids and names of those that got the signal.

    A pidfd holds each process while it is checked that the process is still below the shim.
    """
    tree = {root, *descendants(root)}
    reached = []
    for pid in signal_targets(root, number):
        if pid in without:
            continue
        name = name_of(pid)
        try:
            pidfd = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None
        except OSError as error:
            if error.errno not in (errno.ENOSYS, errno.EPERM):
                continue
            pidfd = None
        try:
            fields = stat_fields(pid)
            if HAS_PROC and not fields and pid not in descendants(root):  # it has exited; else /proc only hides it
                continue
            if fields and (int(fields[1]) not in tree or fields[0] in "ZX"):
                continue
            if pidfd is None:
                os.kill(pid, number)
            else:
                signals.pidfd_send_signal(pidfd, number)
            reached.append((pid, name))
        except OSError:  # it has exited, or belongs to another user (sudo)
            continue
        finally:
            if pidfd is not None:
                os.close(pidfd)
    return reached


def freeze_descendants(root: int, patience_seconds: float = 2.0) -> bool:
    """Send STOP to all processes below a shim until all are stopped: new ones may be forked meanwhile."""
    deadline = time.monotonic() + patience_seconds
    while signal_descendants(root, signals.SIGSTOP):
        states = [fields[0] for pid in descendants(root) if (fields := stat_fields(pid))]
        if all(state in "TtZX" for state in states):
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


def value_in(text: str, key: str) -> int:
    """The number after a key at the start of a line, as in /proc/PID/status; 0 if the key is missing."""
    word = word_in(text, key)
    return int(word) if word else 0


def word_in(text: str, key: str) -> str:
    """The word after a key at the start of a line; empty if the key is missing."""
    at = text.find("\n" + key)
    if at < 0 and not text.startswith(key):
        return ""
    begin = at + 1 + len(key)
    end = text.find("\n", begin)
    words = text[begin : len(text) if end < 0 else end].split(None, 1)
    return words[0] if words else ""


def status_value(pid: int, key: str) -> int:
    """A number from /proc/PID/status; 0 if it is missing."""
    return value_in(read_text(f"/proc/{pid}/status"), key)
