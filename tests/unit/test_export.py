"""`jobtop export`: samples as CSV, JSON Lines and SQLite; jobs as Snakemake and Nextflow write them down."""

import csv
import gzip
import io
import json
import os
import sqlite3
import stat
from pathlib import Path

import pytest

from jobtop.core.model import Job, Status, Usage
from jobtop.core.series.trace_formats import MemoryPeaks, nextflow_row, snakemake_row
from records import HOSTILE_TEXTS, assert_one_line, call, kept_jobs, made_job, running_job, this_process
from sampled import damage_samples, kept_sampled, steady

USAGE = Usage(
    cpu_user_seconds=300.0,
    cpu_system_seconds=45.1,
    cpu_total_seconds=345.1,
    memory_peak_bytes=215 << 20,
    io_read_bytes=600 << 20,
    io_write_bytes=57 << 20,
    io_read_chars=1288490188,
    io_write_chars=540,
)
TRAINED = made_job(
    id="9a59175b-541e-42be-a305-be2c1111a9db",
    seq=17,
    pid=4711,
    usage=USAGE,
    duration_seconds=299.9,
    end_time=1_700_000_300.4,
)


@pytest.fixture
def two(home: Path) -> tuple[Job, Job]:
    """Two jobs of three and two samples."""
    first = kept_sampled(home, made_job(duration_seconds=3.5), steady(3))
    return first, kept_sampled(home, made_job(name="other", duration_seconds=2.5), steady(2), sealed=True)


def test_one_job_as_csv_or_json_lines_is_what_metrics_prints(two: tuple[Job, Job]) -> None:
    for style in ("csv", "jsonl"):
        exported = call("export", two[0].id, "--format", style)
        assert exported == call("metrics", two[0].id, "--format", style)


def test_all_jobs_as_csv_are_one_long_table_with_the_job_first(two: tuple[Job, Job]) -> None:
    text = call("export").stdout
    assert text.startswith("job_id,timestamp,elapsed,cpu.percent,")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["job_id"] for row in rows] == [two[0].id] * 5 + [two[1].id] * 4
    assert [row["elapsed"] for row in rows[5:]] == ["0.0", "1.0", "2.0", "2.5"]


def test_jobs_are_exported_once_in_the_order_of_the_arguments(two: tuple[Job, Job]) -> None:
    text = call("export", two[1].id, two[0].id, two[1].id[:8], "--format", "jsonl").stdout
    assert [json.loads(line)["job_id"] for line in text.splitlines()] == [two[1].id] * 4 + [two[0].id] * 5


def test_sqlite_has_the_tables_of_the_seed(two: tuple[Job, Job], tmp_path: Path) -> None:
    path = tmp_path / "metrics.db"
    answer = call("export", "--format", "sqlite", "--output", str(path))
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, "", "")
    connection = sqlite3.connect(path)
    shapes = {
        name: [(column[1], column[2], column[5]) for column in connection.execute(f"PRAGMA table_info({name})")]
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
    }
    samples = connection.execute("SELECT * FROM job_resource_samples ORDER BY id").fetchall()
    metadata = connection.execute("SELECT * FROM job_metadata ORDER BY job_id").fetchall()
    connection.close()
    assert shapes == {
        "job_resource_samples": [
            ("id", "INTEGER", 1),
            ("job_id", "INTEGER", 0),
            ("timestamp", "REAL", 0),
            ("cpu_percent", "REAL", 0),
            ("memory_bytes", "INTEGER", 0),
            ("num_processes", "INTEGER", 0),
        ],
        "job_metadata": [("job_id", "INTEGER", 1), ("job_name", "TEXT", 0)],
    }
    assert samples[1] == (2, two[0].seq, 1_700_000_002.5, 50.0, 2 << 20, 2)
    assert {row[1] for row in samples} == {two[0].seq, two[1].seq}
    assert metadata == [(two[0].seq, "train"), (two[1].seq, "other")]


def test_sqlite_needs_a_file(two: tuple[Job, Job]) -> None:
    answer = call("export", "--format", "sqlite")
    assert (answer.returncode, "--output PATH" in answer.stderr) == (2, True)


def test_jobs_with_any_name_can_be_exported(home: Path, tmp_path: Path) -> None:
    kept_jobs(home, *(made_job(name=text) for text in HOSTILE_TEXTS.values()))
    path = tmp_path / "metrics.db"
    assert call("export", "--format", "sqlite", "--output", str(path)).returncode == 0
    connection = sqlite3.connect(path)
    names = [name for (name,) in connection.execute("SELECT job_name FROM job_metadata ORDER BY job_id")]
    connection.close()
    wanted = [text.encode("utf-8", "backslashreplace").decode() for text in HOSTILE_TEXTS.values()]
    assert names == wanted
    lines = call("export", "--format", "nextflow").stdout.splitlines()
    assert [line.count("\t") for line in lines] == [13] * (len(HOSTILE_TEXTS) + 1)


def test_a_benchmark_file_has_the_columns_and_units_of_snakemake() -> None:
    peaks = MemoryPeaks(rss=300 << 20, vms=1000 << 20)
    assert snakemake_row(TRAINED, peaks) == (
        ["299.90", "0:04:59", "300.00", "1000.00", "NA", "NA", "600.00", "57.00", "115.07", "345.10"]
    )
    long = made_job(duration_seconds=2 * 86400 + 3661.7)
    assert snakemake_row(long, MemoryPeaks()) == ["176461.70", "2 days, 1:01:01", *["NA"] * 8]
    assert snakemake_row(running_job(), MemoryPeaks()) == ["NA"] * 10


def test_max_rss_is_never_below_the_peak_of_the_kernel() -> None:
    assert snakemake_row(TRAINED, MemoryPeaks(rss=100 << 20))[2] == "215.00"


def test_the_benchmark_of_a_sampled_job_has_the_peaks_of_its_samples(two: tuple[Job, Job]) -> None:
    header, row = call("export", two[0].id, "--format", "snakemake").stdout.splitlines()
    assert header.split("\t") == ("s h:m:s max_rss max_vms max_uss max_pss io_in io_out mean_load cpu_time".split())
    assert row.split("\t")[2:6] == ["6.00", "30.00", "NA", "NA"]


def test_a_trace_has_the_fields_and_forms_of_nextflow() -> None:
    row = nextflow_row(TRAINED, MemoryPeaks(vms=1000 << 20))
    assert row[:6] == ["17", "9a/59175b", "4711", "train", "COMPLETED", "0"]
    assert row[6].endswith(".250")
    assert row[7:] == ["5m", "5m", "115.1%", "215 MB", "1000 MB", "1.2 GB", "540 B"]
    assert nextflow_row(running_job(submitted_at=None), MemoryPeaks())[2:] == (
        ["-", "train", "RUNNING", "-", "-", "-", "-", "-", "-", "-", "-", "-"]
    )


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.0, "0ms"),
        (0.2249, "224ms"),
        (13.24, "13.2s"),
        (4.0, "4s"),
        (404.0, "6m 44s"),
        (3600.0, "1h"),
        (93780, "1d 2h 3m"),
    ],
)
def test_a_trace_writes_times_as_nextflow_does(seconds: float, shown: str) -> None:
    assert nextflow_row(made_job(duration_seconds=seconds), MemoryPeaks())[8] == shown


@pytest.mark.parametrize(("status", "shown"), [("failed", "FAILED"), ("timeout", "FAILED"), ("cancelled", "ABORTED")])
def test_a_trace_has_the_outcome_of_jobs(status: str, shown: str) -> None:
    row = nextflow_row(made_job(status=Status(status), exit_code=None, signal=9), MemoryPeaks())
    assert (row[4], row[5]) == (shown, "137")


def test_every_status_has_a_word_in_a_trace() -> None:
    words = {status: nextflow_row(made_job(status=status), MemoryPeaks())[4] for status in Status}
    assert [status for status, word in words.items() if word == "-"] == [Status.UNKNOWN]


def test_a_file_is_overwritten_only_with_force_and_no_part_is_left(two: tuple[Job, Job], tmp_path: Path) -> None:
    path = tmp_path / "out" / "jobs.csv"
    path.parent.mkdir()
    assert call("export", "--output", str(path)).returncode == 0
    assert path.read_text() == call("export").stdout
    for style in ("csv", "sqlite"):
        answer = call("export", "--format", style, "--output", str(path))
        assert answer.returncode == 2
        assert_one_line(answer.stderr, f"--output: {path}: ", "exists", "--force")
    assert path.read_text().startswith("job_id")
    assert call("export", "--format", "nextflow", "--output", str(path), "--force").returncode == 0
    assert path.read_text().startswith("task_id")
    assert [file.name for file in path.parent.iterdir()] == ["jobs.csv"]


def test_a_new_file_has_the_mode_of_the_umask(two: tuple[Job, Job], tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        for style in ("csv", "sqlite"):
            call("export", "--format", style, "--output", str(tmp_path / style))
    finally:
        os.umask(before)
    assert {stat.S_IMODE((tmp_path / style).stat().st_mode) for style in ("csv", "sqlite")} == {0o640}


@pytest.mark.parametrize("force", [(), ("--force",)])
def test_a_directory_is_never_replaced(two: tuple[Job, Job], tmp_path: Path, force: tuple[str, ...]) -> None:
    answer = call("export", "--output", str(tmp_path), *force)
    assert answer.returncode == 2
    assert_one_line(answer.stderr, "--output", str(tmp_path), "not a file")


def test_a_path_that_cannot_be_written_is_named(two: tuple[Job, Job], tmp_path: Path) -> None:
    path = tmp_path / "missing" / "out.csv"
    answer = call("export", "--output", str(path))
    assert answer.returncode == 2
    assert_one_line(answer.stderr, "--output", str(path), "No such file or directory")


def test_damaged_samples_are_counted(home: Path) -> None:
    job = kept_sampled(home, made_job(duration_seconds=3.5), steady(3), sealed=True)
    damage_samples(home)
    for style in ("csv", "snakemake"):
        answer = call("export", job.id, "--format", style)
        assert answer.returncode == 0
        assert_one_line(answer.stderr, "3 samples", "damaged")


def test_an_empty_store_and_a_job_that_runs_are_no_errors(home: Path) -> None:
    kept_sampled(home, running_job(recorder=this_process()), steady(2))
    assert [line.split("\t")[4] for line in call("export", "--format", "nextflow").stdout.splitlines()] == (
        ["status", "RUNNING"]
    )
    assert len(call("export").stdout.splitlines()) == 4


def test_a_name_that_says_json_is_not_filled_with_csv(home: Path, tmp_path: Path) -> None:
    job = kept_sampled(home, made_job(duration_seconds=9.5), steady(9))
    for name in ("jobs.json", "jobs.json.gz"):
        answer = call("export", job.id, "--output", str(tmp_path / name))
        assert answer.returncode == 2
        assert_one_line(answer.stderr, ".jsonl")
    assert call("export", job.id, "--output", str(tmp_path / name), "--format", "jsonl").returncode == 0


@pytest.mark.parametrize(("name", "style"), [("jobs.csv.gz", "csv"), ("jobs.jsonl.gz", "jsonl"), ("jobs.gz", "csv")])
def test_a_name_that_ends_with_gz_is_compressed(two: tuple[Job, Job], tmp_path: Path, name: str, style: str) -> None:
    path = tmp_path / name
    answer = call("export", "--output", str(path))
    assert (answer.returncode, answer.stderr) == (0, "")
    assert gzip.decompress(path.read_bytes()).decode() == call("export", "--format", style).stdout
    first = path.read_bytes()
    assert call("export", "--output", str(path), "--force").returncode == 0
    assert path.read_bytes() == first
    assert [file.name for file in tmp_path.iterdir() if file.is_file()] == [name]


def test_the_format_given_counts_more_than_the_name(two: tuple[Job, Job], tmp_path: Path) -> None:
    path = tmp_path / "jobs.jsonl.gz"
    call("export", "--format", "nextflow", "--output", str(path))
    assert gzip.decompress(path.read_bytes()).startswith(b"task_id")


def test_a_compressed_database_is_a_database(two: tuple[Job, Job], tmp_path: Path) -> None:
    path = tmp_path / "jobs.db.gz"
    assert call("export", "--output", str(path)).returncode == 0
    plain = tmp_path / "plain.db"
    plain.write_bytes(gzip.decompress(path.read_bytes()))
    connection = sqlite3.connect(plain)
    names = connection.execute("SELECT job_name FROM job_metadata ORDER BY job_id").fetchall()
    connection.close()
    assert names == [("train",), ("other",)]
    assert sorted(file.name for file in tmp_path.iterdir() if file.is_file()) == ["jobs.db.gz", "plain.db"]


def test_the_jobs_of_a_filter_are_exported_together(home: Path) -> None:
    jobs = [
        kept_sampled(home, made_job(name=name, tags={"wf": wf}, duration_seconds=2.5), steady(2))
        for name, wf in (("a", "1"), ("b", "2"), ("c", "1"))
    ]
    rows = list(csv.DictReader(io.StringIO(call("export", "tag:wf=1").stdout)))
    assert {row["job_id"] for row in rows} == {jobs[0].id, jobs[2].id}
