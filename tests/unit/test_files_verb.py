"""`files` of jobs that do not run here, and the page of those that do: every format, any path, any width."""

import csv
import io
import json
from pathlib import Path

import pytest

from jobtop.cli.text.file_lists import FileListing, page, shortened
from jobtop.core.measure.live.files import FileLine, LiveFiles
from jobtop.core.model import Job, Queued, Status
from jobtop.core.units import cell_width
from records import HOSTILE_TEXTS, call, holds_controls, kept_jobs, made_job, running_job

FILES = [
    {
        "path": "/data/train.bin",
        "size_bytes": 300 << 20,
        "read_bytes": 576 << 20,
        "written_bytes": 0,
        "passes": 2,
        "processes": 1,
        "is_deleted": False,
        "is_estimate": True,
    },
    {"path": "/data/index.db", "size_bytes": 1 << 20, "read_bytes": None, "written_bytes": None, "is_deleted": True},
]


@pytest.fixture
def ended(home: Path) -> Job:
    (job,) = kept_jobs(home, made_job(findings={"files": [*FILES, 7, {"no": "path"}]}))
    return job


def test_an_ended_job_prints_the_files_of_its_record(ended: Job) -> None:
    answer = call("files", ended.id)
    assert (answer.returncode, answer.stderr) == (0, "")
    _, titles, first, second = answer.stdout.splitlines()
    assert titles.split() == ["FILE", "SIZE", "READ", "PASSES", "WRITTEN"]
    assert first.split() == ["/data/train.bin", "300.0", "MiB", "576.0", "MiB", "2"]
    assert second.split() == ["/data/index.db", "(deleted)", "1.0", "MiB", "–", "–"]


def test_an_ended_job_as_json_and_csv(ended: Job) -> None:
    found = json.loads(call("files", "--json", ended.id).stdout)
    assert (found["job_id"], found["live"], found["files"]) == (ended.id, False, FILES)
    rows = list(csv.DictReader(io.StringIO(call("files", "--format", "csv", ended.id).stdout)))
    assert [(row["job_id"], row["path"], row["read_bytes"]) for row in rows] == [
        (ended.id, "/data/train.bin", str(576 << 20)),
        (ended.id, "/data/index.db", ""),
    ]


def test_show_names_the_files_and_how_many_more_there_are(home: Path) -> None:
    many = [{"path": f"/data/{number}", "size_bytes": 1, "read_bytes": 5 << 20} for number in range(5)]
    (job,) = kept_jobs(home, made_job(findings={"files": many}))
    shown = call("show", job.id).stdout
    assert "/data/0: at least 5.0 MiB read" in shown
    assert "/data/3" not in shown
    assert f"2 more: jobtop files {job.id[:8]}" in shown


@pytest.mark.parametrize(
    ("job", "word"),
    [
        (running_job(host="elsewhere"), "elsewhere"),
        (made_job(), "monitor.without"),
        (made_job(status=Status.CANCELLED, start_time=None, queue=Queued()), "not run"),
        (made_job(findings={"files": "torn"}), "monitor.without"),
    ],
    ids=["another host", "none in the record", "never run", "damaged"],
)
def test_a_job_without_known_files_says_why_in_one_line(home: Path, job: Job, word: str) -> None:
    kept_jobs(home, job)
    answer = call("files", job.id)
    assert (answer.returncode, answer.stdout.count("\n")) == (0, 1)
    assert word in answer.stdout
    assert json.loads(call("files", "--json", job.id).stdout)["files"] == []


@pytest.mark.parametrize("words", [("--interval", "0.01s"), ("--follow", "--json"), ("--follow", "--format", "csv")])
def test_wrong_use_is_one_line(ended: Job, words: tuple[str, ...]) -> None:
    answer = call("files", *words, ended.id)
    assert (answer.returncode, answer.stdout, answer.stderr.count("\n")) == (2, "", 1)


def line(path: str = "/data/train.bin") -> FileLine:
    return FileLine(path, 100 << 20, 67 << 20, "read", 10e6, None, 3.4, pid=42, command=f"python {path}", processes=3)


@pytest.mark.parametrize("text", HOSTILE_TEXTS.values(), ids=HOSTILE_TEXTS)
@pytest.mark.parametrize("columns", [None, 40, 80, 200])
def test_any_path_fits_and_does_no_harm(text: str, columns: int | None) -> None:
    listing = FileListing(running_job(), LiveFiles((line(f"/{text}"), line()), 2))
    for shown in page(listing, columns):
        assert not holds_controls(shown)
        assert columns is None or cell_width(shown) <= columns


def test_a_live_page_has_position_rate_time_left_and_the_process() -> None:
    titles, row = page(FileListing(running_job(), LiveFiles((line(),), 1)), None)
    assert titles.split() == ["FILE", "SIZE", "POSITION", "MODE", "RATE", "LEFT", "PID", "COMMAND"]
    for word in ("100.0 MiB", "67 %", "read", "9.5 MiB/s", "3.4s", "42 +2", "python"):
        assert word in row


def test_a_denied_process_is_named_with_the_remedy() -> None:
    (only,) = page(FileListing(running_job(), LiveFiles((), 1, 1, "Permission denied")), 200)
    assert "Permission denied" in only
    assert "root" in only


def test_no_open_files_is_a_line() -> None:
    (only,) = page(FileListing(running_job(), LiveFiles((), 1)), 80)
    assert "--all" in only


@pytest.mark.parametrize("widest", [5, 10, 24])
def test_a_long_path_keeps_its_end(widest: int) -> None:
    path = shortened("/a/very/long/日本語/path/to/data.bin", widest)
    assert cell_width(path) <= widest
    assert path.endswith("bin")
