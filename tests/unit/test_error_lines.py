"""The lines of output that explain a failure: a traceback, or the last lines; in `show`, its JSON and the console."""

import json
from pathlib import Path

import pytest

from jobtop.store.output.last_lines import LAST_LINES, LONGEST_TRACEBACK, read_error_lines
from support import Jobtop

FAILING = "def f():\n    raise ValueError('no \\x1b[31mrate\\x1b[0m')\nf()\n"
TRACE = ["Traceback (most recent call last):", '  File "x.py", line 1, in f', "ValueError: bad"]


def written(directory: Path, stdout: str, stderr: str | None = None) -> tuple[str, ...]:
    (directory / "stdout.log").write_text(stdout)
    if stderr is not None:
        (directory / "stderr.log").write_text(stderr)
    return read_error_lines(directory)


def lines(*texts: str) -> str:
    return "".join(f"{text}\n" for text in texts)


def test_the_last_lines_are_those_of_stderr(tmp_path: Path) -> None:
    many = [f"line {number}" for number in range(30)]
    assert written(tmp_path, "out\n", lines(*many, "")) == tuple(many[-LAST_LINES:])


@pytest.mark.parametrize("stderr", [None, "", "\n\n"])
def test_without_stderr_they_are_those_of_stdout(tmp_path: Path, stderr: str | None) -> None:
    assert written(tmp_path, "a\n\nb\n", stderr) == ("a", "b")
    assert written(tmp_path, "", stderr) == ()


def test_a_job_without_logs_has_none(tmp_path: Path) -> None:
    assert read_error_lines(tmp_path / "none") == ()


def test_a_traceback_is_whole_and_alone_even_with_output_around_it(tmp_path: Path) -> None:
    before = [f"step {number}" for number in range(30)]
    assert written(tmp_path, lines(*before, *TRACE, "bye")) == tuple(TRACE)
    assert written(tmp_path, lines("Traceback (most recent call last):")) == ("Traceback (most recent call last):",)


def test_of_two_tracebacks_the_last_counts_and_of_a_long_one_its_end(tmp_path: Path) -> None:
    other = [*TRACE[:2], "KeyError: 1"]
    assert written(tmp_path, "", lines(*TRACE, "During handling of the above exception:", *other)) == tuple(other)
    deep = [TRACE[0], *(f"  File {number}" for number in range(50)), "RecursionError: deep"]
    assert written(tmp_path, "", lines(*deep)) == (deep[0], *deep[1 - LONGEST_TRACEBACK :])


def test_escape_sequences_are_removed(tmp_path: Path) -> None:
    assert written(tmp_path, "", "\x1b[1;31mred\x1b[0m \x1b]0;title\x07end\n") == ("red end",)


def test_show_has_the_traceback_of_a_failed_job(jobtop: Jobtop, tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text(FAILING)
    jobtop("run", "--external-id", "bad", "--", "python3", str(tmp_path / "x.py"))
    page = jobtop("show", "bad").stdout
    assert "│ Traceback (most recent call last):" in page
    assert "│ ValueError: no rate" in page
    found = json.loads(jobtop("show", "bad", "--json").stdout)["error_lines"]
    assert (found[0], found[-1]) == ("Traceback (most recent call last):", "ValueError: no rate")


def test_show_of_a_job_that_ended_well_has_no_lines(jobtop: Jobtop) -> None:
    jobtop("run", "--external-id", "good", "--", "echo", "hi")
    record = json.loads(jobtop("show", "good", "--json").stdout)
    assert record["error_lines"] is None
    assert "│" not in jobtop("show", "good").stdout
