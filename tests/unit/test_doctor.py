"""What the doctor finds on this machine, how it says it, and that it changes nothing."""

import errno
import json
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from jobtop.cli.verbs import doctor as verb
from jobtop.core.doctor import checks, probes
from jobtop.core.doctor.checks import Finding, MachineFiles, State
from jobtop.core.doctor.probes import TrialJob
from jobtop.core.paths import StatePaths
from jobtop.core.procfs import children
from jobtop.core.run import supervisor
from jobtop.core.run.start_problems import TOO_MANY
from jobtop.lifecycle import doctor
from jobtop.store.database import open_to_write
from jobtop.store.upkeep import inspection
from jobtop.store.upkeep.inspection import inspect
from records import HERE, call, kept_jobs, made_job
from support import Jobtop

MEBIBYTE = 1024 * 1024
SCOPE = "systemd-run --user --scope -p Delegate=yes jobtop run …"


def test_what_a_trial_showed_becomes_findings(machine_files: MachineFiles) -> None:
    good = TrialJob(None, 0.03, 3 * MEBIBYTE, True)
    assert "30ms" in probes.shim(good).meaning
    assert "3.0 MiB" in probes.shim(good).meaning
    assert "MiB" not in probes.shim(TrialJob(start_seconds=0.03)).meaning
    assert {probes.shim(good).state, probes.subreaper(good, machine_files).state} == {State.WORKS}
    bad = probes.subreaper(TrialJob(None, 0.03, None, False), machine_files)
    assert (bad.state, bad.essential, "ctypes" in str(bad.remedy)) == (State.FAILS, True, True)
    assert probes.subreaper(TrialJob(), MachineFiles(platform="darwin")).state is State.ABSENT
    broken = TrialJob("it is broken")
    assert (probes.shim(broken).state, probes.shim(broken).essential) == (State.FAILS, True)
    assert probes.subreaper(broken, machine_files).state is State.ABSENT


def cgroups_named(text: str) -> list[str]:
    return [folder for folder, _, _ in os.walk("/sys/fs/cgroup") if text in folder]


def test_a_job_can_be_started_looked_at_and_stopped_here(tmp_path: Path) -> None:
    tried = probes.run_trial_job(str(tmp_path))
    assert tried.problem is None
    assert tried.start_seconds is not None
    assert tried.private_bytes is not None
    assert 0 < tried.private_bytes < 8 * MEBIBYTE
    assert (tried.is_subreaper, tried.has_clock) == (True, True)
    assert "io" not in (tried.problems or {})
    assert tried.joined == bool(tried.made.directories) == bool(tried.cgroup_keys)
    assert {path.name for path in tmp_path.iterdir()} >= {"started", "ended"}
    assert not any(map(os.path.exists, tried.made.directories))
    assert cgroups_named(f"doctor-{os.getpid()}") == []


def test_a_job_that_cannot_be_started_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "COMMAND", ("/no/such/sleep",))
    problem = str(probes.run_trial_job(str(tmp_path)).problem)
    assert problem.startswith("/no/such/sleep ")
    assert "exec: No such file or directory" in problem


def test_a_shim_that_ends_at_once_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job_id = supervisor.new_id()
    monkeypatch.setattr(supervisor, "new_id", lambda: job_id)
    monkeypatch.setattr(supervisor, "spawn", lambda _: os.posix_spawnp("true", ["true"], os.environ))
    assert "ended before" in str(probes.run_trial_job(str(tmp_path)).problem)
    assert cgroups_named(job_id) == []


@pytest.mark.parametrize(
    ("number", "problem", "has_remedy"),
    [(errno.EACCES, os.strerror(errno.EACCES), True), (errno.EAGAIN, TOO_MANY, False)],
)
def test_a_shim_that_cannot_be_executed_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, problem: str, has_remedy: bool
) -> None:
    def refuse(arguments: list[str]) -> int:
        raise OSError(number, "refused")

    monkeypatch.setattr(supervisor, "spawn", refuse)
    tried = probes.run_trial_job(str(tmp_path))
    assert problem in str(tried.problem)
    assert (probes.shim(tried).remedy is not None) == has_remedy


def test_a_shim_that_does_not_obey_is_told_and_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "TRIAL_SECONDS", 0.05)
    monkeypatch.setattr(supervisor, "spawn", lambda _: os.posix_spawnp("sleep", ["sleep", "60"], os.environ))
    waiting = supervisor.Supervisor()
    assert "did not stop" in str(probes.check_end(waiting, TrialJob()).problem)
    probes.end_supervisor(waiting)
    with pytest.raises(ProcessLookupError):
        os.kill(waiting.pid, 0)
    waiting.close()


def test_a_shim_that_is_killed_before_it_tells_the_end_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "spawn", lambda _: os.posix_spawnp("sleep", ["sleep", "60"], os.environ))
    waiting = supervisor.Supervisor()
    os.kill(waiting.pid, signal.SIGKILL)
    assert "did not report" in str(probes.check_end(waiting, TrialJob()).problem)
    probes.end_supervisor(waiting)
    waiting.close()


def test_the_clock_of_a_missing_process_cannot_be_read() -> None:
    assert probes.can_read_clock(os.getpid())
    assert not probes.can_read_clock(2**22 + 1)


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
    monkeypatch.setattr(inspection, "STEPS_BETWEEN_CLOCK_READS", 1)
    found = inspect(paths.store, check_seconds=0)
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
    assert "damaged" in found.meaning
    assert str(damaged.store) in found.meaning


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
    monkeypatch.setattr(os, "access", lambda _, mode: not mode & os.W_OK)
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
    lines = list(verb.page(TOPICS, color=False, width=80))
    assert max(map(len, lines)) <= 80
    assert "\x1b" not in "".join(lines)
    assert lines[0] == "One"
    assert lines[1] == " ✓ a            all is well"
    assert lines[2].startswith(" – longer name  not here")
    assert lines[3].startswith(" " * 16 + "not here")
    assert sum(line.startswith(" " * 16 + "→ first do this") for line in lines) == 1
    assert "✗" in lines[-1]


def test_colours_are_for_glyphs_and_headings() -> None:
    lines = list(verb.page(TOPICS, color=True, width=80))
    assert lines[0] == "\x1b[1mOne\x1b[0m"
    assert lines[1].startswith(" \x1b[32m✓\x1b[0m a ")


@pytest.mark.parametrize(
    ("findings", "words"),
    [
        ([Finding("a", State.WORKS, "")], "Everything works"),
        ([Finding("a", State.ABSENT, "")], "Everything works"),
        ([Finding("a", State.FAILS, "")], "✗"),
        ([Finding("shim", State.FAILS, "")], "does not work"),
    ],
)
def test_the_verdict_follows_from_what_is_essential(findings: list[Finding], words: str) -> None:
    verdict = doctor.verdict(findings)
    assert words in verdict
    assert ("shim" in verdict) == any(finding.essential for finding in findings)


def test_the_doctor_answers_here_and_makes_nothing(home: Path) -> None:
    answer = call("doctor", "--json")
    assert answer.returncode == 0, answer.stdout
    findings = json.loads(answer.stdout)
    assert list(findings[0]) == ["schema_version", "topic", "name", "state", "essential", "meaning", "remedy"]
    assert {finding["name"] for finding in findings if finding["essential"]} == checks.ESSENTIAL
    assert len({finding["name"] for finding in findings}) == len(findings)
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
    assert "state directory" in answer.stdout.splitlines()[-1]


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
    before = set(children(os.getpid()))  # another test may have left one
    call("doctor")
    assert set(children(os.getpid())) <= before
    assert signal.getsignal(signal.SIGCHLD) == signal.SIG_DFL
