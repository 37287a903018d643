"""Tabs fit into any width, and those of visible panes keep their whole title."""

import pytest

from jobtop.tui.widgets.cells import width_of
from jobtop.tui.widgets.tab_line import Tab, TabLine, fitting
from stage import Performance, play, text_of

TITLES = ("CPU+mem", "GPU", "GPUs", "I/O", "Power", "Stalls", "Processes", "Files", "Connections", "Output", "Timeline")
TABS = [Tab(title.lower(), title, title in ("CPU+mem", "Output")) for title in TITLES]


@pytest.mark.parametrize("width", [58, 64, 78, 100, 158])
def test_all_tabs_fit_and_visible_panes_have_whole_titles(width: int) -> None:
    spans = fitting(TABS, width)
    assert sum(map(width_of, spans)) <= width
    texts = [text_of(tab).strip() for tab in spans]
    assert (texts[0], texts[9]) == ("▌CPU+mem", "▌Output")
    assert all(title.startswith(text) for title, text in zip(TITLES, texts, strict=True) if "▌" not in text)
    assert width < 100 or texts[8] == "Connections"


def test_a_click_on_a_short_tab_shows_its_pane() -> None:
    line = TabLine()

    async def scene(on: Performance) -> None:
        line.tabs = TABS
        await on.pilot.resize_terminal(60, 10)
        await on.settle()
        left = sum(map(width_of, fitting(TABS, 58)[:8]))
        await on.pilot.click(line, offset=(left + 2, 0))
        await on.settle()
        assert [message.pane for message in on.said(TabLine.Clicked)] == ["connections"]

    play(line, scene)
