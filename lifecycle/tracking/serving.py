"""What the sampler of a tracked process does: samples it, answers its questions, records blocks that it left open."""

from __future__ import annotations

import gc
import json
import os
import selectors
import socket
import time
from contextlib import suppress

from jobtop.core import journal
from jobtop.core.config import load
from jobtop.core.errors import JobtopError
from jobtop.core.measure.collectors.proc import identify, is_alive
from jobtop.core.measure.collectors.processes import raise_descriptor_limit
from jobtop.core.measure.derive import derive
from jobtop.core.measure.engine import chosen
from jobtop.core.measure.target import Target
from jobtop.core.metrics import JOB_COLUMNS
from jobtop.core.paths import StatePaths, hostname
from jobtop.core.procfs import pid_clock, read_text, stat_fields
from jobtop.core.track.block_engine import BlockEngine
from jobtop.core.track.child_table import ChildTable
from jobtop.core.track.counters import STIME, TICK_SECONDS, UTIME
from jobtop.core.track.ledger import Ledger
from jobtop.core.track.profile import ProfileReader, ProfileTally
from jobtop.core.track.views import View, Views
from jobtop.lifecycle.recording import open_pidfd_of
from jobtop.store.database import open_to_write
from jobtop.store.jobs import Jobs
from jobtop.store.samples.sink import StoreSink

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from jobtop.core.config import Config
    from jobtop.core.model import Identity, Job
    from jobtop.lifecycle.alerts.watching import AlertWatch

CROWDED_SECONDS = 0.05  # between two looks at the children while several blocks are open
PROFILE_SECONDS = 0.5
FLUSH_SECONDS, CLOSE_SECONDS = 2.0, 5.0
EXIT_SECONDS, LOOK_SECONDS = 2.0, 0.01
PART_BYTES = 65536


class Profile:
    """The readings of one block that asked for a profile."""

    def __init__(self, interval_seconds: float, without: Iterable[str] = ()) -> None:
        self.interval_seconds, self.without = interval_seconds, frozenset(without)
        self.tally = ProfileTally()
        self.due = time.monotonic()


class BlockSampler:
    """Samples one process for its blocks."""

    def __init__(self, paths: StatePaths, config: Config, process: Identity) -> None:
        self.paths, self.config, self.process = paths, config, process
        pid = process.pid
        self.ledger = Ledger(lambda: process_cpu(pid), lambda thread: thread_seconds(pid, thread))
        self.children = ChildTable(pid)
        start = (process.start or 0) * TICK_SECONDS
        self.views = Views(f"process {pid}", start, self._used)
        self.profiles: dict[str, Profile] = {}
        self._reader: ProfileReader | None = None
        self._left_out: frozenset[str] = frozenset()  # sources that the reader was opened without
        self._newest: dict[str, Any] = {}
        self._read_at = -float("inf")
        self.engine: BlockEngine | None = None
        self.alerts: AlertWatch | None = None
        self._interval: float | None = None
        self._opened_at: dict[str, float] = {}  # the CPU time of this process when each block was opened

    def open(self, shape: Mapping[str, Any]) -> None:
        """Sample a block from now on."""
        key, parent = shape["key"], shape.get("parent")
        engine = self._engine()
        with engine.lock:
            if not self.views.open:
                self.children.begin(shape["reaped"], shape["children"])
            self.ledger.open(key, parent, shape["thread"])
            self.set_threads(shape.get("threads", {}))
        engine.open(View(key, parent, shape["start"], shape.get("origin", {})))
        interval = shape.get("interval")
        self._opened_at[key] = time.process_time() if self.views.open.keys() - {key} else 0.0
        if shape.get("profile"):
            self.profiles[key] = Profile(interval or PROFILE_SECONDS, shape.get("without", ()))
        if interval is not None:
            self._interval = min(interval, self._interval or interval)
        if self.views.process not in engine.sampler.watches:
            target = Target(self.process, self.views.process_start, includes_root=True)
            engine.adopt(self.views.process, target, self._interval)
        else:  # at once, and then at this interval
            engine.sampler.set_interval(self.views.process, self._interval or 1.0)

    def set_threads(self, threads: Mapping[str, Iterable[int]]) -> None:
        """Take over which threads belong to which block."""
        engine = self._engine()
        with engine.lock:
            for key, numbers in threads.items():
                for thread in numbers:
                    self.ledger.thread_began(key, thread, thread_seconds(self.process.pid, thread) or 0.0)

    def close(self, key: str, shape: Mapping[str, Any]) -> dict[str, Any]:
        """Sample a block no longer; return what its children used, and its profile."""
        if key not in self.views.open or self.engine is None:
            return {}
        self.look()
        with self.engine.lock:
            user, system = self._children_of(key)
            unassigned = self.children.unassigned_seconds
            self.ledger.close(key)
            self.children.forget(key)
        profile = self.profiles.pop(key, None)
        cost = time.process_time() - self._opened_at.pop(key, 0.0)
        answer: dict[str, Any] = {"children": [user, system], "unassigned": unassigned, "cost": cost}
        if profile is not None:
            self._read_profile(key, profile)
            answer["profile"] = profile.tally.summary(shape.get("duration", 0.0), profile.interval_seconds)
        self.engine.leave(key, FLUSH_SECONDS)
        if not self.views.open:
            self.engine.sampler.forget(self.views.process)
            self.children.unassigned_seconds = 0.0
            self._interval = None
        return answer

    def look(self) -> None:
        """Read the children of the process."""
        if self.engine is not None and self.views.open:
            with self.engine.lock:
                owners = {
                    thread: self.ledger.owners(thread)[-1]
                    for threads in self.ledger.threads().values()
                    for thread in threads
                }
                self.children.look(owners, self.ledger.innermost())

    def latest(self, key: str) -> dict[str, Any]:
        """The newest reading of a block."""
        profile = self.profiles.get(key)
        if profile is not None and self._read_at < time.monotonic() - profile.interval_seconds:
            self._read_host()
        return self._reading(key)

    def work(self) -> float | None:
        """Do what is due; seconds until the next call, None if nothing is due by itself."""
        waits: list[float] = []
        if len(self.views.open) > 1:
            self.look()
            waits.append(CROWDED_SECONDS)
        now = time.monotonic()
        for key, profile in self.profiles.items():
            if now >= profile.due:
                self._read_profile(key, profile)
                profile.due = max(profile.due + profile.interval_seconds, now)
            waits.append(max(0.0, profile.due - time.monotonic()))
        return min(waits, default=None)

    def end(self) -> None:
        """Record the blocks that the exited process left open, store everything, and end all threads."""
        left = list(self.views.open)
        deadline = time.monotonic() + EXIT_SECONDS
        while left and is_alive(self.process) and time.monotonic() < deadline:
            time.sleep(LOOK_SECONDS)  # its files are closed before it is gone
        if self.engine is not None:
            for key in left:
                self.engine.leave(key, FLUSH_SECONDS)
            self.engine.close(CLOSE_SECONDS)
        if self._reader is not None:
            self._reader.close()
        with suppress(JobtopError):
            database = open_to_write(self.paths, self.config.switch("store.network"))
            try:
                self._record_ends(Jobs(database), left)
                self._leave_messages(Jobs(database))
            finally:
                database.close()

    def _record_ends(self, jobs: Jobs, keys: list[str]) -> None:
        from jobtop.lifecycle.reconcile import record_end

        for key in keys:
            with suppress(JobtopError):
                record_end(jobs, self.paths, jobs.find(key), self.config)

    def _leave_messages(self, jobs: Jobs) -> None:
        if self.alerts is None or not self.alerts.book.has_messages:
            return
        from jobtop.lifecycle.alerts.messages import Messages, book_of, leave_messages

        def messages() -> Messages:
            return Messages(self.paths, self.config.switch("store.network"), book_of(self.config))

        leave_messages(jobs.database, self.paths, messages, os.environ, False)

    def _engine(self) -> BlockEngine:
        if self.engine is None:
            raise_descriptor_limit()
            network = self.config.switch("store.network")
            if self.config.boolean("alerts.enabled"):
                from jobtop.lifecycle.alerts.watching import AlertWatch

                self.alerts = AlertWatch(self.paths, self.config, self._job)
            tell_of = None if self.alerts is None else self.alerts.tell_of
            sink = StoreSink(self.paths, network, False, self.config, None, tell_of)
            self.engine = BlockEngine(self.views, sink, chosen(self.config, None), self.alerts)
            if self.alerts is not None:
                self.alerts.connect(sink, self.engine.sampler)
            self.engine.start()
            gc.freeze()
        return self.engine

    def _job(self, key: str) -> Job | None:
        """The record of a block, for alert rules."""
        with suppress(JobtopError):
            database = open_to_write(self.paths, self.config.switch("store.network"))
            try:
                return Jobs(database).find(key)
            finally:
                database.close()
        return None

    def _used(self) -> dict[str, tuple[float, float]]:
        """User and system seconds of the threads and children of each block; called with the lock of the engine."""
        own = self.ledger.used()
        children = {key: self._children_of(key) for key in own}
        return {key: (own[key][0] + children[key][0], own[key][1] + children[key][1]) for key in own}

    def _children_of(self, key: str) -> tuple[float, float]:
        """What the children of a block used, and those of the blocks inside of it."""
        user = system = 0.0
        for inner in self.ledger.threads():
            if key in self.ledger.chain(inner):
                used = self.children.used(inner)
                user, system = user + used[0], system + used[1]
        return user, system

    def _read_host(self) -> None:
        unneeded = [profile.without for profile in self.profiles.values()]
        left_out = frozenset.intersection(*unneeded) if unneeded else frozenset[str]()
        if self._reader is not None and not self._left_out <= left_out:  # a new profile needs more
            self._reader.close()
            self._reader = None
        if self._reader is None:
            self._left_out = left_out
            self._reader = ProfileReader({*self.config.texts("monitor.without"), *left_out})
        self._newest, self._read_at = self._reader.read(), time.monotonic()

    def _read_profile(self, key: str, profile: Profile) -> None:
        if self._read_at < time.monotonic() - profile.interval_seconds / 2:
            self._read_host()
        profile.tally.add(self._reading(key))

    def _reading(self, key: str) -> dict[str, Any]:
        view = self.views.open.get(key)
        reading = {"timestamp": time.time(), **self._newest}
        if view is None or view.last is None:
            return reading
        frame = derive(view.before, view.last)
        values = dict(zip(JOB_COLUMNS, view.last.values, strict=True))
        values["cpu.percent"] = frame.values.get("cpu.percent")
        known = {name: value for name, value in values.items() if value is not None}
        return reading | {"elapsed": view.last.elapsed, "job": known}


def process_cpu(pid: int) -> tuple[float, float]:
    """User and system seconds of a process, without its children."""
    fields = stat_fields(pid)
    if len(fields) <= STIME:
        return 0.0, 0.0
    user, system = int(fields[UTIME]) * TICK_SECONDS, int(fields[STIME]) * TICK_SECONDS
    try:
        total = time.clock_gettime(pid_clock(pid))
    except OSError:
        total = user + system
    share = user / (user + system) if user + system > 0 else 1.0
    return total * share, total * (1 - share)


def thread_seconds(pid: int, thread: int) -> float | None:
    """The CPU time of a thread of another process; None if it has exited."""
    words = read_text(f"/proc/{pid}/task/{thread}/schedstat").split()
    return int(words[0]) / 1e9 if words else None


class Connection:
    """The lines that come from the tracked process, and the answers."""

    def __init__(self, sampler: BlockSampler, link: socket.socket) -> None:
        self.sampler, self.link = sampler, link
        self._received = b""

    def is_open(self) -> bool:
        """Handle what has come; False if the other side has hung up."""
        try:
            part = self.link.recv(PART_BYTES)
        except OSError:  # ECONNRESET: it was killed with answers unread
            return False
        self._received += part
        *lines, self._received = self._received.split(b"\n")
        messages = [json.loads(line) for line in lines]
        # A block that was closed again before this process was ready has no samples.
        closed = {message["close"] for message in messages if "close" in message}
        skipped = {
            message["open"]["key"]
            for message in messages
            if "open" in message and message["open"]["key"] in closed and not message["open"].get("profile")
        }
        for message in messages:
            try:
                answer = self._answer(message, skipped)
            except Exception as error:  # noqa: BLE001 - a border: one block must not end the samples of the others
                answer = {"problem": f"{type(error).__name__}: {error}"}
            if "number" in message:
                self.send(answer | {"number": message["number"]})
        return bool(part)

    def send(self, message: dict[str, Any]) -> None:
        with suppress(OSError):
            self.link.sendall(json.dumps(message).encode() + b"\n")

    def _answer(self, message: dict[str, Any], skipped: set[str]) -> dict[str, Any]:
        if "open" in message and message["open"]["key"] not in skipped:
            self.sampler.open(message["open"])
        if "threads" in message:
            self.sampler.set_threads(message["threads"])
        if "close" in message:
            return self.sampler.close(message["close"], message)
        if "latest" in message:
            return {"reading": self.sampler.latest(message["latest"])}
        return {}


def serve(root: str, pid: int) -> None:
    """Serve the process on standard input until it exits or hangs up."""
    process = identify(pid)
    config = load((f"store.dir={root}",), os.environ, os.getcwd())
    paths = StatePaths(root, hostname())
    sampler = BlockSampler(paths, config, process)
    try:
        with socket.socket(fileno=os.dup(0)) as link, selectors.DefaultSelector() as selector:
            connection = Connection(sampler, link)
            selector.register(link, selectors.EVENT_READ)
            exit_fd = open_pidfd_of(process)  # a forked child may hold the other end of the socket
            if exit_fd is not None:
                selector.register(exit_fd, selectors.EVENT_READ)
            connection.send({"ready": True})
            while True:
                ready = [key.fd for key, _ in selector.select(sampler.work())]
                if exit_fd in ready or (ready and not connection.is_open()):
                    break
            sampler.end()
            link.shutdown(socket.SHUT_RDWR)
    except Exception as error:  # noqa: BLE001 - a border: the tracked process goes on without samples
        with suppress(OSError):
            journal.write(paths.names.log, "ERROR", f"sampler of process {pid}: {type(error).__name__}: {error}")
        with suppress(Exception):
            sampler.end()
