"""The colours of programs on each theme: told apart, and readable on whatever is behind them."""

from itertools import product

import pytest
from rich.style import Style
from textual.color import Color

from jobtop.core.text.terminal_text import TextStyle
from jobtop.tui.palette import DARK, LIGHT, TERMINAL, Palette, Tone
from jobtop.tui.terminal_colors import LEAST_CONTRAST, contrast, rich_style

CHOSEN = [None, *range(0, 256, 5), *range(16), (0, 0, 0), (255, 255, 255), (250, 250, 248), (14, 18, 23)]


def painted(style: TextStyle, palette: Palette) -> tuple[Color, Color]:
    """The colours of the text and of what is behind it."""
    made = rich_style(style, palette, Style.parse(f"{palette.tones[Tone.TEXT]} on {palette.background}"))
    assert made.color is not None
    assert made.bgcolor is not None
    return Color.from_rich_color(made.color), Color.from_rich_color(made.bgcolor)


@pytest.mark.parametrize("palette", [DARK, LIGHT], ids=["dark", "light"])
def test_text_stands_out_from_what_is_behind_it(palette: Palette) -> None:
    pairs = [painted(TextStyle(ink, behind), palette) for ink, behind in product(CHOSEN, CHOSEN)]
    assert min(contrast(ink, behind) for ink, behind in pairs) >= LEAST_CONTRAST - 0.05


@pytest.mark.parametrize("palette", [DARK, LIGHT], ids=["dark", "light"])
def test_sixteen_colours_are_sixteen(palette: Palette) -> None:
    assert len({painted(TextStyle(number), palette)[0] for number in range(16)}) >= 15  # one may be the text itself


def test_the_terminals_own_colours_are_left_to_it() -> None:
    style = rich_style(TextStyle(foreground=1, background=208, dim=True), TERMINAL, Style())
    assert (style.color, style.bgcolor, style.dim) == (
        Style(color="color(1)").color,
        Style(color="color(208)").color,
        True,
    )


def test_dim_text_is_nearer_to_its_background() -> None:
    plain, dim = (painted(TextStyle(dim=dim), DARK)[0] for dim in (False, True))
    assert contrast(dim, Color.parse(DARK.background)) < contrast(plain, Color.parse(DARK.background))
