"""`jobtop top` of real jobs: their processes and what they use, on a terminal and in a pipe, until they end."""

import json
import os
import signal
import subprocess
import sys
from typing import Any

from running import children, descendants, nothing_is_left, running
from support import Jobtop, wait_for
from terminal import Terminal, terminal

__all__ = ["nothing_is_left"]

# A thread that is busy and named, beside a main thread that waits; below it a child that sleeps.
BUSY = """
import subprocess, sys, threading
def spin():
    with open(f"/proc/self/task/{threading.get_native_id()}/comm", "w") as file:
        file.write("spinner")
    print("ready", flush=True)
    while True:
        pass
child = subprocess.Popen(["sleep", "60", "1"])
threading.Thread(target=spin, daemon=True).start()
child.wait()
"""
PYTHON = (sys.executable, "-I", "-S", "-c")


def tops(jobtop: Jobtop, *args: str) -> dict[str, Any]:
    answer = jobtop("top", *args)
    assert (answer.returncode, answer.stderr) == (0, "")
    found: dict[str, Any] = json.loads(answer.stdout)
    return found


def test_a_busy_thread_is_found_in_its_process(jobtop: Jobtop) -> None:
    with running(jobtop, "--name", "busy", "--", *PYTHON, BUSY) as run:
        run.reads(b"ready")
        shim = run.shim()
        found = tops(jobtop, "--json", "--threads", run.reference)
        main, child = found["processes"]
        assert (main["parent"], child["parent"], child["command"]) == (shim, main["pid"], "sleep 60 1")
        assert [main["pid"]] == children(shim)
        assert (found["name"], found["status"], found["live"]) == ("busy", "running", True)
        assert (found["proc"], child["cpu_percent"], child["state"]) == ({"count": 2, "threads": 3}, 0.0, "S")
        first, spinner = main["thread_list"]
        assert (first["tid"], spinner["name"], spinner["state"]) == (main["pid"], "spinner", "R")
        # Others may want the cores too.
        assert 0 < spinner["cpu_percent"] < 110
        assert abs(main["cpu_percent"] - spinner["cpu_percent"]) < 30
        assert abs(found["cpu"]["percent"] - main["cpu_percent"]) < 30
        assert (main["memory_kind"], main["memory_bytes"] > 1 << 20) == ("pss", True)
        page = jobtop("top", "--sort", "cpu", run.reference).stdout.splitlines()
        assert page[0].startswith("busy  ● running  ")
        assert [text.split()[0] for text in page[1:]] == ["PID", str(main["pid"]), str(child["pid"])]


def test_a_stream_ends_with_the_job_and_says_how(jobtop: Jobtop) -> None:
    with running(jobtop, "--", "sh", "-c", "read x; exit 3", stdin=subprocess.PIPE) as run:
        run.shim()
        wait_for(lambda: jobtop("history", "--json").stdout != "[]\n")
        following = jobtop.start("top", "--format", "jsonl", "--interval", "1h", run.reference)
        assert following.stdout
        assert run.process.stdin
        first = json.loads(following.stdout.readline())
        run.process.stdin.write(b"\n")
        run.process.stdin.flush()
        rest, errors = following.communicate(timeout=20)
        last = json.loads(rest)
        assert (following.returncode, errors) == (0, "")
    assert (first["live"], first["status"], last["live"], last["status"]) == (True, "running", False, "failed")
    assert [one["command"] for one in last["processes"]] == ["sh -c read x; exit 3"]
    assert last["processes"] == first["processes"]


def restored(shell: Terminal, code: int) -> None:
    """The shell's screen again, with its cursor, its line mode and echo, and the command that was typed."""
    screen = shell.shows(f"code {code}")
    assert "$J top" in screen
    assert shell.tmux("display-message", "-p", "#{alternate_on} #{cursor_flag} #{wrap_flag}").strip() == "0 1 1"
    shell.enter("clear; stty -a | grep -Eow -e '-?(icanon|echo)' | xargs echo modes:")
    shell.shows("modes: icanon echo")
    shell.enter("clear")


def test_on_a_terminal_it_is_live_and_leaves_no_trace(jobtop: Jobtop) -> None:
    script = "sleep 60 & sleep 61; exit 4"
    with running(jobtop, "--name", "two", "--", "sh", "-c", script) as run, terminal(jobtop) as shell:
        wait_for(lambda: len(descendants(run.shim())) == 3)
        shell.enter(f"$J top {run.reference} --interval 100ms; echo code $?")
        screen = shell.shows("0.0 %")
        assert "two  ● running" in screen
        assert "└ sleep 61" in screen
        assert "$J" not in screen
        shell.resize(60, 4)
        shell.until(lambda text: text.splitlines()[3:] == ["… 2 more"], "four lines")
        shell.resize(80, 24)
        shell.press("q")
        restored(shell, 0)

        shell.enter(f"$J top {run.reference} --interval 1h; echo code $?")
        shell.shows("└ sleep 61")
        shell.press("C-c")
        restored(shell, 130)

        shell.enter(f"$J top {run.reference} --interval 1h; echo code $?")
        shell.shows("└ sleep 61")
        (top,) = children(shell.shell())
        os.kill(top, signal.SIGTERM)
        restored(shell, 143)

        shell.enter(f"$J top {run.reference} --interval 1h; echo code $?")
        shell.shows("└ sleep 61")
        _, *sleepers = descendants(run.shim())
        for child in sleepers:
            os.kill(child, signal.SIGKILL)
        screen = shell.shows("code 0")
        assert "two  ✗ failed after" in screen
        assert "exit code 4" in screen
        assert "└ sleep 61" in screen
