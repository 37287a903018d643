"""Shares of the energy of the CPU: what the machine used while it was busy, divided among jobs by CPU time. Pure."""

from __future__ import annotations

METHOD = "rapl, by share of CPU time"


class JobEnergy:
    """One job: its energy so far, and where the machine and its own CPU time stood at its last reading."""

    __slots__ = ("busy_joules", "busy_seconds", "cpu_seconds", "joules", "missed_seconds", "stretch")

    def __init__(self, cpu_seconds: float) -> None:
        self.joules: float | None = None
        self.cpu_seconds = cpu_seconds
        self.busy_joules = self.busy_seconds = 0.0
        self.missed_seconds = 0.0  # of CPU time, while the counters could not be told
        self.stretch = 0


class EnergyShares:
    """Divides energy among jobs.

    Of the energy between two readings, the part that the cores were busy for belongs to what ran; a job gets it in
    proportion to its CPU time. The rest is `idle_joules`, and belongs to no job.
    """

    def __init__(self) -> None:
        self.joules = 0.0
        self.busy_joules = self.busy_seconds = 0.0
        self._stretch = 0  # counts the times for which the energy is not known
        self._jobs: dict[str, JobEnergy] = {}

    @property
    def idle_joules(self) -> float:
        return self.joules - self.busy_joules

    def add(self, joules: float, busy_seconds: float, idle_seconds: float) -> None:
        """Add what the machine used since the last reading, and how long its cores were busy and idle meanwhile."""
        busy, idle = max(0.0, busy_seconds), max(0.0, idle_seconds)
        self.joules += joules
        if busy > 0:
            self.busy_joules += joules * busy / (busy + idle)
            self.busy_seconds += busy

    def skip(self) -> None:
        """Note that the energy since the last reading is not known."""
        self._stretch += 1

    def share(self, key: str, cpu_seconds: float) -> JobEnergy:
        """A job with its share up to now, by its CPU time so far; its first reading is where it begins."""
        job = self._jobs.get(key)
        if job is None:
            job = self._jobs[key] = JobEnergy(cpu_seconds)
            self._advance(job, cpu_seconds)
            return job
        used, busy = max(0.0, cpu_seconds - job.cpu_seconds), self.busy_seconds - job.busy_seconds
        if job.stretch != self._stretch:
            job.missed_seconds += used
        elif busy > 0 or used == 0:
            share = min(1.0, used / busy) if busy > 0 else 0.0
            job.joules = (job.joules or 0.0) + share * (self.busy_joules - job.busy_joules)
        else:
            return job  # the kernel counts busy time in ticks of 10 ms: it comes with the next reading
        self._advance(job, max(cpu_seconds, job.cpu_seconds))
        return job

    def forget(self, key: str) -> None:
        self._jobs.pop(key, None)

    def _advance(self, job: JobEnergy, cpu_seconds: float) -> None:
        job.cpu_seconds, job.stretch = cpu_seconds, self._stretch
        job.busy_joules, job.busy_seconds = self.busy_joules, self.busy_seconds
