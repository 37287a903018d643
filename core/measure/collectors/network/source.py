"""The source of the network traffic of jobs: a slow source, in a thread of its own.

It costs little where no job uses the network: without new connections on the host no list of sockets is read.
"""

from __future__ import annotations

import threading
import time

from jobtop.core.measure.source import Readings, Remarks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jobtop.core.measure.collectors.network.tcp_traffic import TcpTraffic
    from jobtop.core.measure.source import Jobs
    from jobtop.core.measure.sources import Options

LAST_SECONDS = 0.5  # that the end of a job waits for a reading that is under way …
LAST_NOTICES_SECONDS = 0.2  # … and for the last counts of its connections
STEP_SECONDS = 0.005
TCP_LABEL = "tcp sockets (sock_diag)"


class NetworkSource:
    """Counts the TCP bytes of the sockets of jobs."""

    name = "network"
    interval_seconds = 0.5

    def __init__(self, options: Options) -> None:
        self._options = options
        self._lock = threading.Lock()
        self._tcp: TcpTraffic | None = None
        self._problem: str | None = None
        self._is_closed = False

    def available(self) -> str | None:
        """Why there are no numbers here; called in the thread of the source, which imports what it needs."""
        from jobtop.core.measure.collectors.network.sock_diag import DiagProblem
        from jobtop.core.measure.collectors.network.tcp_traffic import TcpTraffic

        try:
            self._tcp = TcpTraffic(self._options)
        except DiagProblem as problem:
            self._problem = str(problem)
        return self._problem

    def collect(self, jobs: Jobs) -> Readings:
        """What each job received and sent so far."""
        with self._lock:
            if self._tcp is None or self._is_closed:
                return Readings()
            self._tcp.read(jobs)
            return self._readings(self._tcp.known_jobs())  # also what has not changed: a tick may miss a reading

    def conclude(self, key: str, jobs: Jobs) -> Readings | None:
        """The last reading of a job that has ended: waits a little for the last counts of its connections.

        Other threads call it.
        """
        if self._tcp is None or not self._lock.acquire(timeout=LAST_SECONDS):
            return None
        try:
            deadline = time.monotonic() + LAST_NOTICES_SECONDS
            while not self._is_closed and self._tcp.has_seen(key):
                self._tcp.read(jobs)
                if not self._tcp.awaits(key):
                    break
                if time.monotonic() > deadline:
                    self._tcp.settle()
                    break
                time.sleep(STEP_SECONDS)
            return self._readings([key])
        finally:
            self._lock.release()

    def forget(self, key: str) -> None:
        with self._lock:
            if self._tcp is not None:
                self._tcp.forget(key)

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            if self._tcp is not None:
                self._tcp.close()

    def _readings(self, keys: list[str]) -> Readings:
        assert self._tcp is not None
        readings = Readings()
        for key in keys:
            values, incomplete = self._tcp.values(key), self._tcp.incomplete(key)
            if values:
                readings.jobs[key] = values
            if values or incomplete:
                readings.remarks[key] = Remarks({"network": TCP_LABEL} if values else {}, tuple(incomplete))
        return readings


def open_source(options: Options) -> NetworkSource:
    return NetworkSource(options)
