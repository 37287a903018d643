"""Describe, check, compact and back up a store."""

import json
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from jobtop.core.errors import StoreBusy
from jobtop.core.model import Status
from jobtop.core.paths import StatePaths
from jobtop.store.database import Database, open_to_read, open_to_write
from jobtop.store.jobs import Event, Jobs, Query
from jobtop.store.samples.snapshots import Snapshots
from jobtop.store.schema import VERSION
from jobtop.store.upkeep import compaction, copying, description
from jobtop.store.upkeep.inspection import file_bytes
from records import HERE, assert_one_line, call, damage_pages, kept_jobs, made_job
from sampled import kept_sampled, steady

# Holds a store open, and a reader's place in it, until its standard input ends.
READER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN")
connection.execute("SELECT count(*) FROM jobs").fetchone()
print("reads", flush=True)
sys.stdin.read()
"""


@contextmanager
def reader(path: Path) -> Iterator[int]:
    """Another process that reads a store; its id."""
    command = [sys.executable, "-c", READER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"reads\n"
        yield process.pid
        process.communicate()


def fill_and_empty(database: Database) -> int:
    """Leave half of a store free; how many bytes it takes."""
    jobs = Jobs(database)
    with database.writing():
        kept = [jobs.insert(made_job(note="n" * 5000)) for _ in range(200)]
    with database.writing():
        for job in kept[:150]:
            jobs.delete(job)
    return file_bytes(database.path)


def test_info_counts_the_contents_of_a_store(home: Path) -> None:
    job = kept_sampled(home, made_job(start_time=1_600_000_000.0), steady(300), sealed=True)
    kept_sampled(home, made_job(status=Status.FAILED, start_time=1_700_000_000.0), steady(7))
    with_log = StatePaths(home, HERE).job(job.id)
    with_log.mkdir(parents=True)
    (with_log / "stdout.log").write_bytes(b"x" * 9000)
    (with_log / "ended").write_bytes(b"x")
    (home / "jobs" / "of another host").mkdir()
    (home / "jobs" / "of another host" / "stdout.log").write_bytes(b"x" * 9000)
    database = open_to_write(StatePaths(home, HERE))
    Jobs(database).add_events([(job.seq or 0, Event(1.0, "started", {}))])
    Snapshots(database).keep(job.seq or 0, 1.0, [])
    database.close()
    found = json.loads(call("store", "info", "--json").stdout)
    assert found["jobs"] == {"success": 1, "failed": 1}
    assert (found["sealed_samples"], found["raw_samples"]) == (300, 7)
    assert (found["snapshots"], found["events"], found["machine_samples"]) == (1, 1, 0)
    assert found["logs"] == {"count": 1, "size_bytes": 12288}
    assert found["specs"] == {"count": 0, "size_bytes": 0}
    assert (found["oldest"], found["newest"]) == ("2020-09-13T12:26:40.000000Z", "2023-11-14T22:13:20.000000Z")
    assert (found["version"], found["journal"], found["integrity"]) == (VERSION, "wal", "ok")
    assert found["are_bytes_exact"]
    assert sum(found["bytes_by_kind"].values()) + found["free_bytes"] + 4096 >= found["size_bytes"]
    words = call("store", "info").stdout
    assert "2 (1 success, 1 failed)" in words or "2 (1 failed, 1 success)" in words
    assert "300 sealed, 7 raw" in words


def test_sizes_are_estimated_and_marked_as_such_without_dbstat(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept_sampled(home, made_job(), steady(3000), sealed=True)
    exact = json.loads(call("store", "info", "--json").stdout)["bytes_by_kind"]
    monkeypatch.setattr(description, "table_bytes", lambda connection: (description.estimated_bytes(connection), False))
    about = json.loads(call("store", "info", "--json").stdout)
    assert not about["are_bytes_exact"]
    assert about["bytes_by_kind"]["samples"] == pytest.approx(exact["samples"], rel=0.5)
    assert "about " in call("store", "info").stdout


@pytest.mark.parametrize("version", [1, VERSION])
def test_a_store_of_any_version_is_described_and_checked(home: Path, version: int, tmp_path: Path) -> None:
    if version == 1:
        store = tmp_path / "old.db"
        store.write_bytes((Path(__file__).parents[1] / "data" / "store-v1.db").read_bytes())
    else:
        kept_jobs(tmp_path / "elsewhere", made_job())
        store = StatePaths(tmp_path / "elsewhere", HERE).store
    found = json.loads(call("store", "info", str(store), "--json").stdout)
    assert (found["version"], found["integrity"]) == (version, "ok")
    assert (found["sealed_samples"] is None) == (version == 1)
    assert call("store", "check", str(store))[::2] == (0, "")


def test_a_block_with_a_flipped_byte_is_named_and_the_rest_is_served(home: Path, database: Database) -> None:
    torn = kept_sampled(home, made_job(name="torn"), steady(130), sealed=True)
    kept_sampled(home, made_job(name="whole"), steady(120), sealed=True)
    with database.writing() as connection:
        identifier, data = connection.execute("SELECT id, data FROM blocks ORDER BY id").fetchone()
        flipped = bytes((*data[:50], data[50] ^ 4, *data[51:]))
        connection.execute("UPDATE blocks SET data = ? WHERE id = ?", (flipped, identifier))
    answer = call("store", "check")
    assert answer.returncode == 1
    heading, line = answer.stdout.splitlines()
    assert heading.split() == ["WHERE", "WHAT"]
    assert line.split()[0] == "blocks"
    for fact in (torn.id[:8], "(torn)", "checksum", "1s to 2m00s", "120 samples"):
        assert fact in line
    (problem,) = json.loads(call("store", "check", "--json").stdout)
    assert (problem["job_id"], problem["first_elapsed"], problem["last_elapsed"]) == (torn.id, 1.0, 120.0)
    served = call("metrics", torn.id, "--format", "jsonl")
    assert served.returncode == 0
    assert {float(number) for number in range(121, 131)} <= {
        json.loads(line)["elapsed"] for line in served.stdout.splitlines()
    }
    assert_one_line(served.stderr, "120 samples", torn.id[:8], "damaged")


def test_snapshots_and_references_that_are_wrong_are_named(home: Path, database: Database) -> None:
    job = Jobs(database).insert(made_job(name="torn"))
    Snapshots(database).keep(job.seq or 0, 20.0, [])
    with database.alone() as connection:
        connection.execute("PRAGMA foreign_keys = OFF")
        connection.execute("UPDATE snapshots SET members = X'00'")
        connection.execute("INSERT INTO events (job_seq, at, kind, detail) VALUES (99, 1, 'lost', '{}')")
    problems = json.loads(call("store", "check", "--json").stdout)
    assert [(one["where"], one["job_id"], one["first_elapsed"]) for one in problems] == [
        ("events", None, None),
        ("snapshots", job.id, 20.0),
    ]


@pytest.mark.parametrize("damage", ["pages", "all"])
def test_a_damaged_file_is_reported_and_not_changed(home: Path, damage: str, tmp_path: Path) -> None:
    kept_jobs(tmp_path / "elsewhere", *(made_job(note="n" * 500) for _ in range(30)))
    store = StatePaths(tmp_path / "elsewhere", HERE).store
    content = damage_pages(store) if damage == "pages" else b"garbage" * 1000
    store.write_bytes(content)
    checked = call("store", "check", str(store))
    assert checked.returncode == 1
    assert all(line.startswith("file ") for line in checked.stdout.splitlines()[1:])
    assert not any(word in checked.stdout for word in ("aside", "\\n", "***", "…"))
    told = call("store", "info", str(store), "--json")
    assert (told.returncode, json.loads(told.stdout)["integrity"]) == (1, "damaged")
    assert store.read_bytes() == content


def test_a_foreign_database_is_refused_without_advice_to_move_it(home: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "other.db")) as connection:
        connection.execute("CREATE TABLE other (x)")
    answer = call("store", "check", str(tmp_path / "other.db"))
    assert (answer.returncode, answer.stdout) == (125, "")
    assert_one_line(answer.stderr, "other.db", "not a store of jobtop")


def test_free_pages_are_returned_to_the_file_system(home: Path, database: Database) -> None:
    before = fill_and_empty(database)
    with_free = json.loads(call("store", "info", "--json").stdout)["free_bytes"]
    answer = call("store", "vacuum")
    after = file_bytes(database.path)
    assert answer.returncode == 0
    assert "freed" in answer.stdout
    assert before - after >= with_free > 500_000
    assert call("store", "check").returncode == 0
    assert len(Jobs(database).select(Query(limit=None))) == 50


def test_a_reader_does_not_stop_a_vacuum_but_is_named(
    home: Path, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "CHECKPOINT_MILLISECONDS", 10)
    before = fill_and_empty(database)
    with reader(database.path) as pid:
        done = compaction.vacuum(database)
        assert [words.split(" (")[0] for words in done.readers] == [f"process {pid}"]
        with pytest.raises(StoreBusy, match=f"process {pid} .* open"):
            compaction.vacuum(database, is_full=True)
    compaction.vacuum(database)
    assert file_bytes(database.path) < before / 2


def test_a_full_vacuum_rewrites_the_store(home: Path, database: Database) -> None:
    fill_and_empty(database)
    done = compaction.vacuum(database, is_full=True)
    assert done.after_bytes < done.before_bytes / 2
    assert json.loads(call("store", "info", "--json").stdout)["free_bytes"] == 0


def test_a_backup_is_of_one_moment_while_another_process_writes(
    home: Path, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = Jobs(database)
    kept = [jobs.insert(made_job(note="n" * 3000)).id for _ in range(50)]
    monkeypatch.setattr(copying, "PAGES_AT_ONCE", 5)
    seen: list[tuple[int, int]] = []

    def write_between(done: int, total: int) -> None:
        seen.append((done, total))
        jobs.insert(made_job())

    source = open_to_read(database.path)
    copying.backup(source, tmp_path / "copy.db", write_between)
    source.close()
    assert len(seen) == -(-seen[0][1] // 5) > 5
    copy = open_to_read(tmp_path / "copy.db")
    assert [job.id for job in Jobs(copy).select(Query(limit=None, reverse=True))] == kept
    copy.close()


def test_a_backup_is_private_and_overwrites_only_with_force(home: Path, tmp_path: Path) -> None:
    (job,) = kept_jobs(home, made_job())
    copy, store = tmp_path / "copy.db", StatePaths(home, HERE).store
    assert call("store", "backup", str(copy)).returncode == 0
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    with closing(sqlite3.connect(copy)) as connection:
        assert connection.execute("SELECT id FROM jobs").fetchall() == [(job.id,)]
    content = copy.read_bytes()
    refused = call("store", "backup", str(copy))
    assert (refused.returncode, copy.read_bytes()) == (2, content)
    assert "--force overwrites it" in refused.stderr
    assert call("store", "backup", "--force", str(copy)).returncode == 0
    itself = call("store", "backup", "--force", str(store))
    assert itself.returncode == 2
    assert_one_line(itself.stderr, str(store), "itself")
    with closing(sqlite3.connect(copy)) as connection:
        connection.execute("PRAGMA user_version = 4")
        in_use = call("store", "backup", "--force", str(copy))
    assert in_use.returncode == 2
    assert_one_line(in_use.stderr, str(copy), "in use")
    assert not list(tmp_path.glob("*part*"))


def test_store_verbs_refuse_a_missing_store(home: Path) -> None:
    for verb in (("info",), ("check",), ("vacuum",), ("backup", "copy.db")):
        answer = call("store", *verb)
        assert (answer.returncode, answer.stdout) == (2, "")
        assert_one_line(answer.stderr, "no such store")
    assert not home.exists()
