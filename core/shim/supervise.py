"""The shim: the parent of every job, which starts it, reaps it, counts it and keeps its output.

It is executed as `python -I -S -c BOOTSTRAP ORDER_FD STATUS_FD CODE_BYTES PRELUDE_BYTES`. Its code comes through the
first pipe, before the order: it needs no file and no compiler, and an upgrade of jobtop cannot change a running shim.
It uses the standard library only, imports nothing later and never opens the store. It leaves `started`, `ended` and
`marks` in the directory of the job, and sends the first two to the status pipe while a process reads that pipe.
"""

import os
import select
import time

from jobtop.core.procfs import FORWARDED, OVER_LIMIT_SIGNAL, SHIM_NAME, signal_descendants, signals
from jobtop.core.shim.cgroups import forget_cgroup, join_cgroup, remove_cgroups
from jobtop.core.shim.facts import StatusPipe, create_started, make_directory, text_of, write_ended
from jobtop.core.shim.logs import JobLogs
from jobtop.core.shim.order import read_order, read_prelude
from jobtop.core.shim.output import Pump
from jobtop.core.shim.own_process import catch_signals, open_fds, replace_by_null, set_name
from jobtop.core.shim.report import ended_facts, started_facts
from jobtop.core.shim.revival import PR_SET_CHILD_SUBREAPER, Revival, revive_killed_agent
from jobtop.core.shim.start import Launch
from jobtop.core.shim.stopping import Stopping
from jobtop.core.shim.system_calls import c_call, now
from jobtop.core.shim.terminal import Keyboard, end_holder, start_holder
from jobtop.core.shim.totals import Census, Ledger, cpu_nanoseconds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jobtop.core.shim.order import Order

WALL = 0x40000000  # __WALL: also wait for children that clone() made without SIGCHLD
INTERRUPTING = (signals.SIGINT, signals.SIGHUP, signals.SIGQUIT)
TO_MAIN_ONLY = (signals.SIGUSR1, signals.SIGUSR2)  # their default action ends a process that does not handle them
EXITING_SECONDS = 0.2  # for descendants to exit together with the main process
LAUNCHER_SECONDS = 1.0  # the process that starts a detached job also starts an agent for it


class Shim:
    """Supervises one job, from the fork of its main process until its last descendant has exited."""

    def __init__(self, order: "Order", status_fd: int, is_subreaper: bool) -> None:
        self.order, self.is_subreaper = order, is_subreaper
        self.pid = os.getpid()
        self.main = 0
        self.main_status: int | None = None
        self.exec_error: tuple[str, int] | None = None
        self.start = self.end = self.last = (0.0, 0.0)
        self.before_cgroup_seconds = 0.0
        self.is_reported = False
        self.report_at: float | None = None
        self.status_pipe = StatusPipe(status_fd)
        self.ledger = Ledger(self.pid)
        self.census = Census(self.ledger)
        self.stopping = Stopping(self.pid, order["grace"])
        self.logs = JobLogs(order["directory"], order["log_max"])
        self.pump = Pump()
        self.keyboard: Keyboard | None = None
        self.revival: Revival | None = None

    def launch(self, callers_fds: "set[int]") -> None:
        """Fork the main process, commit to the start by creating `started`, then let it execute the command."""
        order, directory = self.order, self.order["directory"]
        outputs = self.pump.open(order, self.logs)
        launch = Launch(order, outputs)
        slave = {order["terminal"]["slave"]} if order["terminal"] is not None else set()
        for fd in {*callers_fds, *slave, *outputs} - {log.fd for log in self.logs.files}:
            os.close(fd)  # the job has them now; the shim must not hold a lock or a pipe of the caller
        refused = launch.refused_cgroups()
        self.main = self.ledger.main = launch.pid
        self.before_cgroup_seconds = (cpu_nanoseconds(self.main) or 0) / 1e9  # it has joined them, and waits now
        for cgroup in refused:
            forget_cgroup(order, cgroup)
        self.ledger.open_io(self.main)
        self.start = now()
        started = text_of(started_facts(self))
        if directory and not create_started(directory, started):
            os._exit(0)
        self.ledger.floor_kib, self.exec_error = launch.execute()
        if self.exec_error is None:
            if directory and order["terminal"] is not None and 0 in order["terminal"]["replaced"]:
                self.keyboard = Keyboard(directory, order["terminal"])
            self.tell(started)
        replace_by_null(*((0, 1, 2) if order["is_detached"] else (0, 1)))
        moment = time.monotonic()
        self.logs.begin(moment, self.start[1])
        self.census.begin(moment, self.start[1])
        self.stopping.begin(moment, order["timeout"])

    def tell(self, text: bytes) -> None:
        if not self.status_pipe.send(text):
            self.recorder_left()

    def recorder_left(self) -> None:
        """The process that records the job has exited; an agent has to sample a job that still runs."""
        self.status_pipe.close()
        if self.order["successor"] is not None and self.main_status is None:
            delay = LAUNCHER_SECONDS if self.order["is_detached"] else 0.0
            self.revival = Revival(*self.order["successor"], is_needed=True, delay_seconds=delay)

    def supervise(self, wakeup_fd: int) -> None:
        """Move output, reap and handle signals until the last descendant has exited and its output is written."""
        while True:
            has_children = self.reap()
            has_output = self.pump.move()
            if self.keyboard is not None:
                self.keyboard.move()
            if not has_children and has_output and self.may_abandon_readers():
                self.pump.abandon_readers()
                has_output = self.pump.move()
            if not has_children and not has_output:
                break
            if self.main_status is not None and not self.is_reported and self.may_report():
                self.main_ended()
            self.attend()
            self.wait(wakeup_fd)
        self.last = now()
        self.ledger.note_discarded()
        self.report(is_final=True)

    def reap(self) -> bool:
        """Reap and count every exited child; False if no child is left."""
        while True:
            try:
                if hasattr(os, "waitid"):
                    # WNOWAIT: the files of a zombie can still be read.
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

    def may_abandon_readers(self) -> bool:
        moment = time.monotonic()
        return self.pump.may_abandon_readers(moment, self.stopping.is_requested(moment))

    def may_report(self) -> bool:
        """Whether the end of the main process can be reported: descendants had time to exit, and no output waits."""
        moment = time.monotonic()
        if self.report_at is None:
            self.report_at = moment + EXITING_SECONDS
        return moment >= self.report_at and not self.pump.waits_for_reader()

    def main_ended(self) -> None:
        """Do with the descendants that are left what `after_exit` says."""
        choice, is_stopping = self.order["after_exit"], self.stopping.cause is not None
        if choice == "kill" and not is_stopping:
            self.stopping.stop("after_exit")
        if choice == "leave" and not is_stopping and self.exec_error is None:
            self.ledger.census()
            self.last = self.end
            self.report(is_final=False)
        self.is_reported = True

    def attend(self) -> None:
        """Let each part do what is due."""
        moment = time.monotonic()
        self.stopping.attend(moment)
        if self.revival is not None:
            if self.main_status is not None:
                self.revival.cancel()
            self.revival.attend(moment)
        self.census.attend(moment)
        self.logs.attend(moment)

    def wait(self, wakeup_fd: int) -> None:
        """Sleep until there is output, room for output, a signal, or something due."""
        poll = select.poll()
        poll.register(wakeup_fd, select.POLLIN)
        self.pump.register(poll)
        if self.keyboard is not None:
            self.keyboard.register(poll)
        if self.status_pipe.fd >= 0:
            poll.register(self.status_pipe.fd, 0)  # POLLERR: its reader has exited
        due = [at for part in (self.census, self.logs, self.stopping, self.pump) for at in part.due_times()]
        due.append(self.revival.due if self.revival is not None else None)
        due.append(self.report_at if not self.is_reported and not self.pump.waits_for_reader() else None)
        seconds = min(at for at in due if at is not None) - time.monotonic()
        for fd, _ in poll.poll(max(0, int(seconds * 1000) + 1)):
            if fd == wakeup_fd:
                for number in os.read(wakeup_fd, 4096):
                    self.handle(number)
            elif fd == self.status_pipe.fd:
                self.recorder_left()

    def handle(self, number: int) -> None:
        """Act on a signal: TERM stops the job, others are passed on to its processes."""
        if number == signals.SIGTERM:
            self.stopping.stop("signal")
        elif number == signals.SIGIO:
            self.logs.note_growth()
        elif number == OVER_LIMIT_SIGNAL:
            self.stopping.kill_over_limit()
        elif number in TO_MAIN_ONLY and self.main_status is None:
            os.kill(self.main, number)
        elif number in FORWARDED:
            if number in INTERRUPTING:
                self.stopping.note_interrupt()
            signal_descendants(self.pid, number)

    def report(self, is_final: bool) -> None:
        """Send and write how the job ended; with descendants left, a second report follows when they have exited."""
        self.logs.mark(now()[1] - self.start[1])
        directory, text = self.order["directory"], text_of(ended_facts(self, is_final))
        self.tell(text)
        self.status_pipe.close()
        if directory:
            if not self.is_reported:
                make_directory(directory)  # the state directory may have been deleted or moved meanwhile
            write_ended(directory, text)
        replace_by_null(2)
        if is_final:
            if self.keyboard is not None:
                self.keyboard.close()
            remove_cgroups(self.order["cgroup_directories"])


def main(arguments: list[str]) -> None:
    """Get ready, wait for the order, supervise the job until its end."""
    if os.getsid(0) != os.getpid():
        os.setsid()
    set_name(SHIM_NAME)
    callers_fds = open_fds() - {0, 1, 2, int(arguments[0]), int(arguments[1])}
    order_fd, status_fd, _, prelude_bytes = map(int, arguments)
    procs, possible_cgroups, agent = read_prelude(order_fd, prelude_bytes)
    # The first move between cgroups waits for an RCU grace period of 20 ms. Do it now, while `run` opens the store.
    if procs is not None:
        join_cgroup(procs)
    order = read_order(order_fd)
    if order is None:
        remove_cgroups(possible_cgroups)
        revive_killed_agent(agent)
        return
    terminal, holder_fd = order["terminal"], -1
    ends = {terminal["master"], terminal["slave"]} if terminal is not None else set()
    for fd in {status_fd, *ends}:
        os.set_inheritable(fd, False)
    if terminal is not None:
        holder_fd = start_holder(terminal, order["directory"], order["log_max"])
    wakeup_fd = catch_signals()
    is_subreaper = c_call("prctl", PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    shim = Shim(order, status_fd, is_subreaper)
    try:
        shim.launch(callers_fds - ends)
    except OSError as error:
        shim.exec_error = ("start", error.errno or 0)
        shim.start = shim.end = shim.last = now()
        shim.report(is_final=True)
    else:
        shim.supervise(wakeup_fd)
    if holder_fd >= 0:
        end_holder(holder_fd)
    revive_killed_agent(agent)
