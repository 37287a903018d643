"""Jobs that outlive their main process: descendants left, awaited or killed, time-outs, detached, nested."""

import os
import signal
import time
from pathlib import Path

import pytest

from running import (
    PYTHON,
    ended,
    is_alive,
    log_file,
    nothing_is_left,
    pids_in,
    processes_of,
    running,
    show,
)
from support import Jobtop, wait_for

__all__ = ["nothing_is_left"]

CORES = os.cpu_count() or 1

# A classic daemon: forks twice, leaves the session, closes all streams; then uses argv[2] seconds of CPU.
DAEMON = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        null = os.open(os.devnull, os.O_RDWR)
        for fd in range(3):
            os.dup2(null, fd)
        with open(sys.argv[1] + "/draft", "w") as file:
            file.write(str(os.getpid()))
        os.rename(sys.argv[1] + "/draft", sys.argv[1] + "/daemon")
        while not os.path.exists(sys.argv[1] + "/go"):
            time.sleep(0.01)
        while time.process_time() < float(sys.argv[2]): pass
        with open(sys.argv[1] + "/cpu", "w") as file:
            file.write(str(time.process_time()))
    os._exit(0)
os.wait()
while not os.path.exists(sys.argv[1] + "/daemon"):
    time.sleep(0.01)
print("main over", flush=True)
os._exit(int(sys.argv[3]))
"""


def daemon(folder: Path, cpu_seconds: float = 0.0, exit_code: int = 0) -> tuple[str, ...]:
    return (*PYTHON, DAEMON, str(folder), str(cpu_seconds), str(exit_code))


def test_a_daemon_is_left_and_its_cost_is_added_when_it_ends(jobtop: Jobtop, tmp_path: Path) -> None:
    with running(jobtop, "--quiet", "--", *daemon(tmp_path, 0.5, 3)) as run:
        assert run.outputs() == (b"main over\n", b"")
        assert run.end() == 3
    (pid,) = pids_in(tmp_path / "daemon")
    assert is_alive(pid)
    before = run.record()
    assert (before["status"], before["exit_code"], before["flags"]) == ("failed", 3, ["left_running"])
    assert any("left running" in why for why in before["incomplete"])
    (tmp_path / "go").touch()
    wait_for(lambda: not processes_of(jobtop))
    after = run.record()
    assert (after["status"], after["exit_code"], after["flags"]) == ("failed", 3, ["left_running"])
    assert after["incomplete"] == []
    assert after["duration_seconds"] == before["duration_seconds"]
    added = after["resource_usage"]["cpu_total_seconds"] - before["resource_usage"]["cpu_total_seconds"]
    assert added == pytest.approx(float((tmp_path / "cpu").read_text()), rel=0.01, abs=0.02)


def test_what_computes_after_a_short_main_process_is_possible(jobtop: Jobtop, tmp_path: Path) -> None:
    spin = f"{PYTHON[0]} -c 'import time\nwhile time.process_time() < 1: pass' > {os.devnull} 2>&1"
    with running(jobtop, "--quiet", "--", "sh", "-c", f"{spin} & {spin} &") as run:
        assert run.end() == 0
    before = run.record()
    wait_for(lambda: not processes_of(jobtop), 30)
    after = run.record()
    for record in (before, after):
        assert record["flags"] == ["left_running"]
        assert 0 < record["resource_usage"]["cpu_percent_mean"] <= 100 * CORES
        assert 0 < record["resource_usage"]["cpu_efficiency"] <= 1
    assert after["incomplete"] == []
    assert after["resource_usage"]["cpu_total_seconds"] == pytest.approx(2, rel=0.1)
    assert after["resource_usage"]["cpu_percent_peak"] >= after["resource_usage"]["cpu_percent_mean"]


def test_what_is_left_can_be_stopped_by_its_id(jobtop: Jobtop, tmp_path: Path) -> None:
    with running(jobtop, "--quiet", "--", *daemon(tmp_path)) as run:
        assert run.end() == 0
    (pid,) = pids_in(tmp_path / "daemon")
    assert jobtop("stop", "the-job").returncode == 0
    assert not is_alive(pid)
    assert (run.record()["status"], run.record()["flags"]) == ("success", ["left_running"])


def test_a_job_that_leaves_a_quiet_process_does_not_hold_a_pipeline(jobtop: Jobtop, tmp_path: Path) -> None:
    job = f"sleep 60 > {os.devnull} 2>&1 & echo $! > {tmp_path}/left; echo done"
    with running(jobtop, "--quiet", "--", "sh", "-c", job) as run:
        out, err = run.outputs(10)
        assert (out, err, run.end()) == (b"done\n", b"", 0)
    (left,) = pids_in(tmp_path / "left")
    assert is_alive(left)
    os.kill(left, signal.SIGTERM)
    wait_for(lambda: not processes_of(jobtop))
    assert run.record()["incomplete"] == []


def test_wait_waits_for_all_descendants(jobtop: Jobtop, tmp_path: Path) -> None:
    with running(jobtop, "--quiet", "--after-exit", "wait", "--", *daemon(tmp_path, 0.3, 4)) as run:
        run.reads(b"main over")
        (pid,) = pids_in(tmp_path / "daemon")
        wait_for(lambda: show(jobtop, "the-job")["status"] == "running")
        assert run.process.poll() is None
        (tmp_path / "go").touch()
        assert run.end() == 4
        assert not is_alive(pid)
    record = run.record()
    assert (record["status"], record["exit_code"], record["flags"], record["incomplete"]) == ("failed", 4, [], [])
    assert record["resource_usage"]["cpu_total_seconds"] >= float((tmp_path / "cpu").read_text())


def test_kill_ends_all_descendants(jobtop: Jobtop, tmp_path: Path) -> None:
    job = f"trap '' TERM; sleep 60 & echo $! > {tmp_path}/stubborn; sh -c 'trap - TERM; exec sleep 61' & exit 5"
    with running(jobtop, "--quiet", "--grace", "0.5", "--after-exit", "kill", "--", "sh", "-c", job) as run:
        run.outputs(15)
        assert run.end() == 5
    (stubborn,) = pids_in(tmp_path / "stubborn")
    assert not is_alive(stubborn)
    assert not processes_of(jobtop)
    record = run.record()
    assert (record["status"], record["exit_code"]) == ("failed", 5)
    assert record["flags"] == ["had_to_be_killed"]
    assert record["incomplete"] == []


@pytest.mark.parametrize("choice", ["leave", "wait", "kill"])
def test_without_descendants_every_choice_is_the_same(jobtop: Jobtop, choice: str) -> None:
    with running(jobtop, "--quiet", "--after-exit", choice, "--", "sh", "-c", "sleep 0.01; exit 6") as run:
        assert run.end() == 6
    assert (run.record()["exit_code"], run.record()["flags"], run.record()["incomplete"]) == (6, [], [])


def test_a_timeout_ends_the_job_and_says_so(jobtop: Jobtop) -> None:
    with running(jobtop, "--quiet", "--timeout", "0.5", "--", "sh", "-c", "sleep 60 & exec sleep 61") as run:
        assert run.end() == 124
    record = run.record()
    assert (record["status"], record["signal"]) == ("timeout", signal.SIGTERM)
    assert record["reason"] == "stopped after its timeout of 500ms"
    assert 0.5 <= record["duration_seconds"] < 5
    wait_for(lambda: not processes_of(jobtop))


def test_a_timeout_kills_who_ignores_it_after_the_grace(jobtop: Jobtop) -> None:
    job = "trap '' TERM; while :; do sleep 0.05; done"
    with running(jobtop, "--quiet", "--timeout", "0.3", "--grace", "0.4", "--", "sh", "-c", job) as run:
        assert run.end() == 124
    record = run.record()
    assert (record["status"], record["signal"], record["flags"]) == ("timeout", signal.SIGKILL, ["had_to_be_killed"])
    assert "had to be killed: sh (" in record["reason"]
    assert record["duration_seconds"] >= 0.7


def test_a_timeout_holds_though_run_was_killed(jobtop: Jobtop) -> None:
    with running(jobtop, "--timeout", "1", "--", "sh", "-c", "echo begun; exec sleep 60") as run:
        run.reads(b"begun")
        run.send(signal.SIGKILL)
        run.outputs()
    record = ended(jobtop, "the-job")
    assert (record["status"], record["signal"]) == ("timeout", signal.SIGTERM)
    assert 1 <= record["duration_seconds"] < 5


def test_a_timeout_holds_for_a_detached_job(jobtop: Jobtop) -> None:
    assert jobtop("run", "--detach", "--external-id", "it", "--timeout", "0.5", "--", "sleep", "60").returncode == 0
    assert jobtop("wait", "it").returncode == 1
    assert show(jobtop, "it")["status"] == "timeout"


def test_a_timeout_does_not_touch_a_job_that_ends_in_time(jobtop: Jobtop) -> None:
    with running(jobtop, "--quiet", "--timeout", "30", "--", "sh", "-c", "exit 124") as run:
        assert run.end() == 124
    assert (run.record()["status"], run.record()["exit_code"]) == ("failed", 124)


def test_a_detached_run_prints_only_the_id_and_returns(jobtop: Jobtop, tmp_path: Path) -> None:
    job = f"cat; until [ -e {tmp_path}/go ]; do sleep 0.02; done; echo out; echo err >&2; exit 7"
    began = time.monotonic()
    done = jobtop("run", "--detach", "--", "sh", "-c", job, stdin="not for the job")
    assert time.monotonic() - began < 10
    assert (done.returncode, done.stderr) == (0, "")
    (job_id,) = done.stdout.splitlines()
    record = show(jobtop, job_id)
    assert (record["id"], record["status"]) == (job_id, "running")
    assert os.getsid(record["pid"]) != os.getsid(0)
    assert all_streams_lead_nowhere(record["pid"], jobtop)
    (tmp_path / "go").touch()
    assert jobtop("wait", job_id).returncode == 1
    record = show(jobtop, job_id)
    assert (record["status"], record["exit_code"]) == ("failed", 7)
    assert log_file(jobtop, record, "stdout").read_text() == "out\n"
    assert log_file(jobtop, record, "stderr").read_text() == "err\n"


def all_streams_lead_nowhere(pid: int, jobtop: Jobtop) -> bool:
    """Whether a job reads nothing and writes only to files of jobtop's."""
    streams = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in range(3)]
    return streams[0] == os.devnull and all(stream.startswith(str(jobtop.state)) for stream in streams[1:])


def test_a_detached_command_that_does_not_exist_fails_at_once(jobtop: Jobtop) -> None:
    done = jobtop("run", "--detach", "--external-id", "it", "--", "/no/such/command")
    assert (done.returncode, done.stdout) == (127, "")
    assert done.stderr.count("\n") == 1
    assert show(jobtop, "it")["status"] == "error"


def test_a_detached_job_leaves_no_reader_waiting_for_its_output(jobtop: Jobtop) -> None:
    """`$(jobtop run --detach …)` waits for the end of the pipe, and so for every process that holds it."""
    began = time.monotonic()
    done = jobtop("run", "--detach", "--external-id", "it", "--", "sleep", "30", timeout=20)
    assert time.monotonic() - began < 15
    assert done.returncode == 0
    assert jobtop("kill", "it").returncode == 0
    assert show(jobtop, "it")["reason"].startswith("stopped by jobtop kill")


def test_a_nested_run_has_its_own_record_and_counts_in_the_outer_one(jobtop: Jobtop) -> None:
    burn = "import os, time\nwhile time.process_time() < 0.4: pass\nprint(os.environ['JOBTOP_JOB_ID'])"
    inner = jobtop.command("run", "--quiet", "--external-id", "inner", "--", *PYTHON, burn)
    with running(jobtop, "--quiet", "--", "sh", "-c", 'echo $JOBTOP_JOB_ID; exec "$@"', "sh", *inner) as run:
        out, _ = run.outputs()
        assert run.end() == 0
    outer_record, inner_record = run.record(), show(jobtop, "inner")
    assert out.decode().split() == [outer_record["id"], inner_record["id"]]
    assert outer_record["parent_id"] is None
    assert inner_record["parent_id"] == outer_record["id"]
    inner_cpu = inner_record["resource_usage"]["cpu_total_seconds"]
    assert inner_cpu >= 0.4
    assert outer_record["resource_usage"]["cpu_total_seconds"] > inner_cpu


def test_a_nested_detached_job_belongs_to_the_outer_one(jobtop: Jobtop, tmp_path: Path) -> None:
    inner = jobtop.command("run", "--detach", "--external-id", "inner", "--", *daemon(tmp_path, 0.2))
    with running(jobtop, "--quiet", "--", *inner) as run:
        run.outputs()
        assert run.end() == 0
    wait_for(lambda: pids_in(tmp_path / "daemon"))
    assert run.record()["flags"] == ["left_running"]
    (tmp_path / "go").touch()
    wait_for(lambda: not processes_of(jobtop))
    assert show(jobtop, "inner")["status"] == "success"
    daemon_cpu = float((tmp_path / "cpu").read_text())
    assert show(jobtop, "the-job")["resource_usage"]["cpu_total_seconds"] > daemon_cpu
