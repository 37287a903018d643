"""What makes a limit hold: which file gets which number, and how often a job without a cgroup is looked at."""

from pathlib import Path

import pytest

from jobtop.core.measure.collectors.cgroup import JobCgroup
from jobtop.core.measure.collectors.members import Member, Tree
from jobtop.core.model import Identity, JobSpec
from jobtop.core.procfs import OVER_LIMIT_SIGNAL
from jobtop.core.run.limits import CALM_WAIT_SECONDS, SHORTEST_WAIT_SECONDS, Guard, enforce
from jobtop.core.shim.cgroups import without_cgroup
from records import numbered_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jobtop.core.shim.order import EnforcedLimits

ID = numbered_id(7)

MIB = 1024 * 1024
SHIM = Identity("boot", 50, 100)
LIMIT = 200 * MIB


def spec(memory: int | None = None, cpus: float | None = None) -> JobSpec:
    return JobSpec(ID, ("true",), "/", {}, hold_memory_bytes=memory, hold_cpus=cpus)


def hold(spec: JobSpec, own: JobCgroup) -> "EnforcedLimits":
    """What the order of the job says, without a scope of systemd."""
    return enforce(spec, own, None)[1]


def cgroup_with(directory: Path, *names: str) -> JobCgroup:
    for name in names:
        (directory / name).touch()
    return JobCgroup((str(directory),))


def test_on_v2_memory_holds_without_a_way_into_swap_and_ends_as_a_whole(tmp_path: Path) -> None:
    own = cgroup_with(tmp_path, "memory.max", "memory.swap.max", "memory.oom.group", "cpu.max")
    told = hold(spec(LIMIT, 1.5), own)
    assert told["limits"] == [("memory", "cgroup v2", str(tmp_path)), ("cpus", "cgroup v2", str(tmp_path))]
    assert told["affinity"] is None
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == {
        "memory.max": str(LIMIT),
        "memory.swap.max": "0",
        "memory.oom.group": "1",
        "cpu.max": "150000 100000",
    }


def test_on_v1_memory_and_swap_are_held_together_and_cpus_by_a_quota(tmp_path: Path) -> None:
    memory, cpu = tmp_path / "memory", tmp_path / "cpu"
    memory.mkdir()
    cpu.mkdir()
    cgroup_with(memory, "memory.limit_in_bytes", "memory.memsw.limit_in_bytes")
    cgroup_with(cpu, "cpu.cfs_period_us", "cpu.cfs_quota_us")
    told = hold(spec(LIMIT, 0.001), JobCgroup((str(memory), str(cpu))))
    assert told["limits"] == [("memory", "cgroup v1", str(memory)), ("cpus", "cgroup v1", str(cpu))]
    for name in ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes"):
        assert (memory / name).read_text() == str(LIMIT)
    assert (cpu / "cpu.cfs_period_us").read_text() == "1000000"
    assert (cpu / "cpu.cfs_quota_us").read_text() == "1000"


def test_without_a_cgroup_memory_is_left_to_sampling_and_whole_cpus_to_affinity() -> None:
    told = hold(spec(LIMIT, 2.0), JobCgroup())
    assert told == {
        "limits": [("memory", "sampling", ""), ("cpus", "affinity", "")],
        "memory_limit": LIMIT,
        "affinity": 2,
    }


def test_half_a_cpu_cannot_be_held_by_affinity_and_that_is_said() -> None:
    told = hold(spec(cpus=0.5), JobCgroup())
    why = "without a cgroup only whole CPUs can be enforced, not 0.5"
    assert told == {"limits": [("cpus", "nothing", why)], "memory_limit": None, "affinity": None}


def test_what_a_cgroup_was_to_hold_that_the_job_could_not_enter_falls_to_sampling() -> None:
    limits = [("memory", "cgroup v1", "/m"), ("cpus", "cgroup v1", "/c")]
    assert without_cgroup(limits, "/m") == [("memory", "sampling", ""), limits[1]]
    assert without_cgroup(limits, "/c") == [limits[0], ("cpus", "nothing", "it could not enter its cgroup")]


class Watchdog:
    """A guard over a job of plain files, and whom it told what."""

    def __init__(self, proc: Path) -> None:
        self.proc, self.tree = proc, Tree(SHIM.pid)
        self.told: list[tuple[Identity, int]] = []
        self.guard = Guard(SHIM, LIMIT, str(proc), self.tell)

    def tell(self, identity: Identity, number: int) -> bool:
        self.told.append((identity, number))
        return True

    def put(self, pid: int, rss: int, anon: int | None = None, share: int | None = None) -> None:
        member = self.tree.members[pid] = Member(pid, 100, self.tree)
        member.rss = rss
        (self.proc / str(pid)).mkdir(exist_ok=True, parents=True)
        own = rss if anon is None else anon
        kib, share_kib = own // 1024, (own if share is None else share) // 1024
        text = f"Name:\tx\nRssAnon:\t{kib} kB\nRssFile:\t9 kB\nRssShmem:\t0 kB\n"
        (self.proc / str(pid) / "status").write_text(text)
        rollup = f"Rss: 0 kB\nPss: {share_kib + 9} kB\nPss_File: 9 kB\nSwapPss: 0 kB\n"
        (self.proc / str(pid) / "smaps_rollup").write_text(rollup)

    def look(self, now: float) -> bool:
        return self.guard.look(self.tree.members.values(), now)

    def wait(self, now: float) -> float:
        """How long after this look the next one is due."""
        assert not self.look(now)
        return self.guard.due - now


@pytest.fixture
def dog(tmp_path: Path) -> Watchdog:
    return Watchdog(tmp_path)


def test_the_shim_is_told_once_that_the_job_is_over_its_limit(dog: Watchdog) -> None:
    dog.put(51, LIMIT + MIB)
    assert dog.look(0.0)
    assert dog.told == [(SHIM, OVER_LIMIT_SIGNAL)]
    assert dog.guard.over_bytes == LIMIT + MIB
    assert dog.guard.due == float("inf")


def test_the_less_room_is_left_the_sooner_is_the_next_look(dog: Watchdog) -> None:
    waits = []
    for number, used in enumerate((10, 100, 150, 180, 199)):
        dog.put(51, used * MIB)
        waits.append(dog.wait(1000.0 * number))
    assert waits == sorted(waits, reverse=True)
    assert waits[0] < 0.2
    assert waits[-1] == pytest.approx(SHORTEST_WAIT_SECONDS)


def test_one_that_stands_still_at_its_limit_is_looked_at_less_often_than_one_that_grows(dog: Watchdog) -> None:
    dog.put(51, 199 * MIB)
    assert dog.wait(0.0) == pytest.approx(SHORTEST_WAIT_SECONDS)
    assert dog.wait(1.0) == pytest.approx(CALM_WAIT_SECONDS)


def test_a_job_that_grows_fast_is_looked_at_before_it_can_be_over(dog: Watchdog) -> None:
    dog.put(51, 20 * MIB)
    dog.look(0.0)
    dog.put(51, 120 * MIB)
    assert dog.wait(0.05) == pytest.approx(80 / 4000, abs=0.005)


def test_one_that_grows_is_not_taken_to_stand_still_when_a_closer_look_finds_less(dog: Watchdog) -> None:
    dog.put(51, 199 * MIB)
    dog.look(0.0)
    dog.put(51, 203 * MIB, anon=195 * MIB)
    assert dog.wait(0.02) < CALM_WAIT_SECONDS


def test_files_that_are_mapped_do_not_count(dog: Watchdog) -> None:
    dog.put(51, 900 * MIB, anon=50 * MIB)
    assert not dog.look(0.0)


def test_what_forks_share_counts_once(dog: Watchdog) -> None:
    for pid in (51, 52, 53):
        dog.put(pid, 150 * MIB, share=50 * MIB)
    assert not dog.look(0.0)
    assert dog.told == []


def test_shares_are_read_again_only_when_they_may_have_grown_too_much(dog: Watchdog) -> None:
    for pid in (51, 52):
        dog.put(pid, 150 * MIB, share=75 * MIB)
    assert not dog.look(0.0)
    dog.put(51, 180 * MIB, share=200 * MIB)
    assert not dog.look(1.0), "150 MiB and 30 new ones are no more than 180"
    dog.put(51, 250 * MIB, share=175 * MIB)
    assert dog.look(2.0)
    assert dog.guard.over_bytes == 250 * MIB


def test_a_member_that_is_gone_by_now_holds_nothing(dog: Watchdog) -> None:
    dog.put(51, 300 * MIB)
    for name in ("status", "smaps_rollup"):
        (dog.proc / "51" / name).unlink()
    assert not dog.look(0.0)
