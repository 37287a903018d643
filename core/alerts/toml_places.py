"""Finds where the tables and values of a TOML text are, so that one value can be changed and the rest stays. Pure.

The text must be valid TOML: the caller parses it first with `tomllib`, which checks what is not checked here.
"""

from __future__ import annotations

from jobtop.core.record import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Span = tuple[int, int]  # from the first character to behind the last
SPACE = " \t"
BLANK = " \t\r\n"


@record
class Assignment:
    """A key with its value: where the statement and the value are."""

    key: tuple[str, ...]
    place: Span
    value: Span


@record
class Section:
    """The part of a file below one header; the first one has no header. `is_list` is that of `[[…]]`."""

    name: tuple[str, ...]
    is_list: bool
    header: Span
    assignments: tuple[Assignment, ...]

    @property
    def end(self) -> int:
        """Behind its last assignment, or behind its header."""
        return self.assignments[-1].value[1] if self.assignments else self.header[1]


def sections(text: str) -> list[Section]:
    """All sections of a file, in their order."""
    found: list[Section] = []
    name: tuple[str, ...] = ()
    is_list, header = False, (0, 0)
    assignments: list[Assignment] = []
    place = skip_blank(text, 0)
    while place < len(text):
        if text[place] == "[":
            found.append(Section(name, is_list, header, tuple(assignments)))
            begin, is_list = place, text.startswith("[[", place)
            name, place = read_key(text, place + 1 + is_list)
            place += 1 + is_list
            header, assignments = (begin, place), []
        else:
            assignment = read_assignment(text, place)
            assignments.append(assignment)
            place = assignment.value[1]
        place = skip_blank(text, place)
    return [*found, Section(name, is_list, header, tuple(assignments))]


def items_of(text: str, value: Span) -> list[Span]:
    """Where the items of an array are."""
    return list(_parts(text, value, lambda place: end_of_value(text, place)))


def assignments_of(text: str, value: Span) -> list[Assignment]:
    """The keys of an inline table."""
    found = []
    for begin, _ in _parts(text, value, lambda place: read_assignment(text, place).value[1]):
        found.append(read_assignment(text, begin))
    return found


def _parts(text: str, value: Span, end_of: Callable[[int], int]) -> Iterator[Span]:
    """What is between the brackets of a value, separated by commas."""
    place = skip_blank(text, value[0] + 1)
    while place < value[1] - 1:
        end = end_of(place)
        yield place, end
        place = skip_blank(text, end)
        if text[place] == ",":
            place = skip_blank(text, place + 1)


def read_assignment(text: str, place: int) -> Assignment:
    key, end = read_key(text, place)
    begin = skip_blank(text, end + 1)  # behind the equals sign
    after = end_of_value(text, begin)
    return Assignment(key, (place, after), (begin, after))


def read_key(text: str, place: int) -> tuple[tuple[str, ...], int]:
    """A key, dotted or not, and the place of the character behind it: `=` or `]`."""
    parts: list[str] = []
    while True:
        place = _skip(text, place, SPACE)
        if text[place] in "\"'":
            end = _end_of_string(text, place)
            parts.append(_plain(text[place:end]))
        else:
            end = place
            while text[end] not in " \t.=]":
                end += 1
            parts.append(text[place:end])
        place = _skip(text, end, SPACE)
        if text[place] != ".":
            return tuple(parts), place
        place += 1


def _plain(quoted: str) -> str:
    import tomllib

    return str(tomllib.loads(f"key = {quoted}")["key"])


def end_of_value(text: str, place: int) -> int:
    """Behind a value that begins at this place."""
    if text[place] in "\"'":
        return _end_of_string(text, place)
    if text[place] == "[":
        return _end_of_parts(text, place, lambda at: end_of_value(text, at))
    if text[place] == "{":
        return _end_of_parts(text, place, lambda at: read_assignment(text, at).value[1])
    end = place
    while end < len(text) and text[end] not in ",]}#\r\n":
        end += 1
    return place + len(text[place:end].rstrip())


def _end_of_parts(text: str, place: int, end_of: Callable[[int], int]) -> int:
    place = skip_blank(text, place + 1)
    while text[place] not in "]}":
        place = skip_blank(text, end_of(place))
        if text[place] == ",":
            place = skip_blank(text, place + 1)
    return place + 1


def _end_of_string(text: str, place: int) -> int:
    quote = text[place]
    if text.startswith(quote * 3, place):
        end = place + 3
        while not text.startswith(quote * 3, end):
            end += 2 if quote == '"' and text[end] == "\\" else 1
        end += 3
        while end < len(text) and text[end] == quote:  # up to two quotes may stand before the closing three
            end += 1
        return end
    end = place + 1
    while text[end] != quote:
        end += 2 if quote == '"' and text[end] == "\\" else 1
    return end + 1


def skip_blank(text: str, place: int) -> int:
    """Behind spaces, line ends and comments."""
    while True:
        place = _skip(text, place, BLANK)
        if place >= len(text) or text[place] != "#":
            return place
        end = text.find("\n", place)
        place = len(text) if end < 0 else end


def _skip(text: str, place: int, characters: str) -> int:
    while place < len(text) and text[place] in characters:
        place += 1
    return place
