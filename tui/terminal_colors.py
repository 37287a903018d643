"""The colours of programs on the console's themes: readable on a dark and on a light background."""

from __future__ import annotations

from rich.color import Color as RichColor
from rich.style import Style
from textual.color import Color

from jobtop.core.text.terminal_text import TextStyle
from jobtop.tui.palette import Palette, Tone

# Black, red, green, yellow, blue, magenta, cyan, white; then the bright ones.
ON_DARK = (
    *("#3A4757", "#EF6B64", "#4DBD7E", "#DDB64A", "#56A8E9", "#C98ADB", "#45BFC7", "#D3D9E2"),
    *("#7D8796", "#FF938A", "#7FE0A6", "#F5DC7A", "#8FCBFF", "#E3B3F0", "#83E2E8", "#FFFFFF"),
)
ON_LIGHT = (
    *("#1F2A36", "#B3261E", "#1A7037", "#7F5F00", "#0B5CAD", "#8A2D86", "#00687A", "#8A94A0"),
    *("#5C6774", "#CC3A30", "#1F8343", "#8F6B00", "#1F6FD0", "#A33F9E", "#007D91", "#C6CED7"),
)
LEAST_CONTRAST = 3.0  # of text and its background; WCAG asks for 3 where text is large or bold
DIMMED = 0.4  # how far dim text is from its own colour to its background
STEPS = 10


def rich_style(style: TextStyle, palette: Palette, base: Style) -> Style:
    """A program's style as the console paints it, on the background of a widget."""
    weight = Style(
        bold=style.bold, italic=style.italic, underline=style.underline, reverse=style.reverse, dim=style.dim
    )
    if palette.ansi:
        return base + Style.from_color(_own(style.foreground), _own(style.background)) + weight
    sixteen = ON_DARK if palette.dark else ON_LIGHT
    text, background = Color.parse(palette.tones[Tone.TEXT]), Color.parse(palette.background)
    behind = background if style.background is None else _color(style.background, sixteen)
    if style.foreground is None:
        ink = max((text, background), key=lambda color: contrast(color, behind))
    else:
        ink = readable(_color(style.foreground, sixteen), behind, text, background)
    if style.dim:
        ink = ink.blend(behind, DIMMED)
    colors = Style.from_color(ink.rich_color, None if style.background is None else behind.rich_color)
    return base + colors + weight + Style(dim=False)


def readable(ink: Color, behind: Color, text: Color, background: Color) -> Color:
    """The colour, or one between it and the theme's text or background that stands out from what is behind it."""
    if contrast(ink, behind) >= LEAST_CONTRAST:
        return ink
    target = max((text, background), key=lambda color: contrast(color, behind))
    blends = (ink.blend(target, step / STEPS) for step in range(1, STEPS))
    return next((blend for blend in blends if contrast(blend, behind) >= LEAST_CONTRAST), target)


def contrast(one: Color, other: Color) -> float:
    """The contrast ratio of WCAG: 1 for the same colour, 21 for black on white."""
    lighter, darker = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(color: Color) -> float:
    red, green, blue = (
        part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in color.normalized
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _color(color: int | tuple[int, int, int], sixteen: tuple[str, ...]) -> Color:
    if isinstance(color, tuple):
        return Color(*color)
    if color < len(sixteen):
        return Color.parse(sixteen[color])
    return Color(*RichColor.from_ansi(color).get_truecolor())


def _own(color: int | tuple[int, int, int] | None) -> RichColor | None:
    """A colour of the terminal itself."""
    if color is None:
        return None
    return RichColor.from_rgb(*color) if isinstance(color, tuple) else RichColor.from_ansi(color)
