"""The benchmarks' table and file say what was measured; nothing is timed here."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import __main__ as program
from benchmarks import breakdown
from benchmarks.farm import farm
from benchmarks.installation import Installation
from benchmarks.report import BenchmarkResult, MeasurementError, results_json, table, verdict
from benchmarks.stopwatch import measure_in_turns
from benchmarks.watching import MAX_PROCESSES, compare_recorded, refuse_busy_machine
from jobtop.core.procfs import pid_clock, stat_fields
from support import wait_for

MIB = 2**20
FAST = BenchmarkResult("a fast start", "seconds", [0.1, 0.9, 0.1], [0.2, 0.3, 0.2], "another", bound=0.75)
SLOW = BenchmarkResult("a slow start", "seconds", [0.3], [0.2], "another", bound=0.75)
SMALL = BenchmarkResult("a small process", "bytes", [3 * MIB], bound=4 * MIB)
LARGE = BenchmarkResult("a large process", "bytes", [5 * MIB], bound=4 * MIB)
PLAIN = BenchmarkResult("for information", "bytes", [MIB])
UNKNOWN = BenchmarkResult("a thing", "seconds", bound=0.75, rival="another", problem="there is none here")


@pytest.fixture
def canned(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, list[BenchmarkResult]]:
    """What the program finds when it measures: nothing is installed, nothing is run."""
    results: dict[str, list[BenchmarkResult]] = {"run": [FAST], "memory": [SMALL]}

    def measure_run(tools: Installation, work: Path, rounds: int) -> Iterator[BenchmarkResult]:
        yield from results["run"]

    def measure_memory(tools: Installation, work: Path, rounds: int) -> Iterator[BenchmarkResult]:
        yield from results["memory"]
        if len(results["memory"]) == 0:
            raise MeasurementError("no /proc here")

    monkeypatch.setattr(program, "MEASURES", {"run": (measure_run, 1), "memory": (measure_memory, 1)})
    monkeypatch.setattr(program, "BUILD", tmp_path)
    monkeypatch.setattr(program, "installation", lambda: Installation(tmp_path))
    monkeypatch.setattr(program, "machine", lambda _: {"cpus": 2})
    return results


def run_program(tmp_path: Path) -> int:
    return program.main(["--only", "run", "memory", "--json", str(tmp_path / "bench.json")])


def test_the_ratio_is_the_median_over_the_pairs() -> None:
    paired = BenchmarkResult("a start", "seconds", [1.0, 4.0, 9.0], [2.0, 8.0, 3.0], "another")
    assert paired.ratio == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("result", "said"), [(FAST, "ok"), (SLOW, "MISSED"), (SMALL, "ok"), (LARGE, "MISSED"), (PLAIN, "")]
)
def test_a_bound_holds_the_ratio_where_there_is_a_rival_and_the_value_where_there_is_none(
    result: BenchmarkResult, said: str
) -> None:
    assert verdict(result) == said


def test_what_could_not_be_measured_is_absent_and_says_why() -> None:
    assert verdict(UNKNOWN) == "NOT MEASURED: there is none here"
    values = UNKNOWN.to_json()
    assert values["ours"] is values["others"] is values["ratio"] is values["bound_kept"] is None


def test_the_table_has_a_line_for_each_result_with_its_columns_below_each_other() -> None:
    lines = table([FAST, SMALL, PLAIN]).splitlines()
    assert lines == [
        "what                ours         others  ratio      bound",
        "a fast start       100ms  200ms another  0.500     ≤ 0.75  ok",
        "a small process  3.0 MiB              –      –  ≤ 4.0 MiB  ok",
        "for information  1.0 MiB              –      –          –",
    ]


def test_the_document_keeps_every_sample_and_survives_json() -> None:
    whole = json.loads(json.dumps(results_json([FAST], {"cpus": 2}, {"time_line": [("python is up", 0.01)]})))
    (kept,) = whole["results"]
    assert kept["samples"] == {"ours": [0.1, 0.9, 0.1], "others": [0.2, 0.3, 0.2]}
    assert (kept["ours"], kept["others"], kept["ratio"], kept["bound_kept"]) == (0.1, 0.2, 0.5, True)
    assert (whole["machine"], whole["breakdown"]) == ({"cpus": 2}, {"time_line": [["python is up", 0.01]]})


def test_the_program_prints_the_table_and_writes_the_file(
    canned: dict[str, list[BenchmarkResult]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_program(tmp_path) == 0
    assert capsys.readouterr().out.startswith(table([FAST, SMALL]) + "\n\nevery bound kept")
    assert [row["what"] for row in json.loads((tmp_path / "bench.json").read_text())["results"]] == [
        "a fast start",
        "a small process",
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["bench.json"]


def test_a_missed_bound_is_marked_and_does_not_fail(
    canned: dict[str, list[BenchmarkResult]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    canned["memory"] = [SMALL, LARGE]
    assert run_program(tmp_path) == 0
    assert "\nbounds MISSED: 1" in capsys.readouterr().out


def test_what_cannot_be_measured_fails_without_taking_the_rest_along(
    canned: dict[str, list[BenchmarkResult]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    canned["memory"] = []
    assert run_program(tmp_path) == 1
    shown = capsys.readouterr().out
    assert "a fast start" in shown
    assert "NOT MEASURED: no /proc here" in shown
    assert json.loads((tmp_path / "bench.json").read_text())["results"][1]["problem"] == "no /proc here"


def test_samples_are_taken_in_turns_after_a_round_that_does_not_count() -> None:
    taken: list[str] = []

    def taker(name: str) -> float:
        taken.append(name)
        return float(len(taken))

    samples = measure_in_turns({"a": lambda: taker("a"), "b": lambda: taker("b")}, rounds=2)
    assert taken == ["a", "b", "a", "b", "a", "b"]
    assert samples == {"a": [3.0, 5.0], "b": [4.0, 6.0]}


def test_the_time_line_shows_when_each_thing_happens_and_how_long_that_took() -> None:
    shown = breakdown.breakdown_text([("python is up", 0.015), ("the job starts", 0.07)], [("click", 0.04, 0.001)])
    assert [line.split() for line in shown.splitlines()[1:3]] == [
        ["python", "is", "up", "15.0", "15.0"],
        ["the", "job", "starts", "70.0", "55.0"],
    ]
    assert shown.splitlines()[-1].split() == ["click", "40.0", "1.0"]


def test_a_farm_has_the_processes_and_jobs_asked_for_runs_those_it_should_and_leaves_none() -> None:
    with farm(jobs=3, processes=8) as watched:
        assert (len(watched.shims), len(watched.members)) == (3, 8)
        assert {int(stat_fields(pid)[1]) for pid in watched.members} == set(watched.shims)
        before = {pid: time.clock_gettime_ns(pid_clock(pid)) for pid in watched.members}
        watched.let_run(0.25)
        moved = [pid for pid in watched.members if time.clock_gettime_ns(pid_clock(pid)) != before[pid]]
        assert len(moved) == 2
    wait_for(lambda: all(stat_fields(pid)[:1] in ([], ["Z"]) for pid in (*watched.shims, *watched.members)))


def test_a_cost_that_the_record_has_wrong_is_a_problem() -> None:
    assert compare_recorded([0.18, 0.2], [0.2, 0.2]).problem is None
    assert compare_recorded([0.18, 0.1], [0.2, 0.2]).problem == "the record says 0.1 s, it was 0.200 s"
    assert compare_recorded([None], [0.2]).problem == "the record says None s, it was 0.200 s"


def test_a_rival_that_reads_the_whole_machine_is_not_measured_in_a_crowd() -> None:
    refuse_busy_machine(MAX_PROCESSES)
    with pytest.raises(MeasurementError, match=r"^1260 processes"):
        refuse_busy_machine(1260)
