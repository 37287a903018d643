"""The statistics of a benchmark, its comparison with an earlier one, and where results are saved. Nothing is run."""

import json
import math
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jobtop.benchmark import BenchmarkRunner, compare, spread, value_of
from jobtop.core.errors import JobtopError, UsageError

NAN = float("nan")


def result(*durations: float, device: str = "cpu") -> dict[str, Any]:
    """The result of runs of so many seconds, of which CPU time and memory do not vary."""
    same = spread([2.0] * len(durations))
    figures = {"duration_seconds": spread(durations), "cpu_total_seconds": same, "memory_peak_mb": same}
    return {
        "device": device,
        "script": "a.py",
        "host": "h",
        "started_at": "2026-01-02T03:04:05.000000Z",
        "statistics": figures,
        "runs": [{"duration_seconds": NAN, "error": None}],
        "comparison": None,
    }


def test_the_classes_import_no_console_no_verbs_and_no_docker() -> None:
    source = "import sys; from jobtop import BenchmarkRunner, TaskPipeline; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    names = set(done.stdout.split())
    assert names & {"textual", "rich", "docker", "click", "psutil", "pynvml", "jobtop.cli", "jobtop.tui"} == set()


def test_statistics_leave_out_what_is_not_known() -> None:
    assert spread([1.0, NAN, 4.0, 1.0]) == {
        "count": 3,
        "mean": 2.0,
        "median": 1.0,
        "min": 1.0,
        "max": 4.0,
        "stdev": pytest.approx(math.sqrt(3)),
    }
    assert math.isnan(spread([1.0])["stdev"])
    nothing = spread([NAN])
    assert nothing.pop("count") == 0
    assert all(map(math.isnan, nothing.values()))


def test_a_run_that_failed_is_not_counted() -> None:
    run = {"status": "failed", "duration_seconds": 1.0, "resource_usage": {"memory_peak_mb": 3.0}}
    assert math.isnan(value_of(run, "duration_seconds"))
    assert value_of(run | {"status": "success"}, "memory_peak_mb") == 3.0


@pytest.mark.parametrize(
    ("before", "now", "is_clear"),
    [
        ((10.0, 10.1, 9.9), (5.0, 5.1, 4.9), True),
        ((10.0, 14.0, 6.0), (8.0, 12.0, 4.0), False),
        ((10.0, 10.001), (10.01, 10.012), False),  # two runs say little
        ((10.0,), (5.0,), None),
    ],
)
def test_a_difference_is_clear_if_chance_does_not_explain_it(
    before: tuple[float, ...], now: tuple[float, ...], is_clear: bool | None
) -> None:
    assert compare(result(*now), result(*before))["duration_seconds"]["is_clear"] is is_clear


def test_a_comparison_says_how_much_faster_and_against_what() -> None:
    found = compare(result(4.0, 6.0, device="gpu"), result(10.0, 10.0), "first")
    assert (found["speedup"], found["baseline"], found["baseline_device"], found["same_host"]) == (
        *(2.0, "first", "cpu"),
        True,
    )
    change = found["duration_seconds"]
    assert (change["baseline"], change["current"], change["change_percent"]) == (10.0, 5.0, -50.0)
    assert found["memory_peak_mb"]["change"] == 0.0
    with pytest.raises(UsageError, match="run_benchmark"):
        compare(result(1.0), {"runs": []})


@pytest.mark.usefixtures("home")
def test_a_saved_result_is_the_baseline_of_a_later_one(home: Path, tmp_path: Path) -> None:
    runner = BenchmarkRunner()
    path = runner.save(result(1.0, 3.0), "v1.0")
    assert (path, stat.S_IMODE(path.stat().st_mode)) == (home / "benchmarks/v1.0.json", 0o600)
    assert json.loads(path.read_text())["runs"] == [{"duration_seconds": None, "error": None}]
    loaded = runner.load("v1.0")
    assert math.isnan(loaded["runs"][0]["duration_seconds"])
    assert (loaded["runs"][0]["error"], loaded["comparison"], runner.saved()) == (None, None, ["v1.0"])
    assert compare(result(1.0), loaded)["speedup"] == 2.0
    with pytest.raises(UsageError, match=r"v1\.1.*v1\.0"):
        runner.load("v1.1")
    elsewhere = BenchmarkRunner(tmp_path / "results")
    elsewhere.save(result(1.0), "other")
    assert (elsewhere.saved(), runner.saved()) == (["other"], ["v1.0"])


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("name", ["", "../a", "a/b", ".a", "a\nb"])
def test_a_name_that_leads_elsewhere_is_refused(name: str) -> None:
    with pytest.raises(JobtopError):
        BenchmarkRunner().save(result(1.0), name)


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    ("tool", "options", "word"),
    [
        ("a", {"device": "tpu"}, "gpu"),
        ("a", {"runs": 0}, "runs"),
        ("a", {"runs": True}, "runs"),
        ("a", {}, "benchmark"),
        ("b", {}, "tool"),
        ("a", {"script": "a.py", "baseline": "none"}, "none"),
        ("a", {"script": "a.py", "save_as": "../x"}, "name"),
    ],
)
def test_a_benchmark_that_cannot_work_runs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: str, options: dict[str, Any], word: str
) -> None:
    configuration = tmp_path / ".config/jobtop/config.toml"
    configuration.parent.mkdir(parents=True)
    configuration.write_text('[[tool]]\nname = "a"\ncommand = ["true"]\n', encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(JobtopError, match=word):
        BenchmarkRunner().run_benchmark(tool, **options)
    assert not (tmp_path / "state").exists()
