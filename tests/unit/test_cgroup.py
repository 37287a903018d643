"""Which cgroup trees are used, where a job's own cgroup goes, and what its files say."""

import errno
import os
from pathlib import Path

import pytest

from jobtop.core.measure.collectors.cgroup import (
    Hierarchy,
    JobCgroup,
    Reading,
    ambient_oom_file,
    cpu_quota,
    discard,
    hierarchies,
    make,
    oom_count,
    own_procs,
    possible_directories,
    reading,
)
from records import numbered_id
from trees import Kernel, capture

ID = numbered_id(7)

SCOPE = "user.slice/user-1000.slice/user@1000.service/app.slice/run-u12.scope"


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    return Kernel(monkeypatch)


@pytest.fixture
def cgroups(tmp_path: Path) -> Path:
    """Where the cgroups of a captured tree are mounted."""
    return tmp_path / "sys/fs/cgroup"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("v1", [("memory", "/memory", "/user.slice/user-1000.slice/session-3.scope")]),
        ("v1-apart", [("cpuacct", "/cpuacct", "/jobs"), ("memory", "/memory", "")]),
        ("v2", [("v2", "", f"/{SCOPE}")]),
        ("hybrid", [("memory", "/memory", "/box/shell"), ("v2", "/unified", "")]),
        ("none", []),
        ("container", [("v2", "", "")]),
        ("container-v1", [("memory", "/memory", "")]),
    ],
)
def test_the_useful_trees_and_our_place_in_them_are_found(
    tmp_path: Path, cgroups: Path, name: str, expected: list[tuple[str, str, str]]
) -> None:
    found = hierarchies(str(capture(name, tmp_path)))
    assert found == [Hierarchy(kind, f"{cgroups}{mount}", own) for kind, mount, own in expected]


def test_a_tree_that_schedules_is_never_joined(tmp_path: Path) -> None:
    assert hierarchies(str(capture("v1-all-in-one", tmp_path))) == []


def test_a_tree_whose_mount_does_not_show_our_place_is_not_used(tmp_path: Path) -> None:
    assert hierarchies(str(capture("outside-mount", tmp_path))) == []


def test_a_process_that_has_vanished_is_in_no_tree(tmp_path: Path) -> None:
    assert hierarchies(str(tmp_path / "gone")) == []


def test_a_mount_point_with_a_space_is_read_right(tmp_path: Path) -> None:
    (tmp_path / "cgroup").write_text("0::/\n")
    (tmp_path / "mountinfo").write_text("31 23 0:26 / /my\\040groups rw - cgroup2 cgroup2 rw\n")
    assert hierarchies(str(tmp_path)) == [Hierarchy("v2", "/my groups", "")]


def test_on_v1_the_job_gets_a_memory_cgroup_below_our_own(tmp_path: Path, cgroups: Path, kernel: Kernel) -> None:
    own = cgroups / "memory/user.slice/user-1000.slice/session-3.scope"
    kernel.grow(own, "memory")
    made = make(ID, str(capture("v1", tmp_path)))
    assert made == JobCgroup(
        (f"{own}/jobtop-{ID}",),
        (
            ("memory.max_usage_in_bytes", f"{own}/jobtop-{ID}/memory.max_usage_in_bytes"),
            ("memory.oom_control", f"{own}/jobtop-{ID}/memory.oom_control"),
        ),
    )
    assert made.joins == (f"{own}/jobtop-{ID}/cgroup.procs",)


def test_on_a_hybrid_machine_the_job_gets_one_in_each_useful_tree(
    tmp_path: Path, cgroups: Path, kernel: Kernel
) -> None:
    kernel.grow(cgroups / "memory/box/shell", "memory")
    kernel.grow(cgroups / "unified")
    made = make(ID, str(capture("hybrid", tmp_path)))
    assert set(made.directories) == {f"{cgroups}/memory/box/shell/jobtop-{ID}", f"{cgroups}/unified/jobtop-{ID}"}
    assert {label for label, _ in made.files} == {"memory.max_usage_in_bytes", "memory.oom_control", "cpu.stat"}
    assert made.problems == ()


def test_a_tree_that_schedules_is_joined_last_and_only_where_cpus_are_to_hold(
    tmp_path: Path, cgroups: Path, kernel: Kernel
) -> None:
    proc = str(capture("hybrid", tmp_path))
    assert [tree.kind for tree in hierarchies(proc)] == ["memory", "v2"]
    assert [tree.kind for tree in hierarchies(proc, with_cpu=True)] == ["memory", "v2", "cpu"]
    kernel.grow(cgroups / "memory/box/shell", "memory")
    kernel.grow(cgroups / "unified")
    kernel.grow(cgroups / "cpu", "cpu")
    made = make(ID, proc, with_cpu=True)
    assert made.directories[-1] == f"{cgroups}/cpu/jobtop-{ID}"
    assert set(made.directories) <= set(possible_directories(ID, proc))


def test_on_v2_the_job_goes_as_far_up_as_it_takes_to_count_memory(
    tmp_path: Path, cgroups: Path, kernel: Kernel
) -> None:
    scope = cgroups / SCOPE
    kernel.grow(scope.parent, passing_on="cpu memory pids", memory_max="max\n")
    kernel.grow(scope, memory_max="max\n")
    made = make(ID, str(capture("v2", tmp_path)))
    assert made.directories == (f"{scope.parent}/jobtop-{ID}",)
    assert {label for label, _ in made.files} == {"cpu.stat", "memory.peak", "memory.events"}
    assert not (scope / f"jobtop-{ID}").exists()


def test_where_memory_cannot_be_counted_the_job_stays_beside_us(tmp_path: Path, cgroups: Path, kernel: Kernel) -> None:
    scope = cgroups / SCOPE
    for place in (scope, *list(scope.parents)[:5]):
        kernel.grow(place)
    made = make(ID, str(capture("v2", tmp_path)))
    assert made.directories == (f"{scope}/jobtop-{ID}",)
    assert [label for label, _ in made.files] == ["cpu.stat"]
    assert [str(path) for path in cgroups.rglob(f"jobtop-{ID}")] == [f"{scope}/jobtop-{ID}"]


@pytest.mark.parametrize(
    ("file", "limit"),
    [
        ("memory_max", "67108864\n"),
        ("memory_high", "67108864\n"),
        ("memory_swap_max", "0\n"),
        ("pids_max", "512\n"),
        ("cpu_max", "50000 100000\n"),
        ("cpuset_cpus", "0-1\n"),
    ],
)
def test_a_job_never_leaves_a_limit_behind(
    tmp_path: Path, cgroups: Path, kernel: Kernel, file: str, limit: str
) -> None:
    scope = cgroups / SCOPE
    kernel.grow(scope.parent, passing_on="memory")
    kernel.grow(scope, **{file: limit})
    proc = str(capture("v2", tmp_path))
    assert make(ID, proc).directories == (f"{scope}/jobtop-{ID}",)
    assert possible_directories(ID, proc) == [f"{scope}/jobtop-{ID}"]
    assert kernel.made == [f"{scope}/jobtop-{ID}"]


def test_a_limit_further_up_ends_the_climb_there(tmp_path: Path, cgroups: Path, kernel: Kernel) -> None:
    scope = cgroups / SCOPE
    kernel.grow(scope.parent.parent, passing_on="memory")
    kernel.grow(scope.parent, memory_max="1073741824\n")
    kernel.grow(scope)
    assert make(ID, str(capture("v2", tmp_path))).directories == (f"{scope}/jobtop-{ID}",)


def test_a_job_inside_a_job_stays_inside(tmp_path: Path, cgroups: Path, kernel: Kernel) -> None:
    proc = capture("v2", tmp_path)
    outer = cgroups / "app.slice/jobtop-1"
    (proc / "cgroup").write_text("0::/app.slice/jobtop-1\n")
    kernel.grow(outer.parent, passing_on="memory")
    kernel.grow(outer)
    assert make(numbered_id(2), str(proc)).directories == (f"{outer}/jobtop-{numbered_id(2)}",)


def test_no_parent_is_used_that_processes_may_not_be_moved_from(tmp_path: Path, cgroups: Path, kernel: Kernel) -> None:
    scope = cgroups / SCOPE
    kernel.grow(scope.parent, passing_on="memory")
    kernel.grow(scope)
    kernel.closed[f"{scope.parent}/cgroup.procs"] = errno.EACCES
    assert make(ID, str(capture("v2", tmp_path))).directories == (f"{scope}/jobtop-{ID}",)


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS])
def test_where_nothing_can_be_made_the_reason_is_told(
    tmp_path: Path, cgroups: Path, kernel: Kernel, number: int
) -> None:
    kernel.grow(cgroups, passing_on="memory")
    kernel.closed[str(cgroups)] = number
    proc = str(capture("container", tmp_path))
    assert make(ID, proc) == JobCgroup(problems=(f"{cgroups}: {os.strerror(number)}",))
    assert own_procs(proc) is None


def test_a_cgroup_that_cannot_be_entered_is_not_kept(tmp_path: Path, cgroups: Path, kernel: Kernel) -> None:
    kernel.grow(cgroups, passing_on="memory")
    kernel.closed[f"{cgroups}/jobtop-{ID}/cgroup.procs"] = errno.EACCES
    made = make(ID, str(capture("container", tmp_path)))
    assert made == JobCgroup(problems=(f"{cgroups}: not allowed",))
    assert not (cgroups / f"jobtop-{ID}").exists()


def test_without_any_cgroup_file_system_that_is_the_reason(tmp_path: Path) -> None:
    assert make(ID, str(capture("none", tmp_path))) == JobCgroup(problems=("no cgroup file system is mounted",))


def test_the_file_that_moves_a_process_where_it_is_belongs_to_a_useful_tree(
    tmp_path: Path, cgroups: Path, kernel: Kernel
) -> None:
    kernel.grow(cgroups / "memory/box/shell", "memory")
    assert own_procs(str(capture("hybrid", tmp_path))) == f"{cgroups}/memory/box/shell/cgroup.procs"


def test_what_make_makes_possible_directories_names(tmp_path: Path, cgroups: Path, kernel: Kernel) -> None:
    scope = cgroups / SCOPE
    kernel.grow(scope.parent, passing_on="memory")
    kernel.grow(scope)
    proc = str(capture("v2", tmp_path))
    assert set(make(ID, proc).directories) <= set(possible_directories(ID, proc))


def test_only_a_cgroup_with_processes_resists_its_removal(cgroups: Path, kernel: Kernel) -> None:
    kernel.grow(cgroups / "empty")
    kernel.grow(cgroups / "lived-in")
    kernel.populated.add(f"{cgroups}/lived-in")
    assert not discard([f"{cgroups}/lived-in", f"{cgroups}/empty", f"{cgroups}/gone"])
    assert not (cgroups / "empty").exists()
    kernel.populated.clear()
    assert discard([f"{cgroups}/lived-in", f"{cgroups}/gone"])
    assert not (cgroups / "lived-in").exists()


CPU_STAT = "usage_usec 3000000\nuser_usec 1000000\nsystem_usec 500000\nnr_periods 0\n"


@pytest.mark.parametrize(
    ("evidence", "expected"),
    [
        ({}, Reading()),
        ({"cpu.stat": ""}, Reading()),
        ({"cpu.stat": CPU_STAT}, Reading(2.0, 1.0)),
        ({"cpu.stat": "usage_usec 0\nuser_usec 0\nsystem_usec 0\n"}, Reading(0.0, 0.0)),
        ({"cpu.stat": "usage_usec 7000\nuser_usec 0\nsystem_usec 0\n"}, Reading(0.007, 0.0)),
        ({"memory.peak": "4096\n", "memory.events": "low 0\noom 3\noom_kill 2\n"}, Reading(None, None, 4096, 2)),
        ({"memory.events": "low 0\noom_kill 0\n"}, Reading(oom_kills=0)),
        ({"cpuacct.usage": "3000000000\n", "cpuacct.usage_user": "2000000000\n"}, Reading(2.0, 1.0)),
        ({"cpuacct.usage": "1000\n", "cpuacct.usage_user": "2000\n"}, Reading(2e-06, 0.0)),
        ({"cpuacct.usage": "1000000000\n"}, Reading(0.0, 1.0)),
        (
            {"memory.max_usage_in_bytes": "8192\n", "memory.oom_control": "oom_kill_disable 0\noom_kill 1\n"},
            Reading(None, None, 8192, 1),
        ),
        ({"memory.oom_control": "oom_kill_disable 0\nunder_oom 0\n"}, Reading()),
        ({"memory.peak": "max\n"}, Reading()),
    ],
)
def test_what_the_kept_files_say_is_read_and_the_rest_is_absent(evidence: dict[str, str], expected: Reading) -> None:
    assert reading(evidence) == expected


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("low 0\nhigh 0\nmax 12\noom 4\noom_kill 3\noom_group_kill 0\n", 3),
        ("oom_kill_disable 0\nunder_oom 0\noom_kill 5\n", 5),
        ("pgfault 17\noom_kill 9\n", 9),
        ("oom_kill 9", 9),
        ("", None),
    ],
)
def test_oom_kills_are_counted_from_any_of_the_three_files(text: str, count: int | None) -> None:
    assert oom_count(text) == count


def test_oom_kills_around_us_are_told_by_our_own_cgroup(tmp_path: Path, cgroups: Path, kernel: Kernel) -> None:
    kernel.grow(cgroups / "memory/box/shell", "memory")
    around = ambient_oom_file(str(capture("hybrid", tmp_path)))
    assert around == f"{cgroups}/memory/box/shell/memory.oom_control"


def test_oom_kills_around_us_are_told_by_our_v2_cgroup(tmp_path: Path, cgroups: Path, kernel: Kernel) -> None:
    kernel.grow(cgroups / SCOPE, memory_events="oom_kill 0\n")
    assert ambient_oom_file(str(capture("v2", tmp_path))) == f"{cgroups}/{SCOPE}/memory.events"


def test_without_a_memory_cgroup_the_machine_tells_of_oom_kills(tmp_path: Path) -> None:
    counted = "oom_kill" in Path("/proc/vmstat").read_text()
    assert ambient_oom_file(str(capture("none", tmp_path))) == ("/proc/vmstat" if counted else None)


@pytest.mark.parametrize(
    ("quotas", "expected"),
    [
        ({}, None),
        ({".": "max 100000\n"}, None),
        ({".": "150000 100000\n"}, 1.5),
        ({"..": "50000 100000\n", ".": "max 100000\n"}, 0.5),
        ({"..": "300000 100000\n", ".": "200000 100000\n"}, 2.0),
    ],
)
def test_the_smallest_quota_on_the_way_up_counts(
    tmp_path: Path, cgroups: Path, kernel: Kernel, quotas: dict[str, str], expected: float | None
) -> None:
    kernel.grow(cgroups / SCOPE)
    for place, text in quotas.items():
        (cgroups / SCOPE / place / "cpu.max").write_text(text)
    assert cpu_quota(str(capture("v2", tmp_path))) == expected


@pytest.mark.parametrize(("quota", "expected"), [("-1\n", None), ("250000\n", 2.5)])
def test_a_v1_quota_counts_although_its_tree_is_not_joined(
    tmp_path: Path, cgroups: Path, quota: str, expected: float | None
) -> None:
    place = cgroups / "cpu,cpuacct/user.slice"
    place.mkdir(parents=True)
    (place / "cpu.cfs_quota_us").write_text(quota)
    (place / "cpu.cfs_period_us").write_text("100000\n")
    assert cpu_quota(str(capture("v1", tmp_path))) == expected
