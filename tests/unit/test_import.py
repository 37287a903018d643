"""`jobtop import` recognises the files of other programs, reads what it can, and imports each job once."""

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from importing import KEYSTONE, SAMPLES, imported, stored, torc_file

from jobtop.core.model import Job, Status
from jobtop.core.paths import StatePaths
from jobtop.store.database import open_to_read
from jobtop.store.samples.curves import Curves
from jobtop.store.transfer import imports
from jobtop.store.transfer.imports import recognise_format
from jobtop.store.transfer.workflows import duration, moment_of, size
from records import HERE, assert_one_line, call, kept_jobs, made_job
from sampled import kept_sampled, steady


def series(home: Path, job: Job, *keys: str) -> tuple[list[float], dict[str, list[float | int | None]]]:
    with closing(open_to_read(StatePaths(home, HERE).store)) as database:
        found = Curves(database).series(job, keys)
    return found.times, found.values


def test_every_format_is_recognised_by_its_contents(tmp_path: Path) -> None:
    kinds = {str(path.relative_to(SAMPLES)).split("/")[0]: recognise_format(path) for path in imports.files_in(SAMPLES)}
    assert kinds == {
        "alpha_diversity.benchmark": "snakemake",
        "duct": "con-duct",
        "joblet": "joblet",
        "jobs_history.jsonl": "keystone",
        "resource_logs": "epochs",
        "trace.txt": "nextflow",
    }
    renamed = torc_file(tmp_path / "anything")
    assert recognise_format(renamed) == "torc"


def test_importing_twice_adds_nothing(home: Path, tmp_path: Path) -> None:
    copied = tmp_path / "elsewhere"
    shutil.copytree(SAMPLES, copied)
    first, again = imported(SAMPLES), imported(copied)
    assert (first["jobs"], first["samples"], first["already_there"]) == (11, 11, 0)
    assert (again["jobs"], again["samples"], again["already_there"]) == (0, 0, 11)
    assert len(stored(home)) == 11


def test_imported_jobs_are_settled(home: Path) -> None:
    imported(SAMPLES)
    assert all(job.settled and job.status.ended and job.tags["imported"] for job in stored(home))
    assert {job.host for job in stored(home)} == {"", "atlas"}


def test_jobs_of_keystone_keep_their_outcome_and_a_truncated_line_is_named(home: Path) -> None:
    summary = imported(KEYSTONE)
    assert [(place["line"], "truncated" in place["why"]) for place in summary["unreadable"]] == [(4, True)]
    solved, killed, late = stored(home)
    assert (solved.external_id, solved.name, solved.tool) == ("abc-123-xyz", "poisson", "fenicsx")
    assert (solved.status, solved.exit_code, solved.duration_seconds) == (Status.SUCCESS, 0, 330.12)
    assert solved.params == {"mesh_size": 64, "api_key": "***"}
    assert (solved.start_time, solved.usage.cpu_total_seconds) == (1760524200.0, 297.79)  # it writes UTC
    assert solved.usage.memory_peak_bytes == round(2048.56 * 2**20)
    assert (killed.status, killed.exit_code, killed.signal) == (Status.FAILED, None, 9)
    assert (late.status, late.usage.io_read_bytes, late.monitor.interval_seconds) == (Status.TIMEOUT, 134742016, 0.5)


def test_odd_values_in_a_line_of_keystone_do_no_harm(home: Path, tmp_path: Path) -> None:
    odd = [
        {"task_id": {"a": 1}, "status": "running", "resource_usage": [], "params": "x", "returncode": True},
        {"task_id": "\ud800", "status": None, "tool": ["\x1b[2J"], "script": 7, "start_time": "yesterday"},
        {"task_id": "big", "status": "success", "duration_seconds": 1e400, "start_time": "0001-01-01T00:00:00"},
    ]
    path = tmp_path / "jobs_history.jsonl"
    lines = [*map(json.dumps, odd), "[" * 100_000, "null", "", '{"other": 1}']
    path.write_text("\n".join(lines) + "\n")
    summary = imported(path)
    assert (summary["jobs"], [place["line"] for place in summary["unreadable"]]) == (3, [4, 5, 7])
    assert [job.status for job in stored(home)] == [Status.UNKNOWN, Status.UNKNOWN, Status.SUCCESS]
    assert [job.duration_seconds for job in stored(home)] == [None] * 3
    assert [job.start_time for job in stored(home)] == [None] * 3
    shown = call("show", stored(home)[1].id)
    assert (shown.returncode, "where" in shown.stdout, "\x1b" in shown.stdout) == (0, False, False)


def test_many_jobs_are_found_by_every_index_afterwards(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(imports, "FEW_JOBS", 50)
    kept_jobs(home, made_job(name="mine"))
    line = json.loads(KEYSTONE.read_text().splitlines()[0])
    path = tmp_path / "jobs_history.jsonl"
    path.write_text("".join(json.dumps(line | {"task_id": str(number)}) + "\n" for number in range(60)))
    assert imported(path)["jobs"] == 60
    with closing(sqlite3.connect(StatePaths(home, HERE).store)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'index'")}
        touched = connection.execute("SELECT count(DISTINCT touched) FROM jobs").fetchone()[0]
    assert {"jobs_in_short", "jobs_by_touch", "jobs_by_external_id"} <= names
    assert touched == 61


def test_samples_of_torc_become_curves(home: Path, tmp_path: Path) -> None:
    summary = imported(torc_file(tmp_path / "resource_metrics_node_7_3_2.db"))
    assert (summary["jobs"], summary["samples"]) == (3, 4)
    assert summary["left_out"] == {"torc": ["system_resource_samples"]}
    trained, single, short = stored(home)
    assert (trained.name, trained.external_id, trained.host, trained.status) == (
        "train_model",
        "15",
        "node_7",
        "unknown",
    )
    assert (trained.tags["workflow"], trained.tags["run"]) == ("3", "2")
    assert (trained.start_time, trained.duration_seconds) == (1700000000.0, 10.0)
    assert (trained.usage.cpu_total_seconds, trained.usage.cpu_user_seconds) == (15.0, None)
    assert (trained.usage.memory_peak_bytes, trained.usage.processes_peak) == (5_000_000, 3)
    assert any("shared pages" in doubt for doubt in trained.incomplete)
    times, values = series(home, trained, "cpu.percent", "mem.used")
    assert times == [0.0, 0.0, 5.0, 10.0, 10.0]
    assert values["cpu.percent"][2:4] == [100.0, 200.0]
    assert values["mem.used"][1:4] == [1_000_000, 5_000_000, 3_000_000]
    assert (single.duration_seconds, single.usage.cpu_total_seconds) == (None, None)
    assert (short.name, short.start_time, short.usage.memory_peak_bytes) == ("too short", None, None)


def test_the_age_of_imported_samples_counts_from_the_import(home: Path, tmp_path: Path) -> None:
    imported(torc_file(tmp_path / "resource_metrics_node_7_3_2.db"))
    assert call("prune").returncode == 0
    assert series(home, stored(home)[0], "mem.used")[0] == [0.0, 0.0, 5.0, 10.0, 10.0]


def test_what_is_exported_for_torc_can_be_imported_again(home: Path, tmp_path: Path) -> None:
    imported(SAMPLES / "joblet")
    path = tmp_path / "metrics.db"
    assert call("export", "--format", "sqlite", "--output", str(path)).returncode == 0
    assert imported(path)["jobs"] == 1
    before, after = stored(home)
    assert after.usage.memory_peak_bytes == before.usage.memory_peak_bytes


def test_epochs_of_a_directory_are_one_job(home: Path) -> None:
    summary = imported(SAMPLES / "resource_logs")
    assert (summary["jobs"], summary["samples"]) == (1, 3)
    assert summary["left_out"] == {"epochs": ["cpu_percent", "gpu_0_temp_c", "memory_percent"]}
    (job,) = stored(home)
    assert (job.name, job.duration_seconds, job.usage.cpu_total_seconds) == ("import", 15.0, 12.5)
    assert job.usage.io_read_bytes == 50 << 20  # 5 s at 8 MB/s, 10 s at 1
    _, values = series(home, job, "gpu.util", "gpu.mem_used", "mem.used")
    assert values["gpu.util"][1:4] == [100.0, 100.0, 60.0]
    assert values["gpu.mem_used"][1] == 9216 << 20
    assert values["mem.used"][1:4] == [2048 << 20, 3072 << 20, 2560 << 20]


def test_counters_of_joblet_stay_counters(home: Path) -> None:
    imported(SAMPLES / "joblet")
    (job,) = stored(home)
    assert (job.external_id, job.limits.cpus) == ("f47ac10b-58cc-4372-a567-0e02b2c3d479", 2.0)
    assert (job.usage.cpu_user_seconds, job.usage.cpu_system_seconds) == (6.08, 1.52)
    assert (job.usage.faults_major, job.usage.faults_minor) == (6, 2994)
    _, values = series(home, job, "cpu.percent", "mem.used", "mem.cgroup", "proc.fds")
    assert values["cpu.percent"][2:5] == pytest.approx([50.0] * 3)
    assert values["mem.used"][1] == 268435456 + 1048576
    assert set(values["proc.fds"]) == {None}  # Joblet never fills it


def test_other_jobs_are_sampled_during_an_import(home: Path) -> None:
    before = kept_sampled(home, made_job(duration_seconds=3.5), steady(3))
    imported(SAMPLES / "joblet")
    after = kept_sampled(home, made_job(duration_seconds=3.5), steady(3), sealed=True)
    for job in (before, after):
        assert series(home, job, "mem.used")[1]["mem.used"][1:4] == [1 << 20, 2 << 20, 3 << 20]


def test_the_complete_lines_of_a_truncated_gzip_file_are_imported(home: Path, tmp_path: Path) -> None:
    (tmp_path / "tree/job").mkdir(parents=True)
    whole = next((SAMPLES / "joblet").glob("*/*153045*")).read_bytes()
    (tmp_path / "tree/job/a.jsonl.gz").write_bytes(whole[:-4])
    summary = imported(tmp_path / "tree")
    assert (summary["jobs"], summary["samples"], len(summary["unreadable"])) == (1, 2, 1)


@pytest.mark.parametrize("named", ["busy_info.json", "busy_usage.jsonl"])
def test_either_file_of_con_duct_finds_the_other(home: Path, named: str) -> None:
    assert (imported(SAMPLES / "duct" / named)["samples"]) == 4
    (job,) = stored(home)
    assert (job.status, job.exit_code, job.host, job.user, job.cwd) == ("failed", 3, "atlas", "ada", "/data/project")
    assert (job.name, job.usage.memory_peak_bytes) == ("python3", 40357888)
    assert job.usage.cpu_percent_mean == pytest.approx(87.2333, abs=0.001)
    assert job.usage.cpu_total_seconds is None


def test_a_run_whose_con_duct_was_killed_has_no_outcome(home: Path, tmp_path: Path) -> None:
    (tmp_path / "run_info.json").write_text("")
    shutil.copy(SAMPLES / "duct/busy_usage.jsonl", tmp_path / "run_usage.jsonl")
    summary = imported(tmp_path)
    assert (summary["jobs"], summary["samples"], len(summary["unreadable"])) == (1, 4, 1)
    (job,) = stored(home)
    assert (job.name, job.status, job.exit_code) == ("run", Status.UNKNOWN, None)


def test_a_benchmark_of_snakemake_has_its_numbers_and_no_outcome(home: Path) -> None:
    assert imported(SAMPLES / "alpha_diversity.benchmark")["left_out"] == {"snakemake": ["max_uss"]}
    (job,) = stored(home)
    assert (job.name, job.status, job.duration_seconds) == ("alpha_diversity", Status.UNKNOWN, 14.7261)
    assert (job.usage.cpu_total_seconds, job.usage.cpu_percent_mean) == (29.58, 186.02)
    assert job.usage.memory_peak_bytes == round(461.81 * 2**20)
    assert job.metrics["mem.rss"]["peak"] == round(487.06 * 2**20)
    assert job.usage.io_write_bytes == round(3.06 * 2**20)


def test_a_trace_of_nextflow_has_its_tasks(home: Path) -> None:
    imported(SAMPLES / "trace.txt")
    done, failed, aborted = stored(home)
    assert (done.name, done.tool) == ("GENERATE_EXPRESSION (sample2)", "GENERATE_EXPRESSION")
    assert (done.external_id, done.status, done.exit_code) == ("fb/cc864e", Status.SUCCESS, 0)
    assert done.submitted_at is not None
    assert done.end_time == pytest.approx(done.submitted_at + 0.65)
    assert done.start_time == pytest.approx(done.submitted_at + 0.426)
    assert (done.usage.io_write_chars, done.usage.memory_peak_bytes) == (540, int(3.1 * 2**20))
    assert (failed.status, failed.duration_seconds) == (Status.FAILED, 70.0)
    assert (aborted.status, aborted.exit_code, aborted.duration_seconds) == (Status.CANCELLED, None, None)


def test_a_raw_trace_has_plain_numbers() -> None:
    assert (duration("90000"), duration("1h 30s"), duration("2.5d"), duration("?")) == (90.0, 3630.0, 216000.0, None)
    assert (size("1024"), size("1.5 GB"), size("much")) == (1024, 3 << 29, None)
    assert moment_of("1700000000250") == 1700000000.25


@pytest.mark.parametrize("content", ["# words\n", "", '{"a": 1}\n', "a,b\n1,2\n", "\x00\x01"])
def test_a_file_of_an_unknown_format_is_refused_and_nothing_is_written(
    home: Path, tmp_path: Path, content: str
) -> None:
    path = tmp_path / "notes"
    path.write_text(content)
    answer = call("import", str(KEYSTONE), str(path))
    assert (answer.returncode, answer.stdout) == (2, "")
    assert_one_line(answer.stderr, str(path), "Torc", "Nextflow")
    assert not home.exists()


def test_paths_with_nothing_to_import_are_wrong_usage(home: Path, tmp_path: Path) -> None:
    kept_jobs(home, made_job())
    (tmp_path / "empty").mkdir()
    for path, why in (
        (tmp_path / "none", "no such file"),
        (tmp_path / "empty", "no file of"),
        (StatePaths(home, HERE).store, "jobtop store merge"),
    ):
        answer = call("import", str(path))
        assert (answer.returncode, why in answer.stderr) == (2, True)


def test_a_dry_run_prints_the_same_and_stores_nothing(home: Path) -> None:
    answer = call("import", str(SAMPLES), "--dry-run")
    assert answer.stdout.startswith("would import 11 jobs, 11 samples (")
    assert not home.exists()
    told = call("import", str(SAMPLES))
    assert told.stdout == answer.stdout.removeprefix("would import ")
    assert call("import", str(SAMPLES), "--dry-run").stdout.splitlines()[1].startswith("11 jobs ")


def test_tags_and_the_host_are_added_where_the_file_says_nothing(home: Path) -> None:
    answer = call("import", str(KEYSTONE), str(SAMPLES / "duct"), "--tag", "era=old", "--host", "node7")
    assert f"{KEYSTONE}:4 (" in answer.stdout
    assert {job.tags["era"] for job in stored(home)} == {"old"}
    assert {job.host for job in stored(home)} == {"node7", "atlas"}
    assert call("import", str(KEYSTONE), "--tag", "=old").returncode == 2
