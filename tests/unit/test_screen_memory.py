"""Only changed cells are written to the terminal, and a terminal that obeys shows what it should."""

import random
import re

from rich.cells import get_character_cell_size
from rich.segment import Segment
from rich.style import Style

from jobtop.tui.screen_memory import PLAIN, Codes, ScreenMemory, cells_of, codes_of, transition

RED, BLUE = Style.parse("#ff0000 on #101010"), Style.parse("bold #0000ff on #101010")
WORDS = re.compile(r"\x1b\[([0-9;]*)([HCm])|([^\x1b])")


class Terminal:
    """A small terminal: cells with codes; characters of two cells are not split."""

    def __init__(self, width: int, height: int) -> None:
        self.cells = [[("?", PLAIN)] * width for _ in range(height)]

    def obey(self, text: str) -> None:
        x = y = 0
        codes: Codes = PLAIN
        for numbers, command, character in WORDS.findall(text):
            if command == "H":
                row, _, column = numbers.partition(";")
                y, x = int(row) - 1, int(column or 1) - 1
            elif command == "C":
                x += int(numbers or 1)
            elif command == "m":
                codes = self.styled(codes, numbers)
            elif not get_character_cell_size(character):
                self.cells[y][x - 1] = self.cells[y][x - 1][0] + character, codes
            else:
                for place, cell in enumerate(cells_of(character)):
                    self.cells[y][x + place] = cell, codes
                x += len(cells_of(character))

    @staticmethod
    def styled(codes: Codes, numbers: str) -> Codes:
        if not numbers:
            return PLAIN
        if numbers.startswith("0;"):
            codes, numbers = PLAIN, numbers[2:]
        attributes, text, behind = codes_of(numbers)
        joined = ";".join(filter(None, (codes[0], attributes)))
        return joined, text or codes[1], behind or codes[2]


def put(memory: ScreenMemory, x: int, y: int, *parts: tuple[str, Style | None]) -> None:
    memory.put(x, y, [Segment(text, style) for text, style in parts])


def test_what_the_terminal_shows_already_is_not_written() -> None:
    memory = ScreenMemory(20, 2)
    put(memory, 0, 0, ("cpu 41 % of 2 cores", RED))
    assert memory.changes()
    put(memory, 0, 0, ("cpu 42 % of 2 cores", RED))
    assert memory.changes() == "\x1b[1;6H\x1b[38;2;255;0;0;48;2;16;16;16m2\x1b[m"
    put(memory, 0, 0, ("cpu 42 % of 2 cores", RED))
    assert memory.changes() == ""


def test_a_changed_style_is_written_although_the_text_is_the_same() -> None:
    memory = ScreenMemory(10, 1)
    put(memory, 0, 0, ("ok", RED))
    memory.changes()
    put(memory, 0, 0, ("ok", BLUE))
    assert "ok" in memory.changes()


def test_changes_that_are_far_apart_move_the_cursor_and_near_ones_do_not() -> None:
    memory = ScreenMemory(40, 1)
    put(memory, 0, 0, ("a" * 40, None))
    memory.changes()
    put(memory, 0, 0, ("b" + "a" * 3 + "b" + "a" * 30 + "b" + "a" * 4, None))
    assert memory.changes() == "\x1b[1Hbaaab\x1b[30Cb\x1b[m"


def test_after_forget_everything_is_written_again() -> None:
    memory = ScreenMemory(4, 1)
    put(memory, 0, 0, ("abcd", None))
    memory.changes()
    memory.forget()
    assert "abcd" in memory.changes()


def test_only_the_part_of_a_style_that_changes_is_written() -> None:
    red, blue = codes_of("38;2;255;0;0;48;5;7"), codes_of("38;2;0;0;255;48;5;7")
    assert transition(red, blue) == "\x1b[38;2;0;0;255m"
    assert transition(codes_of("1;31"), codes_of("31")) == "\x1b[0;31m"
    assert transition(codes_of("31;41"), codes_of("31")) == "\x1b[0;31m"
    assert transition(codes_of("31"), PLAIN) == "\x1b[m"


def test_nothing_is_put_outside_of_the_screen() -> None:
    memory = ScreenMemory(4, 1)
    put(memory, 2, 0, ("abcdef", None))
    put(memory, 0, 5, ("abc", None))
    memory.put(0, 0, [Segment("xyz")], 2)
    terminal = Terminal(4, 1)
    terminal.obey(memory.changes())
    assert "".join(cell for cell, _ in terminal.cells[0]) == "xyab"


def test_a_terminal_shows_the_same_as_one_that_was_written_whole_after_any_changes() -> None:
    chance = random.Random(7)
    styles = [None, RED, BLUE, Style.parse("underline on #101010"), Style.parse("#00ff00")]
    texts = ["a", "bc ", "▇▃", "⣿⣀⣀", "日本", "e\u0301x", " " * 5, "99 %"]
    memory, terminal = ScreenMemory(30, 4), Terminal(30, 4)
    for _ in range(400):
        for _ in range(chance.randrange(1, 4)):
            parts = [(chance.choice(texts), chance.choice(styles)) for _ in range(chance.randrange(1, 5))]
            if sum(len(cells_of(text)) for text, _ in parts) <= 15:
                # Whole lines, as the compositor gives them: the half of a wide character is never left alone.
                row = chance.randrange(4)
                width = sum(len(cells_of(text)) for text, _ in parts)
                put(memory, 0, row, *parts, (" " * (30 - width), None))
        terminal.obey(memory.changes())
        whole, fresh = Terminal(30, 4), ScreenMemory(30, 4)
        fresh._text, fresh._codes = memory._text, memory._codes
        fresh.forget()
        whole.obey(fresh.changes())
        assert terminal.cells == whole.cells
