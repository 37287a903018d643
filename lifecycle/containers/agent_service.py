"""What the agent does for containers that jobtop did not start: asks for their ends, and attaches to those it follows.

The agent makes one only if there is such a job or a label to follow; until then no client of engines is imported.
"""

from __future__ import annotations

import time
from functools import partial

from jobtop.core.errors import AlreadyAttached, JobtopError, StoreError, UsageError
from jobtop.core.measure.collectors.docker.model import Endpoint
from jobtop.core.model import AT_WORK
from jobtop.core.record import replace
from jobtop.core.run.containers.end import ContainerEnd
from jobtop.core.units import printable
from jobtop.lifecycle.containers.attach import attach_container, record_missed
from jobtop.lifecycle.containers.attached_ends import (
    container_id_of,
    endpoint_of,
    read_evidence,
    started_at_of,
    write_end,
)
from jobtop.lifecycle.containers.engine_thread import Began, EngineThread, Missed, Paused, matches
from jobtop.lifecycle.reconcile import paused_or_running

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from jobtop.core.config import Config
    from jobtop.core.measure.target import Target
    from jobtop.core.model import Job
    from jobtop.core.paths import StatePaths
    from jobtop.store.follows import Follow
    from jobtop.store.jobs import Event, Jobs

    Log = Callable[[str, str], None]


class Attached:
    """A container that the agent records: its cgroups, and whether its exit was noticed."""

    def __init__(self, job: Job, thread: EngineThread, cgroups: tuple[str, ...]) -> None:
        self.job, self.thread, self.cgroups = job, thread, cgroups
        self.container_id, self.started_at = container_id_of(job), started_at_of(job)
        self.exited: ContainerEnd | None = None  # what was read right after its exit


class ContainerService:
    """Called by the thread of the agent alone; `wake` is called by others, when there is something to do."""

    def __init__(self, jobs: Jobs, paths: StatePaths, config: Config, wake: Callable[[], object], log: Log) -> None:
        self.jobs, self.paths, self.config, self._wake, self._log = jobs, paths, config, wake, log
        self.follows: tuple[Follow, ...] = ()
        self._threads: dict[str, EngineThread] = {}  # by address
        self._attached: dict[str, Attached] = {}  # by job
        self._said: dict[str, str] = {}  # the last problem of each engine in the log

    # -- containers that are jobs

    def add(self, job: Job, target: Target) -> None:
        """Listen for the end of a container from now on."""
        endpoint = endpoint_of(job)
        if endpoint is not None and job.id not in self._attached:
            attached = Attached(job, self._thread(endpoint), target.cgroups)
            self._attached[job.id] = attached
            attached.thread.watch(attached.container_id, attached.started_at)

    def is_end_known(self, job: Job) -> bool:
        """Whether the engine has said how a container ended whose first process has exited; if not, it is asked."""
        attached = self._attached.get(job.id)
        if attached is None:
            return True
        directory = self.paths.job(job.id)
        if attached.exited is None:
            # The engine removes the cgroup soon: what it has counted is read first.
            attached.exited = ContainerEnd(cgroup=read_evidence(attached.cgroups) or None, seen_at=time.time())
            write_end(directory, attached.exited)
            attached.thread.ask(attached.container_id, attached.started_at)
        end = attached.thread.ends.get((attached.container_id, attached.started_at))
        if end is None:
            return False
        write_end(directory, replace(end, cgroup=attached.exited.cgroup, seen_at=attached.exited.seen_at))
        return True

    def has_answers(self) -> bool:
        """Whether an engine has said how a container ended that waits for it."""
        waiting = (attached for attached in self._attached.values() if attached.exited is not None)
        return any((each.container_id, each.started_at) in each.thread.ends for each in waiting)

    def remove(self, job_id: str) -> None:
        """Listen no longer: the end of a job is recorded, or another process records it."""
        attached = self._attached.pop(job_id, None)
        if attached is not None:
            attached.thread.forget(attached.container_id, attached.started_at)

    # -- containers that may become jobs

    def set_follows(self, follows: Iterable[Follow]) -> None:
        """Attach to containers with these labels, and to no others; engines without any work are left."""
        self.follows = tuple(follows)
        labels: dict[str, set[str]] = {}
        for follow in self.follows:
            labels.setdefault(follow.url, set()).add(follow.label)
        for follow in self.follows:
            self._thread(Endpoint(follow.engine, follow.url, "socket"), labels[follow.url])
        used = {attached.thread for attached in self._attached.values()}
        for url, thread in list(self._threads.items()):
            thread.follow(labels.get(url, ()))
            if url not in labels and thread not in used:
                thread.close()
                del self._threads[url]

    def work(self) -> list[Job]:
        """Note which containers other programs paused; make jobs from those that have started. The jobs that run."""
        made = []
        for url, thread in self._threads.items():
            if thread.problem is not None and thread.problem != self._said.get(url):
                self._log("WARNING", f"containers: {thread.problem}")
            self._said[url] = thread.problem or ""
            while thread.news:
                news = thread.news[0]
                try:
                    job = self._noted_pause(news) if isinstance(news, Paused) else self._begin(thread, news)
                    made += [] if job is None or job.status.ended else [job]
                except StoreError:
                    raise  # tried again in a later round
                except AlreadyAttached:
                    pass
                except JobtopError as error:
                    self._log("WARNING", f"containers: {error}")
                thread.news.popleft()
        return made

    def _noted_pause(self, news: Paused) -> Job | None:
        for attached in self._attached.values():
            if attached.container_id == news.container_id and attached.exited is None:
                self.jobs.change(attached.job.id, partial(noted_pause, is_paused=news.is_paused))
        return None

    def _begin(self, thread: EngineThread, news: Began | Missed) -> Job | None:
        """Make a job from a container that has started; None if there is one, or no follow wants it."""
        follow = self._follow_of(thread, news)
        if follow is None or (isinstance(news, Missed) and (news.container.started_at or 0.0) < follow.at):
            return None
        options = {"name": follow.name, "tool": follow.tool, "tags": follow.tags, "note": follow.note}
        job = self._make(thread.endpoint, news, options | {"follow": follow.label})
        if job is not None:
            self._log("INFO", f"job {job.id[:8]} is container {printable(news.container.name)} ({follow.label})")
        return job

    def _make(self, endpoint: Endpoint, news: Began | Missed, options: Mapping[str, object]) -> Job | None:
        common = self.jobs, self.paths, self.config, endpoint, news.container
        if isinstance(news, Missed):
            return record_missed(*common, news.end, options)
        try:
            return attach_container(*common, options, news.digest)
        except AlreadyAttached:
            raise
        except UsageError:
            self._threads[endpoint.url].look_at_end(news.container)  # it may have just ended
            raise

    def _follow_of(self, thread: EngineThread, news: Began | Missed) -> Follow | None:
        labels = news.container.labels
        here = (follow for follow in self.follows if follow.url == thread.endpoint.url)
        return next((follow for follow in here if matches(follow.label, labels)), None)

    def _thread(self, endpoint: Endpoint, labels: Collection[str] = ()) -> EngineThread:
        if endpoint.url not in self._threads:
            thread = self._threads[endpoint.url] = EngineThread(endpoint, self._wake)
            thread.follow(labels)  # before its first event
            thread.start()
        return self._threads[endpoint.url]

    def close(self) -> None:
        for thread in self._threads.values():
            thread.close()
        self._threads.clear()


def noted_pause(row: Job, is_paused: bool) -> tuple[Job, tuple[Event, ...]]:
    """The row of a container that was paused or continued, if that is news."""
    wanted = "paused" if is_paused else "running"
    return paused_or_running(row, is_paused) if row.status in AT_WORK and row.status != wanted else (row, ())
