"""`jobtop run` at a terminal: the console shows the job, and whatever becomes of the console, the job is told of."""

import json
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from agents import DEADLINE, Line, Load, line
from benchmarks.display import Display
from jobtop.core.model import Job
from jobtop.store.jobs import Query
from running import children, is_alive, nothing_is_left
from support import Jobtop, wait_for
from terminal import Recorder, ended, recorded, terminal

__all__ = ["line", "nothing_is_left"]

OPENED, CLOSED = b"\x1b[?1049h", b"\x1b[?1049l"
OVER = ("sh", "-c", "echo to see; echo to worry >&2; exit 3")


@contextmanager
def at_a_terminal(
    jobtop: Jobtop, *words: str, ui: str = "auto", when_done: str = "auto"
) -> Iterator[tuple[Display, Recorder]]:
    """`jobtop run …` as a user types it."""
    settings = {"JOBTOP_RUN_UI": ui, "JOBTOP_RUN_WHEN_DONE": when_done}
    with recorded(jobtop.command("run", *words), {**jobtop.env, **settings}) as shown:
        yield shown


@contextmanager
def shown(jobtop: Jobtop, load: Load, *options: str, when_done: str = "auto") -> Iterator[tuple[Display, Recorder]]:
    """A job that runs until it is told to end, and its console."""
    words = (*options, "--name", "gazer", "--", *load.command)
    with at_a_terminal(jobtop, *words, when_done=when_done) as (display, recorder):
        display.until(lambda screen: "running   gazer" in screen.text(), "the job")
        yield display, recorder


@pytest.fixture
def load(jobtop: Jobtop) -> Load:
    return Load(jobtop.home / "load", end="7", waits=True)


def the_job(line: Line) -> Job:
    (job,) = line.jobs.select(Query())
    return job


def left_behind(recorder: Recorder) -> bytes:
    """What is on the terminal once the console is gone."""
    assert recorder.written.count(OPENED) == recorder.written.count(CLOSED) == 1
    return recorder.written.rpartition(CLOSED)[2]


def press(display: Display, key: str) -> None:
    """Answer what becomes of the job."""
    display.press("q")
    display.until(lambda screen: "Leave the job running?" in screen.text(), "the question")
    display.press(key)


def test_detaching_exits_with_75_and_names_the_commands_that_show_the_job(
    jobtop: Jobtop, line: Line, load: Load
) -> None:
    with shown(jobtop, load) as (display, recorder):
        press(display, "d")
        assert ended(display) == 75
        job = the_job(line)
        said = left_behind(recorder).decode().splitlines()
        assert len(said) == 2
        assert "keeps running" in said[0]
        assert f"jobtop show {job.id[:8]}" in said[1]
        assert f"jobtop logs -f {job.id[:8]}" in said[1]
        assert (job.status, is_alive(load.pids[0])) == ("running", True)
    load.let_end()
    load.check(line.ended(job))


def test_who_leaves_with_s_stops_the_job(jobtop: Jobtop, line: Line, load: Load) -> None:
    record = jobtop.home / "record.json"
    with shown(jobtop, load, "--record", str(record)) as (display, recorder):
        press(display, "s")
        assert ended(display) == 128 + signal.SIGTERM
        job = the_job(line)
        assert job.status == "cancelled"
        assert "jobtop console" in str(job.reason)
        assert not is_alive(load.pids[0])
        said = left_behind(recorder).decode()
        assert f"stopping job {job.id[:8]} (Ctrl-C kills it)" in said
        assert "cancelled" in said
        assert json.loads(record.read_text())["status"] == "cancelled"


def test_the_console_closes_with_its_job_and_leaves_output_summary_and_exit_code(
    jobtop: Jobtop, line: Line, load: Load
) -> None:
    record = jobtop.home / "record.json"
    with shown(jobtop, load, "--record", str(record)) as (display, recorder):
        load.let_end()
        assert ended(display) == 7
        load.check(the_job(line))
        assert "exit code 7" in left_behind(recorder).decode()
        kept = json.loads(record.read_text())
        assert (kept["id"], kept["exit_code"]) == (the_job(line).id, 7)


@pytest.mark.parametrize(("when_done", "is_touched"), [("auto", True), ("stay", False)])
def test_a_console_that_stays_says_how_the_job_ended_and_how_to_leave(
    jobtop: Jobtop, line: Line, load: Load, when_done: str, is_touched: bool
) -> None:
    with shown(jobtop, load, when_done=when_done) as (display, recorder):
        if is_touched:
            display.press("\t")
        load.let_end()
        display.until(lambda screen: "ended: exit 7 · q leaves" in screen.text(), "the end")
        display.press("q")
        assert ended(display) == 7
        load.check(the_job(line))
        assert "exit code 7" in left_behind(recorder).decode()


def test_a_click_is_input_too(jobtop: Jobtop, load: Load) -> None:
    with shown(jobtop, load) as (display, _):
        display.press("\x1b[<0;10;10M\x1b[<0;10;10m")
        load.let_end()
        display.until(lambda screen: "ended: exit 7 · q leaves" in screen.text(), "the end")
        display.press("q")
        assert ended(display) == 7


def test_with_leave_the_console_closes_although_a_key_was_pressed(jobtop: Jobtop, load: Load) -> None:
    with shown(jobtop, load, when_done="leave") as (display, _):
        display.press("\t")
        load.let_end()
        assert ended(display) == 7


def test_the_question_what_to_do_with_the_job_closes_when_the_job_has_ended(jobtop: Jobtop, load: Load) -> None:
    with shown(jobtop, load) as (display, _):
        display.press("q")
        display.until(lambda screen: "Leave the job running?" in screen.text(), "the question")
        load.let_end()
        assert ended(display) == 7


def test_a_console_that_is_told_to_end_stops_the_job(jobtop: Jobtop, line: Line, load: Load) -> None:
    with shown(jobtop, load) as (display, recorder):
        display.process.terminate()
        assert ended(display) == 128 + signal.SIGTERM
        assert the_job(line).status == "cancelled"
        assert not is_alive(load.pids[0])
        assert b"cancelled" in left_behind(recorder)


def test_a_terminal_that_is_closed_leaves_the_job_running(jobtop: Jobtop, line: Line, load: Load) -> None:
    with terminal(jobtop) as shell:
        words = " ".join(f"'{word}'" for word in load.command)
        script = jobtop.home / "started"
        script.write_text(f"JOBTOP_RUN_UI=auto exec $J run --name gazer -- {words}\n")
        shell.enter(f"bash {script}")
        shell.shows("running   gazer")
        (console,) = children(shell.shell())
        shell.tmux("new-window", "-d")  # or the server would end with its last window
        shell.close_window()
        wait_for(lambda: not is_alive(console), DEADLINE)
        assert is_alive(load.pids[0])
        load.let_end()
        load.check(line.ended(the_job(line)))


def test_a_job_that_is_over_at_once_is_printed(jobtop: Jobtop, line: Line) -> None:
    with at_a_terminal(jobtop, "--", *OVER) as (display, recorder):
        assert ended(display) == 3
        said = recorder.written.decode()
        assert OPENED.decode() not in said
        assert ("to see" in said, "to worry" in said, "exit code 3" in said) == (True, True, True)
    assert line.ended(the_job(line)).exit_code == 3


def test_a_command_that_cannot_start_opens_no_console(jobtop: Jobtop, line: Line) -> None:
    with at_a_terminal(jobtop, "--", "/no/such/program") as (display, recorder):
        assert ended(display) == 127
        assert recorder.written == b"jobtop: /no/such/program: command not found\r\n"
    assert the_job(line).status == "error"


@pytest.mark.parametrize(
    ("words", "ui"),
    [(("--no-ui",), "always"), ((), "never"), (("--pty",), "auto"), (("--detach",), "auto")],
    ids=["--no-ui", "run.ui=never", "--pty", "--detach"],
)
def test_no_console_opens_where_none_is_wanted(
    jobtop: Jobtop, line: Line, load: Load, words: Sequence[str], ui: str
) -> None:
    with at_a_terminal(jobtop, *words, "--", *load.command, ui=ui) as (display, recorder):
        load.begins()
        load.let_end()
        assert ended(display) == (0 if "--detach" in words else 7)
        assert OPENED not in recorder.written
    load.check(line.ended(the_job(line)))
