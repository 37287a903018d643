"""The source of the network traffic of jobs: a slow source, in a thread of its own.

A job in a network namespace of its own has the counters of that; of any other the bytes of its TCP sockets are
counted. It costs little where no job uses the network: without new connections on the host no sockets are listed.
"""

from __future__ import annotations

import threading
import time

from jobtop.core.measure.collectors.activity import Activity
from jobtop.core.measure.source import Readings, Remarks
from jobtop.core.record import replace
from jobtop.core.text.connection_text import NOT_MEASURED
from jobtop.core.units import format_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from jobtop.core.measure.collectors.network.namespaces import NamespaceTraffic
    from jobtop.core.measure.collectors.network.tcp_traffic import TcpTraffic
    from jobtop.core.measure.source import Jobs, Number
    from jobtop.core.measure.sources import Options

USUAL_SECONDS, MANY_SECONDS = 0.5, 1.0  # between readings, and if the jobs have more processes than this:
MANY = 256
LAST_SECONDS = 0.5  # that the end of a job waits for a reading that is under way …
LAST_NOTICES_SECONDS = 0.2  # … and for the last counts of its connections
STEP_SECONDS = 0.005
CALM_READINGS = 8  # after the last activity of a job: some things are looked for in every fourth reading
NAMESPACE_LABEL, TCP_LABEL = "namespace", "tcp sockets (sock_diag)"


class NetworkSource:
    """Counts what jobs receive and send; without sock_diag, of jobs with a namespace of their own alone."""

    name = "network"
    most_cores = 0.05  # after an expensive reading it goes on soon: the search for owners has a budget of its own

    def __init__(self, options: Options) -> None:
        self.interval_seconds = USUAL_SECONDS
        self._options = options
        self._lock = threading.Lock()
        self._tcp: TcpTraffic | None = None
        self._namespaces: NamespaceTraffic | None = None
        self._problem: str | None = None  # why sockets cannot be listed
        self._is_closed = False
        self._activity = Activity(None)
        self._known: list[str] = []  # jobs of which anything is known
        self._jobs: Jobs = {}
        self._calm_readings = 0

    def available(self) -> str | None:
        """None: namespaces can be read anywhere; called in the thread of the source, which imports what it needs."""
        from jobtop.core.measure.collectors.network.namespaces import NamespaceTraffic
        from jobtop.core.measure.collectors.network.sock_diag import DiagProblem
        from jobtop.core.measure.collectors.network.tcp_traffic import TcpTraffic
        from jobtop.core.measure.collectors.pid_owners import PidOwners
        from jobtop.core.measure.collectors.process_source import ProcessSource

        opened, proc = self._options.opened.get("processes"), self._options.proc
        processes = opened if isinstance(opened, ProcessSource) else None
        self._namespaces = NamespaceTraffic(PidOwners(proc, processes), processes, proc)
        self._activity = Activity(processes)
        try:
            self._tcp = TcpTraffic(PidOwners(proc, processes), proc)
        except DiagProblem as problem:  # `jobtop doctor` says what helps
            self._tcp, self._problem = None, str(problem)
        return None

    def collect(self, jobs: Jobs) -> Readings:
        """What each job received and sent so far; also what has not changed, since a tick may miss a reading."""
        with self._lock:
            known: dict[str, None] = {}
            has_many = self._activity.processes > MANY
            self.interval_seconds = MANY_SECONDS if has_many else USUAL_SECONDS
            candidates = self._activity.candidates(jobs)
            if self._is_quiet(jobs, candidates):
                return self._readings(self._known)
            if self._namespaces is not None and not self._is_closed:
                self._namespaces.read(jobs, candidates)
                known = dict.fromkeys(self._namespaces.known_jobs())
            if self._tcp is not None and not self._is_closed:
                self._tcp.has_many = has_many
                self._tcp.read(jobs)
                known |= dict.fromkeys(self._tcp.known_jobs())
            self._known = list(known)
            return self._readings(self._known)

    def _is_quiet(self, jobs: Jobs, candidates: Collection[str]) -> bool:
        """Whether nothing can have changed: no process of a job has run, and no job had a socket or a namespace."""
        active = candidates if self._activity.is_told else [key for key in candidates if self._activity.has_run(key)]
        may_be_more = self._known or (self._tcp is not None and self._tcp.may_be_more)
        self._calm_readings = 0 if active or may_be_more or jobs is not self._jobs else self._calm_readings + 1
        self._jobs = jobs
        return self._calm_readings > CALM_READINGS

    def conclude(self, key: str, jobs: Jobs) -> Readings | None:
        """The last reading of a job that has ended: waits a little for the last counts of its connections.

        Other threads call it.
        """
        if not self._lock.acquire(timeout=LAST_SECONDS):
            return None
        try:
            if self._namespaces is not None and not self._is_closed:
                self._namespaces.read(jobs, (key,))
            self._read_last_sockets(key, jobs)
            return self._with_label(key, self._readings([key], is_last=True))
        finally:
            self._lock.release()

    def forget(self, key: str) -> None:
        with self._lock:
            self._activity.forget(key)
            for part in (self._tcp, self._namespaces):
                if part is not None:
                    part.forget(key)

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            for part in (self._tcp, self._namespaces):
                if part is not None:
                    part.close()

    def _read_last_sockets(self, key: str, jobs: Jobs) -> None:
        tcp, deadline = self._tcp, time.monotonic() + LAST_NOTICES_SECONDS
        while tcp is not None and not self._is_closed and tcp.has_seen(key):
            tcp.read(jobs, is_last=True)
            if not tcp.awaits(key):
                return
            if time.monotonic() > deadline:
                tcp.settle()
                return
            time.sleep(STEP_SECONDS)

    def _readings(self, keys: list[str], is_last: bool = False) -> Readings:
        """What is known of these jobs. Without a reading of its namespace a job has no values, except at its end."""
        readings = Readings()
        for key in keys:
            values, label, incomplete = self._of_job(key)
            is_unread = self._namespaces is not None and self._namespaces.is_unread(key)
            if values:
                readings.jobs[key] = {} if is_unread and label == NAMESPACE_LABEL and not is_last else values
            if values or incomplete:
                readings.remarks[key] = Remarks({"network": label} if values else {}, tuple(incomplete))
        return readings

    def _with_label(self, key: str, readings: Readings) -> Readings:
        """Also for a job without values how it was looked for them: the record then says which kind of absent it is."""
        said = readings.remarks.get(key) or Remarks()
        if "network" not in said.sources:
            label = TCP_LABEL if self._problem is None else f"{NOT_MEASURED}: {self._problem}"
            readings.remarks[key] = replace(said, sources={"network": label})
        return readings

    def _of_job(self, key: str) -> tuple[dict[str, Number], str, list[str]]:
        """The values of a job, where they come from, and why they may be too low.

        Sockets outside of a namespace of the job are not added to its counters: they may carry the same bytes.
        """
        sockets = self._tcp.values(key) if self._tcp is not None else {}
        own = self._namespaces.values(key) if self._namespaces is not None else {}
        doubts = self._tcp.incomplete(key) if self._tcp is not None else []
        remarks = self._namespaces.incomplete(key) if self._namespaces is not None else []
        if not own or (sockets and self._namespaces is not None and not self._namespaces.has_interfaces(key)):
            return sockets, TCP_LABEL, remarks + doubts
        if sockets and sockets["net.rx_bytes"] + sockets["net.tx_bytes"]:
            received, sent = format_bytes(sockets["net.rx_bytes"]), format_bytes(sockets["net.tx_bytes"])
            remarks.append(f"network: without {received} received and {sent} sent outside of its namespace (TCP)")
        return own, NAMESPACE_LABEL, remarks


def open_source(options: Options) -> NetworkSource:
    return NetworkSource(options)
