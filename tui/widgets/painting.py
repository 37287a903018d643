"""From pieces of text to Textual's strips: styles of a theme, and widgets that paint only the lines that changed."""

from collections.abc import Iterable, Iterator, Sequence

from rich.color import Color as RichColor
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.content import Content
from textual.geometry import Region, Size
from textual.strip import Strip
from textual.style import Style as ContentStyle
from textual.widget import Widget

from jobtop.core.text.terminal_text import TextStyle
from jobtop.tui.palette import Ground, Palette, Tone, ascii_only, palette_of
from jobtop.tui.terminal_colors import rich_style
from jobtop.tui.widgets.cells import Span, safe_text

ASCII_CLASS = "-ascii"
MOST_PROGRAM_STYLES = 4096  # a picture in true colours has more
# The frame of every pane that can have the focus; Textual does not inherit the CSS of a second base class.
FRAME = """
    height: 1fr;
    border: round $border-blurred;
    border-title-color: $foreground;
    border-subtitle-color: $foreground 60%;
    background: $background;
    &:focus { border: round $border; }
    &.-ascii { border: ascii $border-blurred; }
    &.-ascii:focus { border: ascii $border; }
"""


class Inks:
    """The styles of a palette on the background of a widget, by tone, weight and ground."""

    def __init__(self, palette: Palette, base: Style, ascii_text: bool) -> None:
        self.palette = palette
        self.ascii = ascii_text
        self._base = base
        self._styles: dict[tuple[Tone, bool, Ground], Style] = {}
        self._program_styles: dict[TextStyle, Style] = {}

    def style(self, tone: Tone, bold: bool = False, ground: Ground = Ground.PLAIN) -> Style:
        """The style of a piece of text."""
        key = (tone, bold, ground)
        style = self._styles.get(key)
        if style is None:
            style = self._styles[key] = self._make(tone, bold, ground)
        return style

    def program_style(self, style: TextStyle) -> Style:
        """The style of a piece of a program's output."""
        found = self._program_styles.get(style)
        if found is None:
            if len(self._program_styles) >= MOST_PROGRAM_STYLES:
                self._program_styles.clear()
            found = self._program_styles[style] = rich_style(style, self.palette, self.style(Tone.TEXT))
        return found

    def _make(self, tone: Tone, bold: bool, ground: Ground) -> Style:
        bold = bold or ground in (Ground.CURSOR, Ground.CURSOR_BLURRED)
        behind = self.palette.grounds.get(ground)
        if behind is None and ground is Ground.CURSOR:
            # Reverse video would make the tone the background: sixteen colours have no pale shades.
            return self._base + Style(bold=True, reverse=True)
        ink = Style.from_color(_rich(self.palette.tones[tone]), _rich(behind))
        return self._base + ink + Style(bold=bold)

    def strip(self, line: Iterable[Span], width: int, ground: Ground = Ground.PLAIN) -> Strip:
        """A line of exactly `width` cells as a strip of few segments: blanks join the segment before them."""
        segments: list[Segment] = []
        style = self.style(Tone.TEXT, False, ground)
        text = ""
        for words, tone, bold in line:
            ink = self.style(tone, bold, ground)
            if ink is style or words.isspace():
                text += words
            elif words:
                if text:
                    segments.append(Segment(text, style))
                text, style = words, ink
        if text:
            segments.append(Segment(text, style))
        if self.ascii:
            segments = [Segment(ascii_only(segment.text), segment.style) for segment in segments]
        return Strip(segments, width)

    def blank(self, width: int) -> Strip:
        """An empty line."""
        return Strip([Segment(" " * width, self.style(Tone.TEXT))] if width else [], width)


class Painted(Widget):
    """A widget that draws its own lines; `repaint` paints only the lines that changed."""

    ALLOW_SELECT = False

    _drawn: list[Strip] | None = None
    _drawn_for = Size(0, 0)
    _inks: Inks | None = None
    _title: tuple[Span, ...] = ()
    _subtitle: tuple[Span, ...] = ()

    def draw(self, inks: Inks, width: int, height: int) -> Sequence[Strip]:
        """The lines of the widget, each exactly `width` cells; missing lines at the bottom stay blank."""
        raise NotImplementedError

    def repaint(self) -> None:
        """Draw all lines, and paint those that have changed."""
        if not self.is_attached or not self.drawn_size:
            return
        before, after = self._drawn, self._redrawn()
        if before is None or len(before) != len(after):
            self.refresh()
            return
        width = self.size.width
        for top, bottom in changed_runs(before, after):
            self.refresh(Region(0, top, width, bottom - top))

    def render_lines(self, crop: Region) -> list[Strip]:
        """Draw first if the size or the style has changed since the last drawing."""
        if self._drawn is None or self._drawn_for != self.drawn_size:
            self._redrawn()
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        """A line as it was drawn."""
        drawn = self._drawn or self._redrawn()
        return drawn[y] if y < len(drawn) else self.inks.blank(self.drawn_size.width)

    @property
    def drawn_size(self) -> Size:
        """The cells to draw in: without border and scrollbar."""
        return self.scrollable_content_region.size

    def on_mount(self) -> None:
        """Switch to ASCII if the console shows ASCII."""
        if self.app.has_class(ASCII_CLASS):
            self.add_class(ASCII_CLASS)

    def notify_style_update(self) -> None:
        """Forget what was drawn: the theme, the focus or the style sheet changed."""
        self._inks = self._drawn = None
        super().notify_style_update()
        if self._title and self.is_attached:  # their colours are the theme's
            self.set_title(self._title)
        if self._subtitle and self.is_attached:
            self.set_subtitle(self._subtitle)

    @property
    def inks(self) -> Inks:
        """The styles of the theme on this widget's background."""
        if self._inks is None:
            self._inks = Inks(palette_of(self.app.current_theme), self.rich_style, self.has_class(ASCII_CLASS))
        return self._inks

    def set_title(self, pieces: Iterable[Span]) -> None:
        """Set the text in the upper border if it differs: a title paints the whole widget."""
        self._title = tuple(pieces)
        title = self._content(self._title)
        if not is_same(title, self._border_title):
            self.border_title = title

    def set_subtitle(self, pieces: Iterable[Span]) -> None:
        """Set the text in the lower border if it differs."""
        self._subtitle = tuple(pieces)
        subtitle = self._content(self._subtitle)
        if not is_same(subtitle, self._border_subtitle):
            self.border_subtitle = subtitle

    def _content(self, pieces: Iterable[Span]) -> Content:
        """Pieces of text as Textual content, never interpreted as markup."""
        inks = self.inks
        parts = []
        for text, tone, bold in pieces:
            shown = ascii_only(safe_text(text)) if inks.ascii else safe_text(text)
            parts.append((shown, ContentStyle(foreground=Color.parse(inks.palette.tones[tone]), bold=bold)))
        return Content.assemble(*parts)

    def _redrawn(self) -> list[Strip]:
        size = self.drawn_size
        width, height = size
        drawn = list(self.draw(self.inks, width, height)[:height])
        drawn += [self.inks.blank(width)] * (height - len(drawn))
        self._drawn, self._drawn_for = drawn, size
        return drawn


def _rich(color: str | None) -> RichColor | None:
    return None if color is None else Color.parse(color).rich_color


def changed_runs(before: Sequence[Strip], after: Sequence[Strip]) -> Iterator[tuple[int, int]]:
    """The runs of lines that differ, from the first to behind the last of each run."""
    start: int | None = None
    for y, (old, new) in enumerate(zip(before, after, strict=True)):
        same = old is new or old == new
        if same and start is not None:
            yield start, y
            start = None
        elif not same and start is None:
            start = y
    if start is not None:
        yield start, len(after)


def is_same(one: Content, other: Content | None) -> bool:
    """Whether two contents are equal, also in colour, which Textual's comparison ignores."""
    return other is not None and one == other and one.spans == other.spans
