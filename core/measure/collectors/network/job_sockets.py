"""Counts the TCP traffic of jobs by their sockets: those that are open, and the last counts of those that closed."""

from __future__ import annotations

from jobtop.core.measure.collectors.network.sock_diag import LISTEN, Counts
from jobtop.core.units import format_bytes, number_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from jobtop.core.measure.collectors.network.sock_diag import DiagSocket
    from jobtop.core.measure.source import Number

    Owners = Callable[[Iterable[int]], dict[int, frozenset[str]]]  # the jobs of sockets, by their inodes

MISSING_SHARE = 0.01  # of the traffic of a job: less may be missing without a remark
LOST_NOTICES = "network: the kernel lost notices of closed connections; the last bytes of these may be missing"
UDP_IS_NOT_COUNTED = "network: the job has used UDP, of which the kernel does not count the bytes"


class JobTraffic:
    """The TCP connections of one job."""

    def __init__(self) -> None:
        self.open: dict[int, Counts] = {}  # by cookie, as last read
        self.closed = Counts()
        self.earlier = Counts()  # before this process watched the job: in the samples of another one, or not known
        self.unmatched = Counts()  # of connections that may have been the job's
        self.unmatched_count = 0
        self.unfinished = 0  # connections without their last counts
        self.has_lost_notices = False
        self.uses_udp = False
        self.has_connected = False

    @property
    def total(self) -> Counts:
        total = self.closed.minus(self.earlier)
        for counts in self.open.values():
            total = total.plus(counts)
        return total

    def values(self) -> dict[str, Number]:
        """What is known, by catalogue key; nothing if no connection was seen."""
        if not self.has_connected:
            return {}
        total = self.total
        return {
            "net.rx_bytes": total.received,
            "net.tx_bytes": total.sent,
            "net.rx_packets": total.segments_received,
            "net.tx_packets": total.segments_sent,
        }

    def incomplete(self) -> list[str]:
        """Why the totals may be too low."""
        remarks = []
        if self.uses_udp:
            remarks.append(UDP_IS_NOT_COUNTED)
        if not self.has_connected:
            return remarks
        total, missed = self.total, self.unmatched
        if missed.received + missed.sent > MISSING_SHARE * (total.received + total.sent):
            remarks.append(
                f"network: {number_of(self.unmatched_count, 'TCP connection')} of this host closed before the process"
                f" was known; if they were of this job, {format_bytes(missed.received)} received and"
                f" {format_bytes(missed.sent)} sent are missing"
            )
        if self.unfinished:
            remarks.append(f"network: the last bytes of {number_of(self.unfinished, 'connection')} may be missing")
        if self.has_lost_notices:
            remarks.append(LOST_NOTICES)
        return remarks

    def begin(self) -> None:
        """Count from now on."""
        self.earlier = self.total.plus(self.earlier)


class JobSockets:
    """Assigns the sockets of the host to jobs. A socket belongs to the jobs of the processes that had it first."""

    def __init__(self) -> None:
        self.jobs: dict[str, JobTraffic] = {}
        self._owners: dict[int, frozenset[str]] = {}  # of the open sockets of jobs, by cookie
        self._seen_once: set[int] = set()  # sockets that no job was found for the first time …
        self._others: set[int] = set()  # … and again: these are of no job
        self._listening: dict[int, int] = {}  # the ports that jobs listen at, by cookie …
        self._ports: dict[int, frozenset[str]] = {}  # … and these jobs
        self._vanished: dict[int, int] = {}  # sockets that are not listed any more, and for how many readings
        self.is_undecided = False  # the next list may tell the owner of a socket

    @property
    def has_open(self) -> bool:
        return bool(self._owners)

    def take_listed(self, sockets: list[DiagSocket], find_owners: Owners | None) -> None:
        """Take over the counts of all open sockets of the host; look for the owners of new ones, now or later."""
        new = [one for one in sockets if one.cookie not in self._owners and one.cookie not in self._others]
        if find_owners is not None:
            self._assign(new, find_owners)
        else:
            self.is_undecided = self.is_undecided or bool(new)
        listed = {one.cookie for one in sockets}
        for one in sockets:
            if one.cookie in self._owners and one.state != LISTEN:
                self._count(one)
        self._others &= listed
        for cookie in self._owners.keys() - listed:
            self._vanished[cookie] = self._vanished.get(cookie, 0) + 1

    def take_closed(self, sockets: list[DiagSocket], lost: int, uid: int | None) -> None:
        """Take over the last counts of closed sockets; `uid` is the only user who can own sockets of jobs, if known."""
        for one in sockets:
            self._vanished.pop(one.cookie, None)
            owners = self._owners.pop(one.cookie, None) or self._ports.get(one.ports[0])
            if owners is not None:
                self._close(one, owners)
            elif one.cookie not in self._others and (uid is None or one.uid in (0, uid)):
                self._doubt(one)
            self._others.discard(one.cookie)
            self._seen_once.discard(one.cookie)
        for cookie in [one.cookie for one in sockets if one.cookie in self._listening]:
            self._ports.pop(self._listening.pop(cookie), None)
        for traffic in self.jobs.values() if lost else ():
            traffic.has_lost_notices = True

    def settle(self, readings: int) -> None:
        """Give up waiting for the last counts of sockets that are not listed any more, after so many readings."""
        for cookie, times in list(self._vanished.items()):
            if times >= readings:
                del self._vanished[cookie]
                for traffic in self._traffic(self._owners.pop(cookie)):
                    if (counts := traffic.open.pop(cookie, None)) is not None:
                        traffic.closed = traffic.closed.plus(counts)
                        traffic.unfinished += 1

    def awaits(self, key: str) -> bool:
        """Whether the last counts of a socket of this job are still to come."""
        return any(key in self._owners[cookie] for cookie in self._vanished)

    def note_udp(self, owners: Iterable[frozenset[str]]) -> None:
        for keys in owners:
            for traffic in self._traffic(keys):
                traffic.uses_udp = True

    def forget(self, key: str) -> None:
        """Forget a job; its sockets are of no job from then on."""
        self.jobs.pop(key, None)
        self._owners = {cookie: keys - {key} for cookie, keys in self._owners.items()}
        self._ports = {port: keys - {key} for port, keys in self._ports.items() if keys - {key}}
        left = {cookie for cookie, keys in self._owners.items() if not keys}
        self._others |= left
        for cookie in left:
            del self._owners[cookie]
            self._vanished.pop(cookie, None)

    def _assign(self, new: list[DiagSocket], find_owners: Owners) -> None:
        # A connection that no process has accepted yet has no inode.
        named = [one for one in new if one.inode]
        self.is_undecided = len(named) < len(new)
        found = find_owners(one.inode for one in named) if named else {}
        for one in named:
            if (owners := found.get(one.inode)) is not None:
                self._owners[one.cookie] = owners
                self._seen_once.discard(one.cookie)
                if one.state == LISTEN:
                    self._listening[one.cookie] = port = one.ports[0]
                    self._ports.setdefault(port, owners)
            elif one.cookie in self._seen_once:
                self._seen_once.discard(one.cookie)
                self._others.add(one.cookie)
            else:
                self._seen_once.add(one.cookie)
                self.is_undecided = True

    def _traffic(self, keys: frozenset[str]) -> list[JobTraffic]:
        return [self.jobs[key] for key in keys if key in self.jobs]

    def _count(self, one: DiagSocket) -> None:
        counts = one.counts
        if counts is not None:
            for traffic in self._traffic(self._owners[one.cookie]):
                traffic.open[one.cookie], traffic.has_connected = counts, True

    def _close(self, one: DiagSocket, owners: frozenset[str]) -> None:
        for traffic in self._traffic(owners):
            counts = one.counts
            last = traffic.open.pop(one.cookie, None)
            if counts is not None or last is not None:
                final = counts if counts is not None else last
                assert final is not None
                if final.segments_received or last is not None:
                    traffic.closed, traffic.has_connected = traffic.closed.plus(final), True

    def _doubt(self, one: DiagSocket) -> None:
        """Note a connection that may have been of any job."""
        counts = one.counts
        if counts is None or not counts.received + counts.sent:
            return
        for traffic in self.jobs.values():
            traffic.unmatched, traffic.unmatched_count = traffic.unmatched.plus(counts), traffic.unmatched_count + 1
