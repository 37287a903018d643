"""`jobtop containers advise` on jobs in the store: records, samples and limits become a compose fragment."""

import json
from pathlib import Path
from typing import Any

import pytest

from jobtop.core.errors import ExitCode
from jobtop.core.metrics import JOB_COLUMNS
from jobtop.core.model import Job, Limits, Sample, Status, Usage
from jobtop.core.paths import StatePaths
from jobtop.store.database import open_to_write
from jobtop.store.samples.series import SeriesStore
from records import HERE, assert_one_line, call, kept_jobs, live_job, made_job

MEBIBYTE = 1 << 20
WEB = {"name": "shop-web-1", "project": "shop", "service": "web", "image": "web:7"}


def container_run(mebibytes: int, seconds: float = 60.0, facts: dict[str, str] | None = None, **values: Any) -> Job:
    usage = Usage(
        memory_peak_bytes=mebibytes * MEBIBYTE, cpu_percent_mean=30.0, cpu_percent_peak=150.0, samples=round(seconds)
    )
    return made_job(
        **{"kind": "container", "usage": usage, "duration_seconds": seconds, "findings": {"container": facts or WEB}}
        | values
    )


def keep_samples(root: Path, job: Job, cpus: list[float], mebibytes: int = 0) -> None:
    """Store a sample for every second: CPUs that were busy in it, and memory."""
    database = open_to_write(StatePaths(root, HERE))
    used = 0.0
    samples = []
    for second, busy in enumerate(cpus, 1):
        used += busy
        values = {"cpu.user": used, "cpu.system": 0.0, "mem.used": mebibytes * MEBIBYTE}
        samples.append((job.seq or 0, Sample(float(second), tuple(map(values.get, JOB_COLUMNS)))))
    SeriesStore(database).append(samples)
    database.close()


def advised(*words: str) -> list[dict[str, Any]]:
    answer = call("containers", "advise", *words, "--json")
    assert answer.returncode == 0, answer.stderr
    found = json.loads(answer.stdout)
    assert isinstance(found, list)
    return found


def test_recorded_runs_become_a_compose_fragment(home: Path) -> None:
    jobs = kept_jobs(home, *(container_run(435 if number == 2 else 300) for number in range(6)))
    for job in jobs:
        keep_samples(home, job, [0.2] * 54 + [0.5] * 6)
    answer = call("containers", "advise", "web")
    assert answer.returncode == 0, answer.stderr
    lines = [line.strip() for line in answer.stdout.splitlines()]
    assert lines[:2] == ["# project shop", "services:"]
    start = lines.index("limits:")
    plain = [line for line in lines[start:] if not line.startswith("#")]
    assert plain[:2] == ["limits:", 'memory: "544M"']
    assert plain[3:] == ["reservations:", 'memory: "304M"', 'cpus: "0.5"']
    assert jobs[2].id[:8] in answer.stdout


def test_the_numbers_have_their_units(home: Path) -> None:
    kept_jobs(home, *(container_run(435) for _ in range(6)))
    (found,) = advised()
    assert found["memory_limit_bytes"] > 435 * MEBIBYTE
    assert found["memory_limit_bytes"] < 600 * MEBIBYTE
    assert found["cpus_limit"] <= 1.8
    assert (found["name"], found["project"], found["runs"], found["images"]) == ("web", "shop", 6, ["web:7"])


def test_a_running_container_counts_with_what_it_used_so_far(home: Path) -> None:
    (job,) = kept_jobs(home, live_job(kind="container", findings={"container": WEB}, usage=Usage()))
    keep_samples(home, job, [0.5] * 120, mebibytes=435)
    (found,) = advised("shop")  # it started years ago
    assert found["memory_limit_bytes"] == 544 * MEBIBYTE
    assert (found["samples"], found["cpus_limit"]) == (121, 0.6)


def test_an_oom_kill_asks_for_more_than_the_limit(home: Path) -> None:
    limits = Limits(memory_bytes=512 * MEBIBYTE, enforced=True)
    killed = container_run(500, status=Status.FAILED, exit_code=137, flags=("oom_killed",), limits=limits)
    kept_jobs(home, *(container_run(300) for _ in range(6)), killed)
    (found,) = advised("web")
    assert found["memory_limit_bytes"] == 768 * MEBIBYTE
    assert killed.id[:8] in found["reasons"]["memory_limit_bytes"]


def test_thin_data_are_refused(home: Path) -> None:
    kept_jobs(home, *(container_run(435) for _ in range(5)))
    answer = call("containers", "advise", "web")
    assert answer.returncode == ExitCode.BAD_ANSWER
    assert "6 runs" in answer.stdout
    assert "memory:" not in answer.stdout


def test_services_of_a_project_are_advised_together(home: Path) -> None:
    database = {"name": "shop-db-1", "project": "shop", "service": "db"}
    other = {"name": "solo"}
    runs = [container_run(100, facts=facts) for facts in (WEB, database) for _ in range(6)]
    kept_jobs(home, *runs, *(container_run(100, facts=other, flags=("attached",)) for _ in range(6)), made_job())
    assert [one["name"] for one in advised("shop")] == ["db", "web"]
    assert [one["name"] for one in advised("shop/db")] == ["db"]
    assert [one["name"] for one in advised("solo")] == ["solo"]
    assert {one["name"] for one in advised()} == {"db", "web", "solo"}
    assert advised("--since", "2022-01-01")


@pytest.mark.parametrize("name", ["web", "wbe"])
def test_a_name_that_was_never_recorded_is_an_error(home: Path, name: str) -> None:
    kept_jobs(home, *(container_run(100, facts={"name": "web7", "service": "web7"}) for _ in range(6)))
    answer = call("containers", "advise", name)
    assert answer.returncode == ExitCode.USAGE
    assert_one_line(answer.stderr, name, "web7")


def test_without_any_recorded_container_the_error_says_how_to_record_one(home: Path) -> None:
    answer = call("containers", "advise")
    assert answer.returncode == ExitCode.USAGE
    assert_one_line(answer.stderr, "jobtop run --image")


def test_a_job_that_never_started_is_no_run_of_a_container(home: Path) -> None:
    kept_jobs(home, container_run(435, facts={"image": "box:1"}, name="typo", status=Status.ERROR), container_run(435))
    answer = call("containers", "advise")
    assert "typo" not in answer.stdout
    assert "web" in answer.stdout


def test_what_is_missing_beside_other_advice_is_said_once(home: Path) -> None:
    limits = Limits(memory_bytes=512 * MEBIBYTE, enforced=True)
    killed = container_run(500, 5.0, status=Status.FAILED, exit_code=137, flags=("oom_killed",), limits=limits)
    kept_jobs(home, killed)
    answer = call("containers", "advise", "web")
    assert 'memory: "' in answer.stdout
    assert answer.stdout.count("nothing else is advised") == 1
