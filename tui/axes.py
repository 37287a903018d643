"""The axes of a chart: round marks and what they are called. Pure."""

from collections.abc import Sequence
from math import ceil

from jobtop.core.display import format_shown
from jobtop.core.drawing import HAIR, LEAST_STEPS, round_step, time_marks, value_marks
from jobtop.core.metrics import Metric, Unit
from jobtop.core.record import record

ROWS_PER_MARK = 4
EVEN_PARTS = (2, 3, 4, 5, 6)
LEAST_ROWS, LEAST_ROWS_TALL, TALL = 2, 3, 10  # between two marks, and in a chart of so many rows
WASTE, WASTE_FOR_MORE = 0.1, 0.3  # of the room above a curve that even marks may cost, and where there are but two
DECIMALS = 0.25  # what they count for
COLUMNS_PER_LABEL = 14
MINUTE = 60.0


@record
class Scale:
    """From 0 to `top`, with marks that have labels."""

    top: float
    marks: tuple[float, ...]
    labels: tuple[str, ...]

    @property
    def width(self) -> int:
        """The cells that the longest label takes."""
        return max(map(len, self.labels))

    def row(self, value: float, rows: int, dots: int) -> int:
        """The row of cells in which a value is drawn, in so many dots a cell."""
        highest = rows * dots - 1
        return (highest - min(highest, max(0, round(value / self.top * highest)))) // dots


def scale_of(metric: Metric, peak: float, rows: int, fixed_top: float | None = None) -> Scale:
    """Round marks for what is shown: up to the peak, or up to a top that does not move; evenly spaced if that goes."""
    count = max(1, rows // ROWS_PER_MARK)
    if fixed_top is not None:
        even = [part for part in (2, 4) if is_even(rows, part, LEAST_ROWS_TALL)]
        parts = max(even or [part for part in (1, 2, 4) if part <= count])
        marks = [fixed_top * part / parts for part in range(parts + 1)]
        return Scale(fixed_top, tuple(marks), mark_words(metric, marks))
    peak = peak if peak > 0 else 1.0
    marks = value_marks(metric, peak, count + 1)
    waste = WASTE if len(marks) > 2 else WASTE_FOR_MORE
    marks = even_marks(metric, peak, rows, marks[-1] + waste * peak) or marks
    return Scale(max(marks[-1], peak), tuple(marks), mark_words(metric, marks))


def even_marks(metric: Metric, peak: float, rows: int, most: float) -> list[float]:
    """Round marks as many rows apart each; none where the last would have to be higher than that."""
    size = 1.0
    while metric.unit is Unit.BYTES and peak / size >= 1024:
        size *= 1024
    least = LEAST_STEPS.get((metric.unit, metric.kind), 0.0)
    best: list[float] = []
    for parts in EVEN_PARTS:
        if is_even(rows, parts, LEAST_ROWS if rows < TALL else LEAST_ROWS_TALL):
            step = max(round_step((1 - HAIR) * peak / size / parts), least)
            reached = parts * step * size + DECIMALS * peak * (step != int(step))
            if reached < most:
                best, most = [mark * step * size for mark in range(parts + 1)], reached
    return best


def is_even(rows: int, parts: int, least: int) -> bool:
    """Whether so many parts of a scale are all as many rows high, and no less than that."""
    return rows > 1 and (rows - 1) % parts == 0 and (rows - 1) // parts >= least


def mark_words(metric: Metric, marks: Sequence[float]) -> tuple[str, ...]:
    """What marks are called; no decimals where none of them has one."""
    words = [format_shown(metric, mark) for mark in marks]
    if all("." not in word or ".0 " in word for word in words):
        words = [word.replace(".0 ", " ") for word in words]
    return tuple(words)


def moments(bounds: tuple[float, float], is_live: bool, columns: int) -> list[tuple[int, str]]:
    """The columns of round moments and their labels: before now of what is live, since the start of what is not."""
    start, end = bounds
    span = end - start
    if span <= 0 or columns < 2:
        return []
    count = max(1, columns // COLUMNS_PER_LABEL)
    if is_live:
        offsets = time_marks(span, count)
        words = second_words if span <= MINUTE else ago_words
        named = [(end - offset, f"-{words(offset)}" if offset else "now") for offset in reversed(offsets)]
    else:
        named = next((found for finer in (1, 2, 4, 8) if (found := round_moments(bounds, count * finer))), [])
    return [(column_of(moment, bounds, columns), words) for moment, words in named]


def round_moments(bounds: tuple[float, float], count: int) -> list[tuple[float, str]]:
    """The round moments in sight, no more than that many steps of them; there may be none."""
    start, end = bounds
    step = time_marks(2 * (end - start), 2 * count)[1]
    return [
        (mark * step, ago_words(mark * step)) for mark in range(ceil(start / step - 1e-9), int(end / step + 1e-9) + 1)
    ]


def second_words(seconds: float) -> str:
    """`60s`: within a minute all marks are seconds."""
    return f"{seconds:g}s"


def column_of(moment: float, bounds: tuple[float, float], columns: int) -> int:
    """The column of cells a moment belongs to; the last moment to the last."""
    start, end = bounds
    return min(columns - 1, int((moment - start) / (end - start) * columns)) if end > start else 0


def ago_words(seconds: float) -> str:
    """`45s`, `2m30`, `10m`, `1h30`, `2d`: short, for marks; 0 needs no unit."""
    if seconds < 60:
        return f"{seconds:g}s" if seconds else "0"
    minutes, second = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}m{second:02}" if second else f"{minutes}m"
    hours, minute = divmod(minutes, 60)
    if hours < 24:
        return f"{hours}h{minute:02}" if minute else f"{hours}h"
    days, hour = divmod(hours, 24)
    return f"{days}d{hour:02}h" if hour else f"{days}d"


def label_line(labels: Sequence[tuple[int, str]], columns: int) -> str:
    """Labels centred below their columns; one that would touch the one before it is left out."""
    line = ""
    for column, words in labels:
        left = max(0, min(columns - len(words), column - len(words) // 2))
        if not line or left > len(line):
            line = line.ljust(left) + words
    return line.ljust(columns)[:columns]
