"""Jobs at a terminal have one of their own: output appears at once, and keys mean what they mean without it."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

from jobtop.core.procfs import SAME_REQUEST_SECONDS
from running import ended, is_alive, log_file, nothing_is_left, pids_in, show
from support import Jobtop, require, wait_for
from terminal import Terminal, terminal

__all__ = ["nothing_is_left"]

PRINTING = """
import pathlib, time
print("first line")
pathlib.Path({printed!r}).touch()
while not pathlib.Path({go!r}).exists(): time.sleep(0.02)
print("last line")
"""
COUNTING = """
import time
for number in range(1, 9):
    print("line", number, time.time())
    time.sleep(0.4)
"""
WITHIN_SECONDS = 0.5


def printing(folder: Path) -> str:
    """A program that prints a line, waits for the file `go`, and prints another; nothing makes it flush."""
    script = folder / "train.py"
    script.write_text(PRINTING.format(printed=str(folder / "printed"), go=str(folder / "go")))
    return f"{sys.executable} -I {script}"


def test_a_line_is_on_the_screen_before_the_program_prints_another(jobtop: Jobtop, tmp_path: Path) -> None:
    with terminal(jobtop) as screen:
        screen.enter(f"$J run --quiet --external-id it -- {printing(tmp_path)}")
        screen.shows("\nfirst line")
        (tmp_path / "go").touch()
        screen.shows("last line")
        screen.back_at_prompt()
    assert log_file(jobtop, show(jobtop, "it")).read_text() == "first line\nlast line\n"


def test_a_line_is_on_the_screen_within_half_a_second(jobtop: Jobtop, tmp_path: Path) -> None:
    (tmp_path / "count.py").write_text(COUNTING)
    delays: list[float] = []

    def note_delay(screen: str) -> bool:
        lines = re.findall(r"line \d (\d+\.\d+)\n", screen)
        if len(lines) > len(delays):
            delays.append(time.time() - float(lines[-1]))
        return len(lines) == 8

    with terminal(jobtop) as screen:
        screen.enter(f"clear; $J run --quiet -- {sys.executable} -I {tmp_path}/count.py")
        screen.until(note_delay, "all lines")
        screen.back_at_prompt()
    # The best of them: other programs keep this machine busy.
    assert min(delays) < WITHIN_SECONDS


def test_a_stopped_job_loses_none_of_its_output(jobtop: Jobtop, tmp_path: Path) -> None:
    with terminal(jobtop) as screen:
        screen.enter(f"$J run --quiet --external-id it -- {printing(tmp_path)}")
        wait_for((tmp_path / "printed").exists)
        assert jobtop("stop", "it").returncode == 0
        screen.back_at_prompt()
    assert log_file(jobtop, show(jobtop, "it")).read_text() == "first line\n"


def test_a_detached_python_does_not_buffer(jobtop: Jobtop, tmp_path: Path) -> None:
    command = printing(tmp_path).replace(" -I", "").split()
    assert jobtop("run", "--detach", "--external-id", "it", "--", *command).returncode == 0
    wait_for((tmp_path / "printed").exists)
    assert log_file(jobtop, show(jobtop, "it")).read_text() == "first line\n"
    (tmp_path / "go").touch()
    assert ended(jobtop, "it")["status"] == "success"


def test_what_the_user_says_about_buffering_holds(jobtop: Jobtop) -> None:
    script = "import os; print(os.environ.get('PYTHONUNBUFFERED'))"
    cases: dict[str, tuple[str, ...]] = {"plain": (), "own": ("--env", "PYTHONUNBUFFERED="), "off": ()}
    for name, options in cases.items():
        env = {**jobtop.env, "JOBTOP_RUN_UNBUFFER": "false" if name == "off" else "true"}
        jobtop("run", "--detach", "--external-id", name, *options, "--", sys.executable, "-c", script, env=env)
    found = {name: log_file(jobtop, ended(jobtop, name)).read_text().strip() for name in cases}
    assert found == {"plain": "1", "own": "", "off": "None"}


def test_a_redirected_stream_stays_where_it_was_sent(jobtop: Jobtop, tmp_path: Path) -> None:
    script = "echo out; echo err >&2; test -t 0 && test -t 1 && ! test -t 2 && echo as-without"
    with terminal(jobtop) as screen:
        screen.enter(f"clear; $J run --external-id it -- sh -c '{script}' 2>{tmp_path}/err.txt")
        screen.shows("as-without")
        screen.back_at_prompt()
        assert "success" in screen.screen()
    assert (tmp_path / "err.txt").read_text() == "err\n"
    record = show(jobtop, "it")
    assert log_file(jobtop, record, "stderr").read_text() == "err\n"
    assert log_file(jobtop, record).read_text() == "out\nas-without\n"


def test_a_redirected_stream_stays_where_it_was_sent_in_the_console(jobtop: Jobtop, tmp_path: Path) -> None:
    gate = f"until [ -e {tmp_path}/go ]; do sleep 0.02; done"
    with terminal(jobtop) as screen:
        line = f"JOBTOP_RUN_UI=auto $J run --name gazer -- sh -c 'echo err >&2; {gate}; tty' 2>{tmp_path}/err.txt"
        (tmp_path / "start").write_text(line)
        screen.enter(f"clear; . {tmp_path}/start")
        screen.shows("running   gazer")
        wait_for((tmp_path / "err.txt").read_text)
        (tmp_path / "go").touch()
        screen.shows("success")
        screen.back_at_prompt()
        assert "/dev/pts/" in screen.screen()
    assert (tmp_path / "err.txt").read_text() == "err\n"


def test_no_terminal_if_it_is_refused(jobtop: Jobtop) -> None:
    with terminal(jobtop) as screen:
        screen.enter("$J run --quiet --no-pty -- sh -c 'test -t 1 || echo piped'")
        screen.shows("\npiped")
        screen.back_at_prompt()
        screen.enter("JOBTOP_RUN_PTY=never $J run --quiet -- sh -c 'test -t 1 || echo refused'")
        screen.shows("\nrefused")
    assert jobtop("run", "--pty", "--no-pty", "--", "true").returncode == 2


def test_a_terminal_everywhere_if_that_is_wanted(jobtop: Jobtop) -> None:
    env = {**jobtop.env, "JOBTOP_RUN_PTY": "always"}
    done = jobtop("run", "--quiet", "--", "sh", "-c", "test -t 1 && echo yes", env=env)
    assert (done.returncode, done.stdout) == (0, "yes\n")


def test_ctrl_c_escalates_as_without_a_terminal(jobtop: Jobtop, tmp_path: Path) -> None:
    (tmp_path / "job").write_text(
        f"trap 'echo got-int' INT; trap 'echo got-term' TERM; echo $$ > {tmp_path}/pid; while :; do sleep 0.05; done"
    )
    with terminal(jobtop) as screen:
        screen.enter(f"clear; $J run --quiet --external-id it -- sh {tmp_path}/job")
        screen.becomes_raw()
        (pid,) = wait_for(lambda: pids_in(tmp_path / "pid"))
        screen.press("C-c")
        screen.shows("got-int")
        press_again(screen, "C-c")
        screen.shows("got-term")
        assert is_alive(pid)
        press_again(screen, "C-c")
        screen.back_at_prompt()
        screen.enter("echo code=$?")
        screen.shows("code=130")
    record = show(jobtop, "it")
    assert (record["status"], record["signal"]) == ("cancelled", signal.SIGKILL)


def press_again(screen: Terminal, key: str) -> None:
    """Press a key that was pressed just now; a key that follows sooner counts as the same one."""
    end = time.monotonic() + SAME_REQUEST_SECONDS
    wait_for(lambda: time.monotonic() > end)
    screen.press(key)


def test_ctrl_backslash_quits_the_job(jobtop: Jobtop) -> None:
    with terminal(jobtop) as screen:
        screen.enter("$J run --quiet --external-id it -- sh -c 'echo begun; exec sleep 60'")
        screen.shows("\nbegun")
        screen.becomes_raw()
        screen.press("C-\\")
        screen.back_at_prompt()
        screen.enter("echo code=$?")
        screen.shows("code=131")
    assert show(jobtop, "it")["signal"] == signal.SIGQUIT


def test_ctrl_z_stops_job_and_run_and_fg_goes_on(jobtop: Jobtop) -> None:
    with terminal(jobtop) as screen:
        screen.enter("$J run --quiet --external-id it -- sh -c 'echo begun; read line; echo got-$line'")
        screen.shows("\nbegun")
        screen.becomes_raw()
        screen.press("C-z")
        screen.shows("Stopped")
        screen.back_at_prompt()
        assert show(jobtop, "it")["status"] == "paused"
        screen.enter("echo still-$((40 + 2))")
        screen.shows("\nstill-42")
        screen.enter("fg")
        screen.becomes_raw()
        screen.enter("words")
        screen.shows("\ngot-words")
        screen.back_at_prompt()
    assert show(jobtop, "it")["status"] == "success"


def test_after_bg_the_shell_has_the_keys_and_the_job_goes_on(jobtop: Jobtop, tmp_path: Path) -> None:
    gate = f"until [ -e {tmp_path}/go ]; do sleep 0.02; done"
    with terminal(jobtop) as screen:
        screen.enter(f"$J run --quiet --external-id it -- sh -c 'echo begun; {gate}; echo over'")
        screen.shows("\nbegun")
        screen.becomes_raw()
        screen.press("C-z")
        screen.shows("Stopped")
        screen.back_at_prompt()
        screen.enter("bg")
        wait_for(lambda: show(jobtop, "it")["status"] == "running")
        screen.enter("echo typed-$((40 + 2))")
        screen.shows("\ntyped-42")
        (tmp_path / "go").touch()
        screen.shows("over")
        assert ended(jobtop, "it")["status"] == "success"


def test_a_raw_job_gets_ctrl_c_as_a_key(jobtop: Jobtop) -> None:
    script = "import sys, tty; tty.setraw(0); print('ready', flush=True); print(repr(sys.stdin.read(1)))"
    with terminal(jobtop) as screen:
        screen.enter(f'$J run --quiet -- {sys.executable} -I -c "{script}"')
        screen.shows("\nready")
        screen.press("C-c")
        screen.shows(r"'\x03'")


def test_the_terminal_is_restored_and_input_ends(jobtop: Jobtop, tmp_path: Path) -> None:
    with terminal(jobtop) as screen:
        screen.enter(f"stty -a > {tmp_path}/before; $J run --quiet -- cat; stty -a > {tmp_path}/after")
        screen.becomes_raw()
        screen.enter("hello")
        screen.until(lambda shown: shown.count("\nhello") == 2, "two hellos")
        screen.press("C-d")
        screen.back_at_prompt()
    assert (tmp_path / "after").read_text() == (tmp_path / "before").read_text()


def test_lines_of_jobtop_begin_in_the_first_column(jobtop: Jobtop) -> None:
    with terminal(jobtop) as screen:
        screen.enter("clear; $J run --quiet --report 1s -- sleep 60")
        screen.until(lambda shown: shown.count("\n[Resources]") >= 2, "two reports")
        screen.press("C-c")
        screen.back_at_prompt()


def test_a_machine_without_terminals_to_give_runs_jobs_without(jobtop: Jobtop, tmp_path: Path) -> None:
    (tmp_path / "without").write_text('mount --bind /dev/null /dev/ptmx && exec "$@"')
    inside = f"unshare -m sh {tmp_path}/without"
    if subprocess.run([*inside.split(), "true"], capture_output=True).returncode != 0:
        require("namespaces", "a mount namespace cannot be made")
    with terminal(jobtop) as screen:
        screen.enter(f"{inside} $J run --quiet -- sh -c 'test -t 1 || echo piped'")
        screen.shows("\npiped")
        screen.back_at_prompt()
        screen.enter(f"clear; {inside} $J run --pty -- true; echo code=$?")
        assert "no pseudo-terminal" in screen.shows("code=125")


def test_a_background_child_is_not_hung_up(jobtop: Jobtop, tmp_path: Path) -> None:
    script = f"(until [ -e {tmp_path}/go ]; do sleep 0.02; done; echo $$ > {tmp_path}/outlived) & exit 0"
    with terminal(jobtop) as screen:
        screen.enter(f"$J run --quiet --external-id it -- sh -c '{script}'")
        screen.back_at_prompt()
        assert "left_running" in show(jobtop, "it")["flags"]
        (tmp_path / "go").touch()
        wait_for((tmp_path / "outlived").exists)


def test_a_closed_terminal_hangs_up_the_job(jobtop: Jobtop, tmp_path: Path) -> None:
    with terminal(jobtop) as screen:
        screen.enter(f"$J run --quiet --external-id it -- sh -c 'echo $$ > {tmp_path}/pid; exec sleep 60'")
        (pid,) = wait_for(lambda: pids_in(tmp_path / "pid"))
        screen.becomes_raw()
        screen.tmux("new-window", "-d")  # or the server would end with its last window
        screen.close_window()
        wait_for(lambda: not is_alive(pid))
        record = ended(jobtop, "it")
    assert record["signal"] == signal.SIGHUP


def test_the_job_outlives_the_kill_of_run_and_its_output_is_kept(jobtop: Jobtop, tmp_path: Path) -> None:
    job = f"echo $PPID > {tmp_path}/shim; until [ -e {tmp_path}/go ]; do sleep 0.02; done; echo over; exit 6"
    with terminal(jobtop) as screen:
        screen.enter(f"$J run --quiet --external-id it -- sh -c '{job}'")
        (shim,) = wait_for(lambda: pids_in(tmp_path / "shim"))
        screen.becomes_raw()
        os.kill(int(Path(f"/proc/{shim}/stat").read_text().rpartition(")")[2].split()[1]), signal.SIGKILL)
        screen.shows("Killed")
        (tmp_path / "go").touch()
        record = ended(jobtop, "it")
    assert (record["status"], record["exit_code"]) == ("failed", 6)
    assert log_file(jobtop, record).read_text() == "over\n"


def test_the_job_outlives_the_kill_of_its_shim_and_its_output_is_kept(jobtop: Jobtop, tmp_path: Path) -> None:
    gate = f"until [ -e {tmp_path}/go ]; do sleep 0.02; done"
    job = f"echo $PPID $$ > {tmp_path}/pids; {gate}; seq 20000; touch {tmp_path}/outlived"
    with terminal(jobtop) as screen:
        screen.enter(f"$J run --quiet --external-id it -- sh -c '{job}'")
        shim, main = wait_for(lambda: [int(word) for word in read(tmp_path / "pids").split()])
        os.kill(shim, signal.SIGKILL)
        screen.back_at_prompt()
        assert is_alive(main)
        (tmp_path / "go").touch()
        wait_for((tmp_path / "outlived").exists)
        wait_for(lambda: not is_alive(main))
        log = log_file(jobtop, show(jobtop, "it"))
        numbers = "".join(f"{number}\n" for number in range(1, 20001))
        wait_for(lambda: log.read_text() == numbers)


def read(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def test_programs_that_take_over_the_terminal_get_it(jobtop: Jobtop) -> None:
    with terminal(jobtop) as screen:
        # The variable lets the console open, which these programs do without.
        screen.enter("export JOBTOP_RUN_UI=auto; $J run --quiet -- env PS1=inner: bash --norc --noprofile")
        screen.shows("\ninner:")
        screen.enter("tty > /dev/tty && exit 5")
        screen.shows("/dev/pts/")
        screen.back_at_prompt()
        screen.enter("echo code=$?")
        screen.shows("code=5")
        screen.enter(f"$J run --quiet -- {sys.executable} -I")
        screen.shows("\n>>>")
        screen.enter("6 * 7; import os; os._exit(3)")
        screen.back_at_prompt()
        screen.enter("echo code=$?")
        screen.shows("code=3")
