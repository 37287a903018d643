"""The tracked blocks of this process: opens and closes them, counts what they use, writes their records."""

from __future__ import annotations

import atexit
import json
import os
import sys
import threading
import time
from contextlib import contextmanager
from functools import partial

from jobtop.core import journal
from jobtop.core.clock import BOOTTIME
from jobtop.core.config import load
from jobtop.core.errors import JobtopError, StoreReplaced
from jobtop.core.measure.collectors.proc import cpus_allowed, identify
from jobtop.core.model import Job, Monitor, Status, Usage
from jobtop.core.paths import StatePaths, hostname
from jobtop.core.record import record, replace
from jobtop.core.redact import redact_command, redact_mapping
from jobtop.core.run.request import recorded_environment, sampling_seconds, script_of, user_name
from jobtop.core.run.supervisor import new_id
from jobtop.core.state_files import make_state_dirs
from jobtop.core.track.counters import live_children, own_cpu, own_thread_seconds, read_counters, tree_io
from jobtop.core.track.ends import BlockEnd, ended_block, label_memory, with_exact_cpu
from jobtop.core.track.ledger import Ledger
from jobtop.core.track.params import plain_params
from jobtop.lifecycle.ends import end_events, flag_over_use, judge_alerts, limits_of, observation_in
from jobtop.lifecycle.kinds.registry import PYTHON
from jobtop.lifecycle.recorder import write_private
from jobtop.lifecycle.tracking.client import SamplerClient
from jobtop.lifecycle.tracking.threads import ThreadHook
from jobtop.store.database import open_to_write
from jobtop.store.jobs import Event, Jobs, event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, TypeVar

    from jobtop.core.config import Config
    from jobtop.core.track.counters import Counters

    T = TypeVar("T")

CLOSE_SECONDS = 5.0
READY_SECONDS = 3.0  # for a block that asked for a profile
LATEST_SECONDS = 0.05
PATIENCE_SECONDS = 1.0  # the program waits no longer for a store that another process has locked
NOT_CLOSED = "the interpreter exited before the block was closed"


@record
class BlockRequest:
    """What a caller says about a block."""

    name: str
    tool: str | None = None
    script: str | None = None
    params: object = None
    tags: dict[str, str] | None = None
    note: str | None = None
    external_id: str | None = None
    parent_id: str | None = None
    interval_seconds: float | None = None
    with_profile: bool = False
    without: tuple[str, ...] = ()  # sources that the profile does not need


@record
class BlockResult:
    """How a block ended: the record, and its profile if it asked for one."""

    job: Job
    profile: dict[str, Any] | None = None


class Tracked:
    """An open block."""

    def __init__(self, job: Job, request: BlockRequest, is_stored: bool) -> None:
        self.job, self.request, self.is_stored = job, request, is_stored
        self.process = os.getpid()
        self.before: Counters
        self.children: dict[int, tuple[float, float]] = {}  # those that were there before, and what they had used
        self.start_boottime = 0.0


class Tracker:
    """The open blocks of this process; `warn` is called with what goes wrong."""

    def __init__(self, config: Config, warn: Callable[[str], None]) -> None:
        self.config, self.warn = config, warn
        self.paths = StatePaths(config.text("store.dir"), hostname())
        self.blocks: dict[str, Tracked] = {}
        self._lock = threading.RLock()
        self._ledger = Ledger(own_cpu, own_thread_seconds)
        self._hook = ThreadHook(self)
        self._client: SamplerClient | None = None
        self.process = os.getpid()

    # -- blocks

    def open(self, request: BlockRequest) -> Tracked:
        """Open a block: write its row, start to sample and to count it."""
        with self._lock, self._left_out() as leave_out:
            client = self._sampler()
            job = self._new_record(request)
            is_stored = self._insert(job)
            tracked = Tracked(job, request, is_stored)
            self._hook.install()
            tracked.children = live_children()
            thread = threading.get_native_id()
            tracked.job = replace(job, start_time=time.time())
            tracked.start_boottime = time.clock_gettime(BOOTTIME)
            tracked.before = before = read_counters()
            leave_out()
            self._ledger.open(job.id, request.parent_id, thread)
            self.blocks[job.id] = tracked
            if client is not None and is_stored:
                client.send({"open": self._opening(tracked, before, thread)})
            return tracked

    def close(
        self, tracked: Tracked, status: Status, exit_code: int | None, error: str | None, reason: str | None
    ) -> BlockResult:
        """Close a block: write its end."""
        with self._lock, self._left_out() as leave_out:
            after, elapsed = read_counters(), time.clock_gettime(BOOTTIME) - tracked.start_boottime
            leave_out()
            own = self._ledger.close(tracked.job.id)
            live = live_children()
            self.blocks.pop(tracked.job.id)
            if not self.blocks:
                self._hook.remove()
            answer = self._end_sampling(tracked, elapsed)
            started = {pid for pid in live if pid not in tracked.children}
            children = answered_children(answer)
            if not own.has_overlapped:
                children = children_seconds(tracked, after, live)
            end = BlockEnd(
                status,
                elapsed,
                tracked.before,
                after,
                own,
                children,
                tree_io(started),
                answer.get("unassigned", 0.0) if own.has_overlapped else 0.0,
                exit_code,
                error,
                reason,
                (*self._notes(), *([f"samples: {answer['problem']}"] if "problem" in answer else [])),
            )
            if "cost" in answer:
                monitor = replace(tracked.job.monitor, cpu_seconds=round(answer["cost"], 6))
                tracked.job = replace(tracked.job, monitor=monitor)
            job = self._write_end(tracked, end)
            return BlockResult(job, answer.get("profile"))

    def latest(self, tracked: Tracked) -> dict[str, Any] | None:
        """The newest reading of the sampler; None if there is none yet."""
        if self._client is None or not self._client.poll_ready(0.0):
            return None
        answer = self._client.ask({"latest": tracked.job.id}, LATEST_SECONDS)
        return None if answer is None else answer.get("reading")

    @contextmanager
    def _left_out(self) -> Iterator[Callable[[], None]]:
        """Leave the CPU time of tracking itself out of all blocks; to be called before the ledger is asked."""
        since, thread = time.thread_time(), threading.get_native_id()

        def leave_out() -> None:
            nonlocal since
            now = time.thread_time()
            self._ledger.leave_out(thread, now - since)
            since = now

        try:
            yield leave_out
        finally:
            leave_out()

    # -- threads

    def block_of_thread(self, thread: int) -> str | None:
        with self._lock:
            owners = self._ledger.owners(thread)
            return owners[-1] if owners else None

    def thread_began(self, key: str, thread: int) -> None:
        with self._lock:
            self._ledger.thread_began(key, thread)
            if len(self._ledger) > 1 and self._client is not None:
                self._client.send({"threads": {key: [thread]}})

    def thread_ended(self, key: str, thread: int, seconds: float) -> None:
        with self._lock:
            self._ledger.thread_ended(key, thread, seconds)

    # -- the end of the process, and forks

    def shut_down(self) -> None:
        """Close what is still open when the interpreter exits."""
        for tracked in list(self.blocks.values()):
            self.close(tracked, Status.UNKNOWN, None, None, NOT_CLOSED)
        if self._client is not None:
            self._client.close()
            self._client = None

    def forget(self) -> None:
        """Forget all blocks, in a forked child: they are of the parent."""
        self._lock = threading.RLock()
        self._hook.remove()
        self.blocks.clear()
        self._ledger = Ledger(own_cpu, own_thread_seconds)
        if self._client is not None:
            self._client.forget()
            self._client = None
        self.process = os.getpid()

    # -- parts of opening

    def _sampler(self) -> SamplerClient | None:
        """The connection to the sampler, started with the first block; None if sampling is switched off."""
        if not self.config.boolean("monitor.enabled"):
            return None
        if self._client is not None and self._client.problem is not None:
            self._client = None  # it was killed: the next block has a new one
        if self._client is None:
            self._client = SamplerClient(self.paths.names.root)
            if self._client.problem is not None:
                self.warn(f"blocks are not sampled: {self._client.problem}")
        return self._client

    def _new_record(self, request: BlockRequest) -> Job:
        secret = self.config.texts("run.redact")
        command = tuple(redact_command([sys.executable or "python", *sys.argv], secret))
        me = identify(os.getpid())
        return Job(
            id=new_id(),
            name=request.name,
            command=command,
            host=self.paths.host,
            user=user_name(),
            cwd=current_directory(),
            status=Status.RUNNING,
            kind=PYTHON,
            external_id=request.external_id,
            parent_id=request.parent_id or os.environ.get("JOBTOP_JOB_ID"),
            tool=request.tool or "python",
            script=request.script or script_of(command),
            params=redact_mapping(plain_params(request.params), secret),
            tags=request.tags or {},
            note=request.note,
            pid=me.pid,
            submitted_at=time.time(),
            start_time=time.time(),
            start_boottime=time.clock_gettime(BOOTTIME),
            usage=Usage(cpus_allowed=cpus_allowed()),
            monitor=Monitor(interval_seconds=request.interval_seconds or sampling_seconds(self.config)),
            environment=recorded_environment(os.environ, self.config.texts("run.keep_env"), secret),
            grace_seconds=self.config.duration("run.grace"),
            shim=me,
            recorder=me,
        )

    def _insert(self, job: Job) -> bool:
        """Write the row of a new block; False if the store cannot be written."""
        try:
            started = Event(job.start_time or 0.0, "started", {"pid": job.pid})
            self._with_jobs(lambda jobs: jobs.insert(job, started))
        except JobtopError as error:
            self.warn(f"block {job.name} is not in the history yet: {error}")
            return False
        return True

    def _opening(self, tracked: Tracked, before: Counters, thread: int) -> dict[str, Any]:
        """What the sampler has to know about a new block."""
        live_user = sum(user for user, _ in tracked.children.values())
        live_system = sum(system for _, system in tracked.children.values())
        origin = {
            "cpu.user": before.user_seconds + before.children_user_seconds + live_user,
            "cpu.system": before.system_seconds + before.children_system_seconds + live_system,
        }
        if not tracked.children:
            origin |= before.io
            origin |= {"mem.faults_minor": before.faults_minor, "mem.faults_major": before.faults_major}
        return {
            "key": tracked.job.id,
            "parent": tracked.request.parent_id,
            "start": tracked.start_boottime,
            "thread": thread,
            "threads": self._ledger.threads() if len(self._ledger) > 1 else {},
            "children": list(tracked.children),
            "reaped": [before.children_user_seconds, before.children_system_seconds],
            "origin": origin,
            "interval": tracked.request.interval_seconds,
            "profile": tracked.request.with_profile,
            "without": list(tracked.request.without),
        }

    # -- parts of closing

    def _end_sampling(self, tracked: Tracked, elapsed: float) -> dict[str, Any]:
        """What the sampler says at the end of a block; nothing if it was not ready in time."""
        client = self._client
        if client is None or not tracked.is_stored:
            return {}
        message = {"close": tracked.job.id, "duration": elapsed}
        if not client.poll_ready(READY_SECONDS if tracked.request.with_profile else 0.0):
            client.send(message)
            return {}
        return client.ask(message, CLOSE_SECONDS) or {}

    def _notes(self) -> tuple[str, ...]:
        client = self._client
        return () if client is None or client.problem is None else (f"samples: {client.problem}",)

    def _write_end(self, tracked: Tracked, end: BlockEnd) -> Job:
        """Write the end of a block; where the store cannot be written, into a file that a later verb imports."""
        job = replace(tracked.job, recorder=None, start_boottime=tracked.start_boottime)
        try:
            done = self._with_jobs(partial(self._record_end, job, end))
            journal.write(self.paths.names.log, *journal.outcome(done))
            return done
        except (JobtopError, OSError) as error:
            done = label_memory(ended_block(job, end), end)
            self.warn(f"block {job.name}: its end is not in the history yet: {error}")
            self._keep_late(done)
            return done

    def _record_end(self, job: Job, end: BlockEnd, jobs: Jobs) -> Job:
        row = jobs.insert_or_change(job, event("recorded_late"), lambda row: (row, ()))
        observation = observation_in(jobs, row)
        done = ended_block(replace(job, seq=row.seq), end)
        limit = limits_of(jobs, done)

        def concluded(before: Job) -> tuple[Job, Iterable[Event]]:
            found = replace(done, pinned=before.pinned, note=before.note or done.note, tags=before.tags | done.tags)
            if observation is not None:
                found = with_exact_cpu(observation.of(found), found)
            found = label_memory(found, end)
            found = flag_over_use(found if limit is None else limit(found))
            return found, end_events(before, found, found.end_time or 0.0)

        written = jobs.change(job.id, concluded)
        judge_alerts(jobs, self.paths, row, written, self.config)
        return written

    def _keep_late(self, job: Job) -> None:
        from jobtop.lifecycle.reconcile import to_unrecorded

        names = self.paths.names
        try:
            make_state_dirs(names.root, names.unrecorded)
            write_private(names.late_record(job.id), json.dumps(to_unrecorded(job)))
        except (OSError, JobtopError) as error:
            self.warn(f"block {job.name}: its record cannot be kept: {error}")

    def _with_jobs(self, work: Callable[[Jobs], T]) -> T:
        """Open the store for one piece of work; once more if the file was replaced meanwhile."""
        database = open_to_write(self.paths, self.config.switch("store.network"), PATIENCE_SECONDS)
        try:
            try:
                return work(Jobs(database))
            except StoreReplaced:
                return work(Jobs(database))
        finally:
            database.close()


def children_seconds(tracked: Tracked, after: Counters, live: dict[int, tuple[float, float]]) -> tuple[float, float]:
    """User and system seconds of the children that a block started; `live` has those that have not exited."""
    before = tracked.before
    user = after.children_user_seconds - before.children_user_seconds
    system = after.children_system_seconds - before.children_system_seconds
    for pid, (old_user, old_system) in tracked.children.items():
        if pid not in live:  # it was there before, and was reaped in the block
            user, system = user - old_user, system - old_system
    for pid, (new_user, new_system) in live.items():
        if pid not in tracked.children:
            user, system = user + new_user, system + new_system
    return max(0.0, user), max(0.0, system)


def answered_children(answer: dict[str, Any]) -> tuple[float, float] | None:
    """The CPU time of children as the sampler says it."""
    found = answer.get("children")
    return None if found is None else (found[0], found[1])


def current_directory() -> str:
    try:
        return os.getcwd()
    except OSError:
        return "/"


_TRACKERS: dict[str, Tracker] = {}  # by state directory
_LOCK = threading.Lock()


def tracker(warn: Callable[[str], None]) -> Tracker:
    """The tracker of this process for the state directory of its environment, made at its first use."""
    config = load((), os.environ, current_directory())
    root = config.text("store.dir")
    with _LOCK:
        if root not in _TRACKERS:
            found = _TRACKERS[root] = Tracker(config, warn)
            atexit.register(found.shut_down)
            os.register_at_fork(after_in_child=found.forget)
        return _TRACKERS[root]
