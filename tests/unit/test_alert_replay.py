"""`jobtop alerts test`: rules replayed over jobs, the host and devices that were recorded."""

import json
import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from recorded_host import record_host

from jobtop.core.model import Job, Sample, Status, Usage
from jobtop.core.paths import StatePaths
from jobtop.core.record import replace
from jobtop.store.database import open_to_write
from jobtop.store.jobs import Jobs, event
from jobtop.store.samples.series import SeriesStore
from records import HERE, assert_one_line, call, made_job
from sampled import kept_sampled, sample

GIB, MIB = 2**30, 2**20
NOW = time.time()
RULES = """
[[alert]]
name = "busy"
metric = "cpu.percent"
above = 90
for = "10s"

[[alert]]
name = "other"
metric = "cpu.percent"
above = 90
filter = "name:nobody"

[[alert]]
name = "slower"
kind = "deviation"

[[alert]]
name = "warm"
scope = "sensor"
metric = "temp"
above = 60

[[alert]]
name = "half a core"
scope = "host"
metric = "cpu.percent"
above = 40
enabled = false
"""


@pytest.fixture(autouse=True)
def _rules(home: Path) -> None:
    directory = Path(os.environ["HOME"]) / ".config" / "jobtop"
    directory.mkdir(parents=True)
    (directory / "config.toml").write_text(RULES)


def ended_job(seconds: float, ago: float = 3600.0, **values: Any) -> Job:
    begin = NOW - ago
    return made_job(
        **{"name": "train", "status": Status.SUCCESS, "start_time": begin, "end_time": begin + seconds}
        | {"duration_seconds": seconds}
        | values
    )


def busy_from(first: int, last: int, seconds: int) -> list[Sample]:
    """A job that uses a whole core between two seconds, and a tenth of one otherwise."""
    samples, used = [], 0.0
    for second in range(seconds):
        used += 1.0 if first <= second < last else 0.1
        samples.append(sample(second, cpu_user=used, cpu_system=0.0))
    return samples


def firings(*args: str) -> list[dict[str, Any]]:
    answer = call("alerts", "test", *args, "--json")
    assert answer.returncode == 0, answer.stderr
    found: list[dict[str, Any]] = json.loads(answer.stdout)
    return found


def test_a_level_is_replayed_with_its_moment_its_duration_and_its_worst_value(home: Path) -> None:
    job = kept_sampled(home, ended_job(300), busy_from(100, 160, 300))
    (found,) = firings("busy")
    assert (found["rule"], found["job_id"], found["job_name"]) == ("busy", job.id, "train")
    began, fired, resolved = (
        moment(found[key]) - (job.start_time or 0) for key in ("began_at", "fired_at", "resolved_at")
    )
    assert began == pytest.approx(100, abs=1.1)
    assert fired == pytest.approx(110, abs=1.1)
    assert resolved == pytest.approx(170, abs=2.1)
    assert found["seconds"] == pytest.approx(resolved - fired)
    assert found["worst"] == pytest.approx(100)
    assert "CPU" in found["text"]


def moment(text: str) -> float:
    from jobtop.core.clock import from_iso

    found = from_iso(text)
    assert found is not None
    return found


def test_the_table_names_the_job_and_counts(home: Path) -> None:
    job = kept_sampled(home, ended_job(300), busy_from(100, 160, 300))
    kept_sampled(home, ended_job(300, name="calm"), busy_from(0, 0, 300))
    title, row, last = call("alerts", "test", "busy").stdout.splitlines()
    assert title.split() == ["WHEN", "OF", "FOR", "WORST", "WHAT"]
    assert f"{job.id[:8]} train" in row
    assert "100 %" in row
    assert "once" in last
    assert "2 jobs" in last
    only = call("alerts", "test", "busy", "--job", "calm")
    assert (only.returncode, len(only.stdout.splitlines())) == (0, 1)
    assert "not have fired" in only.stdout


def test_jobs_before_the_time_and_jobs_that_the_filter_leaves_out_are_not_replayed(home: Path) -> None:
    kept_sampled(home, ended_job(300, ago=8 * 86400), busy_from(100, 160, 300))
    assert firings("busy") == []
    assert len(firings("busy", "--since", "9d")) == 1
    assert firings("other", "--since", "9d") == []
    assert_one_line(call("alerts", "test", "other", "--job", "last").stderr, "filter")


def test_nothing_is_written(home: Path) -> None:
    kept_sampled(home, ended_job(300), busy_from(100, 160, 300))
    call("history")
    with closing(sqlite3.connect(StatePaths(home, HERE).store)) as connection:
        before = list(connection.iterdump())
    assert len(firings("busy")) == 1
    with closing(sqlite3.connect(StatePaths(home, HERE).store)) as connection:
        assert list(connection.iterdump()) == before


def test_unknown_rules_and_jobs_are_refused_with_the_nearest_name(home: Path) -> None:
    kept_sampled(home, ended_job(300), busy_from(100, 160, 300))
    for args, word in ((("buzy",), '"busy"'), (("busy", "--job", "zzzz"), "zzzz"), (("disk-full",), "cwd.disk_used")):
        answer = call("alerts", "test", *args)
        assert answer.returncode == 2
        assert_one_line(answer.stderr, word)
    assert call("alerts", "test", "busy", "--job", "last", "--since", "1d").returncode == 2


def test_a_rule_on_a_metric_that_was_never_recorded_cannot_be_tested(home: Path) -> None:
    kept_sampled(home, ended_job(300), busy_from(100, 160, 300))
    for words, key in ((("gpu-idle",), "gpu.util"), (("gpu-idle", "--job", "last"), "gpu.util"), (("warm",), "temp")):
        answer = call("alerts", "test", *words)
        assert (answer.returncode, answer.stderr) == (0, "")
        assert f"{key} was never recorded" in answer.stdout
        assert "not have fired" not in answer.stdout
    assert "not have fired" in call("alerts", "test", "other").stdout  # it is for no job


def test_without_a_store_nothing_would_have_fired(home: Path) -> None:
    answer = call("alerts", "test", "busy")
    assert answer.returncode == 0
    assert "not have fired" in answer.stdout


def test_a_forecast_is_replayed(home: Path) -> None:
    growing = [sample(second, mem_used=GIB + second * 4 * MIB, limit_memory=8 * GIB) for second in range(0, 1700, 2)]
    kept_sampled(home, ended_job(1700), growing)
    (found,) = firings("memory-limit-soon")
    assert found["detail"]["eta_seconds"] <= 600
    assert moment(found["fired_at"]) - (NOW - 3600) == pytest.approx(1200, abs=40)


def idle_samples(seconds: int) -> list[Sample]:
    return [
        sample(second, cpu_user=1.0, cpu_system=0.0, io_read_chars=0, io_write_chars=0)
        for second in range(0, seconds, 10)
    ]


def keep_with(home: Path, job: Job, samples: list[Sample], *, pause_at: float | None, output_at: float | None) -> None:
    database = open_to_write(StatePaths(home, HERE))
    jobs = Jobs(database)
    paused = () if pause_at is None else (replace(event("paused"), at=NOW - 3600 + pause_at),)
    kept = jobs.insert(job, *paused)
    SeriesStore(database).append([(kept.seq or 0, one) for one in samples])
    if output_at is not None:
        jobs.add_log_marks(kept, [(0.0, 0, 0), (output_at, 100, 0)])
    database.close()


@pytest.mark.parametrize(
    ("pause_at", "output_at", "expected"), [(None, None, 1), (300.0, None, 0), (None, 800.0, 0), (None, 400.0, 1)]
)
def test_a_stall_is_replayed_with_output_and_pauses(
    home: Path, pause_at: float | None, output_at: float | None, expected: int
) -> None:
    keep_with(home, ended_job(1400), idle_samples(1400), pause_at=pause_at, output_at=output_at)
    assert len(firings("job-stalled")) == expected


def test_time_in_which_a_job_was_not_sampled_is_no_stall(home: Path) -> None:
    kept_sampled(home, ended_job(1500), [*idle_samples(300), *idle_samples(1500)[120:]])
    assert firings("job-stalled") == []


def test_the_end_of_a_job_is_compared_with_the_jobs_before_it(home: Path) -> None:
    database = open_to_write(StatePaths(home, HERE))
    jobs = Jobs(database)
    for number in range(6):
        jobs.insert(ended_job(600.0 + number, ago=90_000 - number * 1000, usage=Usage()))
    slow = jobs.insert(ended_job(900.0))
    jobs.insert(ended_job(905.0, name="another"))
    database.close()
    (found,) = firings("slower")
    assert found["job_id"] == slow.id
    assert found["detail"]["runs"] == 6
    assert found["resolved_at"] == found["fired_at"]


def test_a_failed_job_is_replayed(home: Path) -> None:
    kept_sampled(home, ended_job(100, status=Status.FAILED, exit_code=3), [])
    (found,) = firings("job-failed")
    assert "exit code 3" in found["text"]
    assert found["worst"] is None


def test_the_host_and_its_devices_are_replayed_also_by_a_rule_that_is_switched_off(home: Path) -> None:
    record_host(home, count=30)
    (host,) = firings("half a core")
    assert (host["job_id"], host["device"], host["host"]) == (None, None, HERE)
    assert host["resolved_at"] is None
    assert host["worst"] == 50.0
    (sensor,) = firings("warm")
    assert sensor["device"] == {"kind": "sensor", "name": "coretemp Package id 0"}
    assert "sensor coretemp Package id 0" in call("alerts", "test", "warm").stdout
    assert firings("io-wait") == []
    assert "no gpu is recorded" in call("alerts", "test", "gpu-hot").stdout
