"""Reads the TCP traffic of jobs: lists of sockets when anything can have changed, and notices of closed ones."""

from __future__ import annotations

import os
import time
from functools import partial

from jobtop.core.measure.collectors.network.closed_sockets import ClosedSockets
from jobtop.core.measure.collectors.network.job_processes import SocketOwners
from jobtop.core.measure.collectors.network.job_sockets import JobSockets, JobTraffic
from jobtop.core.measure.collectors.network.sock_diag import COUNTED_STATES, TCP, UDP, DiagProblem, list_sockets
from jobtop.core.measure.collectors.network.watching import counted_from_text, seconds_before
from jobtop.core.measure.collectors.open_file import KeptFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from jobtop.core.measure.collectors.network.sock_diag import DiagSocket
    from jobtop.core.measure.collectors.pid_owners import PidOwners
    from jobtop.core.measure.source import Jobs, Number

VANISHED_READINGS = 3
LIST_SECONDS = 0.9  # between two lists, if no connection was opened meanwhile
# The share of a core for the search for the owners of sockets, and how much of it may be saved up. The first search
# reads every process of the jobs; of many processes any search is expensive, and one may cost more than was saved up.
FIND_CORES, MOST_CREDIT_SECONDS = 0.001, 0.1
FIND_CORES_OF_MANY, MOST_CREDIT_SECONDS_OF_MANY = 0.0003, 0.01
UDP_EVERY = 4  # readings


class TcpTraffic:
    """Reads the sockets of this network namespace; opening it raises DiagProblem where that is not possible."""

    def __init__(self, owners: PidOwners, proc: str = "/proc") -> None:
        self.has_many = False  # the jobs have many processes
        self._proc = proc
        self._owners = SocketOwners(owners, proc)
        self._sockets = JobSockets()
        self._closed: ClosedSockets | None = None
        self._no_notices: str | None = None
        self._uid = os.geteuid() or None
        self._late: dict[str, float] = {}  # seconds that a job ran before the first reading
        self._snmp = KeptFile(f"{proc}/thread-self/net/snmp")
        self._opened_before = ""
        self._others_udp: set[int] = set()
        self._readings = 0
        self._listed_at = 0.0
        self._credit_seconds, self._earned_at = MOST_CREDIT_SECONDS, time.monotonic()
        list_sockets(TCP, 0)

    def known_jobs(self) -> list[str]:
        """The jobs of which anything is known."""
        return [key for key, traffic in self._sockets.jobs.items() if traffic.has_connected or traffic.uses_udp]

    @property
    def may_be_more(self) -> bool:
        """Whether a job has an open socket, or the search for the owners of sockets is not complete."""
        return self._sockets.has_open or self._sockets.is_undecided or self._credit_seconds <= 0

    def read(self, jobs: Jobs, is_last: bool = False) -> None:
        """Read all sockets if there can be anything new; those that are open once a second, and at the end of a job."""
        new = jobs.keys() - self._sockets.jobs.keys()
        for key in new:
            self._sockets.jobs[key] = JobTraffic()
            self._opened_before, self._readings = "", 0
            late = seconds_before(jobs[key])
            if late is not None:
                self._late[key] = late
        opened, before = self._opened(), self._opened_before
        self._opened_before = opened
        is_same = bool(opened) and opened == before
        if is_same and not (self._sockets.has_open or self._sockets.is_undecided):
            if self._closed is not None:  # the kernel tells of closed sockets a little later
                self._take_closed()
            return
        if is_same and not is_last and time.monotonic() < self._listed_at + LIST_SECONDS:
            self._take_closed()
            return
        self._earn()
        if self._credit_seconds <= 0 and not (self._sockets.has_open or is_last):
            self._sockets.is_undecided = True  # without a search for owners a list says nothing
            self._take_closed()
            return
        self._listed_at = time.monotonic()
        find = partial(self._find, jobs) if self._credit_seconds > 0 else None
        self._sockets.take_listed(self._list(), find)
        for key in new & self._late.keys():
            self._sockets.jobs[key].begin()
        if self._readings % UDP_EVERY == 0 and self._credit_seconds > 0:
            self._find_udp(jobs)
        self._readings += 1
        self._take_closed()

    def _list(self) -> list[DiagSocket]:
        """All TCP sockets; while no job has one, this is a part of the search."""
        began = time.thread_time()
        listed = list_sockets(TCP)
        if not self._sockets.has_open:
            self._credit_seconds -= time.thread_time() - began
        return listed

    def _find(self, jobs: Jobs, inodes: Iterable[int]) -> dict[int, frozenset[str]]:
        """The jobs of sockets; what the search costs is taken from its budget."""
        began = time.thread_time()
        found = self._owners.find(inodes, jobs)
        self._credit_seconds -= time.thread_time() - began
        return found

    def _earn(self) -> None:
        now = time.monotonic()
        cores = FIND_CORES_OF_MANY if self.has_many else FIND_CORES
        most = MOST_CREDIT_SECONDS_OF_MANY if self.has_many else MOST_CREDIT_SECONDS
        self._credit_seconds = min(self._credit_seconds + cores * (now - self._earned_at), most)
        self._earned_at = now

    def values(self, key: str) -> dict[str, Number]:
        traffic = self._sockets.jobs.get(key)
        return {} if traffic is None else traffic.values()

    def incomplete(self, key: str) -> list[str]:
        traffic = self._sockets.jobs.get(key)
        if traffic is None:
            return []
        remarks = traffic.incomplete()
        if traffic.has_connected and key in self._late:
            remarks.append(counted_from_text(self._late[key]))
        if traffic.has_connected and self._no_notices is not None:
            remarks.append(f"network: bytes of closed connections may be missing: {self._no_notices}")
        return remarks

    def has_seen(self, key: str) -> bool:
        """Whether a connection of this job was seen."""
        return key in self._sockets.jobs and self._sockets.jobs[key].has_connected

    def awaits(self, key: str) -> bool:
        """Whether the last counts of a connection of this job are still to come."""
        return self._closed is not None and self._sockets.awaits(key)

    def settle(self) -> None:
        """Wait no longer for the last counts of connections."""
        self._sockets.settle(1)

    def forget(self, key: str) -> None:
        self._sockets.forget(key)
        self._late.pop(key, None)
        if not self._sockets.jobs:
            self._stop_listening()

    def close(self) -> None:
        self._snmp.close()
        self._stop_listening()

    def _opened(self) -> str:
        """How many TCP connections were opened here since boot, as text; UDP datagrams too. Empty if not known."""
        text = self._snmp.read()
        tcp, udp = (counters_of(text, name) for name in ("Tcp", "Udp"))
        words = tcp.split(None, 7)
        return f"{words[5]} {words[6]} {udp}" if len(words) > 6 else ""

    def _take_closed(self) -> None:
        """Listen for closed sockets from the first connection of a job on, and take what was heard."""
        if self._closed is None and self._no_notices is None and self._sockets.has_open:
            try:
                self._closed = ClosedSockets()
            except DiagProblem as problem:
                self._no_notices = str(problem)
        if self._closed is not None:
            self._sockets.take_closed(*self._closed.take(), self._uid)
        self._sockets.settle(VANISHED_READINGS)

    def _find_udp(self, jobs: Jobs) -> None:
        """Note the jobs that have UDP sockets: their bytes are not counted."""
        try:
            listed = list_sockets(UDP, COUNTED_STATES)
        except DiagProblem:  # without udp_diag it is not known
            return
        cookies = {one.cookie for one in listed}
        new = [one for one in listed if one.cookie not in self._others_udp]
        if new:
            self._sockets.note_udp(self._find(jobs, [one.inode for one in new]).values())
        self._others_udp = cookies

    def _stop_listening(self) -> None:
        if self._closed is not None:
            self._closed.close()
            self._closed = None


def counters_of(text: str, protocol: str) -> str:
    """The line of numbers of a protocol in `snmp`: after the one of their names; empty if it is not there."""
    at = text.find(f"\n{protocol}: ", text.find(f"\n{protocol}: ") + 1)
    return text[at + 1 : text.find("\n", at + 1)] if at >= 0 else ""
