"""The source of the files in a record: which processes it reads, how often, and what it keeps."""

import errno
import os
import threading
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path

import pytest

from jobtop.core.measure.collectors.activity import FEW
from jobtop.core.measure.collectors.files import source as file_source
from jobtop.core.measure.collectors.files.source import FEW_IN_ALL, KEPT, LITTLE_BYTES, MOST_DESCRIPTORS, FileSource
from jobtop.core.measure.collectors.members import Member, Tree
from jobtop.core.measure.collectors.process_source import JobProcesses, ProcessSource
from jobtop.core.measure.collectors.processes import ProcessTable
from jobtop.core.measure.source import Readings, Remarks
from jobtop.core.measure.source_runs import DeferredSource, SlowRun
from jobtop.core.measure.target import Target
from jobtop.core.metrics import JOB_COLUMNS
from jobtop.core.model import Identity
from open_files import FileProc, sized
from processes import FakeProc, below
from support import wait_for

Jobs = Mapping[str, Target]
MIB = 1 << 20
KEY = "79df0000"


class Stage:
    """One job with processes that have files open, and a clock that the test moves."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.proc = directory, FileProc(directory)
        self.now = 100.0
        self.cpu_ns = 0
        self.spent: Callable[[], float] = lambda: 0.0
        self.processes = ProcessSource(ProcessTable(self.proc.path, lambda _: self.cpu_ns))
        self.tree = Tree(1)
        self.processes.jobs[KEY] = JobProcesses(self.tree)
        self.source = FileSource(self.processes, self.proc.path, clock=lambda: self.now, cpu_clock=self.cpu_clock)
        self.jobs: Jobs = {KEY: Target(Identity("boot", 1, 1), 100.0)}

    def process(self, pid: int, read: int = 0, written: int = 0) -> Member:
        self.proc.process(pid, read, written)
        member = self.tree.members[pid] = Member(pid, 1, self.tree, 1)
        member.read_chars, member.write_chars = read, written
        return member

    def ran(self, pid: int, read: int, written: int = 0) -> None:
        self.proc.counters(pid, read, written)
        member = self.tree.members[pid]
        member.read_chars, member.write_chars = read, written
        self.tree.version += 1
        self.cpu_ns += 1

    def cpu_clock(self) -> float:
        return self.spent()

    def spend(self, seconds: float) -> None:
        """From now on each look at the CPU clock costs so much."""
        numbers = count()
        self.spent = lambda: next(numbers) * seconds

    def file(self, name: str, size: int) -> Path:
        return sized(self.directory / name, size)

    def read_after(self, seconds: float) -> list[dict[str, object]]:
        self.now += seconds
        remarks = self.source.collect(self.jobs).remarks.get(KEY)
        found: list[dict[str, object]] = remarks.findings["files"] if remarks is not None else []
        return found


def noting(pids: list[int], problem: int | None = None) -> Callable[[int, str], tuple[list[int], int | None]]:
    """A listing of descriptors that notes which process was asked, and finds none."""

    def list_none(pid: int, _: str) -> tuple[list[int], int | None]:
        pids.append(pid)
        return [], problem

    return list_none


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def test_two_passes_over_one_file_and_another_that_is_written(stage: Stage) -> None:
    stage.process(10)
    stage.proc.open(10, 3, stage.file("big", 300 * MIB))
    stage.proc.open(10, 4, stage.file("out", 100 * MIB), 0, os.O_WRONLY)
    stage.read_after(0.25)
    for position, read in ((150, 150), (300, 300), (100, 400), (300, 600)):
        stage.proc.at(10, 3, position * MIB)
        stage.proc.at(10, 4, read // 6 * MIB, os.O_WRONLY)
        stage.ran(10, read * MIB, read // 6 * MIB)
        found = stage.read_after(0.3)
    read_file, written_file = found
    assert read_file["path"] == str(stage.directory / "big")
    assert (read_file["read_bytes"], read_file["passes"], read_file["size_bytes"]) == (600 * MIB, 2, 300 * MIB)
    assert (written_file["written_bytes"], written_file["read_bytes"]) == (100 * MIB, 0)


def test_an_idle_job_is_not_read(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.process(10, 50)
    stage.proc.open(10, 3, stage.file("data", 100), 50)
    stage.read_after(20)
    listed: list[int] = []
    monkeypatch.setattr(file_source, "list_descriptors", noting(listed))
    assert [file["read_bytes"] for file in stage.read_after(20)] == [50]
    assert listed == []
    stage.ran(10, 60)
    stage.read_after(20)
    assert listed == [10]


def test_a_job_that_reads_little_is_read_less_often(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.process(10)
    read, written = JOB_COLUMNS.index("io.read_chars"), JOB_COLUMNS.index("io.write_chars")

    def chars(count: int) -> None:
        row: list[float | None] = [None] * len(JOB_COLUMNS)
        row[read], row[written] = count, 0
        stage.processes.jobs[KEY].row = tuple(row)
        stage.ran(10, count)

    chars(1000)
    stage.read_after(20)
    listed: list[int] = []
    monkeypatch.setattr(file_source, "list_descriptors", noting(listed))
    for second in range(1, 10):
        chars(1000 + second)
        stage.read_after(1)
    assert listed == []
    stage.read_after(1)
    assert listed == [10], "after ten seconds it is read anyway"
    chars(2000 + LITTLE_BYTES)
    stage.read_after(1)
    assert listed == [10, 10]


def test_of_many_jobs_only_those_are_read_that_the_sampler_has_seen_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = FakeProc(tmp_path / "proc")
    fake.put(1, 0)
    jobs = {str(shim): below(shim) for shim in range(100, 100 + 2 * FEW, 2)}
    jobs |= {"last": below(1000)}
    for target in jobs.values():
        fake.put(target.root.pid, 1)
        fake.put(target.root.pid + 1, target.root.pid, cpu=1.0)
    processes, now = ProcessSource(fake.table()), 100.0
    processes.collect(jobs)
    source = FileSource(processes, str(fake.root), clock=lambda: now)
    listed: list[int] = []
    monkeypatch.setattr(file_source, "list_descriptors", noting(listed))
    source.collect(jobs)
    assert sorted(listed) == sorted(target.root.pid + 1 for target in jobs.values())
    listed.clear()
    asked: list[str] = []
    monkeypatch.setattr(source, "_read_job", lambda key, *_: asked.append(key))
    now += 20
    processes.collect(jobs)
    source.collect(jobs)
    fake.put(1001, 1000, cpu=2.0)
    processes.collect(jobs)
    now += 20
    source.collect(jobs)
    assert asked == ["last"]
    processes.close()


def test_a_young_job_is_read_more_often(stage: Stage) -> None:
    assert stage.source.interval_seconds == 0.25
    stage.process(10)
    stage.read_after(20)
    assert stage.source.interval_seconds == 1.0


def test_of_many_processes_only_those_that_read_or_wrote_are_read_the_heaviest_first(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    for pid in range(10, 60):
        stage.process(pid, 1)
    stage.read_after(70)
    listed: list[int] = []
    monkeypatch.setattr(file_source, "list_descriptors", noting(listed))
    for pid, read in ((20, 100), (30, 10_000), (40, 1000)):
        stage.ran(pid, read)
    stage.read_after(20)
    assert listed == [30, 40, 20]


def test_a_process_with_ten_thousand_descriptors_is_read_in_parts(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.process(10)
    opened: list[int] = []
    monkeypatch.setattr(file_source, "list_descriptors", lambda *_: (list(range(10_000)), None))
    monkeypatch.setattr(file_source, "read_path", lambda _, fd, __: opened.append(fd))
    for reading in range(1, 4):
        stage.ran(10, reading)
        stage.read_after(2)
        assert len(opened) == reading * MOST_DESCRIPTORS
    assert opened == list(range(3 * MOST_DESCRIPTORS))


def test_a_used_up_budget_ends_a_reading(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.spend(0.005)
    listed: list[int] = []
    monkeypatch.setattr(file_source, "list_descriptors", noting(listed))
    for pid in range(10, 20):
        stage.process(pid, 1000 - pid)
    stage.read_after(1)
    assert len(listed) == 2
    stage.read_after(1)
    assert len(listed) == 2  # what was overdrawn is saved up first
    stage.read_after(30)
    assert len(listed) > 2


def test_while_the_sampling_budget_is_used_up_less_is_read(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.spend(0.005)
    listed: list[int] = []
    monkeypatch.setattr(file_source, "list_descriptors", noting(listed))
    stage.processes.details_cores, stage.processes.budget_cores = 0.0, 0.01
    for pid in range(10, 10 + FEW_IN_ALL + 1):
        stage.process(pid, 1)
    for _ in range(5):
        stage.read_after(30)
    assert len(listed) == 2  # what was saved up before


def read_positions(stage: Stage, monkeypatch: pytest.MonkeyPatch, reading_seconds: float) -> int:
    """How much of a slow, steady read of ten seconds was seen, if each reading costs so much CPU time."""
    spent = 0.0

    def list_one(pid: int, _: str) -> tuple[list[int], int | None]:
        nonlocal spent
        spent += reading_seconds
        return [3] if pid == 10 else [], None

    stage.spent = lambda: spent
    monkeypatch.setattr(file_source, "list_descriptors", list_one)
    stage.proc.open(10, 3, stage.file("data", 60 * MIB))
    found: list[dict[str, object]] = []
    for step in range(1, 40):
        position = step * 60 * MIB // 40
        stage.proc.at(10, 3, position)
        stage.ran(10, position)
        # The thread of a source is never called at exactly the same distance.
        found = stage.read_after(0.249 if step % 2 else 0.251)
    return int(str(found[0]["read_bytes"]))


@pytest.mark.parametrize("details_cores", [0.003, 0.0003, None], ids=["calm", "budget used up", "first tick"])
def test_a_slow_steady_read_of_a_small_job_is_seen_to_its_end(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, details_cores: float | None
) -> None:
    stage.process(10)
    stage.processes.details_cores = details_cores
    stage.processes.budget_cores = None if details_cores is None else 0.01
    assert read_positions(stage, monkeypatch, 0.0007) >= 58 * MIB  # four readings a second cost 0.0028 of a core


def test_a_small_sampling_budget_holds_for_a_small_job_too(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.process(10)
    stage.processes.budget_cores = 0.0001
    listed: list[int] = []
    monkeypatch.setattr(file_source, "list_descriptors", noting(listed))
    stage.spend(0.005)
    for reading in range(1, 6):
        stage.ran(10, reading)
        stage.read_after(1)
    assert len(listed) == 1


def test_a_process_of_another_user_is_asked_once(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.process(10)
    asked: list[int] = []
    monkeypatch.setattr(file_source, "list_descriptors", noting(asked, errno.EACCES))
    for reading in range(1, 3):
        stage.ran(10, reading)
        assert stage.read_after(1) == []
    assert asked == [10]


def test_exited_processes_are_forgotten_and_their_files_kept(stage: Stage) -> None:
    stage.process(10, 50)
    stage.proc.open(10, 3, stage.file("data", 100), 50)
    stage.read_after(0.3)
    del stage.tree.members[10]
    stage.tree.version += 1
    assert [file["read_bytes"] for file in stage.read_after(0.3)] == [50]
    stage.source.forget(KEY)
    stage.jobs = {}
    assert stage.source.collect(stage.jobs).remarks == {}


def test_the_record_keeps_few_files_the_most_read_first(stage: Stage) -> None:
    stage.process(10, 100 * MIB)
    for number in range(KEPT + 10):
        stage.proc.open(10, 3 + number, stage.file(f"part{number}", MIB), (number + 1) * 1000)
    found = stage.read_after(0.3)
    assert len(found) == KEPT
    assert found[0]["read_bytes"] == (KEPT + 10) * 1000


def test_small_reads_beside_large_ones_are_left_out(stage: Stage) -> None:
    stage.process(10, 100 * MIB)
    stage.proc.open(10, 3, stage.file("big", 90 * MIB), 90 * MIB)
    stage.proc.open(10, 4, stage.file("small", 1000), 1000)
    assert [Path(str(file["path"])).name for file in stage.read_after(0.3)] == ["big"]


def test_a_large_file_whose_position_does_not_move_has_unknown_bytes(stage: Stage) -> None:
    stage.process(10, 100 * MIB)
    stage.proc.open(10, 3, stage.file("read by pread", 90 * MIB), 0)
    (found,) = stage.read_after(0.3)
    assert (found["read_bytes"], found["written_bytes"], found["passes"]) == (None, 0, None)
    assert found["size_bytes"] == 90 * MIB


def test_a_small_file_that_was_read_or_written_is_named_without_bytes(stage: Stage) -> None:
    stage.process(10, 300_000, 100_000)
    stage.proc.open(10, 3, stage.file("both", 100_000), 100_000, os.O_RDWR)
    (found,) = stage.read_after(0.3)
    assert (found["read_bytes"], found["written_bytes"], found["passes"]) == (None, None, None)
    assert found["size_bytes"] == 100_000


def test_a_large_mapped_file_is_named_once(stage: Stage) -> None:
    stage.process(10, 100)
    weights, both = stage.file("weights", 90 * MIB), stage.file("both", 90 * MIB)
    maps = "".join(f"7f00-7f10 r--s 0 08:01 {number} {path}\n" for number, path in enumerate((weights, both), 42))
    (stage.proc.root / "10/maps").write_text(f"{maps}7f00-7f10 r--s 0 08:01 44 {stage.file('small', 10)}\n")
    stage.proc.open(10, 3, both, 100)
    assert len(stage.read_after(0.3)) == 1, "maps are expensive: the first second is without"
    for _ in range(2):
        stage.ran(10, 200)
        opened, mapped = stage.read_after(20)
    assert (opened["path"], opened["is_mapped"], opened["read_bytes"]) == (str(both), False, 100)
    assert (mapped["path"], mapped["is_mapped"], mapped["read_bytes"]) == (str(weights), True, None)
    assert (opened["written_bytes"], mapped["written_bytes"]) == (0, None)
    assert mapped["size_bytes"] == 90 * MIB


def test_the_job_s_own_output_is_left_out(stage: Stage) -> None:
    stage.process(10, 0, 500)
    (stage.directory / KEY).mkdir()
    stage.proc.open(10, 1, stage.file(f"{KEY}/stdout.log", 500), 500, os.O_WRONLY)
    assert stage.read_after(0.3) == []


def test_a_token_in_a_path_is_hidden(stage: Stage) -> None:
    stage.process(10, 100)
    stage.proc.open(10, 3, stage.file("ghp_0123456789abcdef0123", 100), 100)
    (found,) = stage.read_after(0.3)
    assert str(found["path"]).endswith("/***")


def sizes_at_the_end(stage: Stage) -> list[object]:
    readings = stage.source.conclude(KEY, stage.jobs)
    assert readings is not None
    return [file["size_bytes"] for file in readings.remarks[KEY].findings["files"]]


def test_at_the_end_a_written_file_has_its_last_size(stage: Stage) -> None:
    stage.process(10, 0, 500)
    out = stage.file("out", 500)
    stage.proc.open(10, 3, out, 500, os.O_WRONLY)
    assert stage.source.conclude(KEY, stage.jobs) is None, "nothing was read yet"
    stage.read_after(0.3)
    os.truncate(out, 900)
    assert sizes_at_the_end(stage) == [900]
    out.rename(stage.directory / "renamed")
    assert sizes_at_the_end(stage) == [500]
    stage.file("out", 7)
    assert sizes_at_the_end(stage) == [500], "another file has the path"


def test_a_file_system_that_does_not_answer_does_not_delay_the_end(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.process(10, 0, 500)
    stage.proc.open(10, 3, stage.file("out", 500), 500, os.O_WRONLY)
    stage.read_after(0.3)
    answer = threading.Event()
    monkeypatch.setattr(file_source, "size_of_same", lambda _: 900 if answer.wait(10) else None)
    assert sizes_at_the_end(stage) == [500]
    answer.set()


class SlowSource:
    """Says something about a job once."""

    name, interval_seconds = "slow", 60.0

    def available(self) -> None:
        return None

    def collect(self, jobs: Jobs) -> Readings:
        return Readings(remarks={key: Remarks(findings={"files": [key]}) for key in jobs})

    def forget(self, key: str) -> None: ...

    def close(self) -> None: ...


def test_the_newest_remarks_of_a_slow_source_need_no_tick() -> None:
    run = SlowRun(DeferredSource("slow", 0.01, SlowSource))
    run.set_jobs({KEY: Target(Identity("boot", 1, 1), 100.0)})
    remarks = wait_for(lambda: run.newest_remarks(KEY))
    assert remarks.findings == {"files": [KEY]}
    run.close()
