"""`jobtop run X && Y` in a real terminal: the console closes with its job, and its output stays in the scrollback."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from agents import Line, line
from jobtop.store.jobs import Query
from running import nothing_is_left
from support import Jobtop, wait_for
from terminal import Terminal, terminal

__all__ = ["line", "nothing_is_left"]


@pytest.fixture
def shell(jobtop: Jobtop) -> Iterator[Terminal]:
    with terminal(jobtop) as opened:
        opened.enter("export JOBTOP_RUN_UI=auto; clear")
        yield opened


class WaitingJob:
    """A job that prints some lines, and ends when it is told to."""

    def __init__(self, directory: Path, lines: int = 1) -> None:
        self.go = directory / "go"
        script = directory / "waiting"
        script.write_text(f"seq -f 'line %g' {lines}\nuntil [ -e {self.go} ]; do sleep 0.05; done\nprintf hi\n")
        self.command = f"$J run --name waiting -- sh {script}"

    def end(self) -> None:
        self.go.touch()


def scrollback(shell: Terminal) -> list[str]:
    """All lines above and on the screen."""
    return shell.tmux("capture-pane", "-p", "-J", "-S", "-").splitlines()


def test_the_next_command_runs_without_a_key(jobtop: Jobtop, shell: Terminal) -> None:
    job = WaitingJob(jobtop.home)
    shell.enter(f"{job.command} && echo NEX''T")
    shell.shows("running   waiting")
    job.end()
    shell.shows("NEXT")
    text = scrollback(shell)
    places = [next(at for at, row in enumerate(text) if row.startswith(word)) for word in ("line 1", "hi", "NEXT")]
    assert places == sorted(places)
    assert any("success" in row for row in text[places[1] : places[2]])
    assert not any("╭" in row for row in text)


def test_a_command_that_ends_at_once_reaches_the_next_one_too(shell: Terminal) -> None:
    shell.enter("$J run -- sh -c 'echo h''i' && echo NEX''T")
    shell.shows("NEXT")
    assert "hi" in scrollback(shell)


def test_after_a_key_the_console_stays(jobtop: Jobtop, shell: Terminal) -> None:
    job = WaitingJob(jobtop.home)
    shell.enter(f"{job.command} && echo NEX''T")
    shell.shows("running   waiting")
    shell.press("Tab")
    job.end()
    assert "NEXT" not in shell.shows("ended: exit 0 · q leaves")
    shell.press("q")
    shell.shows("NEXT")
    assert "hi" in scrollback(shell)


def test_detaching_does_not_run_the_next_command(jobtop: Jobtop, line: Line, shell: Terminal) -> None:
    job = WaitingJob(jobtop.home)
    shell.enter(f"{job.command} && echo NEX''T || echo code $?")
    shell.shows("running   waiting")
    shell.press("q")
    shell.shows("Leave the job running?")
    shell.press("d")
    shell.shows("code 75")
    text = scrollback(shell)
    at = text.index("code 75")
    assert "keeps running" in text[at - 2]
    assert "jobtop logs -f" in text[at - 1]
    assert "NEXT" not in text
    job.end()
    (found,) = line.jobs.select(Query())
    line.ended(found)


def test_of_a_long_output_the_last_lines_stay(jobtop: Jobtop, shell: Terminal) -> None:
    job = WaitingJob(jobtop.home, lines=500)
    shell.enter(job.command)
    shell.shows("running   waiting")
    job.end()
    shell.back_at_prompt()
    text = scrollback(shell)
    assert [row for row in text if row.startswith("line ")] == [f"line {number}" for number in range(482, 501)]
    assert any("jobtop logs" in row for row in text)


def test_colours_of_the_output_stay(jobtop: Jobtop, shell: Terminal) -> None:
    job = WaitingJob(jobtop.home)
    script = jobtop.home / "waiting"
    script.write_text("printf '\\033[31mred\\033[0m\\n'\n" + script.read_text())
    shell.enter(job.command)
    shell.shows("running   waiting")
    job.end()
    shell.back_at_prompt()
    assert any("\x1b[31mred" in row for row in shell.tmux("capture-pane", "-p", "-e", "-S", "-").splitlines())


def test_escape_sequences_of_the_output_have_no_effect(jobtop: Jobtop, shell: Terminal) -> None:
    job = WaitingJob(jobtop.home)
    script = jobtop.home / "waiting"
    script.write_text("printf 'kept\\033[2J\\033]0;title\\007\\n'\n" + script.read_text())
    shell.enter("echo before; " + job.command)
    shell.shows("running   waiting")
    job.end()
    shell.back_at_prompt()
    text = scrollback(shell)
    assert "before" in text
    assert any(row.startswith("kept") for row in text)
    assert shell.tmux("display-message", "-p", "#{pane_title}").strip() != "title"


def test_r_runs_a_job_again_with_changes(jobtop: Jobtop, line: Line, shell: Terminal) -> None:
    jobtop("run", "--no-ui", "--name", "first", "--param", "lr=0.1", "--", "echo", "one")
    shell.enter("$J")
    shell.shows("first")
    shell.press("r")
    shell.shows("Run again with changes")
    shell.until(lambda screen: "echo one" in screen and "lr=0.1" in screen, "the form of the job")
    shell.type(" two")
    shell.shows("echo one two")
    shell.press("Enter")
    shell.until(lambda screen: "Run again with changes" not in screen and screen.count("first") == 2, "both jobs")
    shell.press("q")
    shell.back_at_prompt()
    found = wait_for(lambda: jobs if len(jobs := line.jobs.select(Query())) == 2 else None)
    line.ended(found[0])
    assert sorted(job.command for job in found) == [("echo", "one"), ("echo", "one", "two")]
    assert [(job.name, job.params) for job in found] == [("first", {"lr": 0.1})] * 2
