"""The machine fits into any size, and unknown values are not shown as 0."""

import pytest

from jobtop.core.record import replace
from jobtop.tui.palette import Tone
from jobtop.tui.widgets.cells import width_of
from jobtop.tui.widgets.host_strip import (
    GpuView,
    HostStrip,
    HostView,
    heat_lines,
    host_lines,
    host_title,
    lines_wanted,
    uptime_words,
)
from stage import Performance, play, text_of

GIB = 2**30
ATLAS = HostView(
    name="atlas",
    cores=[float(5 * core) for core in range(16)],
    load=(9.31, 8.02, 6.77),
    uptime_seconds=12 * 86400.0,
    memory_used=38.9 * GIB,
    memory_total=64 * GIB,
    swap_used=0.0,
    swap_total=8 * GIB,
    disk_read=41 * 2**20,
    disk_write=12 * 2**20,
    disk_busy=48.0,
    net_rx=8.1 * 2**20,
    net_tx=1.2 * 2**20,
    cpu_pressure=2.0,
    memory_pressure=0.0,
    io_pressure=14.0,
    gpus=[GpuView(91.0, 22 * GIB, 80 * GIB, 71.0)],
    temperature=54.0,
    history=[40.0] * 100,
)


def shown(view: HostView, width: int, height: int) -> list[str]:
    return [text_of(line) for line in host_lines(view, width, height)]


@pytest.mark.parametrize("width", [16, 40, 58, 78, 109, 110, 158, 240])
@pytest.mark.parametrize("cores", [0, 1, 2, 16, 32, 33, 128, 1024])
def test_every_line_fits_whatever_the_room(width: int, cores: int) -> None:
    for view in (replace(ATLAS, cores=[50.0] * cores), HostView(cores=[None] * cores)):
        for height in range(1, 7):
            lines = host_lines(view, width, height)
            assert len(lines) <= height
            assert {width_of(line) for line in lines} == {width}


def test_a_wide_screen_shows_each_core_and_each_meter() -> None:
    lines = shown(ATLAS, 156, 6)
    assert lines[0].startswith(" 0 ─")
    assert [line[94:].split()[0] for line in lines] == ["MEM", "SWP", "DSK", "NET", "PSI", "GPU"]
    assert "61% 38.9G/64.0G" in lines[0]
    assert "48% r 41.0M w 12.0M" in lines[2]
    assert "↓ 8.1M/s  ↑ 1.2M/s" in lines[3]
    assert "cpu  2%  mem  0%  io 14%" in lines[4]
    assert "91% 22.0G/80.0G 71°" in lines[5]
    cores = [int(word) for line in lines[:4] for word in line[:92].replace("─", " ").split() if word.isdigit()]
    assert sorted(cores) == list(range(16))


def test_many_cores_are_a_cell_each() -> None:
    lines = shown(replace(ATLAS, cores=[100.0 if core == 70 else 1.0 for core in range(128)]), 156, 6)
    assert sum(line.count("▇") for line in lines[:4]) == 1
    assert sum(line[:90].count("▁") for line in lines[:4]) == 127


def test_more_cores_than_cells_show_the_busiest_of_several() -> None:
    lines = heat_lines([100.0 if core == 777 else 1.0 for core in range(4096)], 80, 5)
    assert len(lines) <= 5
    assert sum(span.text.count("▇") for line in lines for span in line) == 1


def test_a_narrow_screen_has_two_lines_of_averages() -> None:
    first, second = shown(replace(ATLAS, gpus=()), 76, 2)
    assert [word for word in first.split() if word.isupper() and word.isalpha()] == ["CPU", "MEM", "SWP"]
    assert "38%" in first
    assert "38.9G/64.0G" in first
    assert [word for word in second.split() if word.isupper() and word.isalpha()] == ["DSK", "NET", "PSI"]
    assert "io  14%" in second
    assert shown(ATLAS, 76, 1)[0].split()[0] == "CPU"
    assert lines_wanted(ATLAS, 109) == 2
    assert lines_wanted(ATLAS, 110) == 6


def test_what_is_not_known_is_a_dash() -> None:
    text = "\n".join(shown(HostView(cores=[None, None]), 156, 6))
    assert "0%" not in text
    assert text.count("–") >= 9
    assert text_of(host_title(HostView(name="atlas"))) == "host atlas"


def test_gpus_share_a_row_where_there_are_not_enough() -> None:
    two = replace(ATLAS, gpus=[GpuView(91.0), GpuView(45.0)])
    assert "68% 91% 45%" in shown(two, 156, 6)[5]


def test_long_waits_are_coloured() -> None:
    tones = {span.text.strip(): span.tone for line in host_lines(ATLAS, 156, 6) for span in line}
    assert tones["14%"] is Tone.YELLOW
    assert tones["2%"] is Tone.TEXT


def test_the_title_says_which_machine() -> None:
    title = text_of(host_title(ATLAS))
    assert title == "host atlas · 16 cores · load 9.31 8.02 6.77 · up 12d · 54 °C"
    assert text_of(host_title(ATLAS, 50)) == "host atlas · 16 cores · load 9.31 8.02 6.77"
    assert text_of(host_title(ATLAS, 3)) == "host atlas"
    assert [uptime_words(seconds) for seconds in (5, 90, 7300, 200000)] == ["5s", "1m", "2h", "2d"]


def test_the_strip_is_as_high_as_there_is_to_show() -> None:
    strip = HostStrip()

    async def scene(on: Performance) -> None:
        strip.view = ATLAS
        await on.settle()
        assert strip.size.height == 6
        assert "atlas" in on.titles()[0]
        await on.pilot.resize_terminal(80, 24)
        await on.settle()
        assert strip.size.height == 2
        assert on.lines()[0].startswith("CPU ━")
        strip.view = replace(ATLAS, name="[/b]")
        await on.settle()
        assert on.titles()[0].startswith("host [/b] · 16 cores")

    play(strip, scene, size=(160, 24))


def test_gpus_have_the_numbers_of_their_vendor_s_tools() -> None:
    view = replace(ATLAS, swap_total=None, gpus=[GpuView(91.0, number="1"), GpuView(number="2.3")])
    lines = shown(view, 156, 9)
    assert any("GPU1 " in line for line in lines)
    assert any("G2.3 " in line for line in lines)
