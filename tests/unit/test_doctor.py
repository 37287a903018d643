"""What the doctor finds on captured machines and on this one, how it says it, and that it changes nothing."""

import errno
import json
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from jobtop.cli import doctor
from jobtop.core import checks, runner, trial
from jobtop.core.checks import Finding, Machine, State
from jobtop.core.collectors import cgroup
from jobtop.core.collectors.cgroup import JobCgroup
from jobtop.core.paths import StatePaths
from jobtop.core.trial import Trial
from jobtop.store import inspection
from jobtop.store.database import open_to_write
from jobtop.store.inspection import inspect
from records import HERE, call, kept_jobs, made_job
from support import Jobtop
from trees import capture

MEBIBYTE = 1024 * 1024
SCOPE = "systemd-run --user --scope -p Delegate=yes jobtop run …"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A machine whose files are below a directory, and a user without privileges on it."""
    return Machine(str(tmp_path / "machine"), 1000, "ada", "linux")


def put(machine: Machine, path: str, text: str = "") -> None:
    file = Path(machine.path(path))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def as_root(machine: Machine) -> Machine:
    return Machine(machine.root, 0, "root", machine.platform)


def states(findings: list[Finding]) -> dict[str, str]:
    return {finding.name: str(finding.state) for finding in findings}


def test_python_has_to_be_new_enough() -> None:
    assert checks.python((3, 11, 0), "/usr/bin/python").state is State.WORKS
    old = checks.python((3, 10, 13), "/usr/bin/python")
    assert (old.state, old.essential) == (State.FAILS, True)
    assert "3.11" in str(old.remedy)


def test_linux_without_proc_cannot_work(machine: Machine) -> None:
    missing = checks.process_table(machine)
    assert (missing.state, missing.essential, missing.remedy) == (
        State.FAILS,
        True,
        "as root: mount -t proc proc /proc",
    )
    assert checks.process_table(Machine(machine.root, 1000, "ada", "darwin")).state is State.ABSENT
    put(machine, "proc/self/stat", "1 (x) R")
    assert checks.process_table(machine).state is State.WORKS


@pytest.mark.parametrize(
    ("options", "state", "words"),
    [
        ("rw", "works", "every process"),
        ("rw,hidepid=0", "works", "every process"),
        ("rw,hidepid=off", "works", "every process"),
        ("rw,hidepid=2", "fails", "hidepid=0 /proc"),
        ("rw,gid=27,hidepid=invisible", "fails", "group with number 27"),
    ],
)
def test_hidden_processes_are_a_limit_with_a_remedy(machine: Machine, options: str, state: str, words: str) -> None:
    put(machine, "proc/self/mountinfo", f"22 27 0:20 / /proc rw,relatime shared:12 - proc proc {options}\n")
    found = checks.hidden_processes(machine)
    assert found.state == state
    assert words in f"{found.meaning} {found.remedy}"
    assert checks.hidden_processes(as_root(machine)).state is State.WORKS


def test_sources_in_proc_are_there_or_not(machine: Machine) -> None:
    for check in (checks.child_lists, checks.shared_memory, checks.pressure):
        assert check(machine).state is State.ABSENT
    put(machine, "proc/self/task/77/children")
    put(machine, "proc/self/smaps_rollup", "Rss: 4 kB\nPss: 2 kB\n")
    put(machine, "proc/pressure/cpu", "some avg10=0.00 total=5\n")
    for check in (checks.child_lists, checks.shared_memory, checks.pressure):
        assert check(machine).state is State.WORKS


def test_pressure_that_was_switched_off_can_be_switched_on(machine: Machine) -> None:
    put(machine, "proc/pressure/cpu")
    found = checks.pressure(machine)
    assert (found.state, found.remedy) == (State.FAILS, "as root: boot with psi=1 on the kernel's command line")


@pytest.mark.parametrize(
    ("soft", "hard", "state", "remedy"),
    [
        (1024, 4096, "works", None),
        (-1, -1, "works", None),
        (100, 4096, "fails", "ulimit -n 4096"),
        (100, -1, "fails", "ulimit -n unlimited"),
        (100, 100, "fails", "raise nofile in /etc/security/limits.conf"),
    ],
)
def test_too_few_open_files_can_be_raised(soft: int, hard: int, state: str, remedy: str | None) -> None:
    found = checks.open_files(soft, hard)
    assert (found.state, found.remedy) == (state, remedy)


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
    assert "made by the first job" in found.meaning
    assert not future.parent.exists()
    assert list(tmp_path.iterdir()) == []


def test_a_state_directory_that_cannot_be_written_is_essential(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for place, reason in (("/proc", errno.ENOENT), (str(tmp_path / "file"), errno.ENOTDIR)):
        found = checks.state_directory(f"{place}/state")
        assert (found.state, found.essential) == (State.FAILS, True)
        assert found.meaning.startswith(f"{place}: {os.strerror(reason)}")
        assert found.remedy == f"make {place} writable, or set JOBTOP_HOME to a directory that is"


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
    assert (found.state, found.remedy) == (State.FAILS, f"make room on the file system of {tmp_path}")
    assert "1.0 MiB" in found.meaning


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
def test_the_kind_of_cgroups_is_recognised(machine: Machine, name: str, kind: str) -> None:
    capture(name, Path(machine.root))
    assert checks.cgroup_kind(machine) == kind


def made_in(machine: Machine, place: str, *labels: str) -> JobCgroup:
    directory = machine.path("sys/fs/cgroup", place, "jobtop-7")
    return JobCgroup((directory,), tuple((label, f"{directory}/{label}") for label in labels))


def test_a_job_with_a_cgroup_of_its_own_has_everything(machine: Machine) -> None:
    capture("v2", Path(machine.root))
    made = made_in(machine, "app.slice", "cpu.stat", "memory.peak", "memory.events")
    assert set(states(checks.cgroups(machine, made, joined=True)).values()) == {"works"}


def test_without_cgroups_that_is_how_it_is(machine: Machine) -> None:
    capture("none", Path(machine.root))
    found = checks.cgroups(machine, JobCgroup(problems=("none",)), joined=False)
    assert states(found)["cgroups"] == "absent"
    assert all(finding.remedy is None for finding in found)


REFUSED = JobCgroup(problems=("/sys/fs/cgroup/x: Permission denied",))
READ_ONLY = JobCgroup(problems=(f"/sys/fs/cgroup: {os.strerror(errno.EROFS)}",))


@pytest.mark.parametrize(
    ("name", "files", "made", "remedy"),
    [
        ("v2", ["run/systemd/system/x", "run/user/1000/systemd/private"], REFUSED, SCOPE),
        ("hybrid", ["run/systemd/system/x", "run/user/1000/systemd/private"], REFUSED, SCOPE),
        ("v2", ["run/systemd/system/x"], REFUSED, f"as root: loginctl enable-linger ada; log in again, then {SCOPE}"),
        ("v1", ["run/systemd/system/x"], REFUSED, f"{checks.PURE_V2}, then {SCOPE}"),
        ("v2", [], REFUSED, None),
        ("container", [], READ_ONLY, "docker run --security-opt writable-cgroups=true"),
        ("v1", [], REFUSED, "chown ada $D $D/cgroup.procs"),
    ],
)
def test_a_job_without_a_cgroup_of_its_own_has_a_remedy_where_there_is_one(
    machine: Machine, name: str, files: list[str], made: JobCgroup, remedy: str | None
) -> None:
    capture(name, Path(machine.root))
    for file in files:
        put(machine, file)
    found = {finding.name: finding for finding in checks.cgroups(machine, made, joined=False)}
    assert found["own cgroup"].state is State.FAILS
    assert not found["own cgroup"].essential
    assert made.problems[0] in found["own cgroup"].meaning
    if remedy is None:
        assert found["own cgroup"].remedy is None
    else:
        assert remedy in str(found["own cgroup"].remedy)
    assert "cgroup memory" not in found


def test_what_is_refused_to_root_has_no_remedy(machine: Machine) -> None:
    capture("v2", Path(machine.root))
    found = checks.cgroups(as_root(machine), REFUSED, joined=False)
    assert [finding.remedy for finding in found if finding.name == "own cgroup"] == [None]


def test_a_cgroup_that_no_job_could_enter_does_not_count(machine: Machine) -> None:
    capture("v2", Path(machine.root))
    found = checks.cgroups(machine, made_in(machine, "x", "cpu.stat", "memory.events"), joined=False)
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
    machine: Machine, controllers: str, is_true_root: bool, user: str, remedy: str
) -> None:
    capture("container", Path(machine.root))
    put(machine, "run/user/1000/systemd/private")
    put(machine, "sys/fs/cgroup/cgroup.controllers", controllers)
    if not is_true_root:
        put(machine, "sys/fs/cgroup/cgroup.events", "populated 1\n")
    made = made_in(machine, ".", "cpu.stat")
    asking = as_root(machine) if user == "root" else machine
    found = {finding.name: finding for finding in checks.cgroups(asking, made, joined=True)}
    assert found["own cgroup"].state is State.WORKS
    assert found["cgroup memory"].state is State.FAILS
    assert remedy.format(place=f"{machine.root}/sys/fs/cgroup/.") in str(found["cgroup memory"].remedy)


def test_without_a_user_manager_a_scope_is_no_remedy(machine: Machine) -> None:
    capture("container", Path(machine.root))
    put(machine, "sys/fs/cgroup/cgroup.controllers", "memory")
    found = checks.cgroups(machine, made_in(machine, ".", "cpu.stat"), joined=True)
    assert SCOPE not in [finding.remedy for finding in found]


@pytest.mark.parametrize("has_systemd", [True, False])
def test_memory_in_version_1_is_for_root(machine: Machine, has_systemd: bool) -> None:
    capture("hybrid", Path(machine.root))
    if has_systemd:
        put(machine, "run/systemd/system/x")
    found = checks.cgroups(machine, made_in(machine, "unified", "cpu.stat"), joined=True)
    remedy = {finding.name: finding.remedy for finding in found}["cgroup memory"]
    assert ("unified_cgroup_hierarchy" if has_systemd else "mkdir $D") in str(remedy)


def test_oom_evidence_says_how_good_it_is(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    capture("hybrid", Path(machine.root))
    put(machine, "sys/fs/cgroup/memory/box/shell/memory.oom_control", "oom_kill 0\n")
    assert "own cgroup" in checks.oom_evidence(machine, has_own=True).meaning
    around = checks.oom_evidence(machine, has_own=False)
    assert (around.state, "not whose" in around.meaning) == (State.WORKS, True)
    monkeypatch.setattr(cgroup, "ambient_oom_file", lambda _: None)
    assert checks.oom_evidence(machine, has_own=False).state is State.ABSENT


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
def test_logind_is_read_as_systemd_reads_it(machine: Machine, files: dict[str, str], state: str) -> None:
    put(machine, "run/systemd/system/x")
    put(machine, "proc/self/cgroup", "0::/user.slice/user-1000.slice/session-3.scope\n")
    for path, text in files.items():
        put(machine, path, text)
    found = checks.logout(machine)
    assert found.state == state
    if state == "fails":
        assert found.remedy == "loginctl enable-linger; then systemd-run --user --scope jobtop run --detach …"


def test_who_lingers_outside_a_session_is_safe_at_logout(machine: Machine) -> None:
    assert checks.logout(machine).state is State.ABSENT
    put(machine, "run/systemd/system/x")
    put(machine, "etc/systemd/logind.conf", BUILT_IN_YES)
    put(machine, "proc/self/cgroup", "0::/user.slice/user-1000.slice/user@1000.service/app.slice/run-u1.scope\n")
    assert checks.logout(machine).state is State.FAILS
    put(machine, "var/lib/systemd/linger/ada")
    assert checks.logout(machine).state is State.WORKS


def test_what_a_trial_showed_becomes_findings(machine: Machine) -> None:
    good = Trial(None, 0.03, 3 * MEBIBYTE, True, True, True)
    assert trial.shim(good).meaning == "a command runs after 30 ms; its supervisor holds 3.0 MiB"
    assert trial.shim(Trial(start_seconds=0.03)).meaning == "a command runs after 30 ms"
    found = [trial.shim(good), trial.subreaper(good, machine), trial.clocks(good), trial.io_counters(good)]
    assert set(states(found).values()) == {"works"}
    bad = Trial(None, 0.03, None, False, False, False)
    found = [trial.subreaper(bad, machine), trial.clocks(bad), trial.io_counters(bad)]
    assert [str(finding.state) for finding in found] == ["fails", "absent", "absent"]
    assert found[0].essential
    assert "_ctypes" in str(found[0].remedy)
    assert trial.subreaper(bad, Machine(platform="darwin")).state is State.ABSENT
    broken = Trial("it is broken")
    assert (trial.shim(broken).state, trial.shim(broken).essential) == (State.FAILS, True)
    assert trial.subreaper(broken, machine).state is State.ABSENT


def cgroups_named(text: str) -> list[str]:
    return [folder for folder, _, _ in os.walk("/sys/fs/cgroup") if text in folder]


def test_a_job_can_be_started_looked_at_and_stopped_here(tmp_path: Path) -> None:
    tried = trial.start_and_stop(str(tmp_path))
    assert tried.problem is None
    assert tried.start_seconds is not None
    assert tried.private_bytes is not None
    assert 0 < tried.private_bytes < 8 * MEBIBYTE
    assert (tried.is_subreaper, tried.has_clock, tried.has_io) == (True, True, True)
    assert tried.joined == bool(tried.made.directories)
    assert {path.name for path in tmp_path.iterdir()} >= {"started", "ended"}
    assert not any(map(os.path.exists, tried.made.directories))
    assert cgroups_named(f"doctor-{os.getpid()}") == []


def test_a_job_that_cannot_be_started_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "COMMAND", ("/no/such/sleep",))
    assert trial.start_and_stop(str(tmp_path)).problem == (
        "/no/such/sleep could not be started (exec: No such file or directory)"
    )


def test_a_shim_that_ends_at_once_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job_id = runner.new_id()
    monkeypatch.setattr(runner, "new_id", lambda: job_id)
    monkeypatch.setattr(runner, "spawn", lambda _: os.posix_spawnp("true", ["true"], os.environ))
    assert trial.start_and_stop(str(tmp_path)).problem == "it ended before it started the command"
    assert cgroups_named(job_id) == []


def test_a_shim_that_cannot_be_executed_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(arguments: list[str]) -> int:
        raise BlockingIOError(errno.EAGAIN, "too many")

    monkeypatch.setattr(runner, "spawn", refuse)
    problem = trial.start_and_stop(str(tmp_path)).problem
    assert problem == f"it cannot be executed ({os.strerror(errno.EAGAIN)})"


def test_a_shim_that_does_not_obey_is_told_and_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "PATIENCE_SECONDS", 0.05)
    monkeypatch.setattr(runner, "spawn", lambda _: os.posix_spawnp("sleep", ["sleep", "60"], os.environ))
    supervisor = runner.Supervisor()
    assert trial.check_end(supervisor, Trial()).problem == "it did not stop its job"
    trial.end(supervisor)
    with pytest.raises(ProcessLookupError):
        os.kill(supervisor.pid, 0)
    supervisor.close()


def test_a_shim_that_is_killed_before_it_tells_the_end_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "spawn", lambda _: os.posix_spawnp("sleep", ["sleep", "60"], os.environ))
    supervisor = runner.Supervisor()
    os.kill(supervisor.pid, signal.SIGKILL)
    assert trial.check_end(supervisor, Trial()).problem == "it did not tell how its job ended"
    trial.end(supervisor)
    supervisor.close()


def test_the_clock_of_nobody_cannot_be_read() -> None:
    assert trial.can_read_clock(os.getpid())
    assert not trial.can_read_clock(2**22 + 1)


def test_a_sound_store_says_what_it_holds(tmp_path: Path) -> None:
    paths = StatePaths(tmp_path, HERE)
    kept_jobs(tmp_path, made_job())
    found = inspect(paths.store)
    assert (found.problem, found.jobs, found.is_sound) == (None, 1, True)
    assert found.size_bytes > 0
    assert doctor.history(paths).state is State.WORKS
    assert doctor.history(paths).meaning.startswith("1 job in ")


def test_a_check_that_takes_too_long_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = StatePaths(tmp_path, HERE)
    open_to_write(paths).close()
    monkeypatch.setattr(inspection, "STEPS_BETWEEN_LOOKS", 1)
    found = inspect(paths.store, patience_seconds=0)
    assert (found.problem, found.is_sound) == (None, None)


def test_a_store_that_is_none_is_told(tmp_path: Path) -> None:
    (tmp_path / f"{HERE}.db").write_bytes(b"not a database, not at all" * 100)
    found = doctor.history(StatePaths(tmp_path, HERE))
    assert (found.state, found.essential) == (State.FAILS, True)
    assert "not a database" in found.meaning
    assert "damaged-" in str(found.remedy)


@pytest.fixture
def damaged(tmp_path: Path) -> StatePaths:
    """A store with one job, and a page of rubbish in a table that is not jobs."""
    paths = StatePaths(tmp_path, HERE)
    kept_jobs(tmp_path, made_job())
    connection = sqlite3.connect(paths.store)
    connection.execute("PRAGMA journal_mode = DELETE")
    connection.execute("CREATE TABLE filler (x)")
    connection.executemany("INSERT INTO filler VALUES (?)", [(bytes(900),)] * 40)
    connection.commit()
    page = connection.execute("PRAGMA page_size").fetchone()[0]
    root = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'filler'").fetchone()[0]
    connection.close()
    with paths.store.open("r+b") as file:
        file.seek((root - 1) * page)
        file.write(b"\xff" * page)
    return paths


def test_damage_inside_a_store_is_found(damaged: StatePaths) -> None:
    found = doctor.history(damaged)
    assert (found.state, found.essential) == (State.FAILS, True)
    assert found.meaning.startswith(f"damaged: {damaged.store}")


def test_the_remedy_for_a_damaged_store_is_one(damaged: StatePaths) -> None:
    before = damaged.store.read_bytes()
    subprocess.run(["sh", "-c", str(doctor.history(damaged).remedy)], check=True)
    kept_jobs(damaged.root, made_job())
    assert doctor.history(damaged).state is State.WORKS
    assert (damaged.root / f"damaged-{damaged.store.name}").read_bytes() == before


def test_a_store_of_a_newer_jobtop_is_told(tmp_path: Path) -> None:
    paths = StatePaths(tmp_path, HERE)
    open_to_write(paths).close()
    with sqlite3.connect(paths.store) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    assert "upgrade jobtop" in doctor.history(paths).meaning


def test_a_store_that_can_only_be_read_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = StatePaths(tmp_path, HERE)
    open_to_write(paths).close()
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert doctor.history(paths).remedy == f"chmod u+w {paths.store}"


def test_jobs_that_wait_to_be_recorded_are_told(tmp_path: Path) -> None:
    paths = StatePaths(tmp_path, HERE)
    assert doctor.unrecorded(paths).state is State.WORKS
    paths.unrecorded.mkdir()
    (paths.unrecorded / "7.json").write_text("{}")
    found = doctor.unrecorded(paths)
    assert (found.state, found.meaning.split()[0]) == (State.FAILS, "1")


TOPICS = {
    "One": [Finding("a", State.WORKS, "all is well"), Finding("longer name", State.ABSENT, "not here " * 12)],
    "Two": [Finding("c", State.FAILS, f"/{'x' * 90}: \x1b[31mno", "first do this, " * 6)],
}


def test_a_page_fits_eighty_columns_and_shows_nothing_harmful() -> None:
    lines = list(doctor.page(TOPICS, color=False, width=80))
    assert max(map(len, lines)) <= 80
    assert "\x1b" not in "".join(lines)
    assert lines[0] == "One"
    assert lines[1] == " ✓ a            all is well"
    assert lines[2].startswith(" – longer name  not here")
    assert lines[3].startswith(" " * 16 + "not here")
    assert sum(line.startswith(" " * 16 + "→ first do this") for line in lines) == 1
    assert lines[-1] == "jobtop works here, with the limits marked ✗."


def test_colours_are_for_glyphs_and_headings() -> None:
    lines = list(doctor.page(TOPICS, color=True, width=80))
    assert lines[0] == "\x1b[1mOne\x1b[0m"
    assert lines[1].startswith(" \x1b[32m✓\x1b[0m a ")


@pytest.mark.parametrize(
    ("findings", "words"),
    [
        ([Finding("a", State.WORKS, "")], "Everything works."),
        ([Finding("a", State.ABSENT, "")], "Everything works."),
        ([Finding("a", State.FAILS, "")], "jobtop works here, with the limits marked ✗."),
        ([Finding("shim", State.FAILS, "")], "jobtop cannot do its work here: shim."),
    ],
)
def test_the_verdict_follows_from_what_is_essential(findings: list[Finding], words: str) -> None:
    assert doctor.verdict(findings) == words


def test_the_doctor_answers_here_and_makes_nothing(home: Path) -> None:
    answer = call("doctor", "--json")
    assert answer.returncode == 0, answer.stdout
    findings = json.loads(answer.stdout)
    assert list(findings[0]) == ["schema_version", "topic", "name", "state", "essential", "meaning", "remedy"]
    assert {finding["name"] for finding in findings if finding["essential"]} == checks.ESSENTIAL
    assert {finding["state"] for finding in findings} <= {"works", "fails", "absent"}
    assert all(finding["remedy"] is None for finding in findings if finding["state"] == "works")
    assert not home.exists()


@pytest.mark.parametrize(("style", "count"), [("jsonl", None), ("csv", 1)])
def test_the_doctor_speaks_every_format(home: Path, style: str, count: int | None) -> None:
    lines = call("doctor", "--format", style).stdout.splitlines()
    assert len(lines) == len(json.loads(call("doctor", "--json").stdout)) + (count or 0)


def test_something_essential_that_fails_is_exit_code_1(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOBTOP_HOME", "/proc/nowhere")
    answer = call("doctor")
    assert answer.returncode == 1
    assert answer.stdout.splitlines()[-1] == "jobtop cannot do its work here: state directory."


def test_a_user_without_privileges_can_ask_the_doctor(unprivileged: Jobtop) -> None:
    answer = unprivileged("doctor")
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert max(map(len, answer.stdout.splitlines())) <= 80
    assert "✓ shim" in answer.stdout
    assert "✓ child subreaper" in answer.stdout
    assert answer.stderr == ""


def test_who_asks_has_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    import pwd

    assert doctor.user_name() == pwd.getpwuid(os.geteuid()).pw_name
    monkeypatch.setattr(os, "geteuid", lambda: 2**31 - 7)
    assert doctor.user_name() == str(2**31 - 7)


def test_the_doctor_does_not_die_of_a_terminal_without_utf8(jobtop: Jobtop) -> None:
    answer = jobtop("doctor", env={"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
    assert answer.returncode == 0, answer.stderr
    assert "LC_ALL=C.UTF-8" in answer.stdout
    assert sys.executable in answer.stdout


def test_nothing_of_the_doctor_s_trial_is_left(home: Path) -> None:
    call("doctor")
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)
    assert signal.getsignal(signal.SIGCHLD) == signal.SIG_DFL
