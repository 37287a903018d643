"""Jobs under the shim, seen from its side: what it starts, tells, keeps, passes on and ends."""

import errno
import os
import resource
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jobtop.core.measure.collectors import cgroup
from jobtop.core.procfs import descendants, stat_fields
from jobtop.core.record import replace
from jobtop.core.run import scope
from jobtop.core.run.facts import Facts
from jobtop.core.run.supervisor import Supervisor, Terminal
from jobtop.core.shim import logs, system_calls
from shims import Begin, Supervised
from shims import begin as begin
from support import wait_for

IGNORE_TERM = "trap '' TERM; echo ready; while :; do sleep 60 & wait; done"


@pytest.fixture(autouse=True)
def warnings() -> Iterator[None]:
    """Each test can cause the one warning of a shim."""
    system_calls.warnings.clear()
    yield
    system_calls.warnings.clear()


def status(told: Facts) -> int:
    """The exit code, or minus the signal."""
    return os.waitstatus_to_exitcode(told.integer("status"))


def log(job: Supervised, name: str = "stdout") -> str:
    assert job.directory is not None
    return (job.directory / f"{name}.log").read_text()


def is_ready(job: Supervised) -> None:
    wait_for(lambda: "ready" in log(job))


def test_a_shim_tells_and_keeps_the_start_and_the_end(begin: Begin) -> None:
    job = begin("sh", "-c", "exit 7")
    assert job.begun is not None
    assert job.directory is not None
    assert Facts((job.directory / "started").read_text()) == job.begun
    assert job.begun["shim"].startswith(f"{job.supervisor.pid} ")
    assert job.begun["subreaper"] == "1"
    told = job.hear()
    job.reap()
    assert Facts((job.directory / "ended").read_text()) == told
    assert (status(told), told["final"], told["left"]) == (7, "1", "0")
    assert told.moment("start") <= told.moment("end") <= told.moment("last")
    assert not (job.directory / "ended.new").exists()


@pytest.mark.parametrize(
    ("script", "expected"), [("exit 0", 0), ("exit 137", 137), ("kill -9 $$", -9), ("kill -SEGV $$", -11)]
)
def test_the_raw_status_tells_a_code_from_a_signal(begin: Begin, script: str, expected: int) -> None:
    assert status(begin("sh", "-c", script).end()) == expected


def test_everything_below_is_counted_daemons_included(begin: Begin, tmp_path: Path) -> None:
    daemon = "(setsid sh -c 'echo $$ > daemon; i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done' &) ; true"
    told = begin("sh", "-c", daemon, after_exit="wait").end()
    assert (tmp_path / "daemon").exists()
    assert told.integer("reaped") >= 2
    assert told.integer("seen") >= told.integer("reaped")
    assert told.number("utime") + told.number("stime") > 0
    assert told.integer("maxrss") > 0


def test_output_goes_to_the_caller_and_to_the_logs(begin: Begin, capfd: pytest.CaptureFixture[str]) -> None:
    job = begin("sh", "-c", "echo out; echo err >&2")
    told = job.end()
    assert capfd.readouterr() == ("out\n", "err\n")
    assert (log(job, "stdout"), log(job, "stderr")) == ("out\n", "err\n")
    assert told.every("log") == ["4", "4"]


def test_a_detached_job_writes_to_its_logs_only_and_reads_nothing(
    begin: Begin, capfd: pytest.CaptureFixture[str]
) -> None:
    job = begin("sh", "-c", "cat; echo out; echo err >&2", detached=True)
    assert status(job.end()) == 0
    assert capfd.readouterr() == ("", "")
    assert (log(job, "stdout"), log(job, "stderr")) == ("out\n", "err\n")


def test_marks_say_how_long_the_logs_were_when(begin: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "MARK_SECONDS", ((float("inf"), 0.02),))
    job = begin("sh", "-c", "echo one; sleep 0.3; echo two >&2")
    job.end()
    assert job.directory is not None
    marks = [line.split() for line in (job.directory / "marks").read_text().splitlines()]
    assert [row[1:] for row in marks] == [["4", "0"], ["4", "4"]]
    assert float(marks[0][0]) < float(marks[1][0])


def test_a_job_without_a_directory_runs_all_the_same(begin: Begin, capfd: pytest.CaptureFixture[str]) -> None:
    told = begin("sh", "-c", "echo out; exit 3", directory=None).end()
    assert (status(told), capfd.readouterr().out) == (3, "out\n")
    assert told.every("log") == []


def test_a_directory_that_cannot_be_written_is_said_once_and_the_job_runs(
    begin: Begin, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    told = begin("true", directory=tmp_path / "file").end()
    assert status(told) == 0
    assert "complained" in told
    assert capfd.readouterr().err.count("jobtop:") == 1


def test_a_detached_job_without_logs_still_runs(begin: Begin) -> None:
    assert status(begin("sh", "-c", "echo lost", detached=True, directory=None).end()) == 0


def test_a_job_that_was_begun_is_never_begun_again(begin: Begin, tmp_path: Path) -> None:
    first = begin("sh", "-c", "echo ran >> ran")
    first.end()
    second = begin("sh", "-c", "echo ran >> ran")
    assert second.begun is None
    second.reap()
    assert (tmp_path / "ran").read_text() == "ran\n"


def test_a_shim_whose_caller_leaves_without_a_word_leaves_too(
    begin: Begin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin("true").end()
    early = tmp_path / "jobtop-early"
    early.mkdir()
    monkeypatch.setattr(cgroup, "possible_directories", lambda _: [str(early)])
    supervisor = Supervisor()
    supervisor.close()
    assert supervisor.receive() is None
    os.close(supervisor.status_read)
    assert not early.exists(), "a cgroup that stays empty has to be removed"


@pytest.mark.parametrize("is_killed", [False, True])
def test_an_order_can_be_begun_before_it_is_known_so_that_the_shim_is_known_to_be_up(
    begin: Begin, monkeypatch: pytest.MonkeyPatch, is_killed: bool
) -> None:
    asked: list[tuple[int, bool]] = []

    def make(*about: Any) -> cgroup.JobCgroup:
        if is_killed:
            os.kill(supervisor.pid, signal.SIGKILL)
            os.waitpid(supervisor.pid, 0)
        before = time.monotonic()
        asked.append((about[-1](), time.monotonic() - before < 1.0))
        return cgroup.JobCgroup()

    monkeypatch.setattr(scope, "make", make)
    spec = replace(begin("sh", "-c", "exit 3", directory=None).spec, hold_cpus=0.5)
    monkeypatch.setattr(cgroup, "make", lambda *_, **__: cgroup.JobCgroup())
    supervisor = Supervisor()
    begun = supervisor.begin(spec, None, with_cgroup=True, with_stdin=False)
    assert asked == [(supervisor.pid, True)]
    assert (begun is None) == is_killed
    if not is_killed:
        ended = supervisor.receive()
        assert ended is not None
        assert status(ended) == 3
        supervisor.wait(5.0)
    os.close(supervisor.status_read)


def test_a_shim_that_was_killed_is_not_waited_for(begin: Begin) -> None:
    begin("true").end()
    supervisor = Supervisor()
    os.kill(supervisor.pid, signal.SIGKILL)
    os.waitpid(supervisor.pid, 0)
    spec = begin("true", directory=None).spec
    assert supervisor.begin(spec, None, with_cgroup=False, with_stdin=False) is None
    os.close(supervisor.status_read)


@pytest.mark.parametrize(
    ("command", "stage", "number"),
    [
        (("no-such-program-at-all",), "exec", errno.ENOENT),
        (("./missing",), "exec", errno.ENOENT),
        (("",), "exec", errno.ENOENT),
        (("./text",), "exec", errno.EACCES),
        (("/",), "exec", errno.EACCES),
        (("./broken",), "interpreter", errno.ENOENT),
    ],
)
def test_a_command_that_cannot_be_executed_is_told_with_its_reason(
    begin: Begin, tmp_path: Path, command: tuple[str, ...], stage: str, number: int
) -> None:
    (tmp_path / "text").write_text("echo hello\n")
    (tmp_path / "broken").write_text("#!/no/such/interpreter\n")
    (tmp_path / "broken").chmod(0o755)
    job = begin(*command)
    assert job.begun is not None
    assert job.begun["exec_error"] == f"{stage} {number}"
    job.reap()


def test_a_directory_that_cannot_be_entered_is_told(begin: Begin, tmp_path: Path) -> None:
    job = begin("true", cwd=str(tmp_path / "gone"))
    assert job.begun is not None
    assert job.begun["exec_error"] == f"cwd {errno.ENOENT}"
    job.reap()


def test_a_process_that_cannot_be_made_is_told(begin: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    fork = os.fork
    calls = []

    def fork_once() -> int:
        calls.append(1)
        if len(calls) > 1:
            raise BlockingIOError(errno.EAGAIN, "too many processes")
        return fork()

    monkeypatch.setattr(os, "fork", fork_once)
    job = begin("true")
    assert job.begun is not None
    assert job.begun["exec_error"] == f"start {errno.EAGAIN}"
    assert "status" not in job.begun
    job.reap()


def test_a_text_that_may_be_executed_is_a_shell_script(begin: Begin, tmp_path: Path) -> None:
    (tmp_path / "script").write_text('echo "$0" "$1"\n')
    (tmp_path / "script").chmod(0o755)
    job = begin("./script", "word")
    job.end()
    assert log(job) == "./script word\n"


def test_a_program_is_looked_for_along_the_path_of_the_job(begin: Begin, tmp_path: Path) -> None:
    for name, text, mode in (
        ("a", "", 0o644),
        ("b", "#!/bin/sh\necho b\n", 0o755),
        ("c", "#!/bin/sh\necho c\n", 0o755),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / "tool").write_text(text)
        (tmp_path / name / "tool").chmod(mode)
    folders = ":".join(str(tmp_path / name) for name in ("none", "a/tool", "a", "b", "c"))
    job = begin("tool", env={"PATH": folders})
    job.end()
    assert log(job) == "b\n"


def test_a_program_that_is_there_but_not_executable_is_not_called_missing(begin: Begin, tmp_path: Path) -> None:
    (tmp_path / "tool").write_text("")
    job = begin("tool", env={"PATH": f"{tmp_path}:{tmp_path / 'none'}"})
    assert job.begun is not None
    assert job.begun["exec_error"] == f"exec {errno.EACCES}"
    job.reap()


def test_an_argument_list_that_is_too_long_is_told(begin: Begin) -> None:
    job = begin("true", "x" * (resource.getpagesize() * 33))
    assert job.begun is not None
    assert job.begun["exec_error"] == f"exec {errno.E2BIG}"
    job.reap()


def test_bytes_that_are_no_text_reach_the_job_unchanged(begin: Begin) -> None:
    job = begin("sh", "-c", 'printf %s "$0$V" | od -An -tx1', "\udcff", env=dict(os.environ) | {"V": "\udce9"})
    job.end()
    assert log(job).split() == ["ff", "e9"]


def test_a_timeout_ends_the_job_and_what_ignores_it(begin: Begin) -> None:
    job = begin("sh", "-c", IGNORE_TERM, timeout_seconds=0.2, grace_seconds=0.1)
    told = job.end()
    assert told["stop"] == "timeout"
    assert status(told) == -signal.SIGKILL
    assert any(entry.endswith(" sh") for entry in told.every("killed"))


def test_term_to_the_shim_stops_all_of_the_job_in_order(begin: Begin) -> None:
    job = begin("sh", "-c", "(trap 'echo inner; exit' TERM; echo ready; while :; do sleep 0.01; done) & wait")
    is_ready(job)
    job.signal(signal.SIGTERM)
    told = job.end()
    assert told["stop"] == "signal"
    assert told.every("killed") == []
    assert "inner" in log(job)


def test_term_a_second_time_does_not_wait_for_the_grace(begin: Begin) -> None:
    job = begin("sh", "-c", IGNORE_TERM, grace_seconds=600.0)
    is_ready(job)
    job.signal(signal.SIGTERM)
    wait_for(lambda: _again(job))
    assert status(job.end()) == -signal.SIGKILL


def _again(job: Supervised) -> bool:
    """Signals of one kind may merge while the first has not been taken: ask until the job is gone."""
    job.signal(signal.SIGTERM)
    return not descendants(job.supervisor.pid)


def test_a_job_that_stands_still_can_be_stopped(begin: Begin) -> None:
    job = begin("sh", "-c", "echo ready; kill -STOP $$")
    assert job.begun is not None
    main = int(job.begun["main"].split()[0])
    wait_for(lambda: stat_fields(main)[0] == "T")
    job.signal(signal.SIGTERM)
    assert status(job.end()) == -signal.SIGTERM


@pytest.mark.parametrize("name", ["INT", "HUP", "QUIT", "WINCH", "CONT"])
def test_a_signal_is_passed_on_to_every_member(begin: Begin, name: str) -> None:
    catch = "import os, signal, sys\ndef say(*_): os.write(1, b'%b heard\\n'); os._exit(0)\n"
    catch += f"signal.signal(signal.SIG{name}, say)\nos.write(1, b'%b ready\\n')\nwhile True: signal.pause()"
    both = f"exec({(catch.replace('%b', 'parent'))!r} if os.fork() else {(catch.replace('%b', 'child'))!r})"
    job = begin(sys.executable, "-S", "-c", f"import os\n{both}", after_exit="wait")
    wait_for(lambda: log(job).count("ready") == 2)
    job.signal(getattr(signal, f"SIG{name}"))
    job.end()
    assert log(job).count("heard") == 2


def test_usr1_goes_to_the_main_process_only(begin: Begin) -> None:
    job = begin("sh", "-c", "trap 'echo main; kill $!' USR1; sleep 60 & echo ready; wait; wait", after_exit="wait")
    is_ready(job)
    wait_for(lambda: len(descendants(job.supervisor.pid)) == 2)
    job.signal(signal.SIGUSR1)
    job.end()
    assert "main" in log(job)


def test_what_outlives_the_main_process_is_left_and_counted_later(begin: Begin, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "gate")
    job = begin("sh", "-c", "sh -c ': < gate' >/dev/null 2>&1 & exit 5")
    told = job.hear()
    assert (status(told), told["final"], told["left"]) == (5, "0", "1")
    (tmp_path / "gate").write_bytes(b"")
    last = job.end()
    assert (status(last), last["final"], last["left"], last["reaped"]) == (5, "1", "0", "2")
    assert last.moment("end") == told.moment("end")
    assert last.moment("last") > told.moment("last")


def test_what_outlives_the_main_process_can_be_waited_for(begin: Begin, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "gate")
    job = begin("sh", "-c", "sh -c ': < gate; echo late' & exit 5", after_exit="wait")
    assert job.begun is not None
    main = int(job.begun["main"].split()[0])
    wait_for(lambda: not stat_fields(main))
    (tmp_path / "gate").write_bytes(b"")
    told = job.end()
    assert (status(told), told["final"], log(job)) == (5, "1", "late\n")


def test_what_outlives_the_main_process_can_be_killed(begin: Begin) -> None:
    job = begin("sh", "-c", "(trap '' TERM; echo ready; sleep 60) & exit 5", after_exit="kill", grace_seconds=0.1)
    told = job.end()
    assert (status(told), told["stop"], told["final"]) == (5, "after_exit", "1")


def test_a_job_with_a_terminal_has_one_and_one_stream(begin: Begin, capfd: pytest.CaptureFixture[str]) -> None:
    terminal = Terminal(*os.openpty())
    job = begin("sh", "-c", "test -t 0 && test -t 1 && test -t 2 && tty >/dev/tty", terminal=terminal)
    told = job.end()
    os.close(terminal.master)
    assert status(told) == 0
    assert log(job).startswith("/dev/pts/")
    assert capfd.readouterr().out.split() == log(job).split()
    assert len(told.every("log")) == 1


def test_a_member_that_ignores_sigchld_is_named(begin: Begin) -> None:
    ignore = "import os, signal; signal.signal(signal.SIGCHLD, signal.SIG_IGN)"
    told = begin(sys.executable, "-S", "-c", ignore).end()
    assert told["discarding"].startswith("python")


NO_WAIT = """
import ctypes, os, sys, time
class Action(ctypes.Structure):
    _fields_ = [("handler", ctypes.c_void_p), ("mask", ctypes.c_ulong * 16), ("flags", ctypes.c_int)]
assert ctypes.CDLL(None).sigaction(17, ctypes.byref(Action(flags=2 if "discard" in sys.argv else 0)), None) == 0
for _ in range(2):
    if os.fork() == 0:
        while time.process_time() < 0.4: pass
        os._exit(0)
if "orphan" not in sys.argv:
    try:
        while True: os.wait()
    except ChildProcessError:
        pass
"""


@pytest.mark.parametrize("below", [(), ("sh", "-c", '"$@"; true', "sh")], ids=["direct", "below"])
@pytest.mark.parametrize(("how", "is_noticed"), [("discard", True), ("wait", False), ("orphan", False)])
def test_children_that_end_together_with_a_parent_that_does_not_wait_are_noticed(
    begin: Begin, below: tuple[str, ...], how: str, is_noticed: bool
) -> None:
    told = begin(*below, sys.executable, "-S", "-c", NO_WAIT, how, after_exit="wait").end()
    assert ("discarding" in told) is is_noticed
    assert (float(told["utime"]) + float(told["stime"]) < 0.5) is is_noticed


def test_a_reader_that_went_away_is_the_job_s_broken_pipe(begin: Begin) -> None:
    reader, writer = os.pipe()
    saved = os.dup(1)
    os.dup2(writer, 1)
    try:
        job = begin("sh", "-c", "trap '' TERM; while echo x; do :; done 2>/dev/null; exit 9")
    finally:
        os.dup2(saved, 1)
        os.close(saved)
        os.close(writer)
    os.close(reader)
    assert status(job.end()) in (9, -signal.SIGPIPE)


def test_a_reader_that_does_not_read_is_not_waited_for_after_a_stop(begin: Begin) -> None:
    reader, writer = os.pipe()
    saved = os.dup(1)
    os.dup2(writer, 1)
    try:
        job = begin("sh", "-c", "yes | head -c 300000; echo ready >&2; sleep 60")
    finally:
        os.dup2(saved, 1)
        os.close(saved)
        os.close(writer)
    wait_for(lambda: log(job, "stderr") == "ready\n")
    job.signal(signal.SIGTERM)
    assert job.end()["stop"] == "signal"
    os.close(reader)
    assert len(log(job)) == 300_000


def test_the_job_gets_our_descriptors_and_the_shim_keeps_none(begin: Begin, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "gate")
    held = os.open(tmp_path / "held", os.O_RDWR | os.O_CREAT)
    os.set_inheritable(held, True)
    job = begin("sh", "-c", f"echo through > /proc/self/fd/{held}; : < gate")
    wait_for(lambda: (tmp_path / "held").read_text() == "through\n")
    ours = {os.readlink(f"/proc/{job.supervisor.pid}/fd/{fd}") for fd in os.listdir(f"/proc/{job.supervisor.pid}/fd")}
    os.close(held)
    assert str(tmp_path / "held") not in ours
    (tmp_path / "gate").write_bytes(b"")
    assert status(job.end()) == 0


def test_an_end_that_cannot_be_told_any_more_is_kept(begin: Begin, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "gate")
    job = begin("sh", "-c", ": < gate; exit 4")
    os.close(job.supervisor.status_read)
    job.supervisor.status_read = os.open(os.devnull, os.O_RDONLY)
    (tmp_path / "gate").write_bytes(b"")
    assert status(job.end()) == 4


def test_a_terminal_whose_reader_went_away_hangs_up(begin: Begin) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    saved = os.dup(1)
    os.dup2(writer, 1)
    terminal = Terminal(*os.openpty())
    try:
        job = begin("sh", "-c", "while :; do echo x; done", terminal=terminal)
    finally:
        os.dup2(saved, 1)
        os.close(saved)
        os.close(writer)
    assert status(job.end()) == -signal.SIGHUP
    os.close(terminal.master)


@pytest.mark.parametrize("is_entered", [True, False])
def test_a_cgroup_is_evidence_only_if_the_job_is_in_it(
    begin: Begin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_entered: bool
) -> None:
    place = tmp_path / "jobtop-7"
    place.mkdir()
    (place / "cpu.stat").write_text("usage_usec 5\n")
    if is_entered:
        (place / "cgroup.procs").touch()
    made = cgroup.JobCgroup((str(place),), (("cpu.stat", f"{place}/cpu.stat"),))
    monkeypatch.setattr(cgroup, "make", lambda _, **__: made)
    job = begin("true", with_cgroup=True)
    assert job.begun is not None
    assert job.begun.every("cgroup") == [str(place)]
    assert ("cgroup.cpu.stat" in job.end()) is is_entered


def test_without_waitid_the_dead_are_counted_all_the_same(begin: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "waitid")
    told = begin("sh", "-c", "(exit 3) & (exit 4) & wait; exit 5", after_exit="wait").end()
    assert status(told) == 5
    assert told.integer("reaped") == 1
    assert told.integer("minflt") > 0
