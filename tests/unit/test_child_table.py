"""The children of a tracked process: to which block each belongs, and what it used until it was reaped."""

import pytest

from jobtop.core.track import child_table
from jobtop.core.track.child_table import ChildTable
from jobtop.core.track.counters import TICK_SECONDS

PROCESS = 100
ONE, TWO = 101, 102  # threads
OWNERS = {ONE: "a", TWO: "b"}


class Kernel:
    """The children of a process as a test sets them."""

    def __init__(self) -> None:
        self.children: dict[int, tuple[int, float]] = {}  # by pid: the thread that started it, its CPU time
        self.reaped = 0.0

    def start(self, pid: int, thread: int, seconds: float = 0.0) -> None:
        self.children[pid] = thread, seconds

    def reap(self, pid: int, seconds: float) -> None:
        del self.children[pid]
        self.reaped += seconds

    def read_text(self, path: str) -> str:
        thread = int(path.split("/")[4])
        return " ".join(str(pid) for pid, (by, _) in self.children.items() if by == thread)

    def stat_fields(self, pid: int) -> list[str]:
        ticks = str(round(self.reaped / TICK_SECONDS))
        return ["S", "1", *["0"] * 11, ticks, "0", *["0"] * 10] if pid == PROCESS else []


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    kernel = Kernel()
    monkeypatch.setattr(child_table, "read_text", kernel.read_text)
    monkeypatch.setattr(child_table, "stat_fields", kernel.stat_fields)
    monkeypatch.setattr(child_table, "start_ticks", lambda pid: pid)
    monkeypatch.setattr("os.listdir", lambda _: [str(PROCESS), str(ONE), str(TWO)])
    return kernel


def table_of(kernel: Kernel) -> ChildTable:
    return ChildTable(PROCESS, lambda pid: (kernel.children[pid][1], 0.0))


def test_a_child_belongs_to_the_block_of_the_thread_that_started_it(kernel: Kernel) -> None:
    table = table_of(kernel)
    kernel.start(1, ONE, 1.0)
    kernel.start(2, TWO, 2.0)
    table.look(OWNERS, ["a", "b"])
    assert (table.used("a"), table.used("b")) == ((1.0, 0.0), (2.0, 0.0))


def test_what_a_child_used_after_it_was_last_read_counts_too(kernel: Kernel) -> None:
    table = table_of(kernel)
    kernel.start(1, ONE, 1.0)
    table.look(OWNERS, ["a", "b"])
    kernel.reap(1, 1.3)
    table.look(OWNERS, ["a", "b"])
    assert sum(table.used("a")) == pytest.approx(1.3)
    assert table.used("b") == (0.0, 0.0)
    assert table.unassigned_seconds == 0.0


def test_children_that_exit_together_have_what_they_used_before_and_half_of_the_rest(kernel: Kernel) -> None:
    table = table_of(kernel)
    kernel.start(1, ONE, 1.0)
    kernel.start(2, TWO, 2.0)
    table.look(OWNERS, ["a", "b"])
    kernel.reap(1, 1.02)
    kernel.reap(2, 2.02)
    table.look(OWNERS, ["a", "b"])
    assert sum(table.used("a")) == pytest.approx(1.02)
    assert sum(table.used("b")) == pytest.approx(2.02)


def test_a_child_that_was_never_seen_is_of_the_only_block_or_of_none(kernel: Kernel) -> None:
    table = table_of(kernel)
    kernel.reaped += 1.0
    table.look({}, ["a"])
    assert sum(table.used("a")) == pytest.approx(1.0)
    kernel.reaped += 1.0
    table.look(OWNERS, ["a", "b"])
    assert table.unassigned_seconds == pytest.approx(1.0)
    assert sum(table.used("a")) == pytest.approx(1.0)


def test_a_child_that_was_there_before_belongs_to_no_block(kernel: Kernel) -> None:
    table = table_of(kernel)
    kernel.start(1, ONE, 1.0)
    table.begin((0.0, 0.0), [1])
    table.look(OWNERS, ["a", "b"])
    kernel.reap(1, 3.0)
    table.look(OWNERS, ["a", "b"])
    assert (table.used("a"), table.used("b")) == ((0.0, 0.0), (0.0, 0.0))
    assert table.unassigned_seconds == 0.0
