"""What the cgroups around a container have counted, without the process that supervises it."""

from pathlib import Path

from jobtop.lifecycle.containers.cgroups import SUPERVISOR, merged, read_evidence, remove_parents


def test_the_cpu_time_of_the_supervisor_is_not_the_container_s(tmp_path: Path) -> None:
    inside = tmp_path / SUPERVISOR
    inside.mkdir()
    for directory, number in ((tmp_path, 900), (inside, 200)):
        (directory / "cpuacct.usage").write_text(f"{number}\n")
        (directory / "cpu.stat").write_text(f"usage_usec {number}\nuser_usec {number // 2}\nnr_periods 5\n")
        (directory / "memory.max_usage_in_bytes").write_text(f"{number}\n")
    found = read_evidence([str(tmp_path)])
    assert found["cpuacct.usage"] == "700\n"
    assert found["cpu.stat"].splitlines()[:2] == ["usage_usec 700", "user_usec 350"]
    assert found["memory.max_usage_in_bytes"] == "900\n"


def test_without_a_supervisor_the_files_are_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "cpuacct.usage").write_text("900\n")
    (tmp_path / "cpu.stat").write_text("usage_usec 5\nnr_periods 0\n")
    assert read_evidence([str(tmp_path)]) == {"cpuacct.usage": "900\n", "cpu.stat": "usage_usec 5\nnr_periods 0\n"}


def test_the_cgroup_of_the_supervisor_goes_with_its_parent(tmp_path: Path) -> None:
    (tmp_path / "parent" / SUPERVISOR).mkdir(parents=True)
    assert remove_parents([str(tmp_path / "parent")])
    assert list(tmp_path.iterdir()) == []


def test_without_the_container_s_own_count_the_oom_kills_of_version_1_are_unknown() -> None:
    none, one = {"memory.oom_control": "oom_kill 0\n"}, {"memory.oom_control": "oom_kill 1\n"}
    assert merged({}, none) == {}
    assert merged(none, none) == none
    assert merged(one, none) == one
    handed_up = {"memory.events": "oom_kill 0\n"}  # version 2 hands the count up to the parent
    assert merged({}, handed_up) == handed_up
