"""Who is the agent: one process per user, host and store, known by a lock that ends with it."""

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
from jobtop.core.run import supervisor
from jobtop.core.state_files import open_lock
from jobtop.store.agents import registered
from jobtop.store.database import is_network

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from jobtop.core.paths import StatePaths
    from jobtop.store.database import Database

LEAVING_SECONDS = 10.0  # one that holds the seat for longer after it has said good-bye is worth a word
SCRATCH = "/tmp"
SEAT_BYTES = 16
AGENT = "the agent, which runs queued jobs and samples detached ones"
# While a shim is made its pipes can be inherited: whatever another thread executes meanwhile must not have them.
SPAWNING = allocate_lock()


def seat(paths: StatePaths, network: bool | None) -> Path:
    """The file whose lock makes a process the agent; a lock on a network file system may hold for nobody else."""
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
    """Ours, but an agent is no part of the job that may have started it."""
    return {key: value for key, value in os.environ.items() if key != "JOBTOP_JOB_ID"}


def take_seat(path: Path) -> int | None:
    """Hold the lock for as long as this process lives; None if somebody else does."""
    fd = open_lock(path)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    return fd


def is_seat(fd: int, path: Path) -> bool:
    """Whether an open file is the one whose lock makes a process the agent."""
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path))
    except OSError:
        return False


def write_seat(fd: int, text: bytes) -> bool:
    """Say in the file of the lock how things stand; shims read it, and never half of one word and half of another."""
    if text:
        os.pwrite(fd, text.ljust(SEAT_BYTES), 0)
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
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def is_attended(database: Database, paths: StatePaths) -> bool:
    """Whether an agent serves the store, or sits down to do so."""
    return registered(database) is not None or is_taken(seat(paths, None))


def ensure_agent(database: Database, paths: StatePaths) -> bool:
    """Have an agent see what was just written; whether one had to be started."""
    there = registered(database)
    if there is not None and send(there.who, signal.SIGUSR1):
        return False
    start_agent(paths)
    return True


def start_agent(paths: StatePaths, sets: Iterable[str] = ()) -> int:
    """Start one, in a session of its own, with nothing of ours but the environment and these settings; its pid."""
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
    with suppress(RuntimeError):  # no thread may be started any more; our own end does the same
        start_new_thread(bury, (pid,))
    return pid


def agent_command(paths: StatePaths, sets: Iterable[str] = ()) -> list[str]:
    """The words that make a process the agent of a store, with these settings."""
    return supervisor.agent_command(str(paths.root), sets)


def bury(pid: int) -> None:
    """Wait for a child, so that nothing of it stays."""
    with suppress(ChildProcessError):
        os.waitpid(pid, 0)


def wait_for_seat(path: Path, database: Database, say: Callable[[str], None]) -> int | None:
    """The seat, once a leaving agent is gone, however long that takes; None if there is another agent, or one to be.

    One waits. Whoever comes meanwhile leaves all to it: so it goes only if an agent serves after it has ceased to wait.
    """
    while (fd := take_seat(path)) is None:
        turn = take_seat(path.with_name(f"{path.name}.next"))
        if turn is None:
            return None
        try:
            fd = _seat_after(path, database, say)
        finally:
            os.close(turn)
        if fd is not None or registered(database) is not None:
            break
    return fd


def _seat_after(path: Path, database: Database, say: Callable[[str], None]) -> int | None:
    since, is_said = time.monotonic(), False
    while (fd := take_seat(path)) is None:
        waited = time.monotonic() - since
        if registered(database) is not None:
            return None
        if waited > LEAVING_SECONDS and not is_said:
            is_said = True
            say(f"agent {os.getpid()} waits for the one before it, which has not left yet")
        time.sleep(0.02 if waited < 1.0 else 0.2)
    return fd
