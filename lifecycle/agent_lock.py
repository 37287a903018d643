"""Which process is the agent: one per user, host and store, the one that holds a lock until it exits."""

from __future__ import annotations

import fcntl
import os
import signal
import time
from _thread import allocate_lock, start_new_thread
from contextlib import suppress
from pathlib import Path

from jobtop.core.errors import StoreUnavailable
from jobtop.core.measure.collectors.proc import send
from jobtop.core.procfs import read_text, start_ticks
from jobtop.core.run import supervisor
from jobtop.core.state_files import open_lock
from jobtop.store.agents import registered
from jobtop.store.files import is_network

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from jobtop.core.paths import StatePaths
    from jobtop.store.database import Database

EXIT_SECONDS = 10.0  # a warning is logged if an agent holds the lock for longer after it has unregistered
READER_SECONDS = 1.0  # the longest time for which a process that only reads the state of the lock may share it
SCRATCH = "/tmp"
LOCK_BYTES = 16
AGENT = "the agent, which runs queued jobs and samples detached ones"
# While a shim is started, its pipes are inheritable: a program that another thread executes must not inherit them.
SPAWNING = allocate_lock()


def lock_path(paths: StatePaths, network: bool | None) -> Path:
    """The file that the agent holds a lock on; always on a local disk, since locks may not work on others."""
    shared = is_network(paths.store) if network is None else network
    if not shared:
        return paths.agent
    folder = Path(SCRATCH) / f"jobtop-{os.getuid()}"
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = os.lstat(folder)
    if found.st_uid != os.getuid() or found.st_mode & 0o777 != 0o700:
        raise StoreUnavailable(f"{folder} is not this user's own: remove it, the agent's lock has to be there")
    name = str(paths.store.resolve()).replace("%", "%25").replace("/", "%2F")
    return folder / f"{name[-200:]}.agent"


def agent_environment() -> dict[str, str]:
    """The environment of an agent: it does not belong to the job that may have started it."""
    return {key: value for key, value in os.environ.items() if key != "JOBTOP_JOB_ID"}


def take_lock(path: Path) -> int | None:
    """Take the lock until this process exits; None if another process holds it.

    Shims and verbs share the lock for a moment to find out whether an agent holds it: that is no other agent.
    """
    fd = open_lock(path)
    deadline = time.monotonic() + READER_SECONDS
    while not _try_lock(fd, fcntl.LOCK_EX):
        if not _try_lock(fd, fcntl.LOCK_SH) or time.monotonic() > deadline:
            os.close(fd)
            return None
        fcntl.flock(fd, fcntl.LOCK_UN)
        time.sleep(0.001)
    return fd


def _try_lock(fd: int, kind: int) -> bool:
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_lock_file(fd: int, path: Path) -> bool:
    """Whether an open file is the one that the agent holds a lock on."""
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path))
    except OSError:
        return False


def write_lock(fd: int, text: bytes) -> bool:
    """Write the state of the agent into the lock file, with a single system call: shims read it at any moment.

    `0`: the agent starts up. A pid: its first round has succeeded. Empty: it exited normally. If the file is not
    empty and no process holds the lock, the agent was killed, and a spare shim starts a new one.
    """
    if text:
        os.pwrite(fd, text.ljust(LOCK_BYTES), 0)
    else:
        os.ftruncate(fd, 0)
    return True


def is_taken(path: Path) -> bool:
    """Whether an agent holds the lock."""
    try:
        fd = open_lock(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        return not _try_lock(fd, fcntl.LOCK_SH)
    finally:
        os.close(fd)


def is_attended(database: Database, paths: StatePaths) -> bool:
    """Whether an agent serves the store, or starts up."""
    return registered(database) is not None or is_taken(lock_path(paths, None))


def ensure_agent(database: Database, paths: StatePaths) -> bool:
    """Wake the agent, so that it reads the store now, or start one; True if one was started."""
    there = registered(database)
    if there is not None and send(there.identity, signal.SIGUSR1):
        return False
    start_agent(paths)
    return True


def start_agent(paths: StatePaths, sets: Iterable[str] = ()) -> int:
    """Start an agent with our environment and these settings, in its own session and without open files; its pid."""
    from jobtop.core.run.supervisor import spawn

    environment = agent_environment()
    null = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in range(3)]
    arguments = agent_command(paths, sets)
    try:
        with SPAWNING:
            pid = spawn(arguments, environment, null)
    except OSError as error:
        from jobtop.core.run.start_problems import cannot_start

        raise cannot_start(AGENT, error) from error
    with suppress(RuntimeError):  # no more threads may be started; the child is reaped when this process exits
        start_new_thread(reap_child, (pid,))
    return pid


def agent_command(paths: StatePaths, sets: Iterable[str] = ()) -> list[str]:
    """The command that starts the agent of a store with these settings."""
    return supervisor.agent_command(str(paths.root), sets)


def reap_child(pid: int) -> None:
    """Wait for a child, so that it does not stay a zombie."""
    with suppress(ChildProcessError):
        os.waitpid(pid, 0)


def wait_for_lock(path: Path, database: Database, say: Callable[[str], None]) -> int | None:
    """Take the lock, once an agent that is exiting has released it; None if another agent serves or waits for it.

    Only one process waits. Others exit and rely on it, so it gives up only if an agent is registered by then.
    """
    while (fd := _take_in_turn(path, database)) is None:
        waiter = take_lock(path.with_name(f"{path.name}.next"))
        if waiter is None:
            return None
        try:
            fd = _poll_lock(path, database, say)
        finally:
            os.close(waiter)
        if fd is not None or registered(database) is not None:
            break
    return fd


def _poll_lock(path: Path, database: Database, say: Callable[[str], None]) -> int | None:
    """Try to take the lock again and again; None as soon as another agent is registered."""
    since, is_said = time.monotonic(), False
    while (fd := _take_in_turn(path, database)) is None:
        waited = time.monotonic() - since
        if registered(database) is not None:
            return None
        if waited > EXIT_SECONDS and not is_said:
            is_said = True
            say(f"agent {os.getpid()} waits for the agent before it, which has not exited yet")
        time.sleep(0.02 if waited < 1.0 else 0.2)
    return fd


def _take_in_turn(path: Path, database: Database) -> int | None:
    """Take the lock unless another process holds it, or an older agent will: its lock file was deleted or moved."""
    return None if has_older_agent(os.path.dirname(database.file)) else take_lock(path)


def has_older_agent(root: str) -> bool:
    """Whether an agent of this user and state directory runs that started before this process."""
    words = f"\0store.dir={root}\0agent\0run\0".encode("utf-8", "surrogateescape")
    own_start = start_ticks(os.getpid()) or 0
    for pid in lock_holders():
        start = start_ticks(pid)
        is_older = start is not None and (start, pid) < (own_start, os.getpid())
        if is_older and read_own_command_line(pid).endswith(words):
            return True
    return False


def lock_holders() -> set[int]:
    """The processes that hold a lock which flock(2) gave them; empty where /proc/locks does not exist."""
    rows = [line.split() for line in read_text("/proc/locks").splitlines()]
    return {int(row[4]) for row in rows if row[1] == "FLOCK"}


def read_own_command_line(pid: int) -> bytes:
    """The command line of a process of this user; empty for one of another user, or that has exited."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read() if os.fstat(file.fileno()).st_uid == os.getuid() else b""
    except OSError:
        return b""
