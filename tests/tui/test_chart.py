"""A chart draws its curves, shows their values, and paints nothing if nothing changed."""

import re
from collections.abc import Sequence
from itertools import pairwise

import pytest

from jobtop.core.metrics import BY_KEY
from jobtop.core.record import replace
from jobtop.tui.chart.axes import moments, scale_of
from jobtop.tui.chart.chart import Chart
from jobtop.tui.chart.plotting import Axis, ChartSeries, ChartView, EventMark, Plot, Side, Threshold, legend
from jobtop.tui.chart.window import TimeWindow
from jobtop.tui.palette import DARK, LIGHT, Tone
from jobtop.tui.widgets.cells import Span, width_of
from stage import Performance, paint_requests, painted_lines, play, text_of

CPU, MEMORY = BY_KEY["cpu.percent"], BY_KEY["mem.used"]
GIB = 2**30
TIMES = [float(moment) for moment in range(601)]


def cpu(values: Sequence[float | None]) -> ChartSeries:
    return ChartSeries("cpu", CPU, TIMES[: len(values)], values)


def view(**changes: object) -> ChartView:
    """Half a core for ten minutes, and memory that grows to 6 GiB of 8."""
    memory = ChartSeries("mem", MEMORY, TIMES, [moment / 100 * GIB for moment in TIMES], Side.RIGHT)
    content: dict[str, object] = {
        "title": "train",
        "series": (cpu([50.0] * 601), memory),
        "left": Axis(top=100.0),
        "right": Axis(limit=8 * GIB),
        "note": "preview",
    }
    return ChartView(**content | changes)  # type: ignore[arg-type]


def drawn(content: ChartView, width: int = 60, height: int = 12, cursor: float | None = None) -> list[str]:
    known = content.known()
    assert known is not None
    return [text_of(line) for line in Plot(content, known, width, height).lines(cursor)]


def test_both_axes_have_marks_and_every_line_its_width() -> None:
    lines = drawn(view())
    assert lines[0].startswith("100 %┤")
    assert lines[0].endswith("├8 GiB")
    assert lines[-3].startswith("  0 %┤")
    assert lines[-3].endswith("├0 B  ")
    assert lines[-2].startswith("     └┴─")
    assert lines[-1].split() == ["0", "5m", "10m"]
    assert {len(line) for line in lines} == {60}
    assert len(lines) == 12


@pytest.mark.parametrize("rows", [3, 4, 5, 6, 7, 8])
def test_in_few_rows_no_mark_is_twice_as_far_from_one_neighbour_as_from_the_other(rows: int) -> None:
    for peak in (1.0, 900.0, 20e3, 33e3, 100e3, 2e6, 33e6, 500e6):
        scale = scale_of(BY_KEY["io.read_bytes"], peak, rows)
        places = [scale.row(mark, rows, 4) for mark in scale.marks]
        apart = [before - after for before, after in pairwise(places)]
        assert max(apart) < 2 * min(apart), (peak, scale)


@pytest.mark.parametrize("rows", [5, 7, 9, 10, 13])
@pytest.mark.parametrize("peak", [0.4, 3.2, 101.0, 224.0, 270.0, 1600.0])
def test_marks_are_round_and_about_as_many_rows_apart(rows: int, peak: float) -> None:
    scale = scale_of(CPU, peak, rows)
    places = [scale.row(mark, rows, 4) for mark in scale.marks]
    apart = {before - after for before, after in pairwise(places)}
    assert max(apart) - min(apart) <= 1
    assert len(scale.labels) >= 2
    assert scale.marks[-1] <= 2 * peak
    assert all(len(label) <= len("1600 %") for label in scale.labels)


@pytest.mark.parametrize("rows", [3, 5, 7, 9, 10, 13, 20])
def test_no_mark_is_a_fraction_of_its_unit_but_a_half(rows: int) -> None:
    for power in range(5):
        for share in (1.0, 1.001, 1.3, 2.45, 7.7, 79.15, 333.0, 976.0, 1010.0, 1023.0):
            scale = scale_of(MEMORY, share * 1024.0**power, rows)
            assert all(re.fullmatch(r"\d+(\.5)? [KMGT]?i?B", label) for label in scale.labels), (share, power, scale)
            assert scale.marks[-1] <= 2.1 * share * 1024.0**power


@pytest.mark.parametrize("is_live", [True, False])
@pytest.mark.parametrize("columns", [10, 13, 27, 60, 120])
def test_every_moment_that_is_named_is_a_round_one(columns: int, is_live: bool) -> None:
    for start, span in [(0.0, 5.0), (37.3, 6.8), (1234.5, 333.3), (9.1, 60.0), (77.7, 86000.0)]:
        named = moments((start, start + span), is_live, columns)
        assert named
        assert all(re.fullmatch(r"now|-?\d+(\.\d)?[smhd]?(\d\d)?h?", words) for _, words in named), named


def test_a_filled_curve_has_a_ground_that_leaves_it_alone() -> None:
    flat, lines = [50.0] * 601, []
    for is_filled in (False, True):
        series = ChartSeries("cpu", CPU, TIMES, flat, is_filled=is_filled)
        lines.append(drawn(ChartView(series=(series,), left=Axis(100.0)), 40, 11))
    plain, filled = lines
    assert filled[:5] == plain[:5]
    assert [row.count("⣿") for row in filled[:-2]] == [0] * 5 + [34] * 4
    series = ChartSeries("cpu", CPU, TIMES, flat, is_filled=True)
    ascii_only = Plot(ChartView(series=(series,), left=Axis(100.0)), (0.0, 600.0), 40, 11, True).lines()
    assert "⣿" not in "".join(map(text_of, ascii_only))


def test_a_low_curve_is_not_magnified() -> None:
    quiet = ChartView(series=(cpu([0.3] * 601),), left=Axis(least=100.0))
    assert drawn(quiet)[0].startswith("100 %")


def test_live_time_counts_back_from_now() -> None:
    assert drawn(view(is_live=True))[-1].split() == ["-10m", "-5m", "now"]


def test_a_limit_is_dashed_once_the_curve_comes_near_it() -> None:
    assert drawn(view())[0].count("╌") > 30
    far = view(right=Axis(limit=64 * GIB))
    assert not any("╌" in line for line in drawn(far))
    assert drawn(far)[0].endswith("├6 GiB")
    assert text_of(legend(far, None, 80)).endswith("limit 64.0 GiB")


def test_a_threshold_is_a_line_with_a_label_beside_the_curve() -> None:
    nearly_full = Threshold(6 * GIB, "nearly full 75 %")
    lines = drawn(view(right=Axis(limit=8 * GIB, thresholds=(nearly_full,))))
    row = next(line for line in lines if "┄" in line)
    assert row.count("┄") > 20
    assert " nearly full 75 % " in row
    assert drawn(view(right=Axis(limit=8 * GIB, thresholds=(Threshold(64 * GIB, "far"),)))) == drawn(view())
    assert not any("nearly" in line for line in drawn(view(right=Axis(thresholds=(nearly_full,))), 30))


def test_the_label_of_a_threshold_does_not_cover_the_curve_if_there_is_room() -> None:
    low_first = [10.0] * 300 + [90.0] * 301
    high_first = low_first[::-1]
    for values, is_left in ((low_first, True), (high_first, False)):
        chart = ChartView(series=(cpu(values),), left=Axis(100.0, thresholds=(Threshold(90.0, "busy"),)))
        row = next(line for line in drawn(chart) if "busy" in line)
        assert (row.index("busy") < 30) is is_left


def test_a_threshold_in_the_row_of_the_limit_leaves_the_limit_visible() -> None:
    lines = drawn(view(right=Axis(limit=8 * GIB, thresholds=(Threshold(7.9 * GIB, "full"),))))
    assert lines[0].count("╌") > 30
    assert " full " in lines[0]


def test_what_is_not_known_is_a_gap() -> None:
    values: list[float | None] = [50.0] * 200 + [None] * 200 + [50.0] * 200
    lines = drawn(ChartView(series=(cpu(values),), left=Axis(100.0)), 66)
    line = next(line for line in lines if "⠒⠒⠒" in line or "⠤⠤⠤" in line or "⣀⣀⣀" in line or "⠉⠉⠉" in line)
    plot = line[6:]
    assert set(plot[22:38]) <= {" ", "·"}
    assert " " not in plot[:19]
    assert " " not in plot[41:-1]


def test_events_are_marks_on_the_time_axis() -> None:
    events = (EventMark(300.0), EventMark(0.0, Tone.YELLOW, "△"), EventMark(9999.0))
    axis = drawn(view(events=events))[-2]
    assert axis.count("▲") == 1
    assert axis.index("▲") == 6 + 24
    assert axis.index("△") == 6
    plot = Plot(view(events=events), (0.0, 600.0), 60, 12)
    assert Span("▲", Tone.VERMILION) in plot.lines()[-2]


def test_series_differ_by_marker_too() -> None:
    lines = "\n".join(drawn(view(), 120))
    assert "●" in lines
    assert "▲" in lines
    assert "●" not in "\n".join(drawn(ChartView(series=(cpu([50.0] * 601),)), 120))


def test_what_is_not_known_has_no_axis() -> None:
    unknown = ChartSeries("mem", MEMORY, TIMES, [None] * len(TIMES), Side.RIGHT)
    plot = Plot(replace(view(), series=(view().series[0], unknown)), (0.0, 600.0), 60, 11)
    assert list(plot.scales) == [Side.LEFT]
    assert all(len(text_of(line)) == 60 for line in plot.lines())


def test_the_legend_says_the_values_at_the_cursor_or_the_last() -> None:
    assert text_of(legend(view(), None, 80)) == "train  ━●━ cpu 50 %  ╍▲╍ mem 6.0 GiB  ╌╌ limit 8.0 GiB"
    assert "cpu 50.0 %  ╍▲╍ mem 2.0 GiB" in text_of(legend(view(), 200.4, 80))
    assert text_of(legend(view(), None, 50)) == "train  ● cpu 50 %  ▲ mem 6.0 GiB  ╌╌ limit 8.0 GiB"
    long = replace(view(), title="a job with a name that is hard to remember")
    assert text_of(legend(long, None, 80)) == (
        "a job with a name that is hard to rem…  ● cpu 50 %  ▲ mem 6.0G  ╌╌ limit 8.0 GiB"
    )
    assert text_of(legend(view(), None, 20)).startswith("train  ● 50 %  ▲ 6.0G")
    assert text_of(legend(view(), None, 48)) == "train  ● cpu 50 %  ▲ mem 6.0G  ╌╌ limit 8.0 GiB"
    nothing = ChartView(series=(cpu([None, None]),))
    assert text_of(legend(nothing, None, 80)) == "━●━ cpu –"


def test_the_legend_of_an_ended_job_has_its_last_known_value_and_of_a_live_one_the_newest() -> None:
    series = (cpu([None, 50.0, None]),)
    assert text_of(legend(ChartView(series=series), None, 80)) == "━●━ cpu 50 %"
    assert text_of(legend(ChartView(series=series, is_live=True), None, 80)) == "━●━ cpu –"


def test_a_cursor_is_a_line_through_the_plot() -> None:
    lines = drawn(view(), cursor=300.0)
    assert lines[1][30] == "│"
    assert lines[-2][30] == "┴"
    assert drawn(view(), cursor=9999.0) == drawn(view())


def test_a_plot_knows_moments_by_column() -> None:
    plot = Plot(view(), (0.0, 600.0), 60, 12)
    for column in range(plot.columns):
        assert plot.column(plot.moment(column)) == column


@pytest.mark.parametrize("height", range(1, 14))
def test_a_plot_has_exactly_its_lines(height: int) -> None:
    for width in (14, 20, 33, 160):
        lines = Plot(view(), (0.0, 600.0), width, height).lines(10.0)
        assert [width_of(line) for line in lines] == [width] * height


def test_keys_move_the_window_and_the_cursor() -> None:
    chart = Chart()

    async def scene(on: Performance) -> None:
        chart.view = view()
        await on.press("left_square_bracket", "left_square_bracket", "left_square_bracket", "left", "plus")
        assert [message.window.span for message in on.said(Chart.WindowChanged)] == [3600.0, 900.0, 300.0, 300.0, 150.0]
        assert chart.bounds == (300.0, 450.0)
        await on.press("v", "left")
        moment = chart.cursor
        assert moment is not None
        assert 447.0 < moment < 449.0
        assert on.said(Chart.CursorMoved)[-1].moment == moment
        assert on.titles()[1] == "at 7m28s"
        chart.action_toggle_cursor()
        await on.settle()
        assert on.said(Chart.CursorMoved)[-1].moment is None
        assert on.titles()[1] == "preview"

    play(chart, scene)


def test_a_cursor_takes_the_window_with_it() -> None:
    chart = Chart()

    async def scene(on: Performance) -> None:
        chart.view = view()
        chart.window = TimeWindow(60.0)
        chart.action_toggle_cursor()
        for _ in range(15):
            chart.action_left()
        await on.settle()
        bounds, moment = chart.bounds, chart.cursor
        assert bounds is not None
        assert moment is not None
        assert bounds[0] <= moment <= bounds[1] < 600.0
        for _ in range(30):
            chart.action_right()
        assert chart.cursor == 600.0
        assert chart.window == TimeWindow(60.0)

    play(chart, scene, size=(25, 8))


def test_a_click_shows_the_values_at_that_moment() -> None:
    chart = Chart()

    async def scene(on: Performance) -> None:
        chart.view = view()
        await on.settle()
        await on.pilot.click(chart, offset=(40, 5))
        moment = chart.cursor
        assert moment is not None
        assert 290 < moment < 330
        assert f"mem {moment // 1 / 100:.1f} GiB" in on.titles()[0]
        assert on.lines()[1][39] == "│"

    play(chart, scene)


def test_the_same_view_again_paints_nothing_and_another_only_what_differs() -> None:
    chart = Chart()
    requests = paint_requests(chart)

    async def scene(on: Performance) -> None:
        chart.view = view()
        await on.settle()
        requests.clear()
        chart.view = view()
        await on.settle()
        assert requests == []
        chart.view = view(events=(EventMark(100.0),))
        await on.settle()
        assert painted_lines(chart, requests) == {chart.size.height - 2}

    play(chart, scene)


def test_a_chart_without_samples_says_so_and_hostile_labels_are_text() -> None:
    chart = Chart()

    async def scene(on: Performance) -> None:
        chart.view = ChartView(title="[/b]\x1b[2J", series=(ChartSeries("[red]", CPU, [], []),), empty="nothing yet")
        await on.settle()
        assert [line.strip() for line in on.lines() if line.strip()] == ["nothing yet"]
        assert on.titles()[0] == "[/b]\\x1b[2J  ━●━ [red] –"
        for action in [chart.action_toggle_cursor, chart.action_left, chart.action_zoom_in]:
            action()
        assert chart.cursor is None

    play(chart, scene)


def test_the_theme_and_the_size_may_change_at_any_time() -> None:
    chart = Chart()

    async def scene(on: Performance) -> None:
        chart.view = view()
        await on.settle()
        colors: set[str] = set()
        for theme in (DARK, LIGHT):
            on.pilot.app.theme = theme.name
            await on.settle()
            styles = [segment.style for y in range(chart.size.height) for segment in chart.render_line(y)]
            colors |= {style.color.name for style in styles if style and style.color}
        assert {DARK.tones[Tone.BLUE].lower(), LIGHT.tones[Tone.BLUE].lower()} <= colors
        for size in [(200, 50), (30, 6), (5, 4), (12, 3)]:
            await on.pilot.resize_terminal(*size)
            await on.settle()
            assert {len(line) for line in on.lines()} == {size[0] - 2}

    play(chart, scene)


def test_in_ascii_there_is_nothing_else() -> None:
    chart = Chart()

    async def scene(on: Performance) -> None:
        chart.view = view(events=(EventMark(100.0),), is_live=True)
        chart.cursor = 300.0
        await on.settle()
        assert all(line.isascii() for line in on.lines())
        assert all(title and title.isascii() for title in on.titles())

    play(chart, scene, is_ascii=True)
