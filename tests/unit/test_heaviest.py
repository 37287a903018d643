"""Who in a job is doing it: the thirty that matter, in the order of their tree, without their secrets."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from jobtop.core.measure.collectors.heaviest import KEPT, LONGEST_COMMAND, READ_AT_ONCE, Heaviest, command_of
from jobtop.core.measure.collectors.members import Tree
from jobtop.core.measure.collectors.processes import ProcessTable
from jobtop.core.measure.snapshot import ProcessRow
from processes import MIB, FakeProc

SHIM = 50


class Job:
    """A fake job and its looks."""

    def __init__(self, fake: FakeProc) -> None:
        self.fake = fake
        self.table: ProcessTable = fake.table()
        self.tree: Tree = self.table.add(SHIM)
        self.heaviest = Heaviest()

    def sweep(self) -> None:
        self.table.sweep()
        self.heaviest.learn(str(self.fake.root), self.tree)

    def rows(self) -> list[ProcessRow] | None:
        return self.heaviest.rows(str(self.fake.root), self.tree)

    def look(self) -> list[ProcessRow]:
        self.sweep()
        rows = self.rows()
        assert rows is not None
        return rows

    def command(self, pid: int, *words: str) -> None:
        (self.fake.root / str(pid) / "cmdline").write_bytes(b"".join(word.encode() + b"\0" for word in words))


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    fake = FakeProc(tmp_path / "proc")
    fake.put(1, 0)
    fake.put(SHIM, 1)
    made = Job(fake)
    yield made
    made.table.close()


def test_of_a_hundred_the_heaviest_thirty_are_kept(job: Job) -> None:
    """Half of them compute, half hold memory; the rest does neither."""
    computing, holding = range(100, 115), range(200, 215)
    for pid in range(100, 200):
        job.fake.put(pid, SHIM, cpu=1.0 if pid in computing else 0.001)
    for pid in holding:
        job.fake.put(pid, SHIM, rss=500 * MIB)
    assert {row.pid for row in job.look()} == {*computing, *holding}
    assert len(job.tree.members) == 115
    assert KEPT == 30


def test_what_counts_is_the_time_used_since_the_last_look(job: Job) -> None:
    for pid in range(100, 140):
        job.fake.put(pid, SHIM, cpu=100.0 if pid < 110 else 0.0)
    job.look()
    for pid in range(110, 140):
        job.fake.put(pid, SHIM, cpu=1.0)
    assert {row.pid for row in job.look()} == set(range(110, 140))


def test_parents_come_before_their_children(job: Job) -> None:
    job.fake.put(9, 60)  # pids wrap
    job.fake.put(60, 51)
    job.fake.put(51, SHIM)
    assert [(row.pid, row.parent) for row in job.look()] == [(51, SHIM), (60, 51), (9, 60)]


def test_a_row_says_what_a_process_is_and_has(job: Job) -> None:
    job.fake.put(51, SHIM, cpu=1.5, rss=3 * MIB, state="R")
    job.command(51, "python", "train.py")
    (row,) = job.look()
    assert (row.command, row.cpu_seconds, row.memory_bytes, row.threads) == ("python train.py", 1.5, 3 * MIB, 1)
    assert row.state == "R"


def test_what_processes_share_is_split_between_them(job: Job) -> None:
    job.fake.put(51, SHIM, rss=300 * MIB, pss=150 * MIB)
    job.fake.put(52, 51, rss=300 * MIB, pss=150 * MIB)
    job.table.sweep()
    job.table.read_details(1.0)
    assert [row.memory_bytes for row in job.look()] == [150 * MIB, 150 * MIB]


def test_the_share_of_a_core_is_that_since_the_last_look(job: Job) -> None:
    job.fake.put(51, SHIM, cpu=100.0)
    job.look()
    moment = job.tree.read_at
    job.fake.put(51, SHIM, cpu=101.0)
    job.sweep()
    job.tree.read_at = moment + 2.0
    rows = job.rows()
    assert rows is not None
    assert rows[0].cpu_percent == pytest.approx(50)


def test_nothing_is_told_twice(job: Job) -> None:
    job.fake.put(51, SHIM, cpu=1.0)
    job.look()
    job.sweep()
    assert job.rows() is None
    job.fake.put(51, SHIM, cpu=1.1)
    assert len(job.look()) == 1


def test_secrets_of_a_command_line_are_not_kept(job: Job) -> None:
    job.fake.put(51, SHIM)
    job.command(51, "curl", "--password", "hunter2", "--header", "Authorization: Bearer abcdef0123456789")
    (row,) = job.look()
    assert row.command.startswith("curl --password")
    assert "hunter2" not in row.command
    assert "abcdef0123456789" not in row.command


def test_a_long_command_line_is_cut(job: Job) -> None:
    job.fake.put(51, SHIM)
    job.command(51, "echo", "x" * 10_000)
    assert len(job.look()[0].command) == LONGEST_COMMAND


def test_a_process_without_a_command_line_is_its_name_in_brackets(job: Job) -> None:
    job.fake.put(51, SHIM)
    job.command(51)
    (job.fake.root / "51" / "comm").write_bytes(b") R 1 (\xff\n")
    assert job.look()[0].command == "[) R 1 (\udcff]"


def test_who_has_vanished_is_known_by_what_was_learnt_of_it(job: Job) -> None:
    job.fake.put(51, SHIM, cpu=1.0)
    job.command(51, "train")
    job.sweep()
    for file in (job.fake.root / "51").iterdir():
        if file.name != "fd":
            file.unlink()  # the process is gone, the sampler does not know it yet
    rows = job.rows()
    assert rows is not None
    assert [(row.pid, row.command, row.cpu_seconds) for row in rows] == [(51, "train", 1.0)]
    job.fake.end(51)
    assert job.look() == []


def test_the_last_look_is_at_members_that_a_sweep_has_found_gone(job: Job) -> None:
    job.fake.put(51, SHIM, cpu=1.0)
    job.command(51, "train")
    job.look()
    moment = job.tree.read_at
    job.fake.put(51, SHIM, cpu=1.5)
    job.sweep()
    job.fake.end(51)
    job.sweep()
    assert not job.tree.members
    rows = job.heaviest.rows(str(job.fake.root), job.tree, last_read_at=moment + 2.0)
    assert rows is not None
    assert [(row.pid, row.command, row.cpu_seconds) for row in rows] == [(51, "train", 1.5)]
    assert rows[0].cpu_percent == pytest.approx(25)


def test_after_an_exec_a_process_is_what_it_has_become(job: Job) -> None:
    job.fake.put(51, SHIM, name="sh")
    job.command(51, "sh", "-c", "exec solver")
    assert job.look()[0].command == "sh -c exec solver"
    job.command(51, "solver")
    job.fake.put(51, SHIM, name="solver", cpu=0.1)
    assert job.look()[0].command == "solver"


def test_a_reused_pid_is_another_process(job: Job) -> None:
    job.fake.put(51, SHIM, cpu=1.0)
    job.command(51, "first")
    job.look()
    job.fake.end(51)
    job.sweep()
    job.fake.put(51, SHIM, start=900, cpu=0.2)
    job.command(51, "second")
    (row,) = job.look()
    assert (row.command, row.cpu_seconds) == ("second", 0.2)


def test_of_a_process_that_is_gone_nothing_is_said(tmp_path: Path) -> None:
    assert command_of(str(tmp_path), 51) == ""


def test_of_processes_that_come_and_go_the_command_is_read_if_they_stay(job: Job) -> None:
    job.fake.put(51, SHIM, cpu=1.0)
    job.command(51, "make")
    for pid in range(100, 100 + READ_AT_ONCE):
        job.fake.put(pid, 51)
    job.sweep()
    job.table.read_details(1.0)
    job.fake.put(200, 51, name="cc")
    job.fake.put(201, 51, name="ld")
    for pid in (200, 201):
        job.command(pid, "gcc", f"{pid}.c")
    for stays in (False, True):
        for pid in job.tree.members.keys() & job.fake.clocks.keys():
            job.fake.clocks[pid] += 1
        job.table.sweep()
        job.table.read_details(1.0)
        job.heaviest.learn(str(job.fake.root), job.tree)
        if not stays:
            job.fake.end(201)
    job.fake.end(200)
    rows = job.heaviest.rows(str(job.fake.root), job.tree, last_read_at=job.tree.read_at)
    assert rows is not None
    assert {row.command for row in rows if row.pid >= 200} == {"gcc 200.c"}
    assert job.tree.members.keys() >= {51, 200}


def test_a_process_that_exited_before_its_command_was_read_has_its_name(job: Job) -> None:
    job.fake.put(51, SHIM, cpu=1.0, name="cc")
    job.table.sweep()
    job.fake.end(51)
    rows = job.heaviest.rows(str(job.fake.root), job.tree, last_read_at=job.tree.read_at)
    assert rows is not None
    assert [row.command for row in rows] == ["[cc]"]
