"""Parses and formats durations, sizes, percentages and counts, and makes hostile text printable."""

import re

from jobtop.core.errors import BadValue

ABSENT = "–"
MAX_SECONDS = 100 * 365.25 * 86400
MAX_BYTES = 2**63 - 1

_LONGEST_VALUE = 40
_DAYS_WITHOUT_HOURS = 1000
_DIGITS, _LETTERS = "0123456789", "abcdefghijklmnopqrstuvwxyz"
_SECONDS_PER_UNIT = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_BYTES_PER_UNIT = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_UNSAFE = "[\\x00-\\x1f\\x7f-\\x9f\\u2028\\u2029\\u202a-\\u202e\\u2066-\\u2069\\ud800-\\udfff]"
_NAMED_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def parse_duration(text: str) -> float:
    """Parse `90`, `90s`, `10m`, `1h30m`, `1.5h`, `2d` or `500ms` into seconds; larger units come first."""
    value = text.strip().lower()
    if len(value) > _LONGEST_VALUE:
        raise _bad_duration(text, "is too long")
    parts = _numbers_with_units(value)
    units = [unit for _, unit in parts]
    if units == [""]:
        seconds = float(parts[0][0])
    elif units and units == [unit for unit in _SECONDS_PER_UNIT if unit in units]:
        seconds = sum(float(number) * _SECONDS_PER_UNIT[unit] for number, unit in parts)
    else:
        raise _bad_duration(text, "is not a duration")
    if seconds > MAX_SECONDS:
        raise _bad_duration(text, "is more than 100 years")
    return seconds


def parse_size(text: str) -> int:
    """Parse `1024`, `512M`, `8G`, `8GiB` or `1.5G` into bytes; every unit is binary, as in Slurm."""
    value = text.strip().lower()
    if len(value) > _LONGEST_VALUE:
        raise _bad_size(text, "is too long")
    parts = _numbers_with_units(value)
    number, name = parts[0] if len(parts) == 1 else ("", "")
    unit = "" if name == "b" else name[:1]
    if not number or unit not in _BYTES_PER_UNIT or (unit and name[1:] not in ("", "i", "b", "ib")):
        raise _bad_size(text, "is not a size")
    whole, _, fraction = number.partition(".")
    if fraction and not unit:
        raise _bad_size(text, "is not a whole number of bytes")
    size = int(whole + fraction) * _BYTES_PER_UNIT[unit] // int("1" + "0" * len(fraction))
    if size > MAX_BYTES:
        raise _bad_size(text, "is more than 8 EiB")
    return size


def _numbers_with_units(text: str) -> list[tuple[str, str]]:
    """Split `1.5h 30m` into [("1.5", "h"), ("30", "m")]; empty if the text has another form.

    Not by a regular expression: compiling one takes as long as starting a process.
    """
    parts = []
    while text:
        rest = text.lstrip(f"{_DIGITS}.")
        number = text[: len(text) - len(rest)]
        whole, dot, fraction = number.partition(".")
        if not (whole or dot) or (whole and not whole.isdigit()) or (dot and not fraction.isdigit()):
            return []
        rest = rest.lstrip()
        text = rest.lstrip(_LETTERS)
        parts.append((number, rest[: len(rest) - len(text)]))
        text = text.lstrip()
    return parts


def format_duration(seconds: float | None, is_counting: bool = False) -> str:
    """Format seconds as `408ms`, `4.5s`, `37s`, `1m06s`, `2h05m` or `3d04h`, depending on the length.

    `is_counting` is for a time that still grows on the screen: completed seconds, without decimals.
    """
    if seconds is None or not _is_finite(seconds):
        return ABSENT
    if seconds < 0:
        return f"-{format_duration(-seconds, is_counting)}"
    if seconds < 9.95 and seconds and not is_counting:
        value, unit = (seconds * 1000, "ms") if seconds < 0.9995 else (seconds, "s")
        return (f"{value:.1f}" if value < 9.95 else f"{value:.0f}").removesuffix(".0") + unit
    minutes, second = divmod(int(seconds) if is_counting else round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days:
        return f"{days}d{hour:02}h" if days < _DAYS_WITHOUT_HOURS else f"{days}d"
    if hours:
        return f"{hours}h{minute:02}m"
    return f"{minutes}m{second:02}s" if minutes else f"{second}s"


def format_bytes(size: float | None) -> str:
    """Format bytes as `512 B`, `4.4 MiB` or `1.2 GiB`: binary units, one decimal."""
    if size is None or not _is_finite(size):
        return ABSENT
    if abs(size) < 1023.5:
        return f"{size:.0f} B"
    for unit in ("KiB", "MiB", "GiB"):
        size /= 1024
        if abs(size) < 1023.95:
            return f"{size:.1f} {unit}"
    return f"{size / 1024:.1f} TiB"


def format_percent(ratio: float | None) -> str:
    """Format a ratio as `0.4 %`, `98.7 %` or `380 %`: a decimal only below 100 %."""
    if ratio is None or not _is_finite(ratio):
        return ABSENT
    percent = ratio * 100
    return f"{percent:.1f} %" if abs(percent) < 99.95 else f"{percent:.0f} %"


def number_of(number: float | None, noun: str, plural: str | None = None) -> str:
    """Format a number with its noun: `1 job`, `2 jobs`, `– jobs`; give `plural` where it is not noun + s."""
    shown = ABSENT if number is None else f"{number:.0f}"
    return f"{shown} {noun if number == 1 else plural or f'{noun}s'}"


def _is_finite(number: float) -> bool:
    return abs(number) < float("inf")


def printable(text: str) -> str:
    """Return one harmless line: control, bidi and separator characters and lone surrogates become visible escapes."""
    return text if text.isprintable() else re.sub(_UNSAFE, _visible_escape, text)


def cell_width(text: str) -> int:
    """Return how many terminal columns `text` takes: two for wide characters, none for combining and control ones."""
    if text.isascii() and text.isprintable():
        return len(text)
    from unicodedata import category, east_asian_width

    def columns(character: str) -> int:
        # Hangul vowels and finals join the syllable before them but have category Lo.
        if category(character) in ("Mn", "Me", "Cf", "Cc") or "\u1160" <= character <= "\u11ff":
            return 0
        return 2 if east_asian_width(character) in ("W", "F") else 1

    return sum(map(columns, text))


def _visible_escape(match: re.Match[str]) -> str:
    character = match[0]
    code = ord(character)
    return _NAMED_ESCAPES.get(character) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")


def _bad_duration(text: str, problem: str) -> BadValue:
    return BadValue(f'"{_shortened(text)}" {problem} (use 90, 90s, 10m, 1h30m, 1.5h or 2d)')


def _bad_size(text: str, problem: str) -> BadValue:
    return BadValue(f'"{_shortened(text)}" {problem} (use 512M, 8G, 8GiB or plain bytes)')


def _shortened(text: str) -> str:
    return printable(text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 1] + "…")
