"""The parent of every job: starts it, reaps it, counts it, keeps its output. Standard library only.

Executed as `python -I -S -c BOOTSTRAP SPEC_FD STATUS_FD CODE_BYTES …`; its code comes through the first pipe, before
the job's description: so it needs no file and no compiler, and an upgrade of jobtop cannot change it. It imports
nothing after its start and never touches the store: it leaves `started`, `ended` and `marks` in the job's directory,
lines of `key value`, and the same text, ended by a NUL, on the status pipe while somebody reads it.
"""

import errno
import fcntl
import marshal
import os
import select
import time

from jobtop.core.procfs import (
    BOOTTIME,
    FORWARDED,
    OVER_LIMIT_SIGNAL,
    SAME_REQUEST_SECONDS,
    SHIM_NAME,
    descendants,
    read_text,
    signal_descendants,
    signals,
    start_ticks,
    status_value,
)
from jobtop.core.shim.output import BUFFER_BYTES, Log, Stream, c_call, complain, complaints, read_to_end, write_all
from jobtop.core.shim.revival import PR_SET_CHILD_SUBREAPER, Revival, revive
from jobtop.core.shim.start import become_job, join_cgroup
from jobtop.core.shim.totals import Ledger, cpu_nanoseconds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

WALL = 0x40000000  # __WALL: children made by clone() without SIGCHLD too
F_SETPIPE_SZ = 1031
INTERRUPTING = (signals.SIGINT, signals.SIGHUP, signals.SIGQUIT)
TO_MAIN_ONLY = (signals.SIGUSR1, signals.SIGUSR2)  # their default action ends a process that does not expect them
CENSUS_FIRST_SECONDS, CENSUS_LAST_SECONDS = 0.004, 2.0
CENSUS_COST_RATIO = 40  # a look may cost 1/40 of the time while there is news …
CENSUS_STABLE_COST_RATIO = 200  # … and 1/200 while there is none
READER_SECONDS = 1.0
RESERVED_BYTES = 16 * 1024
DYING_SECONDS = 0.2
ASK_AGAIN_SECONDS = 0.2
LAUNCHER_SECONDS = 1.0  # whoever starts a detached job also starts an agent for it
SHORTEST_LOOK_SECONDS = 0.02
FASTEST_BYTES = 4 << 30  # a second that a job can write to its log
MARK_SECONDS = ((3600.0, 1.0), (14400.0, 5.0), (float("inf"), 10.0))  # age of the job: seconds between marks


class TerminalStream(Stream):
    """The output of a job with a terminal; `run` holds the master too, so that closing ours would say nothing."""

    def reader_left(self) -> None:
        self.drop_sink()
        signal_descendants(os.getpid(), signals.SIGHUP)
        signal_descendants(os.getpid(), signals.SIGCONT)


class Shim:
    """Supervises one job, from the fork of its main process to the death of its last descendant."""

    def __init__(self, spec: "dict[str, Any]", status_fd: int) -> None:
        self.spec, self.status_fd = spec, status_fd
        self.pid = os.getpid()
        self.main = 0
        self.main_status: int | None = None
        self.exec_error: tuple[str, int] | None = None
        self.start = self.end = self.last = (0.0, 0.0)
        self.ledger = Ledger(self.pid)
        self.looked_seconds = 0.0
        self.before_cgroup_seconds = 0.0
        self.streams: list[Stream] = []
        self.output_errors: list[str] = []
        self.logs: list[Log | None] = []
        self.stop_cause: str | None = None
        self.stopped_at = 0.0
        self.asked: frozenset[int] = frozenset()
        self.ask_again_at: float | None = None
        self.interrupted_at = -float("inf")
        self.abandon_at: float | None = None
        self.report_at: float | None = None
        self.deadline: float | None = None
        self.kill_at: float | None = None
        self.kill_seconds = 0.02
        self.killed: list[tuple[int, str]] = []
        self.reported = False
        self.last_mark: tuple[int, ...] = ()
        self.next_mark = 0.0
        self.log_directory = -1  # where the job writes its logs itself
        self.log_sizes: tuple[int, ...] = ()
        self.look_at: float | None = None
        self.next_census = 0.0
        self.census_seconds = CENSUS_FIRST_SECONDS
        self.revival: Revival | None = None
        self.revive_at: float | None = None

    # -- start

    def launch(self, callers_fds: "set[int]") -> None:
        """Fork the main process, commit to the start by creating `started`, then let it execute the command."""
        outputs = self.open_outputs()
        go_read, go_write = os.pipe()
        answer_read, answer_write = os.pipe()
        self.main = os.fork()
        if self.main == 0:
            os.close(go_write)
            become_job(self.spec, go_read, answer_write, outputs)
        for fd in {go_read, answer_write, *(outputs if self.spec["output"] != "log" else ())}:
            os.close(fd)
        for fd in callers_fds:  # the job has them now; a lock or a pipe of the caller's is not ours to hold
            os.close(fd)
        joined = os.read(answer_read, 64)
        self.before_cgroup_seconds = (cpu_nanoseconds(self.main) or 0) / 1e9  # it has joined, and waits now
        for directory, answer in zip(self.spec["cgroup_dirs"], joined[1:].decode(), strict=False):
            if answer == "n":  # what the job never entered is no evidence
                evidence = self.spec["evidence"]
                self.spec["evidence"] = [row for row in evidence if not row[1].startswith(directory)]
                self.spec["limits"] = without_cgroup(self.spec["limits"], directory)
        self.ledger.main = self.main
        self.ledger.hold_io(self.main)
        self.start = now()
        begun = self.leave_started()
        if begun is None:
            os._exit(0)
        write_all(go_write, b"g")
        os.close(go_write)
        words = read_to_end(answer_read).decode().split()
        if words:
            self.ledger.floor_kib = int(words[0]) + exec_kib(self.spec)
        if len(words) == 3:
            self.exec_error = (words[1], int(words[2]))
        else:
            self.tell(begun)
        self.close_unused()
        if self.spec["output"] == "log" and self.spec["dir"]:
            self.watch_logs()
        started = time.monotonic()
        self.next_census = started + CENSUS_FIRST_SECONDS
        self.next_mark = started + MARK_SECONDS[0][1]
        self.deadline = started + self.spec["timeout"] if self.spec["timeout"] is not None else None

    def open_outputs(self) -> tuple[int, int]:
        """The two descriptors the job writes to; streams and logs are set up behind them."""
        spec, directory = self.spec, self.spec["dir"]
        together = spec["output"] == "pty" or (spec["output"] == "pump" and go_together(1, 2))
        names = ("stdout.log",) if together else ("stdout.log", "stderr.log")
        self.logs = [Log(os.path.join(directory, name), spec["log_max"]) if directory else None for name in names]
        if spec["output"] == "log":
            fds = [log.fd if log is not None and log.fd >= 0 else os.open(os.devnull, os.O_WRONLY) for log in self.logs]
            return fds[0], fds[1]
        if spec["output"] == "pty":
            self.streams = [TerminalStream(spec["master"], os.dup(1), self.logs[0])]
            return spec["slave"], spec["slave"]
        writers = []
        for number, log in enumerate(self.logs):
            reader, writer = os.pipe()
            try:
                fcntl.fcntl(writer, F_SETPIPE_SZ, 2 * BUFFER_BYTES)  # fewer switches for a talkative job
            except OSError:  # not Linux, or this user's allowance for pipes is used up
                pass
            self.streams.append(Stream(reader, os.dup(number + 1), log))
            writers.append(writer)
        return writers[0], writers[-1]

    def close_unused(self) -> None:
        """Keep nothing that would hold a terminal or a pipe open for longer than the job does."""
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1) if self.spec["output"] != "log" else (0, 1, 2):
            os.dup2(null, fd)
        os.close(null)

    def leave_started(self) -> bytes | None:
        """Create `started` and return its text; None if it exists already: this job runs, or ran, elsewhere."""
        text = lines(
            ("version", 1),
            ("boot", self.spec["boot"]),
            ("shim", f"{self.pid} {start_ticks(self.pid)}"),
            ("main", f"{self.main} {start_ticks(self.main)}"),
            ("start", f"{self.start[0]:.6f} {self.start[1]:.6f}"),
            *self.limits(),
            ("subreaper", int(self.spec["subreaper"])),
            *(("cgroup", directory) for directory in self.spec["cgroup_dirs"]),
        )
        if self.spec["dir"]:
            path = os.path.join(self.spec["dir"], "started")
            try:
                fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
                write_all(fd, text)
                os.close(fd)
                reserve(os.path.join(self.spec["dir"], "ended.new"))
            except FileExistsError:
                return None
            except OSError as error:
                complain(f"cannot keep this job's record in {self.spec['dir']}: {os.strerror(error.errno or 0)}")
        return text

    def tell(self, text: bytes) -> None:
        if self.status_fd >= 0:
            try:
                write_all(self.status_fd, text + b"\0")
            except OSError:  # the files tell
                self.recorder_left()

    def recorder_left(self) -> None:
        """Whoever started us is gone. If the job is to be sampled and runs on, an agent has to do it."""
        os.close(self.status_fd)
        self.status_fd = -1
        if self.spec["keeper"] is not None and self.main_status is None:
            seat, command = self.spec["keeper"]
            delay = LAUNCHER_SECONDS if self.spec["output"] == "log" else 0.0
            self.revival = Revival(seat, command, is_needed=True, delay_seconds=delay)
            self.revive_at = time.monotonic()

    # -- watch

    def supervise(self, wakeup_fd: int) -> None:
        """Pump, reap, count and obey until the last descendant is gone and its output is delivered."""
        while True:
            alive = self.reap()
            open_streams = self.pump()
            if not alive and open_streams and self.reader_had_its_time():
                self.abandon_readers()
                open_streams = self.pump()
            if not alive and not open_streams:
                break
            if self.main_status is not None and not self.reported and self.may_report():
                self.main_ended()
            self.attend()
            self.wait(wakeup_fd)
        self.last = now()
        self.ledger.note_discarded()
        self.report(final=True)

    def wait(self, wakeup_fd: int) -> None:
        """Sleep until output, room for output, a signal or a due time."""
        poll = select.poll()
        poll.register(wakeup_fd, select.POLLIN)
        for stream in self.streams:
            if stream.pending is not None:
                poll.register(stream.twin if stream.twin >= 0 else stream.sink, select.POLLOUT)
            elif stream.source >= 0:
                poll.register(stream.source, select.POLLIN)
        if self.status_fd >= 0:
            poll.register(self.status_fd, 0)  # POLLERR: nobody reads it any more
        due = [self.next_census, self.next_mark, self.deadline, self.ask_again_at, self.kill_at, self.abandon_at]
        due.append(self.report_at if not self.reported and not self.readers_behind() else None)
        due += [self.revive_at, self.look_at]
        wait = min(at for at in due if at is not None) - time.monotonic()
        for fd, _ in poll.poll(max(0, int(wait * 1000) + 1)):
            if fd == wakeup_fd:
                for number in os.read(wakeup_fd, 4096):
                    self.handle(number)
            elif fd == self.status_fd:
                self.recorder_left()

    def handle(self, number: int) -> None:
        """TERM stops the job in order; the others are passed on."""
        if number == signals.SIGTERM:
            self.stop("signal")
        elif number == signals.SIGIO:
            self.look_at = time.monotonic()
        elif number == OVER_LIMIT_SIGNAL:
            self.stop_cause = self.stop_cause or "limit"
            self.kill_at = time.monotonic()
        elif number in TO_MAIN_ONLY and self.main_status is None:
            os.kill(self.main, number)
        elif number in FORWARDED:
            if number in INTERRUPTING:
                self.interrupted_at = time.monotonic()
            signal_descendants(self.pid, number)

    def reader_had_its_time(self) -> bool:
        """Whether a job that was told to end is gone for so long that nobody waits for its reader any more."""
        moment = time.monotonic()
        told = self.stop_cause is not None or moment - self.interrupted_at <= self.spec["grace"]
        if self.abandon_at is None and told:
            self.abandon_at = moment + READER_SECONDS
        return self.abandon_at is not None and moment >= self.abandon_at

    def may_report(self) -> bool:
        """Not while output waits, nor at once: who ends with the job, told to or not, is not left running."""
        moment = time.monotonic()
        if self.report_at is None:
            self.report_at = moment + DYING_SECONDS
        return moment >= self.report_at and not self.readers_behind()

    def readers_behind(self) -> bool:
        return any(stream.pending is not None for stream in self.streams)

    def abandon_readers(self) -> None:
        """After a stop nobody waits for a reader that does not read; the log still gets everything."""
        for stream in self.streams:
            stream.push()
            stream.drop_sink()

    def pump(self) -> bool:
        """Move what can be moved now; True while a stream is open."""
        for stream in self.streams:
            for _ in range(16):
                if stream.pending is not None:
                    stream.push()
                if stream.pending is not None or stream.source < 0 or not stream.pull():
                    break
        self.output_errors += [stream.error for stream in self.streams if stream.source < 0 and stream.error]
        self.streams = [stream for stream in self.streams if stream.source >= 0]
        return bool(self.streams)

    def reap(self) -> bool:
        """Take in every dead child; False when there is none left, dead or alive."""
        while True:
            try:
                if hasattr(os, "waitid"):
                    # P_ALL with WNOWAIT: a zombie's status and its io descriptor can still be read.
                    found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT | WALL)
                    if found is None:
                        return True
                    self.ledger.read_zombie(found.si_pid)
                    pid, status, usage = os.wait4(found.si_pid, WALL)
                else:
                    pid, status, usage = os.wait4(-1, os.WNOHANG)
                    if pid == 0:
                        return True
            except ChildProcessError:
                return False
            self.ledger.count(pid, usage)
            if pid == self.main:
                self.main_status, self.end = status, now()

    def attend(self) -> None:
        """What is due by the clock."""
        moment = time.monotonic()
        if self.deadline is not None and moment >= self.deadline:
            self.deadline = None
            self.stop("timeout")
        if self.ask_again_at is not None and moment >= self.ask_again_at:
            self.ask_to_end()
        if self.kill_at is not None and moment >= self.kill_at:
            self.ask_again_at = None
            reached = signal_descendants(self.pid, signals.SIGKILL)
            known = {pid for pid, _ in self.killed}
            if self.stop_cause != "limit":  # else nobody was asked to end before
                self.killed.extend(item for item in reached if item[0] not in known and len(self.killed) < 100)
            self.kill_seconds = min(self.kill_seconds * 2, 1.0)
            self.kill_at = moment + self.kill_seconds
        if self.revive_at is not None and self.revival is not None and moment >= self.revive_at:
            self.revive_at = self.revival.step(moment) if self.main_status is None else None
        if moment >= self.next_census:
            began = time.process_time()
            ratio = CENSUS_COST_RATIO if self.ledger.census() else CENSUS_STABLE_COST_RATIO
            self.looked_seconds = now()[1] - self.start[1]
            wait = max(self.census_seconds, (time.process_time() - began) * ratio)
            self.next_census = time.monotonic() + wait
            self.census_seconds = min(self.census_seconds * 2, CENSUS_LAST_SECONDS)
        if self.look_at is not None and moment >= self.look_at:
            self.look_at = self.look_at_logs(moment)
        if moment >= self.next_mark:
            self.mark()
            age = now()[1] - self.start[1]
            self.next_mark = moment + next(step for until, step in MARK_SECONDS if age < until)

    def stop(self, cause: str) -> None:
        """TERM to all, and after the grace, or when told again, KILL to all until none is left."""
        moment = time.monotonic()
        if self.stop_cause is not None:
            if moment - self.stopped_at >= SAME_REQUEST_SECONDS:
                self.kill_at = moment
            return
        self.stop_cause, self.stopped_at = cause, moment
        self.kill_at = moment + self.spec["grace"]
        self.ask_to_end()

    def ask_to_end(self) -> None:
        """TERM to whoever has not had it: one may have been forked while the others were told."""
        asked = signal_descendants(self.pid, signals.SIGTERM, but=self.asked)
        signal_descendants(self.pid, signals.SIGCONT, but=self.asked)
        self.asked |= {pid for pid, _ in asked}
        self.ask_again_at = time.monotonic() + ASK_AGAIN_SECONDS

    def main_ended(self) -> None:
        """The job is over; what becomes of its descendants is the caller's choice."""
        choice = self.spec["after_exit"]
        if choice == "kill" and self.stop_cause is None:
            self.stop("after_exit")
        if choice == "leave" and self.stop_cause is None and self.exec_error is None:
            self.ledger.census()
            self.last = self.end
            self.report(final=False)
        self.reported = True

    def watch_logs(self) -> None:
        """Have the kernel say once when a log grows that the job writes itself. Of inotify a user has few instances."""
        try:
            if self.log_directory < 0:
                signals.signal(signals.SIGIO, lambda *_: None)
                self.log_directory = os.open(self.spec["dir"], os.O_RDONLY | os.O_CLOEXEC)
            fcntl.fcntl(self.log_directory, fcntl.F_NOTIFY, fcntl.DN_MODIFY)
        except (OSError, AttributeError):  # not Linux, or built without: what grows is seen with the next mark
            return

    def look_at_logs(self, moment: float) -> float | None:
        """Trim the logs; when they could be too long again, None once they do not grow: then the kernel says."""
        sizes = tuple(log.size() for log in self.logs if log is not None)
        if sizes == self.log_sizes:
            self.watch_logs()
            return None
        self.log_sizes = sizes
        for log in self.logs:
            if log is not None:
                log.trim()
        room = min((log.room() for log in self.logs if log is not None), default=float("inf"))
        return moment + min(max(SHORTEST_LOOK_SECONDS, room / FASTEST_BYTES), MARK_SECONDS[0][1])

    def mark(self) -> None:
        """Note how long the logs are now, so that output can be placed in time."""
        sizes = tuple(log.size() if log is not None else 0 for log in self.logs)
        for log in self.logs:
            if log is not None:
                log.trim()
        if self.spec["dir"] and sizes != self.last_mark:
            self.last_mark = sizes
            self.look_at = self.look_at or (time.monotonic() if self.spec["output"] == "log" else None)
            line = f"{now()[1] - self.start[1]:.3f} {' '.join(map(str, sizes))}\n"
            try:
                fd = os.open(
                    os.path.join(self.spec["dir"], "marks"),
                    os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC,
                    0o600,
                )
                write_all(fd, line.encode())
                os.close(fd)
            except OSError:
                return

    # -- end

    def report(self, final: bool) -> None:
        """Tell and keep how it ended; with descendants left, once more when they are gone too."""
        self.mark()
        text = lines(*self.facts(final))
        self.tell(text)
        if self.status_fd >= 0:
            os.close(self.status_fd)
            self.status_fd = -1
        if self.spec["dir"]:
            if not self.reported:
                make_directory(self.spec["dir"])  # it may have been deleted or moved with the state directory
            keep(os.path.join(self.spec["dir"], "ended"), text)
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 2)
        os.close(null)
        if final:
            remove_cgroups(self.spec["cgroup_dirs"])

    def limits(self) -> "Iterator[tuple[str, object]]":
        """What is made to hold, and how."""
        for what, how, where in self.spec["limits"]:
            yield "limit", f"{what} {how}{f': {where}' if how == 'nothing' else ''}"
            yield "memory_limit", self.spec["memory_limit"] if how == "sampling" else None

    def facts(self, final: bool) -> "Iterator[tuple[str, object]]":
        """How it ended, and all evidence of what it used."""
        yield "version", 1
        yield "final", int(final)
        yield "exec_error", f"{self.exec_error[0]} {self.exec_error[1]}" if self.exec_error else None
        yield "status", self.main_status
        for name, moment in (("start", self.start), ("end", self.end), ("last", self.last)):
            yield name, f"{moment[0]:.6f} {moment[1]:.6f}"
        yield from self.ledger.counts()
        yield "looked", f"{self.looked_seconds:.6f}"
        yield "before_cgroup", f"{self.before_cgroup_seconds:.6f}"
        yield "left", 0 if final else len(descendants(self.pid))
        yield "discarding", self.ledger.discarding
        yield "subreaper", int(self.spec["subreaper"])
        yield "stop", self.stop_cause
        yield from self.limits()
        for pid, name in self.killed:
            yield "killed", f"{pid} {name}"
        for log in self.logs:
            if log is not None:
                yield "log", log.size()
                yield "log_error", log.error
        yield "agent_error", self.revival.error if self.revival is not None else None
        yield "output_error", self.output_errors[0] if self.output_errors else None
        yield "complained", complaints[0] if complaints else None
        yield "oom_before", self.spec["oom_before"]
        for label, path, start in self.spec["evidence"]:
            kept = [line for line in read_text(path).split("\n") if line.startswith(start)]
            yield f"cgroup.{label}", "\n".join(kept)
        yield "counted", "{:.6f} {:.6f}".format(*now())
        yield "own_cpu", f"{time.process_time():.6f}"
        yield "own_rss", status_value(self.pid, "VmHWM:") * 1024


def without_cgroup(limits: "list[tuple[str, str, str]]", directory: str) -> "list[tuple[str, str, str]]":
    """What a cgroup was to hold that the job could not enter: memory is left to whoever samples it, CPUs to nobody."""
    lost = {"memory": ("memory", "sampling", ""), "cpus": ("cpus", "nothing", "it could not enter its cgroup")}
    return [lost[row[0]] if row[2] == directory else row for row in limits]


def exec_kib(spec: "dict[str, Any]") -> int:
    """What the exec itself adds to the launcher's mark: the words are copied, and charged to us by the kernel."""
    words = [*spec["argv"], *spec["env"], *spec["env"].values()]
    return (3 * sum(map(len, words)) + 200 * len(words)) // 1024


def now() -> tuple[float, float]:
    """Wall clock and time since boot, suspended time included."""
    return time.time(), time.clock_gettime(BOOTTIME)


def lines(*facts: "tuple[str, object]") -> bytes:
    """`key value` lines of what is known; a value never holds a line break of its own."""
    known = ((key, str(value)) for key, value in facts if value is not None)
    escaped = ((key, value.replace("\\", "\\\\").replace("\n", "\\n")) for key, value in known)
    return "".join(f"{key} {value}\n" for key, value in escaped).encode("utf-8", "surrogateescape")


def reserve(draft: str) -> None:
    """Room for the end of the job, so that it can be told on a disk that the job has filled."""
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(fd, 0, RESERVED_BYTES)
    finally:
        os.close(fd)


def make_directory(path: str) -> None:
    """A directory for this user only, and what is missing above it."""
    if not os.path.isdir(path):
        make_directory(os.path.dirname(path))
        try:
            os.mkdir(path, 0o700)
        except OSError:  # it is there by now, or what follows says why it is not
            return


def keep(path: str, text: bytes) -> None:
    """Write a file so that it is there whole or not at all, whatever is killed or unplugged."""
    draft = path + ".new"
    try:
        fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        write_all(fd, text)
        os.ftruncate(fd, len(text))
        os.fsync(fd)
        os.close(fd)
        os.rename(draft, path)
    except OSError as error:
        if os.path.exists(draft):
            os.unlink(draft)
        complain(f"cannot keep the end of this job in {path}: {os.strerror(error.errno or 0)}")


def go_together(one: int, other: int) -> bool:
    """Whether two descriptors lead to the same place: then one pipe keeps what is written to them in order."""
    first, second, null = os.fstat(one), os.fstat(other), os.stat(os.devnull)
    return (first.st_dev, first.st_ino) == (second.st_dev, second.st_ino) and first.st_rdev != null.st_rdev


def open_fds() -> "set[int]":
    """The descriptors we hold, but for the one that lists them."""
    for directory in ("/proc/self/fd", "/dev/fd"):
        if os.path.isdir(directory):
            found = {int(name) for name in os.listdir(directory)}
            return {fd for fd in found if is_open(fd)}
    return set()


def is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def rename(name: str) -> None:
    """Be known to ps and to outer shims by this name."""
    try:
        fd = os.open("/proc/self/comm", os.O_WRONLY | os.O_CLOEXEC)
        write_all(fd, name.encode())
        os.close(fd)
    except OSError:
        return


def remove_cgroups(directories: "list[str]") -> None:
    """Remove the job's own cgroups and those of jobs inside it; a dying task may hold one for a moment."""
    for directory in directories:
        inner = os.listdir(directory) if os.path.isdir(directory) else []
        remove_cgroups([os.path.join(directory, name) for name in inner if name.startswith("jobtop-")])
        for _ in range(100):
            try:
                os.rmdir(directory)
            except OSError as error:
                if error.errno == errno.EBUSY:
                    time.sleep(0.01)
                    continue
            break


def read_exactly(fd: int, count: int) -> bytes:
    """So many bytes, or fewer if no more will come."""
    data = b""
    while part := os.read(fd, count - len(data)):
        data += part
    return data


def read_spec(fd: int) -> "dict[str, Any] | None":
    """The job to run, from the pipe of whoever wants it; None if they went away before saying."""
    try:
        spec: dict[str, Any] = marshal.loads(read_to_end(fd))
    except (EOFError, ValueError):
        return None
    return spec


def catch_signals() -> int:
    """Turn signals into bytes of a pipe; what was ignored at our start stays ignored, for the job too."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signals.set_wakeup_fd(writer, warn_on_full_buffer=False)
    for number in (signals.SIGTERM, signals.SIGCHLD, OVER_LIMIT_SIGNAL, *FORWARDED):
        if number == signals.SIGCHLD or signals.getsignal(number) != signals.SIG_IGN:
            signals.signal(number, lambda *_: None)
    return reader


def main(arguments: list[str]) -> None:
    """Come up, wait for the job, supervise it to its end."""
    if os.getsid(0) != os.getpid():
        os.setsid()
    rename(SHIM_NAME)
    callers_fds = open_fds() - {0, 1, 2, int(arguments[0]), int(arguments[1])}
    order_fd, status_fd, _, prelude_bytes = map(int, arguments)
    procs, possible_cgroups, keeper = marshal.loads(read_exactly(order_fd, prelude_bytes))
    # The first move between cgroups in a while waits for an RCU grace period, 20 ms: better now, while the store opens.
    if procs is not None:
        join_cgroup(procs)
    spec = read_spec(order_fd)
    if spec is None:
        remove_cgroups(possible_cgroups)
        revive(keeper)
        return
    wakeup_fd = catch_signals()
    spec["subreaper"] = c_call("prctl", PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    for fd in (status_fd, spec["master"], spec["slave"]):
        if fd >= 0:
            os.set_inheritable(fd, False)
    shim = Shim(spec, status_fd)
    try:
        shim.launch(callers_fds - {spec["master"], spec["slave"]})
    except OSError as error:
        shim.exec_error = ("start", error.errno or 0)
        shim.start = shim.end = shim.last = now()
        shim.report(final=True)
        revive(keeper)
        return
    shim.supervise(wakeup_fd)
    revive(keeper)
