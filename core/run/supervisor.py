"""Starts a job under its shim and listens to what the shim tells.

A `run` makes the shim before anything else, so that it is up when the job is known: this file imports little.
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

ORDER_VERSION, ORDER_START = 2, b"{"  # of marshal: the last without references, where a dict begins in one way
PATIENCE_SECONDS = 5.0
CODE: list[bytes] = []  # of the shim, once it is needed
# What a shim is made of, in order.
SHIM = (
    "jobtop.core.procfs",
    "jobtop.core.shim.output",
    "jobtop.core.shim.revival",
    "jobtop.core.shim.start",
    "jobtop.core.shim.totals",
    "jobtop.core.shim.supervise",
)
CORE = os.path.dirname(os.path.dirname(__file__))
BOOTSTRAP = """\
import marshal, os, sys
data = b""
while part := os.read(int(sys.argv[1]), int(sys.argv[3]) - len(data)): data += part
if len(data) == int(sys.argv[3]):
    for name, code in marshal.loads(data):
        module = sys.modules[name] = type(sys)(name)
        exec(code, module.__dict__)
    module.main(sys.argv[1:])
"""


class Terminal:
    """The two ends of a job's pseudo-terminal."""

    def __init__(self, master: int, slave: int) -> None:
        self.master, self.slave = master, slave


class Keeper:
    """How a shim sees to it that there is an agent: the file an agent locks, and the command that starts one.

    Without a command the outermost `run` is asked for one.
    """

    def __init__(self, seat: str, command: list[str]) -> None:
        self.seat, self.command = seat, command

    @property
    def words(self) -> tuple[str, list[str]]:
        return self.seat, self.command


class Supervisor:
    """A shim that was executed and waits to be told its job; closed without a word it goes away."""

    def __init__(self, terminal: Terminal | None = None, keeper: Keeper | None = None) -> None:
        if not os.path.exists(os.devnull) or not (HAS_PROC or sys.platform != "linux"):
            raise FileNotFoundError(errno.ENOENT, "a part of the machine that every job needs is missing")
        self.terminal = terminal
        self.job_id = new_id()
        spec_read, self._spec_write = os.pipe()
        with_room(self._spec_write)
        self.status_read, status_write = os.pipe()
        passed = [spec_read, status_write, *((terminal.master, terminal.slave) if terminal else ())]
        for fd in passed:
            os.set_inheritable(fd, True)
        code = shim_code()
        # A cgroup made by a `run` that is killed before it can say more is the shim's to remove.
        kept = None if keeper is None else keeper.words
        prelude = marshal.dumps((cgroup.own_procs(), cgroup.possible_directories(self.job_id), kept))
        numbers = (spec_read, status_write, len(code), len(prelude))
        arguments = [sys.executable, "-I", "-S", "-c", BOOTSTRAP, *map(str, numbers)]
        self.pid = spawn(arguments)
        for fd in passed:
            os.set_inheritable(fd, False)
        os.close(spec_read)
        os.close(status_write)
        if terminal:
            os.close(terminal.slave)
        self._heard = b""
        self._begun = 0  # bytes of the order that are said
        self._say(code + prelude)

    def begin(
        self,
        spec: "JobSpec",
        directory: str | None,
        with_cgroup: bool,
        with_stdin: bool,
        successor: Keeper | None = None,
    ) -> "Facts | None":
        """Say what to run and wait until it does; None if the shim is gone.

        If we are killed before the job ends, the shim starts our successor.
        """
        self.order(spec, directory, with_cgroup, with_stdin, successor)
        return self.answer()

    def order(
        self,
        spec: "JobSpec",
        directory: str | None,
        with_cgroup: bool,
        with_stdin: bool,
        successor: Keeper | None = None,
    ) -> None:
        """Say what to run."""
        own = cgroup.make(spec.id, with_cpu=spec.hold_cpus is not None) if with_cgroup else cgroup.JobCgroup()
        held: dict[str, object] = {}
        if spec.hold_memory_bytes is not None or spec.hold_cpus is not None:
            from jobtop.core.run.limits import enforce

            own, held = enforce(spec, own, self._come_up if with_cgroup else None)
        order = self._order(spec, directory, own) | held
        if spec.ionice is not None:
            from jobtop.core.run.priority import io_call

            order["ionice"] = io_call(spec.ionice)
        order["keeper"] = successor.words if successor is not None and spec.is_watched else None
        order["stdin"] = "inherit" if with_stdin and not spec.detached else "null"
        self.cgroups, self.problems = own.directories, own.problems
        self._say(marshal.dumps(order, ORDER_VERSION)[self._begun :])
        self.close()

    def answer(self) -> "Facts | None":
        """Wait until what was ordered runs; None if the shim is gone."""
        heard = self.hear()
        if heard is None:
            cgroup.discard(self.cgroups)
        return heard

    def close(self) -> None:
        """Nothing more to say."""
        os.close(self._spec_write)

    def hear(self) -> "Facts | None":
        """The next thing the shim tells; None when it has nothing more to tell."""
        from jobtop.core.run.facts import Facts

        while b"\0" not in self._heard:
            part = os.read(self.status_read, 65536)
            if not part:
                self._bury()
                return None
            self._heard += part
        message, _, self._heard = self._heard.partition(b"\0")
        return Facts(message.decode("utf-8", "surrogateescape"))

    def wait(self, seconds: float) -> None:
        """Until the shim is gone, but not for ever: with descendants left it stays."""
        deadline = time.monotonic() + seconds
        with suppress(ChildProcessError):
            while os.waitpid(self.pid, os.WNOHANG) == (0, 0) and time.monotonic() < deadline:
                time.sleep(0.002)

    def _bury(self) -> None:
        """Wait until a shim that says no more is really gone; it closes its pipes a moment earlier."""
        try:
            os.waitpid(self.pid, 0)
        except ChildProcessError:
            return

    def _come_up(self) -> int:
        """The number of the shim, once it reads its order and so moves itself between cgroups no more."""
        import fcntl
        import select
        import termios

        self._say(ORDER_START)
        self._begun = len(ORDER_START)
        gone = select.poll()
        gone.register(self._spec_write, 0)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while any(fcntl.ioctl(self._spec_write, termios.FIONREAD, bytes(4))) and time.monotonic() < deadline:
            if gone.poll(1):
                break
        return self.pid

    def _say(self, words: bytes) -> None:
        data = memoryview(words)
        try:
            while data:
                data = data[os.write(self._spec_write, data) :]
        except BrokenPipeError:  # the shim is gone, and hear() will tell
            return

    def _order(self, spec: "JobSpec", directory: str | None, own: cgroup.JobCgroup) -> dict[str, object]:
        evidence = [(label, path, "") for label, path in own.files]
        around = cgroup.ambient_oom_file()
        if around:
            evidence.append(("oom_around", around, "oom_kill "))
        return {
            "boot": boot_id(),
            "argv": [os.fsencode(word) for word in spec.command],
            "env": {os.fsencode(key): os.fsencode(value) for key, value in spec.env.items()},
            "cwd": os.fsencode(spec.cwd),
            "dir": directory,
            "output": "log" if spec.detached else "pty" if self.terminal else "pump",
            "master": self.terminal.master if self.terminal else -1,
            "slave": self.terminal.slave if self.terminal else -1,
            "log_max": spec.log_max_bytes,
            "grace": spec.grace_seconds,
            "timeout": spec.timeout_seconds,
            "after_exit": spec.after_exit,
            "cgroup_join": list(own.joins),
            "cgroup_dirs": list(own.directories),
            "evidence": evidence,
            "oom_before": cgroup.oom_count(read_text(around)) if around else None,
            "limits": [],
            "memory_limit": None,
            "affinity": None,
            "nice": spec.nice,
            "ionice": None,
        }


def agent_command(root: str, sets: "Iterable[str]" = ()) -> list[str]:
    """The words that make a process the agent of a store, with these settings; the last word for a key holds."""
    own = f"store.dir={root}"
    assignments = [*(one for one in sets if one != own), own]
    words = [word for assignment in assignments for word in ("--set", assignment)]
    return [sys.executable, "-m", "jobtop", *words, "agent", "run"]


def spawn(
    arguments: list[str], environment: "Mapping[str, str] | None" = None, file_actions: "Sequence[Any]" = ()
) -> int:
    """Execute in a session of its own from the first moment on, if the system can: no Ctrl-C is meant for it."""
    environment = os.environ if environment is None else environment
    try:
        return os.posix_spawn(arguments[0], arguments, environment, file_actions=file_actions, setsid=True)
    except NotImplementedError:
        return os.posix_spawn(arguments[0], arguments, environment, file_actions=file_actions)


def new_id() -> JobId:
    """A version 4 UUID (the uuid module would cost 3 ms)."""
    bits = int.from_bytes(os.urandom(16), "big")
    bits = bits & ~(0xF << 76) & ~(0x3 << 62) | 4 << 76 | 2 << 62
    digits = f"{bits:032x}"
    return JobId("-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])))


def with_room(pipe: int) -> None:
    """Make a pipe hold all of a shim's code, so that nobody waits for the shim to read it."""
    import fcntl

    try:
        fcntl.fcntl(pipe, 1031, 256 * 1024)  # F_SETPIPE_SZ
    except OSError:  # not Linux, or this user's allowance for pipes is used up
        return


def shim_code() -> bytes:
    """The shim, compiled: its modules and the empty packages they say they are in. We have no use for it ourselves."""
    if CODE:
        return CODE[0]
    packages = dict.fromkeys(("jobtop", "jobtop.core", *(name.rpartition(".")[0] for name in SHIM)))
    code = [(name, compile("", name, "exec")) for name in packages]
    loader: Any = type(__spec__.loader)
    for name in SHIM:
        path = os.path.join(CORE, *name.removeprefix("jobtop.core.").split(".")) + ".py"
        code.append((name, loader(name, path).get_code(name)))
    CODE.append(marshal.dumps(code))
    return CODE[0]


def job_environment(extra: dict[str, str], job_id: JobId) -> dict[str, str]:
    """Our environment as we were given it, the caller's additions, and the id of the job."""
    env = dict(os.environ)
    # PEP 538: in the C locale Python sets LC_CTYPE for itself; the job must not inherit that.
    if HAS_PROC:
        given = read_text("/proc/self/environ")
        env.pop("LC_CTYPE", None)
        given_types = [entry for entry in given.split("\0") if entry.startswith("LC_CTYPE=")]
        env |= dict(entry.split("=", 1) for entry in given_types)
    return env | extra | {"JOBTOP_JOB_ID": str(job_id)}
