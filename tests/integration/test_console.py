"""`jobtop` on a real terminal: what it says before it opens, and that whatever ends it leaves all as it was."""

import os
import signal
import sys
from collections.abc import Iterator

import pytest

from records import HERE, assert_one_line, kept_jobs, made_job
from running import children, is_alive, nothing_is_left
from support import Jobtop, wait_for
from terminal import PROMPT, Terminal, terminal

__all__ = ["nothing_is_left"]

BROKEN = "import {0} as broken; broken.{1} = lambda *_: 1 / 0; from jobtop.__main__ import main; main()"


@pytest.fixture
def shell(jobtop: Jobtop) -> Iterator[Terminal]:
    """A terminal in which a console can be opened, on a history of one job."""
    kept_jobs(jobtop.state, made_job(name="[/b]train"))
    with terminal(jobtop) as shell:
        yield shell


def opened(shell: Terminal, command: str = "$J") -> int:
    """The pid of a console that shows its first picture."""
    enter(shell, command)
    shell.until(lambda screen: "● live" in screen and "[/b]train" in screen, "a console")
    (pid,) = children(shell.shell())
    return pid


def enter(shell: Terminal, command: str) -> None:
    """Run it, and say with its exit code whether the settings of the line are as before."""
    shell.enter(f'clear; s=$(stty -g); {command}; echo code $? $([ "$s" = "$(stty -g)" ] && echo restored)')


def restored(shell: Terminal, code: int) -> str:
    """The shell's screen again, with cursor, wrapped lines and its settings, without the mouse; what it shows."""
    screen = shell.shows(f"code {code} restored")
    assert "● live" not in screen
    flags = "#{alternate_on} #{cursor_flag} #{wrap_flag} #{mouse_any_flag} #{mouse_sgr_flag}"
    assert shell.tmux("display-message", "-p", flags).strip() == "0 1 1 0 0"
    return screen


def test_q_leaves_the_console_but_only_closes_its_help(shell: Terminal) -> None:
    opened(shell)
    shell.press("?")
    shell.shows("esc closes")
    shell.press("q")
    shell.until(lambda screen: "[/b]train" in screen and "esc closes" not in screen, "the dashboard")
    shell.press("q")
    restored(shell, 0)


def test_ctrl_z_suspends_the_console_and_fg_resumes_it(shell: Terminal) -> None:
    opened(shell)
    shell.press("C-z")
    shell.shows("Stopped")
    shell.back_at_prompt()
    shell.enter("fg")
    shell.shows("● live")
    shell.press("?")
    shell.shows("esc closes")
    shell.press("q")
    shell.press("q")
    shell.until(lambda screen: "● live" not in screen and screen.rstrip().endswith(PROMPT), "its prompt")


def test_a_signal_ends_it_and_leaves_no_trace(shell: Terminal) -> None:
    os.kill(opened(shell), signal.SIGTERM)
    restored(shell, 128 + signal.SIGTERM)


@pytest.mark.parametrize(
    "part",
    [("jobtop.tui.screens.dashboard", "Dashboard.show"), ("jobtop.tui.data.feed", "Feed.read_view")],
    ids="-".join,
)
def test_a_mistake_of_ours_is_said_in_words_and_kept_in_the_log(
    jobtop: Jobtop, shell: Terminal, part: tuple[str, str]
) -> None:
    enter(shell, f'{sys.executable} -c "{BROKEN.format(*part)}"')
    screen = restored(shell, 125)
    file = jobtop.state / "jobtop.log"
    said = f"jobtop: a bug in jobtop: ZeroDivisionError: division by zero; the details are in {file}"
    assert "".join(said.split()) in "".join(screen.split())
    assert "Traceback" not in screen
    log = file.read_text()
    assert "Traceback" in log
    assert "ZeroDivisionError: division by zero" in log


def test_a_window_that_is_closed_ends_it(shell: Terminal) -> None:
    pid = opened(shell)
    shell.tmux("new-window", "-d")  # or the server would end with its last window
    shell.close_window()
    wait_for(lambda: not is_alive(pid))


def test_without_a_terminal_there_is_help_and_nothing_heavy_is_imported(jobtop: Jobtop) -> None:
    finished = jobtop(env={"PYTHONPROFILEIMPORTTIME": "1"})
    assert finished.returncode == 0
    assert "Without a verb, on a terminal, it opens the console." in finished.stdout
    assert "textual" not in finished.stderr


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--ascii",), "terminal"),
        (("--readonly", "history"), "without a verb"),
        (("--refresh", "soon"), "soon"),
    ],
    ids=" ".join,
)
def test_what_is_of_the_console_is_refused_elsewhere(jobtop: Jobtop, args: tuple[str, ...], words: str) -> None:
    finished = jobtop(*args)
    assert (finished.returncode, finished.stdout) == (2, "")
    assert_one_line(finished.stderr, args[0], words)


def test_what_is_wrong_is_said_before_the_screen_is_taken(jobtop: Jobtop, shell: Terminal) -> None:
    shell.enter("clear; $J --store nowhere.db; $J --store .; $J --refresh 10ms; echo code $?")
    screen = " ".join(shell.shows("code 2").split())
    assert "--store: nowhere.db: there is no such file or directory" in screen
    assert "--store: .: there is no store (HOST.db) in this directory" in screen
    assert "--refresh has to be at least 0.2s" in screen


def test_a_wrong_key_binding_is_reported_in_the_console(jobtop: Jobtop, shell: Terminal) -> None:
    config = jobtop.home / ".config/jobtop/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('[keys]\njobs.kil = "K"\n')
    shell.enter("clear; $J")
    shell.shows("jobs.kil")
    shell.press("q")
    shell.back_at_prompt()


def test_stores_of_other_hosts_are_shown_beside_each_other(jobtop: Jobtop, shell: Terminal) -> None:
    for host in ("atlas", "rhea"):
        kept_jobs(jobtop.home / host, made_job(name=f"on-{host}"))
        (jobtop.home / host / f"{HERE}.db").rename(jobtop.home / f"{host}.db")
    enter(shell, "$J --store . --ascii --readonly")
    screen = shell.until(lambda screen: "on-atlas" in screen and "on-rhea" in screen, "two stores")
    assert screen.isascii()
    shell.press("q")
    restored(shell, 0)
