"""What a job's processes and its cgroup say, as catalogue keys: nothing twice, nothing falling, nothing made up."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobtop.core.clock import BOOTTIME
from jobtop.core.measure.collectors import members
from jobtop.core.measure.collectors.expensive_files import ExpensiveFiles
from jobtop.core.measure.collectors.job_cgroup import CgroupReader
from jobtop.core.measure.collectors.jobs import never_falling
from jobtop.core.measure.collectors.members import TICK_SECONDS, Member, Tree
from jobtop.core.metrics import BY_KEY
from processes import MIB, FakeProc, fold

SHIM = 50


def stat(**values: float) -> list[bytes]:
    """The fields of a `stat` file after the name; times are given in seconds."""
    fields = [b"0"] * 50
    fields[members.STATE], fields[members.THREADS] = b"S", b"1"
    for name, value in values.items():
        ticks = value / members.TICK_SECONDS if name.endswith("TIME") else value
        fields[getattr(members, name)] = str(round(ticks)).encode()
    return fields


def member(tree: Tree, pid: int, cpu: float = 0.0, parent: int = SHIM) -> Member:
    made = tree.members[pid] = Member(pid, 100, tree, parent)
    made.take_clock(round(cpu * 1e9))
    return made


def test_cpu_is_what_the_shim_reaped_the_own_clocks_and_the_reaped_children() -> None:
    tree = Tree(SHIM)
    tree.take_reaped(stat(CUTIME=1.0, CSTIME=0.5, CMINFLT=10, CMAJFLT=1))
    first, second = member(tree, 51), member(tree, 52)
    first.take_stat(stat(UTIME=3.0, STIME=1.0, CUTIME=0.25, CSTIME=0.75, MINFLT=5, MAJFLT=2))
    second.take_stat(stat(STIME=2.0))
    first.take_clock(4_000_000_000)
    second.take_clock(2_000_000_000)
    values = fold(tree)
    assert values["cpu.user"] == pytest.approx(1.0 + 3.0 + 0.25)
    assert values["cpu.system"] == pytest.approx(0.5 + 1.0 + 0.75 + 2.0)
    assert (values["mem.faults_minor"], values["mem.faults_major"]) == (15, 3)


def test_a_member_that_was_never_read_has_used_nothing_yet() -> None:
    tree = Tree(SHIM)
    tree.members[51] = Member(51, 100, tree, SHIM)
    assert fold(tree)["cpu.user"] + fold(tree)["cpu.system"] == 0


def test_what_was_never_read_is_absent() -> None:
    tree = Tree(SHIM)
    member(tree, 51)
    member(tree, 52)
    values = fold(tree)
    assert not values.keys() & {"io.read_bytes", "mem.pss", "mem.used", "mem.swap", "proc.fds"}
    assert values.keys() <= BY_KEY.keys()


def test_an_unreadable_descriptor_count_is_absent_and_the_rest_is_there() -> None:
    tree = Tree(SHIM)
    one = member(tree, 51)
    read = {"swap": 4096, "switches_voluntary": 7, "switches_involuntary": 2}
    for attribute, value in read.items():
        setattr(one, attribute, value)
    values = fold(tree)
    assert "proc.fds" not in values
    assert (values["mem.swap"], values["proc.switches_voluntary"], values["proc.switches_involuntary"]) == (4096, 7, 2)


def test_io_of_an_orphan_stays_when_it_goes_and_switches_are_not_known_any_more(tmp_path: Path) -> None:
    fake = FakeProc(tmp_path / "proc")
    fake.put(1, 0)
    fake.put(SHIM, 1)
    fake.put(51, SHIM, chars=1000)
    fake.put(52, SHIM, chars=30)
    fake.put(53, 52, chars=500)
    table = fake.table()
    tree = table.add(SHIM)
    table.sweep()
    table.read_details(1.0)
    assert fold(tree)["io.read_chars"] == 1530
    assert fold(tree)["proc.switches_voluntary"] == 21
    fake.end(51)
    fake.end(53)
    fake.put(52, SHIM, chars=530, cpu=0.1)  # it has waited for its child, and the kernel added that to its own
    table.sweep()
    assert fold(tree)["io.read_chars"] == 1530
    assert "proc.switches_voluntary" not in fold(tree)
    table.remove(tree)


def test_a_single_process_needs_no_pss() -> None:
    tree = Tree(SHIM)
    member(tree, 51).rss = 8 * MIB
    assert fold(tree)["mem.used"] == 8 * MIB


def test_pss_is_kept_up_to_date_by_what_rss_has_changed() -> None:
    tree = Tree(SHIM)
    for pid in (51, 52):
        one = member(tree, pid)
        one.pss, one.pss_rss, one.rss = 50 * MIB, 90 * MIB, 90 * MIB
    tree.members[51].rss += 10 * MIB
    assert fold(tree)["mem.pss"] == 110 * MIB
    tree.members[51].rss, tree.members[51].row = 20 * MIB, None
    assert fold(tree)["mem.used"] == 50 * MIB


def test_who_was_forked_since_shares_with_its_parent() -> None:
    tree = Tree(SHIM)
    for pid in (51, 52):
        one = member(tree, pid)
        one.pss, one.pss_rss, one.rss = 300 * MIB, 300 * MIB, 300 * MIB
    member(tree, 53, parent=51).rss = 302 * MIB
    assert fold(tree)["mem.used"] == 600 * MIB
    tree.members[53].rss, tree.members[53].row = 350 * MIB, None
    assert fold(tree)["mem.used"] == 650 * MIB


def test_pss_of_a_family_is_read_at_once(tmp_path: Path) -> None:
    fake = FakeProc(tmp_path / "proc")
    fake.put(1, 0)
    fake.put(SHIM, 1)
    fake.put(51, SHIM, rss=300 * MIB)
    table = fake.table()
    tree = table.add(SHIM)
    table.sweep()
    table.read_details(1.0)
    fake.put(51, SHIM, rss=300 * MIB, pss=150 * MIB)
    fake.put(52, 51, rss=300 * MIB, pss=150 * MIB)
    table.sweep()
    table.read_details(1.0)
    assert fold(tree)["mem.used"] == 300 * MIB
    table.remove(tree)


def family_of_three(fake: FakeProc, cpu: float, pss: int, faults: int = 0) -> None:
    """A parent and two forks of it, 200 MiB resident each."""
    for pid, parent in ((51, SHIM), (52, 51), (53, 51)):
        fake.put(pid, parent, cpu=cpu, rss=200 * MIB, pss=pss, faults=faults if parent == 51 else 0)


def test_pages_that_forks_write_to_are_looked_for_at_once_though_nothing_is_more_resident(tmp_path: Path) -> None:
    fake = FakeProc(tmp_path / "proc")
    fake.put(1, 0)
    fake.put(SHIM, 1)
    table = fake.table()
    tree = table.add(SHIM)
    for cpu, pss, faults, used in ((1.0, 66, 0, 198), (1.1, 66, 100, 198), (1.2, 200, 50_000, 600)):
        family_of_three(fake, cpu, pss * MIB, faults)
        table.sweep()
        table.read_details(1.0)
        assert fold(tree)["mem.used"] == used * MIB
    assert tree.possible_peak == 0
    table.remove(tree)


def test_what_the_budget_did_not_allow_to_read_is_known_to_be_possible(tmp_path: Path) -> None:
    fake = FakeProc(tmp_path / "proc")
    fake.put(1, 0)
    fake.put(SHIM, 1)
    table = fake.table()
    tree = table.add(SHIM)
    family_of_three(fake, 1.0, 66 * MIB)
    table.sweep()
    table.read_details(1.0)

    def sample(cpu: float, budget: float, faults: int = 50_000) -> float:
        family_of_three(fake, cpu, 66 * MIB, faults)
        table.sweep()
        table.read_details(budget)
        values = fold(tree)
        tree.note_possible(values["mem.used"], values["mem.rss"])
        return values["mem.used"]

    table.expensive.credit_seconds = -10.0
    assert sample(1.1, 0.0) == 198 * MIB
    assert tree.possible[0] == pytest.approx(198 * MIB + 2 * 50_000 * 4096)
    assert sample(1.2, 20.0) == 198 * MIB  # nothing was given back meanwhile: it was pages that are not kept
    assert (tree.possible[0], tree.possible_peak) == (198 * MIB, 198 * MIB)
    table.expensive.credit_seconds = -10.0
    sample(1.3, 0.0, 100_000)
    for pid in (52, 53):
        fake.end(pid)
    fake.put(51, SHIM, cpu=1.4, rss=200 * MIB)
    table.sweep()
    table.read_details(20.0)
    assert tree.possible_peak > 500 * MIB  # they ended with what they had made their own
    table.remove(tree)


def test_shared_memory_that_came_while_there_was_no_time_to_look_is_known_to_be_unread(tmp_path: Path) -> None:
    fake = FakeProc(tmp_path / "proc")
    fake.put(1, 0)
    fake.put(SHIM, 1)
    fake.put(51, SHIM)
    table = fake.table()
    tree = table.add(SHIM)
    unread = []
    for shared_kib, credit in ((0, 1.0), (50 * 1024, -1.0), (50 * 1024, 1.0)):
        (fake.root / "meminfo").write_text(f"MemTotal: 1 kB\nShmem: {shared_kib} kB\n")
        fake.clocks[51] += 1
        table.sweep()
        table.expensive.credit_seconds = credit
        table.read_details(0.0)
        unread.append(tree.memfd_unread_bytes)
    assert unread == [0, 50 * MIB, 0]
    table.close()


def test_counters_never_fall_and_gauges_may() -> None:
    before: dict[str, float] = {"io.read_bytes": 10, "io.write_bytes": 5, "mem.rss": 9}
    after: dict[str, float] = {"io.read_bytes": 8, "mem.rss": 3}
    held = never_falling(before, after, ("io.read_bytes", "io.write_bytes"))
    assert held == {"io.read_bytes": 10, "io.write_bytes": 5, "mem.rss": 3}


def test_cpu_times_are_held_as_one_sum() -> None:
    before = {"cpu.user": 0.7, "cpu.system": 0.3}
    held = never_falling(before, {"cpu.user": 0.6, "cpu.system": 0.5}, ("cpu.user", "cpu.system"))
    assert held == pytest.approx({"cpu.user": 0.7, "cpu.system": 0.4})
    held = never_falling(before, {"cpu.user": 0.9, "cpu.system": 0.0}, ("cpu.user", "cpu.system"))
    assert held == pytest.approx(before)


def test_a_cgroup_of_version_2(tmp_path: Path) -> None:
    files = {
        "cpu.stat": "usage_usec 3000000\nuser_usec 2000000\nsystem_usec 1000000\nthrottled_usec 500000\n",
        "memory.stat": "anon 100\nfile 50\nshmem 20\n",
        "memory.current": "170\n",
        "memory.events": "low 0\noom 1\noom_kill 1\n",
        "cpu.pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=250000\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert CgroupReader([str(tmp_path)]).read()[0] == {
        "cpu.user": 2.0,
        "cpu.system": 1.0,
        "cpu.throttled": 0.5,
        "cpu.pressure": 0.25,
        "mem.anon": 100,
        "mem.file": 50,
        "mem.shmem": 20,
        "mem.used": 120,
        "mem.cgroup": 170,
        "mem.oom_kills": 1,
    }


def test_cgroups_of_version_1(tmp_path: Path) -> None:
    memory, cpu = tmp_path / "memory", tmp_path / "cpuacct"
    memory.mkdir()
    cpu.mkdir()
    (memory / "memory.stat").write_text("cache 1\nrss 1\ntotal_cache 50\ntotal_rss 100\ntotal_shmem 20\n")
    (memory / "memory.usage_in_bytes").write_text("170\n")
    (memory / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 2\n")
    (cpu / "cpuacct.usage").write_text("3000000000\n")
    (cpu / "cpuacct.usage_user").write_text("2000000000\n")
    assert CgroupReader([str(memory), str(cpu)]).read()[0] == {
        "cpu.user": 2.0,
        "cpu.system": 1.0,
        "mem.anon": 100,
        "mem.file": 50,
        "mem.shmem": 20,
        "mem.used": 120,
        "mem.cgroup": 170,
        "mem.oom_kills": 2,
    }


def test_time_throttled_by_a_quota_of_version_1_is_told_beside_the_times_of_version_2(tmp_path: Path) -> None:
    unified, cpu = tmp_path / "unified", tmp_path / "cpu"
    for directory in (unified, cpu):
        directory.mkdir()
    (unified / "cpu.stat").write_text("usage_usec 3000000\nuser_usec 1000000\nsystem_usec 2000000\n")
    (cpu / "cpu.stat").write_text("nr_periods 4\nnr_throttled 2\nthrottled_time 500000000\n")
    (cpu / "cpu.cfs_quota_us").write_text("50000\n")
    values = CgroupReader([str(unified), str(cpu)]).read()[0]
    assert values == {"cpu.user": 1.0, "cpu.system": 2.0, "cpu.throttled": 0.5}


@pytest.mark.parametrize("name", ["memory.current", "memory.usage_in_bytes", "io.pressure"])
def test_an_idle_cgroup_has_changed_when_pages_are_reclaimed_or_a_process_stalls(tmp_path: Path, name: str) -> None:
    text = "some avg10=0.10 total={}\nfull avg10=0.00 total=0\n" if name == "io.pressure" else "{}\n"
    (tmp_path / name).write_text(text.format(150))
    (tmp_path / "memory.stat").write_text("anon 100\ntotal_rss 100\n" if "usage" in name else "anon 100\n")
    cgroup = CgroupReader([str(tmp_path)])
    cgroup.read()
    assert not cgroup.has_changed()
    (tmp_path / name).write_text(text.replace("0.10", "0.05").format(150))
    assert not cgroup.has_changed()
    (tmp_path / name).write_text(text.format(170))
    assert cgroup.has_changed()
    cgroup.read()
    assert not cgroup.has_changed()


def test_a_cgroup_that_is_gone_says_nothing(tmp_path: Path) -> None:
    assert CgroupReader([str(tmp_path / "gone")]).read() == ({}, None)


def test_who_ends_during_a_close_look_is_not_counted_beside_those_it_shared_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = FakeProc(tmp_path / "proc")
    fake.put(1, 0)
    fake.put(SHIM, 1)
    for pid in (51, 52, 53):
        fake.put(pid, SHIM if pid == 51 else 51, rss=300 * MIB, pss=100 * MIB)
    table = fake.table(most_descriptors=0)  # a plain file could still be read
    tree = table.add(SHIM)
    table.sweep()
    read_pss, read = ExpensiveFiles._read_pss, []

    def one_ends_after_it_was_read(files: ExpensiveFiles, member: Member) -> tuple[int | None, int | None]:
        pss = read_pss(files, member)
        read.append(member.pid)
        if len(read) == 1:
            fake.end(member.pid)
            for pid in {51, 52, 53} - set(read):
                fake.put(pid, SHIM, rss=300 * MIB, pss=150 * MIB)
        return pss

    monkeypatch.setattr(ExpensiveFiles, "_read_pss", one_ends_after_it_was_read)
    table.read_details(1.0)
    assert len(read) == 3
    assert fold(tree)["mem.used"] == 300 * MIB
    table.close()


def test_who_was_born_before_its_parent_was_looked_at_has_a_share_of_its_own(tmp_path: Path) -> None:
    fake = FakeProc(tmp_path / "proc")
    fake.put(1, 0)
    fake.put(SHIM, 1)
    for pid in (51, 52):
        fake.put(pid, SHIM, rss=300 * MIB, pss=100 * MIB)
    table = fake.table()
    tree = table.add(SHIM)
    table.sweep()
    fake.put(53, 51, rss=300 * MIB, pss=100 * MIB)
    table.read_details(1.0)
    table.sweep()
    assert fold(tree)["mem.used"] == 300 * MIB
    table.close()


@pytest.mark.parametrize("born_after", [0, 1, 2, 3, 5])
def test_forks_made_during_a_close_look_are_counted_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, born_after: int
) -> None:
    """300 MiB shared by five, and by seven after so many of the five were read."""
    fake = FakeProc(tmp_path / "proc")
    fake.put(1, 0)
    fake.put(SHIM, 1)
    family = (51, 52, 53, 54, 55)
    for pid in family:
        fake.put(pid, SHIM if pid == 51 else 51, rss=300 * MIB, pss=60 * MIB)
    table = fake.table()
    tree = table.add(SHIM)
    table.sweep()
    read_pss, read = ExpensiveFiles._read_pss, 0

    def two_are_born(files: ExpensiveFiles, member: Member) -> tuple[int | None, int | None]:
        nonlocal read
        time.sleep(2 * TICK_SECONDS)  # the start of a process is known in ticks
        if read == born_after:
            for pid in (*family, 56, 57):
                start = int(time.clock_gettime(BOOTTIME) / TICK_SECONDS) if pid > 55 else 100
                fake.put(pid, SHIM if pid == 51 else 51, start=start, rss=300 * MIB, pss=300 * MIB // 7)
        read += 1
        time.sleep(2 * TICK_SECONDS)
        return read_pss(files, member)

    monkeypatch.setattr(ExpensiveFiles, "_read_pss", two_are_born)
    table.read_details(1.0)
    assert read == 5
    if born_after == 5:
        for pid in (56, 57):
            fake.put(pid, 51, start=int(time.clock_gettime(BOOTTIME) / TICK_SECONDS) + 1, rss=300 * MIB)
    table.sweep()
    assert len(tree.members) == 7
    assert fold(tree)["mem.used"] == pytest.approx(300 * MIB, rel=0.001)
    table.close()


def test_forks_born_in_the_tick_of_a_close_look_do_not_count_twice(tmp_path: Path) -> None:
    """300 MiB shared by five processes; their shares are read, then two more start in the same tick of 10 ms."""
    fake = FakeProc(tmp_path / "proc")
    fake.put(1, 0)
    fake.put(SHIM, 1)
    for pid in (51, 52, 53, 54, 55):
        fake.put(pid, SHIM if pid == 51 else 51, rss=300 * MIB, pss=60 * MIB)
    table = fake.table()
    tree = table.add(SHIM)
    table.sweep()
    before = int(time.clock_gettime(BOOTTIME) / TICK_SECONDS) - 1
    table.read_details(1.0)
    for pid in (56, 57):
        fake.put(pid, 51, start=before, rss=301 * MIB, faults=256)
    table.sweep()
    assert len(tree.members) == 7
    assert fold(tree)["mem.used"] == pytest.approx(300 * MIB, rel=0.05)
    table.close()


def test_the_first_forks_of_one_that_was_alone_when_it_was_looked_at_share_all_of_it(tmp_path: Path) -> None:
    fake = FakeProc(tmp_path / "proc")
    fake.put(1, 0)
    fake.put(SHIM, 1)
    fake.put(51, SHIM, rss=300 * MIB)
    table = fake.table()
    tree = table.add(SHIM)
    table.sweep()
    fake.put(52, 51, rss=300 * MIB)
    table.read_details(1.0)
    table.sweep()
    assert fold(tree)["mem.used"] == 300 * MIB
    table.close()


class DetailedReads:
    """A job of a process with 100 MiB; its PSS is read in each pass."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.fake = FakeProc(root / "proc")
        self.fake.put(1, 0)
        self.fake.put(SHIM, 1)
        self.fake.put(51, SHIM, rss=100 * MIB)
        self.read: list[int] = []
        read_pss = ExpensiveFiles._read_pss

        def note(files: ExpensiveFiles, one: Member) -> tuple[int | None, int | None]:
            self.read.append(one.pid)
            return read_pss(files, one)

        monkeypatch.setattr(ExpensiveFiles, "_read_pss", note)
        self.table = self.fake.table()
        self.tree = self.table.add(SHIM)
        self.sweep()

    def sweep(self) -> set[int]:
        """The processes that one more pass read in detail."""
        self.read.clear()
        for pid in self.tree.members.keys() & self.fake.clocks.keys():
            self.fake.clocks[pid] += 1
        self.table.sweep()
        self.table.read_details(1.0)
        return set(self.read)


@pytest.fixture
def details(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DetailedReads]:
    made = DetailedReads(tmp_path, monkeypatch)
    yield made
    made.table.close()


def test_a_small_process_is_read_in_detail_if_it_stays(details: DetailedReads) -> None:
    details.fake.put(52, 51, rss=2 * MIB)
    assert details.sweep() == set()
    assert details.sweep() == {51, 52}
    assert details.sweep() == set()


def test_small_processes_that_come_and_go_are_not_read_in_detail(details: DetailedReads) -> None:
    for pid in range(60, 65):
        details.fake.put(pid, 51, rss=2 * MIB)
        assert details.sweep() == set()
        details.fake.end(pid)
    assert details.tree.births == 6


@pytest.mark.parametrize("size", [10, 300])
def test_a_large_process_is_read_in_detail_at_once(details: DetailedReads, size: int) -> None:
    details.fake.put(52, 51, rss=size * MIB)
    assert details.sweep() == {51, 52}
    assert fold(details.tree)["mem.used"] == (100 + size) * MIB


def test_many_small_processes_are_read_in_detail_at_once(details: DetailedReads) -> None:
    for pid in range(60, 65):
        details.fake.put(pid, 51, rss=2 * MIB)
    assert details.sweep() == {51, *range(60, 65)}


def test_when_a_process_exits_that_shared_much_the_others_are_read_again(details: DetailedReads) -> None:
    for pid, parent in ((51, SHIM), (52, 51), (53, 51)):
        details.fake.put(pid, parent, rss=90 * MIB, pss=30 * MIB)
    assert details.sweep() == {51, 52, 53}
    for pid in (51, 52):
        details.fake.put(pid, SHIM, cpu=1.0, rss=90 * MIB, pss=45 * MIB)
    details.fake.end(53)
    assert details.sweep() == {51, 52}
    assert fold(details.tree)["mem.used"] == 90 * MIB


def test_small_new_processes_are_no_memory_that_may_have_been_missed(details: DetailedReads) -> None:
    details.fake.put(52, 51, rss=2 * MIB, faults=500)
    details.sweep()
    assert details.tree.touched_bytes == 0
