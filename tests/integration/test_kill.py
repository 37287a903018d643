"""`kill -9` of any part of jobtop: the job runs once and to its end, and what it was is still known."""

import os
import random
import signal
import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from running import (
    CGROUPS,
    PYTHON,
    Run,
    cgroups_of,
    children,
    ended,
    is_alive,
    is_waiting_on_a_pipe,
    log_file,
    nothing_is_left,
    pids_in,
    processes_of,
    running,
    show,
    state,
)
from support import Jobtop, require, wait_for

__all__ = ["nothing_is_left"]

LIVELY = """
import os, sys, time
directory, seconds = sys.argv[1], float(sys.argv[2])
with open(directory + "/began", "a") as file:
    file.write(f"{os.getpid()}\\n")
until, line = time.monotonic() + seconds, 0
while time.monotonic() < until:
    for _ in range(20):
        os.write(1, b"out %06d\\n" % line)
        os.write(2, b"err %06d\\n" % line)
        line += 1
    spun = time.process_time() + 0.004
    while time.process_time() < spun: pass
    time.sleep(0.004)
with open(directory + "/report", "w") as file:
    file.write(f"{line} {time.process_time()}")
os._exit(7)
"""


def expected_lines(word: str, count: int) -> bytes:
    return b"".join(b"%s %06d\n" % (word.encode(), number) for number in range(count))


@pytest.mark.parametrize(
    ("seconds", "moments", "at_once"), [(0.8, 8, 8), pytest.param(3.0, 50, 5, marks=pytest.mark.soak)]
)
def test_a_job_outlives_the_kill_of_run_at_any_moment(
    jobtop: Jobtop, tmp_path: Path, seconds: float, moments: int, at_once: int
) -> None:
    script = tmp_path / "lively.py"
    script.write_text(LIVELY)
    for first in range(0, moments, at_once):
        kill_a_batch(jobtop, script, seconds, [f"job-{first + number}" for number in range(at_once)])


def kill_a_batch(jobtop: Jobtop, script: Path, seconds: float, names: list[str]) -> None:
    """Start a lively job for each name, kill each run at its own moment of the job's life, and check all of them."""
    folders = {name: jobtop.home / name for name in names}
    with ExitStack() as stack:
        runs = []
        for name, folder in folders.items():
            folder.mkdir()
            command = (sys.executable, "-I", "-S", str(script), str(folder), str(seconds))
            runs.append(stack.enter_context(running(jobtop, "--quiet", "--", *command, reference=name)))
        pending: dict[Run, float | None] = dict.fromkeys(runs)
        while pending:
            for run, moment in list(pending.items()):
                if moment is None and pids_in(folders[run.reference] / "began"):
                    pending[run] = time.monotonic() + random.uniform(0, seconds)
                elif moment is not None and time.monotonic() >= moment:
                    run.send(signal.SIGKILL)
                    del pending[run]
            time.sleep(0.001)
        for run in runs:
            check_whole(run, folders[run.reference], run.outputs())
        killed = [run for run in runs if run.end() == -signal.SIGKILL]
        assert len(killed) > len(runs) / 2


def check_whole(run: Run, folder: Path, streams: tuple[bytes, bytes]) -> None:
    """The job ran once, to its end; all of its output went to the log and to the reader; the next verb knows it."""
    record = ended(run.jobtop, run.reference)
    assert len(pids_in(folder / "began")) == 1
    count, cpu_seconds = (folder / "report").read_text().split()
    for word, stream, passed_on in (("out", "stdout", streams[0]), ("err", "stderr", streams[1])):
        everything = expected_lines(word, int(count))
        assert log_file(run.jobtop, record, stream).read_bytes() == everything
        assert passed_on == everything
    assert (record["status"], record["exit_code"], record["signal"]) == ("failed", 7, None)
    assert record["pid"] == pids_in(folder / "began")[0]
    measured = record["resource_usage"]["cpu_total_seconds"]
    assert measured == pytest.approx(float(cpu_seconds), rel=0.01, abs=0.02)


def test_a_job_of_an_unprivileged_user_outlives_the_kill_of_run(unprivileged: Jobtop) -> None:
    folder = unprivileged.home / "job"
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    script = folder / "lively.py"
    script.write_text(LIVELY)
    command = (unprivileged.python, "-I", "-S", str(script), str(folder), "0.5")
    with running(unprivileged, "--quiet", "--", *command) as run:
        run.until(lambda: pids_in(folder / "began"))
        run.send(signal.SIGKILL)
        check_whole(run, folder, run.outputs())


@pytest.mark.parametrize("rounds", [8, pytest.param(100, marks=pytest.mark.soak)])
def test_a_run_killed_while_it_starts_runs_its_job_once_or_never(jobtop: Jobtop, tmp_path: Path, rounds: int) -> None:
    began = time.monotonic()
    assert jobtop("run", "--quiet", "--", "true").returncode == 0
    whole = time.monotonic() - began
    with inside_own_cgroup() as (prefix, cgroup_roots):
        for number in range(rounds):
            ran = tmp_path / f"ran-{number}"
            name = f"job-{number}"
            with running(jobtop, "--", "sh", "-c", f"echo $$ >> {ran}", reference=name, prefix=prefix) as run:
                time.sleep(random.uniform(0, whole))
                run.send(signal.SIGKILL)
                run.outputs()
            wait_for(lambda: not processes_of(jobtop), 10)
            check_once_or_never(jobtop, name, len(pids_in(ran)))
            left = [str(path) for root in cgroup_roots for path in root.rglob("jobtop-*")]
            assert not left, f"round {number}"


def check_once_or_never(jobtop: Jobtop, name: str, times: int) -> None:
    shown = jobtop("show", name, "--json")
    if times == 0 and shown.returncode == 2:
        return
    record = show(jobtop, name)
    if times:
        assert (times, record["status"], record["exit_code"]) == (1, "success", 0)
    else:
        assert record["status"] == "running"
        as_if_submitted_earlier(jobtop, name, 11)
        record = show(jobtop, name)
        assert (record["status"], record["exit_code"]) == ("error", None)


def as_if_submitted_earlier(jobtop: Jobtop, name: str, seconds: float) -> None:
    """Only a job that has not started within ten seconds is given up: move its submission instead of waiting."""
    with store(jobtop) as connection:
        connection.execute("UPDATE jobs SET submitted_at = submitted_at - ? WHERE external_id = ?", (seconds, name))


@contextmanager
def store(jobtop: Jobtop) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(next(jobtop.state.glob("*.db")), isolation_level=None, timeout=30)
    try:
        yield connection
    finally:
        connection.close()


@contextmanager
def inside_own_cgroup() -> Iterator[tuple[tuple[str, ...], list[Path]]]:
    """A prefix that puts a command into new cgroups, so that all it makes there is below them; none if not allowed."""
    roots = []
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        mounted = {"": "unified" if (CGROUPS / "unified").is_dir() else ""}.get(controllers, controllers)
        root = CGROUPS / mounted / path.lstrip("/") / f"tests-{os.getpid()}"
        if controllers in ("", "memory") and os.access(root.parent, os.W_OK):
            root.mkdir()
            roots.append(root)
    joining = "".join(f"echo $$ > {root}/cgroup.procs; " for root in roots)
    try:
        yield ("sh", "-c", joining + 'exec "$@"', "sh"), roots
    finally:
        for root in roots:
            for folder in sorted(root.rglob("jobtop-*"), reverse=True):
                folder.rmdir()
            wait_for(lambda root=root: not (root / "cgroup.procs").read_text() and rmdir(root), 5)  # type: ignore[misc]


def rmdir(path: Path) -> bool:
    try:
        path.rmdir()
    except OSError:
        return False
    return True


def test_a_run_killed_before_the_store_took_its_job_runs_nothing(jobtop: Jobtop, tmp_path: Path) -> None:
    assert jobtop("run", "--quiet", "--", "true").returncode == 0
    with store(jobtop) as connection, running(jobtop, "--", "touch", str(tmp_path / "ran")) as run:
        connection.execute("BEGIN IMMEDIATE")
        shim = wait_until_it_waits_for_the_store(run, jobtop, jobs=2)
        run.send(signal.SIGKILL)
        assert run.outputs() == (b"", b"")
        wait_for(lambda: not is_alive(shim), 10)
    assert jobtop("show", "the-job").returncode == 2
    assert not (tmp_path / "ran").exists()


def wait_until_it_waits_for_the_store(run: Run, jobtop: Jobtop, jobs: int) -> int:
    """The pid of the shim of a run that has made its job's directory but cannot write the store."""
    shim = run.shim()
    wait_for(lambda: len(list((jobtop.state / "specs").glob("*.json"))) == jobs, 10)
    return shim


@contextmanager
def told_but_not_begun(jobtop: Jobtop, *command: str) -> Iterator[tuple[Run, int]]:
    """A run that kept its job and told its shim, and a shim that stands still before it hears that."""
    assert jobtop("run", "--quiet", "--", "true").returncode == 0
    with store(jobtop) as connection:
        connection.execute("BEGIN IMMEDIATE")
        with running(jobtop, "--", *command) as run:
            shim = wait_until_it_waits_for_the_store(run, jobtop, jobs=2)
            wait_for(lambda: is_waiting_on_a_pipe(shim), 10)
            os.kill(shim, signal.SIGSTOP)
            wait_for(lambda: state(shim) == "T", 10)
            connection.execute("ROLLBACK")
            wait_for(lambda: jobtop("show", "the-job").returncode == 0, 10)
            wait_for(lambda: is_waiting_on_a_pipe(run.pid), 10)
            yield run, shim


def test_a_job_told_to_its_shim_runs_once_though_run_was_killed_before_it_began(jobtop: Jobtop, tmp_path: Path) -> None:
    with told_but_not_begun(jobtop, "sh", "-c", f"echo $$ >> {tmp_path}/ran; echo done; exit 3") as (run, shim):
        run.send(signal.SIGKILL)
        run.end()
        os.kill(shim, signal.SIGCONT)
        run.outputs()
        record = ended(jobtop, "the-job")
    assert len(pids_in(tmp_path / "ran")) == 1
    assert (record["status"], record["exit_code"]) == ("failed", 3)
    assert log_file(jobtop, record).read_bytes() == b"done\n"


def test_a_job_that_never_began_is_an_error_once_its_time_to_begin_is_over(jobtop: Jobtop, tmp_path: Path) -> None:
    with told_but_not_begun(jobtop, "touch", str(tmp_path / "ran")) as (run, shim):
        run.send(signal.SIGKILL)
        run.end()
        os.kill(shim, signal.SIGKILL)
        assert show(jobtop, "the-job")["status"] == "running"
        as_if_submitted_earlier(jobtop, "the-job", 11)
        record = show(jobtop, "the-job")
    assert record["status"] == "error"
    assert "before it could start" in record["reason"]
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("rounds", [4, pytest.param(60, marks=pytest.mark.soak)])
def test_a_job_whose_shim_is_killed_is_lost_and_run_says_so_in_one_line(jobtop: Jobtop, rounds: int) -> None:
    for number in range(rounds):
        name = f"job-{number}"
        with running(jobtop, "--quiet", "--", "sh", "-c", "echo begun; exec sleep 60", reference=name) as run:
            run.reads(b"begun")
            (main,) = children(run.shim())
            try:
                os.kill(run.shim(), signal.SIGKILL)
                _, err = run.outputs(10)
                assert run.end() == 125
                assert err.count(b"\n") == 1
                assert err.startswith(b"jobtop: ")
                assert b"supervisor" in err
                record = show(jobtop, name)
                assert record["status"] == "lost"
                assert "supervisor died" in record["reason"]
                assert record["exit_code"] is None
            finally:
                os.kill(main, signal.SIGKILL)
        wait_for(lambda main=main: not is_alive(main), 10)  # type: ignore[misc]
        assert show(jobtop, name)["status"] == "lost"


def test_a_job_whose_run_and_shim_are_killed_is_lost_to_the_next_verb(jobtop: Jobtop) -> None:
    with running(jobtop, "--", "sh", "-c", "echo begun; exec sleep 60") as run:
        run.reads(b"begun")
        shim = run.shim()
        (main,) = children(shim)
        run.send(signal.SIGKILL)
        os.kill(shim, signal.SIGKILL)
        run.outputs(10)
        waited = jobtop("wait", "the-job", timeout=20)
        assert waited.returncode == 1
        assert show(jobtop, "the-job")["status"] == "lost"
        os.kill(main, signal.SIGKILL)
        wait_for(lambda: not is_alive(main), 10)
    assert jobtop("history").returncode == 0


def test_what_a_lost_job_has_used_is_known_from_its_cgroup(root: None, jobtop: Jobtop) -> None:
    burn = "import time\nwhile time.process_time() < 0.3: pass\nprint(time.process_time(), flush=True)\ntime.sleep(60)"
    with running(jobtop, "--quiet", "--", *PYTHON, burn) as run:
        assert run.process.stdout
        cpu_seconds = float(run.process.stdout.readline())
        (main,) = children(run.shim())
        had_cgroup = bool(cgroups_of(jobtop))
        os.kill(run.shim(), signal.SIGKILL)
        try:
            run.outputs(10)
            record: dict[str, Any] = show(jobtop, "the-job")
        finally:
            os.kill(main, signal.SIGKILL)
            wait_for(lambda: not is_alive(main), 10)
    assert show(jobtop, "the-job")["status"] == "lost"
    if not had_cgroup:
        require("cgroup", "no cgroup can be made here")
    assert record["sources"]["cpu"] == "cgroup"
    assert record["resource_usage"]["cpu_total_seconds"] == pytest.approx(cpu_seconds, rel=0.01, abs=0.02)
    assert record["incomplete"]
