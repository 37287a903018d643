"""The last minute of a job: copies agree with the tail, and do not change while the tail does."""

import pytest

from jobtop.store.samples.live import KEPT_SAMPLES, Now, Tail
from jobtop.tui.data.last_minute import KEPT_BYTES, Columns, PackedSamples, columns_of, copy_of


def add_samples(tail: Tail, first: int, count: int) -> None:
    """Add samples of which every fifth has no CPU time and every seventh no memory."""
    for second in range(first, first + count):
        user = None if second % 5 == 0 else second * second / 100
        memory = None if second % 7 == 0 else 7 * second
        tail.add(float(second), (user, 0.0, memory, 0, 0, 1, 1, None, None, None))


def columns_in(tail: Tail) -> Columns:
    return Columns(tuple(tail.times), tuple(tail.cpu), tuple(tail.memory))


@pytest.mark.parametrize("at_once", [1, 2, 15, KEPT_SAMPLES, KEPT_SAMPLES + 30])
def test_each_copy_has_the_samples_that_the_tail_had_then(at_once: int) -> None:
    tail = Tail()
    known: tuple[Now, PackedSamples] | None = None
    handed_over: list[tuple[PackedSamples, Columns]] = []
    for first in range(1, 4 * KEPT_SAMPLES, at_once):
        add_samples(tail, first, at_once)
        known = tail.now, copy_of(tail, known)
        handed_over.append((known[1], columns_in(tail)))
    assert [columns_of(copy) for copy, _ in handed_over] == [then for _, then in handed_over]
    assert len(handed_over[-1][0]) == KEPT_BYTES
    assert None in columns_of(handed_over[-1][0]).cpu_percent


def test_a_copy_is_right_after_samples_were_missed() -> None:
    tail = Tail()
    add_samples(tail, 1, 10)
    known = tail.now, copy_of(tail)
    add_samples(tail, 11, 3)
    assert columns_of(copy_of(tail, known)) == columns_in(tail)


def test_a_copy_is_right_after_older_samples_were_found() -> None:
    short, whole = Tail(), Tail()
    add_samples(short, 8, 3)
    add_samples(whole, 1, 11)
    assert columns_of(copy_of(whole, (short.now, copy_of(short)))) == columns_in(whole)


def test_a_tail_without_samples_has_no_columns() -> None:
    tail = Tail()
    assert columns_of(copy_of(tail)) == columns_of(None) == Columns()
    add_samples(tail, 1, 1)
    assert columns_of(copy_of(tail, (Now(0.0), b""))) == columns_in(tail)
