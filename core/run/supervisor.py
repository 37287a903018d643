"""The shim of a job, seen from the process that starts it: starts the shim, sends the order, receives messages.

The shim itself is core/shim; messages to users call it the supervisor. `run` starts the shim first, and reads its own
options while the shim starts. That is why this file imports little.
"""

import errno
import marshal
import os
import sys
import time
from contextlib import suppress

from jobtop.core.job_id import JobId
from jobtop.core.measure.collectors import cgroup
from jobtop.core.procfs import HAS_PROC, boot_id, read_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from jobtop.core.model import JobSpec
    from jobtop.core.run.facts import Facts
    from jobtop.core.shim.order import AgentStart, EnforcedLimits, Order, Prelude, TerminalOrder

try:  # the public module would take a millisecond
    from _frozen_importlib_external import MAGIC_NUMBER, cache_from_source
except ImportError:
    from importlib.util import MAGIC_NUMBER, cache_from_source

MARSHAL_VERSION, ORDER_START = 2, b"{"  # version 2 has no references: there, every dict starts with this byte
SHIM_READY_SECONDS = 5.0
CODE: list[bytes] = []  # the code of the shim, after its first use
# The modules of a shim; each one imports only modules above it.
SHIM = (
    "jobtop.core.procfs",
    "jobtop.core.shim.system_calls",
    "jobtop.core.shim.order",
    "jobtop.core.shim.cgroups",
    "jobtop.core.shim.facts",
    "jobtop.core.shim.logs",
    "jobtop.core.shim.output",
    "jobtop.core.shim.own_process",
    "jobtop.core.shim.report",
    "jobtop.core.shim.revival",
    "jobtop.core.shim.start",
    "jobtop.core.shim.stopping",
    "jobtop.core.shim.terminal",
    "jobtop.core.shim.totals",
    "jobtop.core.shim.supervise",
)
CORE = os.path.dirname(os.path.dirname(__file__))
BOOTSTRAP = """\
import marshal, os, sys
data = b""
while part := os.read(int(sys.argv[1]), int(sys.argv[3]) - len(data)): data += part
if len(data) == int(sys.argv[3]):
    modules = marshal.loads(data)
    del data
    while modules:
        name, code = modules.pop(0)
        module = sys.modules[name] = type(sys)(name)
        if code: exec(marshal.loads(code), module.__dict__)
    del code
    module.main(sys.argv[1:])
"""


class Terminal:
    """The two ends of a job's pseudo-terminal, and how the job uses it.

    A controlling terminal sends Ctrl-C and Ctrl-Z to the job, which has a session of its own and /dev/tty.
    """

    def __init__(self, master: int, slave: int) -> None:
        self.master, self.slave = master, slave
        self.replaced: tuple[int, ...] = (0, 1, 2)
        self.is_controlling = True

    def order(self) -> "TerminalOrder":
        """The form in which a shim receives it."""
        return {
            "master": self.master,
            "slave": self.slave,
            "replaced": list(self.replaced),
            "is_controlling": self.is_controlling,
        }


def open_terminal() -> Terminal | None:
    """Open a pseudo-terminal for a job; None if this machine has none left, or no /dev/pts."""
    try:
        return Terminal(*os.openpty())
    except OSError:
        return None


class AgentLaunch:
    """What a shim needs to start an agent: the path of the lock file of the agent, and the command.

    An empty command: the shim is inside of another job, and asks the outermost `run` to start the agent.
    """

    def __init__(self, lock_path: str, command: list[str]) -> None:
        self.lock_path, self.command = lock_path, command

    @property
    def message(self) -> "AgentStart":
        """The form in which a shim receives it."""
        return self.lock_path, self.command


class Supervisor:
    """A shim and the two pipes to it, for orders and for messages. `close` without an order makes the shim exit.

    `agent`: the agent that the shim starts if the agent that made it is killed.
    """

    def __init__(self, terminal: Terminal | None = None, agent: AgentLaunch | None = None) -> None:
        if not os.path.exists(os.devnull) or not (HAS_PROC or sys.platform != "linux"):
            raise FileNotFoundError(errno.ENOENT, "a part of the machine that every job needs is missing")
        self.terminal = terminal
        # Of our descriptors, those that get the output of the job too; None: both, or none of a detached job.
        self.copied: tuple[int, ...] | None = None
        self.job_id = new_id()
        order_read, self._order_write = os.pipe()
        enlarge(self._order_write)
        self.status_read, status_write = os.pipe()
        passed = [order_read, status_write, *((terminal.master, terminal.slave) if terminal else ())]
        for fd in passed:
            os.set_inheritable(fd, True)
        code = shim_code()
        # If `run` is killed before it can send the order, the shim removes the cgroups that `run` may have made.
        agent_start = None if agent is None else agent.message
        prelude: Prelude = (cgroup.own_procs(), cgroup.possible_directories(self.job_id), agent_start)
        prelude_bytes = marshal.dumps(prelude)
        numbers = (order_read, status_write, len(code), len(prelude_bytes))
        arguments = [sys.executable, "-I", "-S", "-c", BOOTSTRAP, *map(str, numbers)]
        self.pid = spawn(arguments)
        for fd in passed:
            os.set_inheritable(fd, False)
        os.close(order_read)
        os.close(status_write)
        if terminal:
            os.close(terminal.slave)
        self._received = b""
        self._order_bytes_sent = 0
        self._send(code + prelude_bytes)

    def begin(
        self,
        spec: "JobSpec",
        directory: str | None,
        with_cgroup: bool,
        with_stdin: bool,
        successor: AgentLaunch | None = None,
    ) -> "Facts | None":
        """Send the order and wait until the job runs; None if the shim was killed.

        If this process exits before the job ends, the shim starts the agent `successor`, which samples and records it.
        """
        self.order(spec, directory, with_cgroup, with_stdin, successor)
        return self.answer()

    def order(
        self,
        spec: "JobSpec",
        directory: str | None,
        with_cgroup: bool,
        with_stdin: bool,
        successor: AgentLaunch | None = None,
    ) -> None:
        """Make the cgroups of the job and send the order."""
        own = cgroup.make(spec.id, with_cpu=spec.hold_cpus is not None) if with_cgroup else cgroup.JobCgroup()
        enforced: EnforcedLimits = {"limits": [], "memory_limit": None, "affinity": None}
        if spec.hold_memory_bytes is not None or spec.hold_cpus is not None:
            from jobtop.core.run.limits import enforce

            own, enforced = enforce(spec, own, self._wait_until_ready if with_cgroup else None)
        self.cgroups, self.problems = own.directories, own.problems
        order = self._order(spec, directory, own, enforced, with_stdin, successor)
        message = marshal.dumps(order, MARSHAL_VERSION)  # type: ignore[arg-type]  # marshal knows no TypedDict
        self._send(message[self._order_bytes_sent :])
        self.close()
        if spec.detached or not spec.pty:
            self.close_terminal()

    def answer(self) -> "Facts | None":
        """Wait until the job runs or could not be started; None if the shim was killed."""
        started = self.receive()
        if started is None:
            cgroup.discard(self.cgroups)
        return started

    def close(self) -> None:
        """Close the pipe for orders, if it is open."""
        pipe, self._order_write = self._order_write, -1
        if pipe >= 0:
            os.close(pipe)

    def close_terminal(self) -> None:
        """Close our end of the terminal of the job, which the shim holds too."""
        if self.terminal is not None:
            os.close(self.terminal.master)
            self.terminal = None

    def receive(self) -> "Facts | None":
        """Wait for the next message of the shim; None if the shim has exited without one, which is then reaped."""
        from jobtop.core.run.facts import Facts

        while b"\0" not in self._received:
            part = os.read(self.status_read, 65536)
            if not part:
                self._reap()
                return None
            self._received += part
        message, _, self._received = self._received.partition(b"\0")
        return Facts(message.decode("utf-8", "surrogateescape"))

    def wait(self, seconds: float) -> None:
        """Wait at most this long for the shim to exit, and reap it; it runs as long as descendants of the job do."""
        deadline = time.monotonic() + seconds
        with suppress(ChildProcessError):
            while os.waitpid(self.pid, os.WNOHANG) == (0, 0) and time.monotonic() < deadline:
                time.sleep(0.002)

    def _reap(self) -> None:
        """Reap a shim that has closed its pipe; it exits a moment later."""
        try:
            os.waitpid(self.pid, 0)
        except ChildProcessError:
            return

    def _wait_until_ready(self) -> int:
        """Wait until the shim has begun to read its order; its pid. From then on it does not change its cgroup."""
        import fcntl
        import select
        import termios

        self._send(ORDER_START)
        self._order_bytes_sent = len(ORDER_START)
        closed = select.poll()
        closed.register(self._order_write, 0)
        deadline = time.monotonic() + SHIM_READY_SECONDS
        while any(fcntl.ioctl(self._order_write, termios.FIONREAD, bytes(4))) and time.monotonic() < deadline:
            if closed.poll(1):
                break
        return self.pid

    def _send(self, message: bytes) -> None:
        data = memoryview(message)
        try:
            while data:
                data = data[os.write(self._order_write, data) :]
        except BrokenPipeError:  # the shim has exited, which receive() reports
            return

    def _order(
        self,
        spec: "JobSpec",
        directory: str | None,
        own: cgroup.JobCgroup,
        enforced: "EnforcedLimits",
        with_stdin: bool,
        successor: AgentLaunch | None,
    ) -> "Order":
        evidence = [(label, path, "") for label, path in own.files]
        around = cgroup.ambient_oom_file()
        if around:
            evidence.append(("oom_around", around, "oom_kill "))
        return {
            "boot": boot_id(),
            "argv": [os.fsencode(word) for word in spec.command],
            "env": {os.fsencode(key): os.fsencode(value) for key, value in spec.env.items()},
            "cwd": os.fsencode(spec.cwd),
            "directory": directory,
            "is_detached": spec.detached,
            "copied": list(((1, 2), ())[spec.detached] if self.copied is None else self.copied),
            "stdin": "inherit" if with_stdin and not spec.detached else "null",
            "terminal": self.terminal.order() if self.terminal is not None and spec.pty else None,
            "log_max": spec.log_max_bytes,
            "grace": spec.grace_seconds,
            "timeout": spec.timeout_seconds,
            "after_exit": spec.after_exit,
            "nice": spec.nice,
            "ionice": io_priority(spec),
            "cgroup_procs": list(own.joins),
            "cgroup_directories": list(own.directories),
            "evidence": evidence,
            "oom_before": cgroup.oom_count(read_text(around)) if around else None,
            "successor": successor.message if successor is not None and spec.is_watched else None,
            **enforced,
        }


def io_priority(spec: "JobSpec") -> "tuple[int, ...] | None":
    """The system call that sets the I/O priority of the job; None if the job has none."""
    if spec.ionice is None:
        return None
    from jobtop.core.run.priority import io_call

    return io_call(spec.ionice)


def agent_command(root: str, sets: "Iterable[str]" = ()) -> list[str]:
    """The command that starts the agent of a store, with these settings; the last assignment to a key counts."""
    own = f"store.dir={root}"
    assignments = [*(one for one in sets if one != own), own]
    words = [word for assignment in assignments for word in ("--set", assignment)]
    return [sys.executable, "-m", "jobtop", *words, "agent", "run"]


def spawn(
    arguments: list[str], environment: "Mapping[str, str] | None" = None, file_actions: "Sequence[Any]" = ()
) -> int:
    """Start a program in a new session, so that Ctrl-C does not reach it; its pid.

    On systems where posix_spawn cannot make the session, the program has to.
    """
    environment = os.environ if environment is None else environment
    try:
        return os.posix_spawn(arguments[0], arguments, environment, file_actions=file_actions, setsid=True)
    except NotImplementedError:
        return os.posix_spawn(arguments[0], arguments, environment, file_actions=file_actions)


def new_id() -> JobId:
    """A version 4 UUID; importing the uuid module would take 3 ms."""
    bits = int.from_bytes(os.urandom(16), "big")
    bits = bits & ~(0xF << 76) & ~(0x3 << 62) | 4 << 76 | 2 << 62
    digits = f"{bits:032x}"
    return JobId("-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])))


def enlarge(pipe: int) -> None:
    """Make a pipe large enough for the code of a shim, so that writing the code does not wait for the shim."""
    import fcntl

    try:
        fcntl.fcntl(pipe, 1031, 256 * 1024)  # F_SETPIPE_SZ
    except OSError:  # not Linux, or this user's allowance for pipes is used up
        return


def shim_code() -> bytes:
    """The compiled modules of the shim, after the empty packages that contain them."""
    if not CODE:
        packages = dict.fromkeys(("jobtop", "jobtop.core", *(name.rpartition(".")[0] for name in SHIM)))
        CODE.append(marshal.dumps([*((name, b"") for name in packages), *((name, compiled(name)) for name in SHIM)]))
    return CODE[0]


def compiled(name: str) -> bytes:
    """The compiled code of a module, from its .pyc file if that file is up to date.

    The import system would decode the code, and we would encode it again: that takes 2 ms for all modules of a shim.
    """
    path = os.path.join(CORE, *name.removeprefix("jobtop.core.").split(".")) + ".py"
    source = os.stat(path)
    try:
        with open(cache_from_source(path), "rb", buffering=0) as file:
            cached = file.read()
    except (OSError, NotImplementedError):  # NotImplementedError: this Python has no .pyc files
        cached = b""
    # PEP 552: 0 for a file that is valid as long as the time and the size of the source stay the same.
    numbers = (0, int(source.st_mtime), source.st_size)
    header = MAGIC_NUMBER + b"".join((number & 0xFFFFFFFF).to_bytes(4, "little") for number in numbers)
    if cached.startswith(header):
        return cached[len(header) :]
    loader: Any = type(__spec__.loader)
    return marshal.dumps(loader(name, path).get_code(name))


def job_environment(extra: dict[str, str], job_id: JobId) -> dict[str, str]:
    """The environment that jobtop was started with, the additions of the caller, and the id of the job."""
    env = dict(os.environ)
    # PEP 538: in the C locale Python sets LC_CTYPE for itself; the job must not inherit that.
    if HAS_PROC:
        given = read_text("/proc/self/environ")
        env.pop("LC_CTYPE", None)
        locales = [entry for entry in given.split("\0") if entry.startswith("LC_CTYPE=")]
        env |= dict(entry.split("=", 1) for entry in locales)
    return env | extra | {"JOBTOP_JOB_ID": str(job_id)}
