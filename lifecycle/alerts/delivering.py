"""Sends the messages of the outbox: one process of a host at a time, each action in a thread of its own.

A message is marked as sent after its action has accepted it, so that it is sent at least once: a process that is killed
in between leaves it to the next one, which sends it with the same key.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from contextlib import suppress

from jobtop.core import journal
from jobtop.core.alerts.actions import senders
from jobtop.core.alerts.actions.delivery import DeliveryFailed
from jobtop.core.alerts.message_text import from_json, to_json
from jobtop.core.alerts.model import Severity
from jobtop.core.alerts.secrets import Secrets
from jobtop.core.errors import JobtopError
from jobtop.core.measure.collectors.proc import identify
from jobtop.core.units import format_duration, number_of, printable
from jobtop.store.alerts.outbox import Outbox
from jobtop.store.leases import Lease

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from jobtop.core.alerts.model import Action, Message
    from jobtop.store.alerts.outbox import Outgoing
    from jobtop.store.database import Database

    ActionKey = tuple[str, str]  # name and origin
    Sender = Callable[[Message, Action, Secrets, str], None]

LEASE = "messages"
LEASE_SECONDS = 20.0
POLL_SECONDS = 5.0  # between two looks for messages that other processes have left
BACKOFF_SECONDS = (5.0, 15.0, 60.0, 300.0, 900.0)  # after the first, second … failure; the last one repeats
LONGEST_WAIT_SECONDS = 3600.0  # a try that is farther away was planned before the clock was set back
GIVE_UP_SECONDS = 86400.0
CLOSE_SECONDS = 1.0  # for what close() does besides sending
SLACK_SECONDS = 2.0  # that a try may take longer than its time, to end a connection or a program


class Deliverer:
    """Sends messages from its own thread, with its own connection to the store; no call waits for an action.

    `resolve_action` finds an action by name and origin, None if this process does not know it. `compose` makes the
    message of a row, None if there is nothing left to tell. `is_quiet` says whether only critical messages are sent.
    """

    def __init__(
        self,
        open_database: Callable[[], Database],
        resolve_action: Callable[[str, str], Action | None],
        compose: Callable[[Database, Outgoing], Message | None],
        log: str,
        environ: Mapping[str, str] | None = None,
        is_quiet: Callable[[float], bool] = lambda _: False,
        give_up_seconds: float = GIVE_UP_SECONDS,
        backoff_seconds: Sequence[float] = BACKOFF_SECONDS,
        poll_seconds: float = POLL_SECONDS,
        clock: Callable[[], float] = time.time,
        send: Sender = senders.send,
    ) -> None:
        self._open_database, self._resolve, self._compose, self._log_file = open_database, resolve_action, compose, log
        self._environ = os.environ if environ is None else environ
        self._is_quiet, self._clock, self._sender = is_quiet, clock, send
        self.give_up_seconds, self.backoff_seconds, self.poll_seconds = give_up_seconds, backoff_seconds, poll_seconds
        self._woken = threading.Event()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()  # for the start of the thread
        self._database: Database | None = None
        self._lease: Lease | None = None
        self._in_flight: dict[ActionKey, int] = {}  # ids of messages that are being sent or whose end is not stored
        self._flight_end = 0.0  # when the last try that was begun has ended, by the monotonic clock
        self._results: deque[tuple[Outgoing, DeliveryFailed | None]] = deque()
        self._close_at: float | None = None  # by the monotonic clock
        self._tried_at_close: set[int] = set()
        self._tries_again = True
        self._unsent = 0
        self._logged: set[str] = set()

    def wake(self) -> None:
        """Look for messages now; the first call starts the thread."""
        with self._lock:
            if self._close_at is None:
                self._start()
        self._woken.set()

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="jobtop-messages", daemon=True)
            self._thread.start()

    def unsent(self) -> int:
        """How many messages are neither sent nor given up, as the thread last saw it."""
        return self._unsent

    def close(self, seconds: float = 0.0, tries_again: bool = True) -> int:
        """Send for at most so long what can be sent, without waiting for groups, then end; return what is left.

        What fails is tried again if there is time for it, or not if `tries_again` is False.
        What is being sent then may take the rest of its time: a message whose end is not stored would be sent twice.
        """
        with self._lock:
            self._close_at, self._tries_again = time.monotonic() + seconds, tries_again
            if seconds:
                self._start()
        self._woken.set()
        while self._thread is not None and self._thread.is_alive():
            left = max(self._close_at, self._flight_end) + CLOSE_SECONDS - time.monotonic()
            if left <= 0:
                break
            self._thread.join(left)
        return self._unsent

    def _run(self) -> None:
        while True:
            self._woken.clear()
            seconds = self._pass()
            if self._close_at is not None:
                now = time.monotonic()
                left = self._close_at - now
                if seconds > left and not (self._in_flight and now < self._flight_end):
                    break
                seconds = min(seconds, left if left > 0 else self._flight_end - now, LEASE_SECONDS / 4)
            self._woken.wait(seconds)
        self._end()

    def _end(self) -> None:
        with suppress(JobtopError, OSError):
            if self._database is not None:
                self._settle()  # what was sent in the last moment
                self._unsent = Outbox(self._database).unsent_count()  # another process may have sent some meanwhile
            if not self._in_flight:  # otherwise the lease ends with this process, and what is being sent too
                self._release()
        if self._database is not None:
            self._database.close()

    def _pass(self) -> float:
        """Store how sending went and send what is due; return in how many seconds to look again."""
        try:
            return self._deliver(self._clock())
        except (JobtopError, OSError) as error:
            self._log_once("WARNING", f"messages about alerts wait: {error}")
            self._forget_database()
            return self.poll_seconds

    def _deliver(self, now: float) -> float:
        if self._database is None:
            self._database = self._open_database()
            self._lease = Lease(self._database, LEASE)
        outbox = Outbox(self._database)
        self._settle()
        rows = outbox.unsent()
        self._unsent = len(rows)
        if self._close_at is not None and time.monotonic() >= self._close_at:
            if self._in_flight:
                self._holds_lease()
            return float("inf")  # nothing more is begun
        heads = self._heads(rows, now)
        known = {row.id: action for row in heads if (action := self._action(outbox, row, now)) is not None}
        if not known and not self._in_flight:
            self._release()
            return self.poll_seconds if self._close_at is None else float("inf")
        due = [row for row in heads if row.id in known and self._wait_seconds(row, now) <= 0]
        if due or self._in_flight:
            was_held = self._lease is not None and self._lease.is_held()
            if not self._holds_lease():
                return min(self.poll_seconds, LEASE_SECONDS / 10)
            if not was_held:
                return 0.0  # the process that held it may have sent them: look again
        else:
            self._release()  # another process may send them, as `jobtop alerts send` does
        for row in due:
            self._begin(outbox, row, known[row.id])
        waits = [self._wait_seconds(row, now) for row in heads if row.id in known and row.id not in self._begun()]
        # At the end of this process no others come: if none is to be tried again, it is over.
        return max(0.0, min(waits, default=float("inf")) if self._close_at else min([*waits, self.poll_seconds]))

    def _heads(self, rows: Iterable[Outgoing], now: float) -> list[Outgoing]:
        """The next message of each action that is not busy; in quiet hours the next critical one."""
        is_quiet = self._is_quiet(now)
        heads: dict[ActionKey, Outgoing] = {}
        for row in rows:
            if not is_quiet or row.severity is Severity.CRITICAL:
                heads.setdefault((row.action, row.origin), row)
        return [row for key, row in heads.items() if key not in self._in_flight]

    def _wait_seconds(self, row: Outgoing, now: float) -> float:
        """The seconds until a message may be tried; at the end of this process, every message is tried once more."""
        if self._close_at is not None and row.id not in self._tried_at_close:
            return 0.0
        if not self._tries_again:
            return float("inf")
        wait = row.due_at - now
        is_planned_before = wait > max(LONGEST_WAIT_SECONDS, self.backoff_seconds[-1]) or now < row.created_at - 1.0
        return 0.0 if is_planned_before else wait

    def _begun(self) -> set[int]:
        return set(self._in_flight.values())

    def _action(self, outbox: Outbox, row: Outgoing, now: float) -> Action | None:
        """The action of a message. Without one the message waits for a process that knows it, or for its last hour."""
        action = self._resolve(row.action, row.origin)
        if action is None:
            why = f'action "{row.action}" of {row.origin} is not configured here'
            if now - row.ready_at >= self.give_up_seconds:
                self._give_up(outbox, row, why)
            else:
                self._log_once("WARNING", f"{why}; its messages wait")
        return action

    def _begin(self, outbox: Outbox, row: Outgoing, action: Action) -> None:
        """Send one message in a thread of its own, since an action may take long and others must not wait for it."""
        message = self._message(outbox, row)
        if message is None:
            self._give_up(outbox, row, "its alerts were deleted")
            return
        self._in_flight[row.action, row.origin] = row.id
        self._flight_end = max(self._flight_end, time.monotonic() + senders.timeout_of(action) + SLACK_SECONDS)
        if self._close_at is not None:
            self._tried_at_close.add(row.id)
        name = f"jobtop-send-{row.id}"
        threading.Thread(target=self._send, args=(row, action, message), name=name, daemon=True).start()

    def _message(self, outbox: Outbox, row: Outgoing) -> Message | None:
        """What the row says; composed once, so that each try sends the same."""
        if row.content is not None:
            with suppress(ValueError):
                return from_json(row.content)
        assert self._database is not None
        message = self._compose(self._database, row)
        if message is not None:
            outbox.set_content(row.id, to_json(message))
        return message

    def _send(self, row: Outgoing, action: Action, message: Message) -> None:
        problem: DeliveryFailed | None = None
        try:
            self._sender(message, action, Secrets(self._environ), self._log_file)
        except DeliveryFailed as error:
            problem = error
        except Exception as error:  # noqa: BLE001 — a mistake in one sender must not end delivery
            problem = DeliveryFailed(f"jobtop itself failed ({type(error).__name__})")
        self._results.append((row, problem))
        self._woken.set()

    def _settle(self) -> None:
        """Store how each try ended. An action stays busy until that is stored, so that its order is kept."""
        while self._results:
            row, problem = self._results[0]
            assert self._database is not None
            self._store_result(Outbox(self._database), row, problem, self._clock())
            self._results.popleft()
            self._in_flight.pop((row.action, row.origin), None)
            self._unsent = Outbox(self._database).unsent_count()

    def _store_result(self, outbox: Outbox, row: Outgoing, problem: DeliveryFailed | None, now: float) -> None:
        if problem is None:
            outbox.mark_sent(row.id, now)
            if row.tries:
                self._log("INFO", f"{_label(row)} was sent after {number_of(row.tries + 1, 'try', 'tries')}")
        elif problem.is_final or now - row.ready_at >= self.give_up_seconds:
            self._give_up(outbox, row, problem.reason, row.tries + 1)
        else:
            backoff = self.backoff_seconds[min(row.tries, len(self.backoff_seconds) - 1)]
            wait = max(backoff, problem.wait_seconds or 0.0)
            outbox.mark_failed(row.id, problem.reason, now + wait)
            if row.problem != problem.reason:
                again = f"the next try is in {format_duration(wait)}"
                self._log("WARNING", f"{_label(row)} was not sent: {problem.reason}; {again}")

    def _give_up(self, outbox: Outbox, row: Outgoing, why: str, tries: int | None = None) -> None:
        outbox.give_up(row.id, why, self._clock())
        count = row.tries if tries is None else tries
        self._log("ERROR", f"{_label(row)} is given up after {number_of(count, 'try', 'tries')}: {why}")

    def _holds_lease(self) -> bool:
        assert self._lease is not None
        from jobtop.store.leases import now_since_boot

        is_fresh = self._lease.held_until - now_since_boot() > LEASE_SECONDS / 2
        return is_fresh or self._lease.take(identify(os.getpid()), LEASE_SECONDS)

    def _release(self) -> None:
        if self._lease is not None and self._lease.is_held():
            self._lease.release(identify(os.getpid()))

    def _forget_database(self) -> None:
        if self._database is not None:
            self._database.close()
        self._database = self._lease = None

    def _log_once(self, level: str, text: str) -> None:
        if text not in self._logged:
            self._logged.add(text)
            self._log(level, text)

    def _log(self, level: str, text: str) -> None:
        with suppress(OSError):
            journal.write(self._log_file, level, printable(text))


def _label(row: Outgoing) -> str:
    return f'message {row.id} of alert "{row.rule}" to {row.action}'
