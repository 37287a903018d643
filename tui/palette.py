"""Every colour and glyph of the console, and its themes: dark, light, and the terminal's own sixteen colours."""

from collections.abc import Mapping
from enum import IntEnum

from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter
from textual.theme import Theme

from jobtop.core.record import record


class Tone(IntEnum):
    """The role of a piece of text; each theme chooses the colour for it."""

    TEXT = 0
    GREY = 1  # secondary
    FAINT = 2  # the empty part of a bar, grids
    BLUE = 3  # normal, first series
    ORANGE = 4  # focus, second series
    GREEN = 5  # running, third series
    PURPLE = 6  # killed, fourth series
    YELLOW = 7  # warning
    VERMILION = 8  # critical


class Ground(IntEnum):
    """The background of a line; the cursor line is paler while another pane has the focus."""

    PLAIN = 0
    CURSOR = 1
    CURSOR_BLURRED = 2
    HOVER = 3


@record
class Palette:
    """The colours of one theme; a cursor line without a colour is reversed, or bold if its pane has no focus."""

    name: str
    dark: bool
    tones: Mapping[Tone, str]
    grounds: Mapping[Ground, str]
    background: str
    panel: str
    line: str
    ansi: bool = False


DARK = Palette(
    name="jobtop-dark",
    dark=True,
    tones={
        Tone.TEXT: "#D3D9E2",
        Tone.GREY: "#7D8796",
        Tone.FAINT: "#3A4757",
        Tone.BLUE: "#56B4E9",
        Tone.ORANGE: "#E69F00",
        Tone.GREEN: "#2BB58A",
        Tone.PURPLE: "#CC79A7",
        Tone.YELLOW: "#F0E442",
        Tone.VERMILION: "#F0703C",
    },
    grounds={Ground.CURSOR: "#22344A", Ground.CURSOR_BLURRED: "#1A2430", Ground.HOVER: "#161D26"},
    background="#0E1217",
    panel="#1A212B",
    line="#25405C",
)
LIGHT = Palette(
    name="jobtop-light",
    dark=False,
    tones={
        Tone.TEXT: "#1F2A36",
        Tone.GREY: "#5C6774",
        Tone.FAINT: "#CBD3DC",
        Tone.BLUE: "#0068A3",
        Tone.ORANGE: "#A65300",
        Tone.GREEN: "#00704F",
        Tone.PURPLE: "#97386F",
        Tone.YELLOW: "#7A6000",
        Tone.VERMILION: "#BF3A08",
    },
    grounds={Ground.CURSOR: "#D3E4F3", Ground.CURSOR_BLURRED: "#E6EAEE", Ground.HOVER: "#EFF2F4"},
    background="#FAFAF8",
    panel="#E8ECF0",
    line="#A9BDD1",
)
TERMINAL = Palette(
    name="jobtop-terminal",
    dark=True,
    tones={
        Tone.TEXT: "ansi_default",
        Tone.GREY: "ansi_bright_black",
        Tone.FAINT: "ansi_bright_black",
        Tone.BLUE: "ansi_bright_blue",
        Tone.ORANGE: "ansi_yellow",
        Tone.GREEN: "ansi_green",
        Tone.PURPLE: "ansi_magenta",
        Tone.YELLOW: "ansi_bright_yellow",
        Tone.VERMILION: "ansi_bright_red",
    },
    grounds={},
    background="ansi_default",
    panel="ansi_default",
    line="ansi_bright_black",
    ansi=True,
)
PALETTES = {palette.name: palette for palette in (DARK, LIGHT, TERMINAL)}

SERIES = (Tone.BLUE, Tone.ORANGE, Tone.GREEN, Tone.PURPLE, Tone.YELLOW, Tone.VERMILION)
MARKERS = "●▲■◆○◇"
STROKES = "━╍─┄━╍"  # in the legend, beside the marker
CURSOR, MARK = "▌", "◆"
CRITICAL = "»"  # before the jobs that decide how long a run takes
DESCENDING, ASCENDING = "▼", "▲"
WARNING_PERCENT, CRITICAL_PERCENT = 80.0, 92.0

# The keys are the values of `core.model.Status`, and the flags of a job.
STATUS_GLYPHS = {
    "running": ("●", Tone.GREEN),
    "queued": ("◌", Tone.GREY),
    "paused": ("‖", Tone.YELLOW),
    "success": ("✓", Tone.BLUE),
    "failed": ("✗", Tone.VERMILION),
    "cancelled": ("■", Tone.PURPLE),
    "timeout": ("◷", Tone.VERMILION),
    "error": ("!", Tone.VERMILION),
    "lost": ("?", Tone.GREY),
    "unknown": ("?", Tone.GREY),
}
FLAG_GLYPHS = {
    "oom_killed": ("▼", Tone.PURPLE),
    "over_limit": ("▼", Tone.VERMILION),
    "throttled": ("≈", Tone.YELLOW),
    "left_running": ("…", Tone.GREY),
}
# By the state of a container, or by its health while it runs.
CONTAINER_GLYPHS = {
    "running": STATUS_GLYPHS["running"],
    "healthy": STATUS_GLYPHS["running"],
    "unhealthy": STATUS_GLYPHS["error"],
    "starting": ("◌", Tone.GREEN),
    "paused": STATUS_GLYPHS["paused"],
    "restarting": ("◌", Tone.YELLOW),
    "created": STATUS_GLYPHS["queued"],
}
SEVERITY_GLYPHS = {"critical": ("▲", Tone.VERMILION), "warning": ("△", Tone.YELLOW), "info": ("·", Tone.GREY)}

# Each glyph has one ASCII character of the same width, so that columns stay aligned.
ASCII = str.maketrans(
    {
        pair[0]: pair[1]
        for pair in "●* ◌o ‖= ✓+ ✗x ■# ◷T ▲^ △' ▼v ◆@ ○o ◇< ·. ≈~ …. –- ▌> ◂< ▸> "
        "█# ▇% ▆* ▅+ ▄= ▃- ▂: ▁_ ━= ╸- ╍= ─- ╌- ┄. │| ┤| ├| └+ ┘+ ┴+ ┬+ "
        "╭+ ╮+ ╰+ ╯+ ┏+ ┓+ ┗+ ┛+ ┃# ┼+ ┣+ ┫+ ┳+ ┻+ ╋+ ╺- ╶- ╴- »> ↑^ ↓v ←< →> ×x °o ≤<".split()
    }
)


def load_tone(percent: float | None) -> Tone:
    """The colour of a percentage: blue, yellow when nearly full, vermilion when critical."""
    if percent is None:
        return Tone.GREY
    if percent < WARNING_PERCENT:
        return Tone.BLUE
    return Tone.YELLOW if percent < CRITICAL_PERCENT else Tone.VERMILION


def theme_of(palette: Palette) -> Theme:
    """The palette as a Textual theme; style sheets use its tones as `$tone-blue` and so on."""
    tones = palette.tones
    return Theme(
        name=palette.name,
        dark=palette.dark,
        ansi=palette.ansi,
        primary=tones[Tone.BLUE],
        secondary=tones[Tone.GREEN],
        accent=tones[Tone.ORANGE],
        warning=tones[Tone.YELLOW],
        error=tones[Tone.VERMILION],
        success=tones[Tone.GREEN],
        foreground=tones[Tone.TEXT],
        background=palette.background,
        surface=palette.background,
        panel=palette.panel,
        variables={
            "border": tones[Tone.ORANGE],
            "border-blurred": palette.line,
            "scrollbar": palette.line,
            "scrollbar-hover": tones[Tone.GREY],
            "scrollbar-active": tones[Tone.ORANGE],
            "scrollbar-background": palette.background,
            "scrollbar-background-hover": palette.background,
            "scrollbar-background-active": palette.background,
            "scrollbar-corner-color": palette.background,
            # Textual's own style sheet reads these two from an ANSI theme.
            "ansi-background": palette.background,
            "ansi-foreground": tones[Tone.TEXT],
            "footer-key-foreground": tones[Tone.ORANGE],
            "block-cursor-background": palette.grounds.get(Ground.CURSOR, tones[Tone.BLUE]),
            "block-cursor-foreground": tones[Tone.TEXT],
            **{f"tone-{tone.name.lower()}": color for tone, color in tones.items()},
        },
    )


THEMES = tuple(map(theme_of, PALETTES.values()))


def palette_of(theme: Theme) -> Palette:
    """The palette of a theme; one that is not jobtop's gets the palette that is as dark or as light."""
    return PALETTES.get(theme.name) or (TERMINAL if theme.ansi else DARK if theme.dark else LIGHT)


def ascii_only(text: str) -> str:
    """The text in ASCII, as wide as it was: jobtop's glyphs become similar characters, all others `?`."""
    if text.isascii():
        return text
    from rich.cells import cell_len

    return "".join(
        character if character.isascii() else "?" * cell_len(character) for character in text.translate(ASCII)
    )


class Colourless(LineFilter):
    """Removes colours, but keeps bold and reverse video; Textual's own filter turns colours into greys."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [Segment(text, style.without_color if style else style, control) for text, style, control in segments]


class Ascii(LineFilter):
    """Turns everything painted into ASCII, also Textual's own borders, scrollbars and notifications."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [Segment(ascii_only(text), style, control) for text, style, control in segments]
