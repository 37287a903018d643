"""`run` in the foreground: signals to the job, its terminal, Ctrl-Z, until the shim tells the end."""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress

from jobtop.core.procfs import FORWARDED, SAME_REQUEST_SECONDS, freeze_descendants, signal_descendants
from jobtop.core.run.facts import Facts
from jobtop.core.run.outcome import CTRL_C
from jobtop.core.run.supervisor import Supervisor, Terminal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

SAME_KEY_SECONDS = 0.1
MOMENT_MS = 30
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class Foreground:
    """Takes our signals from its entry on and waits for one job; `on_stop` hears of each request to end it."""

    def __init__(
        self,
        supervisor: Supervisor,
        grace_seconds: float,
        on_stop: Callable[[str], None],
        on_pause: Callable[[bool], None],
    ) -> None:
        self.supervisor, self.grace_seconds = supervisor, grace_seconds
        self.on_stop, self.on_pause = on_stop, on_pause
        self.told: list[tuple[int, float]] = []
        self.stopping = False
        self.typed = b""
        self.typing = False

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

    def wait(self, on_lasting: Callable[[], None]) -> Facts | None:
        """The end of the job as its shim tells it; None if the shim was killed.

        `on_lasting` is called if the job is not over at once.
        """
        self.on_lasting: Callable[[], None] | None = on_lasting
        with RawTerminal(self.supervisor.terminal) as self.raw:
            self.typing = self.raw.passes_input
            return self._listen()

    def told_to_stop(self, ended_at: float) -> int | None:
        """The signal we were told to stop by, if the job's end followed from it."""
        for number, moment in self.told:
            if self.stopping or ended_at - moment <= self.grace_seconds:
                return number
        return None

    def _catch(self) -> dict[int, Any]:
        """Take every signal we pass on, but leave ignored what was ignored at our start (nohup, &)."""
        handlers = {}
        for number in (signal.SIGTERM, signal.SIGTSTP, *FORWARDED):
            handler = signal.getsignal(number)
            if handler != signal.SIG_IGN:
                handlers[number] = handler
                signal.signal(number, lambda *_: None)
        return handlers

    def _listen(self) -> Facts | None:
        terminal, status, wakeup = self.supervisor.terminal, self.supervisor.status_read, self.wakeup_read
        while True:
            poll = select.poll()
            poll.register(wakeup, select.POLLIN)
            poll.register(status, select.POLLIN)
            if terminal and self.typed:
                poll.register(terminal.master, select.POLLOUT)
            elif terminal and self.typing:
                poll.register(0, select.POLLIN)
            ready = poll.poll(None if self.on_lasting is None else MOMENT_MS)
            if not ready and self.on_lasting is not None:
                begin, self.on_lasting = self.on_lasting, None
                begin()
            for fd, _ in ready:
                if fd == status:
                    return self.supervisor.receive()
                if fd == wakeup:
                    for number in os.read(wakeup, 4096):
                        self._handle(number)
                elif terminal and fd == terminal.master:
                    self._type(terminal)
                elif terminal:
                    self._read_typed(terminal)

    def _handle(self, number: int) -> None:
        if number == signal.SIGTSTP:
            self._suspend()
        elif number == signal.SIGWINCH and self.supervisor.terminal:
            copy_size(self.supervisor.terminal)
        elif number in STOPPING:
            self._stop(number)
        else:
            self._pass(number)

    def _stop(self, number: int) -> None:
        """First as it came; again within the grace: TERM, grace, KILL. A shim told TERM twice kills at once."""
        moment = time.time()
        window = SAME_REQUEST_SECONDS if number == signal.SIGTERM else SAME_KEY_SECONDS
        if any(which == number and moment - at < window for which, at in self.told):
            return
        again = any(moment - at <= self.grace_seconds for _, at in self.told)
        self.told.append((number, moment))
        if again and not self.stopping:
            say("stopping the job; once more kills it")
        self.stopping |= again or number == signal.SIGTERM
        self._pass(signal.SIGTERM if self.stopping else number)
        self.on_stop(signal.Signals(number).name)

    def _pass(self, number: int) -> None:
        try:
            os.kill(self.supervisor.pid, number)
        except ProcessLookupError:
            return

    def _suspend(self) -> None:
        """Ctrl-Z: the job stands still with us and goes on with us."""
        freeze_descendants(self.supervisor.pid)
        self.on_pause(True)
        self.raw.leave()
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, lambda *_: None)
        self.raw.enter()
        signal_descendants(self.supervisor.pid, signal.SIGCONT)
        self.on_pause(False)

    def _read_typed(self, terminal: Terminal) -> None:
        try:
            data = os.read(0, 65536)
        except OSError:
            data = b""
        if data:
            self.typed = data
            if b"\x03" in data and makes_signals(terminal):
                self.on_stop(CTRL_C)
        else:
            self.typing = False
            self.typed = b"\x04\x04"  # the first ends an unfinished line, the second is the end of the file
        self._type(terminal)

    def _type(self, terminal: Terminal) -> None:
        try:
            self.typed = self.typed[os.write(terminal.master, self.typed) :]
        except BlockingIOError:
            return
        except OSError:
            self.typed = b""


class RawTerminal:
    """Our terminal, raw while a job has one of its own: every key is the job's."""

    def __init__(self, terminal: Terminal | None) -> None:
        self.terminal = terminal
        self.before: list[Any] | None = None
        self.passes_input = terminal is not None and (not os.isatty(0) or not in_background())

    def __enter__(self) -> Self:
        self.enter()
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()

    def enter(self) -> None:
        if self.terminal is None or not os.isatty(0) or in_background():
            return
        import termios
        import tty

        copy_size(self.terminal)
        self.before = termios.tcgetattr(0)
        tty.setraw(0, termios.TCSANOW)
        if not os.isatty(1):  # somebody else writes to our terminal, and expects new lines to begin at the left
            settings = termios.tcgetattr(0)
            settings[1] |= termios.OPOST
            termios.tcsetattr(0, termios.TCSANOW, settings)

    def leave(self) -> None:
        if self.before is not None:
            import termios

            with suppress(OSError, termios.error):  # EIO: the terminal is gone
                termios.tcsetattr(0, termios.TCSADRAIN, self.before)
            self.before = None


def makes_signals(terminal: Terminal) -> bool:
    """Whether the job's terminal turns Ctrl-C into a signal; an editor reads it as a key."""
    import termios

    return bool(termios.tcgetattr(terminal.master)[3] & termios.ISIG)


def open_terminal() -> Terminal:
    """A pseudo-terminal with the settings and the size of ours; without one, without echo."""
    import termios

    master, slave = os.openpty()
    if os.isatty(0):
        termios.tcsetattr(slave, termios.TCSANOW, termios.tcgetattr(0))
    else:
        settings = termios.tcgetattr(slave)
        settings[3] &= ~termios.ECHO
        termios.tcsetattr(slave, termios.TCSANOW, settings)
    terminal = Terminal(master, slave)
    copy_size(terminal)
    return terminal


def copy_size(terminal: Terminal) -> None:
    """Give the job's terminal the size of ours; the kernel tells the job."""
    import fcntl
    import struct
    import termios

    columns, lines = 80, 24
    for fd in (1, 2, 0):
        try:
            columns, lines = os.get_terminal_size(fd)
            break
        except OSError:
            continue
    fcntl.ioctl(terminal.master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))


def in_background() -> bool:
    """Whether a shell runs us with `&`: the terminal's input is then not ours to read, nor the job's."""
    try:
        return os.isatty(0) and os.tcgetpgrp(0) != os.getpgrp()
    except OSError:
        return False


def say(text: str) -> None:
    print(f"jobtop: {text}", file=sys.stderr, flush=True)
