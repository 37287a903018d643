"""The harness of the property tests notices what it is there to notice."""

import os
import random
import signal
import time
from pathlib import Path

import pytest

import fuzzing
from fuzzing import SHARES, fuzz, mutated
from jobtop.core.errors import BadValue


def _empty(dice: random.Random) -> bytes:
    return b""


def test_the_shares_of_the_long_tests_are_all_of_them() -> None:
    assert sum(SHARES.values()) == pytest.approx(1)


def test_an_error_of_the_product_is_an_answer() -> None:
    def refuse(value: bytes) -> None:
        raise BadValue("no")

    fuzz("blocks", lambda dice: dice.randbytes(3), refuse, 5)


def test_another_error_fails_with_what_repeats_it() -> None:
    def check(value: int) -> None:
        if value > 50:
            raise KeyError(value)

    with pytest.raises(AssertionError, match=r"KeyError(.|\n)*FUZZ_SEED=0:\d+\ninput: \d\d"):
        fuzz("blocks", lambda dice: dice.randrange(100), check, 100)


def test_a_seed_and_a_number_give_the_same_input_again(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bytes] = []
    fuzz("blocks", lambda dice: mutated(dice, b"12 abc\n" * 3), seen.append, 5)
    monkeypatch.setattr(fuzzing, "SEED", "0")
    monkeypatch.setattr(fuzzing, "ONLY", "3")
    again: list[bytes] = []
    fuzz("blocks", lambda dice: mutated(dice, b"12 abc\n" * 3), again.append, 5)
    assert again == [seen[4]]  # the first input is checked twice


def test_too_much_memory_fails() -> None:
    with pytest.raises(AssertionError, match="MemoryError"):
        fuzz("blocks", _empty, lambda _: bytes(200 << 20), 2)


def test_an_input_may_cost_memory_of_its_own_size() -> None:
    fuzz("blocks", lambda _: 100 << 20, bytes, 1, size=lambda value: value)


def _compute(seconds: float) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def test_an_input_that_costs_much_cpu_time_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzzing, "MOST_CPU_SECONDS", 0.01)
    with pytest.raises(AssertionError, match="it took"):
        fuzz("blocks", _empty, lambda _: _compute(0.02), 1)


def test_time_in_which_others_have_the_cpu_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzzing, "MOST_CPU_SECONDS", 0.05)
    fuzz("blocks", _empty, lambda _: time.sleep(0.2), 1)


def test_an_input_that_was_interrupted_without_cpu_time_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzzing, "HANGING_SECONDS", 0.05)
    waits = [10.0, 0.0, 0.0]
    fuzz("blocks", _empty, lambda _: time.sleep(waits.pop(0)), 1)
    assert waits == []


def test_a_loop_that_never_ends_is_interrupted_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzzing, "HANGING_SECONDS", 0.05)
    monkeypatch.setattr(fuzzing, "MOST_CPU_SECONDS", 0.0)
    began: list[None] = []

    def loop(_: bytes) -> None:
        began.append(None)
        _compute(60)

    with pytest.raises(AssertionError, match="Hangs"):
        fuzz("blocks", _empty, loop, 1)
    assert len(began) == 1


def test_a_read_that_never_ends_is_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzzing, "HANGING_SECONDS", 0.05)
    os.mkfifo(tmp_path / "fifo")
    before = signal.getitimer(signal.ITIMER_REAL)[0]
    with pytest.raises(AssertionError, match="Hangs"):
        fuzz("blocks", _empty, lambda _: open(tmp_path / "fifo").close(), 1)
    after = signal.getitimer(signal.ITIMER_REAL)[0]
    assert bool(before) == bool(after)
    assert after <= before


def test_mutations_differ_and_stay_small() -> None:
    made = {mutated(random.Random(number), b"key 1 2.5\n" * 5) for number in range(200)}
    assert len(made) > 150
    assert max(map(len, made)) < 50_000
