"""Keys as the bytes that a terminal (xterm) sends for them. Pure."""

from __future__ import annotations

from jobtop.tui.keymap import character_of

SHIFT, ALT, CTRL = 1, 2, 4
MODIFIERS = {"shift": SHIFT, "alt": ALT, "ctrl": CTRL}
SIMPLE = {"enter": b"\r", "tab": b"\t", "backspace": b"\x7f", "escape": b"\x1b", "space": b" "}
LETTERS = {"up": "A", "down": "B", "right": "C", "left": "D", "home": "H", "end": "F"}
FIRST_FUNCTION_KEYS = {"f1": "P", "f2": "Q", "f3": "R", "f4": "S"}
NUMBERS = {
    "insert": 2,
    "delete": 3,
    "pageup": 5,
    "pagedown": 6,
    "f5": 15,
    "f6": 17,
    "f7": 18,
    "f8": 19,
    "f9": 20,
    "f10": 21,
    "f11": 23,
    "f12": 24,
}
CONTROLS = {
    "@": 0x00,
    "space": 0x00,
    "at": 0x00,
    "left_square_bracket": 0x1B,
    "backslash": 0x1C,
    "right_square_bracket": 0x1D,
    "circumflex_accent": 0x1E,
    "underscore": 0x1F,
    "question_mark": 0x7F,
}


def key_bytes(key: str, character: str | None = None) -> bytes:
    """What a terminal sends for a key, by Textual's name of it and the character it types; empty if it has none."""
    *names, base = key.split("+") if len(key) > 1 else (key,)
    modifiers = sum(MODIFIERS.get(name, 0) for name in set(names))
    if key == "shift+tab":
        return b"\x1b[Z"
    if (sequence := _sequence(base, modifiers)) is not None:
        return sequence
    plain = _plain(base, modifiers, character)
    return b"\x1b" + plain if plain and modifiers & ALT else plain


def _sequence(base: str, modifiers: int) -> bytes | None:
    """The escape sequence of a key that moves, or of a function key."""
    if base in NUMBERS:
        return f"\x1b[{NUMBERS[base]};{modifiers + 1}~".encode() if modifiers else f"\x1b[{NUMBERS[base]}~".encode()
    letter = LETTERS.get(base) or FIRST_FUNCTION_KEYS.get(base)
    if letter is None:
        return None
    if modifiers:
        return f"\x1b[1;{modifiers + 1}{letter}".encode()
    return f"\x1b{'[' if base in LETTERS else 'O'}{letter}".encode()


def _plain(base: str, modifiers: int, character: str | None) -> bytes:
    if modifiers & CTRL:
        if len(base) == 1 and base.isascii() and base.isalpha():
            return bytes([ord(base.upper()) & 0x1F])
        return bytes([CONTROLS[base]]) if base in CONTROLS else b""
    if base in SIMPLE:
        return SIMPLE[base]
    typed = character if character is not None and character.isprintable() else character_of(base)
    if typed is None or len(typed) != 1:
        return b""
    return (typed.upper() if modifiers & SHIFT else typed).encode("utf-8", "replace")


def paste_bytes(text: str) -> bytes:
    """What a terminal sends for pasted text: its lines end as if Enter were pressed."""
    return text.replace("\r\n", "\n").replace("\n", "\r").encode("utf-8", "replace")
