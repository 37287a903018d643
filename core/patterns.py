"""Regular expressions of users, matched in time proportional to the text: no expression can hang a job.

Python's `re` tries one alternative after the other, which takes ages for `(a+)+$`. Here an expression, as `re` parses
it, becomes a small program. One pass from the end of the text to its beginning finds the instructions that lead to a
match from each place. A walk forward then takes, at each branch, the first way that leads to a match. So the result is
what `re` finds, and no step is ever undone. Look-around is a program of its own: its answer is known for each place.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from importlib import import_module
from typing import Any

from jobtop.core.errors import BadValue

LONGEST_PATTERN = 1000
MOST_INSTRUCTIONS = 1000
MOST_REMEMBERED = 5000
REFUSED = {
    "GROUPREF": "a reference to a group",
    "GROUPREF_EXISTS": "a condition on a group",
    "ATOMIC_GROUP": "an atomic group",
    "POSSESSIVE_REPEAT": "a possessive repeat",
}
MOST_CONDITIONS = 6
CONDITIONS = ("AT", "ASSERT", "ASSERT_NOT", "FAILURE")
LETTERS = ("LITERAL", "NOT_LITERAL", "ANY", "IN")

Flags = tuple[int, int]  # of groups like (?i-s:…): those they set, those they take away
Condition = Callable[[str], list[bool]]  # for each place in a text
Holding = tuple[bool, ...]  # which conditions of a program hold at a place


@lru_cache(64)
def compiled(pattern: str) -> Program:
    """The expression, ready to be used; BadValue continues a sentence that begins with it."""
    if len(pattern) > LONGEST_PATTERN:
        raise BadValue(f"is too long ({LONGEST_PATTERN} characters at most)")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # `[[]` may mean something else one day
            re.compile(pattern)
            return Program(_part_of_re("parse").parse(pattern))
    except (re.error, OverflowError, RecursionError) as error:
        raise BadValue(f"is not a regular expression: {error}") from None


def replace_matches(pattern: str, replacement: str, text: str) -> str:
    """The text with every match that is not empty replaced."""
    pieces: list[str] = []
    done = 0
    for begin, end in compiled(pattern).spans(text):
        pieces += text[done:begin], replacement
        done = end
    return "".join(pieces) + text[done:]


def _part_of_re(name: str) -> Any:
    """`re` in parts; since Python 3.11 they have private names, and the public ones are deprecated."""
    private = {"parse": "re._parser", "compile": "re._compiler", "constants": "re._constants"}
    try:
        return import_module(private[name])
    except ModuleNotFoundError:
        return import_module(f"sre_{name}")


class Program:
    """Instructions as a list; a set of them is an integer with a bit for each. Threads may share a program.

    A letter leads to the instruction behind it, if the text has that letter; a branch to one of several, the first
    preferred; a condition, if it holds, to the instruction behind it; the last instruction is the match.
    """

    def __init__(self, parsed: Any, flags: Flags = (0, 0)) -> None:
        compiler = _Compiler(parsed.state)
        compiler.sequence(parsed, flags)
        self._match = compiler.size
        self._branches, self._conditions, self._letters = compiler.branches, compiler.conditions, compiler.letters
        self._tests = list(compiler.tests.values())
        self._letter_masks: dict[str, int] = {}
        self._leading: dict[Holding, dict[int, int]] = {}
        self._origins: dict[Holding, dict[int, int]] = {}

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Begin and end of every match that is not empty, from left to right."""
        holding = self._holding(text)
        leading = self._leading_to_match(text, holding)
        begin = 0
        while begin < len(text):
            end = self._walk(begin, leading) if leading[begin] & 1 else None
            if end is not None:
                yield begin, end
            begin = begin + 1 if end is None else end

    def matches_at(self, text: str) -> list[bool]:
        """For each place of a text whether a match, also an empty one, begins there."""
        return [bool(leading & 1) for leading in self._leading_to_match(text, self._holding(text))]

    def _holding(self, text: str) -> Sequence[Holding]:
        if not self._tests:
            return [()] * (len(text) + 1)
        return list(zip(*(test(text) for test in self._tests), strict=True))

    def _leading_to_match(self, text: str, holding: Sequence[Holding]) -> list[int]:
        """For each place of a text the instructions that lead to a match from there."""
        here = self._with_origins(0, holding[-1])
        found = [here]
        for letter, holds in zip(reversed(text), reversed(holding[:-1]), strict=True):
            ready = (here >> 1) & self._with_letter(letter)
            remembered = self._leading.setdefault(holds, {})
            known = remembered.get(ready)
            if known is None:
                if len(remembered) > MOST_REMEMBERED or len(self._leading) > MOST_REMEMBERED:
                    self._leading = {holds: remembered}
                    remembered.clear()
                known = remembered[ready] = self._with_origins(ready, holds)
            here = known
            found.append(here)
        found.reverse()
        return found

    def _walk(self, begin: int, leading: Sequence[int]) -> int | None:
        """Where the match that begins here ends; None if it could only be empty."""
        at = self._next_letter(0, leading[begin], is_begin=True)
        place = begin
        while at is not None and at != self._match:
            place += 1
            at = self._next_letter(at + 1, leading[place])
        return None if at is None else place

    def _next_letter(self, start: int, leading: int, is_begin: bool = False) -> int | None:
        """The first letter, or the match, that leads on; a match at its own begin would be empty."""
        waiting, seen = [start], set[int]()
        while waiting:
            at = waiting.pop()
            if at in seen or not leading >> at & 1:
                continue
            seen.add(at)
            if at in self._branches:
                waiting += reversed(self._branches[at])
            elif at in self._conditions:
                waiting.append(at + 1)
            elif at != self._match or not is_begin:
                return at
        return None

    def _with_letter(self, letter: str) -> int:
        """The instructions that this letter satisfies."""
        mask = self._letter_masks.get(letter)
        if mask is None:
            if len(self._letter_masks) > MOST_REMEMBERED:
                self._letter_masks = {}
            mask = sum(1 << at for at, test in self._letters.items() if test.match(letter))
            self._letter_masks[letter] = mask
        return mask

    def _with_origins(self, ready: int, holds: Holding) -> int:
        """These letters and the match, and every instruction that leads to one of them without a letter."""
        if holds not in self._origins:
            if len(self._origins) > MOST_REMEMBERED:
                self._origins = {}
            self._origins[holds] = self._find_origins(holds)
        origins = self._origins[holds]
        result = ready | origins[self._match]
        for at in origins:
            if ready >> at & 1:
                result |= origins[at]
        return result

    def _find_origins(self, holds: Holding) -> dict[int, int]:
        """By letter or match the instructions that lead to it, where there are any."""
        before: dict[int, list[int]] = {}
        for at, targets in self._branches.items():
            for target in targets:
                before.setdefault(target, []).append(at)
        for at, number in self._conditions.items():
            if holds[number]:
                before.setdefault(at + 1, []).append(at)
        found = {self._match: 1 << self._match}
        for target in (*before, self._match):
            if target in self._branches or target in self._conditions:
                continue
            reached, waiting = {target}, [target]
            while waiting:
                new = [at for at in before.get(waiting.pop(), ()) if at not in reached]
                reached.update(new)
                waiting += new
            found[target] = sum(1 << at for at in reached)
        return found


class _Compiler:
    """Writes the instructions of an expression that `re` parsed."""

    def __init__(self, state: Any) -> None:
        self.state = state
        self.size = 0
        self.branches: dict[int, list[int]] = {}
        self.conditions: dict[int, int] = {}
        self.letters: dict[int, re.Pattern[str]] = {}
        self.tests: dict[str, Condition] = {}

    def sequence(self, items: Any, flags: Flags) -> None:
        for operation, argument in items:
            name = str(operation)
            if name in LETTERS:
                self.letters[self._take()] = self._alone(operation, argument, flags)
            elif name == "SUBPATTERN":
                _, added, removed, inner = argument
                self.sequence(inner, ((flags[0] | added) & ~removed, (flags[1] | removed) & ~added))
            elif name == "BRANCH":
                self._choice(argument[1], flags)
            elif name in ("MAX_REPEAT", "MIN_REPEAT"):
                least, most, inner = argument
                self._repeat(least, most, inner, flags, name == "MAX_REPEAT")
            elif name in CONDITIONS:
                self._condition(name, operation, argument, flags)
            else:
                raise BadValue(f"has {REFUSED.get(name, name)}, for which matching could take for ever (do without it)")

    def _choice(self, ways: Sequence[Any], flags: Flags) -> None:
        targets = self.branches[self._take()] = []
        ends = []
        for way in ways:
            targets.append(self.size)
            self.sequence(way, flags)
            ends.append(self._take())
        self.branches |= {end: [self.size] for end in ends}

    def _repeat(self, least: int, most: int, inner: Any, flags: Flags, is_greedy: bool) -> None:
        before = self.size
        for _ in range(least):
            self.sequence(inner, flags)
            if self.size == before:  # nothing, however often
                return
        if most == _part_of_re("constants").MAXREPEAT:
            again = self._take()
            self.sequence(inner, flags)
            self.branches[self._take()] = [again]
            self.branches[again] = self._preferred(again + 1, is_greedy)
            return
        optional = []
        for _ in range(most - least):
            optional.append(self._take())
            self.sequence(inner, flags)
        self.branches |= {at: self._preferred(at + 1, is_greedy) for at in optional}

    def _preferred(self, inside: int, is_greedy: bool) -> list[int]:
        """Once more or out, in the order of preference."""
        return [inside, self.size] if is_greedy else [self.size, inside]

    def _condition(self, name: str, operation: Any, argument: Any, flags: Flags) -> None:
        key = repr((name, argument, flags))
        if key not in self.tests:
            if len(self.tests) == MOST_CONDITIONS:
                raise BadValue(f"has more than {MOST_CONDITIONS} different conditions such as ^ or (?=…)")
            self.tests[key] = self._test(name, operation, argument, flags)
        self.conditions[self._take()] = [*self.tests].index(key)

    def _test(self, name: str, operation: Any, argument: Any, flags: Flags) -> Condition:
        if name == "FAILURE":
            return lambda text: [False] * (len(text) + 1)
        if name == "AT":
            alone = self._alone(operation, argument, flags)
            return lambda text: [alone.match(text, place) is not None for place in range(len(text) + 1)]
        direction, inner = argument
        width = 0 if direction > 0 else inner.getwidth()[0]
        program, is_wanted = Program(inner, flags), name == "ASSERT"

        def places(text: str) -> list[bool]:
            """Behind a place, where every match has the same width, is so far before it."""
            found = [False] * width + program.matches_at(text)
            return [holds is is_wanted for holds in found[: len(text) + 1]]

        return places

    def _alone(self, operation: Any, argument: Any, flags: Flags) -> re.Pattern[str]:
        """A single item for `re` itself, so that letters, classes and flags mean what they mean there."""
        parser = _part_of_re("parse")
        item = parser.SubPattern(self.state, [(operation, argument)])
        group = parser.SubPattern(self.state, [(parser.SUBPATTERN, (None, *flags, item))])
        pattern: re.Pattern[str] = _part_of_re("compile").compile(group)
        return pattern

    def _take(self) -> int:
        """The place of the next instruction."""
        if self.size == MOST_INSTRUCTIONS:
            raise BadValue(f"is too large ({MOST_INSTRUCTIONS} letters at most, with all repeats written out)")
        self.size += 1
        return self.size - 1
