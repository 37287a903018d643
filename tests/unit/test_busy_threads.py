"""The busiest threads of a job: of few processes, within a budget, kept with its snapshots and read from old ones."""

import shutil
from pathlib import Path

import pytest

from jobtop.core.measure.collectors import busy_threads
from jobtop.core.measure.collectors.busy_threads import KEPT, MOST_PROCESSES, MOST_THREADS, BusyThreads, ThreadBudget
from jobtop.core.measure.collectors.members import Member, Tree
from jobtop.core.measure.collectors.threads import Task
from jobtop.core.measure.snapshot import ProcessRow, Snapshot, ThreadLine
from jobtop.core.model import Job
from jobtop.store.database import Database
from jobtop.store.jobs import Jobs
from jobtop.store.samples.packed import pack, unpack
from jobtop.store.samples.snapshots import Snapshots, unpacked_members
from records import HOSTILE_TEXTS, running_job


class Threads:
    """A directory like /proc with processes and their threads, read by the reader of one job."""

    def __init__(self, root: Path) -> None:
        self.root, self.tree = root, Tree(1)
        self.members: dict[int, Member] = {}
        self.reader, self.budget = BusyThreads(), ThreadBudget()

    def put(self, pid: int, **cpu_seconds: float) -> Member:
        """A process with threads of these names and CPU times."""
        for number, (name, seconds) in enumerate(cpu_seconds.items()):
            directory = self.root / f"{pid}/task/{pid + number}"
            directory.mkdir(parents=True, exist_ok=True)
            directory.joinpath("stat").write_text(f"{pid + number} ({name}) R 1 {'0 ' * 17}77 0 0\n")
            directory.joinpath("schedstat").write_text(f"{round(seconds * 1e9)} 0 0\n")
        member = self.members.setdefault(pid, Member(pid, 1, self.tree))
        member.threads = len(cpu_seconds)
        return member

    def read(self, now: float, **used: float) -> None:
        chosen = {(int(pid[1:]), 1): seconds for pid, seconds in used.items()}
        self.reader.read(str(self.root), self.members.values(), chosen, now, self.budget)


@pytest.fixture
def threads(tmp_path: Path) -> Threads:
    return Threads(tmp_path)


def test_the_busiest_come_first_with_their_percent_since_the_last_reading(threads: Threads) -> None:
    member = threads.put(10, main=1.0, worker=5.0, idle=2.0)
    threads.read(100.0, p10=1.0)
    assert [(line.name, line.cpu_percent) for line in threads.reader.of(member)] == [
        ("worker", None),
        ("idle", None),
        ("main", None),
    ]
    threads.put(10, main=3.0, worker=5.5, idle=2.0, new=0.25)
    threads.read(102.0, p10=1.0)
    lines = threads.reader.of(member)
    assert [(line.tid, line.name, line.cpu_percent) for line in lines] == [
        (10, "main", 100.0),
        (11, "worker", 25.0),
        (13, "new", 12.5),
        (12, "idle", 0.0),
    ]
    assert lines[0].state == "R"


def test_few_threads_of_few_processes_are_kept(threads: Threads) -> None:
    names = {f"t{number}": float(number) for number in range(20)}
    members = [threads.put(pid, **names) for pid in range(100, 1000, 100)]
    threads.read(1.0, **{f"p{member.pid}": float(member.pid) for member in members})
    read = [member.pid for member in members if threads.reader.of(member)]
    assert read == [500, 600, 700, 800, 900][-MOST_PROCESSES:]
    assert len(threads.reader.of(members[-1])) == KEPT


def test_single_threads_idle_processes_and_crowds_are_not_read(
    threads: Threads, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def note(pid: int, _: str) -> list[Task]:
        asked.append(pid)
        return []

    monkeypatch.setattr(busy_threads, "read_threads", note)
    threads.put(10, alone=1.0)
    threads.put(20, idle=1.0, too=1.0)
    threads.put(30, a=1.0, b=1.0).threads = MOST_THREADS + 1
    threads.put(40, a=1.0, b=1.0)
    threads.read(1.0, p10=5.0, p20=0.0, p30=5.0, p40=1.0)
    assert asked == [40]


def test_a_used_up_budget_ends_the_reading_and_is_saved_up(threads: Threads) -> None:
    spent = iter(range(100))
    threads.budget = ThreadBudget(lambda: next(spent) * 0.015)
    members = [threads.put(pid, a=1.0, b=1.0) for pid in (10, 20, 30)]
    threads.read(1.0, p10=3.0, p20=2.0, p30=1.0)
    assert [bool(threads.reader.of(member)) for member in members] == [True, True, False]
    threads.budget.earn(0.005)
    threads.read(2.0, p30=1.0)
    assert not threads.reader.of(members[2])
    threads.budget.earn(1.0)
    threads.read(3.0, p30=1.0)
    assert threads.reader.of(members[2])


def test_a_process_that_is_gone_has_no_threads(threads: Threads) -> None:
    member = threads.put(10, a=1.0, b=1.0)
    shutil.rmtree(threads.root / "10")
    threads.read(1.0, p10=1.0)
    assert threads.reader.of(member) == ()
    del threads.members[10]
    threads.read(2.0)
    assert threads.reader.of(member) == ()


@pytest.fixture
def job(database: Database) -> Job:
    return Jobs(database).insert(running_job())


def row(*busiest: ThreadLine) -> ProcessRow:
    return ProcessRow(7, 1, "train", 1.5, 50.0, 4096, 3, 2.0, "R", busiest)


@pytest.mark.parametrize("name", HOSTILE_TEXTS.values(), ids=HOSTILE_TEXTS)
def test_threads_come_back_with_their_snapshot(database: Database, job: Job, name: str) -> None:
    kept = row(ThreadLine(8, name, "R", 1.25, 99.5), ThreadLine(9, "idle", "S", 0.0, None)), row()
    assert job.seq is not None
    Snapshots(database).keep(job.seq, 1.0, kept)
    assert Snapshots(database).latest(job) == Snapshot(1.0, kept)


def test_a_snapshot_of_an_older_version_has_no_threads(database: Database, job: Job) -> None:
    assert job.seq is not None
    Snapshots(database).keep(job.seq, 1.0, [row()])
    with database.reading() as connection:
        ((data,),) = connection.execute("SELECT members FROM snapshots").fetchall()
    assert "busiest" not in unpack(data)["columns"]
    assert unpacked_members(data) == (row(),)


@pytest.mark.parametrize("torn", [7, [7], [[8, "x"]], [[8, 9, "R", 1.0, 1.0]], [["a", "x", "R", 1.0, 1.0]], None])
def test_damaged_threads_are_a_damaged_snapshot(torn: object) -> None:
    columns = ["pid", "parent", "command", "cpu_seconds", "cpu_percent", "memory_bytes", "threads", "age_seconds"]
    values = [7, 1, "train", 1.5, 50.0, 4096, 3, 2.0, "R", torn]
    assert unpacked_members(pack({"columns": [*columns, "state", "busiest"], "rows": [values]})) is None
