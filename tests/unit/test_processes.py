"""Which processes belong to a job, and which did: one sweep over a /proc of plain files and over real processes."""

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from jobtop.core.measure.collectors.members import Tree
from jobtop.core.measure.collectors.pids import LONGEST_UNLISTED
from jobtop.core.measure.collectors.processes import LONGEST_UNREAD, ProcessTable
from jobtop.core.procfs import pid_clock
from processes import MIB, FakeProc, fold
from support import wait_for

SHIM, OTHER = 50, 7


@pytest.fixture
def fake(tmp_path: Path) -> FakeProc:
    proc = FakeProc(tmp_path / "proc")
    proc.put(1, 0)
    proc.put(OTHER, 1)
    proc.put(SHIM, 1)
    return proc


def seconds(values: dict[str, int | float]) -> float:
    return values["cpu.user"] + values["cpu.system"]


def test_members_are_found_below_parents_that_are_new_themselves(fake: FakeProc) -> None:
    table = fake.table()
    tree = table.add(SHIM)
    fake.put(9, 60)  # pids wrap: a child may come before its parent
    fake.put(60, 51)
    fake.put(51, SHIM)
    table.sweep()
    assert list(tree.members) == [51, 60, 9]


def test_an_orphan_that_comes_to_the_shim_stays_a_member(fake: FakeProc) -> None:
    table = fake.table()
    tree = table.add(SHIM)
    fake.put(51, SHIM)
    fake.put(52, 51, cpu=1)
    table.sweep()
    fake.end(51)
    fake.put(52, SHIM, cpu=2)
    table.sweep()
    assert list(tree.members) == [52]
    assert tree.members[52].cpu_ns == 2_000_000_000


def test_other_processes_and_their_children_never_become_members(fake: FakeProc) -> None:
    table = fake.table()
    tree = table.add(SHIM)
    fake.put(8, OTHER)
    fake.put(51, SHIM)
    for _ in range(20):
        table.sweep()
    assert list(tree.members) == [51]
    assert {1, OTHER, 8} <= table.other_processes


def test_a_process_whose_parent_was_not_listed_yet_is_decided_later(fake: FakeProc) -> None:
    table = fake.table()
    tree = table.add(SHIM)
    fake.put(52, 51)
    table.sweep()
    assert not tree.members
    fake.put(51, SHIM)
    table.sweep()
    assert list(tree.members) == [51, 52]


def test_the_pid_of_another_process_may_become_a_members(fake: FakeProc) -> None:
    table = fake.table()
    tree = table.add(SHIM)
    table.sweep()
    fake.put(OTHER, SHIM, start=900)
    table.sweep()
    assert list(tree.members) == [OTHER]


@pytest.mark.parametrize("cpu", [0.5, 9.0], ids=["its clock fell", "its clock is ahead"])
def test_a_reused_pid_starts_a_new_member(fake: FakeProc, cpu: float) -> None:
    table = fake.table(most_descriptors=0)
    tree = table.add(SHIM)
    fake.put(51, SHIM, cpu=3.0)
    table.sweep()
    before = tree.members[51]
    fake.put(51, SHIM, start=700, cpu=cpu)
    fake.put(SHIM, 1, children=(3.0, 0.0))
    table.sweep()
    assert tree.members[51] is not before
    assert tree.members[51].start == 700
    assert seconds(fold(tree)) == pytest.approx(3.0 + cpu)


def test_a_pid_reused_by_another_process_is_no_member(fake: FakeProc) -> None:
    table = fake.table(most_descriptors=0)
    tree = table.add(SHIM)
    fake.put(51, SHIM, cpu=3.0)
    table.sweep()
    fake.put(51, 1, start=700, cpu=9.0)
    fake.put(SHIM, 1, children=(3.0, 0.0))
    table.sweep()
    assert not tree.members
    assert seconds(fold(tree)) == pytest.approx(3.0)


def test_a_member_that_vanishes_mid_read_is_counted_once(fake: FakeProc, monkeypatch: pytest.MonkeyPatch) -> None:
    table = fake.table()
    tree = table.add(SHIM)
    fake.put(51, SHIM, cpu=1.0)
    fake.put(52, 51, cpu=3600.0)
    table.sweep()
    clock = fake.clock

    def reaped_after_its_parent_was_read(number: int) -> int:
        if number == pid_clock(52) and 52 in fake.clocks:
            del fake.clocks[52]
            fake.put(51, SHIM, cpu=1.1, children=(3600.0, 0.0))
        return clock(number)

    monkeypatch.setattr(table, "clock", reaped_after_its_parent_was_read)
    table.sweep()
    assert list(tree.members) == [51]
    assert seconds(fold(tree)) == pytest.approx(3601.1)


def test_a_zombie_keeps_its_time_until_it_is_waited_for(fake: FakeProc) -> None:
    table = fake.table()
    tree = table.add(SHIM)
    fake.put(51, SHIM, cpu=1.0, state="Z", rss=0)
    table.sweep()
    assert seconds(fold(tree)) == pytest.approx(1.0)
    assert fold(tree)["proc.count"] == 0
    fake.end(51)
    fake.put(SHIM, 1, children=(1.0, 0.0))
    table.sweep()
    assert seconds(fold(tree)) == pytest.approx(1.0)


def test_a_child_that_was_not_waited_for_is_kept_from_its_last_sample(fake: FakeProc) -> None:
    table = fake.table()
    tree = table.add(SHIM)
    fake.put(51, SHIM, cpu=1.0)
    fake.put(52, 51, cpu=5.0)
    table.sweep()
    fake.end(52)
    table.sweep()
    assert seconds(fold(tree)) == pytest.approx(6.0)


def test_a_hostile_name_is_no_field(fake: FakeProc) -> None:
    table = fake.table()
    tree = table.add(SHIM)
    fake.put(51, SHIM, name=") R 1 (", cpu=1.0, rss=3 * MIB)
    table.sweep()
    assert (tree.members[51].parent, tree.members[51].rss) == (SHIM, 3 * MIB)


def test_who_has_not_run_is_not_read(fake: FakeProc) -> None:
    table = fake.table()
    tree = table.add(SHIM)
    fake.put(51, SHIM, cpu=1.0)
    table.sweep()
    fake.put(51, SHIM, cpu=1.0, rss=9 * MIB)
    table.sweep()
    assert tree.members[51].rss == MIB
    fake.put(51, SHIM, cpu=1.1, rss=9 * MIB)
    table.sweep()
    assert tree.members[51].rss == 9 * MIB


def at_rest(fake: FakeProc) -> tuple[ProcessTable, Tree]:
    """A job of one process that does not run any more."""
    table = fake.table()
    tree = table.add(SHIM)
    fake.put(51, SHIM, cpu=1.0)
    for _ in range(2):
        table.sweep()
    return table, tree


def test_the_shim_of_an_idle_job_is_left_alone_until_a_process_runs(fake: FakeProc) -> None:
    """It wakes by itself every second; whoever ends has run before, or is gone."""
    table, tree = at_rest(fake)
    asked: list[int] = []

    def clock(number: int) -> int:
        asked.append(number)
        return fake.clock(number)

    table.clock = clock
    fake.put(SHIM, 1, cpu=0.1)
    table.sweep()
    assert asked == [pid_clock(51)]
    fake.end(51)
    fake.put(SHIM, 1, cpu=0.2, children=(1.5, 0.0))
    table.sweep()
    assert pid_clock(SHIM) in asked
    assert seconds(fold(tree)) == pytest.approx(1.5)


def test_what_was_not_seen_is_reported_by_the_shim_of_an_idle_job_too(fake: FakeProc) -> None:
    """As a child that is hidden from us (hidepid) and that no other process waits for."""
    table, tree = at_rest(fake)
    version = tree.version
    fake.put(SHIM, 1, cpu=0.1, children=(2.0, 0.0))
    for _ in range(LONGEST_UNREAD):
        table.sweep()
    assert seconds(fold(tree)) == pytest.approx(3.0)
    assert tree.version > version


def test_who_comes_and_goes_between_two_sweeps_is_counted_though_the_others_rest_by_then(fake: FakeProc) -> None:
    """Its parent runs to make it, and may rest before it ends: one sweep later the shim is still looked at."""
    table = fake.table()
    tree = table.add(SHIM)
    fake.put(51, SHIM, cpu=1.0)
    for _ in range(2):
        table.sweep()
    fake.put(51, SHIM, cpu=1.1)
    table.sweep()
    fake.put(SHIM, 1, cpu=0.1, children=(2.0, 0.0))
    table.sweep()
    assert seconds(fold(tree)) == pytest.approx(3.1)


def open_descriptors(fake: FakeProc) -> int:
    """How many files of the tree are open; what earlier tests left to the garbage collector does not count."""
    found = 0
    for fd in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            found += os.readlink(f"/proc/self/fd/{fd}").startswith(str(fake.root))
    return found


def test_descriptors_are_closed_when_members_or_jobs_go(fake: FakeProc) -> None:
    table = fake.table()
    tree = table.add(SHIM)
    for pid in range(100, 120):
        fake.put(pid, SHIM)
    table.sweep()
    assert open_descriptors(fake) == 41  # two each, and the shim's
    for pid in range(100, 110):
        fake.end(pid)
    table.sweep()
    assert open_descriptors(fake) == 21
    table.remove(tree)
    assert open_descriptors(fake) == 0
    assert (table.kept_descriptors, table.owner, table.trees) == (0, {}, {})


def test_no_more_descriptors_are_kept_than_allowed(fake: FakeProc) -> None:
    table = fake.table(most_descriptors=3)
    tree = table.add(SHIM)
    for pid in range(100, 120):
        fake.put(pid, SHIM, rss=MIB)
    table.sweep()
    assert open_descriptors(fake) == 3
    assert fold(tree)["mem.rss"] == 20 * MIB
    table.remove(tree)


def test_without_a_free_descriptor_members_stay_and_their_clocks_count(
    fake: FakeProc, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = fake.table(most_descriptors=0)
    tree = table.add(SHIM)
    fake.put(51, SHIM, cpu=1.0, rss=2 * MIB)
    table.sweep()
    fake.clocks[51] = 2_000_000_000

    def refuse(*_: object) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(os, "open", refuse)
    monkeypatch.setattr(os, "listdir", refuse)
    table.sweep()
    assert fold(tree)["mem.rss"] == 2 * MIB
    assert seconds(fold(tree)) == pytest.approx(2.0)


def test_what_comes_after_a_dead_shim_with_its_pid_is_no_job(fake: FakeProc) -> None:
    table = fake.table(most_descriptors=0)
    tree = table.add(SHIM)
    table.sweep()
    fake.put(SHIM, 1, start=900, cpu=0.5)
    table.sweep()
    fake.put(51, SHIM)
    table.sweep()
    assert tree.root_is_gone
    assert not tree.members


@pytest.fixture
def family() -> Iterator[subprocess.Popen[bytes]]:
    """A real process with a child and a grandchild that wait for the end of its input.

    They share more memory than the kernel rounds: it counts resident pages for each CPU, in batches.
    """
    code = "import os; held = bytearray(b'x') * (32 << 20); os.fork(); os.fork(); os.read(0, 1)"
    with subprocess.Popen([sys.executable, "-I", "-S", "-c", code], stdin=subprocess.PIPE) as process:
        yield process
        assert process.stdin
        process.stdin.close()


def test_real_processes_are_found_measured_and_forgotten(family: subprocess.Popen[bytes]) -> None:
    table = ProcessTable()
    tree = table.add(os.getpid())

    def all_there() -> bool:
        """Also children of other tests may be below this process, which have exited and were not reaped."""
        table.sweep()
        return sum(member.is_alive for member in tree.members.values()) >= 4

    wait_for(all_there)
    table.read_details(1.0)
    values = fold(tree)
    assert values["mem.rss"] > values["mem.pss"] > MIB
    assert values["proc.fds"] >= 12
    assert seconds(values) > 0
    assert family.stdin
    family.stdin.close()
    family.wait()

    def none_there() -> bool:
        table.sweep()
        return family.pid not in tree.members

    wait_for(none_there)
    table.remove(tree)
    assert table.kept_descriptors == 0


def put_last_pid(fake: FakeProc, last: int) -> None:
    """As the kernel shows which pid it gave out last."""
    (fake.root / "sys/kernel").mkdir(parents=True, exist_ok=True)
    (fake.root / "sys/kernel/ns_last_pid").write_text(f"{last}\n")


@pytest.fixture
def listings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The directories that were listed."""
    listed: list[str] = []
    listdir = os.listdir

    def note(path: str) -> list[str]:
        listed.append(str(path))
        return listdir(path)

    monkeypatch.setattr(os, "listdir", note)
    return listed


def test_new_processes_are_found_by_their_pids_without_a_listing(fake: FakeProc, listings: list[str]) -> None:
    table = fake.table()
    tree = table.add(SHIM)
    put_last_pid(fake, SHIM)
    table.sweep()
    listings.clear()
    fake.put(53, SHIM)
    fake.put(54, OTHER)
    put_last_pid(fake, 60)  # the others were threads, or have exited
    table.sweep()
    assert list(tree.members) == [53]
    assert 54 in table.other_processes
    fake.end(53)
    table.sweep()
    assert list(tree.members) == []
    assert str(fake.root) not in listings


def test_a_process_that_was_being_made_during_a_sweep_is_found_by_the_next(fake: FakeProc) -> None:
    table = fake.table()
    tree = table.add(SHIM)
    put_last_pid(fake, SHIM)
    table.sweep()
    put_last_pid(fake, 51)
    table.sweep()
    fake.put(51, SHIM)
    table.sweep()
    assert list(tree.members) == [51]


def test_a_pid_of_another_process_that_was_given_out_again_is_looked_at(fake: FakeProc) -> None:
    table = fake.table()
    tree = table.add(SHIM)
    fake.put(70, OTHER)
    put_last_pid(fake, 69)
    table.sweep()
    assert 70 in table.other_processes
    fake.put(70, SHIM, start=900)
    put_last_pid(fake, 70)
    table.sweep()
    assert list(tree.members) == [70]


def test_when_pids_begin_again_all_other_processes_are_looked_at(fake: FakeProc) -> None:
    table = fake.table()
    tree = table.add(SHIM)
    for pid in range(100, 120):
        fake.put(pid, OTHER)
    put_last_pid(fake, 4_000_000)
    table.sweep()
    for pid in range(100, 120):
        fake.put(pid, SHIM, start=900)
    put_last_pid(fake, 119)
    table.sweep()
    assert sorted(tree.members) == list(range(100, 120))


def test_many_new_pids_are_listed_and_so_is_everything_now_and_then(fake: FakeProc, listings: list[str]) -> None:
    table = fake.table()
    tree = table.add(SHIM)
    put_last_pid(fake, SHIM)
    table.sweep()
    listings.clear()
    fake.put(9000, SHIM)
    put_last_pid(fake, 9000)
    table.sweep()
    assert list(tree.members) == [9000]
    assert listings.count(str(fake.root)) == 1
    for _ in range(LONGEST_UNLISTED):
        table.sweep()
    assert listings.count(str(fake.root)) == 2
