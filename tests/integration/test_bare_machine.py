"""Where a part of the machine is missing or used up, one line names it and the remedy, and nothing crashes."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from support import Jobtop, require, wait_for
from unprivileged import NO_AGENT

LONELY = 4243  # a user that has no other processes
PARTS = {"/proc": "mount -t proc", "/dev/null": "mknod"}


def without(jobtop: Jobtop, part: str) -> Jobtop:
    """The same jobtop where a directory of the machine is empty."""
    if shutil.which("unshare") is None:
        require("namespaces", "unshare (util-linux) is not installed")
    directory = "/proc" if part == "/proc" else "/dev"
    script = f'mount -t tmpfs tmpfs {directory} && exec "$@"'
    prefix = ("unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh")
    probe = subprocess.run([*prefix, "ls", directory], capture_output=True, text=True)
    if (probe.returncode, probe.stdout) != (0, ""):
        require("namespaces", f"nothing can be mounted here: {probe.stderr}")
    return replace(jobtop, prefix=(*prefix, *jobtop.prefix))


def one_line(text: str, *words: str) -> bool:
    return text.count("\n") == 1 and "bug in jobtop" not in text and all(word in text for word in words)


@pytest.mark.usefixtures("root")
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("options", [[], ["--detach"]])
def test_run_says_which_part_of_the_machine_is_missing(jobtop: Jobtop, part: str, options: list[str]) -> None:
    done = without(jobtop, part)("run", *options, "--", "touch", "it-ran")
    assert (done.returncode, one_line(done.stderr, part, PARTS[part])) == (125, True), done.stderr
    assert not (jobtop.home / "it-ran").exists()


@pytest.mark.usefixtures("root")
@pytest.mark.parametrize("part", PARTS)
def test_the_doctor_prints_its_rows_and_the_remedy(jobtop: Jobtop, part: str) -> None:
    done = without(jobtop, part)("doctor", "--json")
    assert (done.returncode, done.stderr) == (1, "")
    found = {row["name"]: row for row in json.loads(done.stdout)}
    assert (found[part]["state"], found["shim"]["state"], found["open files"]["state"]) == ("fails", "fails", "works")
    assert PARTS[part] in found[part]["remedy"]
    assert without(jobtop, part)("doctor").returncode == 1


@pytest.mark.usefixtures("root")
@pytest.mark.parametrize("part", PARTS)
def test_verbs_that_only_read_do_without(jobtop: Jobtop, part: str) -> None:
    assert jobtop("run", "--quiet", "--name", "kept", "--", "true").returncode == 0
    done = without(jobtop, part)("history")
    assert (done.returncode, done.stderr, "kept" in done.stdout) == (0, "", True)


@pytest.fixture
def crowded(unprivileged: Jobtop) -> Jobtop:
    """jobtop as a user who may not start another process."""
    if shutil.which("prlimit") is None:
        require("unprivileged", "prlimit (util-linux) is not installed")
    return replace(unprivileged, prefix=(*unprivileged.prefix, "prlimit", "--nproc=1:1"))


@pytest.mark.usefixtures("root")
@pytest.mark.parametrize("words", [["run"], ["run", "--detach"], ["run", "--pty"]])
def test_a_limit_on_processes_is_named_with_the_remedy(crowded: Jobtop, words: list[str]) -> None:
    done = crowded(*words, "--", "touch", "it-ran")
    assert (done.returncode, one_line(done.stderr, "processes", "ulimit -u", "pids.max")) == (125, True), done.stderr
    assert not (crowded.home / "it-ran").exists()


@pytest.mark.usefixtures("root")
def test_submit_at_a_limit_on_processes_queues_the_job_and_says_that_no_agent_starts_it(crowded: Jobtop) -> None:
    done = crowded("submit", "--", "touch", "it-ran")
    assert (done.returncode, one_line(done.stderr, "agent start", "ulimit -u", "pids.max")) == (0, True), done.stderr
    (job,) = json.loads(crowded("history", "--json").stdout)
    assert (job["id"], job["status"]) == (done.stdout.strip(), "queued")


def processes_of_user(uid: int) -> list[str]:
    """Those that count for a limit, zombies too."""
    entries = [entry for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    owners = {entry.name: owner_of(entry) for entry in entries}
    return [pid for pid, owner in owners.items() if owner == uid]


def owner_of(entry: Path) -> int | None:
    try:
        return entry.stat().st_uid
    except OSError:
        return None


RUNS = "import time; open('ran', 'w').close(); time.sleep(0.5); raise SystemExit(7)"


@pytest.mark.usefixtures("root")
def test_a_job_that_runs_keeps_its_exit_code_whatever_the_limit(unprivileged: Jobtop) -> None:
    """Somewhere between no process and enough the job can run and the threads that sample it cannot."""
    os.chown(unprivileged.home, LONELY, LONELY)
    dropped = [word.replace(str(NO_AGENT), str(LONELY)) for word in unprivileged.prefix]
    codes = []
    for limit in range(2, 9):
        wait_for(lambda: not processes_of_user(LONELY), deadline=30)
        lonely = replace(unprivileged, prefix=(*dropped, "prlimit", f"--nproc={limit}:{limit}"))
        (unprivileged.home / "ran").unlink(missing_ok=True)
        done = lonely("run", "--quiet", "--", unprivileged.python, "-I", "-S", "-c", RUNS)
        did_run = (unprivileged.home / "ran").exists()
        codes.append(done.returncode)
        assert done.returncode == (7 if did_run else 125), (limit, done.stderr)
        assert "bug in jobtop" not in done.stderr
    assert set(codes) == {7, 125}


@pytest.fixture
def sleeper(unprivileged: Jobtop) -> Iterator[int]:
    with subprocess.Popen([*unprivileged.prefix, "sleep", "60"]) as process:
        yield process.pid
        process.kill()


@pytest.mark.usefixtures("root")
def test_attach_names_the_limit_too(crowded: Jobtop, sleeper: int) -> None:
    done = crowded("attach", str(sleeper))
    assert (done.returncode, one_line(done.stderr, "agent", "pids.max")) == (125, True), done.stderr


@pytest.mark.usefixtures("root")
def test_the_doctor_names_the_limit(crowded: Jobtop) -> None:
    found = {row["name"]: row for row in json.loads(crowded("doctor", "--json").stdout)}
    assert (found["shim"]["state"], "pids.max" in found["shim"]["meaning"]) == ("fails", True)
