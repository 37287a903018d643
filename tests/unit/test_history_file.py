"""`jobs_history.jsonl`: whole lines from any number of processes, and a bounded size."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from jobtop.store import history_file
from jobtop.store.history_file import NAME, OLDER_NAME, append_line

WRITER = """
import sys
from jobtop.store.history_file import append_line
directory, name, most = sys.argv[1], sys.argv[2], int(sys.argv[3])
for number in range(200):
    append_line(directory, '{"writer": "%s", "number": %d, "text": "%s"}' % (name, number, "x" * 200), most)
"""


def test_a_job_is_one_line_that_only_this_user_can_read(tmp_path: Path) -> None:
    for number in range(3):
        path = append_line(str(tmp_path / "logs"), json.dumps({"number": number}))
    assert Path(path).read_text() == '{"number": 0}\n{"number": 1}\n{"number": 2}\n'
    assert os.stat(path).st_mode & 0o777 == 0o600


def test_a_torn_line_costs_that_line_alone(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text('{"number": 0}\n{"numb')
    append_line(str(tmp_path), '{"number": 1}')
    assert (tmp_path / NAME).read_text().splitlines() == ['{"number": 0}', '{"numb', '{"number": 1}']


def test_a_large_file_becomes_the_older_one(tmp_path: Path) -> None:
    for number in range(100):
        append_line(str(tmp_path), f"{number:09}", most_bytes=400)
    sizes = [(tmp_path / name).stat().st_size for name in (NAME, OLDER_NAME)]
    assert sum(sizes) <= 400
    lines = [*(tmp_path / OLDER_NAME).read_text().split(), *(tmp_path / NAME).read_text().split()]
    assert lines == [f"{number:09}" for number in range(100 - len(lines), 100)]


def test_several_processes_append_whole_lines_also_while_the_file_is_rotated(tmp_path: Path) -> None:
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), name, str(1 << 18)]) for name in ("a", "b", "c")
    ]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    lines = [line for name in (NAME, OLDER_NAME) for line in (tmp_path / name).read_text().splitlines()]
    found = [(entry["writer"], entry["number"]) for entry in map(json.loads, lines)]
    assert len(set(found)) == len(found) == 600


@pytest.mark.parametrize("kind", ["link", "fifo"])
def test_what_is_no_file_is_refused(tmp_path: Path, kind: str) -> None:
    if kind == "link":
        (tmp_path / NAME).symlink_to(tmp_path / "elsewhere")
    else:
        os.mkfifo(tmp_path / NAME)
    with pytest.raises(OSError, match=NAME):
        append_line(str(tmp_path), "{}")
    assert not (tmp_path / "elsewhere").exists()


def test_a_process_that_holds_the_file_for_long_delays_no_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_file, "PATIENCE_SECONDS", 0.02)
    append_line(str(tmp_path), "first")
    with (tmp_path / NAME).open("a") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        append_line(str(tmp_path), "second")
    assert (tmp_path / NAME).read_text() == "first\nsecond\n"
