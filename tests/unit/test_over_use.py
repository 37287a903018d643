"""What jobs used against what they asked for: in the form of Torc's check, and as flags of the record."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from jobtop.core.analysis.over_use import CPU, MEMORY, RUNTIME, Use, flagged, is_checked, over_uses, report, uses
from jobtop.core.model import Limits, Status, Usage
from jobtop.core.record import replace
from records import made_job

GIB = 2**30
JOB = made_job(
    name="train_model",
    status=Status.SUCCESS,
    duration_seconds=9900.0,
    limits=Limits(cpus=2.0, memory_bytes=8 * GIB, runtime_seconds=7200.0),
    usage=Usage(memory_peak_bytes=round(10.5 * GIB), cpu_percent_peak=350.0, cpu_percent_mean=180.0),
)


def test_the_answer_has_the_words_of_the_seed() -> None:
    job = replace(JOB, seq=15)
    assert [use.to_json(job) for use in over_uses(job)] == [
        {
            "job_id": 15,
            "job_name": "train_model",
            "resource_type": "Memory",
            "specified": "8.00 GB",
            "peak_used": "10.50 GB",
            "over_utilization": "+31.3%",
        },
        {
            "job_id": 15,
            "job_name": "train_model",
            "resource_type": "CPU",
            "specified": "200.0%",
            "peak_used": "350.0%",
            "over_utilization": "+75.0%",
        },
        {
            "job_id": 15,
            "job_name": "train_model",
            "resource_type": "Runtime",
            "specified": "2h 0m 0s",
            "peak_used": "2h 45m 0s",
            "over_utilization": "+37.5%",
        },
    ]


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.2, "0s"), (59.6, "1m 0s"), (61, "1m 1s"), (3600, "1h 0m 0s"), (90061, "25h 1m 1s")]
)
def test_a_time_is_written_as_torc_writes_it(seconds: float, text: str) -> None:
    assert Use(RUNTIME, 1.0, seconds).text(seconds) == text


def test_what_is_not_known_or_not_asked_for_is_left_out() -> None:
    assert uses(replace(JOB, limits=Limits())) == []
    assert [use.resource for use in uses(replace(JOB, usage=Usage()))] == [RUNTIME]
    only_mean = replace(JOB, usage=Usage(cpu_percent_mean=180.0))
    assert [use.used for use in uses(only_mean) if use.resource == CPU] == [pytest.approx(1.8)]


def test_less_than_a_percent_over_is_not_over() -> None:
    close = replace(JOB, usage=Usage(memory_peak_bytes=round(8.07 * GIB)), duration_seconds=10.0)
    assert over_uses(close) == []
    assert [use.resource for use in over_uses(close, 0.5)] == [MEMORY]


def test_an_ended_job_is_flagged_and_one_that_runs_is_not() -> None:
    assert flagged(JOB).flags == ("over_cpus", "over_memory", "over_runtime")
    assert flagged(flagged(JOB)) == flagged(JOB)
    assert flagged(replace(JOB, status=Status.RUNNING)).flags == ()
    assert flagged(replace(JOB, status=Status.LOST)).flags == ()
    assert flagged(replace(JOB, limits=replace(JOB.limits, enforced=True))).flags == ("over_runtime",)


def test_failed_jobs_are_checked_on_request() -> None:
    failed, cancelled = replace(JOB, status=Status.FAILED), replace(JOB, status=Status.CANCELLED)
    assert [is_checked(job, False) for job in (JOB, failed, cancelled)] == [True, False, False]
    assert [is_checked(job, True) for job in (JOB, failed, cancelled)] == [True, True, False]


def test_with_all_what_was_used_less_is_listed_too() -> None:
    modest = replace(JOB, usage=Usage(memory_peak_bytes=GIB, cpu_percent_peak=20.0), duration_seconds=60.0)
    assert report([modest], 1.0, False) == ([], 1)
    rows, _ = report([modest], 1.0, True)
    assert [f"{use.over_percent:+.1f}" for _, use in rows] == ["-87.5", "-90.0", "-99.2"]


def test_real_jobs_are_found_by_their_flags(tmp_path: Path) -> None:
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "JOBTOP_HOME": str(tmp_path / "state")}

    def jobtop(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "jobtop", *words]
        return subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True)

    hold = "x = bytearray(60 << 20); import time; t = time.time()\nwhile time.time() < t + 0.5: pass"
    options = ("--no-ui", "--quiet", "--memory", "20M", "--cpus", "0.2", "--runtime", "0.1s")
    assert jobtop("run", "--name", "over", *options, "--", sys.executable, "-c", hold).returncode == 0
    assert jobtop("run", "--name", "under", *options[:2], "--memory", "1G", "--", "true").returncode == 0
    done = jobtop("check-resource-utilization", "status:success", "--format", "json")
    answer = json.loads(done.stdout)
    assert done.returncode == 1
    assert list(answer) == [
        *("schema_version", "workflow_id", "run_id", "total_results", "over_utilization_count", "violations")
    ]
    assert (answer["total_results"], answer["over_utilization_count"]) == (2, 3)
    assert [row["resource_type"] for row in answer["violations"]] == ["Memory", "CPU", "Runtime"]
    for flag in ("over_memory", "over_cpus", "over_runtime"):
        assert "over" in jobtop("history", f"flag:{flag}").stdout
    shown = jobtop("show", "over").stdout
    assert all(f"more {what} than it asked for" in shown for what in ("memory", "CPU", "time")), shown
    under = jobtop("check", "under")
    assert (under.returncode, "all within what they asked for" in under.stdout) == (0, True)
