"""What a page shows of one job: thinned curves, limits, marks on the time axis, why it ended, what it cost. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from jobtop.core.analysis.cost import NO_COST, Cost
from jobtop.core.analysis.ending import EndingLine
from jobtop.core.metrics import Metric
from jobtop.core.model import Job
from jobtop.core.record import fresh, record
from jobtop.core.series.downsample import select_positions
from jobtop.core.series.drawing import Curve, Number, gaps, make_curve
from jobtop.core.text.event_text import event_text, severity
from jobtop.core.text.limits_used import LimitFacts, facts_of_record, is_only_asked
from jobtop.core.text.metric_text import format_count
from jobtop.core.units import format_bytes, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jobtop.core.analysis.ending import EventRow

CPU, MEMORY, PROCESSES = "cpu.percent", "mem.used", "proc.count"
ROWS = (CPU, MEMORY, PROCESSES)  # the charts of every job
MOST_POINTS = 4000  # of a job on its own page
MOST_MARKS = 400
LONGEST_NAME = 48


@record
class Mark:
    """An event on the time axis; the severity is one of core/text/event_text.py."""

    elapsed: float
    text: str
    severity: str


@record
class LimitLine:
    """A limit of a metric, drawn as a dashed line; in the unit of the metric."""

    key: str
    value: float
    text: str


@record
class JobContent:
    """One job on a page. `number` is in the names of its files: the number in the store, or Torc's own job id."""

    job: Job
    number: str
    end: float
    curves: dict[str, Curve] = fresh(default_factory=dict)
    limits: tuple[LimitLine, ...] = ()
    marks: tuple[Mark, ...] = ()
    ending: tuple[EndingLine, ...] = ()
    cost: Cost = NO_COST

    @property
    def label(self) -> str:
        """The number and the name of the job, short enough for a legend."""
        return f"{self.number} {shortened(self.job.name)}"

    def peak(self, key: str) -> Number | None:
        """The peak of CPU or memory: that of the record, else of the curve."""
        usage = self.job.usage
        recorded = {CPU: usage.cpu_percent_peak, MEMORY: usage.memory_peak_bytes}.get(key)
        return self._largest(key) if recorded is None else recorded

    def mean(self, key: str) -> Number | None:
        """The mean of CPU or memory; None if it is not known."""
        usage = self.job.usage
        return {CPU: usage.cpu_percent_mean, MEMORY: usage.memory_mean_bytes}.get(key)

    def limits_of(self, key: str) -> list[LimitLine]:
        return [line for line in self.limits if line.key == key]

    def _largest(self, key: str) -> Number | None:
        curve = self.curves.get(key)
        return max(curve.known(), default=None) if curve else None


def shortened(name: str, longest: int = LONGEST_NAME) -> str:
    """One harmless line of at most so many characters."""
    text = printable(name[: 4 * longest])
    return text if len(text) <= longest and len(name) <= 4 * longest else text[: longest - 1] + "…"


def thinned_curves(
    metrics: Sequence[Metric],
    times: list[float],
    columns: Mapping[str, list[Number | None]],
    max_points: int = MOST_POINTS,
) -> dict[str, Curve]:
    """The curves of a series with at most about `max_points` times, with their extremes; None between them in a gap."""
    full = [make_curve(metric, times, columns[metric.key]) for metric in metrics]
    kept = [*range(len(times))]
    if len(times) > max_points:
        kept = select_positions(times, [curve.values for curve in full], max_points)
    silences = set(gaps(times))
    ends_gap = _positions_after(kept, silences)
    shown_times: list[float] = []
    for order, position in enumerate(kept):
        if order in ends_gap:
            shown_times.append((times[kept[order - 1]] + times[position]) / 2)
        shown_times.append(times[position])
    curves = {}
    for curve in full:
        values: list[Number | None] = []
        for order, position in enumerate(kept):
            values += [None] * (order in ends_gap)
            values.append(curve.values[position])
        curves[curve.metric.key] = Curve(curve.metric, shown_times, values, is_thinned=True)
    return curves


def thin_again(curves: Mapping[str, Curve], keys: Sequence[str], max_points: int) -> dict[str, Curve]:
    """Some of the curves with fewer points each; their extremes stay, and so do gaps that are seen."""
    thinner = {}
    for key in keys:
        if curve := curves.get(key):
            kept = [*range(len(curve.times))]
            if len(kept) > max_points:
                kept = select_positions(curve.times, [curve.values], max_points)
            times, values = [curve.times[place] for place in kept], [curve.values[place] for place in kept]
            thinner[key] = Curve(curve.metric, times, values, is_thinned=True)
    return thinner


def _positions_after(kept: Sequence[int], silences: set[int]) -> set[int]:
    """The places in `kept` that follow a gap."""
    if not silences:
        return set()
    found, sorted_gaps = set(), iter(sorted(silences))
    gap = next(sorted_gaps, None)
    for order, position in enumerate(kept):
        while gap is not None and gap <= position:
            if order:
                found.add(order)
            gap = next(sorted_gaps, None)
    return found


def marks_of(job: Job, events: Iterable[EventRow]) -> tuple[Mark, ...]:
    """The events of a job since its start; of too many, the most severe, and then the first."""
    start = job.start_time
    if start is None:
        return ()
    found = []
    for at, kind, detail in events:
        text, rule = event_text(kind, detail), detail.get("rule")
        named = f"{text} [{printable(rule)}]" if kind == "alert" and isinstance(rule, str) else text
        found.append(Mark(max(0.0, at - start), shortened(named, 160), severity(kind, detail)))
    order = ("bad", "warning", "good", "plain")
    if len(found) > MOST_MARKS:
        found = sorted(found, key=lambda mark: order.index(mark.severity))[:MOST_MARKS]
    return tuple(sorted(found, key=lambda mark: mark.elapsed))


def limit_lines(job: Job) -> tuple[LimitLine, ...]:
    """What the job asked for, and the limits that held for it, in the units of the charts."""
    declared, facts = job.limits, facts_of_record(job)
    word = "limit" if declared.enforced else "asked for"
    lines = []
    if declared.cpus:
        lines.append(LimitLine(CPU, 100 * declared.cpus, f"{word} {_cpus(declared.cpus)}"))
    if declared.memory_bytes:
        lines.append(LimitLine(MEMORY, declared.memory_bytes, f"{word} {format_bytes(declared.memory_bytes)}"))
    lines += _held_limits(job, facts)
    known = {(line.key, round(line.value, 3)): line for line in reversed(lines)}
    return tuple(sorted(known.values(), key=lambda line: (line.key, line.value)))


def _held_limits(job: Job, facts: LimitFacts) -> list[LimitLine]:
    lines = []
    if facts.cpus and not is_only_asked(job.limits, "limit.cpus", facts.cpus):
        lines.append(LimitLine(CPU, 100 * facts.cpus, f"{_cpus(facts.cpus)} allowed"))
    if facts.memory_bytes and not is_only_asked(job.limits, "limit.memory", facts.memory_bytes):
        lines.append(LimitLine(MEMORY, facts.memory_bytes, f"limit {format_bytes(facts.memory_bytes)}"))
    if facts.pids:
        lines.append(LimitLine(PROCESSES, facts.pids, f"limit {format_count(facts.pids)} processes and threads"))
    return lines


def _cpus(count: float) -> str:
    return f"{count:g} {'CPU' if count == 1 else 'CPUs'}"
