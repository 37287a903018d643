"""Reads the open sockets of one job repeatedly, for `jobtop connections` and the console."""

from __future__ import annotations

import os
import time

from jobtop.core.measure.collectors.heaviest import command_of
from jobtop.core.measure.collectors.network.job_processes import socket_inodes
from jobtop.core.measure.collectors.network.sock_diag import ALL_STATES, TCP, UDP, DiagProblem, list_sockets
from jobtop.core.measure.collectors.network.socket_tables import (
    address_text,
    parse_inet_table,
    parse_unix_table,
    state_text,
)
from jobtop.core.procfs import descendants, read_text
from jobtop.core.record import record, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Sequence

    from jobtop.core.measure.collectors.network.sock_diag import DiagSocket
    from jobtop.core.measure.target import Target

TABLES = (("tcp", "tcp"), ("tcp6", "tcp"), ("udp", "udp"), ("udp6", "udp"), ("unix", "unix"))
ORDER = {"tcp": 0, "udp": 1, "unix": 2}


@record
class ConnectionLine:
    """An open socket of a job at a moment; rates are since the reading before, None is not known.

    The kernel counts bytes of TCP alone, and tells them of sockets in the network namespace of the reader.
    """

    protocol: str
    local: str
    remote: str | None
    state: str
    received_bytes: int | None = None
    sent_bytes: int | None = None
    receive_rate: float | None = None
    send_rate: float | None = None
    round_trip_seconds: float | None = None
    retransmitted: int | None = None
    pid: int | None = None
    command: str | None = None
    processes: int = 1

    @property
    def rate(self) -> float:
        return (self.receive_rate or 0.0) + (self.send_rate or 0.0)


@record
class LiveConnections:
    """The open sockets at a moment, those with the highest rate first.

    `denied` processes could not be read; `problem` says why no bytes are known.
    """

    connections: tuple[ConnectionLine, ...] = ()
    processes: int = 0
    denied: int = 0
    problem: str | None = None


class ConnectionReader:
    """Reads the open sockets of one job."""

    def __init__(
        self,
        target: Target,
        secret: Sequence[str] = (),
        proc: str = "/proc",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._target, self._secret, self._proc, self._clock = target, tuple(secret), proc, clock
        self._before: tuple[float, dict[int, tuple[int, int]]] | None = None  # by inode: bytes received and sent

    def read(self) -> LiveConnections:
        """The open sockets now; what vanishes meanwhile is left out."""
        root = self._target.root.pid
        pids = [*([root] if self._target.includes_root else []), *descendants(root)]
        holders: dict[int, list[int]] = {}
        for pid in pids:
            for inode in socket_inodes(f"{self._proc}/{pid}/fd"):
                holders.setdefault(inode, []).append(pid)
        denied = sum(not os.access(f"{self._proc}/{pid}/fd", os.R_OK) for pid in pids)
        found: dict[int, ConnectionLine] = {}
        problem = None
        if holders:
            found = dict(self._from_tables({pid for held in holders.values() for pid in held}, holders.keys()))
            try:
                found |= self._counted(holders)
            except DiagProblem as error:
                problem = str(error)
        lines = [self._with_process(line, holders[inode]) for inode, line in self._with_rates(found).items()]
        lines.sort(key=lambda line: (ORDER[line.protocol], -line.rate, line.state, line.local))
        return LiveConnections(tuple(lines), len(pids), denied, problem)

    def _counted(self, holders: dict[int, list[int]]) -> dict[int, ConnectionLine]:
        """The sockets in our own network namespace, those of TCP with what they carried."""
        found = {one.inode: diag_line("tcp", one) for one in list_sockets(TCP, ALL_STATES) if one.inode in holders}
        try:
            udp = list_sockets(UDP, ALL_STATES)
        except DiagProblem:  # without udp_diag they are in the tables
            udp = []
        return found | {one.inode: diag_line("udp", one) for one in udp if one.inode in holders}

    def _from_tables(self, pids: set[int], wanted: Container[int]) -> Iterator[tuple[int, ConnectionLine]]:
        """The sockets in the tables of each network namespace that a process of the job is in."""
        namespaces: dict[str, int] = {}
        for pid in sorted(pids):
            try:
                namespaces.setdefault(os.readlink(f"{self._proc}/{pid}/ns/net"), pid)
            except OSError:
                continue
        for pid in namespaces.values():
            for name, protocol in TABLES:
                text = read_text(f"{self._proc}/{pid}/net/{name}")
                rows = parse_unix_table(text) if protocol == "unix" else parse_inet_table(text, protocol == "udp")
                for row in rows:
                    if row.inode in wanted:
                        yield row.inode, ConnectionLine(protocol, row.local, row.remote, row.state)

    def _with_rates(self, lines: dict[int, ConnectionLine]) -> dict[int, ConnectionLine]:
        now, before = self._clock(), self._before
        counted = {
            inode: (line.received_bytes, line.sent_bytes)
            for inode, line in lines.items()
            if line.received_bytes is not None and line.sent_bytes is not None
        }
        self._before = now, counted
        if before is None or now <= before[0]:
            return lines
        seconds, earlier = now - before[0], before[1]
        for inode, (received, sent) in counted.items():
            was_received, was_sent = earlier.get(inode, (0, 0))
            lines[inode] = replace(
                lines[inode],
                receive_rate=max(0, received - was_received) / seconds,
                send_rate=max(0, sent - was_sent) / seconds,
            )
        return lines

    def _with_process(self, line: ConnectionLine, pids: list[int]) -> ConnectionLine:
        first = min(pids)
        return replace(line, pid=first, command=command_of(self._proc, first, self._secret), processes=len(pids))


def diag_line(protocol: str, one: DiagSocket) -> ConnectionLine:
    """A socket as the kernel describes it; what is connected to nothing has no remote address and no bytes."""
    (local, remote), (local_port, remote_port) = one.addresses, one.ports
    counts = one.counts if remote_port else None
    return ConnectionLine(
        protocol,
        address_text(local, local_port),
        address_text(remote, remote_port) if remote_port else None,
        state_text(one.state, protocol == "udp"),
        None if counts is None else counts.received,
        None if counts is None else counts.sent,
        round_trip_seconds=one.round_trip_seconds if counts is not None else None,
        retransmitted=one.retransmitted if counts is not None else None,
    )
