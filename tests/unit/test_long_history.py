"""What Keystone's users look at: jobs at length, the error of an imported job, CPU efficiency by tool."""

import json
from pathlib import Path

import pytest

from jobtop.core.analysis.ending import LineKind, explain_end
from jobtop.core.model import Status, Usage
from jobtop.store.jobs import Jobs
from records import call, made_job

# Two lines of the documents of Keystone.
HISTORY = (
    {
        "task_id": "3f8a21b2c4d5e6f7a8b9c0d1e2f3a4b5",
        "tool": "fenicsx",
        "script": "poisson.py",
        "params": {"mesh_size": 64},
        "start_time": "2025-10-15T10:30:00.000000",
        "end_time": "2025-10-15T10:35:30.123456",
        "duration_seconds": 330.12,
        "status": "success",
        "returncode": 0,
        "resource_usage": {
            "cpu_user_seconds": 285.45,
            "cpu_system_seconds": 12.34,
            "cpu_total_seconds": 297.79,
            "memory_peak_mb": 2048.56,
        },
        "error": None,
        "has_result": True,
    },
    {
        "task_id": "7b9e3f1a8c2d4e5f6a7b8c9d0e1f2a3b",
        "tool": "lammps",
        "script": "example.lammps",
        "params": {},
        "start_time": "2025-10-15T10:25:00.000000",
        "end_time": "2025-10-15T10:25:45.670000",
        "duration_seconds": 45.67,
        "status": "failed",
        "returncode": 1,
        "resource_usage": {
            "cpu_user_seconds": 40.12,
            "cpu_system_seconds": 2.21,
            "cpu_total_seconds": 42.33,
            "memory_peak_mb": 512.34,
        },
        "error": "Simulation failed with non-zero exit code: lost atoms",
        "has_result": False,
    },
)
ERROR = "Simulation failed with non-zero exit code: lost atoms"


@pytest.fixture
def imported(home: Path, tmp_path: Path) -> None:
    """The history of Keystone, imported."""
    file = tmp_path / "jobs_history.jsonl"
    file.write_text("".join(f"{json.dumps(line)}\n" for line in HISTORY), encoding="utf-8")
    assert call("import", str(file)).returncode == 0


@pytest.mark.usefixtures("imported")
@pytest.mark.parametrize("verb", [("history", "--long"), ("job-history",)])
def test_a_long_history_has_tool_script_cpu_time_in_parts_and_error(verb: tuple[str, ...]) -> None:
    first, second = call(*verb).stdout.split("\n\n")
    assert first.startswith("1. ")
    wanted = ("poisson", "success", "fenicsx, script poisson.py", "4m58s (4m45s user, 12s system)", "2.0 GiB peak")
    assert [words for words in (*wanted, str(HISTORY[0]["task_id"])) if words not in first] == []
    assert "error" not in first
    wanted = ("failed", "lammps, script example.lammps", "(40s user, 2.2s system)", "512.3 MiB", f"error    {ERROR}")
    assert [words for words in wanted if words not in second] == []


@pytest.mark.usefixtures("imported")
def test_the_options_of_keystones_history_choose_jobs() -> None:
    assert call("job-history", "--tool", "lammps").stdout.count("script") == 1
    assert "poisson" not in call("job-history", "--status", "failed", "--limit", "5").stdout
    assert call("job-history", "--columns", "tool").stdout.split() == ["TOOL", "fenicsx", "lammps"]
    assert len(json.loads(call("job-history", "--json").stdout)) == 2


@pytest.mark.usefixtures("imported")
@pytest.mark.parametrize("more", [("--json",), ("--columns", "id"), ("--format", "csv")])
def test_long_is_no_other_format(more: tuple[str, ...]) -> None:
    assert call("history", "--long", *more).returncode == 2


@pytest.mark.usefixtures("imported")
@pytest.mark.parametrize("word", ["7b9e3f1a", "7b9e3f1a8c2d4e5f6a7b8c9d0e1f2a3b"])
def test_an_imported_job_shows_its_error_and_is_found_by_eight_characters(word: str) -> None:
    shown = call("job-details", word).stdout
    assert [words for words in (f"error      {ERROR}", "script     example.lammps") if words not in shown] == []


def test_the_console_explains_the_end_of_an_imported_job_by_its_error() -> None:
    job = made_job(status=Status.FAILED, reason=None, error=ERROR)
    (verdict,) = [line.text for line in explain_end(job) if line.kind is LineKind.VERDICT]
    assert ERROR in verdict


@pytest.mark.usefixtures("imported")
def test_statistics_by_tool_have_the_efficiency_of_jobs_with_known_cpus(jobs: Jobs) -> None:
    for seconds, busy in ((10.0, 10.0), (30.0, 20.0)):
        usage = Usage(cpu_total_seconds=busy, cpu_efficiency=busy / seconds / 2, cpus_allowed=2.0)
        jobs.insert(made_job(tool="fenicsx", status=Status.SUCCESS, duration_seconds=seconds, usage=usage))
    found = json.loads(call("job-stats", "--json").stdout)["by_tool"]
    assert found["fenicsx"]["cpu_efficiency"] == pytest.approx(30 / 80), "a longer job counts more"
    assert found["fenicsx"]["cpu_percent_mean"] == pytest.approx(100 * (297.79 + 30) / (330.12 + 40))
    assert (found["fenicsx"]["count"], found["fenicsx"]["jobs_with_cpu_efficiency"]) == (3, 2)
    assert (found["lammps"]["cpu_efficiency"], found["lammps"]["jobs_with_cpu_efficiency"]) == (None, 0)
    assert found["lammps"]["cpu_percent_mean"] == pytest.approx(100 * 42.33 / 45.67)
    table = call("stats").stdout
    assert [words for words in ("EFFICIENCY", "37.5 %", "37.5 % of the CPUs") if words not in table] == []
