"""jobtop's own log: one line per outcome, whoever writes at the same time."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from jobtop.core import journal
from jobtop.core.job_id import JobId
from jobtop.core.model import Job, Status, Usage

ID = JobId("0f8fad5b-d9cb-469f-a165-70867728950e")


def job(status: Status, reason: str | None = None, seconds: float | None = 3.2, name: str = "train") -> Job:
    usage = Usage(cpu_total_seconds=1.5 if seconds is not None else None)
    return Job(ID, name, ("x",), "h", "u", "/", status, reason=reason, duration_seconds=seconds, usage=usage)


@pytest.mark.parametrize(
    ("ended", "level", "line"),
    [
        (job(Status.SUCCESS), "INFO", "job 0f8fad5b train: success after 3.2s with 1.5s of CPU"),
        (
            job(Status.FAILED, "exit code 7"),
            "ERROR",
            "job 0f8fad5b train: failed after 3.2s with 1.5s of CPU (exit code 7)",
        ),
        (job(Status.TIMEOUT, "t"), "WARNING", "job 0f8fad5b train: timeout after 3.2s with 1.5s of CPU (t)"),
        (job(Status.CANCELLED, "c"), "WARNING", "job 0f8fad5b train: cancelled after 3.2s with 1.5s of CPU (c)"),
        (job(Status.LOST, "gone", None), "ERROR", "job 0f8fad5b train: lost (gone)"),
        (job(Status.ERROR, "x: not found", None), "ERROR", "job 0f8fad5b train: error (x: not found)"),
        (job(Status.SUCCESS, None, None, "a\nb\x1b"), "INFO", "job 0f8fad5b a\\nb\\x1b: success"),
    ],
)
def test_an_outcome_is_one_line_with_its_level(ended: Job, level: str, line: str) -> None:
    assert journal.outcome(ended) == (level, line)


def test_an_entry_is_appended_with_its_time_and_for_this_user_only(tmp_path: Path) -> None:
    log = tmp_path / "jobtop.log"
    journal.write(log, "INFO", "first")
    journal.write(log, "ERROR", "second \udcff")
    assert log.stat().st_mode & 0o777 == 0o600
    moment = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z"
    assert re.fullmatch(rf"{moment} INFO first\n{moment} ERROR second \\udcff\n", log.read_text())


def test_lines_of_many_writers_stay_whole(tmp_path: Path) -> None:
    log = tmp_path / "jobtop.log"
    program = (
        "import pathlib, sys; from jobtop.core import journal\n"
        "for number in range(200): journal.write(pathlib.Path(sys.argv[1]), 'INFO', sys.argv[2] * 500)"
    )
    writers = [subprocess.Popen([sys.executable, "-c", program, log, letter]) for letter in "abc"]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    lines = log.read_text().splitlines()
    assert len(lines) == 600
    assert {line.split(" ", 2)[2] for line in lines} == {letter * 500 for letter in "abc"}


def test_a_log_that_cannot_be_written_is_the_caller_s_to_judge(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        journal.write(tmp_path / "none" / "jobtop.log", "INFO", "x")
