"""The CPU time of a process divided among the blocks that are open in it."""

from jobtop.core.track.ledger import Ledger, OwnCpu

MAIN, WORKER, OTHER = 1, 2, 3


class Clocks:
    """The CPU time of a process and of its threads, set by a test; a third of all time is system time."""

    def __init__(self) -> None:
        self.threads: dict[int, float] = {MAIN: 5.0, WORKER: 0.0, OTHER: 0.0}
        self.native = 1.0  # threads that Python does not know
        self.exited = 0.0

    def use(self, thread: int | None, seconds: float) -> None:
        if thread is None:
            self.native += seconds
        else:
            self.threads[thread] += seconds

    def end(self, thread: int) -> float:
        seconds = self.threads.pop(thread)
        self.exited += seconds
        return seconds

    def cpu(self) -> tuple[float, float]:
        total = sum(self.threads.values()) + self.native + self.exited
        return total * 2 / 3, total / 3

    def ledger(self) -> Ledger:
        return Ledger(self.cpu, self.threads.get)


def total(used: OwnCpu) -> float:
    return round(used.user_seconds + used.system_seconds, 9)


def test_all_time_of_the_process_belongs_to_the_only_block() -> None:
    clocks = Clocks()
    ledger = clocks.ledger()
    ledger.open("a", None, MAIN)
    for thread in (MAIN, WORKER, None):
        clocks.use(thread, 1.0)
    used = ledger.close("a")
    assert total(used) == 3.0
    assert round(used.system_seconds, 9) == 1.0
    assert used.divided_seconds == 0.0
    assert not used.has_overlapped


def test_time_before_and_after_a_block_is_not_its_own() -> None:
    clocks = Clocks()
    ledger = clocks.ledger()
    clocks.use(MAIN, 2.0)
    ledger.open("a", None, MAIN)
    clocks.use(MAIN, 1.0)
    assert total(ledger.close("a")) == 1.0
    clocks.use(MAIN, 2.0)
    ledger.open("b", None, MAIN)
    assert total(ledger.close("b")) == 0.0


def test_a_block_around_another_has_its_time_too() -> None:
    clocks = Clocks()
    ledger = clocks.ledger()
    ledger.open("outer", None, MAIN)
    clocks.use(MAIN, 1.0)
    ledger.open("inner", "outer", MAIN)
    clocks.use(MAIN, 2.0)
    inner = ledger.close("inner")
    clocks.use(MAIN, 4.0)
    outer = ledger.close("outer")
    assert (total(inner), total(outer)) == (2.0, 7.0)
    assert not inner.has_overlapped
    assert not outer.has_overlapped


def test_two_blocks_in_two_threads_have_the_time_of_their_threads() -> None:
    clocks = Clocks()
    ledger = clocks.ledger()
    ledger.open("a", None, WORKER)
    ledger.open("b", None, OTHER)
    clocks.use(WORKER, 1.0)
    clocks.use(OTHER, 3.0)
    a, b = ledger.close("a"), ledger.close("b")
    assert (total(a), total(b)) == (1.0, 3.0)
    assert a.has_overlapped
    assert b.has_overlapped


def test_threads_of_no_block_are_divided_and_nothing_counts_twice() -> None:
    clocks = Clocks()
    ledger = clocks.ledger()
    ledger.open("a", None, WORKER)
    ledger.open("b", None, OTHER)
    clocks.use(WORKER, 1.0)
    clocks.use(None, 4.0)
    a, b = ledger.close("a"), ledger.close("b")
    assert (total(a), total(b)) == (3.0, 2.0)
    assert round(a.divided_seconds, 9) == 2.0
    assert total(a) + total(b) == 5.0


def test_what_comes_after_the_other_block_was_closed_belongs_to_the_one_that_is_left() -> None:
    clocks = Clocks()
    ledger = clocks.ledger()
    ledger.open("a", None, WORKER)
    ledger.open("b", None, OTHER)
    ledger.close("b")
    clocks.use(MAIN, 2.0)
    clocks.use(None, 1.0)
    assert total(ledger.close("a")) == 3.0


def test_a_thread_belongs_to_the_block_in_which_it_was_started_also_after_its_exit() -> None:
    clocks = Clocks()
    ledger = clocks.ledger()
    ledger.open("a", None, MAIN)
    ledger.open("b", None, OTHER)
    ledger.thread_began("a", WORKER)
    clocks.use(WORKER, 2.0)
    ledger.thread_ended("a", WORKER, clocks.end(WORKER))
    a, b = ledger.close("a"), ledger.close("b")
    assert (total(a), total(b)) == (2.0, 0.0)


def test_two_blocks_of_one_thread_have_half_of_its_time_each() -> None:
    clocks = Clocks()
    ledger = clocks.ledger()
    ledger.open("a", None, MAIN)
    ledger.open("b", None, MAIN)
    clocks.use(MAIN, 2.0)
    assert total(ledger.close("a")) == 1.0
    clocks.use(MAIN, 1.0)
    assert total(ledger.close("b")) == 2.0


def test_the_time_of_tracking_belongs_to_no_block() -> None:
    clocks = Clocks()
    ledger = clocks.ledger()
    ledger.open("a", None, WORKER)
    ledger.open("b", None, OTHER)
    clocks.use(WORKER, 1.5)
    ledger.leave_out(WORKER, 0.5)
    clocks.use(MAIN, 0.25)
    ledger.leave_out(MAIN, 0.25)
    assert (total(ledger.close("a")), total(ledger.close("b"))) == (1.0, 0.0)


def test_a_block_that_is_closed_before_the_one_inside_of_it_leaves_that_to_the_one_around() -> None:
    clocks = Clocks()
    ledger = clocks.ledger()
    for key, parent in (("a", None), ("b", "a"), ("c", "b")):
        ledger.open(key, parent, MAIN)
    ledger.close("b")
    clocks.use(MAIN, 1.0)
    assert total(ledger.close("c")) == 1.0
    assert total(ledger.close("a")) == 1.0
