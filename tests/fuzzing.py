"""Random inputs for code that reads files and words from outside: made from a seed, bounded in time and memory.

A property test names its target, makes one input from dice and says what must hold of it:

    @fuzzed("blocks", inputs=1000)
    def test_a_damaged_block_is_refused(count: int) -> None:
        fuzz("blocks", lambda dice: mutated(dice, BLOCK), lambda data: decode(data), count)

`make test` runs `inputs` of them, `make soak` the target's share of SOAK_INPUTS. A failure prints what repeats it:
FUZZ_SEED=SEED:NUMBER runs only that input, FUZZ_SEED=SEED all inputs of that seed (`make soak` takes the time of day),
FUZZ_INPUTS=N changes SOAK_INPUTS.
"""

import math
import os
import random
import resource
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NoReturn, TypeVar

import pytest

from jobtop.core.errors import JobtopError

SOAK_INPUTS = int(os.environ.get("FUZZ_INPUTS", "1_000_000"))
# How the inputs of `make soak` are divided among the targets.
SHARES = {
    "evidence": 0.35,
    "blocks": 0.3,
    "rows": 0.05,
    "configuration": 0.1,
    "imports": 0.05,
    "filters": 0.08,
    "command line": 0.05,
    "terminal text": 0.02,
}
MOST_CPU_SECONDS = 1.0
MOST_BYTES = 64 * 1024 * 1024  # above the size of the input
HANGING_SECONDS = 10.0  # of wall time: an input that waits for something uses no CPU time
PAGE_BYTES = resource.getpagesize()
ODD_NUMBERS = (
    *("0 -0 1 -1 127 128 255 256 65535 65536 2147483647 2147483648 4294967295 4294967296 -2147483649".split()),
    *("9223372036854775807 9223372036854775808 -9223372036854775808 -9223372036854775809 18446744073709551616".split()),
    *("1e300 -1e300 1e308 1e309 1e-320 nan NaN inf -inf Infinity 0x10 1_000 0.1 .5 5. ٣ ½ +7 1e5 00 -".split()),
    "9" * 5000,
)
ODD_WORDS = (
    "",
    " ",
    "None",
    "null",
    "true",
    "[]",
    "{}",
    '""',
    "\x00",
    "\n",
    "\r",
    "\t",
    "\\",
    "\x1b[2J",
    "../../victim",
)
ODD_VALUES: tuple[object, ...] = (
    *(None, 0, 1, -1, 2**31, 2**32, 2**53 + 1, 2**63 - 1, -(2**63), 0.5, -0.0, 1e18, 1e300, -1e300),
    *(
        math.inf,
        -math.inf,
        *ODD_WORDS,
        *ODD_NUMBERS[:-1],
        b"",
        b"\x00",
        b"\xff\xfe",
        "x" * 3000,
        "caf\udce9",
        "ü\U0010ffff",
    ),
    *("3", "[1]", '{"a": 1}', '[["a"]]', '{"a": {"b": []}}', '"x"', "{", "NaN", "[" * 2000, '{"a": 1e999}', "[null]"),
)

T = TypeVar("T")
SEED, _, ONLY = os.environ.get("FUZZ_SEED", "").partition(":")


class Hangs(BaseException):
    """The input took so long that it was interrupted; no `except Exception` of the tested code may catch it."""


def fuzzed(target: str, inputs: int) -> pytest.MarkDecorator:
    """Call the test with `count`: so many inputs in the suite, the target's share in the long tests."""
    share = round(SHARES[target] * SOAK_INPUTS)
    return pytest.mark.parametrize(
        "count", [pytest.param(inputs, id="suite"), pytest.param(share, id="soak", marks=pytest.mark.soak)]
    )


def fuzz(
    target: str,
    generate: Callable[[random.Random], T],
    check: Callable[[T], object],
    count: int,
    allowed: type[BaseException] | tuple[type[BaseException], ...] = JobtopError,
    size: Callable[[T], int] = lambda value: len(value) if isinstance(value, (bytes, str)) else 0,
) -> None:
    """Check so many inputs: only `allowed` may be raised, in a second of CPU time and 64 MiB above the size at most."""
    seed = SEED or "0"
    with _watchdog():
        for number in (int(ONLY),) if ONLY else range(count):
            value = generate(random.Random(f"{target}:{seed}:{number}"))
            try:
                if number == 0:  # imports and caches of the tested code are not part of an input's cost
                    _cpu_seconds(check, value, allowed)
                with _bounded_memory(size(value)):
                    seconds = _cpu_seconds(check, value, allowed)
            except (Exception, Hangs) as error:  # noqa: BLE001 - whatever it is, it is named with its input
                _fail(f"{type(error).__name__}: {error}", target, seed, number, value, error)
            if seconds > MOST_CPU_SECONDS:
                _fail(f"it took {seconds:.1f} s of CPU time", target, seed, number, value)


def mutated(dice: random.Random, data: bytes, most: int = 4) -> bytes:
    """The data with one to `most` changes of the kinds that damage and attacks make."""
    changed = bytearray(data)
    for _ in range(dice.randint(1, most)):
        dice.choice(_MUTATIONS)(dice, changed)
    return bytes(changed)


def mutated_text(dice: random.Random, text: str, most: int = 4) -> str:
    """Text with changes; bytes that are no UTF-8 become surrogates, as in file names."""
    return mutated(dice, text.encode("utf-8", "surrogateescape"), most).decode("utf-8", "surrogateescape")


def _span(dice: random.Random, data: bytearray, longest: int = 16) -> slice:
    start = dice.randint(0, len(data))
    return slice(start, start + dice.randint(0, longest))


def _flip(dice: random.Random, data: bytearray) -> None:
    if data:
        data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)


def _cut(dice: random.Random, data: bytearray) -> None:
    del data[_span(dice, data)]


def _break_off(dice: random.Random, data: bytearray) -> None:
    del data[dice.randint(0, len(data)) :]


def _put(dice: random.Random, data: bytearray) -> None:
    data[_span(dice, data, 4)] = dice.randbytes(dice.randint(1, 8))


def _put_word(dice: random.Random, data: bytearray) -> None:
    data[_span(dice, data, 4)] = dice.choice(ODD_WORDS + ODD_NUMBERS).encode()


def _put_integer(dice: random.Random, data: bytearray) -> None:
    width = dice.choice((1, 2, 4, 8))
    number = dice.choice((0, 1, 0x7F, 0xFF, 2 ** (8 * width) - 1, 2 ** (8 * width - 1))) & (2 ** (8 * width) - 1)
    start = dice.randint(0, len(data))
    data[start : start + width] = number.to_bytes(width, "little")


def _repeat(dice: random.Random, data: bytearray) -> None:
    part = data[_span(dice, data, 64)]
    data[_span(dice, data, 0)] = part * dice.choice((1, 2, 50))


def _replace_number(dice: random.Random, data: bytearray) -> None:
    """Another number, or a word, in the place of a run of digits."""
    digits = [place for place, byte in enumerate(data) if 48 <= byte <= 57]
    if not digits:
        return
    start = end = dice.choice(digits)
    while start and data[start - 1] in b"0123456789.-":
        start -= 1
    while end < len(data) and data[end] in b"0123456789.-":
        end += 1
    data[start:end] = dice.choice(ODD_NUMBERS + ODD_WORDS).encode()


def _drop_line(dice: random.Random, data: bytearray) -> None:
    lines = bytes(data).split(b"\n")
    del lines[dice.randrange(len(lines))]
    data[:] = b"\n".join(lines)


_MUTATIONS: Sequence[Callable[[random.Random, bytearray], None]] = (
    *(_flip, _cut, _break_off, _put, _put_word, _put_integer, _repeat, _replace_number, _replace_number, _drop_line),
)


def _cpu_seconds(
    check: Callable[[T], object], value: T, allowed: type[BaseException] | tuple[type[BaseException], ...]
) -> float:
    """The CPU time of one check: what other processes do at the same time is not the work of an input.

    One that hangs is tried again if it may only have waited for a CPU.
    """
    begun = time.process_time()
    try:
        _check(check, value, allowed)
    except Hangs:
        if time.process_time() - begun > MOST_CPU_SECONDS:
            raise
        begun = time.process_time()
        _check(check, value, allowed)
    return time.process_time() - begun


def _check(
    check: Callable[[T], object], value: T, allowed: type[BaseException] | tuple[type[BaseException], ...]
) -> None:
    signal.setitimer(signal.ITIMER_REAL, HANGING_SECONDS)
    try:
        check(value)
    except allowed:
        pass
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


@contextmanager
def _bounded_memory(size: int) -> Iterator[None]:
    """An address space of 64 MiB and the input above what there is: more is a MemoryError, wherever it is asked for."""
    with open("/proc/self/statm", "rb") as file:
        mapped = int(file.read().split()[0]) * PAGE_BYTES
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (mapped + MOST_BYTES + size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


@contextmanager
def _watchdog() -> Iterator[None]:
    """Interrupt an input that hangs; the timer of the whole test goes on afterwards."""

    def interrupt(*_: object) -> NoReturn:
        raise Hangs(f"no end within {HANGING_SECONDS:g} s")

    begun, remaining = time.monotonic(), signal.getitimer(signal.ITIMER_REAL)[0]
    handler = signal.signal(signal.SIGALRM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGALRM, handler)
        left = max(0.001, remaining - (time.monotonic() - begun)) if remaining else 0
        signal.setitimer(signal.ITIMER_REAL, left)


def _fail(
    what: str, target: str, seed: str, number: int, value: object, cause: BaseException | None = None
) -> NoReturn:
    shown = repr(value)
    shown = shown if len(shown) <= 4000 else f"{shown[:4000]}… ({len(shown)} characters)"
    raise AssertionError(f"{target}: {what}\nrepeat with FUZZ_SEED={seed}:{number}\ninput: {shown}") from cause
