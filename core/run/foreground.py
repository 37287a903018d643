"""`run` in the foreground: passes signals and terminal input to the job until the shim reports its end."""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Callable
from contextlib import suppress

from jobtop.core.procfs import FORWARDED, SAME_REQUEST_SECONDS, freeze_descendants, signal_descendants
from jobtop.core.procfs import signals as signal
from jobtop.core.run.facts import Facts
from jobtop.core.run.outcome import CTRL_C, signal_name
from jobtop.core.run.supervisor import Supervisor, Terminal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

SAME_KEY_SECONDS = 0.1
LASTING_MS = 30  # a job that runs longer is sampled; `on_lasting` starts that
OUTLAST_MS = 100  # between two looks at a job without a shim
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class Foreground:
    """Passes signals on to one job and waits for its end; calls `on_stop` at each request to end the job."""

    idle_ms: int | None = None  # the longest wait without a look at signals; None: signals wake us

    def __init__(
        self,
        supervisor: Supervisor,
        grace_seconds: float,
        on_stop: Callable[[str], None],
        on_pause: Callable[[bool], None],
        pause: Callable[[bool], None] | None = None,
    ) -> None:
        self.supervisor, self.grace_seconds = supervisor, grace_seconds
        self.pause = pause  # pauses or continues the job; None: by signals to its processes
        self.on_stop, self.on_pause = on_stop, on_pause
        self.requests: list[tuple[int, float]] = []  # signals to stop, and when they came
        self.stopping = False
        self.pending_input = b""  # input that the terminal of the job has not taken yet
        self.reads_input = False

    def __enter__(self) -> Self:
        self.wakeup_read, self.wakeup_write = os.pipe()
        os.set_blocking(self.wakeup_write, False)
        self.wakeup_before = signal.set_wakeup_fd(self.wakeup_write, warn_on_full_buffer=False)
        self.handlers = self._catch()
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self.handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self.wakeup_before)
        os.close(self.wakeup_read)
        os.close(self.wakeup_write)

    def wait(self, on_lasting: Callable[[], bool]) -> Facts | None:
        """Wait for the facts of the end of the job; None if the shim was killed.

        `on_lasting` is called if the job still runs after `LASTING_MS`, and again while it returns True.
        """
        self.on_lasting: Callable[[], bool] | None = on_lasting
        with RawTerminal(self.supervisor.terminal) as self.raw:
            self.reads_input = self.raw.passes_input
            try:
                return self._receive()
            finally:
                self.supervisor.close_terminal()

    def outlast(self, is_over: Callable[[], bool], send: Callable[[int], None]) -> None:
        """Wait for a job that goes on without its shim, and pass signals to `send`; a second request to stop kills."""
        poll = select.poll()
        poll.register(self.wakeup_read, select.POLLIN)
        while not is_over():
            for _ in poll.poll(OUTLAST_MS):
                for number in os.read(self.wakeup_read, 4096):
                    if number in STOPPING:
                        moment, again = time.time(), bool(self.requests)
                        self.requests.append((number, moment))
                        self.on_stop(signal_name(number))
                        send(signal.SIGKILL if again else number)
                    elif number != signal.SIGWINCH:
                        send(number)

    def stop_signal(self, ended_at: float) -> int | None:
        """The signal that asked us to stop, if the job ended because of it."""
        for number, moment in self.requests:
            if self.stopping or ended_at - moment <= self.grace_seconds:
                return number
        return None

    def _catch(self) -> dict[int, Any]:
        """Catch the signals that are passed on; those that were ignored at our start stay ignored (nohup, &)."""
        handlers = {}
        for number in (signal.SIGTERM, signal.SIGTSTP, *FORWARDED):
            handler = signal.getsignal(number)
            if handler != signal.SIG_IGN:
                handlers[number] = handler
                signal.signal(number, self._note)
        return handlers

    def _note(self, *_: object) -> None:
        """Handle a signal: nothing to do, since its number is written to the wakeup descriptor."""

    def _receive(self) -> Facts | None:
        terminal, status, wakeup = self.supervisor.terminal, self.supervisor.status_read, self.wakeup_read
        while True:
            poll = select.poll()
            poll.register(wakeup, select.POLLIN)
            poll.register(status, select.POLLIN)
            if terminal and self.pending_input:
                poll.register(terminal.master, select.POLLOUT)
            elif terminal and self.reads_input:
                poll.register(0, select.POLLIN)
            ready = poll.poll(self.idle_ms if self.on_lasting is None else LASTING_MS)
            if not ready and self.on_lasting is not None:
                on_lasting, self.on_lasting = self.on_lasting, None
                if on_lasting():
                    self.on_lasting = on_lasting
            for fd, _ in ready:
                if fd == status:
                    return self.supervisor.receive()
                if fd == wakeup:
                    for number in os.read(wakeup, 4096):
                        self._handle(number)
                elif terminal and fd == terminal.master:
                    self._write_input(terminal)
                elif terminal:
                    self._read_input(terminal)

    def _handle(self, number: int) -> None:
        if number == signal.SIGTSTP:
            self._suspend()
        elif number == signal.SIGWINCH and (terminal := self.supervisor.terminal):
            copy_size(terminal)
            if not terminal.is_controlling:
                self._send_to_shim(number)
        elif number == signal.SIGCONT and self.supervisor.terminal:
            self._take_terminal()
            self._send_to_shim(number)
        elif number in STOPPING:
            self._stop(number)
        else:
            self._send_to_shim(number)

    def _stop(self, number: int) -> None:
        """Pass on the first request; a second one within the grace period stops the job with TERM, a third kills it."""
        moment = time.time()
        window = SAME_REQUEST_SECONDS if number == signal.SIGTERM else SAME_KEY_SECONDS
        if any(which == number and moment - at < window for which, at in self.requests):
            return
        again = any(moment - at <= self.grace_seconds for _, at in self.requests)
        self.requests.append((number, moment))
        if again and not self.stopping:
            self._say("stopping the job; another signal kills it")
        self.stopping |= again or number == signal.SIGTERM
        self._send_to_shim(signal.SIGTERM if self.stopping else number)
        self.on_stop(signal_name(number))

    def _send_to_shim(self, number: int) -> None:
        """Send a signal to the shim, which passes it on to the job; TERM makes it stop the job."""
        try:
            os.kill(self.supervisor.pid, number)
        except ProcessLookupError:
            return

    def _suspend(self) -> None:
        """Ctrl-Z: stop the job and then ourselves; continue the job when we are continued."""
        if self.pause is not None:
            self.pause(True)
        else:
            freeze_descendants(self.supervisor.pid)
        self.on_pause(True)
        self.raw.leave()
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, self._note)
        self._take_terminal()
        if self.pause is not None:
            self.pause(False)
        else:
            signal_descendants(self.supervisor.pid, signal.SIGCONT)
        self.on_pause(False)

    def _take_terminal(self) -> None:
        """Read keys again after a stop, if we are in the foreground now: `fg`, not `bg`."""
        self.raw.enter()
        if os.isatty(0):
            self.reads_input = self.raw.is_on

    def _say(self, text: str) -> None:
        end = "\r\n" if self.raw.is_on else "\n"
        print(f"jobtop: {text}", file=sys.stderr, flush=True, end=end)

    def _read_input(self, terminal: Terminal) -> None:
        try:
            data = os.read(0, 65536)
        except OSError:
            data = b""
        if data and terminal.is_controlling:
            self.pending_input = data
            if b"\x03" in data and makes_signals(terminal):
                self.on_stop(CTRL_C)
        elif data:
            self._take_keys(terminal, data)
        else:
            self.reads_input = False
            self.pending_input = b"\x04\x04"  # the first ends an unfinished line, the second ends the file
        self._write_input(terminal)

    def _take_keys(self, terminal: Terminal, data: bytes) -> None:
        """Pass keys to the job, except those that its terminal turns into signals: these act on us."""
        from jobtop.core.shim.terminal import signal_keys

        signals = signal_keys(terminal.master)
        for byte in data:
            if byte not in signals:
                self.pending_input += bytes((byte,))
                continue
            self.pending_input = b""  # as a terminal does
            with suppress(OSError):
                os.write(1, b"^" + bytes((byte ^ 0x40,)))
            self._handle(signals[byte])

    def _write_input(self, terminal: Terminal) -> None:
        try:
            self.pending_input = self.pending_input[os.write(terminal.master, self.pending_input) :]
        except BlockingIOError:
            return
        except OSError:
            self.pending_input = b""


class RawTerminal:
    """Our terminal, in raw mode while the job has its own terminal: all keys go to the job."""

    def __init__(self, terminal: Terminal | None) -> None:
        self.terminal = terminal if terminal is not None and 0 in terminal.replaced else None
        self.before: list[Any] | None = None
        self.passes_input = self.terminal is not None and (not os.isatty(0) or not in_background())

    @property
    def is_on(self) -> bool:
        """Whether our terminal is in raw mode now."""
        return self.before is not None

    def __enter__(self) -> Self:
        self.enter()
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()

    def enter(self) -> None:
        if self.terminal is None or self.is_on or not os.isatty(0) or in_background():
            return
        import termios
        import tty

        copy_size(self.terminal)
        self.before = termios.tcgetattr(0)
        tty.setraw(0, termios.TCSANOW)
        if not os.isatty(1):  # other programs write to our terminal, and expect that a line feed returns to column 0
            settings = termios.tcgetattr(0)
            settings[1] |= termios.OPOST
            termios.tcsetattr(0, termios.TCSANOW, settings)

    def leave(self) -> None:
        if self.before is not None:
            import termios

            with suppress(OSError, termios.error):  # EIO: the terminal was closed
                termios.tcsetattr(0, termios.TCSADRAIN, self.before)
            self.before = None


def makes_signals(terminal: Terminal) -> bool:
    """Whether Ctrl-C in the terminal of the job is a signal; for an editor it is a key."""
    import termios

    return bool(termios.tcgetattr(terminal.master)[3] & termios.ISIG)


def set_up_terminal(terminal: Terminal, ours_is_raw: bool = True) -> None:
    """Give the terminal of the job the settings and the size of ours; without echo if we have none.

    If ours stays as it is, it adds a carriage return to each line feed, and that of the job must not.
    """
    import termios

    if os.isatty(0):
        settings = termios.tcgetattr(0)
    else:
        settings = termios.tcgetattr(terminal.master)
        settings[3] &= ~termios.ECHO
    if not ours_is_raw or not os.isatty(1):
        settings[1] &= ~termios.ONLCR  # pipes and files get line feeds alone
    termios.tcsetattr(terminal.master, termios.TCSANOW, settings)
    copy_size(terminal)


def terminal_descriptors() -> tuple[int, ...]:
    """Our standard descriptors that lead to the terminal of standard output; in the background, without input."""
    if not os.isatty(1):
        return ()
    ours = os.fstat(1).st_rdev
    found = [fd for fd in (0, 1, 2) if os.isatty(fd) and os.fstat(fd).st_rdev == ours]
    return tuple(fd for fd in found if fd != 0 or not in_background())


def copy_size(terminal: Terminal) -> None:
    """Give the terminal of the job the size of ours."""
    from jobtop.core.shim.terminal import set_size

    columns, lines = 80, 24
    for fd in (1, 2, 0):
        try:
            columns, lines = os.get_terminal_size(fd)
            break
        except OSError:
            continue
    set_size(terminal.master, columns, lines)


def in_background() -> bool:
    """Whether a shell runs us with `&`: then neither we nor the job may read from the terminal."""
    try:
        return os.isatty(0) and os.tcgetpgrp(0) != os.getpgrp()
    except OSError:
        return False
