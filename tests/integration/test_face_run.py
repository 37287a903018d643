"""`jobtop.run` and `jobtop.submit` from Python: what comes back, signals, threads, and nothing that is left."""

import logging
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import jobtop
from running import nothing_is_left
from support import Jobtop, open_files, wait_for

__all__ = ["nothing_is_left"]

PYTHON = (sys.executable, "-I", "-S", "-c")
BURN = """
import os, time
held = b"x" * (32 << 20)
while time.process_time() < 1: pass
print(time.process_time(), flush=True)
os._exit(3)
"""
HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP, signal.SIGURG)
# A program that runs a job that lasts; the job prints a line when it runs.
PROGRAM = """
import signal, sys, jobtop
{before}
try:
    jobtop.run(["sh", "-c", {job!r}], name="lasting", grace=5)
finally:
    record = jobtop.open_store().job("lasting")
    print(record.status, record.ended, [signal.getsignal(number) for number in ({signals})] == defaults, flush=True)
"""


@pytest.fixture(autouse=True)
def in_home(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@contextmanager
def program(host: Jobtop, before: str = "", job: str = "echo ready; exec sleep 60") -> Iterator[subprocess.Popen[str]]:
    """A Python program in a session of its own whose job has begun."""
    signals = ", ".join(map(str, map(int, HANDLED)))
    defaults = f"{before}\ndefaults = [signal.getsignal(number) for number in ({signals})]"
    source = PROGRAM.format(before=defaults, job=job, signals=signals)
    started = subprocess.Popen(
        [host.python, "-c", source],
        env=dict(host.env),
        cwd=host.home,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with started:
        try:
            assert started.stdout is not None
            assert started.stdout.readline() == "ready\n"
            yield started
        finally:
            started.kill()  # if it hangs, the job is found by `nothing_is_left`


def ends_by_ctrl_c(started: subprocess.Popen[str]) -> bool:
    """Whether a program ends soon after a SIGINT; one that follows at once would count as the same key."""
    started.send_signal(signal.SIGINT)
    with suppress(subprocess.TimeoutExpired):
        started.wait(0.15)
    return started.returncode is not None


def test_a_run_returns_the_record_of_the_job() -> None:
    job = jobtop.run(["sh", "-c", "exit 3"], name="three", memory="8G", cpus=0.5, params={"lr": 0.1}, tags=["a", "b=c"])
    assert (job.status, job.exit_code, job.returncode, job.ok, job.name) == ("failed", 3, 3, False, "three")
    assert (job.limits.memory_bytes, job.limits.cpus) == (8 << 30, 0.5)
    assert (job.params, job.tags, job.parent_id) == ({"lr": 0.1}, {"a": "", "b": "c"}, None)
    assert job.start_time is not None
    assert job.start_time.tzinfo is not None
    assert jobtop.open_store().job("three") == job
    assert pickle.loads(pickle.dumps(job)) == job


def test_the_numbers_of_a_known_load_are_true() -> None:
    job = jobtop.run([*PYTHON, BURN], capture_output=True)
    assert job.resource_usage.cpu_total_seconds == pytest.approx(float(job.stdout or 0), rel=0.02)
    assert (job.resource_usage.memory_peak_bytes or 0) > 32 << 20


def test_a_job_that_lasts_is_sampled() -> None:
    job = jobtop.run(["sleep", "0.7"], interval=0.1)
    series = jobtop.open_store().series(job, ["cpu.percent", "mem.used"])
    assert (job.resource_usage.samples or 0) >= 3
    assert len(series) == len(series["mem.used"]) >= 5
    assert job.to_json()["monitor"]["cpu_seconds"] < 0.5


def test_output_passes_through(capfd: pytest.CaptureFixture[str]) -> None:
    job = jobtop.run(["sh", "-c", "echo out; echo err >&2"])
    assert capfd.readouterr() == ("out\n", "err\n")
    assert (job.stdout, job.stderr) == (None, None)
    assert jobtop.open_store().logs(job, "stderr") == "err\n"


def test_captured_output_is_in_the_record(capfd: pytest.CaptureFixture[str]) -> None:
    job = jobtop.run("echo out; printf 'e\\377' >&2", shell=True, capture_output=True)
    assert (job.stdout, job.stderr) == ("out\n", "e\ufffd")
    assert capfd.readouterr() == ("", "")


def test_check_raises_as_subprocess_does() -> None:
    with pytest.raises(subprocess.CalledProcessError) as raised:
        jobtop.run(["sh", "-c", "kill -9 $$"], check=True)
    assert isinstance(raised.value, jobtop.JobFailed)
    assert (raised.value.returncode, raised.value.job.status) == (-9, "failed")
    assert pickle.loads(pickle.dumps(raised.value)).job == raised.value.job


def test_a_command_that_does_not_exist_is_a_start_error() -> None:
    with pytest.raises(jobtop.StartError, match="not found") as raised:
        jobtop.run(["no-such-command"])
    assert raised.value.exit_code == 127
    with pytest.raises(jobtop.StartError, match="not found"):
        jobtop.run(["no-such-command"], detach=True)
    assert [job.status for job in jobtop.open_store().jobs()] == ["error", "error"]


def test_a_run_leaves_no_thread_no_file_and_no_signal_handler(home: Path) -> None:
    jobtop.run(["true"])  # files that stay open, such as /dev/urandom, are open by now
    before = len(os.listdir("/proc/self/fd")), threading.enumerate(), [signal.getsignal(number) for number in HANDLED]
    jobtop.run(["sleep", "0.2"], interval=0.1)
    after = len(os.listdir("/proc/self/fd")), threading.enumerate(), [signal.getsignal(number) for number in HANDLED]
    assert after == before
    assert open_files(home) == []


def test_ctrl_c_stops_the_job_and_is_a_keyboard_interrupt(jobtop: Jobtop) -> None:
    with program(jobtop) as started:
        started.send_signal(signal.SIGINT)
        out, err = started.communicate(timeout=30)
    assert out == "cancelled True True\n"
    assert err.rstrip().endswith("KeyboardInterrupt")
    assert started.returncode == -signal.SIGINT


def test_a_second_ctrl_c_stops_a_job_that_ignores_the_first(jobtop: Jobtop) -> None:
    job = "trap 'echo again' INT; echo ready; while :; do sleep 0.05; done"
    with program(jobtop, job=job) as started:
        wait_for(lambda: ends_by_ctrl_c(started), 30.0)
        out, _ = started.communicate(timeout=30)
    assert out.startswith("again\n")
    assert out.endswith("cancelled True True\n")


def test_sigterm_stops_the_job_and_then_ends_the_program(jobtop: Jobtop) -> None:
    with program(jobtop) as started:
        started.send_signal(signal.SIGTERM)
        started.communicate(timeout=30)
    assert started.returncode == -signal.SIGTERM
    assert "cancelled" in jobtop("history").stdout


def test_an_exception_of_a_signal_handler_of_the_program_stops_the_job(jobtop: Jobtop) -> None:
    with program(jobtop, "signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))") as started:
        started.send_signal(signal.SIGTERM)
        out, _ = started.communicate(timeout=30)
    assert (out, started.returncode) == ("cancelled True True\n", 7)


@pytest.mark.parametrize(
    ("step", "line"),
    [
        ("started", "exec sleep 60"),
        ("stop_requested", "kill -INT PROGRAM; exec sleep 60"),
        ("finish", "exec sleep 0.2"),
    ],
)
def test_an_exception_at_any_moment_leaves_nothing_running(
    step: str, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal handler of the program may raise anywhere: here while the record is written."""
    monkeypatch.setattr(f"jobtop.lifecycle.recorder.Recorder.{step}", lambda *_: 1 // 0)
    threads = threading.enumerate()
    with pytest.raises(ZeroDivisionError):
        jobtop.run(line.replace("PROGRAM", str(os.getpid())), shell=True, grace=5, interval=0.1)
    assert jobtop.open_store().job("last").ended
    assert threading.enumerate() == threads


def test_a_job_outlives_a_program_that_is_killed_and_is_recorded(jobtop: Jobtop) -> None:
    with program(jobtop, job="echo ready; exec sleep 1") as started:
        started.kill()
        started.communicate(timeout=30)
    assert jobtop("wait", "lasting").returncode == 0
    assert "success" in jobtop("history").stdout


def test_jobs_in_threads_run_at_once_and_set_no_signal_handlers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    calls: list[object] = []
    monkeypatch.setattr("jobtop.core.run.embedded.signal.signal", lambda *call: calls.append(call))
    # Each of them ends only if the other one runs at the same time.
    lines = [f"touch {one}; until [ -e {other} ]; do sleep 0.02; done; echo {one}" for one, other in ("ab", "ba")]
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda line: jobtop.run(line, shell=True, capture_output=True, timeout=30), lines))
    assert [(job.status, job.stdout) for job in found] == [("success", "a\n"), ("success", "b\n")]
    assert calls == []


def test_a_job_inside_another_job_has_a_parent(jobtop: Jobtop) -> None:
    source = "import jobtop\nprint(jobtop.run(['true']).parent_id)"
    finished = jobtop("run", "--no-ui", "--quiet", "--external-id", "outer", "--", sys.executable, "-c", source)
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.strip() in jobtop("show", "outer").stdout


def test_at_a_terminal_the_job_has_a_terminal_for_its_output(jobtop: Jobtop) -> None:
    source = "import jobtop\njobtop.run(['sh', '-c', 'test -t 1 && echo terminal'])"
    master, slave = os.openpty()
    started = subprocess.Popen(
        [jobtop.python, "-c", source], env=dict(jobtop.env), stdin=slave, stdout=slave, stderr=slave
    )
    os.close(slave)
    assert started.wait(timeout=30) == 0
    assert os.read(master, 4096) == b"terminal\r\n"
    os.close(master)


def test_a_detached_job_is_waited_for_and_stopped() -> None:
    job = jobtop.run(["sleep", "60"], detach=True, name="long")
    assert (job.name, job.record().status) == ("long", "running")
    with pytest.raises(TimeoutError, match="goes on"):
        job.wait(timeout=0.2)
    assert job.stop().status == "cancelled"
    assert job.stop().status == "cancelled"
    with pytest.raises(jobtop.JobFailed):
        job.wait(check=True)


def test_a_submitted_job_starts_after_the_one_it_needs(tmp_path: Path) -> None:
    first = jobtop.submit(["sh", "-c", "echo 1 > made"])
    second = jobtop.submit(["cat", "made"], after=[first], retries=1)
    assert second.wait(timeout=60, check=True).ok
    assert jobtop.open_store().logs(second) == "1\n"


def test_a_store_that_cannot_be_written_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("JOBTOP_HOME", str(tmp_path / "file"))
    with caplog.at_level(logging.WARNING, "jobtop"):
        assert jobtop.run(["echo", "ran"]).ok
    assert capfd.readouterr().out == "ran\n"
    assert "JOBTOP_HOME" in caplog.text
    with pytest.raises(jobtop.StoreError, match="JOBTOP_HOME"):
        jobtop.run(["true"], capture_output=True)


def test_a_program_that_forks_while_a_job_runs_keeps_both(tmp_path: Path) -> None:
    pids: list[int] = []

    def fork() -> None:
        wait_for((tmp_path / "begun").exists)
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        pids.append(pid)
        (tmp_path / "forked").touch()

    thread = threading.Thread(target=fork)
    thread.start()
    line = "touch begun; until [ -e forked ]; do sleep 0.02; done"
    assert jobtop.run(line, shell=True, timeout=30).ok
    thread.join()
    assert os.waitpid(pids[0], 0)[1] == 0


def test_a_job_inside_a_tracked_block_has_the_block_as_parent(jobtop: Jobtop) -> None:
    source = (
        "import jobtop\nwith jobtop.track('outer') as block:\n    print(jobtop.run(['true']).parent_id == block.id)"
    )
    finished = subprocess.run(
        [jobtop.python, "-c", source], env=dict(jobtop.env), capture_output=True, text=True, timeout=60
    )
    assert finished.stdout == "True\n", finished.stderr
