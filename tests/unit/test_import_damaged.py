"""Damaged and crafted import files lose only themselves, take bounded time and memory, and are named."""

import gzip
import json
import random
import sqlite3
import subprocess
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from importing import KEYSTONE, SAMPLES, imported, stored, torc_file

from fuzzing import ODD_VALUES, fuzz, fuzzed, mutated
from jobtop.core.paths import StatePaths
from jobtop.store.database import open_to_write
from jobtop.store.jobs import Jobs, Query
from jobtop.store.transfer import values
from jobtop.store.transfer.imports import batches, find_sources, insert_batch
from jobtop.store.transfer.values import LONGEST_LINE, ImportContext
from records import HERE, call
from support import Jobtop

KINDS = ("joblet", "duct", "resource_logs", "jobs_history.jsonl", "alpha_diversity.benchmark", "trace.txt")
SAMPLE = b'{"job_id":"x","timestamp":1700000000,"cpu":{},"memory":{}}\n'  # of Joblet
Files = dict[str, bytes]


def changed(path: Path, sql: str) -> Path:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(sql)
    return path


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE job_metadata SET job_name = x'ff00fe'",
        "UPDATE job_metadata SET job_name = CAST(x'ff41' AS TEXT)",
        "UPDATE job_resource_samples SET memory_bytes = x'00', cpu_percent = 'much', num_processes = 9e300",
        "UPDATE job_metadata SET job_name = 7; UPDATE job_resource_samples SET timestamp = timestamp || 'x'",
    ],
)
def test_odd_values_in_a_database_of_torc_lose_only_themselves(home: Path, tmp_path: Path, sql: str) -> None:
    changed(torc_file(tmp_path / "resource_metrics_1_1.db"), sql)
    (tmp_path / "other").write_bytes(KEYSTONE.read_bytes())
    assert imported(tmp_path)["by_kind"]["keystone"]["jobs"] == 3
    assert len(stored(home)) == 6


def test_names_that_are_not_text_are_reported(home: Path, tmp_path: Path) -> None:
    path = changed(torc_file(tmp_path / "metrics.db"), "UPDATE job_metadata SET job_name = x'ff' WHERE job_id = 15")
    summary = imported(path)
    assert (summary["jobs"], len(summary["unreadable"])) == (3, 1)
    assert {job.name for job in stored(home)} == {"job 15", "job 17", "too short"}


def test_a_view_in_the_place_of_a_table_is_not_queried(home: Path, tmp_path: Path) -> None:
    endless = (
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x AS job_id, 'x' AS job_name FROM n"
    )
    path = changed(torc_file(tmp_path / "a.db"), f"DROP TABLE job_metadata; CREATE VIEW job_metadata AS {endless}")
    assert imported(path)["jobs"] == 2
    columns = "x AS job_id, x AS timestamp, x AS cpu_percent, x AS memory_bytes, x AS num_processes"
    endless = endless.replace("x AS job_id, 'x' AS job_name", columns)
    changed(path, f"DROP TABLE job_resource_samples; CREATE VIEW job_resource_samples AS {endless}")
    (tmp_path / "b.jsonl").write_bytes(KEYSTONE.read_bytes())
    assert imported(tmp_path)["by_kind"].keys() == {"keystone"}


def test_only_the_line_that_is_too_long_is_lost(home: Path, tmp_path: Path) -> None:
    lines = KEYSTONE.read_text().splitlines(keepends=True)
    path = tmp_path / "jobs_history.jsonl"
    path.write_text(lines[0] + '{"task_id": "' + "x" * LONGEST_LINE + '"}\n' + lines[1] + lines[3])
    summary = imported(path)
    assert [(place["line"], "longer" in place["why"]) for place in summary["unreadable"]] == [(2, True), (4, False)]
    assert summary["jobs"] == 2


def packed(path: Path, *contents: bytes) -> Path:
    """A directory of Joblet with a sound file, and one with this."""
    path.mkdir()
    sound = next((SAMPLES / "joblet").glob("*/*153045*"))
    (path / "a.jsonl.gz").write_bytes(sound.read_bytes())
    with gzip.open(path / "b.jsonl.gz", "wb", compresslevel=1) as file:
        file.writelines(contents)
    return path


def test_a_small_packed_file_does_not_fill_the_memory(jobtop: Jobtop) -> None:
    directory = packed(jobtop.home / "job", SAMPLE, b'{"job_id": "', *[bytes(1 << 20)] * 500)
    assert (directory / "b.jsonl.gz").stat().st_size < 4 << 20
    command = ["sh", "-c", 'ulimit -v 300000; exec "$@"', "sh", *jobtop.command("import", str(directory), "--json")]
    done = subprocess.run(command, env=jobtop.env, cwd=jobtop.home, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert (summary["jobs"], ["longer" in place["why"] for place in summary["unreadable"]]) == (2, [True])


@pytest.mark.parametrize(("limit", "value"), [("MOST_SAMPLES", 100), ("MOST_UNPACKED_BYTES", 64 * 1024)])
def test_samples_and_bytes_beyond_a_limit_are_left_out_and_reported(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, value: int
) -> None:
    monkeypatch.setattr(values, limit, value)
    summary = imported(packed(tmp_path / "job", SAMPLE * 10_000))
    assert (summary["jobs"], summary["samples"] < 2000) == (2, True)
    assert ["left out" in place["why"] for place in summary["unreadable"]] == [True]


@pytest.mark.parametrize("line", [b"\n", b"{\n", b" \t\n", b"{}\n"])
def test_millions_of_useless_lines_take_a_moment(home: Path, tmp_path: Path, line: bytes) -> None:
    directory = packed(tmp_path / "job", SAMPLE, *[line * 1_000_000] * 10)
    begun = time.process_time()
    summary = imported(directory)
    assert time.process_time() - begun < 5
    assert summary["jobs"] == 2
    whole = [place["why"] for place in summary["unreadable"] if place["line"] is None]
    assert ["left out" in why for why in whole] == [True]


def test_a_large_file_with_some_bad_and_empty_lines_is_read_to_its_end(home: Path, tmp_path: Path) -> None:
    summary = imported(packed(tmp_path / "job", (SAMPLE + b"\n" + SAMPLE + b"{\n") * 20_000))
    assert summary["samples"] > 40_000
    assert len(summary["unreadable"]) + summary["unreadable_unnamed"] == 20_000


def test_many_bad_lines_are_counted_and_not_all_named(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(values, "MOST_NAMED", 10)
    path = tmp_path / "jobs_history.jsonl"
    path.write_bytes(KEYSTONE.read_bytes() + b"x\n" * 50)
    summary = imported(path)
    assert (summary["jobs"], len(summary["unreadable"]), summary["unreadable_unnamed"]) == (3, 10, 40)
    assert "40 other places" in call("import", str(path)).stdout


HUGE_NAME = f"UPDATE job_metadata SET job_name = CAST(zeroblob({LONGEST_LINE + 1}) AS TEXT)"


@pytest.mark.parametrize("kind", ["torc", "con-duct"])
@pytest.mark.parametrize("options", [(), ("--json",), ("--dry-run",)])
def test_a_file_that_gives_no_job_is_named_and_the_exit_code_is_1(
    home: Path, tmp_path: Path, kind: str, options: tuple[str, ...]
) -> None:
    if kind == "torc":
        path = changed(torc_file(tmp_path / "metrics.db"), HUGE_NAME)
    else:
        path = tmp_path / "run_info.json"
        path.write_text('{"execution_summary": []}')
    other = tmp_path / "jobs_history.jsonl"
    other.write_bytes(KEYSTONE.read_bytes())  # with a line that breaks off
    for named in (path, tmp_path):
        answer = call("import", str(named), *options)
        assert (answer.returncode, path.name in answer.stdout) == (1, True)
    assert call("import", str(other), *options).returncode == 0


def packed_bytes(content: bytes) -> bytes:
    return gzip.compress(content, compresslevel=1)


def shaken(dice: random.Random, shape: Any) -> Any:
    """JSON with some of its values replaced by odd ones."""
    if dice.random() < 0.1:
        value = dice.choice(ODD_VALUES)
        return value.decode("latin-1") if isinstance(value, bytes) else value
    if isinstance(shape, dict):
        return {key: shaken(dice, value) for key, value in shape.items() if dice.random() < 0.97}
    if isinstance(shape, list):
        return [shaken(dice, value) for value in shape]
    return shape


def shaken_lines(dice: random.Random, content: bytes) -> bytes:
    try:
        return b"".join(json.dumps(shaken(dice, json.loads(line))).encode() + b"\n" for line in content.splitlines())
    except ValueError:
        return content


def files_of_others(dice: random.Random) -> Files:
    """What one of the programs writes, damaged."""
    kind = dice.choice(
        ["joblet", "duct", "resource_logs", "jobs_history.jsonl", "alpha_diversity.benchmark", "trace.txt"]
    )
    root = SAMPLES / kind
    files: Files = {}
    for path in sorted(root.rglob("*")) if root.is_dir() else [root]:
        if path.is_file():
            content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
            content = shaken_lines(dice, content) if dice.random() < 0.5 else mutated(dice, content, 8)
            content = packed_bytes(content) if path.suffix == ".gz" else content
            files[path.name] = mutated(dice, content) if dice.random() < 0.2 else content
    return files


@fuzzed("imports", inputs=250)
def test_any_file_of_another_program_is_imported_or_reported(home: Path, tmp_path: Path, count: int) -> None:
    directory = tmp_path / "files"
    directory.mkdir()
    torc = torc_file(tmp_path / "metrics.db").read_bytes()

    def generate(dice: random.Random) -> Files:
        return {"metrics.db": mutated(dice, torc, 12)} if dice.random() < 0.2 else files_of_others(dice)

    with closing(open_to_write(StatePaths(home, HERE))) as database:

        def check(files: Files) -> None:
            for path in directory.iterdir():
                path.unlink()
            for name, content in files.items():
                (directory / name).write_bytes(content)
            intake = ImportContext()
            for source in find_sources([directory]).sources:
                for batch in batches(source.jobs(intake)):
                    insert_batch(database, batch)
            said = [str(place) for place in intake.unreadable]
            assert all(said)

        fuzz("imports", generate, check, count, size=lambda files: sum(map(len, files.values())))
        jobs = Jobs(database).select(Query(reverse=True, limit=None))
        assert len(jobs) > count / 50
        assert all(job.settled and job.status.ended for job in jobs)
