"""The last minute of a job: copies agree with the tail, and do not change while the tail does."""

import itertools

import pytest

from jobtop.store.samples.live import KEPT_SAMPLES, Tail
from jobtop.tui.data.last_minute import MOST_NEWER, Columns, LastMinute, copy_of


def add_samples(tail: Tail, first: int, count: int) -> None:
    for second in range(first, first + count):
        tail.add(float(second), (second * second / 100, 0.0, 7 * second, 0, 0, 1, 1, None, None, None))


def columns_of(tail: Tail) -> Columns:
    return Columns(tuple(tail.times), tuple(tail.cpu), tuple(tail.memory))


@pytest.mark.parametrize("at_once", [1, 2, MOST_NEWER, MOST_NEWER + 1, KEPT_SAMPLES, KEPT_SAMPLES + 30])
def test_each_copy_has_the_samples_that_the_tail_had_then(at_once: int) -> None:
    tail = Tail()
    known: LastMinute | None = None
    handed_over: list[tuple[LastMinute, Columns]] = []
    for first in range(1, 4 * KEPT_SAMPLES, at_once):
        add_samples(tail, first, at_once)
        known = copy_of(tail, known)
        handed_over.append((known, columns_of(tail)))
    assert [copy.columns() for copy, _ in handed_over] == [then for _, then in handed_over]


def test_a_new_sample_copies_only_the_short_part() -> None:
    tail = Tail()
    add_samples(tail, 1, KEPT_SAMPLES)
    first = copy_of(tail)
    copies = [first]
    for second in range(KEPT_SAMPLES + 1, 3 * KEPT_SAMPLES):
        add_samples(tail, second, 1)
        copies.append(copy_of(tail, copies[-1]))
    shared = [after.older is before.older for before, after in itertools.pairwise(copies)]
    assert shared.count(False) <= len(shared) / MOST_NEWER + 1
    assert max(len(copy.newer) for copy in copies[1:]) == MOST_NEWER


def test_a_tail_without_samples_has_no_columns() -> None:
    tail = Tail()
    assert copy_of(tail).columns() == Columns()
    add_samples(tail, 1, 1)
    assert copy_of(tail, copy_of(Tail())).columns() == columns_of(tail)
