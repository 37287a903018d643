"""Curves keep their extremes and gaps when drawn as dots; axes have round marks; time windows move as requested."""

import math
import random

import pytest

from jobtop.core.metrics import BY_KEY
from jobtop.tui.chart.axes import ago_words, label_line, moments, scale_of
from jobtop.tui.chart.canvas import SINGLE, Extent, Layer, Sheet, extents
from jobtop.tui.chart.window import SPANS, TimeWindow

CPU, MEMORY, READ = BY_KEY["cpu.percent"], BY_KEY["mem.used"], BY_KEY["io.read_bytes"]


def drawn(layer: Layer) -> list[str]:
    sheet = Sheet(len(layer.rows[0]), len(layer.rows))
    sheet.lay(layer, 1, "*")
    return ["".join(text for text, _ in sheet.runs(y)) for y in range(len(layer.rows))]


def test_a_dot_is_where_braille_has_it() -> None:
    for x, y, glyph in [(0, 0, "⠁"), (1, 0, "⠈"), (0, 3, "⡀"), (1, 3, "⢀"), (1, 1, "⠐")]:
        layer = Layer(1, 1)
        layer.run(x, y, y)
        assert drawn(layer) == [glyph]


def test_a_run_crosses_cells() -> None:
    layer = Layer(1, 3)
    layer.run(0, 2, 9)
    assert drawn(layer) == ["⡄", "⡇", "⠃"]


def test_a_flat_line_is_one_dot_high() -> None:
    layer = Layer(3, 1)
    layer.trace([(50.0, 50.0)] * 6, 100.0)
    assert drawn(layer) == ["⠒⠒⠒"]


def test_values_beyond_the_scale_lie_on_its_edge() -> None:
    layer = Layer(1, 2)
    layer.trace([(400.0, 400.0), (-3.0, -3.0)], 100.0)
    assert drawn(layer) == ["⠁", "⢀"]


def test_a_slope_is_a_line_and_not_a_band() -> None:
    layer = Layer(4, 2)
    layer.trace(extents([0.0, 8.0], [0.0, 7.0], (0.0, 8.0), 8), 7.0)
    assert drawn(layer) == [" ⢀⣠⠊", "⡔⠁  "]


def test_without_braille_a_cell_is_a_marker() -> None:
    layer = Layer(4, 2, SINGLE)
    layer.trace([(0.0, 0.0), (0.0, 1.0), None, (1.0, 1.0)], 1.0)
    assert drawn(layer) == [" * *", "**  "]


def test_the_curve_on_top_owns_the_cell() -> None:
    sheet = Sheet(2, 1)
    for owner, x in ((3, 0), (4, 1)):
        layer = Layer(2, 1)
        layer.run(x, 0, 3)
        sheet.lay(layer, owner, "*")
    assert sheet.runs(0) == [("⢸", 4), (" ", 0)]


def test_nothing_is_put_outside_a_sheet() -> None:
    sheet = Sheet(2, 1)
    for x, y in ((-1, 0), (2, 0), (0, -1), (0, 1)):
        sheet.put(x, y, "x", 1)
    assert sheet.runs(0) == [("  ", 0)]


def brute_force(
    times: list[float], values: list[float | None], bounds: tuple[float, float], width: int
) -> list[Extent | None]:
    """The extents by definition: every column checked against every line that touches it."""
    start, end = bounds
    step = (end - start) / width
    shown: list[Extent | None] = [None] * width
    lines = [
        (times[at], one, times[at + 1], other)
        for at in range(len(times) - 1)
        if (one := values[at]) is not None and (other := values[at + 1]) is not None
    ]
    lines += [(time, value, time, value) for time, value in zip(times, values, strict=True) if value is not None]
    for column in range(width):
        left, right = start + column * step, start + (column + 1) * step
        found = []
        for begin, one, until, other in lines:
            low, high = max(left, begin), min(right, until)
            last = column == width - 1
            inside = left <= begin < right or (last and begin == right) if begin == until else low < high
            if inside:
                slope = (other - one) / (until - begin) if until > begin else 0.0
                found += [one + slope * (low - begin), one + slope * (high - begin)]
        shown[column] = (min(found), max(found)) if found else None
    return shown


@pytest.mark.parametrize("seed", range(40))
def test_every_column_shows_all_that_lies_in_it(seed: int) -> None:
    chance = random.Random(seed)
    times, now = [], chance.uniform(-20, 20)
    for _ in range(chance.randrange(1, 60)):
        times.append(now)
        now += chance.choice([0.01, 1.0, 1.0, 7.3])
    values = [None if chance.random() < 0.15 else chance.uniform(0, 100) for _ in times]
    start = chance.uniform(times[0] - 5, times[-1])
    bounds = (start, start + chance.uniform(1, 80))
    width = chance.randrange(1, 50)
    expected = brute_force(times, values, bounds, width)
    found = extents(times, values, bounds, width)
    for one, other in zip(found, expected, strict=True):
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            assert one == pytest.approx(other, abs=1e-6)


def test_a_short_peak_among_many_samples_is_kept() -> None:
    values: list[float | None] = [1.0] * 10_000
    values[6_543] = 99.0
    shown = extents([float(moment) for moment in range(10_000)], values, (0.0, 9_999.0), 20)
    assert max(high for _, high in filter(None, shown)) == 99.0


def test_a_gap_stays_a_gap() -> None:
    shown = extents([0.0, 1.0, 2.0, 3.0, 4.0], [1.0, 1.0, None, 1.0, 1.0], (0.0, 5.0), 5)
    assert shown == [(1.0, 1.0), (1.0, 1.0), None, (1.0, 1.0), (1.0, 1.0)]
    broken = extents([0.0, 1.0, 60.0, 61.0], [1.0, 1.0, 1.0, 1.0], (0.0, 61.0), 61, breaks={2})
    assert broken[30] is None
    assert broken[60] is not None


def test_no_samples_give_no_extents() -> None:
    assert extents([], [], (0.0, 1.0), 3) == [None] * 3
    assert extents([1.0], [1.0], (1.0, 1.0), 3) == [None] * 3


@pytest.mark.parametrize(
    ("rows", "labels"),
    [(3, ("0 %", "100 %")), (8, ("0 %", "50 %", "100 %")), (20, ("0 %", "25 %", "50 %", "75 %", "100 %"))],
)
def test_a_fixed_scale_has_as_many_marks_as_there_is_room(rows: int, labels: tuple[str, ...]) -> None:
    assert scale_of(CPU, 3.0, rows, 100.0).labels == labels


def test_an_automatic_scale_ends_at_a_round_mark_above_the_peak() -> None:
    scale = scale_of(MEMORY, 5.9 * 2**30, 12)
    assert scale.top == 6 * 2**30
    assert scale.labels == ("0 B", "2 GiB", "4 GiB", "6 GiB")
    assert scale_of(READ, 3 * 2**20, 8).labels[-1] == "3 MiB/s"
    assert scale_of(CPU, 0.0, 8).top == 1.0


def test_marks_stand_in_the_rows_of_their_values() -> None:
    scale = scale_of(CPU, 0.0, 9, 100.0)
    assert [scale.row(mark, 9, 4) for mark in scale.marks] == [8, 4, 0]
    assert scale.row(1000.0, 9, 4) == 0


def test_live_moments_count_back_from_now_and_others_from_the_start() -> None:
    assert [words for _, words in moments((400.0, 1000.0), True, 80)] == ["-10m", "-8m", "-6m", "-4m", "-2m", "now"]
    assert moments((400.0, 1000.0), True, 80)[-1] == (79, "now")
    assert [words for _, words in moments((0.0, 90.0), False, 80)] == ["0", "30s", "1m", "1m30s"]
    assert [words for _, words in moments((100.0, 190.0), False, 80)] == ["2m", "2m30s", "3m"]
    assert moments((5.0, 5.0), False, 80) == []


def test_labels_stand_below_their_moments_and_never_touch() -> None:
    assert label_line([(0, "-10m"), (19, "now")], 20) == "-10m             now"
    assert label_line([(5, "long label"), (8, "next")], 20) == "long label".ljust(20)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0"),
        (0.5, "0.5s"),
        (45, "45s"),
        (150, "2m30s"),
        (600, "10m"),
        (5400, "1h30m"),
        (86400, "1d"),
        (90000, "1d01h"),
    ],
)
def test_moments_have_short_names(seconds: float, words: str) -> None:
    assert ago_words(seconds) == words


def test_a_window_follows_the_newest_moment() -> None:
    window = TimeWindow(60.0)
    assert window.bounds((0.0, 600.0)) == (540.0, 600.0)
    assert window.bounds((0.0, 601.0)) == (541.0, 601.0)
    assert TimeWindow().bounds((3.0, 600.0)) == (3.0, 600.0)


def test_a_live_window_is_as_long_as_it_says_and_another_begins_with_the_job() -> None:
    assert TimeWindow(60.0).bounds((0.0, 20.0), is_live=True) == (-40.0, 20.0)
    assert TimeWindow(60.0).bounds((0.0, 20.0)) == (0.0, 20.0)


def test_a_single_moment_has_a_window() -> None:
    start, end = TimeWindow().bounds((7.0, 7.0))
    assert start == 7.0
    assert end > start


def test_windows_get_shorter_and_longer_by_the_usual_steps() -> None:
    window, spans = TimeWindow(), []
    for _ in SPANS:
        window = window.shorter()
        spans.append(window.span)
    assert spans == [3600.0, 900.0, 300.0, 60.0, 60.0]
    spans = []
    for _ in SPANS:
        window = window.longer()
        spans.append(window.span)
    assert spans == [300.0, 900.0, 3600.0, None, None]
    assert [TimeWindow(span).words for span in SPANS] == ["1m", "5m", "15m", "1h", "all"]


def test_zooming_keeps_the_end_of_a_following_window_and_else_the_moment_under_the_cursor() -> None:
    known = (0.0, 1000.0)
    assert TimeWindow().zoomed(0.5, known) == TimeWindow(500.0)
    assert TimeWindow(400.0, 600.0).zoomed(0.5, known).bounds(known) == (300.0, 500.0)
    start, end = TimeWindow(400.0, 600.0).zoomed(0.5, known, around=300.0).bounds(known)
    assert (300.0 - start) / (end - start) == pytest.approx(0.25)
    assert TimeWindow(600.0).zoomed(2.0, known) == TimeWindow()
    assert TimeWindow(6.0).zoomed(0.1, known).span == 5.0


def test_a_window_that_is_moved_stays_and_follows_again_at_the_end() -> None:
    known = (0.0, 1000.0)
    moved = TimeWindow(100.0).panned(-0.25, known)
    assert moved.bounds(known) == (875.0, 975.0)
    assert moved.bounds((0.0, 1500.0)) == (875.0, 975.0)
    assert moved.panned(0.25, known) == TimeWindow(100.0)
    far = moved
    for _ in range(100):
        far = far.panned(-0.25, known)
    assert far.bounds(known) == (0.0, 100.0)
    assert TimeWindow().panned(-0.25, known) == TimeWindow()


def test_a_curve_of_many_samples_is_drawn_on_all_its_columns() -> None:
    times = [moment / 10 for moment in range(6000)]
    values: list[float | None] = [50 + 40 * math.sin(moment) for moment in times]
    assert None not in extents(times, values, (0.0, 599.9), 300)


@pytest.mark.parametrize("columns", [20, 30, 40, 55, 80, 200])
def test_a_window_of_any_length_has_labels(columns: int) -> None:
    for tenths in range(1, 200):
        named = moments((0.0, tenths / 10), is_live=False, columns=columns)
        assert named
        assert named[0] == (0, "0")
