"""Cells have exactly the requested width, whatever text they contain, and numbers stay aligned."""

import pytest
from rich.cells import cell_len
from textual.color import Color
from textual.theme import BUILTIN_THEMES

from jobtop.core.model import Status
from jobtop.tui.palette import (
    ASCII,
    DARK,
    FLAG_GLYPHS,
    LIGHT,
    PALETTES,
    SEVERITY_GLYPHS,
    STATUS_GLYPHS,
    Ground,
    Palette,
    Tone,
    ascii_only,
    load_tone,
    palette_of,
    theme_of,
)
from jobtop.tui.widgets.cells import (
    Align,
    Bar,
    Cell,
    Pieces,
    Span,
    Sparkline,
    Words,
    aligned,
    area,
    bar,
    fitted,
    short_bytes,
    short_duration,
    short_rate,
    spark,
)
from stage import text_of

HOSTILE = [
    "",
    "plain",
    "[/b][red]",
    "tab\there",
    "\x1b[31mred",
    "漢字かな",
    "🚀🔥 go",
    "é́́",
    "👨‍👩‍👧 fam",
    "a\u202eb",
    "x" * 200,
]


@pytest.mark.parametrize("content", HOSTILE)
@pytest.mark.parametrize("width", [0, 1, 2, 3, 5, 8, 40])
@pytest.mark.parametrize("align", Align)
def test_words_take_exactly_their_width(content: str, width: int, align: Align) -> None:
    cells: list[Cell] = [Words(content), Pieces([Span(content), Span("|"), Span(content)]), Bar(None, content)]
    for cell in cells:
        shown = text_of(cell.spans(width, align))
        assert cell_len(shown) == width
        assert shown.isprintable()


def test_a_cut_text_ends_with_an_ellipsis() -> None:
    assert fitted("llm-finetune", 8) == "llm-fin…"
    assert fitted("漢字漢字", 6) == "漢字 …"
    assert text_of(aligned([Span("ab"), Span("cd"), Span("ef")], 4)) == "abc…"
    assert text_of(aligned([Span("ab"), Span("cd"), Span("")], 4)) == "abcd"


def test_numbers_stand_at_the_right() -> None:
    assert fitted("4.4G", 6, Align.RIGHT) == "  4.4G"
    assert text_of(aligned([Span("4.4"), Span("G")], 6, Align.RIGHT)) == "  4.4G"


def test_markup_stays_text() -> None:
    assert fitted("[/b]", 6) == "[/b]  "


def test_control_characters_are_shown_and_joined_characters_taken_apart() -> None:
    assert fitted("a\x1b[2Jb", 12) == "a\\x1b[2Jb   "
    assert "\u200d" not in fitted("👨‍👩‍👧", 10)


def test_a_sparkline_has_a_fixed_scale_and_gaps() -> None:
    assert spark([0, 50, 100, 400, None, -3], 100, 6) == "▁▄▇▇ ▁"
    assert spark([10, 20], 100, 5) == "   ▁▂"
    assert spark([10, 20, 99], 100, 2) == "▂▇"
    assert spark([1, 2], 0, 2) == "▁▁"
    assert text_of(Sparkline([100.0], 100).spans(3, Align.LEFT)) == "  ▇"


def test_an_area_is_a_sparkline_of_several_rows() -> None:
    assert area([0, 50, 100, None, 400], 100, 6, 2) == ["   ▇ ▇", " ▁██ █"]
    assert area([100.0], 100, 1, 0) == []
    assert area([10.0, 20.0, 99.0], 100, 2, 1) == ["▂▇"]


def test_a_bar_is_filled_to_the_half_of_a_cell() -> None:
    assert text_of(bar(50, 7)) == "━━━╸───"
    assert text_of(bar(0, 4)) == "────"
    assert text_of(bar(0.1, 4)) == "╸───"
    assert text_of(bar(100, 4)) == text_of(bar(250, 4)) == "━━━━"
    assert text_of(bar(None, 4)) == "────"
    assert text_of(bar(50, 0)) == ""


def test_a_bar_says_its_percentage_and_nothing_where_there_is_none() -> None:
    assert text_of(Bar(42).spans(12, Align.LEFT)) == "━━━────  42%"
    assert text_of(Bar(162).spans(12, Align.LEFT)) == "━━━━━━━ 162%"
    assert text_of(Bar(None).spans(12, Align.LEFT)) == "–           "
    assert [len(text_of(Bar(42).spans(width, Align.LEFT))) for width in range(1, 9)] == list(range(1, 9))


def test_a_bar_is_blue_then_yellow_then_vermilion() -> None:
    tones = [load_tone(percent) for percent in (0, 79.9, 80, 91.9, 92, 400)]
    assert tones == [Tone.BLUE, Tone.BLUE, Tone.YELLOW, Tone.YELLOW, Tone.VERMILION, Tone.VERMILION]
    assert load_tone(None) is Tone.GREY
    assert bar(85, 5)[0].tone is Tone.YELLOW


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (None, "–"),
        (float("nan"), "–"),
        (0, "0B"),
        (999, "999B"),
        (1000, "1.0K"),
        (4.4 * 2**30, "4.4G"),
        (99.94 * 2**20, "99.9M"),
        (99.96 * 2**20, "100M"),
        (999.4 * 2**30, "999G"),
        (999.6 * 2**30, "1.0T"),
        (2**63, "8.0E"),
    ],
)
def test_sizes_are_short(size: float | None, words: str) -> None:
    assert short_bytes(size) == words


def test_sizes_rates_and_times_fit_their_columns() -> None:
    sizes = [1.07**power for power in range(640)]
    assert max(len(short_bytes(size)) for size in sizes) == 5
    assert max(len(short_rate(size)) for size in sizes) == 7
    assert max(len(short_duration(1.05**power)) for power in range(400)) == 7


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (None, "–"),
        (0, "0s"),
        (37.9, "37s"),
        (3599, "59m59s"),
        (3736, "1h02m"),
        (2 * 86400 + 11040, "2d03h"),
        (12 * 86400 + 11040, "12d03h"),
    ],
)
def test_times_are_short(seconds: float | None, words: str) -> None:
    assert short_duration(seconds) == words


def test_every_status_has_a_glyph_of_its_own() -> None:
    assert STATUS_GLYPHS.keys() == {str(status) for status in Status}
    glyphs = [glyph for status, (glyph, _) in STATUS_GLYPHS.items() if status != "lost"]
    assert len(set(glyphs)) == len(glyphs)


@pytest.mark.parametrize("table", [STATUS_GLYPHS, FLAG_GLYPHS, SEVERITY_GLYPHS])
def test_glyphs_differ_in_ascii_too(table: dict[str, tuple[str, Tone]]) -> None:
    glyphs = {glyph for glyph, _ in table.values()}
    assert len({ascii_only(glyph) for glyph in glyphs}) == len(glyphs)


def test_ascii_is_as_wide_and_has_nothing_else() -> None:
    for content in [*HOSTILE, "●◌‖✓✗■◷", "━━╸─ 50 % · ▁▂▃▅▇"]:
        plain = ascii_only(fitted(content, 30))
        assert plain.isascii()
        assert len(plain) == 30
    assert all(cell_len(chr(glyph)) == 1 for glyph in ASCII)


def contrast(one: str, other: str) -> float:
    """The contrast ratio as defined by the WCAG."""

    def luminance(color: str) -> float:
        parts = [part / 255 for part in Color.parse(color).rgb]
        linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("palette", [DARK, LIGHT], ids=lambda palette: palette.name)
def test_every_tone_can_be_read_on_every_ground(palette: Palette) -> None:
    for tone, color in palette.tones.items():
        if tone is not Tone.FAINT:
            assert contrast(color, palette.background) >= 4.5, tone
            assert min(contrast(color, ground) for ground in palette.grounds.values()) >= 3.0, tone
    assert contrast(palette.tones[Tone.TEXT], palette.grounds[Ground.CURSOR]) >= 7


def test_a_palette_has_every_tone_and_its_theme_leads_back_to_it() -> None:
    for palette in PALETTES.values():
        assert set(palette.tones) == set(Tone)
        assert palette_of(theme_of(palette)) is palette
    assert palette_of(BUILTIN_THEMES["nord"]) is DARK
    assert palette_of(BUILTIN_THEMES["textual-light"]) is LIGHT
