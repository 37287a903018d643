"""The axes of a chart: round values, and their labels. Pure."""

from collections.abc import Sequence
from math import ceil, floor, log, log10

from jobtop.core.metrics import Metric, Unit
from jobtop.core.record import record
from jobtop.core.series.drawing import MARK_TOLERANCE, MIN_STEPS, time_marks, time_step
from jobtop.core.text.metric_text import format_shown
from jobtop.core.units import format_duration

ROWS_PER_MARK = 4
PARTS = range(1, 7)
LEAST_ROWS, LEAST_ROWS_TALL, TALL = 2, 3, 10  # rows between two marks; in a chart of at least `TALL` rows
LEAST_UNEVEN = 2.5  # rows between two marks, if the distances differ: 2 beside 3 looks even, 1 beside 2 does not
UNEVEN, ONLY_TWO, DECIMALS = 0.1, 0.2, 0.25  # penalties, as shares of the peak left empty above it
# Steps between marks: for bytes also powers of two, and no step that is a fraction of the unit on its label.
STEPS = (1, 2, 2.5, 3, 4, 5, 6, 8, 10)
BYTE_STEPS = (1, 2, 3, 4, 5, 6, 8, 10, 16, 20, 25, 30, 32, 40, 50, 60, 64, 80, 100, 128, 200, 250, 256, 300, 400, 512)
COLUMNS_PER_LABEL = 14
MINUTE = 60.0


@record
class Scale:
    """An axis from 0 to `top`, with labelled marks."""

    top: float
    marks: tuple[float, ...]
    labels: tuple[str, ...]

    @property
    def width(self) -> int:
        """The cells of the longest label."""
        return max(map(len, self.labels))

    def row(self, value: float, rows: int, dots: int) -> int:
        """The row of cells in which a value is drawn, if a cell has so many dots."""
        highest = rows * dots - 1
        return (highest - min(highest, max(0, round(value / self.top * highest)))) // dots


def scale_of(metric: Metric, peak: float, rows: int, fixed_top: float | None = None) -> Scale:
    """Round marks up to the peak, or up to a fixed top; at even distances if possible."""
    count = max(1, rows // ROWS_PER_MARK)
    if fixed_top is not None:
        even = [part for part in (2, 4) if is_even(rows, part, LEAST_ROWS_TALL)]
        parts = max(even or [part for part in (1, 2, 4) if part <= count])
        marks = [fixed_top * part / parts for part in range(parts + 1)]
        return Scale(fixed_top, tuple(marks), mark_words(metric, marks))
    peak = peak if peak > 0 else 1.0
    marks = best_marks(metric, peak, rows)
    return Scale(max(marks[-1], peak), tuple(marks), mark_words(metric, marks))


def best_marks(metric: Metric, peak: float, rows: int) -> list[float]:
    """Round marks from 0 to the peak or slightly more: those with little room above the peak and even distances."""
    count = max(1, rows // ROWS_PER_MARK)
    least = LEAST_ROWS if rows < TALL else LEAST_ROWS_TALL
    found: list[tuple[float, int, list[float]]] = []
    for parts in PARTS:
        even = is_even(rows, parts, least)
        is_crooked = rows > LEAST_ROWS and rows - 1 < LEAST_UNEVEN * parts
        if not even and (is_crooked or parts not in (count, count + 1)):
            continue
        step = round_step_of(metric, (1 - MARK_TOLERANCE) * peak / parts, parts)
        number = parts if even else ceil((1 - MARK_TOLERANCE) * peak / step - 1e-9)
        cost = number * step / peak + UNEVEN * (not even) + ONLY_TWO * (number < 2) + DECIMALS * (step != int(step))
        found.append((cost, parts, [mark * step for mark in range(number + 1)]))
    return min(found)[2]


def round_step_of(metric: Metric, least: float, parts: int) -> float:
    """The smallest step of at least `least`, not finer than labels show, of which all multiples are round."""
    least = max(least, MIN_STEPS.get((metric.unit, metric.kind), 0.0))
    if metric.unit is not Unit.BYTES:
        power = 10.0 ** floor(log10(least)) if least > 0 else 1.0
        return next(power * factor for factor in STEPS if power * factor >= least * (1 - 1e-9))
    size = 1024.0 ** max(0, floor(log(least, 1024)))
    steps = (factor for factor in BYTE_STEPS if factor * parts < 1000 or factor & (factor - 1) == 0)
    return next((size * factor for factor in steps if size * factor >= least * (1 - 1e-9)), 1024 * size)


def is_even(rows: int, parts: int, least: int) -> bool:
    """Whether all parts of a scale have the same number of rows, and at least `least`."""
    return rows > 1 and (rows - 1) % parts == 0 and (rows - 1) // parts >= least


def mark_words(metric: Metric, marks: Sequence[float]) -> tuple[str, ...]:
    """The labels of marks, without needless decimals."""
    return tuple(format_shown(metric, mark).replace(".0 ", " ") for mark in marks)


def moments(bounds: tuple[float, float], is_live: bool, columns: int) -> list[tuple[int, str]]:
    """The columns and labels of round moments: counted back from now if live, else from the start."""
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
    """The round moments in the window, at most `count` steps of them; there may be none."""
    start, end = bounds
    step = time_step((end - start) / count)
    return [
        (mark * step, ago_words(mark * step)) for mark in range(ceil(start / step - 1e-9), int(end / step + 1e-9) + 1)
    ]


def second_words(seconds: float) -> str:
    """`60s`: within a minute all labels are in seconds."""
    return f"{seconds:g}s"


def column_of(moment: float, bounds: tuple[float, float], columns: int) -> int:
    """The column of cells of a moment; the last moment belongs to the last column."""
    start, end = bounds
    return min(columns - 1, int((moment - start) / (end - start) * columns)) if end > start else 0


def ago_words(seconds: float) -> str:
    """A short duration for a label: `45s`, `2m30s`, `10m`, `1h30m`, `2d`; 0 has no unit."""
    if seconds < 60:
        return f"{seconds:g}s" if seconds else "0"
    words = format_duration(seconds)
    return words[:-3] if words[-3:-1] == "00" else words


def label_line(labels: Sequence[tuple[int, str]], columns: int) -> str:
    """Labels centred below their columns; a label that would touch the one before it is left out."""
    line = ""
    for column, words in labels:
        left = max(0, min(columns - len(words), column - len(words) // 2))
        if not line or left > len(line):
            line = line.ljust(left) + words
    return line.ljust(columns)[:columns]
