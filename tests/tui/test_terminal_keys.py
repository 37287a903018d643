"""Keys become the bytes that a terminal sends; Textual reads those bytes as the same key again."""

import pytest
from textual._xterm_parser import XTermParser
from textual.events import Key

from jobtop.tui.terminal_keys import FIRST_FUNCTION_KEYS, LETTERS, NUMBERS, key_bytes, paste_bytes


@pytest.mark.parametrize(
    ("key", "character", "sent"),
    [
        ("a", "a", b"a"),
        ("A", "A", b"A"),
        ("é", "é", "é".encode()),
        ("plus", "+", b"+"),
        ("+", "+", b"+"),
        ("space", " ", b" "),
        ("question_mark", None, b"?"),
        ("enter", "\r", b"\r"),
        ("backspace", "\x7f", b"\x7f"),
        ("tab", "\t", b"\t"),
        ("shift+tab", None, b"\x1b[Z"),
        ("escape", "\x1b", b"\x1b"),
        ("ctrl+c", "\x03", b"\x03"),
        ("ctrl+d", None, b"\x04"),
        ("ctrl+z", "\x1a", b"\x1a"),
        ("ctrl+backslash", "\x1c", b"\x1c"),
        ("ctrl+@", "\x00", b"\x00"),
        ("alt+x", "x", b"\x1bx"),
        ("alt+shift+x", "X", b"\x1bX"),
        ("up", None, b"\x1b[A"),
        ("ctrl+left", None, b"\x1b[1;5D"),
        ("shift+home", None, b"\x1b[1;2H"),
        ("pageup", None, b"\x1b[5~"),
        ("ctrl+delete", None, b"\x1b[3;5~"),
        ("f1", None, b"\x1bOP"),
        ("f11", None, b"\x1b[23~"),
        ("<ignore>", "\x1b[I", b""),
        ("ctrl+shift+menu", None, b""),
    ],
)
def test_a_key_is_sent_as_a_terminal_sends_it(key: str, character: str | None, sent: bytes) -> None:
    assert key_bytes(key, character) == sent


@pytest.mark.parametrize("key", [*LETTERS, *NUMBERS, *FIRST_FUNCTION_KEYS, *map("ctrl+{}".format, "abcdefgklnopz")])
def test_what_is_sent_is_read_as_the_same_key(key: str) -> None:
    events = list(XTermParser().feed(key_bytes(key).decode()))
    assert [event.key for event in events if isinstance(event, Key)] == [key]


def test_pasted_lines_end_as_enter_does() -> None:
    assert paste_bytes("one\ntwo\r\nthree é") == "one\rtwo\rthree é".encode()
