"""Text from outside at its worst, the same in every run: what no screen may obey, style by, or be torn by."""

import random
import re
from collections.abc import Iterator

COUNT = 2000
LONGEST = 10_000
ISSUE = "[/b][red]x\n\x1b[31m"
TITLE = "pwned"  # what a terminal would be called, or have in its clipboard, if it obeyed
MARKUP = (
    *("[/b]", "[/", "[", "]", "[red]", "[/red]", "[bold red on #123457]", "[blink]", "[reverse]", "[u]", "[$error]"),
    *("[link=https://example.org]", "[@click=app.quit]", "[@click=app.bell()]x[/]", "\\[b]", "[[/]]", ":bomb:", "${x}"),
)
SEQUENCES = (
    *("\x1b[31m", "\x1b[5;7m", "\x1b[2J", "\x1b[H", "\x1b[?1049l", "\x1b[?25l", "\x1b[6n", "\x1bc", "\x1b#8", "\x1b(0"),
    *(f"\x1b]0;{TITLE}\x07", f"\x1b]52;c;{TITLE}\x1b\\", f"\x1b]8;;http://{TITLE}\x1b\\x", f"\x1bP{TITLE}\x1b\\"),
    *(
        f"\x1b_G{TITLE}\x1b\\",
        f"\x1b^{TITLE}\x1b\\",
        "\x9b31m",
        f"\x9d0;{TITLE}\x9c",
        f"\x90{TITLE}\x9c",
        "\x1b[",
        "\x1b",
    ),
)
CONTROLS = tuple(map(chr, [*range(0x20), *range(0x7F, 0xA0)]))
BIDI = tuple("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
WIDTHLESS = (
    *"\u200b\u200c\u200d\u2060\u2062\u00ad\ufeff\ufe0e\ufe0f\u034f\u180e\u115f\u1160\u3164\U000e0041\U000e007f",
    *("\u0301", "\u0489", "\u20dd", "Z" + "\u0335\u0322\u0489" * 9, "e\u0301", "\U0001d165"),
)
WIDE = (
    *("漢", "字", "ｗ", "한", "\u1112\u1161\u11ab", "\u3000", "👍🏽", "🇩🇪", "🇩", "❤️", "1️⃣", "⌚", "\U0001f9d1"),
    *("👩‍👩‍👧", "👩‍", "‍👩", "☺️", "☺", "🏴\U000e0067\U000e0062\U000e007f", "〰️", "⁉️"),
)
ODD = (
    *("\udce9", "\udcff\udc80", "\ud83d", "\udc4d", "\ue000", "\uf8ff", "\U000f0000", "\U0010ffff", "\ufffe", "\u0378"),
    *("שלום", "مرحبا", "א1ב", "\u2028", "\u2029", "\u0085", "\xa0", "\u2003", "ﷺ", "𒐫", "\ufff9a\ufffab\ufffb"),
    *(
        "",
        " ",
        "   ",
        "\n",
        "\n\n\n",
        "\r",
        "\r\n",
        "\t",
        "\t\t",
        "\0",
        "a\0b",
        "\x08\x08\x08",
        "'",
        '"',
        "`",
        "\\",
        "%s",
    ),
    *("{0}", "$(x)", "--", "-", "/", "../..", "~", "=", "a=b", ",", "*", "–", "…", "│", "▌", "name:", "mem>4G", '"a'),
)
ATOMS = (*MARKUP, *SEQUENCES, *CONTROLS, *BIDI, *WIDTHLESS, *WIDE, *ODD)
MARK = re.compile(r"~(\d{4})")


def hostile_texts(count: int = COUNT) -> list[str]:
    """Every atom by itself, then mixtures; each of those begins with `~` and its number, by which it is seen."""
    return [*dict.fromkeys((ISSUE, *ATOMS)), *_mixtures(count)][:count]


def clean_texts(count: int) -> list[str]:
    """As many harmless ones."""
    return [f"~{number:04} plain words" for number in range(count)]


def marked(texts: list[str]) -> set[int]:
    """The numbers of those that can be seen to be there."""
    return {int(found[1]) for text in texts if (found := MARK.match(text))}


def _mixtures(count: int) -> Iterator[str]:
    chance = random.Random(count)
    for number in range(count):
        atoms = chance.choices(ATOMS, k=chance.randint(1, 8))
        words = "".join(atom + chance.choice(("", "", "x", " word ")) for atom in atoms)
        if number % 100 == 0:
            words *= LONGEST // max(1, len(words))
        yield f"~{number:04}{words}"
