"""Jobs under a shim that the test itself starts: the shim's own file, in a forked child, where coverage can see it."""

import gc
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from jobtop.core.model import JobSpec
from jobtop.core.run import supervisor
from jobtop.core.run.facts import Facts
from jobtop.core.run.supervisor import Supervisor, Terminal
from jobtop.core.shim import own_process, supervise, system_calls

DEADLINE = 30.0


def fork_shim(arguments: list[str]) -> int:
    """Instead of supervisor.spawn: become what an executed shim is, as far as a fork can."""
    pid = os.fork()
    if pid:
        return pid
    gc.disable()  # garbage of the tests would close descriptors by numbers that are ours now
    code = 1
    try:
        os.setsid()
        os.environ.pop("COVERAGE_PROCESS_CONFIG", None)
        for fd in own_process.open_fds() - {0, 1, 2}:
            if not os.get_inheritable(fd):
                os.close(fd)
        for number in signal.valid_signals():
            if callable(signal.getsignal(number)):
                signal.signal(number, signal.SIG_DFL)
        save_coverage_before_exec()
        system_calls.read_exactly(int(arguments[-4]), int(arguments[-2]))
        supervise.main(arguments[-4:])
        code = 0
    except BaseException:  # noqa: BLE001 - a forked test must never go on as if it were pytest
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)


def save_coverage_before_exec() -> None:
    """What the job's process ran of the shim counts too."""
    execve = os.execve

    def saving(*arguments: Any) -> None:
        if "coverage" in sys.modules and (current := sys.modules["coverage"].Coverage.current()) is not None:
            current.save()
        execve(*arguments)

    os.execve = saving  # type: ignore[assignment]


class Supervised:
    """One job from its order to its end."""

    def __init__(self, spec: JobSpec, directory: Path | None, terminal: Terminal | None, with_cgroup: bool) -> None:
        self.spec, self.directory = spec, directory
        self.supervisor = Supervisor(terminal)
        self.is_over = False
        self.begun = self.supervisor.begin(
            spec, None if directory is None else str(directory), with_cgroup=with_cgroup, with_stdin=False
        )

    def signal(self, number: int) -> None:
        os.kill(self.supervisor.pid, number)

    def hear(self) -> Facts:
        told = self.supervisor.receive()
        assert told is not None
        return told

    def end(self) -> Facts:
        """The last the shim tells, once it is gone; by its file if it told before."""
        told = self.supervisor.receive()
        self.reap()
        if self.directory is not None and (self.directory / "ended").is_file():
            kept = Facts((self.directory / "ended").read_text(errors="surrogateescape"))
            assert told is None or dict(kept) == dict(told) or kept["final"] == "1"
            return kept
        assert told is not None
        return told

    def reap(self) -> None:
        """Wait for the shim, unless that was done when it had nothing more to tell."""
        deadline = time.monotonic() + DEADLINE
        with suppress(ChildProcessError):
            while os.waitpid(self.supervisor.pid, os.WNOHANG)[0] == 0:
                assert time.monotonic() < deadline, "the shim does not end"
                time.sleep(0.005)
        self.is_over = True
        os.close(self.supervisor.status_read)


Begin = Callable[..., Supervised]


@pytest.fixture
def begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Begin]:
    """Start a job in `tmp_path/job`: `begin("sh", "-c", "exit 7").end()["status"]`; options are those of JobSpec."""
    started: list[Supervised] = []
    monkeypatch.setattr(supervisor, "spawn", fork_shim)

    def start(
        *command: str,
        terminal: Terminal | None = None,
        with_cgroup: bool = False,
        directory: Path | None = tmp_path / "job",
        **options: Any,
    ) -> Supervised:
        if directory is not None and not directory.exists():
            directory.mkdir()
        defaults: dict[str, Any] = {"cwd": str(tmp_path), "env": dict(os.environ), "grace_seconds": 5.0}
        defaults |= {"pty": terminal is not None}
        spec = JobSpec(supervisor.new_id(), command, **defaults | options)
        started.append(Supervised(spec, directory, terminal, with_cgroup))
        return started[-1]

    yield start
    for job in started:
        if not job.is_over:
            with suppress(ProcessLookupError):
                job.signal(signal.SIGTERM)
            job.reap()
