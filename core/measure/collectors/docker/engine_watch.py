"""Watches one engine in a thread of its own: which containers it has, by its events and a list now and then."""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict

from jobtop.core.errors import EngineError, EngineSilent, NoSuchContainer
from jobtop.core.measure.collectors.docker.client import ANSWER_SECONDS, Engine
from jobtop.core.measure.collectors.docker.snapshot import EngineState
from jobtop.core.record import replace
from jobtop.core.units import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from jobtop.core.measure.collectors.docker.client import Events
    from jobtop.core.measure.collectors.docker.model import Container, ContainerEvent, Endpoint, EngineInfo

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 1.0, 30.0  # between two attempts to reach an engine
RESYNC_SECONDS = 120.0  # between two lists, in case an event was lost
PULSE_SECONDS = 5.0  # between two questions whether an engine without events still answers
PATIENT_SECONDS = 10.0  # for an answer of an engine that was too slow before
MOST_FAILURES = 2  # containers of a list that cannot be inspected, until the engine counts as not answering
CHANGES = frozenset(
    {"create", "start", "die", "died", "oom", "restart", "pause", "unpause", "rename", "update", "stop", "cleanup"}
)  # events after which a container is inspected again
SHOWN = CHANGES | {"health_status", "kill", "destroy"}
MOST_EVENTS = 50  # kept of a container
MOST_ENDED = 200  # containers that ended meanwhile, and are kept
MOST_INSPECTED = 200  # containers that do not run, inspected for their exit codes at the start


class EngineWatch:
    """The containers of one engine. `state`, `containers` and `events` are read by other threads at any time.

    While the engine does not answer, `containers` are those of before: they may run on.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        every: bool = False,
        changed: Callable[[], None] = lambda: None,
        opener: Callable[[Endpoint, float], Engine] = Engine,
    ) -> None:
        self.endpoint, self._every, self._changed, self._opener = endpoint, every, changed, opener
        self.state = EngineState(endpoint.name, endpoint.url, None, None, time.time(), endpoint.origin, False)
        self.containers: dict[str, Container] = {}  # by id; replaced as a whole, never changed
        self._ended: OrderedDict[str, None] = OrderedDict()
        self._events: dict[str, tuple[ContainerEvent, ...]] = {}
        self._stream: Events | None = None
        self._is_reached = False  # in this attempt
        self._is_followed = False  # its events are awaited
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"jobtop-{endpoint.name}", daemon=True)
        self._pulse = threading.Thread(target=self._feel_pulse, name=f"jobtop-{endpoint.name}-pulse", daemon=True)

    def start(self) -> None:
        self._thread.start()
        self._pulse.start()

    def events(self, container_id: str) -> tuple[ContainerEvent, ...]:
        """What happened to a container lately, the oldest first."""
        return self._events.get(container_id, ())

    def stop(self) -> None:
        """Ask the thread to end; `join` waits for it."""
        self._stopped.set()
        stream = self._stream
        if stream is not None:
            stream.close()

    def join(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        for thread in (self._thread, self._pulse):
            if thread.is_alive():
                thread.join(max(0.0, until - time.monotonic()))

    def _run(self) -> None:
        pause, answer_seconds = FIRST_PAUSE_SECONDS, ANSWER_SECONDS
        while not self._stopped.is_set():
            self._is_reached = False
            problem = self._attempt(answer_seconds)
            if self._stopped.is_set():
                return
            self._note(None, problem)
            if self._is_reached:
                pause = FIRST_PAUSE_SECONDS
            answer_seconds = PATIENT_SECONDS
            self._wait(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    def _attempt(self, answer_seconds: float) -> str:
        """Watch the engine for as long as it answers; why that ended."""
        try:
            with self._opener(self.endpoint, answer_seconds) as engine:
                self._watch(engine)
            return f"{self.endpoint.name} ({self.endpoint.url}) has closed the connection"
        except EngineError as error:
            return str(error)
        except Exception as error:  # noqa: BLE001 - a border: an engine's answer costs its own numbers only
            return printable(f"{self.endpoint.name} ({self.endpoint.url}): {type(error).__name__}: {error}")

    def _wait(self, seconds: float) -> None:
        """Wait before the next attempt; not for long if its socket is a new one, as after a restart."""
        until, before = time.monotonic() + seconds, self._socket()
        while not self._stopped.is_set() and (left := until - time.monotonic()) > 0:
            self._stopped.wait(min(left, FIRST_PAUSE_SECONDS))
            now = self._socket()
            if now is not None and now != before:
                return

    def _socket(self) -> tuple[int, int] | None:
        if not self.endpoint.url.startswith("unix://"):
            return None
        try:
            found = os.stat(self.endpoint.url.removeprefix("unix://"))
        except OSError:
            return None
        return found.st_ino, found.st_ctime_ns

    def _watch(self, engine: Engine) -> None:
        """List and follow events until the engine ends the stream."""
        info = engine.info()
        while not self._stopped.is_set():
            # Before the list: what happens meanwhile is in one of them.
            self._stream = events = engine.events(quiet_seconds=RESYNC_SECONDS)
            try:
                self._list(engine)
                self._is_reached = True
                self._note(info, None)
                self._is_followed = True
                if self._stopped.is_set() or not self._follow(engine, events):
                    return
            finally:
                self._is_followed = False
                self._stream = None
                events.close()

    def _follow(self, engine: Engine, events: Events) -> bool:
        """Apply events until a list is due; False if the stream ended."""
        until = time.monotonic() + RESYNC_SECONDS
        for event in events:
            if self._stopped.is_set():
                return False
            self._apply(engine, event)
            if time.monotonic() >= until:
                return True
        return time.monotonic() >= until

    def _feel_pulse(self) -> None:
        """Notice soon that an engine hangs: its events just do not come then, as on a quiet day."""
        while not self._stopped.wait(PULSE_SECONDS):
            if self._is_followed:
                self._ask_once()

    def _ask_once(self) -> None:
        try:
            with self._opener(self.endpoint, ANSWER_SECONDS) as engine:
                engine.connect()
            problem = None
        except EngineSilent as error:
            problem = str(error)
        except EngineError:  # the stream of events ends too
            return
        if self._is_followed and self.state.problem != problem:
            self._note(None, problem)

    def _note(self, info: EngineInfo | None, problem: str | None) -> None:
        before = self.state
        since = before.since if before.is_asked and before.problem == problem else time.time()
        self.state = replace(before, info=info or before.info, problem=problem, since=since, is_asked=True)
        self._changed()

    def _list(self, engine: Engine) -> None:
        """All containers as they are now; those that are alive or changed are inspected.

        Some engines hang when they are asked about one broken container: it is shown as it is in the list.
        """
        known, found = self.containers, {}
        inspected = failures = 0
        for container in engine.containers(self._every):
            before = known.get(container.id)
            if before is not None and before.is_over and (before.state, before.name) == _look(container):
                found[container.id] = before
                continue
            found[container.id] = container
            inspected += not container.is_alive
            if container.is_alive or inspected <= MOST_INSPECTED:
                try:
                    found[container.id] = engine.inspect(container.id)
                except NoSuchContainer:
                    del found[container.id]
                except EngineError:
                    failures += 1
                    if failures > MOST_FAILURES:
                        raise
        if not self._every:
            found |= {key: known[key] for key in self._ended if key in known and key not in found}
        self.containers = found
        self._events = {key: kept for key, kept in self._events.items() if key in found}

    def _apply(self, engine: Engine, event: ContainerEvent) -> None:
        key = event.container_id
        if event.action in SHOWN:
            self._events[key] = (*self._events.get(key, ()), event)[-MOST_EVENTS:]
        if event.action in ("destroy", "remove"):
            self._remove(key)
        elif event.action == "health_status":
            known, health = self.containers.get(key), event.detail or event.attributes.get("health_status")
            if known is not None and health is not None:
                self.containers = {**self.containers, key: replace(known, health=health.lower())}
        elif event.action in CHANGES:
            try:
                self._keep(engine.inspect(key))
            except NoSuchContainer:
                self._remove(key)
        else:
            return
        self._changed()

    def _keep(self, container: Container) -> None:
        found = {**self.containers, container.id: container}
        if container.is_alive or self._every:
            self._ended.pop(container.id, None)
        elif container.id in self.containers:
            self._ended[container.id] = None
            if len(self._ended) > MOST_ENDED:
                oldest, _ = self._ended.popitem(last=False)
                found.pop(oldest, None)
                self._events.pop(oldest, None)
        else:  # created, and not started yet
            return
        self.containers = found

    def _remove(self, container_id: str) -> None:
        self.containers = {key: kept for key, kept in self.containers.items() if key != container_id}
        self._ended.pop(container_id, None)
        self._events.pop(container_id, None)


def _look(container: Container) -> tuple[str, str]:
    return container.state, container.name
