"""`jobtop` on a real terminal: every screen is a key away, and whatever ends it leaves the terminal as it was."""

import os
import signal
import sys
from collections.abc import Iterator

import pytest

from records import HERE, kept_jobs, made_job
from running import children, is_alive, nothing_is_left
from support import Jobtop, wait_for
from terminal import Terminal, terminal

__all__ = ["nothing_is_left"]

TITLES = {"2": "History", "3": "Compare", "4": "Containers", "5": "Alerts", "6": "Settings", "1": "Dash"}
SIZES = ((60, 15), (160, 42), (80, 24))
BROKEN = "import jobtop.tui.{0} as broken; broken.{1} = lambda *_: 1 / 0; from jobtop.__main__ import main; main()"


@pytest.fixture
def shell(jobtop: Jobtop) -> Iterator[Terminal]:
    """A terminal in which a console can be opened, on a history of one job."""
    kept_jobs(jobtop.state, made_job(name="[/b]train"))
    with terminal(jobtop) as shell:
        yield shell


def opened(shell: Terminal, command: str = "$J") -> int:
    """The pid of a console that shows its first picture."""
    shell.enter(f"clear; {command}; echo code $?")
    shell.until(lambda screen: "● live" in screen and "[/b]train" in screen, "a console")
    (pid,) = children(shell.shell())
    return pid


def restored(shell: Terminal, code: int) -> str:
    """The shell's screen again, with cursor, wrapped lines, line mode and echo, without the mouse; what it shows."""
    screen = shell.shows(f"code {code}")
    assert "● live" not in screen
    flags = "#{alternate_on} #{cursor_flag} #{wrap_flag} #{mouse_any_flag} #{mouse_sgr_flag}"
    assert shell.tmux("display-message", "-p", flags).strip() == "0 1 1 0 0"
    shell.enter("clear; stty -a | grep -Eow -e '-?(icanon|echo|isig|icrnl|ixon)' | sort | xargs echo modes:")
    shell.shows("modes: echo icanon icrnl isig ixon")
    return screen


def test_every_screen_is_a_key_away_at_any_size_and_q_leaves(shell: Terminal) -> None:
    opened(shell)
    for columns, lines in SIZES:
        shell.resize(columns, lines)
        for key, title in TITLES.items():
            shell.press(key)
            screen = shell.until(
                lambda screen, key=key, title=title: (
                    f" {key} {title} " in screen.splitlines()[0]  # type: ignore[misc]
                    and "palette" in screen.splitlines()[-1]
                ),
                f"{title} at {columns}×{lines}",
            )
            assert max(map(len, screen.splitlines())) <= columns
    shell.press("?")
    shell.shows("esc closes")
    shell.press("Escape")
    shell.until(lambda screen: "[/b]train" in screen and "esc closes" not in screen, "the dashboard")
    shell.press("q")
    restored(shell, 0)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_ends_it_and_leaves_no_trace(shell: Terminal, number: signal.Signals) -> None:
    os.kill(opened(shell), number)
    restored(shell, 128 + number)


def test_ctrl_c_is_q(shell: Terminal) -> None:
    opened(shell)
    shell.press("C-c")
    restored(shell, 0)


@pytest.mark.parametrize("part", [("dashboard", "Dashboard.show"), ("feed", "Feed.look")], ids="-".join)
def test_a_mistake_of_ours_is_said_in_words_and_kept_in_the_log(
    jobtop: Jobtop, shell: Terminal, part: tuple[str, str]
) -> None:
    shell.enter(f'clear; {sys.executable} -c "{BROKEN.format(*part)}"; echo code $?')
    screen = restored(shell, 125)
    assert "jobtop: a mistake in jobtop itself: ZeroDivisionError: division by zero" in " ".join(screen.split())
    assert "Traceback" not in screen
    log = (jobtop.state / "jobtop.log").read_text()
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
        (("--ascii",), "--ascii is of the console, which needs a terminal"),
        (("--readonly", "history"), "--readonly is of the console, which opens without a verb"),
        (("--refresh", "soon"), "--refresh"),
    ],
    ids=" ".join,
)
def test_what_is_of_the_console_is_refused_elsewhere(jobtop: Jobtop, args: tuple[str, ...], words: str) -> None:
    finished = jobtop(*args)
    assert (finished.returncode, finished.stdout) == (2, "")
    assert words in finished.stderr
    assert finished.stderr.count("\n") == 1


def test_what_is_wrong_is_said_before_the_screen_is_taken(jobtop: Jobtop, shell: Terminal) -> None:
    config = jobtop.home / ".config/jobtop/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('[keys]\njobs.kil = "K"\n')
    shell.enter("clear; $J; $J --store nowhere.db; $J --store .; $J --refresh 10ms; echo code $?")
    screen = " ".join(shell.shows("code 2").split())
    assert 'keys: jobs.kil: there is no such action (did you mean "jobs.kill"?)' in screen
    assert "--store: nowhere.db: there is no such file or directory" in screen
    assert "--store: .: there is no store (HOST.db) in this directory" in screen
    assert "--refresh has to be at least 0.2s" in screen


def test_stores_of_other_hosts_are_shown_beside_each_other(jobtop: Jobtop, shell: Terminal) -> None:
    for host in ("atlas", "rhea"):
        kept_jobs(jobtop.home / host, made_job(name=f"on-{host}"))
        (jobtop.home / host / f"{HERE}.db").rename(jobtop.home / f"{host}.db")
    shell.enter("clear; $J --store . --ascii --readonly; echo code $?")
    screen = shell.until(lambda screen: "on-atlas" in screen and "on-rhea" in screen, "two stores")
    assert screen.isascii()
    shell.press("q")
    restored(shell, 0)
