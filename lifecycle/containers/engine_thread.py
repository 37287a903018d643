"""Two threads for one engine: one listens to its events, the other one asks it how containers ended and what started.

They never touch the store: what they learn is left for the agent, which is woken.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from queue import Empty, SimpleQueue

from jobtop.core.errors import EngineError, NoSuchContainer
from jobtop.core.measure.collectors.docker.client import Engine
from jobtop.core.measure.collectors.docker.model import Container
from jobtop.core.record import record, replace
from jobtop.core.run.containers.end import ContainerEnd
from jobtop.lifecycle.containers.attach import digest_of
from jobtop.lifecycle.containers.attached_ends import DEATHS, NOT_NOTED, ask_end, end_in, end_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from jobtop.core.measure.collectors.docker.client import Events
    from jobtop.core.measure.collectors.docker.model import ContainerEvent, Endpoint

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.5, 30.0  # before an engine is tried again
ASK_AGAIN_SECONDS = 0.2  # while an engine has not noticed an exit, or does not answer
PATIENCE_SECONDS = 60.0  # an engine that is restarted says later how its containers ended
EVENT_SECONDS = 2.0  # the event of a death may come later than the exit of the process
MISSED_SECONDS = 3.0  # the same for a container without a job
LIST_AGAIN_SECONDS = 1.0
PAST_SECONDS = 60.0  # a new agent asks for the events of this time: containers may have started and ended meanwhile
MOST_OOM = 1000  # containers with an `oom` event that are remembered
NAME_ATTRIBUTES = frozenset({"name", "image", "exitCode", "containerExitCode"})


@record
class Began:
    """A container that matches a label and runs."""

    container: Container
    digest: str | None


@record
class Missed:
    """A container that matches a label and ended before it could be looked at."""

    container: Container
    end: ContainerEnd


@record
class Paused:
    """A container that was paused or continued."""

    container_id: str
    is_paused: bool


@record
class Question:
    """How did the run of a container end that began at a moment? `container` is one that is no job yet."""

    container_id: str
    started_at: float
    at: float  # on the monotonic clock
    until: float  # the engine is not asked later
    container: Container | None = None


def matches(label: str, labels: dict[str, str]) -> bool:
    """Whether labels have KEY, or KEY=VALUE."""
    key, has_value, value = label.partition("=")
    return key in labels and (not has_value or labels[key] == value)


class EngineThread:
    """Listens to one engine; `news` and `ends` are for the agent, `labels` and `ask` come from it."""

    def __init__(self, endpoint: Endpoint, wake: Callable[[], object], since: float | None = None) -> None:
        self.endpoint, self._wake = endpoint, wake
        self.news: deque[Began | Missed | Paused] = deque()
        self.ends: dict[tuple[str, float], ContainerEnd] = {}  # by container and start; the agent takes them out
        self.problem: str | None = None  # why the engine cannot be listened to now
        self._labels: frozenset[str] = frozenset()
        self._watched: dict[str, list[float]] = {}  # containers of jobs, and when these began
        self._since = time.time() - PAST_SECONDS if since is None else since
        self._tasks: SimpleQueue[ContainerEvent | Question | str | None] = SimpleQueue()
        self._questions: list[Question] = []
        self._deaths: dict[tuple[str, float], ContainerEnd] = {}  # of containers of jobs, by the events
        self._must_list = False  # containers may run that were not looked at
        self._starting: dict[str, ContainerEvent] = {}  # containers that were gone when they were looked at
        self._out_of_memory: deque[str] = deque(maxlen=MOST_OOM)
        self._events: Events | None = None
        self._stopped = threading.Event()
        self._threads = [
            threading.Thread(target=target, name=f"jobtop-{name}", daemon=True)
            for target, name in ((self._listen, "events"), (self._work, "containers"))
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """End both threads soon; they do not keep the process."""
        self._stopped.set()
        if self._events is not None:
            self._events.close()
        self._tasks.put(None)

    def follow(self, labels: Collection[str]) -> None:
        """Tell of containers with these labels from now on, also of those that run."""
        if frozenset(labels) != self._labels:
            self._labels = frozenset(labels)
            self._tasks.put("list")

    def watch(self, container_id: str, started_at: float) -> None:
        """Remember how the run of a container ends."""
        self._watched.setdefault(container_id, []).append(started_at)

    def forget(self, container_id: str, started_at: float) -> None:
        starts = self._watched.get(container_id, [])
        if started_at in starts:
            starts.remove(started_at)
        if not starts:
            self._watched.pop(container_id, None)
        for known in (self.ends, self._deaths):
            known.pop((container_id, started_at), None)

    def ask(self, container_id: str, started_at: float) -> None:
        """Find out how a run ended that has: the answer will be in `ends`, after PATIENCE_SECONDS in any case."""
        now = time.monotonic()
        self._tasks.put(Question(container_id, started_at, now, now + PATIENCE_SECONDS))

    def look_at_end(self, container: Container) -> None:
        """Tell how a container ended that no job could be made from, since it had just ended."""
        now = time.monotonic()
        self._tasks.put(Question(container.id, container.started_at or 0.0, now, now + MISSED_SECONDS, container))

    # -- the thread that listens

    def _listen(self) -> None:
        pause = FIRST_PAUSE_SECONDS
        while not self._stopped.is_set():
            try:
                with Engine(self.endpoint) as engine:
                    self._events = engine.events(self._since)
                    if self._stopped.is_set():  # `close` has not seen this stream
                        return
                    self.problem, pause = None, FIRST_PAUSE_SECONDS
                    self._tasks.put("list")  # only now: what starts from now on is told by the stream
                    for event in self._events:
                        self._since = max(self._since, event.at)
                        self._tasks.put(event)
            except EngineError as error:
                self.problem = str(error)
            self._stopped.wait(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    # -- the thread that asks

    def _work(self) -> None:
        with Engine(self.endpoint) as engine:
            while not self._stopped.is_set():
                seconds = ASK_AGAIN_SECONDS if self._questions else LIST_AGAIN_SECONDS if self._must_list else None
                try:
                    task = self._tasks.get(timeout=seconds)
                except Empty:
                    task = "list" if self._must_list and not self._questions else "ask"
                try:
                    self._do(engine, task)
                except EngineError as error:
                    self.problem, self._must_list = str(error), True
                    engine.close()  # the next call connects again

    def _do(self, engine: Engine, task: ContainerEvent | Question | str | None) -> None:
        if isinstance(task, Question):
            self._questions.append(task)
            self._answer(engine)
        elif task == "list":
            for label in sorted(self._labels):
                for container in engine.containers(label=label):
                    self._look(engine, container.id, None)
            self._must_list = False
        elif task == "ask":
            self._answer(engine)
        elif task is not None and not isinstance(task, str):
            self._take(engine, task)

    def _take(self, engine: Engine, event: ContainerEvent) -> None:
        """What an event says about a container of a job, or of a label."""
        key = event.container_id
        if event.action in DEATHS:
            self._note_death(event)
        elif event.action == "oom":
            self._out_of_memory.append(key)
        elif event.action in ("pause", "unpause") and key in self._watched:
            self.news.append(Paused(key, event.action == "pause"))
            self._wake()
        elif event.action == "start" and any(matches(label, event.attributes) for label in self._labels):
            self._look(engine, key, event)

    def _note_death(self, event: ContainerEvent) -> None:
        key = event.container_id
        was_killed = True if key in self._out_of_memory else None
        for started_at in self._watched.get(key, ()):
            if event.at >= started_at:
                self._deaths.setdefault((key, started_at), replace(end_in(event), is_oom_killed=was_killed))
        start = self._starting.pop(key, None)
        if start is not None:
            self.news.append(Missed(self._described(start), replace(end_in(event), is_oom_killed=was_killed)))
            self._wake()

    def _look(self, engine: Engine, container_id: str, start: ContainerEvent | None) -> None:
        """Tell of a container that has started: it runs, or has ended meanwhile."""
        try:
            container = engine.inspect(container_id)
        except NoSuchContainer:
            if start is not None:
                self._starting[container_id] = start  # its death comes next
            return
        except EngineError:
            if start is not None:
                self._starting[container_id] = start  # it may have ended when the engine answers again
            raise
        if start is not None and (container.started_at or 0.0) > start.at:  # it was started again since
            self._starting[container_id] = start
        if container.is_alive:
            known = self._starting.get(container_id)
            if known is not None and (container.started_at or 0.0) <= known.at:  # this is that start
                del self._starting[container_id]
            self.news.append(Began(container, digest_of(engine, container)))
        elif start is not None and container.exit_code is not None:
            self.news.append(Missed(container, end_of(container)))
        elif start is not None and not container.is_over:
            self.look_at_end(container)
        self._wake()

    def _described(self, start: ContainerEvent) -> Container:
        """A container that was removed, by the event of its start."""
        labels = {key: value for key, value in start.attributes.items() if key not in NAME_ATTRIBUTES}
        name = start.attributes.get("name") or start.container_id[:12]
        image = start.attributes.get("image")
        return Container(
            self.endpoint.name, start.container_id, name, "exited", image, started_at=start.at, labels=labels
        )

    def _answer(self, engine: Engine) -> None:
        """Ask for the ends that are not known yet."""
        for question in list(self._questions):
            end = self._end_of(engine, question)
            is_late = time.monotonic() > question.until
            if end is None and is_late:
                end = ContainerEnd(why_unknown=self.problem or NOT_NOTED)
            if end is None:
                continue
            self._questions.remove(question)
            if question.container is None:
                self.ends[question.container_id, question.started_at] = end
            elif not is_late:
                self.news.append(Missed(question.container, end))
            self._wake()

    def _end_of(self, engine: Engine, question: Question) -> ContainerEnd | None:
        """What the engine says, or an event has told; None if neither tells."""
        key = question.container_id, question.started_at
        try:
            end = ask_end(engine, *key, asks_for_events=key not in self._deaths)
        except EngineError as error:
            self.problem, end = str(error), None
            engine.close()
        death = self._deaths.get(key)
        if death is None:
            is_early = time.monotonic() < question.at + EVENT_SECONDS
            return None if end is not None and end.exit_code is None and is_early else end
        if end is None or end.exit_code is None:
            return death
        return replace(end, is_oom_killed=end.is_oom_killed or death.is_oom_killed)
