"""The pictures in screenshots/ are drawn from the current console, and none is stale."""

import re
from pathlib import Path

import pytest
from rich.segment import Segment
from rich.style import Style

from support import ROOT, long_test
from tools import screenshots
from tools.picture import CELL, LINE, draw_svg
from tools.scenes import SCENES


@long_test
def test_the_pictures_show_the_console_as_it_is() -> None:
    """In words the same scenes are compared in every run, by test_snapshots.py."""
    assert screenshots.stale_pictures() == [], "python -m tools.screenshots makes them anew; look at what came out"


def test_every_picture_is_also_a_png() -> None:
    expected = {f"{scene.name}{suffix}.png" for scene in SCENES for suffix in screenshots.SIZES}
    assert expected <= {file.name for file in (ROOT / "screenshots").iterdir()}


def test_a_picture_that_differs_or_is_missing_is_stale(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "same.svg").write_text("<svg>1</svg>")
    (tmp_path / "changed.svg").write_text("<svg>2</svg>")
    made = {"same": "<svg>1</svg>", "changed": "<svg>3</svg>", "missing": "<svg>4</svg>"}
    monkeypatch.setattr(screenshots, "FOLDER", tmp_path)
    monkeypatch.setattr(screenshots, "pictures", lambda: made)
    assert screenshots.stale_pictures() == ["changed", "missing"]


def path_of(picture: str, color: str, kind: str) -> str:
    found = re.search(rf'<path [^>]*{kind}="{color}"[^>]* d="([^"]*)"', picture)
    assert found is not None
    return found[1]


def test_words_are_text_in_their_colour_as_wide_as_their_cells() -> None:
    picture = draw_svg([[Segment("a <b>   c", Style(color="#ff0000", bold=True))]], 9, "t")
    assert f'<text class="b" x="0" y="14.5" textLength="{5 * CELL}"' in picture
    assert "a &lt;b&gt;</text>" in picture
    assert f'x="{8 * CELL}"' in picture


def test_a_ground_is_painted_below_the_words() -> None:
    picture = draw_svg([[Segment("  "), Segment("xy", Style(color="#ff0000", bgcolor="#00ff00"))]], 4, "t")
    assert path_of(picture, "#00ff00", "fill") == f"M{2 * CELL} 0h{2 * CELL}v{LINE}h-{2 * CELL}z"
    assert picture.index("#00ff00") < picture.index("xy")


def test_reversed_words_change_their_colours() -> None:
    picture = draw_svg([[Segment("xy", Style(color="#ff0000", bgcolor="#00ff00", reverse=True))]], 2, "t")
    assert 'fill="#00ff00">xy<' in picture
    assert path_of(picture, "#ff0000", "fill")


def test_a_line_is_one_stroke_and_corners_reach_their_neighbours() -> None:
    picture = draw_svg([[Segment("╭──", Style(color="#ff0000"))], [Segment("│  ", Style(color="#ff0000"))]], 3, "t")
    strokes = path_of(picture, "#ff0000", "stroke")
    half, middle = CELL / 2, LINE / 2
    assert f"M{CELL} {middle:g}h{2 * CELL}" in strokes
    assert f"V{LINE}" in strokes
    assert f"M{half:g} {LINE + middle:g}v-{middle:g}" in strokes


def test_blocks_stand_on_the_floor_of_their_line() -> None:
    picture = draw_svg([[Segment("▂▂█", Style(color="#ff0000"))]], 3, "t")
    quarter = LINE / 4
    assert path_of(picture, "#ff0000", "fill") == (
        f"M0 {LINE - quarter:g}h{2 * CELL}v{quarter:g}h-{2 * CELL}zM{2 * CELL} 0h{CELL}v{LINE}h-{CELL}z"
    )


def test_every_dot_of_a_braille_cell_is_where_it_belongs() -> None:
    picture = draw_svg([[Segment("⠀⢁", Style(color="#ff0000"))]], 2, "t")  # the first and the last dot
    left, right = CELL * 1.25, CELL * 1.75
    assert path_of(picture, "#ff0000", "stroke") == f"M{left:g} 2.5h0.01M{right:g} 17.5h0.01"
