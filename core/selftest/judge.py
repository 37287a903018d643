"""Compares what a load reports that it used with its record. Pure. The tolerances are those that jobtop promises."""

import json
import os
import signal as signals
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from jobtop.core.model import Job

CPU_RATIO, CPU_SECONDS = 0.01, 0.02  # the larger one applies
MEMORY_RATIO = 0.03
TOGETHER_RATIO = 0.05
STORAGE_RATIO = 0.01
NETWORK_RATIO = 0.02
LARGEST_CONTEXT_BYTES = 1536 << 20  # of the driver, for a process on a GPU


class Verdict(StrEnum):
    PASS = "pass"
    FAIL = "fail"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one check: what was expected, what was measured, and the verdict."""

    what: str
    verdict: Verdict
    expected: float | str
    measured: float | str | None
    unit: str | None = None
    relation: str = "="
    error: float | None = None
    error_ratio: float | None = None
    tolerance: float | None = None
    source: str | None = None
    reason: str | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"verdict": str(self.verdict)}


@dataclass(frozen=True, slots=True)
class Reference:
    """What the processes of a load report, taken together; `skip` says why the load cannot run here.

    `memory_bytes` is the largest peak of any one of them, `together_bytes` what all of them held at one time,
    `curve` pairs of seconds since the epoch and CPU seconds used, `network_bytes` what was sent and received.
    """

    processes: int = 0
    cpu_seconds: float = 0.0
    memory_bytes: int = 0
    read_bytes: int | None = None
    written_bytes: int | None = None
    skip: str | None = None
    together_bytes: int = 0
    curve: tuple[tuple[float, float], ...] = ()
    network_bytes: int = 0


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """How a job ends, and what `run` returns."""

    status: str
    exit_code: int | None
    signal: int | None
    returned: int
    flags: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.signal is None:
            end, usual = f"exit {self.exit_code}", self.exit_code
        else:
            end, usual = signals.Signals(self.signal).name, 128 + self.signal
        returns = () if self.returned == usual else (f"but run returns {self.returned}",)
        return ", ".join((self.status, end, *returns, *self.flags))


Check = Callable[[Job, Reference], CheckResult]


def exits(code: int) -> JobOutcome:
    return JobOutcome("failed" if code else "success", code, None, code)


def killed_by(number: int) -> JobOutcome:
    return JobOutcome("failed", None, number, 128 + number)


def read_reference(report: str) -> Reference:
    """Read a load's report: CPU and storage are summed over processes, of memory the maximum is taken."""
    lines = [json.loads(line) for line in report.splitlines()]
    return Reference(
        len(lines),
        sum(line["cpu_seconds"] for line in lines),
        max((line["memory_bytes"] for line in lines), default=0),
        _sum(line["read_bytes"] for line in lines),
        _sum(line["written_bytes"] for line in lines),
        next((line["skip"] for line in lines if line["skip"]), None),
        max((line.get("together_bytes") or 0 for line in lines), default=0),
        tuple(point for line in lines if "curve" in line for point in reported_curve(line)),
        max((line.get("network_bytes") or 0 for line in lines), default=0),
    )


def reported_curve(line: dict[str, Any]) -> Iterator[tuple[float, float]]:
    """Yield the points that a process recorded, and its final value."""
    yield from ((moment, used) for moment, used in line["curve"])
    yield line["moment"], line["cpu_seconds"]


def judge_outcome(expected: JobOutcome, job: Job, returned: int) -> CheckResult:
    measured = JobOutcome(str(job.status), job.exit_code, job.signal, returned, job.flags)
    return CheckResult("outcome", to_verdict(measured == expected), str(expected), str(measured), reason=job.reason)


def cpu(built_seconds: float, processes: int = 1) -> Check:
    """Return a check of CPU time within 1 % or 20 ms; `processes` is how many processes have to report."""

    def check(job: Job, reference: Reference) -> CheckResult:
        if reference.processes != processes:
            return load_not_as_built(
                "cpu", f"{reference.processes} of {processes} of its processes reported what they used"
            )
        if reference.cpu_seconds < built_seconds:
            return load_not_as_built("cpu", f"it used {reference.cpu_seconds:.3f}s of {built_seconds:.3f}s")
        used, source = job.usage.cpu_total_seconds, job.sources.get("cpu")
        return compare("cpu", "seconds", reference.cpu_seconds, used, cpu_tolerance(reference), source)

    return check


def cpu_or_incomplete(built_seconds: float, processes: int) -> Check:
    """Return a check of CPU time that only a cgroup counts fully: without one it has to be marked incomplete."""
    exact = cpu(built_seconds, processes)

    def check(job: Job, reference: Reference) -> CheckResult:
        source, used = job.sources.get("cpu"), job.usage.cpu_total_seconds
        if source is not None and source.startswith("cgroup"):
            return exact(job, reference)
        is_flagged = any(why.startswith("cpu:") for why in job.incomplete)
        is_too_much = used is None or used > reference.cpu_seconds + cpu_tolerance(reference)
        measured = f"{'incomplete' if is_flagged else 'complete'}{', too much' if is_too_much else ''}"
        return CheckResult("cpu", to_verdict(is_flagged and not is_too_much), "incomplete", measured, source=source)

    return check


def cpu_outside_reported(job: Job, _: Reference) -> CheckResult:
    """Check that the record says that a process left the cgroup, so that the cgroup did not count all CPU time."""
    is_reported = any(why.startswith("cpu:") and "left" in why for why in job.incomplete)
    measured = "a process left the cgroup" if is_reported else "nothing"
    return CheckResult(
        "said", to_verdict(is_reported), "a process left the cgroup", measured, source=job.sources.get("cpu")
    )


def mean_possible(job: Job, _: Reference) -> CheckResult:
    """Check that the mean of a job that outlived its main process is not above all cores."""
    mean, cores = job.usage.cpu_percent_mean, os.cpu_count() or 1
    good = mean is not None and 0 < mean <= 100 * cores
    return CheckResult("mean", to_verdict(good), 100.0 * cores, mean, "percent", "≤", source=job.sources.get("cpu"))


def cpu_tolerance(reference: Reference) -> float:
    return max(CPU_RATIO * reference.cpu_seconds, CPU_SECONDS)


def memory(built_bytes: int) -> Check:
    """Return a check of the largest process's memory peak within 3 %."""

    def check(job: Job, reference: Reference) -> CheckResult:
        if reference.memory_bytes < built_bytes:
            return load_not_as_built("memory", f"it held {reference.memory_bytes} of {built_bytes} bytes")
        tolerance = MEMORY_RATIO * reference.memory_bytes
        source = job.sources.get("memory_peak")
        return compare("memory", "bytes", reference.memory_bytes, job.usage.memory_peak_bytes, tolerance, source)

    return check


def memory_together(built_bytes: int) -> Check:
    """Return a check of the memory of all processes at one time within 5 %, shared pages counted once."""
    return lambda job, reference: _compare_together("memory", built_bytes, reference, job.usage.memory_peak_bytes, job)


def memory_sampled(built_bytes: int) -> Check:
    """Return the same check for the peak of the samples."""
    return lambda job, reference: _compare_together(
        "samples", built_bytes, reference, job.metrics.get("mem.used", {}).get("peak"), job
    )


def memory_below(limit_bytes: int, engine_bytes: int) -> Check:
    """Return a check that the memory peak is the job's, and not that of the large engine that started it."""

    def check(job: Job, reference: Reference) -> CheckResult:
        if reference.memory_bytes < engine_bytes:
            return load_not_as_built("memory", f"the engine held {reference.memory_bytes} of {engine_bytes} bytes")
        measured = job.usage.memory_peak_bytes
        verdict = to_verdict(measured is not None and 0 < measured < limit_bytes)
        source = job.sources.get("memory_peak")
        return CheckResult("memory", verdict, limit_bytes, measured, "bytes", "<", source=source)

    return check


def storage_read(built_bytes: int) -> Check:
    return lambda job, reference: _compare_storage(
        "read", built_bytes, reference.read_bytes, job.usage.io_read_bytes, job
    )


def storage_written(built_bytes: int) -> Check:
    return lambda job, reference: _compare_storage(
        "written", built_bytes, reference.written_bytes, job.usage.io_write_bytes, job
    )


def network_received(built_bytes: int) -> Check:
    return lambda job, reference: _compare_network("received", built_bytes, reference, job.usage.net_rx_bytes, job)


def network_sent(built_bytes: int) -> Check:
    return lambda job, reference: _compare_network("sent", built_bytes, reference, job.usage.net_tx_bytes, job)


def file_read(name: str, built_bytes: int) -> Check:
    """Return a check that the record names a file, with no more bytes than were read and at least half of them."""

    def check(job: Job, _: Reference) -> CheckResult:
        files = job.findings.get("files", [])
        measured = next((file["read_bytes"] for file in files if file["path"].endswith(f"/{name}")), None)
        verdict = to_verdict(measured is not None and built_bytes / 2 <= measured <= built_bytes)
        return CheckResult("file read", verdict, built_bytes, measured, "bytes", "≤", source="positions")

    return check


def gpu_memory(built_bytes: int) -> Check:
    """Return a check of the memory on GPUs: what the load allocated, and at most a context of its own beside it."""

    def check(job: Job, _: Reference) -> CheckResult:
        from jobtop.core.measure.collectors.machine_pids import MachinePids

        measured, problem = job.usage.gpu_memory_peak_bytes, MachinePids().problem()
        if problem is not None:
            return CheckResult("GPU memory", Verdict.SKIPPED, built_bytes, None, "bytes", reason=problem)
        is_right = measured is not None and built_bytes <= measured <= built_bytes + LARGEST_CONTEXT_BYTES
        reason = None if is_right else f"not from what was allocated to {LARGEST_CONTEXT_BYTES >> 20} MiB more"
        return CheckResult("GPU memory", to_verdict(is_right), built_bytes, measured, "bytes", "≥", reason=reason)

    return check


def processes_at_once(least: int) -> Check:
    return lambda job, _: at_least("processes", None, least, job.usage.processes_peak, job.sources.get("processes"))


def lasts_at_least(least_seconds: float) -> Check:
    return lambda job, _: at_least("duration", "seconds", least_seconds, job.duration_seconds, None)


def nothing_absent(job: Job, _: Reference) -> CheckResult:
    """Check that no total is absent, even for a very short command."""
    usage = job.usage
    totals = {
        "cpu_user_seconds": usage.cpu_user_seconds,
        "cpu_system_seconds": usage.cpu_system_seconds,
        "cpu_total_seconds": usage.cpu_total_seconds,
        "cpu_efficiency": usage.cpu_efficiency,
        "memory_peak_bytes": usage.memory_peak_bytes,
        "io_read_bytes": usage.io_read_bytes,
        "io_write_bytes": usage.io_write_bytes,
        "io_read_chars": usage.io_read_chars,
        "io_write_chars": usage.io_write_chars,
        "faults_minor": usage.faults_minor,
        "faults_major": usage.faults_major,
        "switches_voluntary": usage.switches_voluntary,
        "switches_involuntary": usage.switches_involuntary,
        "processes_seen": usage.processes_seen,
        "processes_peak": usage.processes_peak,
        "duration_seconds": job.duration_seconds,
        "exit_code": job.exit_code,
    }
    absent = [key for key, value in totals.items() if value is None]
    return CheckResult("absent", to_verdict(not absent), "nothing", ", ".join(absent) or "nothing")


def compare(
    what: str, unit: str, expected: float, measured: float | None, tolerance: float, source: str | None
) -> CheckResult:
    """Compare a measured number with the expected one; an absent number fails."""
    if measured is None:
        return CheckResult(what, Verdict.FAIL, expected, None, unit, tolerance=tolerance, source=source)
    error = measured - expected
    verdict = to_verdict(abs(error) <= tolerance)
    return CheckResult(what, verdict, expected, measured, unit, "=", error, error / expected, tolerance, source)


def at_least(what: str, unit: str | None, least: float, measured: float | None, source: str | None) -> CheckResult:
    verdict = to_verdict(measured is not None and measured >= least)
    return CheckResult(what, verdict, least, measured, unit, "≥", source=source)


def _compare_storage(what: str, built_bytes: int, expected: int | None, measured: int | None, job: Job) -> CheckResult:
    if expected is None or expected < built_bytes:
        return load_not_as_built(what, f"it moved {expected} of {built_bytes} bytes")
    return compare(what, "bytes", expected, measured, STORAGE_RATIO * expected, job.sources.get("io"))


def _compare_network(what: str, built_bytes: int, reference: Reference, measured: int | None, job: Job) -> CheckResult:
    expected = reference.network_bytes
    if expected != built_bytes:
        return load_not_as_built(what, f"it moved {expected} of {built_bytes} bytes")
    return compare(what, "bytes", expected, measured, NETWORK_RATIO * expected, job.sources.get("network"))


def _compare_together(
    what: str, built_bytes: int, reference: Reference, measured: float | None, job: Job
) -> CheckResult:
    expected = reference.together_bytes
    if expected < built_bytes:
        return load_not_as_built(what, f"its processes held {expected} of {built_bytes} bytes")
    return compare(what, "bytes", expected, measured, TOGETHER_RATIO * expected, job.sources.get("memory_peak"))


def load_not_as_built(what: str, why: str) -> CheckResult:
    return CheckResult(
        what, Verdict.FAIL, "a load as built", None, reason=f"the load is not what it was built to be: {why}"
    )


def to_verdict(good: bool) -> Verdict:
    return Verdict.PASS if good else Verdict.FAIL


def _sum(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def energy_of_cpu(job: Job, _: Reference, sys: str = "/sys") -> CheckResult:
    """Check that the energy of the CPU is known and possible; skipped where its counters cannot be read."""
    from jobtop.core.measure.collectors.energy.powercap import MOST_WATTS, find_packages, read_problem

    packages = find_packages(sys)
    problem, joules = read_problem(packages), job.usage.energy_cpu_joules
    most = MOST_WATTS * len(packages) * (job.duration_seconds or 0.0)
    if problem is not None:
        return CheckResult("energy", Verdict.SKIPPED, "more than 0", None, unit="J", reason=problem)
    is_possible = joules is not None and 0 < joules <= most
    return CheckResult(
        "energy",
        to_verdict(is_possible),
        "more than 0",
        joules,
        unit="J",
        source=job.sources.get("energy_cpu"),
        reason=None if is_possible else f"not from 0 to {most:.0f} J",
    )
