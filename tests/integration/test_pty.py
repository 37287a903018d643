"""`--pty`, and programs that care where they run: interpreters, pagers, editors, progress bars, sudo."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from running import PYTHON, command_line, ended, log_file, nothing_is_left, pids_in, processes_of, running, show
from support import Jobtop, require, wait_for
from terminal import terminal

__all__ = ["nothing_is_left"]


def program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        require(name, f"{name} is not installed")
    return found


def test_an_interpreter_is_fed_by_standard_input(jobtop: Jobtop) -> None:
    done = jobtop("run", "--quiet", "--", sys.executable, "-I", "-i", stdin="x = 6\nprint(x * 7)\nexit(3)\n")
    assert done.returncode == 3
    assert done.stdout == "42\n"
    assert ">>> " in done.stderr


def test_an_interpreter_talks_on_its_terminal(jobtop: Jobtop) -> None:
    with terminal(jobtop) as screen:
        screen.enter(f"$J run --pty --quiet -- {sys.executable} -I -i")
        screen.shows("\n>>>")
        screen.becomes_raw()
        screen.enter("import sys; sys.stdin.isatty(), sys.stdout.isatty(), sys.stderr.isatty(), 6 * 7")
        screen.shows("(True, True, True, 42)")
        screen.enter("import os; os._exit(3)")  # the REPL of 3.13.0 makes exit(3) an exit code of 1
        screen.back_at_prompt()
        screen.enter("echo code=$?")
        screen.shows("code=3")


def test_less_shows_scrolls_and_quits_and_the_terminal_is_as_before(jobtop: Jobtop, tmp_path: Path) -> None:
    program("less")
    (tmp_path / "text").write_text("".join(f"line {number:03d}\n" for number in range(1, 201)))
    with terminal(jobtop) as screen:
        screen.enter(f"stty -a > {tmp_path}/before; clear")
        screen.back_at_prompt()
        screen.enter(f"$J run --pty --quiet -- less {tmp_path}/text")
        assert "line 023" in screen.shows("line 001")
        screen.becomes_raw()
        screen.press("Space")
        assert "line 001" not in screen.shows("line 046")
        screen.type("G")
        screen.shows("line 200")
        screen.type("q")
        screen.back_at_prompt()
        screen.enter(f"echo code=$?; stty -a > {tmp_path}/after")
        screen.shows("code=0")
        screen.back_at_prompt()
    assert (tmp_path / "after").read_text() == (tmp_path / "before").read_text()


def test_an_editor_edits_by_script(jobtop: Jobtop, tmp_path: Path) -> None:
    program("vim")
    (tmp_path / "text").write_text("one\ntwo\n")
    command = ("vim", "-u", "NONE", "-es", "-c", "%s/two/three/", "-c", "wq", str(tmp_path / "text"))
    assert jobtop("run", "--quiet", "--", *command).returncode == 0
    assert (tmp_path / "text").read_text() == "one\nthree\n"


def test_an_editor_edits_on_the_screen(jobtop: Jobtop, tmp_path: Path) -> None:
    program("vim")
    with terminal(jobtop) as screen:
        screen.enter(f"$J run --pty --quiet -- vim -u NONE -N {tmp_path}/text")
        screen.shows("[New]")
        screen.becomes_raw()
        screen.type("ihello")
        screen.press("Escape")
        screen.enter(":wq")
        screen.back_at_prompt()
        screen.enter("echo code=$?")
        screen.shows("code=0")
    assert (tmp_path / "text").read_text() == "hello\n"


# Without --pty: jobtop knows these programs, and gives them the terminal instead of opening the console.


def test_vim_is_usable_without_an_option(jobtop: Jobtop, tmp_path: Path) -> None:
    program("vim")
    (tmp_path / "text").write_text("one\n")
    with terminal(jobtop) as screen:
        screen.enter(f"clear; JOBTOP_RUN_UI=auto $J run --external-id it -- vim {tmp_path}/text")
        screen.shows("~\n")
        screen.becomes_raw()
        screen.type("otwo")
        screen.press("Escape")
        screen.enter(":wq")
        screen.back_at_prompt()
        screen.enter("echo code=$?")
        screen.shows("code=0")
    assert (tmp_path / "text").read_text() == "one\ntwo\n"
    assert show(jobtop, "it")["status"] == "success"


def test_less_is_usable_without_an_option(jobtop: Jobtop, tmp_path: Path) -> None:
    program("less")
    (tmp_path / "text").write_text("".join(f"line {number:03d}\n" for number in range(1, 201)))
    with terminal(jobtop) as screen:
        screen.enter(f"clear; JOBTOP_RUN_UI=auto $J run --external-id it -- less {tmp_path}/text")
        assert "line 023" in screen.shows("line 001")
        screen.becomes_raw()
        screen.type("G")
        screen.shows("line 200")
        screen.type("q")
        screen.back_at_prompt()
        screen.enter("echo code=$?")
        screen.shows("code=0")
    assert show(jobtop, "it")["status"] == "success"


PROGRESS = """
import sys, time
if not sys.stderr.isatty():
    sys.exit(8)
for step in range(5):
    sys.stderr.write(f"\\r{step * 25} %")
    sys.stderr.flush()
    time.sleep(0.02)
sys.stderr.write("\\rdone \\n")
"""


def test_a_progress_bar_needs_a_terminal_and_gets_one(jobtop: Jobtop, tmp_path: Path) -> None:
    assert jobtop("run", "--quiet", "--", *PYTHON, PROGRESS).returncode == 8
    (tmp_path / "progress.py").write_text(PROGRESS)
    with terminal(jobtop) as screen:
        screen.enter(f"clear; $J run --pty --quiet --external-id it -- {sys.executable} -I {tmp_path}/progress.py")
        shown = screen.shows("done")
        screen.back_at_prompt()
    assert "%" not in shown
    assert log_file(jobtop, show(jobtop, "it")).read_bytes() == b"\r0 %\r25 %\r50 %\r75 %\r100 %\rdone \n"


@pytest.mark.parametrize("option", [(), ("--pty",)], ids=["plain", "pty"])
def test_sudo_runs_where_it_may(jobtop: Jobtop, option: tuple[str, ...]) -> None:
    sudo = program("sudo")
    if subprocess.run([sudo, "-n", "true"], capture_output=True).returncode != 0:
        require("sudo", "sudo -n true fails here without us")
    done = jobtop("run", *option, "--quiet", "--external-id", "it", "--", sudo, "-n", "true")
    assert (done.returncode, done.stdout) == (0, "")
    assert show(jobtop, "it")["status"] == "success"


def test_the_size_of_the_terminal_is_the_windows_and_follows_it(jobtop: Jobtop, tmp_path: Path) -> None:
    script = f"trap 'stty size >> {tmp_path}/sizes' WINCH; stty size > {tmp_path}/sizes; while :; do sleep 0.05; done"
    (tmp_path / "watch").write_text(script)
    sizes = tmp_path / "sizes"
    with terminal(jobtop) as screen:
        screen.enter(f"$J run --pty --quiet -- bash {tmp_path}/watch")
        wait_for(lambda: sizes.exists() and sizes.read_text() == "24 80\n")
        screen.becomes_raw()
        screen.resize(100, 30)
        wait_for(lambda: sizes.read_text().splitlines()[-1] == "30 100")
        screen.press("C-c")
        screen.back_at_prompt()


def test_a_resize_is_told_to_a_job_without_a_terminal_of_its_own(jobtop: Jobtop, tmp_path: Path) -> None:
    script = f"trap 'echo changed > {tmp_path}/changed' WINCH; echo begun; while :; do sleep 0.05; done"
    (tmp_path / "watch").write_text(script)
    with terminal(jobtop) as screen:
        screen.enter(f"$J run --quiet -- bash {tmp_path}/watch")
        screen.shows("\nbegun")
        screen.resize(100, 30)
        wait_for((tmp_path / "changed").exists)
        screen.press("C-c")
        screen.back_at_prompt()


def test_ctrl_c_goes_through_the_terminal_and_the_job_decides(jobtop: Jobtop, tmp_path: Path) -> None:
    (tmp_path / "job").write_text("trap 'exit 9' INT; echo begun; while :; do sleep 0.05; done")
    with terminal(jobtop) as screen:
        screen.enter(f"$J run --pty --quiet --external-id it -- sh {tmp_path}/job")
        screen.shows("\nbegun")
        screen.becomes_raw()
        screen.press("C-c")
        screen.back_at_prompt()
        screen.enter("echo code=$?")
        screen.shows("code=9")
    record = show(jobtop, "it")
    assert (record["status"], record["exit_code"]) == ("cancelled", 9)
    assert record["reason"] == "interrupted by Ctrl-C: exit code 9"


def test_a_job_killed_by_ctrl_c_on_its_terminal_ends_as_any(jobtop: Jobtop) -> None:
    with terminal(jobtop) as screen:
        screen.enter("$J run --pty --quiet --external-id it -- sh -c 'echo begun; exec sleep 60'")
        screen.shows("\nbegun")
        screen.becomes_raw()
        screen.press("C-c")
        screen.back_at_prompt()
        screen.enter("echo code=$?")
        screen.shows("code=130")
    assert show(jobtop, "it")["signal"] == signal.SIGINT


def test_ctrl_d_ends_cat(jobtop: Jobtop) -> None:
    with terminal(jobtop) as screen:
        screen.enter("$J run --pty --quiet -- cat")
        screen.becomes_raw()
        screen.enter("hello")
        screen.until(lambda shown: shown.count("\nhello") == 2, "two hellos")
        screen.press("C-d")
        screen.back_at_prompt()
        screen.enter("echo code=$?")
        screen.shows("code=0")


def test_a_run_with_a_terminal_can_be_stopped_and_resumed(jobtop: Jobtop, tmp_path: Path) -> None:
    with terminal(jobtop) as screen:
        screen.enter(f"$J run --pty --quiet -- sh -c 'echo $PPID > {tmp_path}/shim; echo begun; exec cat'")
        screen.shows("\nbegun")
        screen.becomes_raw()
        (shim,) = pids_in(tmp_path / "shim")
        os.kill(parent_of(shim), signal.SIGTSTP)
        screen.shows("Stopped")
        screen.back_at_prompt()
        screen.enter("echo still-$((40 + 2))")
        screen.shows("\nstill-42")
        screen.enter("fg")
        screen.becomes_raw()
        screen.enter("hello")
        screen.until(lambda shown: shown.count("\nhello") == 2, "two hellos")
        screen.press("C-d")
        screen.back_at_prompt()


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_a_shell_on_the_terminal_has_job_control(jobtop: Jobtop) -> None:
    with terminal(jobtop) as screen:
        screen.enter("$J run --pty --quiet -- env PS1=inner: bash --norc --noprofile -i")
        screen.shows("\ninner:")
        screen.becomes_raw()
        screen.enter("sleep 60")
        wait_for(lambda: any(command_line(pid) == "sleep 60 " for pid in processes_of(jobtop)))
        screen.press("C-z")
        screen.shows("Stopped")
        screen.enter("kill -9 %1; fg; exit 5")
        screen.back_at_prompt()
        screen.enter("echo code=$?")
        screen.shows("code=5")


def test_the_terminal_is_restored_after_a_stop(jobtop: Jobtop, tmp_path: Path) -> None:
    with terminal(jobtop) as screen:
        screen.enter(
            f"stty -a > {tmp_path}/before; $J run --pty --quiet -- sh -c 'echo $PPID > {tmp_path}/shim; sleep 60'"
        )
        (shim,) = wait_for(lambda: pids_in(tmp_path / "shim"))
        screen.becomes_raw()
        os.kill(parent_of(shim), signal.SIGTERM)
        screen.back_at_prompt()
        screen.enter(f"echo code=$?; stty -a > {tmp_path}/after")
        screen.shows("code=143")
        screen.back_at_prompt()
    assert (tmp_path / "after").read_text() == (tmp_path / "before").read_text()


@pytest.mark.parametrize("data", [b"one\ntwo\n", b"no newline", b"", b"".join(b"%07d\n" % n for n in range(40_000))])
def test_piped_input_goes_to_the_terminal_and_ends(jobtop: Jobtop, data: bytes) -> None:
    done = subprocess.run(
        jobtop.command("run", "--pty", "--quiet", "--external-id", "it", "--", "cat"),
        input=data,
        env=jobtop.env,
        cwd=jobtop.home,
        capture_output=True,
        timeout=30,
    )
    assert done.returncode == 0
    assert done.stdout == data
    assert log_file(jobtop, show(jobtop, "it")).read_bytes() == done.stdout


def test_the_job_has_a_session_and_a_controlling_terminal(jobtop: Jobtop) -> None:
    script = (
        "import os; print(os.getsid(0) == os.getpid(), os.tcgetpgrp(0) == os.getpgrp(), os.ttyname(0) == os.ttyname(1))"
    )
    done = jobtop("run", "--pty", "--quiet", "--", *PYTHON, f"{script}; open('/dev/tty').close()")
    assert (done.returncode, done.stdout) == (0, "True True True\n")


def test_a_job_on_a_terminal_outlives_the_kill_of_run(jobtop: Jobtop, tmp_path: Path) -> None:
    job = f"echo begun; until [ -e {tmp_path}/go ]; do sleep 0.02; done; echo over; exit 6"
    with running(jobtop, "--pty", "--quiet", "--", "sh", "-c", job) as run:
        run.reads(b"begun")
        run.send(signal.SIGKILL)
        run.end()
        (tmp_path / "go").touch()
        out, _ = run.outputs()
    assert out.endswith(b"over\n")
    record = ended(jobtop, "the-job")
    assert (record["status"], record["exit_code"]) == ("failed", 6)
    assert log_file(jobtop, record).read_bytes() == b"begun\nover\n"


def test_a_reader_that_leaves_hangs_up_the_terminal(jobtop: Jobtop) -> None:
    line = f"{' '.join(jobtop.command('run'))} --pty --quiet --external-id it -- yes | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], env=jobtop.env, cwd=jobtop.home, capture_output=True, timeout=30)
    assert re.fullmatch(rb"y\n\d+\n", done.stdout)
    assert b"Traceback" not in done.stderr
    wait_for(lambda: not processes_of(jobtop))
    assert show(jobtop, "it")["status"] == "failed"
