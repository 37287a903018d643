"""The columns of live jobs: what each shows, and which are dropped first if there is little room."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import ceil, log2
from typing import Any

from jobtop.core.record import record, replace
from jobtop.core.text.memory_text import is_peak_upper_bound
from jobtop.core.units import format_duration
from jobtop.tui.data.incidents import JobAlerts
from jobtop.tui.data.last_minute import columns_of
from jobtop.tui.data.view import JobRow
from jobtop.tui.palette import FLAG_GLYPHS, SEVERITY_GLYPHS, STATUS_GLYPHS, Tone, load_tone
from jobtop.tui.widgets.cells import (
    PERCENT_WIDTH,
    Align,
    Bar,
    Cell,
    Span,
    Words,
    aligned,
    bar,
    bounded,
    cut_middle,
    fitted,
    percent_words,
    safe_text,
    short_bytes,
    short_rate,
    spark,
    width_of,
)
from jobtop.tui.widgets.columns import Column

ABSENT = Words("–", Tone.GREY)
NOTHING = Words("0", Tone.GREY)
ALERTS, NAME = "alerts", "name"
SHOWN_PERCENT = 0.5
LINE_SECONDS = 60
WITH_COMMAND, LEAST_COMMAND = 36, 12  # cells of a column that also shows the command; cells left for the command
LEAST_APART = 8  # cells for what tells a job from its namesakes
LONGEST = 300  # characters of a command; no column has room for more
Number = float | int


@record
class NameCell:
    """A name, and behind it what tells it from its namesakes or, if there is room, its command or why it waits."""

    name: str
    command: Sequence[str]
    is_over: bool
    wait_reason: str | None = None
    apart: str | None = None

    def spans(self, width: int, align: Align) -> Sequence[Span]:
        tone = Tone.GREY if self.is_over else Tone.TEXT
        name = Span(safe_text(self.name[:LONGEST]), tone)
        left = width - width_of([name]) - 2
        grey = Tone.FAINT if self.is_over else Tone.GREY
        if self.apart:
            return self._spans_apart(name, width, grey)
        if width < WITH_COMMAND or left < LEAST_COMMAND:
            return (Span(fitted(name.text, width), tone),)
        import shlex

        words = (self.wait_reason or shlex.join(self.command))[:LONGEST]
        return aligned([name, Span("  "), Span(words, grey)], width, align)

    def _spans_apart(self, name: Span, width: int, tone: Tone) -> Sequence[Span]:
        """The name, shortened if it has to be, and at least some cells of what tells it apart."""
        assert self.apart is not None
        wanted = min(width_of([Span(safe_text(self.apart[:LONGEST]))]), max(LEAST_APART, width // 2))
        words = cut_middle(self.apart[:LONGEST], max(wanted, width - width_of([name]) - 1))
        room = max(0, width - width_of([Span(words)]) - 1)
        short = Span(cut_middle(name.text, room), name.tone)
        return aligned([short, Span(" "), Span(words, tone)], width)


@record
class GreyBar:
    """A grey bar for an ended job."""

    percent: float

    def spans(self, width: int, align: Align) -> Sequence[Span]:
        label = Span(percent_words(self.percent).rjust(PERCENT_WIDTH)[-width:], Tone.GREY)
        return (*bar(self.percent, width - PERCENT_WIDTH, Tone.GREY), label)


@record
class MinuteSparkline:
    """A sparkline of the last minute; each cell is the mean of fixed seconds, so it only moves left."""

    times: Sequence[float]
    values: Sequence[Number | None]
    top: float
    tone: Tone

    def spans(self, width: int, align: Align) -> Sequence[Span]:
        return (Span(spark(self.cells(width), self.top, width), self.tone),)

    def cells(self, width: int) -> list[float | None]:
        if not self.times or width <= 0:
            return []
        seconds = ceil(LINE_SECONDS / width)
        last = int(self.times[-1] // seconds)
        sums, counts = [0.0] * width, [0] * width
        for moment, value in zip(self.times, self.values, strict=False):
            place = width - 1 - last + int(moment // seconds)
            if place >= 0 and value is not None:
                sums[place] += value
                counts[place] += 1
        return [total / count if count else None for total, count in zip(sums, counts, strict=True)]


def live_columns(has_hosts: bool = False) -> tuple[Column[JobRow], ...]:
    """The columns of the dashboard; dropped in the order GPU, I/O, OF LIMIT, STATE, HOST and the sparkline."""
    host: tuple[Column[JobRow], ...] = (
        Column("host", "HOST", lambda row: Words(row.job.host, Tone.GREY), 8, flex=1, most=16, priority=1),
    )
    return (
        Column("status", "", glyph, 1, sortable=False),
        Column("id", "ID", lambda row: Words(row.job.id[:8], Tone.GREY), 8),
        Column(NAME, "NAME", name({}), 14, flex=4),
        *(host if has_hosts else ()),
        Column("state", "STATE", state, 9, priority=2),
        Column("time", "TIME", elapsed, 8, align=Align.RIGHT),
        Column("cpu", "CPU%", cpu, 5, align=Align.RIGHT),
        Column("line", "CPU 60s", cpu_line, 12, flex=1, most=30, priority=1, sortable=False),
        Column("mem", "MEM", memory, 6, align=Align.RIGHT),
        Column("limit", "OF LIMIT", of_limit, 13, priority=3),
        Column("io", "I/O", traffic, 8, align=Align.RIGHT, priority=4),
        Column("gpu", "GPU%", gpu, 5, align=Align.RIGHT, priority=5),
        Column(ALERTS, "!", alerts({}), 2, align=Align.RIGHT, sortable=False),
    )


def with_alerts(columns: Sequence[Column[JobRow]], counted: Mapping[str, JobAlerts]) -> tuple[Column[JobRow], ...]:
    """The same columns, with the number of alerts of each job in one of them."""
    return tuple(replace(column, cell=alerts(counted)) if column.key == ALERTS else column for column in columns)


def glyph(row: JobRow) -> Cell:
    for flag, (sign, tone) in FLAG_GLYPHS.items():
        if flag in row.job.flags:
            return Words(sign, tone)
    sign, tone = STATUS_GLYPHS[str(row.job.status)]
    return Words("?" if row.is_stale and not row.job.status.ended else sign, tone)


def name(apart: Mapping[str, str]) -> Callable[[JobRow], Cell]:
    """The cell of the name; `apart` has what tells jobs of the same name apart."""

    def cell(row: JobRow) -> Cell:
        job = row.job
        return NameCell(job.name, job.command, job.status.ended, row.wait_words, apart.get(job.id))

    return cell


def with_names(columns: Sequence[Column[JobRow]], apart: Mapping[str, str]) -> tuple[Column[JobRow], ...]:
    """The same columns, with what tells jobs of the same name apart behind their names."""
    return tuple(replace(column, cell=name(apart)) if column.key == NAME else column for column in columns)


def state(row: JobRow) -> Cell:
    """The status, of a queued job with its position."""
    _, tone = STATUS_GLYPHS[str(row.job.status)]
    if row.queue_place is not None and row.job.status == "queued":
        return Words(f"{'queued' if row.queue_place < 10 else 'wait'} #{row.queue_place}", tone)
    return Words("stale" if row.is_stale and not row.job.status.ended else str(row.job.status), tone)


def elapsed(row: JobRow) -> Cell:
    """How long a job has run; for a queued job, how long it has waited."""
    if row.elapsed is None:
        return ABSENT
    is_at_it = row.job.start_time is not None and not row.job.status.ended
    words = format_duration(row.elapsed, is_counting=not row.job.status.ended)
    return Words(words, Tone.TEXT if is_at_it else Tone.GREY)


def with_wait(row: JobRow, now: float) -> JobRow:
    """The row with the time since submission, if its job has not started."""
    submitted = row.job.submitted_at
    is_waiting = row.elapsed is None and row.job.start_time is None and not row.job.status.ended
    return replace(row, elapsed=max(0.0, now - submitted)) if is_waiting and submitted is not None else row


def cpu(row: JobRow) -> Cell:
    if row.now is None or row.now.cpu_percent is None or row.job.status.ended:
        return ABSENT
    if row.now.cpu_percent < SHOWN_PERCENT:
        return NOTHING
    allowed = row.job.limits.cpus or row.job.usage.cpus_allowed or 1.0
    return Words(f"{row.now.cpu_percent:.0f}", load_tone(row.now.cpu_percent / allowed), True)


def cpu_line(row: JobRow) -> Cell:
    """The sparkline of CPU; its scale ends at the declared CPUs, else at the next power of two above the peak."""
    if row.last_minute is None:
        return Words("")
    minute = columns_of(row.last_minute)
    peak = max((value for value in minute.cpu_percent if value is not None), default=0.0)
    top = 100 * (row.job.limits.cpus or 2 ** ceil(log2(max(1.0, peak / 100))))
    tone = Tone.GREY if row.job.status.ended or peak < SHOWN_PERCENT else Tone.BLUE
    return MinuteSparkline(minute.times, minute.cpu_percent, top, tone)


def memory_bytes(row: JobRow) -> float | None:
    if row.now is not None and row.now.memory_bytes is not None and not row.job.status.ended:
        return row.now.memory_bytes
    return row.job.usage.memory_peak_bytes


def memory(row: JobRow) -> Cell:
    held, is_over = memory_bytes(row), row.job.status.ended
    if held is None:
        return ABSENT
    return Words(
        bounded(short_bytes(held), is_over and is_peak_upper_bound(row.job)), Tone.GREY if is_over else Tone.TEXT
    )


def limit_percent(row: JobRow) -> float | None:
    limit, held = row.job.limits.memory_bytes, memory_bytes(row)
    return 100 * held / limit if limit and held is not None else None


def of_limit(row: JobRow) -> Cell:
    if not row.job.limits.memory_bytes:
        return ABSENT
    percent = limit_percent(row)
    return ABSENT if percent is None else GreyBar(percent) if row.job.status.ended else Bar(percent)


def io_rate(row: JobRow) -> float | None:
    if row.now is None or row.now.read_rate is None or row.now.write_rate is None or row.job.status.ended:
        return None
    return row.now.read_rate + row.now.write_rate


def traffic(row: JobRow) -> Cell:
    rate = io_rate(row)
    return ABSENT if rate is None else Words(short_rate(rate)) if rate else NOTHING


def gpu(row: JobRow) -> Cell:
    percent = row.now.gpu_percent if row.now is not None else None
    return ABSENT if percent is None else Words(f"{percent:.0f}")


def alerts(counted: Mapping[str, JobAlerts]) -> Callable[[JobRow], Cell]:
    """The column with the highest severity and the number of open alerts of a job: `▲1`; grey if all are known."""

    def cell(row: JobRow) -> Cell:
        found = counted.get(row.job.id)
        if found is None:
            return Words("")
        glyph, tone = SEVERITY_GLYPHS[found.severity]
        words = f"{glyph}{found.count if found.count < 10 else '+'}"
        return Words(words, Tone.GREY) if found.is_acknowledged else Words(words, tone, True)

    return cell


# The values that columns are sorted by; None is sorted last.
SORTS: dict[str, Callable[[JobRow], Any]] = {
    "id": lambda row: row.job.id,
    "name": lambda row: row.job.name.casefold(),
    "host": lambda row: row.job.host,
    "state": lambda row: row.job.status,
    "time": lambda row: row.elapsed,
    "cpu": lambda row: row.now.cpu_percent if row.now is not None and not row.job.status.ended else None,
    "mem": memory_bytes,
    "limit": limit_percent,
    "io": io_rate,
    "gpu": lambda row: row.now.gpu_percent if row.now is not None else None,
}
