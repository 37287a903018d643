"""`JobMonitor` as Keystone's users call it: statuses, log lines, the file, and problems that cost numbers alone."""

from __future__ import annotations

import json
import logging
import math
from pathlib import Path
from typing import Any

import pytest
from tracked import FakeTracking

from jobtop import job_monitor
from jobtop.job_monitor import JobMonitor, get_monitor

PARAMS = {"zeta": 1, "mesh_size": 64, "alpha": {"b": 2, "a": 1}}


@pytest.fixture
def tracking(home: Path, monkeypatch: pytest.MonkeyPatch) -> FakeTracking:
    return FakeTracking(monkeypatch)


def monitored(monitor: JobMonitor, **end: Any) -> dict[str, Any]:
    monitor.start_monitoring("abc-123-xyz", "fenicsx", "poisson.py", PARAMS)
    return monitor.stop_monitoring("abc-123-xyz", **end)


def lines_of(monitor: JobMonitor) -> list[dict[str, Any]]:
    assert monitor.history_file is not None
    return [json.loads(line) for line in Path(monitor.history_file).read_text().splitlines()]


def test_a_block_knows_what_the_caller_said(tracking: FakeTracking) -> None:
    monitored(JobMonitor(), status="success", returncode=0)
    options = tracking.blocks[0].options
    assert (options["name"], options["tool"], options["script"]) == ("poisson", "fenicsx", "poisson.py")
    assert options["external_id"] == "abc-123-xyz"
    assert options["profile"] is True
    assert tracking.blocks[0].closed == [("success", 0, None)]


def test_what_is_returned_is_the_line_in_the_file(tracking: FakeTracking, tmp_path: Path) -> None:
    monitor = JobMonitor(log_dir=tmp_path / "logs")
    returned = monitored(monitor, status="success", returncode=0, result={"answer": 42})
    [line] = lines_of(monitor)
    assert (tmp_path / "logs/jobs_history.jsonl").exists()
    assert list(line) == list(returned)
    assert line["has_result"] is True
    assert list(line["params"]) == ["zeta", "mesh_size", "alpha"]
    assert line["start_time"] == "2025-10-15T10:30:00.000000"
    assert line["duration_seconds"] == returned["duration_seconds"] == 330.12
    assert returned["resource_usage"]["memory_peak_mb"] == 2048.0


def test_absent_numbers_are_nan_for_code_and_null_in_the_file(tracking: FakeTracking) -> None:
    tracking.is_lost = True
    monitor = JobMonitor()
    returned = monitored(monitor, status="failed")
    [line] = lines_of(monitor)
    assert line["returncode"] is None
    assert line["resource_usage"] == dict.fromkeys(returned["resource_usage"])
    assert all(math.isnan(value) for value in returned["resource_usage"].values())
    assert math.isnan(returned["detailed_profile"]["cpu"]["mean_percent"])
    assert returned["duration_seconds"] >= 0
    assert (line["status"], line["error"]) == ("failed", None)


def test_exact_totals_of_the_job_are_in_its_profile(tracking: FakeTracking) -> None:
    profile = monitored(JobMonitor(), status="success")["detailed_profile"]
    assert profile["io_stats"]["read_mb"] == profile["io_stats"]["total_io_mb"] == 3.0
    assert (profile["process_memory"]["mean_mb"], profile["process_memory"]["max_mb"]) == (1.0, 2048.0)
    assert profile["duration_seconds"] == 330.12
    assert profile["sampling_interval_seconds"] == 0.5


def test_without_profiling_there_is_no_profile(tracking: FakeTracking) -> None:
    monitor = JobMonitor(enable_profiling=False)
    assert "detailed_profile" not in monitored(monitor, status="success")
    assert tracking.blocks[0].options["profile"] is False


@pytest.mark.parametrize(
    ("end", "level", "text"),
    [
        ({"status": "success", "returncode": 0}, "INFO", "completed successfully - Duration: 330.12s, CPU: 297.79s"),
        ({"status": "failed", "returncode": 1}, "ERROR", "failed with return code 1 - Duration: 330.12s"),
        ({"status": "timeout"}, "WARNING", "timed out"),
        ({"status": "error", "error": "no mesh"}, "ERROR", "no mesh"),
        ({"status": "SUCCESS", "returncode": 0}, "INFO", "completed successfully"),
    ],
)
def test_outcomes_are_logged_in_keystones_words(
    tracking: FakeTracking, caplog: pytest.LogCaptureFixture, end: dict[str, Any], level: str, text: str
) -> None:
    caplog.set_level(logging.INFO)
    returned = monitored(JobMonitor(), **end)
    first, last = caplog.records[0], caplog.records[-1]
    assert first.getMessage() == f"Starting job abc-123-xyz: tool=fenicsx, script=poisson.py, params={PARAMS}"
    assert (first.levelname, last.levelname) == ("INFO", level)
    assert text in last.getMessage()
    assert returned["status"] == end["status"].lower()


def test_secrets_are_not_logged(tracking: FakeTracking, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    JobMonitor().start_monitoring("t", "tool", None, {"api_key": "sesame"})
    assert "sesame" not in caplog.text
    assert "api_key" in caplog.text


def test_a_status_that_is_none_is_refused_and_the_job_goes_on(tracking: FakeTracking) -> None:
    monitor = JobMonitor()
    monitor.start_monitoring("t")
    with pytest.raises(ValueError, match="timeout"):
        monitor.stop_monitoring("t", "done")
    assert monitor.stop_monitoring("t", "success")["status"] == "success"


def test_a_job_that_is_not_monitored_is_a_warning(tracking: FakeTracking, caplog: pytest.LogCaptureFixture) -> None:
    assert JobMonitor().stop_monitoring("t", "success") == {}
    assert "t is not monitored" in caplog.text


def test_a_forked_child_does_not_end_the_job_of_its_parent(
    tracking: FakeTracking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monitor = JobMonitor()
    monitor.start_monitoring("t")
    monkeypatch.setattr("jobtop.job_monitor.os.getpid", lambda: 1)
    assert monitor.stop_monitoring("t", "success") == {}
    assert tracking.blocks[0].closed == []


def test_a_job_that_is_started_twice_ends_the_first_one(tracking: FakeTracking) -> None:
    monitor = JobMonitor()
    monitor.start_monitoring("t")
    monitor.start_monitoring("t")
    monitor.stop_monitoring("t", "success")
    assert [block.closed[0][0] for block in tracking.blocks] == ["error", "success"]
    assert [line["status"] for line in lines_of(monitor)] == ["error", "success"]


def test_a_tracked_job_is_a_success_unless_it_says_otherwise(tracking: FakeTracking) -> None:
    monitor = JobMonitor()
    with monitor.track_job("a", "lammps", "example.lammps", {}) as tracker:
        pass
    assert tracker.stats is not None
    with monitor.track_job("b", "lammps", "example.lammps", {}) as tracker:
        tracker.set_status("failed", returncode=2, error="bad input")
    found = [(line["status"], line["returncode"], line["error"]) for line in lines_of(monitor)]
    assert found == [("success", 0, None), ("failed", 2, "bad input")]


@pytest.mark.parametrize(
    ("raised", "end"),
    [
        (RuntimeError("no mesh"), ("error", None, "RuntimeError: no mesh")),
        (KeyboardInterrupt(), ("error", None, "KeyboardInterrupt")),
        (SystemExit(3), ("failed", 3, "SystemExit: 3")),
        (SystemExit(), ("success", 0, None)),
    ],
)
def test_an_exception_passes_through_and_is_recorded(
    tracking: FakeTracking, raised: BaseException, end: tuple[str, int | None, str | None]
) -> None:
    monitor = JobMonitor()
    with pytest.raises(type(raised)), monitor.track_job("t", "tool"):
        raise raised
    [line] = lines_of(monitor)
    assert (line["status"], line["returncode"], line["error"]) == end


def test_a_directory_that_cannot_be_written_costs_the_line_alone(
    tracking: FakeTracking, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    monitor = JobMonitor(log_dir=tmp_path / "file")
    assert monitored(monitor, status="success")["status"] == "success"
    assert "abc-123-xyz is not in" in caplog.text


def test_a_variable_names_the_default_directory(
    tracking: FakeTracking, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JOBTOP_KEYSTONE_DIR", str(tmp_path / "keystone_jobs"))
    assert JobMonitor().history_file == str(tmp_path / "keystone_jobs/jobs_history.jsonl")


def test_the_default_directory_is_in_the_state_directory(home: Path) -> None:
    monitor = JobMonitor()
    assert monitor.history_file is not None
    assert Path(monitor.history_file).parent.name == "keystone"
    assert str(home) in monitor.history_file


def test_a_program_has_one_monitor(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_monitor, "_shared", [])
    assert get_monitor() is get_monitor()


def test_without_a_store_the_history_is_empty(home: Path) -> None:
    monitor = JobMonitor()
    assert monitor.get_job_history() == []
    assert monitor.get_job_stats("t") is None
    assert monitor.get_summary_statistics()["total_jobs"] == 0
