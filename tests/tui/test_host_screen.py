"""The Host screen: every recorded device over the chosen time, as small charts of an exact size."""

import os
import time
from pathlib import Path

import pytest
from recorded_host import record_host

from jobtop.core.measure.device import Device
from jobtop.core.metrics import find_metric
from jobtop.core.paths import StatePaths
from jobtop.core.series.drawing import Curve
from jobtop.store.database import open_to_read
from jobtop.tui.app import Options
from jobtop.tui.chart.window import TimeWindow
from jobtop.tui.data.host_reading import DeviceCurves, HostHistory, HostReading, LiveHost
from jobtop.tui.data.slow_devices import SlowDevices
from jobtop.tui.data.view import MachineView
from jobtop.tui.screens.dashboard import Dashboard
from jobtop.tui.screens.host import HostPane, HostScreen, across, band_lines, bands, fitting_window
from jobtop.tui.screens.host_sections import sections
from jobtop.tui.screens.job.screen import JobScreen
from jobtop.tui.widgets.cells import width_of
from jobtop.tui.widgets.host_strip import HostStrip
from jobtop.tui.widgets.multiples import CoreLoad, Stroke, Tile, core_bar, short_value, tile_lines
from records import HERE, kept_jobs, made_job
from support import wait_for
from visiting import Visitor, visit

MINUTE = (0.0, 60.0)


def curve(key: str, values: list[float | None]) -> Curve:
    return Curve(find_metric(key), [float(second) for second in range(len(values))], list(values))


@pytest.fixture
def recorded(home: Path) -> Options:
    record_host(home, count=40, seconds_ago=45)
    paths = StatePaths(home, HERE)
    kept_jobs(home, made_job(end_time=time.time() - 10, start_time=time.time() - 100, duration_seconds=90.0))
    return Options([paths.store], own=paths)


def read(options: Options, span: float | None = 300.0, end: float | None = None) -> HostHistory:
    database = open_to_read(options.stores[0])
    try:
        return HostReading().read(database, span, end, time.time())
    finally:
        database.close()


def test_every_recorded_device_is_there_with_its_newest_value(recorded: Options) -> None:
    history = read(recorded)
    disk = next(part for part in history.devices if part.device == Device("disk", "sda"))
    assert disk.value("disk.latency") == pytest.approx(0.002)
    assert disk.value("disk.read_bytes") == pytest.approx(1 << 20)
    shown = {section.title: section for section in sections(history, None)}
    assert list(shown) == ["Host", "Cores", "Disks", "Interfaces", "Temperatures and fans", "Power"]
    assert [core.name for core in shown["Cores"].cores] == ["0", "2", "10"]
    assert [tile.title for tile in shown["Temperatures and fans"].tiles] == ["coretemp Package id 0", "nct6775 fan1"]
    assert shown["Power"].tiles[0].note == "-12.5W"


def test_a_second_reading_adds_what_is_new_and_nothing_twice(recorded: Options, home: Path) -> None:
    database, now = open_to_read(recorded.stores[0]), time.time()
    reading = HostReading()
    before = reading.read(database, 300.0, None, now)
    record_host(home, count=3, seconds_ago=4)
    after = reading.read(database, 300.0, None, now)
    fresh = HostReading().read(database, 300.0, None, now)
    database.close()
    lengths = [len(history.of_host().curves["mem.used"].times) for history in (before, after, fresh)]
    assert lengths == [40, 43, 43]
    assert after.of_host().curves["mem.used"].times == fresh.of_host().curves["mem.used"].times


def test_a_fresh_screen_shows_a_short_time_until_there_is_more() -> None:
    def known_for(seconds: float) -> HostHistory:
        times = [1000.0 - seconds, 1000.0]
        part = DeviceCurves(None, {"mem.used": Curve(find_metric("mem.used"), times, [1, 2])})
        return HostHistory("atlas", (0.0, 1000.0), (part,))

    assert fitting_window(HostHistory("atlas", (1000.0, 1000.0)), 1000.0).span == 60
    assert [fitting_window(known_for(seconds), 1000.0).span for seconds in (2.0, 59.0, 61.0)] == [60, 60, 300]


def test_a_window_that_the_user_chose_stays(home: Path) -> None:
    record_host(home, count=40, seconds_ago=45)
    paths = StatePaths(home, HERE)

    async def scene(visitor: Visitor) -> None:
        await visitor.press("h")
        await visitor.shows("the last 1m")
        await visitor.press("right_square_bracket")
        await visitor.shows("the last 5m")
        screen = visitor.console.screen
        assert isinstance(screen, HostScreen)
        await screen.read_history()
        await visitor.shows("the last 5m")

    visit(home, scene, (100, 30), Options([paths.store], own=paths))


def test_a_window_in_the_past_has_only_its_own_time(recorded: Options) -> None:
    end = time.time() - 20
    times = read(recorded, 10.0, end).of_host().curves["mem.used"].times
    assert end - 12.5 < times[0] < times[-1] <= end + 0.001
    assert read(recorded, 10.0, end - 1000).is_empty


def test_the_console_continues_what_is_not_recorded() -> None:
    live = LiveHost()
    detail = {"cores": {"0": (50.0, 2.0, 0.0)}, "disks": {"sda": {"disk.busy": 0.5}}}
    for second in (10.0, 11.0, 11.0):
        live.see(MachineView("atlas", second, {"mem.used": 5}, detail))
    live.see(MachineView("atlas", 12.0, {"mem.used": 5}, detail), {"sda": (1, 4)})
    live.add(Device("sensor", "fan"), 11.5, {"fan.speed": 900})
    joined = live.joined(HostHistory("atlas", (12.0, 12.0)), 0.0, 12.0)
    assert joined.of_host().curves["mem.used"].times == [10.0, 11.0, 12.0]
    disk = next(part for part in joined.devices if part.device == Device("disk", "sda"))
    assert (disk.value("disk.used"), disk.value("disk.total"), disk.value("disk.used", 11.0)) == (1, 4, None)
    assert joined.devices[-1].value("fan.speed") == 900
    core = next(part for part in joined.devices if part.device == Device("core", "0"))
    assert (core.value("cpu.percent"), core.value("cpu.iowait")) == (50.0, 0.02)
    assert joined.known == (10.0, 12.0)


def test_slow_devices_of_this_machine_are_read_in_their_own_thread() -> None:
    slow = SlowDevices()
    try:
        found = wait_for(slow.poll) if os.path.exists("/sys/devices/system/node/node0") else None
        if found is not None:
            assert abs(found[0] - time.time()) < 60
            values = dict(found[1])[Device("numa", "0")]
            assert values["mem.total"]
            assert values["numa.misses"] is None, "a rate needs two readings"
    finally:
        slow.close()


@pytest.mark.parametrize("width", [20, 36, 60, 110])
@pytest.mark.parametrize("is_ascii", [True, False])
def test_a_tile_is_exactly_as_wide_as_its_place(width: int, is_ascii: bool) -> None:
    read_rate = Stroke("r", curve("disk.read_bytes", [None, 5e6, None, 9e12]), 9e12)
    tile = Tile("a disk with a very long name 日本", [read_rate, Stroke("w", None, None)], note="of 1.8T")
    lines = tile_lines(tile, MINUTE, width, is_ascii, 30.0)
    assert [width_of(line) for line in lines] == [width] * 4


@pytest.mark.parametrize("width", [40, 74, 114, 154, 214])
def test_all_lines_of_the_screen_are_exactly_as_wide_as_it(recorded: Options, width: int) -> None:
    history = read(recorded)
    for band in bands(sections(history, None), width):
        lines = band_lines(band, history.known, width, False, None)
        assert [width_of(line) for line in lines] == [width] * band.height


def test_charts_that_belong_together_stay_in_one_row_or_break_evenly() -> None:
    assert [across(width, 36, 4) for width in (40, 74, 114, 154, 214)] == [1, 2, 2, 4, 4]
    assert [across(width, 36, 2) for width in (40, 74, 114, 154, 214)] == [1, 2, 2, 4, 4]
    assert [across(width, 36, 1) for width in (40, 74, 114, 154, 214)] == [1, 2, 3, 4, 5]


def test_waiting_and_stolen_time_are_told_apart_without_colour() -> None:
    bar = "".join(span.text for span in core_bar(CoreLoad("0", None, 50.0, 25.0, 12.5)))
    assert bar == "━━━━╍╍┄─"
    assert "".join(span.text for span in core_bar(CoreLoad("0", None))) == "────────"


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("disk.read_bytes", 10.4 * (1 << 20), "10.4M/s"),
        ("disk.busy", 0.42, "42%"),
        ("disk.used", 1 << 40, "1.0T"),
        ("temp", 61.5, "62°C"),
        ("fan.speed", 1180, "1180rpm"),
        ("numa.misses", 12345, "12k/s"),
        ("battery.power", -12.5, "-12.5W"),
        ("temp", None, "–"),
    ],
)
def test_a_value_fits_seven_cells(key: str, value: float | None, words: str) -> None:
    assert short_value(find_metric(key), value) == words
    assert len(words) <= 7


def test_h_and_enter_on_the_strip_open_the_screen_and_keys_change_the_time(recorded: Options, home: Path) -> None:
    async def scene(visitor: Visitor) -> None:
        await visitor.until(lambda: isinstance(visitor.console.screen, Dashboard))
        await visitor.press("h")
        await visitor.shows("sda", "coretemp Package id 0", "BAT0", "5m")
        await visitor.press("h")
        assert len(visitor.console.screen_stack) == 3, "it opens once"
        await visitor.press("left_square_bracket")
        await visitor.shows("the last 1m")
        await visitor.press("v", "left")
        await visitor.shows(" at ")
        await visitor.press("v", "right_square_bracket", "right_square_bracket", "G")
        pane = visitor.console.screen.query_one(HostPane)
        await visitor.until(lambda: pane.window == TimeWindow(900.0) and pane.is_vertical_scroll_end)
        await visitor.press("escape")
        await visitor.until(lambda: isinstance(visitor.console.screen, Dashboard))
        visitor.console.screen.query_one(HostStrip).focus()
        await visitor.press("enter")
        await visitor.until(lambda: isinstance(visitor.console.screen, HostScreen))

    visit(home, scene, (160, 60), recorded)


def test_from_an_ended_job_the_machine_is_shown_while_it_ran(recorded: Options, home: Path) -> None:
    async def scene(visitor: Visitor) -> None:
        await visitor.until(lambda: visitor.console.view is not None and visitor.console.view.rows)
        assert visitor.console.view is not None
        job = visitor.console.view.rows[0].job
        await visitor.console.open_job(job.id)
        await visitor.until(lambda: isinstance(screen := visitor.console.screen, JobScreen) and screen.job is not None)
        await visitor.press("h")
        await visitor.until(lambda: isinstance(visitor.console.screen, HostScreen))
        pane = visitor.console.screen.query_one(HostPane)
        await visitor.until(lambda: pane.window.end == job.end_time)
        await visitor.shows("sda")

    visit(home, scene, (160, 42), recorded)


def test_a_host_that_was_never_recorded_says_so(home: Path) -> None:
    kept_jobs(home, made_job())

    async def scene(visitor: Visitor) -> None:
        await visitor.press("h")
        await visitor.shows("No samples of this time")

    visit(home, scene, (120, 30), Options([StatePaths(home, HERE).store]))
