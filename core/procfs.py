"""The process table as /proc tells it: who is who, who is below whom, and signals to all of them.

Part of every shim: standard library only, nothing imported late.
"""

import errno
import os
import time

try:
    import _signal  # type: ignore[import-not-found]
except ImportError:  # it is private, and another Python may not have it
    import signal as _signal
signals = _signal  # without the enumerations of the public module, which cost a shim memory and time

SHIM_NAME = "jobtop-shim"
CALL_FOR_AGENT = signals.SIGURG  # to the `run` of a job that has put others into the queue; nobody else minds it
SAME_REQUEST_SECONDS = 0.5  # timeout(1), scancel and systemd send one TERM to a process and again to its group
OVER_LIMIT_SIGNAL = getattr(signals, "SIGRTMIN", signals.SIGXCPU)  # the sampler asks the shim to kill the job at once
BOOTTIME = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
HAS_PROC = os.path.isdir("/proc/self")
FORWARDED = tuple(
    getattr(signals, name) for name in ("SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGCONT", "SIGWINCH")
)


def read_text(path: str) -> str:
    """A small file as text, or nothing if it is not there (any more)."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        parts = []
        while part := os.read(fd, 65536):
            parts.append(part)
        return b"".join(parts).decode("utf-8", "replace")
    except OSError:  # ESRCH: the process ended between open and read
        return ""
    finally:
        os.close(fd)


def boot_id() -> str:
    """What makes a pid and its start time unique for ever; where the kernel gives no id, the time of the boot."""
    if text := read_text("/proc/sys/kernel/random/boot_id").strip():
        return text
    import psutil  # never in a shim: it is told the id

    return f"boot-{int(psutil.boot_time())}"


def stat_fields(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the name: state, ppid, …; the name may hold spaces and brackets."""
    return read_text(f"/proc/{pid}/stat").rpartition(")")[2].split()


def start_ticks(pid: int) -> int | None:
    """When a process began, in clock ticks since boot: with pid and boot id its identity."""
    fields = stat_fields(pid)
    return int(fields[19]) if len(fields) > 19 else None


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
    """Every process and its parent: for kernels without `children` files, and by `ps` for systems without /proc."""
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
    """Descendants by one look at all processes."""
    below: dict[int, list[int]] = {}
    for pid, parent in parents():
        below.setdefault(parent, []).append(pid)
    order = [root]
    for pid in order:
        order.extend(below.get(pid, ()))
    return order[1:]


def descendants(root: int) -> list[int]:
    """Everything below a process, parents before children."""
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
    """The name the kernel knows a process by."""
    return read_text(f"/proc/{pid}/comm").rstrip("\n")


def audience(root: int, number: int) -> "list[int]":
    """Whom below a shim a signal is for, when some of them are jobs of their own with a shim of their own.

    What asks goes to the inner `run`, or to the inner shim if that one is alone, and they pass it on: nobody hears it
    twice. KILL spares inner shims while there is anybody else, so that they can still record how their jobs ended.
    """
    members = descendants(root)
    inner = [pid for pid in members if name_of(pid) == SHIM_NAME]
    if not inner or number in (signals.SIGSTOP, signals.SIGCONT):
        return members
    if number == signals.SIGKILL:
        return [pid for pid in members if pid not in inner] or members
    alone = set(children(root))
    spared = {pid for shim in inner for pid in descendants(shim)} | {pid for pid in inner if pid not in alone}
    return [pid for pid in members if pid not in spared]


def signal_descendants(root: int, number: int, but: "frozenset[int]" = frozenset()) -> "list[tuple[int, str]]":
    """Signal everything below a shim, each held by a pidfd and checked to be still below it; who got it."""
    ours = {root, *descendants(root)}
    reached = []
    for pid in audience(root, number):
        if pid in but:
            continue
        name = name_of(pid)
        try:
            held = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None
        except OSError as error:
            if error.errno not in (errno.ENOSYS, errno.EPERM):
                continue
            held = None
        try:
            fields = stat_fields(pid)
            if HAS_PROC and not fields and pid not in descendants(root):  # hidden from us, or gone
                continue
            if fields and (int(fields[1]) not in ours or fields[0] in "ZX"):
                continue
            if held is None:
                os.kill(pid, number)
            else:
                signals.pidfd_send_signal(held, number)
            reached.append((pid, name))
        except OSError:  # gone, or another user's (sudo): the next round or the shim's own wait tells
            continue
        finally:
            if held is not None:
                os.close(held)
    return reached


def freeze_descendants(root: int, patience_seconds: float = 2.0) -> bool:
    """STOP everything below a shim until all stand still: one may have been forked while its parent was stopped."""
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
    word = word_in(text, key)
    return int(word) if word else 0


def word_in(text: str, key: str) -> str:
    at = text.find("\n" + key)
    if at < 0 and not text.startswith(key):
        return ""
    rest = text[at + 1 + len(key) :].split("\n", 1)[0].split()
    return rest[0] if rest else ""


def status_value(pid: int, key: str) -> int:
    """A number of /proc/PID/status; 0 if it is not there."""
    return value_in(read_text(f"/proc/{pid}/status"), key)
