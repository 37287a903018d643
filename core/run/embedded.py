"""A foreground job of another program, such as a script or a notebook that calls `jobtop.run`.

The program keeps its own signal handlers. Only in its main thread, and only for signals that it leaves to Python's
defaults, do signals act on the job while it runs, as they do on `jobtop run`; afterwards the defaults are back.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress

from jobtop.core.procfs import CALL_FOR_AGENT
from jobtop.core.procfs import signals as signal
from jobtop.core.run.foreground import STOPPING, Foreground

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Self

    from jobtop.core.run.facts import Facts
    from jobtop.core.run.supervisor import Supervisor

CAUGHT = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP, signal.SIGWINCH, CALL_FOR_AGENT)
DEFAULTS = (signal.SIG_DFL, signal.default_int_handler)


class EmbeddedForeground(Foreground):
    """Waits for a job inside of another program; an exception of one of its signal handlers stops the job."""

    idle_ms = 500  # a signal may come just before poll(2) is called, and does not wake it then

    def __init__(
        self,
        supervisor: Supervisor,
        grace_seconds: float,
        on_stop: Callable[[str], None],
        on_pause: Callable[[bool], None],
        pause: Callable[[bool], None] | None,
        start_agent: Callable[[], None],
        warn: Callable[[str], None],
    ) -> None:
        super().__init__(supervisor, grace_seconds, on_stop, on_pause, pause)
        self.start_agent, self.warn = start_agent, warn
        self.interruption: BaseException | None = None  # what a signal handler of the program raised
        self.is_over = False  # the end of the job was received

    def __enter__(self) -> Self:
        self.wakeup_read, self.wakeup_write = os.pipe()
        os.set_blocking(self.wakeup_write, False)
        self.handlers = self._catch() if is_main_thread() else {}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self.handlers.items():
            signal.signal(number, handler)
        os.set_blocking(self.wakeup_read, False)
        with suppress(BlockingIOError):  # signals since the job ended
            late = os.read(self.wakeup_read, 4096)
            self.requests += [(number, time.time()) for number in late if number in STOPPING]
        os.close(self.wakeup_read)
        os.close(self.wakeup_write)

    def wait(self, on_lasting: Callable[[], bool]) -> Facts | None:
        try:
            facts = super().wait(on_lasting)
        except BaseException as error:  # noqa: BLE001 - raised again by `raise_interruption`
            self.interruption = error
            facts = self.stop()
        self.is_over = True
        return facts

    def stop(self) -> Facts | None:
        """Stop the job and wait for the facts of its end; None if the shim was killed, or got no order."""
        self.supervisor.close()
        request = self._stop
        while True:
            try:
                request(signal.SIGTERM)
                facts = self.supervisor.receive()
                while facts is not None and "end" not in facts and "exec_error" not in facts:
                    facts = self.supervisor.receive()
                return facts
            except BaseException as error:  # noqa: BLE001 - one more request: the shim kills the job
                self.interruption, request = error, self._send_to_shim

    def raise_interruption(self) -> None:
        """Do to the program what the signal would have done that ended the job; call it when the record is written."""
        if self.interruption is not None:
            raise self.interruption
        numbers = [number for number, _ in self.requests]
        if signal.SIGINT in numbers:
            raise KeyboardInterrupt
        if numbers:
            os.kill(os.getpid(), numbers[0])

    def _catch(self) -> dict[int, Any]:
        handlers = {number: signal.getsignal(number) for number in CAUGHT}
        handlers = {number: handler for number, handler in handlers.items() if handler in DEFAULTS}
        for number in handlers:
            signal.signal(number, self._note)
        return handlers

    def _note(self, *values: object) -> None:
        """Note a signal for `wait`."""
        with suppress(BlockingIOError):
            os.write(self.wakeup_write, bytes((values[0],)))  # type: ignore[arg-type]

    def _handle(self, number: int) -> None:
        if number == CALL_FOR_AGENT:
            self.start_agent()
        else:
            super()._handle(number)

    def _say(self, text: str) -> None:
        self.warn(text)


def is_main_thread() -> bool:
    """Whether this thread may set signal handlers."""
    import threading

    return threading.current_thread() is threading.main_thread()
