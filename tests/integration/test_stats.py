"""`stats`: which jobs are added up, by what they are grouped, and how that is printed."""

import csv
import io
import json
import time
from pathlib import Path
from typing import Any

import pytest

from jobtop.core.model import Status, Usage
from records import HERE, HOSTILE_TEXTS, call, holds_controls, kept_jobs, made_job, running_job
from running import nothing_is_left
from support import Jobtop

__all__ = ["nothing_is_left"]

HOUR = 3600.0


def answer(*args: str) -> Any:
    """What `stats --json` says."""
    said = call("stats", "--json", *args)
    assert (said.returncode, said.stderr) == (0, "")
    return json.loads(said.stdout)


@pytest.fixture
def varied(home: Path) -> Path:
    """Three tools: `jax` used most CPU time, `torch` once failed, one job has no tool and one runs."""
    now = time.time()

    def job(hours: float, tool: str | None, cpu: float | None, status: Status = Status.SUCCESS, **values: Any) -> Any:
        usage = Usage(cpu_total_seconds=cpu, memory_peak_bytes=None if cpu is None else int(cpu) << 20)
        defaults = {"start_time": now - hours * HOUR, "duration_seconds": 10.0, "tool": tool, "usage": usage}
        return made_job(**defaults | {"status": status} | values)

    kept_jobs(
        home,
        job(9.5, "torch", 1.0, name="one", tags={"exp": "1"}),
        job(8.5, "torch", 2.0, Status.FAILED, name="one", tags={"exp": "2", "x": "y"}, host="atlas"),
        job(7.5, "jax", 40.0, name="two", tags={"exp": "1"}, duration_seconds=70.0),
        job(6.5, None, None, Status.CANCELLED, name="two"),
        running_job(tool="torch", start_time=now - HOUR / 2, host="elsewhere", name="two", tags={"exp": "2"}),
    )
    return home


def test_stats_add_up_all_jobs(varied: Path) -> None:
    shape = answer()
    counts = [shape[key] for key in ("total_jobs", "successful", "failed", "cancelled", "unknown", "running")]
    assert counts == [5, 2, 1, 1, 0, 1]
    assert shape["success_rate"] == pytest.approx(2 / 3)
    assert (shape["total_cpu_time_seconds"], shape["total_duration_seconds"]) == (43.0, 100.0)
    assert shape["average_duration_seconds"] == 25.0
    assert (shape["duration_p50_seconds"], shape["duration_p95_seconds"]) == (10.0, 70.0)
    assert (shape["cpu_time_p50_seconds"], shape["cpu_time_p95_seconds"]) == (2.0, 40.0)
    assert (shape["memory_peak_p50_bytes"], shape["memory_peak_p95_bytes"]) == (2 << 20, 40 << 20)
    assert (shape["jobs_with_duration"], shape["jobs_with_cpu_time"]) == (4, 3)


def test_stats_are_by_tool_the_one_of_most_cpu_time_first(varied: Path) -> None:
    shape = answer()
    assert {name: group["count"] for name, group in shape["by_tool"].items()} == {"jax": 1, "torch": 3}
    assert list(shape["by_tool"]) == ["jax", "torch"]
    torch = shape["by_tool"]["torch"]
    assert (torch["successful"], torch["failed"], torch["running"], torch["total_duration"]) == (1, 1, 1, 20.0)
    assert (shape["ungrouped"]["count"], shape["ungrouped"]["cancelled"]) == (1, 1)


@pytest.mark.parametrize(
    ("by", "counts", "ungrouped"),
    [
        ("tool", {"jax": 1, "torch": 3}, 1),
        ("name", {"one": 2, "two": 3}, None),
        ("host", {HERE: 3, "atlas": 1, "elsewhere": 1}, None),
        ("tag:exp", {"1": 2, "2": 2}, 1),
        ("tag:x", {"y": 1}, 4),
        ("tag:none", {}, 5),
    ],
)
def test_jobs_are_grouped_by(varied: Path, by: str, counts: dict[str, int], ungrouped: int | None) -> None:
    shape = answer("--by", by)
    assert {name: group["count"] for name, group in shape[f"by_{by}"].items()} == counts
    assert (shape["ungrouped"] or {}).get("count") == ungrouped
    assert [key for key in shape if key.startswith("by_")] == [f"by_{by}"]


@pytest.mark.parametrize(("since", "count"), [("1h", 1), ("8h", 3), ("2d", 5), ("1m", 0)])
def test_since_looks_at_when_a_job_began(varied: Path, since: str, count: int) -> None:
    shape = answer("--since", since)
    assert shape["total_jobs"] == count
    assert shape["since"].endswith("Z")


def test_a_headline_and_a_row_a_group_are_printed(varied: Path) -> None:
    said = call("stats")
    assert (said.returncode, said.stderr) == (0, "")
    head, _, below = said.stdout.partition("\n\n")
    facts = dict(line.split(None, 1) for line in head.splitlines())
    assert facts == {
        "jobs": "5: 2 successful, 1 failed, 1 cancelled, 1 running",
        "success": "66.7 % (2 of 3, without 1 cancelled)",
        "time": "1m40s in total, 25s on average, p50 10s, p95 1m10s",
        "cpu": "43s in total, p50 2s, p95 40s (from 3 of 4 ended jobs)",
        "memory": "p50 2.0 MiB, p95 40.0 MiB (from 3 of 4 ended jobs)",
    }
    title, *rows = below.splitlines()
    assert title.split()[:5] == ["TOOL", "JOBS", "OK", "FAILED", "SUCCESS"]
    assert [row.split()[:4] for row in rows] == [
        ["jax", "1", "1", "0"],
        ["torch", "3", "1", "1"],
        ["–", "1", "0", "0"],
    ]
    assert "40s" in rows[0]
    assert rows[2].split()[4:7] == ["–", "–", "–"]


def test_every_format_tells_the_same(varied: Path) -> None:
    whole = answer()
    (line,) = call("stats", "--format", "jsonl").stdout.splitlines()
    assert json.loads(line) == whole
    assert json.loads(call("job-stats", "--format", "json").stdout) == whole
    rows = list(csv.DictReader(io.StringIO(call("stats", "--format", "csv").stdout)))
    assert [row["tool"] for row in rows] == ["jax", "torch", ""]
    for row, group in zip(rows, [*whole["by_tool"].values(), whole["ungrouped"]], strict=True):
        assert {key: row[key] for key in group} == {
            key: "" if value is None else str(value) for key, value in group.items()
        }


@pytest.mark.parametrize("made", [False, True], ids=["no store", "an empty store"])
def test_of_no_jobs_nothing_is_said_but_where_it_looked(home: Path, made: bool) -> None:
    if made:
        kept_jobs(home)
    said = call("stats")
    assert (said.returncode, said.stderr) == (0, "")
    assert str(home / f"{HERE}.db") in said.stdout
    assert home.exists() is made
    shape = answer()
    assert (shape["total_jobs"], shape["success_rate"], shape["total_cpu_time_seconds"]) == (0, None, None)
    assert (shape["by_tool"], shape["ungrouped"]) == ({}, None)
    assert call("stats", "--format", "csv").stdout == ""


def test_where_none_is_young_enough_it_does_not_say_that_there_are_no_jobs(varied: Path) -> None:
    printed = call("stats", "--since", "1m").stdout
    assert "No matching jobs" in printed
    assert "jobtop history --all" in printed


@pytest.mark.parametrize(
    ("by", "words"),
    [("tols", '(did you mean "tool"?)'), ("tag:", "tag:KEY"), ("tag", "tag:KEY"), ("seq", "tool, name, host")],
)
def test_a_wrong_grouping_is_refused_and_the_right_ones_are_named(varied: Path, by: str, words: str) -> None:
    said = call("stats", "--by", by)
    assert (said.returncode, said.stdout) == (2, "")
    assert words in said.stderr
    assert said.stderr.count("\n") == 1


@pytest.mark.parametrize("text", HOSTILE_TEXTS.values(), ids=HOSTILE_TEXTS)
def test_a_group_of_any_name_is_told_exactly_and_printed_harmless(home: Path, text: str) -> None:
    kept_jobs(home, made_job(name=text, tool=text, tags={"k": text, text: "v"}), made_job(name="other"))
    for by in ("name", "tool", "tag:k"):
        assert text in answer("--by", by)[f"by_{by}"]
    assert answer("--by", f"tag:{text}")[f"by_tag:{text}"]["v"]["count"] == 1
    for by in ("name", f"tag:{text}"):
        said = call("stats", "--by", by)
        assert (said.returncode, said.stderr) == (0, "")
        assert not holds_controls(said.stdout)


def test_jobs_that_ran_are_added_up(jobtop: Jobtop) -> None:
    burn = "import time\nwhile time.process_time() < 0.2: pass"
    for code in (0, 3):
        jobtop("run", "--quiet", "--tool", "burner", "--", "python3", "-c", f"{burn}\nraise SystemExit({code})")
    shape = json.loads(jobtop("stats", "--json").stdout)
    burner = shape["by_tool"]["burner"]
    assert (burner["count"], burner["successful"], burner["failed"], burner["success_rate"]) == (2, 1, 1, 0.5)
    recorded = [job["resource_usage"] for job in json.loads(jobtop("history", "--json").stdout)]
    assert burner["total_cpu_time_seconds"] == pytest.approx(sum(usage["cpu_total_seconds"] for usage in recorded))
    assert burner["total_cpu_time_seconds"] >= 0.39
    assert burner["memory_peak_p95_bytes"] == max(usage["memory_peak_bytes"] for usage in recorded)
