"""Patterns of users find what `re` finds, in time proportional to the text, also those that take `re` ages."""

import random
import re
import time

import pytest
from machines import Machine

from jobtop.core.errors import BadValue, ConfigError
from jobtop.core.patterns import compile_pattern, replace_matches
from jobtop.core.redact import redact_command, redact_mapping

SLOW = (
    "(a+)+$",
    "(a|a)*b",
    "(.*)*x",
    "a*a*a*a*a*b",
    "(a|b)*a(a|b){200}c",
    "a.*b|a",
    "(?=(a+)+$)b",
    "(?<!a)(a?){60}b",
    "(?:aa|ab|ba){90}c",
    r"(\w+\s?)+$",
    r"(\b|a)*c",
)
ATOMS = (
    *("a", "b", "c", ".", "[ab]", "[^a]", r"\w", r"\b", "^", "$", "(?=a)", "(?<=b)", "(?!c)", "(?<!a)", "(?i:A)"),
    *(r"\s", r"\B", r"\A", r"\Z", "(?s:.)", "(?m:^)", "(?m:$)", "(?:)", "()", "(?<=a|b)", "(?=.*c)"),
)
REPEATS = ("*", "+", "?", "*?", "+?", "??", "{2}", "{1,2}", "{0,3}?", "{2,}", "{,2}")
TEXT = "abcA \n"
SECONDS = 1.5


@pytest.mark.parametrize("pattern", SLOW)
@pytest.mark.parametrize("letters", ["a", "ab", "a "])
@pytest.mark.parametrize("end", ["", "!"])  # what does not match at the end makes `re` try every way there is
def test_no_pattern_takes_long(pattern: str, letters: str, end: str) -> None:
    chosen = random.Random(1)
    text = "".join(chosen.choice(letters) for _ in range(30_000)) + end
    begun = time.process_time()
    assert set(replace_matches(pattern, "", text)) <= {*letters, *end}
    assert time.process_time() - begun < SECONDS


@pytest.mark.parametrize("text", ["x" * 30_000 + "é", "ab" * 15_000])
def test_a_long_text_takes_time_in_proportion(text: str) -> None:
    begun = time.process_time()
    redact_command(["prog", text], SLOW)
    redact_mapping({"name": text}, SLOW)
    assert time.process_time() - begun < SECONDS * 2 * len(SLOW) / 4


def written(chosen: random.Random, depth: int) -> str:
    """Some expression."""
    if depth == 0 or chosen.random() < 0.3:
        return chosen.choice(ATOMS)
    one, other = (written(chosen, depth - 1) for _ in "ab")
    return chosen.choice([one + other, f"(?:{one}|{other})", f"(?:{one}){chosen.choice(REPEATS)}", f"({one})"])


def hidden(pattern: str, text: str) -> list[bool]:
    """Which letters `re` would hide."""
    found = [False] * len(text)
    for match in re.finditer(pattern, text):
        found[match.start() : match.end()] = [True] * len(match[0])
    return found


@pytest.mark.parametrize("seed", range(4))
def test_what_is_found_is_what_re_finds(seed: int) -> None:
    chosen = random.Random(seed)
    compared = 0
    while compared < 500:
        pattern = written(chosen, 3)
        text = "".join(chosen.choice(TEXT) for _ in range(chosen.randrange(9)))
        try:
            spans = [*compile_pattern(pattern).spans(text)]
        except BadValue:
            continue
        found = [any(begin <= place < end for begin, end in spans) for place in range(len(text))]
        assert found == hidden(pattern, text), (pattern, text)
        compared += 1


@pytest.mark.parametrize(
    ("pattern", "text", "shown"),
    [
        (r"corp-[0-9a-f]{4,}", "x corp-12ab,corp-99", "x ***,corp-99"),
        (r"(?i)secret-\w+", "Secret-1 SECRET-2", "*** ***"),
        (r"(?<=key=)\w+", "key=abc other=abc", "key=*** other=abc"),
        (r'"[^"]*"', 'a "x" b "y" c', "a *** b *** c"),
        (r"k-.*?;", "k-1;k-2;x", "******x"),
        (r"(?x) a  b # two", "ab", "***"),
        (r"(?i:A)b", "ab aB", "*** aB"),
        (r"é+", "caféé", "caf***"),
        (r"|a", "a", "***"),
    ],
)
def test_ordinary_patterns_mean_what_they_mean_to_re(pattern: str, text: str, shown: str) -> None:
    assert replace_matches(pattern, "***", text) == shown


@pytest.mark.parametrize(
    ("pattern", "word"),
    [
        ("(", "not a regular expression"),
        ("(" * 900 + ")" * 90, "not a regular expression"),
        ("a" * 1001, "too long"),
        (r"(a)\1", "reference"),
        ("(?>a)", "atomic"),
        ("a*+", "possessive"),
        ("(a)(?(1)b|c)", "condition"),
        ("a{2000}", "too large"),
        ("((a{1000}){1000}){1000}", "too large"),
        ("a{1,9999999999999}", "not a regular expression"),
        ("".join(f"(?={letter})" for letter in "abcdefgh"), "conditions"),
    ],
)
def test_what_cannot_be_matched_in_bounded_time_is_refused_with_its_place(
    machine: Machine, pattern: str, word: str
) -> None:
    with pytest.raises(BadValue, match=word):
        compile_pattern(pattern)
    machine.write(machine.user_file, f"[run]\nredact = ['{pattern}']")
    assert machine.problem().startswith(f"{machine.user_file}: run.redact: ")
    machine.write(machine.project_file, f"[run]\nredact = ['{pattern}']")
    machine.user_file.unlink()
    with pytest.raises(ConfigError, match=r"run\.redact"):
        machine.trust()


def test_repeats_of_nothing_end() -> None:
    assert replace_matches("(?:(?:(?:){999999}){999999}){999999}|b", "*", "ab") == "a*"
