"""What the doctor finds on captured machines."""

import errno
import os
from pathlib import Path

import pytest
from machines import put, states

from jobtop.core.doctor import checks
from jobtop.core.doctor.checks import MachineFiles, State
from jobtop.core.measure.collectors import cgroup
from jobtop.core.measure.collectors.cgroup import JobCgroup
from trees import capture

MEBIBYTE = 1024 * 1024
SCOPE = "systemd-run --user --scope -p Delegate=yes jobtop run …"


def as_root(machine_files: MachineFiles) -> MachineFiles:
    return MachineFiles(machine_files.root, 0, "root", machine_files.platform)


def test_python_has_to_be_new_enough() -> None:
    assert checks.python((3, 11, 0), "/usr/bin/python").state is State.WORKS
    old = checks.python((3, 10, 13), "/usr/bin/python")
    assert (old.state, old.essential) == (State.FAILS, True)
    assert "3.11" in str(old.remedy)


def test_linux_without_proc_cannot_work(machine_files: MachineFiles) -> None:
    missing = checks.process_table(machine_files)
    assert (missing.state, missing.essential) == (State.FAILS, True)
    assert "mount -t proc proc /proc" in str(missing.remedy)
    assert checks.process_table(MachineFiles(machine_files.root, 1000, "ada", "darwin")).state is State.ABSENT
    put(machine_files, "proc/self/stat", "1 (x) R")
    assert checks.process_table(machine_files).state is State.WORKS


@pytest.mark.parametrize(
    ("soft", "hard", "state", "remedy"),
    [
        (1024, 4096, "works", None),
        (-1, -1, "works", None),
        (100, 4096, "fails", "ulimit -n 4096"),
        (100, -1, "fails", "ulimit -n unlimited"),
        (100, 100, "fails", "/etc/security/limits.conf"),
    ],
)
def test_too_few_open_files_can_be_raised(soft: int, hard: int, state: str, remedy: str | None) -> None:
    found = checks.open_files(soft, hard)
    assert (found.state, found.remedy is None) == (state, remedy is None)
    assert (remedy or "") in (found.remedy or "")


@pytest.mark.parametrize(
    ("soft", "hard", "count"), [(1024, 4096, 1024), (1024, 524288, 16384), (-1, -1, 16384), (1024, -1, 16384)]
)
def test_open_files_say_how_many_processes_they_are_enough_for(soft: int, hard: int, count: int) -> None:
    assert f": {count} processes" in checks.open_files(soft, hard).meaning


@pytest.mark.parametrize(
    ("name", "state"), [("utf-8", "works"), ("UTF8", "works"), ("ANSI_X3.4-1968", "fails"), ("", "fails")]
)
def test_glyphs_need_utf8(name: str, state: str) -> None:
    found = checks.encoding(name)
    assert (found.state, found.remedy) == (state, None if state == "works" else "export LC_ALL=C.UTF-8")


def test_a_state_directory_that_can_be_written_works_also_before_it_is_made(tmp_path: Path) -> None:
    assert checks.state_directory(str(tmp_path)).state is State.WORKS
    future = tmp_path / "deep" / "state"
    found = checks.state_directory(str(future))
    assert (found.state, found.essential) == (State.WORKS, True)
    assert "first job" in found.meaning
    assert not future.parent.exists()
    assert list(tmp_path.iterdir()) == []


def test_a_state_directory_that_cannot_be_written_is_essential(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for place, reason in (("/proc", errno.ENOENT), (str(tmp_path / "file"), errno.ENOTDIR)):
        found = checks.state_directory(f"{place}/state")
        assert (found.state, found.essential) == (State.FAILS, True)
        assert found.meaning.startswith(f"{place}: {os.strerror(reason)}")
        assert f"make {place} writable" in str(found.remedy)
        assert "JOBTOP_HOME" in str(found.remedy)


def test_a_full_disk_is_found_by_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(fd: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "write", full)
    found = checks.state_directory(str(tmp_path))
    assert found.state is State.FAILS
    assert "make room" in str(found.remedy)
    assert list(tmp_path.iterdir()) == []


def test_little_room_is_found_before_it_is_used_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.statvfs(tmp_path)
    scarce = os.statvfs_result((*real[:4], MEBIBYTE // real.f_frsize, *real[5:]))
    monkeypatch.setattr(os, "statvfs", lambda _: scarce)
    found = checks.state_directory(str(tmp_path))
    assert found.state is State.FAILS
    assert "1.0 MiB" in found.meaning
    assert "make room" in str(found.remedy)
    assert str(tmp_path) in str(found.remedy)


@pytest.mark.parametrize(("mode", "state"), [(0o700, "works"), (0o750, "fails"), (0o701, "fails")])
def test_what_is_kept_is_this_user_s_only(tmp_path: Path, mode: int, state: str) -> None:
    home = tmp_path / "home"
    assert checks.privacy(str(home)).state is State.ABSENT
    home.mkdir()
    home.chmod(mode)
    found = checks.privacy(str(home))
    assert (found.state, found.essential) == (state, False)
    assert found.remedy == (None if state == "works" else f"chmod 700 {home}")


@pytest.mark.parametrize(
    ("name", "kind"),
    [("v1", "v1"), ("v2", "v2"), ("hybrid", "hybrid"), ("none", "none"), ("container", "v2"), ("container-v1", "v1")],
)
def test_the_kind_of_cgroups_is_recognised(machine_files: MachineFiles, name: str, kind: str) -> None:
    capture(name, Path(machine_files.root))
    assert checks.cgroup_kind(machine_files) == kind


def made_in(machine_files: MachineFiles, place: str, *labels: str) -> JobCgroup:
    directory = machine_files.path("sys/fs/cgroup", place, "jobtop-7")
    return JobCgroup((directory,), tuple((label, f"{directory}/{label}") for label in labels))


def test_a_job_with_a_cgroup_of_its_own_has_everything(machine_files: MachineFiles) -> None:
    capture("v2", Path(machine_files.root))
    made = made_in(machine_files, "app.slice", "cpu.stat", "memory.peak", "memory.events")
    assert set(states(checks.cgroups(machine_files, made, joined=True)).values()) == {"works"}


def test_without_cgroups_that_is_how_it_is(machine_files: MachineFiles) -> None:
    capture("none", Path(machine_files.root))
    found = checks.cgroups(machine_files, JobCgroup(problems=("none",)), joined=False)
    assert states(found)["cgroups"] == "absent"
    assert all(finding.remedy is None for finding in found)


REFUSED = JobCgroup(problems=("/sys/fs/cgroup/x: Permission denied",))
READ_ONLY = JobCgroup(problems=(f"/sys/fs/cgroup: {os.strerror(errno.EROFS)}",))


@pytest.mark.parametrize(
    ("name", "files", "made", "remedy"),
    [
        ("v2", ["run/systemd/system/x", "run/user/1000/systemd/private"], REFUSED, SCOPE),
        ("hybrid", ["run/systemd/system/x", "run/user/1000/systemd/private"], REFUSED, SCOPE),
        ("v2", ["run/systemd/system/x"], REFUSED, "as root: loginctl enable-linger ada"),
        ("v1", ["run/systemd/system/x"], REFUSED, checks.PURE_V2_REMEDY),
        ("v2", [], REFUSED, None),
        ("container", [], READ_ONLY, "docker run --security-opt writable-cgroups=true"),
        ("v1", [], REFUSED, "chown ada $D $D/cgroup.procs"),
    ],
)
def test_a_job_without_a_cgroup_of_its_own_has_a_remedy_where_there_is_one(
    machine_files: MachineFiles, name: str, files: list[str], made: JobCgroup, remedy: str | None
) -> None:
    capture(name, Path(machine_files.root))
    for file in files:
        put(machine_files, file)
    found = {finding.name: finding for finding in checks.cgroups(machine_files, made, joined=False)}
    assert found["own cgroup"].state is State.FAILS
    assert not found["own cgroup"].essential
    assert made.problems[0] in found["own cgroup"].meaning
    if remedy is None:
        assert found["own cgroup"].remedy is None
    else:
        assert remedy in str(found["own cgroup"].remedy)
    assert "cgroup memory" not in found


def test_what_is_refused_to_root_has_no_remedy(machine_files: MachineFiles) -> None:
    capture("v2", Path(machine_files.root))
    found = checks.cgroups(as_root(machine_files), REFUSED, joined=False)
    assert [finding.remedy for finding in found if finding.name == "own cgroup"] == [None]


def test_a_cgroup_that_no_job_could_enter_does_not_count(machine_files: MachineFiles) -> None:
    capture("v2", Path(machine_files.root))
    found = checks.cgroups(machine_files, made_in(machine_files, "x", "cpu.stat", "memory.events"), joined=False)
    assert "could not be moved" in {finding.name: finding.meaning for finding in found}["own cgroup"]


@pytest.mark.parametrize(
    ("controllers", "is_true_root", "user", "remedy"),
    [
        ("cpu memory", True, "root", "echo +memory > {place}/cgroup.subtree_control"),
        ("cpu memory", False, "root", "D={place}; mkdir $D/shell;"),
        ("cpu memory", False, "ada", SCOPE),
        ("cpu pids", False, "root", "cgroup_enable=memory"),
        ("cpu pids", False, "ada", SCOPE),
    ],
)
def test_a_missing_memory_controller_has_a_remedy(
    machine_files: MachineFiles, controllers: str, is_true_root: bool, user: str, remedy: str
) -> None:
    capture("container", Path(machine_files.root))
    put(machine_files, "run/user/1000/systemd/private")
    put(machine_files, "sys/fs/cgroup/cgroup.controllers", controllers)
    if not is_true_root:
        put(machine_files, "sys/fs/cgroup/cgroup.events", "populated 1\n")
    made = made_in(machine_files, ".", "cpu.stat")
    asking = as_root(machine_files) if user == "root" else machine_files
    found = {finding.name: finding for finding in checks.cgroups(asking, made, joined=True)}
    assert found["own cgroup"].state is State.WORKS
    assert found["cgroup memory"].state is State.FAILS
    assert remedy.format(place=f"{machine_files.root}/sys/fs/cgroup/.") in str(found["cgroup memory"].remedy)


def test_without_a_user_manager_a_scope_is_no_remedy(machine_files: MachineFiles) -> None:
    capture("container", Path(machine_files.root))
    put(machine_files, "sys/fs/cgroup/cgroup.controllers", "memory")
    found = checks.cgroups(machine_files, made_in(machine_files, ".", "cpu.stat"), joined=True)
    assert SCOPE not in [finding.remedy for finding in found]


@pytest.mark.parametrize("has_systemd", [True, False])
def test_memory_in_version_1_is_for_root(machine_files: MachineFiles, has_systemd: bool) -> None:
    capture("hybrid", Path(machine_files.root))
    if has_systemd:
        put(machine_files, "run/systemd/system/x")
    found = checks.cgroups(machine_files, made_in(machine_files, "unified", "cpu.stat"), joined=True)
    remedy = {finding.name: finding.remedy for finding in found}["cgroup memory"]
    assert ("unified_cgroup_hierarchy" if has_systemd else "mkdir $D") in str(remedy)


def test_oom_evidence_says_how_good_it_is(machine_files: MachineFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    capture("hybrid", Path(machine_files.root))
    put(machine_files, "sys/fs/cgroup/memory/box/shell/memory.oom_control", "oom_kill 0\n")
    assert "own cgroup" in checks.oom_evidence(machine_files, has_own=True).meaning
    around = checks.oom_evidence(machine_files, has_own=False)
    assert (around.state, "not in which job" in around.meaning) == (State.WORKS, True)
    monkeypatch.setattr(cgroup, "ambient_oom_file", lambda _: None)
    assert checks.oom_evidence(machine_files, has_own=False).state is State.ABSENT


BUILT_IN_NO = "# defaults\n[Login]\n#KillUserProcesses=no\n#KillExcludeUsers=root\n"
BUILT_IN_YES = "[Login]\n#KillUserProcesses=yes\n#KillExcludeUsers=root\n"


@pytest.mark.parametrize(
    ("files", "state"),
    [
        ({"etc/systemd/logind.conf": BUILT_IN_NO}, "works"),
        ({"etc/systemd/logind.conf": BUILT_IN_YES}, "fails"),
        ({"usr/lib/systemd/logind.conf": BUILT_IN_YES}, "fails"),
        ({"etc/systemd/logind.conf": BUILT_IN_NO + "KillUserProcesses=yes\n"}, "fails"),
        ({"etc/systemd/logind.conf": BUILT_IN_NO + "KillUserProcesses = On\n"}, "fails"),
        ({"etc/systemd/logind.conf": "[Login]\nKillUserProcesses=yes\nKillExcludeUsers=root ada\n"}, "works"),
        ({"etc/systemd/logind.conf": "[Login]\nKillUserProcesses=yes\nKillOnlyUsers=bob\n"}, "works"),
        ({"etc/systemd/logind.conf": "[Login]\nKillUserProcesses=yes\nKillOnlyUsers=bob ada\n"}, "fails"),
        (
            {
                "etc/systemd/logind.conf": "[Login]\nKillUserProcesses=no\n",
                "etc/systemd/logind.conf.d/50-kill.conf": "[Login]\nKillUserProcesses=1\n",
            },
            "fails",
        ),
        (
            {
                "usr/lib/systemd/logind.conf.d/50-kill.conf": "[Login]\nKillUserProcesses=1\n",
                "etc/systemd/logind.conf.d/50-kill.conf": "[Login]\n",
            },
            "works",
        ),
        (
            {
                "usr/lib/systemd/logind.conf.d/60-kill.conf": "[Login]\nKillUserProcesses=1\n",
                "etc/systemd/logind.conf.d/50-spare.conf": "[Login]\nKillUserProcesses=0\n",
                "etc/systemd/logind.conf.d/notes.txt": "KillUserProcesses=0\n",
            },
            "fails",
        ),
        ({}, "works"),
    ],
)
def test_logind_is_read_as_systemd_reads_it(machine_files: MachineFiles, files: dict[str, str], state: str) -> None:
    put(machine_files, "run/systemd/system/x")
    put(machine_files, "proc/self/cgroup", "0::/user.slice/user-1000.slice/session-3.scope\n")
    for path, text in files.items():
        put(machine_files, path, text)
    found = checks.logout(machine_files)
    assert found.state == state
    if state == "fails":
        assert "loginctl enable-linger" in str(found.remedy)
        assert "systemd-run --user --scope jobtop run --detach" in str(found.remedy)


def test_who_lingers_outside_a_session_is_safe_at_logout(machine_files: MachineFiles) -> None:
    assert checks.logout(machine_files).state is State.ABSENT
    put(machine_files, "run/systemd/system/x")
    put(machine_files, "etc/systemd/logind.conf", BUILT_IN_YES)
    put(machine_files, "proc/self/cgroup", "0::/user.slice/user-1000.slice/user@1000.service/app.slice/run-u1.scope\n")
    assert checks.logout(machine_files).state is State.FAILS
    put(machine_files, "var/lib/systemd/linger/ada")
    assert checks.logout(machine_files).state is State.WORKS
