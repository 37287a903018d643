"""The charts of a job: the curves of each, its limits, and events on its time axis. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from jobtop.core.metrics import find_metric
from jobtop.core.model import Job
from jobtop.core.record import record
from jobtop.core.series.drawing import Curve
from jobtop.core.text.event_text import BAD, WARNING, severity
from jobtop.core.text.job_text import are_samples_deleted, deletion_text, not_monitored_text, not_started_text
from jobtop.core.text.limits_used import is_only_asked
from jobtop.core.text.memory_text import WITH_FILES, counts_mapped_files, is_peak_upper_bound
from jobtop.core.units import format_bytes
from jobtop.store.jobs import Event
from jobtop.tui.chart.plotting import Axis, ChartSeries, ChartView, EventMark, Side, Whole
from jobtop.tui.chart.window import TimeWindow
from jobtop.tui.data.job_reading import ALL, JobView
from jobtop.tui.palette import SEVERITY_GLYPHS, Tone
from jobtop.tui.screens.job.thresholds import thresholds
from jobtop.tui.widgets.cells import safe_text

if TYPE_CHECKING:
    from jobtop.core.alerts.model import Rule

MARKS = {BAD: (Tone.VERMILION, "▲"), WARNING: (Tone.YELLOW, "△")}
STALLED = 0.01  # of the time: less pressure is not shown
VERY_END = 0.03  # of the run
NO_SAMPLES = "no samples yet"
NEVER_SAMPLED = "not sampled: only totals are known"


@record
class JobChart:
    """One chart: its title, its curves with their labels, and the value from which it is shown."""

    name: str
    title: str
    curves: tuple[tuple[str, str, Side], ...]
    least: float | None = None  # shown only if a value is higher; None: always
    note: Callable[[JobView], str] | None = None


def allowed_cores(job: Job) -> float | None:
    """The number of cores that the job asked for, or is allowed to use."""
    return job.limits.cpus or job.usage.cpus_allowed


def cpu_note(job_view: JobView) -> str:
    cores, job = allowed_cores(job_view.job), job_view.job
    noun = "core" if cores == 1 else "cores"
    return f"{cores:g} {noun} {'declared' if job.limits.cpus else 'allowed'}" if cores else ""


def memory_note(job_view: JobView) -> str:
    peak, bound = job_view.numbers.memory_peak, "≤ " if is_peak_upper_bound(job_view.job) else ""
    files = f" {WITH_FILES}" if counts_mapped_files(job_view.job) else ""
    return f"peak {bound}{format_bytes(peak)}{files}" if peak is not None else ""


def io_note(job_view: JobView) -> str:
    read, written = job_view.numbers.read_bytes, job_view.numbers.write_bytes
    return f"{format_bytes(read)} read, {format_bytes(written)} written" if read is not None else ""


def network_note(job_view: JobView) -> str:
    """The totals, and how they are known once the job has ended."""
    received, sent = job_view.numbers.received_bytes, job_view.numbers.sent_bytes
    if received is None or sent is None:
        return ""
    source = job_view.job.sources.get("network")
    return f"{format_bytes(received)} received, {format_bytes(sent)} sent" + (
        f" · {safe_text(source)}" if source else ""
    )


CPU, MEMORY = ("cpu.percent", "CPU", Side.LEFT), ("mem.used", "memory", Side.LEFT)
BOTH = JobChart("both", "", (CPU, ("mem.used", "memory", Side.RIGHT)), note=memory_note)
PREVIEW = JobChart("preview", "", (("cpu.percent", "cpu", Side.LEFT), ("mem.used", "mem", Side.RIGHT)))
CHARTS = (
    JobChart("cpu", "", (CPU,), note=cpu_note),
    JobChart("memory", "", (MEMORY,), note=memory_note),
    JobChart(
        "io",
        "I/O",
        (("io.read_bytes", "read", Side.LEFT), ("io.write_bytes", "written", Side.LEFT)),
        note=io_note,
    ),
    JobChart("gpu", "GPU", (("gpu.util", "busy", Side.LEFT), ("gpu.mem_used", "memory", Side.RIGHT)), least=0.0),
    JobChart(
        "net",
        "network",
        (("net.rx_bytes", "received", Side.LEFT), ("net.tx_bytes", "sent", Side.LEFT)),
        least=0.0,
        note=network_note,
    ),
    JobChart("energy", "power", (("energy.cpu", "CPU", Side.LEFT), ("energy.gpu", "GPU", Side.LEFT)), least=0.0),
    JobChart(
        "pressure",
        "stalled for",
        (
            ("cpu.pressure", "CPU", Side.LEFT),
            ("mem.pressure", "memory", Side.LEFT),
            ("io.pressure", "I/O", Side.LEFT),
        ),
        least=STALLED,
    ),
)


def shown_charts(job_view: JobView) -> list[JobChart]:
    """The charts that have something to show for this job; the first three always."""
    return [chart for chart in CHARTS if chart.least is None or _peak(job_view, chart) > chart.least]


def chart_view(
    job_view: JobView,
    chart: JobChart,
    window: TimeWindow = ALL,
    whole: Whole | None = None,
    rules: Mapping[str, Rule] = MappingProxyType({}),
) -> ChartView:
    """A chart of the job; its border names the shown time, and what its memory is a percentage of."""
    job = job_view.job
    part = "" if window.span is None else window.words
    note = chart.note(job_view) if chart.note is not None else ""
    series = [
        ChartSeries(
            label,
            find_metric(key),
            *_spread(job_view.curves[key], job_view.run_bounds),
            side,
            key == chart.curves[0][0],  # a second filled curve would cover the first
            whole if key == "mem.used" else None,
        )
        for key, label, side in chart.curves
        if key in job_view.curves and (job_view.curves[key].known() or len(chart.curves) < 3)
    ]
    return ChartView(
        title=chart.title,
        series=series,
        left=_axis(job_view, [key for key, _, side in chart.curves if side is Side.LEFT], rules),
        right=_axis(job_view, [key for key, _, side in chart.curves if side is Side.RIGHT], rules),
        events=event_marks(job_view),
        is_live=not job.status.ended and window.end is None,
        note=" · ".join(filter(None, (part, note))),
        empty=no_samples(job_view),
    )


def no_samples(job_view: JobView) -> str:
    """The reason why there are no curves."""
    job = job_view.job
    if (words := not_started_text(job)) is not None:
        return words
    if not job.status.ended:
        return not_monitored_text(job) or NO_SAMPLES
    if job_view.is_sampled:
        return "not measured for this job"
    if not are_samples_deleted(job):
        return NEVER_SAMPLED
    return f"samples {deletion_text((event.at, event.kind, event.detail) for event in job_view.events)}"


def event_marks(job_view: JobView) -> list[EventMark]:
    """Events that went wrong, as marks on the time axis."""
    start = job_view.job.start_time
    if start is None:
        return []
    found = [(event, mark_of(event)) for event in job_view.events]
    return [EventMark(max(0.0, event.at - start), *mark) for event, mark in found if mark is not None]


def mark_of(event: Event) -> tuple[Tone, str] | None:
    """The colour and glyph of an event on the time axis: each alert has one, other events if something went wrong."""
    if event.kind == "alert":
        glyph, tone = SEVERITY_GLYPHS.get(str(event.detail.get("severity")), SEVERITY_GLYPHS["warning"])
        return tone, glyph
    return MARKS.get(severity(event.kind, event.detail))


def _axis(job_view: JobView, keys: Sequence[str], rules: Mapping[str, Rule]) -> Axis:
    """The axis of some curves, with the line of what the job is limited to or asked for, and those of alert rules."""
    job, found = job_view.job, job_view.numbers.limits.memory_bytes
    limit: float | None = None
    is_asked = False
    if "cpu.percent" in keys:
        cores = allowed_cores(job)
        limit, is_asked = 100 * cores if cores else None, job.limits.cpus is not None and not job.limits.enforced
    elif "mem.used" in keys:
        limit = job.limits.memory_bytes if found is None else found
        is_asked = limit is not None and is_only_asked(job.limits, "limit.memory", limit)
    memory_limit = (job.limits.memory_bytes if found is None else found) if "mem.used" in keys else None
    lines = thresholds(keys, rules, job_view.alerts, memory_limit)
    return Axis(limit=limit, limit_name="asked" if is_asked else "limit", thresholds=lines)


def _spread(curve: Curve, whole: tuple[float, float]) -> tuple[list[float], list[float | None]]:
    """The curve over the whole run, of which only a part was read: the rest is unknown.

    An unknown value at the very end, such as the memory of an ended job, is ignored.
    """
    length = len(curve.values)
    while length and curve.values[length - 1] is None:
        length -= 1
    times, values = curve.times[:length], list(curve.values[:length])
    if times and times[0] > whole[0]:
        times, values = [whole[0], *times], [None, *values]
    if times and times[-1] < whole[1] - VERY_END * (whole[1] - whole[0]):
        times, values = [*times, whole[1]], [*values, None]
    return times, values


def _peak(job_view: JobView, chart: JobChart) -> float:
    values = [value for key, _, _ in chart.curves if key in job_view.curves for value in job_view.curves[key].known()]
    return max(values, default=-1.0)
