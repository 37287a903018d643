"""Matches users' regular expressions in time proportional to the text, so that no expression can hang a job.

Python's `re` backtracks, which takes exponential time for `(a+)+$`. Here an expression, as `re` parses it, is compiled
into a small program. One pass from the end of the text to its beginning finds, for each position, the instructions
from which a match can be reached: they are live there. A walk forward then follows, at each branch, the first live
target. So the result is what `re` finds, without backtracking. Look-around is a program of its own; its result is
computed for each position first.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from importlib import import_module
from typing import Any

from jobtop.core.errors import BadValue

MAX_PATTERN_LENGTH = 1000
MAX_INSTRUCTIONS = 1000
MAX_CACHED = 5000
UNSUPPORTED = {
    "GROUPREF": "a reference to a group",
    "GROUPREF_EXISTS": "a condition on a group",
    "ATOMIC_GROUP": "an atomic group",
    "POSSESSIVE_REPEAT": "a possessive repeat",
}
MAX_CONDITIONS = 6
CONDITIONS = ("AT", "ASSERT", "ASSERT_NOT", "FAILURE")
LETTERS = ("LITERAL", "NOT_LITERAL", "ANY", "IN")

Flags = tuple[int, int]  # the flags that a group like (?i-s:…) adds, and those it removes
Condition = Callable[[str], list[bool]]  # returns for each position of a text whether the condition holds there
ConditionValues = tuple[bool, ...]  # which conditions of a program hold at one position


@lru_cache(64)
def compile_pattern(pattern: str) -> Program:
    """Compile an expression; the text of BadValue continues a sentence that begins with the expression."""
    if len(pattern) > MAX_PATTERN_LENGTH:
        raise BadValue(f"is too long ({MAX_PATTERN_LENGTH} characters at most)")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # FutureWarning for expressions such as `[[]`
            re.compile(pattern)
            return Program(_re_module("parse").parse(pattern))
    except (re.error, OverflowError, RecursionError) as error:
        raise BadValue(f"is not a regular expression: {error}") from None


def replace_matches(pattern: str, replacement: str, text: str) -> str:
    """Return the text with every non-empty match replaced."""
    pieces: list[str] = []
    done = 0
    for begin, end in compile_pattern(pattern).spans(text):
        pieces += text[done:begin], replacement
        done = end
    return "".join(pieces) + text[done:]


def _re_module(name: str) -> Any:
    """Return the parser, compiler or constants of `re`; since Python 3.11 these modules have private names."""
    private = {"parse": "re._parser", "compile": "re._compiler", "constants": "re._constants"}
    try:
        return import_module(private[name])
    except ModuleNotFoundError:
        return import_module(f"sre_{name}")


class Program:
    """A list of instructions; a set of instructions is an integer with one bit for each. Threads may share a program.

    There are four kinds. A letter consumes a character of the text and continues with the next instruction. A branch
    continues with one of several targets, the first preferred. A condition continues with the next instruction if it
    holds. The last instruction is the match.
    """

    def __init__(self, parsed: Any, flags: Flags = (0, 0)) -> None:
        compiler = _Compiler(parsed.state)
        compiler.sequence(parsed, flags)
        self._match = compiler.size
        self._branches, self._conditions, self._letters = compiler.branches, compiler.conditions, compiler.letters
        self._tests = list(compiler.tests.values())
        self._letter_masks: dict[str, int] = {}
        self._live_cache: dict[ConditionValues, dict[int, int]] = {}
        self._predecessor_cache: dict[ConditionValues, dict[int, int]] = {}

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield begin and end of every non-empty match, from left to right."""
        values = self._condition_values(text)
        live = self._live_instructions(text, values)
        begin = 0
        while begin < len(text):
            end = self._walk(begin, live) if live[begin] & 1 else None
            if end is not None:
                yield begin, end
            begin = begin + 1 if end is None else end

    def matches_at(self, text: str) -> list[bool]:
        """Return for each position of a text whether a match, possibly empty, begins there."""
        return [bool(live & 1) for live in self._live_instructions(text, self._condition_values(text))]

    def _condition_values(self, text: str) -> Sequence[ConditionValues]:
        if not self._tests:
            return [()] * (len(text) + 1)
        return list(zip(*(test(text) for test in self._tests), strict=True))

    def _live_instructions(self, text: str, values: Sequence[ConditionValues]) -> list[int]:
        """Return for each position of a text the instructions from which a match can be reached."""
        here = self._with_predecessors(0, values[-1])
        found = [here]
        for letter, values_here in zip(reversed(text), reversed(values[:-1]), strict=True):
            ready = (here >> 1) & self._letter_mask(letter)
            remembered = self._live_cache.setdefault(values_here, {})
            known = remembered.get(ready)
            if known is None:
                if len(remembered) > MAX_CACHED or len(self._live_cache) > MAX_CACHED:
                    self._live_cache = {values_here: remembered}
                    remembered.clear()
                known = remembered[ready] = self._with_predecessors(ready, values_here)
            here = known
            found.append(here)
        found.reverse()
        return found

    def _walk(self, begin: int, live: Sequence[int]) -> int | None:
        """Return the end of the match that begins at `begin`; None if it would be empty."""
        instruction = self._next_letter(0, live[begin], is_begin=True)
        position = begin
        while instruction is not None and instruction != self._match:
            position += 1
            instruction = self._next_letter(instruction + 1, live[position])
        return None if instruction is None else position

    def _next_letter(self, start: int, live: int, is_begin: bool = False) -> int | None:
        """Return the first live letter, or the match unless `is_begin`, that is reachable from `start`."""
        waiting, seen = [start], set[int]()
        while waiting:
            instruction = waiting.pop()
            if instruction in seen or not live >> instruction & 1:
                continue
            seen.add(instruction)
            if instruction in self._branches:
                waiting += reversed(self._branches[instruction])
            elif instruction in self._conditions:
                waiting.append(instruction + 1)
            elif instruction != self._match or not is_begin:
                return instruction
        return None

    def _letter_mask(self, letter: str) -> int:
        """Return the instructions that consume this letter."""
        mask = self._letter_masks.get(letter)
        if mask is None:
            if len(self._letter_masks) > MAX_CACHED:
                self._letter_masks = {}
            mask = sum(1 << instruction for instruction, test in self._letters.items() if test.match(letter))
            self._letter_masks[letter] = mask
        return mask

    def _with_predecessors(self, ready: int, values_here: ConditionValues) -> int:
        """Return the given letters, the match, and every instruction that reaches one of them without a letter."""
        if values_here not in self._predecessor_cache:
            if len(self._predecessor_cache) > MAX_CACHED:
                self._predecessor_cache = {}
            self._predecessor_cache[values_here] = self._find_predecessors(values_here)
        predecessors = self._predecessor_cache[values_here]
        result = ready | predecessors[self._match]
        for instruction in predecessors:
            if ready >> instruction & 1:
                result |= predecessors[instruction]
        return result

    def _find_predecessors(self, values_here: ConditionValues) -> dict[int, int]:
        """Return by letter or match the instructions that reach it without a letter."""
        before: dict[int, list[int]] = {}
        for instruction, targets in self._branches.items():
            for target in targets:
                before.setdefault(target, []).append(instruction)
        for instruction, number in self._conditions.items():
            if values_here[number]:
                before.setdefault(instruction + 1, []).append(instruction)
        found = {self._match: 1 << self._match}
        for target in (*before, self._match):
            if target in self._branches or target in self._conditions:
                continue
            reached, waiting = {target}, [target]
            while waiting:
                new = [instruction for instruction in before.get(waiting.pop(), ()) if instruction not in reached]
                reached.update(new)
                waiting += new
            found[target] = sum(1 << instruction for instruction in reached)
        return found


class _Compiler:
    """Compiles an expression that `re` parsed into instructions."""

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
                self.letters[self._allocate()] = self._compile_item(operation, argument, flags)
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
                raise BadValue(
                    f"has {UNSUPPORTED.get(name, name)}, which could take exponential time (rewrite it without)"
                )

    def _choice(self, ways: Sequence[Any], flags: Flags) -> None:
        targets = self.branches[self._allocate()] = []
        ends = []
        for way in ways:
            targets.append(self.size)
            self.sequence(way, flags)
            ends.append(self._allocate())
        self.branches |= {end: [self.size] for end in ends}

    def _repeat(self, least: int, most: int, inner: Any, flags: Flags, is_greedy: bool) -> None:
        before = self.size
        for _ in range(least):
            self.sequence(inner, flags)
            if self.size == before:  # an empty item stays empty, however often it is repeated
                return
        if most == _re_module("constants").MAXREPEAT:
            again = self._allocate()
            self.sequence(inner, flags)
            self.branches[self._allocate()] = [again]
            self.branches[again] = self._branch_targets(again + 1, is_greedy)
            return
        optional = []
        for _ in range(most - least):
            optional.append(self._allocate())
            self.sequence(inner, flags)
        self.branches |= {instruction: self._branch_targets(instruction + 1, is_greedy) for instruction in optional}

    def _branch_targets(self, inside: int, is_greedy: bool) -> list[int]:
        """Return the targets repeat and leave, in order of preference."""
        return [inside, self.size] if is_greedy else [self.size, inside]

    def _condition(self, name: str, operation: Any, argument: Any, flags: Flags) -> None:
        key = repr((name, argument, flags))
        if key not in self.tests:
            if len(self.tests) == MAX_CONDITIONS:
                raise BadValue(f"has more than {MAX_CONDITIONS} different conditions such as ^ or (?=…)")
            self.tests[key] = self._condition_test(name, operation, argument, flags)
        self.conditions[self._allocate()] = [*self.tests].index(key)

    def _condition_test(self, name: str, operation: Any, argument: Any, flags: Flags) -> Condition:
        if name == "FAILURE":
            return lambda text: [False] * (len(text) + 1)
        if name == "AT":
            alone = self._compile_item(operation, argument, flags)
            return lambda text: [alone.match(text, position) is not None for position in range(len(text) + 1)]
        direction, inner = argument
        width = 0 if direction > 0 else inner.getwidth()[0]
        program, is_wanted = Program(inner, flags), name == "ASSERT"

        def places(text: str) -> list[bool]:
            """Shift by the width: look-behind at a position is a match that begins that many characters before it."""
            found = [False] * width + program.matches_at(text)
            return [holds is is_wanted for holds in found[: len(text) + 1]]

        return places

    def _compile_item(self, operation: Any, argument: Any, flags: Flags) -> re.Pattern[str]:
        """Compile a single item by `re` itself, so that letters, classes and flags mean the same as there."""
        parser = _re_module("parse")
        item = parser.SubPattern(self.state, [(operation, argument)])
        group = parser.SubPattern(self.state, [(parser.SUBPATTERN, (None, *flags, item))])
        pattern: re.Pattern[str] = _re_module("compile").compile(group)
        return pattern

    def _allocate(self) -> int:
        """Return the number of the next instruction; BadValue if there are too many."""
        if self.size == MAX_INSTRUCTIONS:
            raise BadValue(f"is too large ({MAX_INSTRUCTIONS} letters at most, with all repeats written out)")
        self.size += 1
        return self.size - 1
