"""Two threads of a runner: one reads the counters of the container when its first process exits, one passes signals."""

from __future__ import annotations

import os
import select
import threading
import time
from contextlib import suppress
from glob import glob

from jobtop.core.clock import BOOTTIME
from jobtop.core.errors import EngineError
from jobtop.core.measure.collectors import oom_notice
from jobtop.core.measure.collectors.job_cgroup import parse_memory
from jobtop.core.measure.collectors.proc import is_alive
from jobtop.core.procfs import name_of, pid_clock, read_text, signals, stat_fields, status_value
from jobtop.lifecycle.containers.cgroups import read_evidence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jobtop.core.measure.collectors.docker.client import Engine
    from jobtop.core.measure.collectors.oom_notice import OomNotice
    from jobtop.core.model import Identity

FIRST_LOOK_SECONDS, LAST_LOOK_SECONDS = 0.02, 2.0  # between two looks at its memory
LOOK_SHARE = 0.05  # of its age
MARGIN_SECONDS = 2.0  # the container has to be gone before the shim kills the runner
KILL_AGAIN_SECONDS = 1.0
ENDING = tuple(getattr(signals, f"SIG{name}") for name in ("INT", "TERM", "HUP", "QUIT", "USR1", "USR2"))
MASKS = ("SigBlk:", "SigIgn:", "SigCgt:")
PIPE_SECONDS = 1.0  # for a container to end after its reader has gone


class ExitWatch(threading.Thread):
    """Waits for the first process of a container, and reads its cgroups before the engine removes them."""

    def __init__(self, init: Identity, cgroups: tuple[str, ...], notice: OomNotice | None = None) -> None:
        super().__init__(name="jobtop-exit", daemon=True)
        self.init, self.cgroups = init, cgroups
        self.texts: dict[str, str] = {}
        self.runtime_pid = _parent_of(init.pid)
        self.runtime_name = name_of(self.runtime_pid) if self.runtime_pid else None
        self.runtime_seconds = 0.0
        self.runtime_bytes = 0
        self.peak_bytes = 0
        self.exited_boottime: float | None = None
        self._notice = notice or oom_notice.listen(cgroups)
        self._oom_text = ""  # the last reading of its OOM kills
        self._began = time.monotonic()

    def run(self) -> None:
        try:
            fd = os.pidfd_open(self.init.pid)
        except OSError:
            return
        try:
            poll = select.poll()
            poll.register(fd, select.POLLIN)
            if self._notice is not None:
                poll.register(self._notice.fd, select.POLLIN)
            while is_alive(self.init) and fd not in dict(poll.poll(self._pause_seconds() * 1000)):
                self._look_at_memory()
                self._look_at_oom()
                self._look_at_runtime()
            self.exited_boottime = time.clock_gettime(BOOTTIME)
            self.texts = read_evidence(self.cgroups)
            if self._oom_text:
                self.texts.setdefault(oom_notice.CONTROL, self._oom_text)
            self._look_at_runtime()
        finally:
            os.close(fd)

    def ran_out_of_memory(self) -> bool:
        """Whether its cgroup of version 1 ran out of memory, as the kernel tells; call it once, after the end."""
        if self._notice is None:
            return False
        try:
            return self._notice.has_happened()
        finally:
            self._notice.close()
            self._notice = None

    def _look_at_oom(self) -> None:
        """Read the OOM kills while the cgroup exists; right after the notice the kill may not be counted yet."""
        if self._notice is None:
            return
        told = self._notice.told
        self._notice.take()
        if self._notice.told > told:
            self._began = time.monotonic()
        self._oom_text = read_text(f"{self._notice.directory}/{oom_notice.CONTROL}") or self._oom_text

    def _pause_seconds(self) -> float:
        """A short container is looked at often: its memory may be gone before it is sampled for the first time."""
        age = time.monotonic() - self._began
        return max(FIRST_LOOK_SECONDS, min(LOOK_SHARE * age, LAST_LOOK_SECONDS))

    def _look_at_memory(self) -> None:
        texts = (read_text(f"{directory}/memory.stat") for directory in self.cgroups)
        used = max((parse_memory(text.encode()).get("mem.used", 0) for text in texts if text), default=0)
        self.peak_bytes = max(self.peak_bytes, int(used))

    def _look_at_runtime(self) -> None:
        if not self.runtime_pid or name_of(self.runtime_pid) != self.runtime_name:
            return
        with suppress(OSError):
            seconds = time.clock_gettime(pid_clock(self.runtime_pid))
            self.runtime_seconds = max(self.runtime_seconds, seconds)
        self.runtime_bytes = max(self.runtime_bytes, status_value(self.runtime_pid, "VmHWM:") * 1024)


def _parent_of(pid: int) -> int:
    parent = (*stat_fields(pid), "", "")[1]
    return int(parent) if parent.isdigit() and parent != "1" else 0


class Signals(threading.Thread):
    """Passes signals to the container; TERM stops it: KILL comes before the grace of the shim is over.

    The kernel drops a signal to the first process of a container if that process has no handler for it. Outside of a
    container the signal would end the process, so KILL does it in its place.
    """

    def __init__(self, engine: Engine, container_id: str, grace_seconds: float) -> None:
        super().__init__(name="jobtop-signals", daemon=True)
        self.engine, self.container_id = engine, container_id
        self.patience_seconds = max(0.0, grace_seconds - min(MARGIN_SECONDS, grace_seconds / 3))
        self.init: Identity | None = None  # the first process of the container
        self.sent: list[int] = []
        self.dropped: int | None = None  # the signal that KILL took the place of
        self.had_to_kill = False
        self._kill_at: float | None = None
        self._read, self.wakeup = os.pipe()
        os.set_blocking(self.wakeup, False)

    def take(self, number: int) -> None:
        """Pass on a signal that this process did not get itself."""
        os.write(self.wakeup, bytes((number,)))

    def run(self) -> None:
        """Read the numbers of signals from a pipe: their handlers may have to wait until the main thread wakes up."""
        poll = select.poll()
        poll.register(self._read, select.POLLIN)
        while True:
            left = None if self._kill_at is None else max(0.0, self._kill_at - time.monotonic())
            if poll.poll(None if left is None else left * 1000 + 1):
                for number in os.read(self._read, 256):
                    self._pass(number)
            elif self._kill_at is not None and time.monotonic() >= self._kill_at:
                self._kill_at = time.monotonic() + KILL_AGAIN_SECONDS
                self.had_to_kill = True
                self._send(signals.SIGKILL)

    def _pass(self, number: int) -> None:
        if number == signals.SIGWINCH:
            with suppress(OSError, EngineError):
                columns, lines = os.get_terminal_size(1)
                self.engine.resize(self.container_id, lines, columns)
            return
        if number in (signals.SIGTERM, signals.SIGPIPE) and self._kill_at is None:
            with suppress(EngineError):  # it is not paused
                self.engine.unpause(self.container_id)
            patience = self.patience_seconds if number == signals.SIGTERM else PIPE_SECONDS
            self._kill_at = time.monotonic() + patience
        self._send(number)
        if number in ENDING and self.init is not None and is_alive(self.init) and is_dropped(self.init.pid, number):
            self.dropped = number
            self._send(signals.SIGKILL)

    def _send(self, number: int) -> None:
        self.sent.append(number)  # before: Podman answers only after the container has ended
        try:
            self.engine.kill(self.container_id, number)
        except EngineError:  # it has ended
            self.sent.remove(number)


def is_dropped(pid: int, number: int) -> bool:
    """Whether the kernel drops this signal to the first process of a container; False if that cannot be read.

    It keeps a signal that is blocked, and one that is ignored is ignored everywhere (kernel/signal.c, sig_ignored).
    """
    masks = [line for line in read_text(f"/proc/{pid}/status").splitlines() if line.startswith(MASKS)]
    return len(masks) == len(MASKS) and not any(int(line.split()[1], 16) >> (number - 1) & 1 for line in masks)


def drops_key(pid: int, number: int) -> bool:
    """Whether a key such as Ctrl-C, typed at the terminal of a container, has no effect on its first process.

    False if it has children, which get the signal too, or if its terminal does not make signals from keys.
    """
    import termios

    texts = (read_text(path) for path in glob(f"/proc/{pid}/task/*/children"))
    if not is_dropped(pid, number) or any(text.strip() for text in texts):
        return False
    try:
        fd = os.open(f"/proc/{pid}/fd/0", os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        flags: int = termios.tcgetattr(fd)[3]
    except termios.error:
        return False
    finally:
        os.close(fd)
    return bool(flags & termios.ISIG)
