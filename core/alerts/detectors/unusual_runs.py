"""Rules on deviations: jobs slower or hungrier than earlier ones of their name, while they run and at the end. Pure."""

from __future__ import annotations

from jobtop.core.alerts.detector import Finding, Indifferent
from jobtop.core.alerts.detectors.deviation import DEFAULT_FACTOR, Deviation, Usual, deviation, measure_of, usual
from jobtop.core.alerts.expressions.measures import format_measured
from jobtop.core.alerts.state_machine import Verdict
from jobtop.core.model import Status
from jobtop.core.units import format_percent, number_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jobtop.core.alerts.detector import Reading
    from jobtop.core.alerts.model import Owner, Rule
    from jobtop.core.model import Job

DURATION = "duration_seconds"
# What a running job has used so far: the sum of counters, or the highest value of a gauge. Others are known at the end.
COUNTERS = {
    "cpu_total_seconds": ("cpu.user", "cpu.system"),
    "io_read_bytes": ("io.read_bytes",),
    "io_write_bytes": ("io.write_bytes",),
    "energy_cpu_joules": ("energy.cpu",),
    "energy_gpu_joules": ("energy.gpu",),
    "net_rx_bytes": ("net.rx_bytes",),
    "net_tx_bytes": ("net.tx_bytes",),
}
PEAKS = {"memory_peak_bytes": "mem.used", "gpu_memory_peak_bytes": "gpu.mem_used"}
LABELS = {
    DURATION: "running time",
    "memory_peak_bytes": "memory peak",
    "cpu_total_seconds": "CPU time",
    "cpu_percent_mean": "mean CPU use",
    "gpu_memory_peak_bytes": "GPU memory peak",
    "io_read_bytes": "bytes read",
    "io_write_bytes": "bytes written",
    "energy_cpu_joules": "energy of the CPU",
    "energy_gpu_joules": "energy of the GPU",
    "net_rx_bytes": "bytes received",
    "net_tx_bytes": "bytes sent",
}
JUDGED_ENDS = (Status.SUCCESS, Status.FAILED, Status.TIMEOUT)


class DeviationDetector(Indifferent):
    """Compares one figure of jobs with that of earlier jobs of the same name."""

    def __init__(self, rule: Rule) -> None:
        self._factor = rule.factor or DEFAULT_FACTOR
        self._figure = DURATION if rule.expression is None else rule.expression.text
        self._measure = "seconds" if rule.expression is None else rule.expression.measure
        self._usual: dict[Owner, Usual] = {}
        self._peaks: dict[Owner, float] = {}

    def leave(self, owner: Owner) -> None:
        """Forget a job."""
        self._usual.pop(owner, None)
        self._peaks.pop(owner, None)

    def set_past(self, job_id: str, past: Sequence[Job]) -> None:
        """Note what is usual for a running job."""
        expected = usual(past, self._figure, self._factor)
        if expected is not None:
            self._usual[job_id] = expected

    def concerns(self, owner: Owner) -> bool:
        """Whether it is known what is usual for a job."""
        return owner in self._usual

    def look(self, readings: Sequence[Reading], now: float) -> Iterator[Finding]:
        """Say which running jobs have used more than usual already."""
        del now
        for reading in readings:
            value = self._used_so_far(reading)
            found = deviation(value, self._usual[reading.owner])
            if found is not None:
                yield self._finding(reading.owner, found, "so far")
            elif value is not None:
                yield Finding(reading.owner, Verdict.GOOD, value)

    def look_back(self, job: Job, past: Sequence[Job]) -> Finding | None:
        """Judge a job that has ended by its own means."""
        if job.status not in JUDGED_ENDS:
            return None
        found = deviation(measure_of(job, self._figure), usual(past, self._figure, self._factor))
        return None if found is None else self._finding(job.id, found, "")

    def _used_so_far(self, reading: Reading) -> float | None:
        if self._figure == DURATION:
            return reading.moment + reading.age_seconds
        if self._figure in PEAKS:
            value = reading.get(PEAKS[self._figure])
            highest = self._peaks.get(reading.owner)
            if value is not None and (highest is None or value > highest):
                highest = self._peaks[reading.owner] = value
            return highest
        counted = [reading.get(key) for key in COUNTERS.get(self._figure, ())]
        known = [value for value in counted if value is not None]
        return sum(known) if known and len(known) == len(counted) else None

    def _finding(self, owner: Owner, found: Deviation, when: str) -> Finding:
        expected = found.usual
        value, median = (format_measured(self._measure, amount) for amount in (found.value, expected.median))
        label = LABELS.get(self._figure, self._figure)
        text = (
            f"{label}{f' {when}' if when else ''} {value}, {format_percent(found.ratio - 1)} more than usual "
            f"({median}, {number_of(expected.runs, 'run')})"
        )
        detail = {
            "figure": self._figure,
            "usual": expected.median,
            "spread": expected.spread,
            "runs": expected.runs,
            "score": round(found.score, 2),
            "unusual_from": expected.unusual_from,
        }
        return Finding(owner, Verdict.BAD, found.value, text, {}, detail, {"usual": median})


def open_detector(rule: Rule) -> DeviationDetector:
    """Return the detector of a rule."""
    return DeviationDetector(rule)
