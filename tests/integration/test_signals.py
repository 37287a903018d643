"""Signals to `run`: they reach the job, end it in order, and the record says who asked and what had to be killed."""

import os
import random
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from running import (
    PYTHON,
    Run,
    children,
    descendants,
    ended,
    is_alive,
    nothing_is_left,
    pids_in,
    processes_of,
    running,
    show,
    state,
)
from support import Jobtop, wait_for
from terminal import terminal

__all__ = ["nothing_is_left"]

A_PERSONS_PAUSE = 0.6  # what comes faster may be one request that arrives twice
# Counts the signals it gets in the file argv[2] and goes on for argv[1] seconds; the names after are what it counts.
COUNTING = """
import os, signal, sys, time
counts = {}
def count(number, frame):
    with open(sys.argv[2], "a") as file:
        file.write(signal.Signals(number).name + "\\n")
for name in sys.argv[3:]:
    signal.signal(getattr(signal, name), count)
print("begun", flush=True)
until = time.monotonic() + float(sys.argv[1])
while time.monotonic() < until:
    time.sleep(0.02)
"""
TREE = """
import os, signal, sys, time
def note():
    with open(sys.argv[1], "a") as file:
        file.write(f"{os.getpid()}\\n")
def stay(ignoring):
    if ignoring:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    note()
    while True:
        time.sleep(60)
for number in range(7):
    if os.fork() == 0:
        for below in range(6):
            if os.fork() == 0:
                stay(ignoring=below == 0)
        stay(ignoring=False)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        stay(ignoring=True)
    os._exit(0)
stay(ignoring=False)
"""


def counting(seconds: float, counts: Path, *names: str) -> tuple[str, ...]:
    return (*PYTHON, COUNTING, str(seconds), str(counts), *names)


def wait_as_a_person() -> None:
    """From now on, when the run has passed a signal on: on a busy machine it got it later than it was sent."""
    now = time.monotonic()
    wait_for(lambda: time.monotonic() - now > A_PERSONS_PAUSE)


def counted(counts: Path) -> list[str]:
    return counts.read_text().split() if counts.exists() else []


def told_by(code: int, number: int) -> bool:
    """Whether a shell would say 128 + the signal: exited so, or ended by the signal itself."""
    return code in (128 + number, -number)


def test_term_ends_a_tree_of_fifty_and_says_what_had_to_be_killed(jobtop: Jobtop, tmp_path: Path) -> None:
    noted = tmp_path / "pids"
    with running(jobtop, "--grace", "1", "--", *PYTHON, TREE, str(noted)) as run:
        run.until(lambda: len(pids_in(noted)) == 51)
        assert len(set(pids_in(noted))) == 51
        began = time.monotonic()
        run.send(signal.SIGTERM)
        assert told_by(run.end(), signal.SIGTERM)
        assert time.monotonic() - began >= 1.0
        assert [pid for pid in pids_in(noted) if is_alive(pid)] == []
    record = run.record()
    assert (record["status"], record["signal"]) == ("cancelled", signal.SIGTERM)
    assert "had_to_be_killed" in record["flags"]
    assert record["reason"].startswith("stopped by SIGTERM; had to be killed: python")
    assert "and 3 more" in record["reason"]


@pytest.mark.parametrize("name", ["SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM"])
def test_a_signal_that_ends_the_job_is_the_exit_code_and_the_reason(jobtop: Jobtop, name: str) -> None:
    number = signal.Signals[name]
    with running(jobtop, "--", "sh", "-c", "ulimit -c 0; echo begun; exec sleep 60") as run:
        run.reads(b"begun")
        run.send(number)
        assert told_by(run.end(), number)
    record = run.record()
    assert (record["status"], record["signal"], record["exit_code"]) == ("cancelled", number, None)
    word = "stopped" if name == "SIGTERM" else "interrupted"
    assert record["reason"] == f"{word} by {name}"
    assert record["flags"] == []


def test_an_interrupted_run_exits_as_interrupted_though_the_job_exits_on_its_own_terms(jobtop: Jobtop) -> None:
    with running(jobtop, "--", "sh", "-c", "trap 'exit 7' INT; echo begun; while :; do sleep 0.05; done") as run:
        run.reads(b"begun")
        run.send(signal.SIGINT)
        assert told_by(run.end(), signal.SIGINT)
    record = run.record()
    assert (record["status"], record["exit_code"]) == ("cancelled", 7)
    assert record["reason"] == "interrupted by SIGINT: exit code 7"


def test_a_job_that_lives_through_an_interrupt_and_ends_well_is_a_success(jobtop: Jobtop, tmp_path: Path) -> None:
    with running(jobtop, "--grace", "0.3", "--", *counting(1.2, tmp_path / "counts", "SIGINT")) as run:
        run.reads(b"begun")
        run.send(signal.SIGINT)
        assert run.end() == 0
    assert counted(tmp_path / "counts") == ["SIGINT"]
    assert (run.record()["status"], run.record()["reason"]) == ("success", None)


def test_a_second_interrupt_terminates_and_kills_after_the_grace(jobtop: Jobtop, tmp_path: Path) -> None:
    with running(jobtop, "--grace", "1.5", "--", *counting(60, tmp_path / "counts", "SIGINT", "SIGTERM")) as run:
        run.reads(b"begun")
        run.send(signal.SIGINT)
        wait_for(lambda: counted(tmp_path / "counts") == ["SIGINT"])
        wait_as_a_person()
        run.send(signal.SIGINT)
        wait_for(lambda: counted(tmp_path / "counts") == ["SIGINT", "SIGTERM"])
        began = time.monotonic()
        _, err = run.outputs()
        assert time.monotonic() - began > 0.5
        assert told_by(run.end(), signal.SIGINT)
    assert b"kills it" in err
    record = run.record()
    assert (record["status"], record["signal"]) == ("cancelled", signal.SIGKILL)
    assert record["flags"] == ["had_to_be_killed"]
    assert "had to be killed: python" in record["reason"]


@pytest.mark.parametrize(
    ("name", "times"),
    [
        ("SIGINT", 3),
        ("SIGTERM", 2),
        pytest.param("SIGHUP", 3, marks=pytest.mark.soak),
        pytest.param("SIGQUIT", 3, marks=pytest.mark.soak),
    ],
)
def test_the_last_of_repeated_signals_kills_at_once(jobtop: Jobtop, tmp_path: Path, name: str, times: int) -> None:
    counts = tmp_path / "counts"
    with running(jobtop, "--grace", "30", "--", *counting(60, counts, name, "SIGTERM")) as run:
        run.reads(b"begun")
        for number in range(times):
            run.send(signal.Signals[name])
            if number < times - 1:
                wait_for(lambda number=number: len(counted(counts)) == number + 1)  # type: ignore[misc]
                wait_as_a_person()
        assert told_by(run.end(10), signal.Signals[name])
    record = run.record()
    assert (record["status"], record["signal"]) == ("cancelled", signal.SIGKILL)
    assert record["flags"] == ["had_to_be_killed"]


CLEANING = "trap 'sleep 0.7; echo cleaned; exit 0' TERM; echo begun; while :; do sleep 0.05; done"


def test_the_grace_of_a_job_survives_a_timeout_that_signals_child_and_group(jobtop: Jobtop) -> None:
    with running(jobtop, "--quiet", "--", "sh", "-c", CLEANING, prefix=("timeout", "1")) as run:
        run.reads(b"begun")
        out, _ = run.outputs()
        assert run.end() == 124
    assert out == b"cleaned\n"
    assert (run.record()["exit_code"], run.record()["flags"]) == (0, [])


def test_the_grace_of_a_job_survives_a_term_to_all_processes_at_once(jobtop: Jobtop) -> None:
    """A batch system's way to end a job: everything it finds gets the signal."""
    with running(jobtop, "--quiet", "--", "sh", "-c", CLEANING) as run:
        run.reads(b"begun")
        for pid in (run.pid, run.shim(), *children(run.shim())):
            os.kill(pid, signal.SIGTERM)
        out, _ = run.outputs()
        assert told_by(run.end(), signal.SIGTERM)
    assert out == b"cleaned\n"
    assert (run.record()["exit_code"], run.record()["flags"]) == (0, [])


def test_a_kill_of_all_processes_at_once_is_a_lost_job(jobtop: Jobtop) -> None:
    with running(jobtop, "--quiet", "--", "sh", "-c", "echo begun; exec sleep 60") as run:
        run.reads(b"begun")
        for pid in (run.pid, *descendants(run.pid)):
            os.kill(pid, signal.SIGKILL)
        run.outputs(10)
    assert run.record()["status"] == "lost"


def test_a_term_to_the_shim_stops_the_job(jobtop: Jobtop) -> None:
    with running(jobtop, "--quiet", "--", "sh", "-c", "echo begun; exec sleep 60") as run:
        run.reads(b"begun")
        os.kill(run.shim(), signal.SIGTERM)
        run.outputs(10)
        assert run.end() == 143
    assert run.record()["reason"] == "stopped by SIGTERM to its supervisor: killed by SIGTERM"


@pytest.mark.parametrize("name", ["SIGUSR1", "SIGUSR2"])
def test_a_user_signal_reaches_the_main_process_alone(jobtop: Jobtop, tmp_path: Path, name: str) -> None:
    script = f"sleep 60 & echo $! > {tmp_path}/child; trap 'kill $!; exit 9' {name[3:]}; echo begun; wait"
    with running(jobtop, "--", "bash", "-c", script) as run:
        run.reads(b"begun")
        run.send(signal.Signals[name])
        assert run.end() == 9
    assert run.record()["status"] == "failed"
    (child,) = pids_in(tmp_path / "child")
    assert not is_alive(child)


def test_a_stopped_job_can_be_terminated(jobtop: Jobtop) -> None:
    with running(jobtop, "--grace", "20", "--", "sh", "-c", "echo begun; kill -STOP $$; sleep 60") as run:
        run.reads(b"begun")
        (main,) = children(run.shim())
        wait_for(lambda: state(main) == "T")
        run.send(signal.SIGTERM)
        assert told_by(run.end(10), signal.SIGTERM)
    assert run.record()["flags"] == []


def test_processes_that_fork_for_ever_do_not_outrun_the_kill(jobtop: Jobtop, tmp_path: Path) -> None:
    generations = tmp_path / "generations"
    forking = f"""
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
until = time.monotonic() + 30
if os.fork() == 0:
    while time.monotonic() < until:
        if os.fork():
            os._exit(0)
        with open({str(generations)!r}, "a") as file:
            file.write("1 ")
time.sleep(30)
"""
    with running(jobtop, "--quiet", "--grace", "0.2", "--", *PYTHON, forking) as run:
        run.until(lambda: len(pids_in(generations)) > 50)
        run.send(signal.SIGTERM)
        assert told_by(run.end(15), signal.SIGTERM)
    wait_for(lambda: not processes_of(jobtop), 5)
    assert "had_to_be_killed" in run.record()["flags"]


def last_words(run: Run, number: int) -> tuple[bytes, bytes]:
    """What it said; a Ctrl-C that Python throws away in a callback of its own imports, before us, is typed again."""
    try:
        return run.outputs(10)
    except subprocess.TimeoutExpired as error:
        said = error.stderr or b""
        if number != signal.SIGINT or not (
            b"Exception ignored in" in said and b"<frozen importlib._bootstrap>" in said
        ):
            raise
        os.killpg(run.pid, number)
        out, _ = run.outputs(10)
        return out, b""


@pytest.mark.parametrize("rounds", [6, pytest.param(150, marks=pytest.mark.soak)])
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_run_told_to_end_while_it_starts_ends_without_a_word_too_many(
    jobtop: Jobtop, tmp_path: Path, name: str, rounds: int
) -> None:
    """A terminal signals the whole process group, so `run` and a shim that is not yet a session leader both get it."""
    number = signal.Signals[name]
    began = time.monotonic()
    assert jobtop("run", "--quiet", "--", "true").returncode == 0
    whole = time.monotonic() - began
    for attempt in range(rounds):
        job = ("sh", "-c", f"echo $$ >> {tmp_path}/ran-{attempt}; exec sleep 60")
        with running(jobtop, "--quiet", "--", *job, reference=f"job-{attempt}", start_new_session=True) as run:
            time.sleep(whole * (attempt + random.random()) / rounds)
            os.killpg(run.pid, number)
            out, err = last_words(run, number)
        assert out == b""
        if not is_of_python_itself(err):
            assert err == b""
            assert told_by(run.end(), number)
        assert wait_for(lambda: not processes_of(jobtop), 10)
        assert len(pids_in(tmp_path / f"ran-{attempt}")) <= 1


def is_of_python_itself(err: bytes) -> bool:
    """Whether an interrupt met the interpreter before it came to any line of ours."""
    if b"init_import_site" in err:
        return True
    return b"KeyboardInterrupt" in err and not re.search(rb'File "(<string>|.*/(jobtop|core|cli|store)/\w+\.py)"', err)


def test_an_interrupt_reaches_the_processes_of_a_nested_job_once(jobtop: Jobtop, tmp_path: Path) -> None:
    inner = jobtop.command("run", "--quiet", "--", *counting(1, tmp_path / "counts", "SIGINT"))
    with running(jobtop, "--quiet", "--", *inner) as run:
        run.reads(b"begun")
        run.send(signal.SIGINT)
        run.outputs()
    assert counted(tmp_path / "counts") == ["SIGINT"]


def test_a_nested_job_that_ignores_term_goes_with_the_outer_one(jobtop: Jobtop, tmp_path: Path) -> None:
    inner = jobtop.command("run", "--quiet", "--external-id", "inner", "--", *counting(60, tmp_path / "c", "SIGTERM"))
    with running(jobtop, "--quiet", "--grace", "0.5", "--", *inner) as run:
        run.reads(b"begun")
        below = descendants(run.pid)
        run.send(signal.SIGTERM)
        run.outputs()
        assert told_by(run.end(), signal.SIGTERM)
        wait_for(lambda: not any(map(is_alive, below)), 5)
    assert show(jobtop, "the-job")["status"] == "cancelled"
    assert show(jobtop, "inner")["status"] in ("cancelled", "lost")


def test_nohup_keeps_run_and_job_through_a_hangup(jobtop: Jobtop, tmp_path: Path) -> None:
    dispositions = "grep SigIgn /proc/self/status; echo begun; exec sleep 60"
    with running(jobtop, "--quiet", "--grace", "1", "--", "sh", "-c", dispositions, prefix=("nohup",)) as run:
        assert run.process.stdout
        ignored = int(run.process.stdout.readline().split()[1], 16)
        assert ignored >> (signal.SIGHUP - 1) & 1
        run.reads(b"begun")
        shim, members = run.shim(), descendants(run.pid)
        for pid in (run.pid, *members):
            os.kill(pid, signal.SIGHUP)
        assert all(ignores(pid, signal.SIGHUP) for pid in (run.pid, *members))
        assert is_alive(shim)
        run.send(signal.SIGTERM)
        assert told_by(run.end(), signal.SIGTERM)


def ignores(pid: int, number: int) -> bool:
    status = Path(f"/proc/{pid}/status").read_text()
    return bool(int(status.split("SigIgn:")[1].split()[0], 16) >> (number - 1) & 1)


def test_a_background_job_of_a_script_ignores_the_interrupt_of_its_terminal(jobtop: Jobtop, tmp_path: Path) -> None:
    command = " ".join(jobtop.command("run", "--quiet", "--external-id", "the-job", "--", "sleep", "60"))
    script = subprocess.Popen(
        ["sh", "-c", f"{command} & echo $! > {tmp_path}/run; wait"],
        env=jobtop.env,
        cwd=jobtop.home,
        start_new_session=True,
    )
    (run,) = wait_for(lambda: pids_in(tmp_path / "run"))
    wait_for(lambda: len(descendants(run)) == 2)
    members = [run, *descendants(run)]
    wait_for(lambda: jobtop("show", "the-job").returncode == 0)
    os.killpg(script.pid, signal.SIGINT)
    assert script.wait(10) == -signal.SIGINT
    assert all(ignores(pid, signal.SIGINT) for pid in members)
    assert show(jobtop, "the-job")["status"] == "running"
    os.kill(run, signal.SIGTERM)
    wait_for(lambda: not any(map(is_alive, members)))
    assert show(jobtop, "the-job")["status"] == "cancelled"


@pytest.mark.parametrize(
    "caller",
    [
        pytest.param(("bash", "-c", "trap '' CHLD; exec \"$@\"", "bash"), id="shell"),
        pytest.param(
            (
                *PYTHON,
                "from signal import *; import os, sys; signal(SIGCHLD, SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])",
            ),
            id="exec",
        ),
    ],
)
def test_a_caller_that_ignores_sigchld_gets_the_right_exit_code(jobtop: Jobtop, caller: tuple[str, ...]) -> None:
    job = "sleep 0.05 & wait $!; grep SigIgn /proc/self/status; exit 7"
    with running(jobtop, "--quiet", "--", "sh", "-c", job, prefix=caller) as run:
        out, _ = run.outputs()
        assert run.end() == 7
    assert not int(out.split()[1], 16) >> (signal.SIGCHLD - 1) & 1
    assert run.record()["exit_code"] == 7
    assert run.record()["incomplete"] == []


def test_ctrl_c_interrupts_the_job_and_the_shell_goes_on(jobtop: Jobtop) -> None:
    with terminal(jobtop) as screen:
        screen.enter("$J run --external-id it --quiet -- sh -c 'echo begun; exec sleep 60'")
        screen.shows("\nbegun")
        screen.press("C-c")
        screen.back_at_prompt()
        screen.enter("echo code=$?")
        shown = screen.shows("code=1")
    assert "code=130" in shown
    assert "Traceback" not in shown
    assert show(jobtop, "it")["reason"] == "interrupted by SIGINT"


def test_ctrl_c_ends_a_loop_around_run(jobtop: Jobtop) -> None:
    """A shell goes on with a loop unless what it waited for was itself ended by the interrupt."""
    with terminal(jobtop) as screen:
        screen.enter('for word in one two; do $J run --quiet -- sh -c "echo begun-$word; exec sleep 60"; done')
        screen.shows("\nbegun-one")
        screen.press("C-c")
        screen.back_at_prompt()
        assert "begun-two" not in screen.screen()


def test_ctrl_z_stops_the_job_until_fg(jobtop: Jobtop, tmp_path: Path) -> None:
    job = f"sleep 600 & echo $$ $! > {tmp_path}/pids; echo begun; read line; echo got $line; kill $!"
    (tmp_path / "job").write_text(job)
    with terminal(jobtop) as screen:
        screen.enter(f"$J run --external-id it --quiet -- sh {tmp_path}/job")
        screen.shows("\nbegun")
        members = pids_in(tmp_path / "pids")
        assert len(members) == 2
        screen.press("C-z")
        screen.shows("Stopped")
        screen.back_at_prompt()
        assert [state(pid) for pid in members] == ["T", "T"]
        assert show(jobtop, "it")["status"] == "paused"
        screen.enter("fg")
        wait_for(lambda: [state(pid) for pid in members] == ["S", "S"])
        screen.enter("hello")
        screen.shows("got hello")
        screen.back_at_prompt()
        screen.enter("echo code=$?")
        screen.shows("code=0")
    assert show(jobtop, "it")["status"] == "success"


def test_a_job_goes_on_in_the_background_after_ctrl_z(jobtop: Jobtop, tmp_path: Path) -> None:
    with terminal(jobtop) as screen:
        screen.enter(
            f"$J run --external-id it --quiet -- sh -c 'echo begun; until [ -e {tmp_path}/go ]; do sleep 0.05; done'"
        )
        screen.shows("\nbegun")
        screen.press("C-z")
        screen.back_at_prompt()
        screen.enter("bg; wait %1; echo code=$?")
        wait_for(lambda: show(jobtop, "it")["status"] == "running")
        (tmp_path / "go").touch()
        screen.shows("code=0")
    assert show(jobtop, "it")["status"] == "success"


def test_a_background_job_leaves_the_input_of_the_terminal_to_the_shell(jobtop: Jobtop) -> None:
    with terminal(jobtop) as screen:
        screen.enter("$J run --external-id it --quiet -- cat &")
        wait_for(lambda: jobtop("show", "it").returncode == 0)
        for number in range(5):
            screen.enter(f"echo line-$(({number}*2))")
            screen.shows(f"\nline-{number * 2}")
    record = ended(jobtop, "it")
    assert (record["status"], record["exit_code"]) == ("success", 0)


@pytest.mark.parametrize("option", [(), ("--pty",)], ids=["plain", "pty"])
def test_a_closed_terminal_hangs_up_the_job(jobtop: Jobtop, option: tuple[str, ...]) -> None:
    with terminal(jobtop) as screen:
        screen.enter(f"$J run {' '.join(option)} --external-id it --quiet -- sh -c 'echo begun; exec sleep 60'")
        screen.shows("\nbegun")
        screen.close_window()
        wait_for(lambda: not processes_of(jobtop))
    record = show(jobtop, "it")
    assert (record["status"], record["signal"]) == ("cancelled", signal.SIGHUP)
    assert record["reason"] == "interrupted by SIGHUP"
    assert [entry["kind"] for entry in record["findings"]["evidence"]] == ["closed_terminal"]
    assert "Traceback" not in (jobtop.state / "jobtop.log").read_text()


def test_a_detached_job_outlives_its_terminal(jobtop: Jobtop, tmp_path: Path) -> None:
    job = f"until [ -e {tmp_path}/go ]; do sleep 0.05; done; cat; echo over"
    (tmp_path / "job").write_text(job)
    with terminal(jobtop) as screen:
        screen.enter(f"$J run --detach --external-id it -- sh {tmp_path}/job")
        wait_for(lambda: jobtop("show", "it").returncode == 0)
        screen.back_at_prompt()
        shell_session = os.getsid(screen.shell())
        record: dict[str, Any] = show(jobtop, "it")
        assert os.getsid(record["pid"]) != shell_session
        screen.close_window()
    assert show(jobtop, "it")["status"] == "running"
    (tmp_path / "go").touch()
    assert ended(jobtop, "it")["status"] == "success"
    assert jobtop("logs", "it").stdout == "over\n"


def test_jobtop_stop_ends_a_job_and_its_run(jobtop: Jobtop) -> None:
    with running(jobtop, "--quiet", "--", "sh", "-c", "echo begun; exec sleep 60") as run:
        run.reads(b"begun")
        assert jobtop("stop", "the-job").returncode == 0
        assert told_by(run.end(), signal.SIGTERM)
    assert run.record()["reason"] == "stopped by jobtop stop: killed by SIGTERM"
