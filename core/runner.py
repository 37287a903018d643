"""Starts a job under its shim and listens to what the shim tells."""

import marshal
import os
import sys
from dataclasses import dataclass

from jobtop.core import shim
from jobtop.core.clock import boot_id
from jobtop.core.collectors import cgroup
from jobtop.core.collectors.proc import identify
from jobtop.core.evidence import Facts
from jobtop.core.model import Identity, JobSpec
from jobtop.core.procfs import read_text


@dataclass(slots=True)
class Terminal:
    """The two ends of a job's pseudo-terminal."""

    master: int
    slave: int


class Supervisor:
    """A shim that was executed and waits to be told its job; closed without a word it goes away."""

    def __init__(self, job_id: str, with_cgroup: bool = True, terminal: Terminal | None = None) -> None:
        self.terminal = terminal
        self.cgroup = cgroup.make(job_id) if with_cgroup else cgroup.JobCgroup()
        spec_read, self._spec_write = os.pipe()
        self.status_read, status_write = os.pipe()
        passed = [spec_read, status_write, *((terminal.master, terminal.slave) if terminal else ())]
        for fd in passed:
            os.set_inheritable(fd, True)
        code = shim_code()
        numbers = (spec_read, status_write, len(code))
        arguments = [sys.executable, "-I", "-S", "-c", shim.BOOTSTRAP, *map(str, numbers)]
        if self.cgroup.own_procs is not None:
            arguments.append(self.cgroup.own_procs)
        self.pid = os.posix_spawn(sys.executable, arguments, os.environ)
        self._order_head = code
        for fd in passed:
            os.set_inheritable(fd, False)
        os.close(spec_read)
        os.close(status_write)
        if terminal:
            os.close(terminal.slave)
        self._heard = b""

    @property
    def identity(self) -> Identity:
        return identify(self.pid)

    def begin(self, spec: JobSpec, directory: str | None, stdin: bool = True) -> Facts | None:
        """Say what to run and wait until it does; None if the shim is gone."""
        order = self._order(spec, directory)
        order["stdin"] = "inherit" if stdin and not spec.detached else "null"
        data = memoryview(self._order_head + marshal.dumps(order))
        try:
            while data:
                data = data[os.write(self._spec_write, data) :]
        except BrokenPipeError:
            return None
        finally:
            os.close(self._spec_write)
        return self.hear()

    def hear(self) -> Facts | None:
        """The next thing the shim tells; None when it has nothing more to tell."""
        while b"\0" not in self._heard:
            part = os.read(self.status_read, 65536)
            if not part:
                return None
            self._heard += part
        message, _, self._heard = self._heard.partition(b"\0")
        return Facts(message.decode("utf-8", "surrogateescape"))

    def _order(self, spec: JobSpec, directory: str | None) -> dict[str, object]:
        own = self.cgroup
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
        }


def shim_code() -> bytes:
    """The shim, compiled: its modules and the empty packages they say they are in."""
    code = [(name, compile("", name, "exec")) for name in ("jobtop", "jobtop.core")]
    for name in shim.MODULES:
        module = sys.modules[name]
        code.append((name, module.__loader__.get_code(name)))  # type: ignore[union-attr]
    return marshal.dumps(code)


def job_environment(extra: dict[str, str], job_id: str) -> dict[str, str]:
    """Our environment as we were given it, the caller's additions, and the id of the job."""
    env = dict(os.environ)
    # PEP 538: in the C locale Python sets LC_CTYPE for itself; the job must not inherit that.
    original = read_text("/proc/self/environ")
    if "LC_CTYPE" in env and original and "LC_CTYPE=" not in "\0" + original:
        del env["LC_CTYPE"]
    return env | extra | {"JOBTOP_JOB_ID": job_id}
