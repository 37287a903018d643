"""A store from another source can hold anything: a bad row is left out, a fake table makes the file unreadable."""

import json
import random
import sqlite3
import time
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from crafted import BAD, BOMB, CRAFTED, GOOD, made_store, run, sampled_job
from fuzzing import ODD_VALUES, fuzz, fuzzed
from jobtop.core.analysis.cost import Prices
from jobtop.core.errors import RowDamaged, StoreError, StoreForeign
from jobtop.core.model import Job
from jobtop.core.paths import StatePaths
from jobtop.store.database import APPLICATION_ID, Database, open_to_read, open_to_write
from jobtop.store.figures import read_figures
from jobtop.store.incidents import read_incidents
from jobtop.store.jobs import Jobs, Query
from jobtop.store.listing import UNREADABLE, group_by_name, read_lines, read_order, read_runs, vocabulary
from jobtop.store.origin import MOST_VALUE_BYTES
from jobtop.store.samples.curves import Curves
from jobtop.store.samples.hosts import HostRecord
from jobtop.store.samples.live import LiveTails
from jobtop.store.samples.packed import pack
from jobtop.store.samples.snapshots import Snapshots
from jobtop.store.schema import MIGRATIONS, VERSION
from jobtop.store.upkeep.checking import check
from jobtop.store.upkeep.merging import merge
from records import HERE, call

VERBS: tuple[tuple[str, ...], ...] = (
    *(("history",), ("history", "--json"), ("history", "--sort", "start"), ("history", "--tag", "team")),
    *(("history", "tag:team=good"), ("history", "command:train"), ("history", "stale:no"), ("history", "flag:left*")),
    *(("stats",), ("stats", "--by", "tag:team"), ("queue",), ("export",), ("export", "--format", "jsonl")),
    *(("show", "JOB"), ("show", "JOB", "--json"), ("metrics", "JOB"), ("metrics", "JOB", "--format", "jsonl")),
    *(("plot", "JOB"), ("logs", "JOB"), ("top", "JOB", "--json"), ("export", "JOB")),
)
OF_ONE = tuple(verb for verb in VERBS if "JOB" in verb)
ROWS: dict[str, tuple[str, object]] = {
    "a monitor that is a list": ("monitor", "[]"),
    "params that are a number": ("params", "3"),
    "tags that are lists": ("tags", '{"team": []}'),
    "tags that are no JSON": ("tags", "{"),
    "a command that is an object": ("command", "{}"),
    "flags that are a word": ("flags", '"x"'),
    "sources that are numbers": ("sources", '{"cpu": 1}'),
    "sources that are no JSON": ("sources", "x"),
    "metrics without spreads": ("metrics", '{"cpu.percent": 3}'),
    "a queue that is a list": ("queue", "[]"),
    "deep JSON": ("params", "[" * 100_000),
    "an unknown status": ("status", "dancing"),
    "an unknown tier": ("kept", "forever"),
    "a start at the end of time": ("start_time", 1e300),
    "an end in infinity": ("end_time", float("inf")),
    "a moment that is text": ("submitted_at", "yesterday"),
    "a duration of bytes": ("duration_seconds", b"\xff"),
    "no grace": ("grace_seconds", None),
    "no process": ("shim_pid", -1),
    "a process beyond all": ("recorder_pid", 2**62),
    "a boot that is no id": ("shim_boot", "café"),
    "a name of bytes": ("name", b"\xff\x00"),
    "no name": ("name", None),
    "an exit code of text": ("exit_code", "x"),
    "a path as id": ("id", "../../victim"),
    "an absolute path as id": ("id", "/victim"),
    "an id in capitals": ("id", "AAAAAAAA-0000-4000-8000-000000000000"),
}
PRETENDERS = {
    "a view that never ends": (
        "ALTER TABLE jobs RENAME TO hidden",
        "CREATE VIEW jobs AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT * FROM n, hidden",
    ),
    "a view of events": ("ALTER TABLE events RENAME TO hidden", "CREATE VIEW events AS SELECT * FROM hidden"),
    "a virtual table": ("ALTER TABLE snapshots RENAME TO hidden", "CREATE VIRTUAL TABLE snapshots USING fts5(members)"),
    "a generated column": ("ALTER TABLE jobs ADD COLUMN extra TEXT AS (hex(zeroblob(9000000)))",),
}


@pytest.fixture
def store(home: Path, tmp_path: Path) -> tuple[Path, dict[str, Job]]:
    return made_store(tmp_path / "other")


def answers(store: Path, verb: tuple[str, ...], job: str) -> tuple[int, str, str]:
    begun = time.process_time()
    code, out, err = call("--store", str(store), *(job if word == "JOB" else word for word in verb))
    assert "bug in jobtop" not in err, err
    assert "Traceback" not in err
    assert time.process_time() - begun < 5
    return code, out, err


def spoil(path: Path) -> dict[str, Job]:
    """Add a job for each kind of bad row, and make it bad."""
    database = open_to_write(StatePaths(path.parent, path.stem))
    jobs = {kind: Jobs(database).insert(sampled_job(BAD)) for kind in ROWS}
    database.close()
    for kind, (column, value) in ROWS.items():
        run(path, f"UPDATE jobs SET {column} = ? WHERE seq = {jobs[kind].seq}", values=(value,))
    return jobs


def test_only_a_bad_row_is_left_out(store: tuple[Path, dict[str, Job]]) -> None:
    path, jobs = store
    spoilt = spoil(path)
    for verb in VERBS:
        code, out, err = answers(path, verb, jobs[GOOD].id)
        assert code == 0, (verb, err)
        if verb in (("history",), ("history", "--json")):
            assert GOOD in out
            assert f"{len(ROWS)} rows of" in err
    for kind, (column, _) in ROWS.items():
        for verb in (("show", "JOB"), ("metrics", "JOB"), ("logs", "JOB")):
            code, _, err = answers(path, verb, spoilt[kind].id)
            assert code == (2 if column == "id" else 125), (kind, verb)
            assert column in err or "is not a job" in err


@pytest.mark.parametrize("column", ["name", "note"])
def test_a_row_with_very_long_text_is_refused(store: tuple[Path, dict[str, Job]], column: str) -> None:
    path, jobs = store
    text = "x" * (17 * 1024 * 1024)
    run(path, f"UPDATE jobs SET {column} = ? WHERE name = '{BAD}'", values=(text,))
    code, out, err = answers(path, ("history",), "")
    assert (code, GOOD in out, BAD in out) == (0, True, False)
    assert "1 row of" in err
    assert answers(path, ("show", "JOB"), jobs[BAD].id)[0] == 125
    answer = call("store", "merge", str(path))
    assert answer.returncode == 1
    assert "1 job of" in answer.stderr
    assert column in answer.stderr


@pytest.mark.parametrize(
    "kind",
    ["a path as id", "an absolute path as id", "an id in capitals", "an unknown status", "a duration of bytes"],
)
def test_stats_count_the_jobs_that_history_lists(store: tuple[Path, dict[str, Job]], kind: str) -> None:
    path, jobs = store
    column, value = ROWS[kind]
    run(path, f"UPDATE jobs SET {column} = ? WHERE seq = {jobs[BAD].seq}", values=(value,))
    for by in ("tool", "tag:team"):
        code, out, err = answers(path, ("stats", "--json", "--by", by), "")
        assert (code, json.loads(out)["total_jobs"]) == (0, 1)
        assert "1 row of" in err
        assert column in err
    assert len(json.loads(answers(path, ("history", "--json"), "")[1])) == 1


def test_only_a_bad_row_of_this_hosts_store_is_left_out(home: Path, store: tuple[Path, dict[str, Job]]) -> None:
    path, jobs = store
    spoil(path)
    run(path, f"UPDATE jobs SET host = '{HERE}'")
    path.rename(path.with_name(f"{HERE}.db"))
    path.parent.rename(home)
    for verb in VERBS:
        code, _, err = call(*(jobs[GOOD].id if word == "JOB" else word for word in verb))
        assert code == 0, (verb, err)
    assert call("prune", "--dry-run").returncode == 0
    code, out, _ = call("store", "check")
    assert code == 1
    for column, _ in ROWS.values():
        assert column in out


OTHERS = {
    "an event without JSON": "UPDATE events SET detail = 'none'",
    "an event that is a list": "UPDATE events SET detail = '[]'",
    "an event at the end of time": "UPDATE events SET at = 1e300",
    "an event of no kind": "UPDATE events SET kind = NULL",
    "marks of text": "UPDATE log_marks SET stdout_bytes = 'x'",
    "samples of text": "UPDATE head SET cpu_user = 'x', mem_used = x'ff'",
    "samples in infinity": "UPDATE head SET cpu_user = 9e999, elapsed = 9e999",
    "a moment of text": "UPDATE head SET elapsed = 'x'",
    "a block of text": "UPDATE blocks SET data = 'text'",
    "a block of a text of samples": "UPDATE blocks SET samples = 'x', first_elapsed = 0, last_elapsed = 1e300",
    "a block of endless samples": "UPDATE blocks SET samples = 9e999",
    "a block of more samples than can be added": f"UPDATE blocks SET samples = {2**62}",
    "a machine of no time": "UPDATE hosts SET boot_time = 'x', boot = 'boot'",
    "details of text": "UPDATE host_details SET detail = 'x'",
    "a series of text": "UPDATE series SET sealed_until = 'x'",
}


@pytest.mark.parametrize("statement", OTHERS.values(), ids=OTHERS)
def test_only_bad_rows_in_other_tables_are_left_out(store: tuple[Path, dict[str, Job]], statement: str) -> None:
    path, jobs = store
    run(path, statement)
    for verb in (("history",), *OF_ONE):
        code, _, err = answers(path, verb, jobs[GOOD].id)
        assert code == 0, (verb, err)


ODD: tuple[object, ...] = ("1e309", float("inf"), -float("inf"), 2**62, -1, "x", b"\xff")


@pytest.mark.parametrize("value", ODD)
@pytest.mark.parametrize("column", ["blocks.samples", "jobs.kept", "jobs.status", "jobs.start_time"])
def test_what_is_in_a_store_is_said_whatever_its_rows_hold(
    store: tuple[Path, dict[str, Job]], column: str, value: object
) -> None:
    path, _ = store
    table, _, name = column.partition(".")
    run(path, f"UPDATE {table} SET {name} = ?", values=(value,))
    for words in ((), ("--json",)):
        answer = call("store", "info", str(path), *words)
        assert (answer.returncode, answer.stderr) == (0, "")
    found = json.loads(answer.stdout)
    assert sum(found["jobs"].values()) == 2
    if column == "blocks.samples":
        assert found["sealed_samples"] == 2  # a block has one sample at least


@pytest.mark.parametrize("kind", ["more samples than memory", "too few bytes", "a bomb", "no stream"])
def test_only_a_crafted_block_is_left_out(store: tuple[Path, dict[str, Job]], kind: str) -> None:
    path, jobs = store
    run(path, "UPDATE blocks SET data = ?", values=(CRAFTED[kind],))
    for verb in OF_ONE:
        code, _, err = answers(path, verb, jobs[GOOD].id)
        assert code == 0, (verb, err)
    assert "damaged" in answers(path, ("metrics", "JOB"), jobs[GOOD].id)[2]


@pytest.mark.parametrize("members", [b"x", BOMB, zlib.compress(b"3")], ids=len)
def test_only_a_crafted_snapshot_is_left_out(store: tuple[Path, dict[str, Job]], members: bytes) -> None:
    path, jobs = store
    run(path, "UPDATE snapshots SET members = ?", values=(members,))
    for verb in OF_ONE:
        code, _, err = answers(path, verb, jobs[GOOD].id)
        assert code == 0, (verb, err)


@pytest.mark.parametrize("statements", PRETENDERS.values(), ids=PRETENDERS)
def test_a_view_or_virtual_table_with_the_name_of_a_table_is_not_read(
    store: tuple[Path, dict[str, Job]], statements: tuple[str, ...]
) -> None:
    path, jobs = store
    run(path, *statements)
    for verb in VERBS:
        code, _, err = answers(path, verb, jobs[GOOD].id)
        assert code == 2, verb
        assert "never makes" in err
    with pytest.raises(StoreForeign):
        open_to_read(path)
    for verb in (("merge", str(path)), ("check", str(path))):
        assert call("store", *verb).returncode != 0


def test_a_view_of_another_name_and_a_trigger_do_no_harm(store: tuple[Path, dict[str, Job]]) -> None:
    path, jobs = store
    run(
        path,
        "CREATE VIEW mine AS SELECT name FROM jobs",
        "CREATE TRIGGER t AFTER INSERT ON jobs BEGIN DELETE FROM jobs; END",
    )
    assert answers(path, ("show", "JOB"), jobs[GOOD].id)[0] == 0


def test_a_table_without_a_column_is_named(store: tuple[Path, dict[str, Job]]) -> None:
    path, jobs = store
    run(path, "ALTER TABLE jobs DROP COLUMN cwd")
    for verb, expected in ((("history",), 0), (("stats",), 0), (("show", "JOB"), 125), (("metrics", "JOB"), 125)):
        code, _, err = answers(path, verb, jobs[GOOD].id)
        assert code == expected, (verb, err)
    assert "cwd" in answers(path, ("history",), "")[2]


def test_an_endless_query_is_abandoned(store: tuple[Path, dict[str, Job]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jobtop.store.database.MOST_LOOKS", 3)
    database = open_to_read(store[0])
    endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n"
    with pytest.raises(StoreError, match="too long"), database.reading() as connection:
        connection.execute(endless).fetchall()
    assert len(Jobs(database).select(Query())) == 2
    database.close()


def test_merging_leaves_out_bad_rows(store: tuple[Path, dict[str, Job]], tmp_path: Path) -> None:
    path, jobs = store
    spoil(path)
    into = open_to_write(StatePaths(tmp_path / "into", HERE))
    done = merge(into, path, HERE)
    assert (done.problem, done.added, done.refused) == (None, 2, len(ROWS))
    assert {job.name for job in Jobs(into).select(Query())} == {BAD, GOOD}
    assert len(Jobs(into).events(Jobs(into).find(jobs[GOOD].id))) >= 2
    assert list(check(into.path)) == []
    into.close()
    answer = call("store", "merge", str(path))
    assert answer.returncode == 1
    assert f"{len(ROWS)} jobs of" in answer.stderr


@pytest.mark.parametrize("statement", OTHERS.values(), ids=OTHERS)
def test_merging_leaves_out_bad_rows_in_other_tables(
    store: tuple[Path, dict[str, Job]], tmp_path: Path, statement: str
) -> None:
    path, jobs = store
    run(path, statement)
    into = open_to_write(StatePaths(tmp_path / "into", HERE))
    done = merge(into, path, HERE)
    assert (done.problem, done.added) == (None, 2)
    read_every_way(into, Jobs(into).find(jobs[GOOD].id).id)
    assert into.damaged == {}
    into.close()


DAMAGED: dict[str, tuple[str, Any]] = {
    "blocks": ("UPDATE blocks SET data = ? WHERE job_seq = 2", b"garbage"),
    "blocks with a checksum": ("UPDATE blocks SET data = ? WHERE job_seq = 2", CRAFTED["no stream"]),
    "blocks of another length": ("UPDATE blocks SET samples = ? WHERE job_seq = 2", 7),
    "blocks until infinity": ("UPDATE blocks SET last_elapsed = ? WHERE job_seq = 2", float("inf")),
    "blocks of text": ("UPDATE blocks SET data = CAST(? AS TEXT) WHERE job_seq = 2", b"\xff"),
    "events": ("UPDATE events SET detail = ? WHERE id = 3", "none"),
    "log_marks": ("UPDATE log_marks SET elapsed_seconds = ? WHERE job_seq = 2 AND stdout_bytes = 10", float("inf")),
    "snapshots": ("UPDATE snapshots SET members = ? WHERE job_seq = 2", b"garbage"),
    "head": ("UPDATE head SET cpu_user = ? WHERE id = (SELECT max(id) FROM head)", "x"),
    "head of no time": ("UPDATE head SET elapsed = ? WHERE id = (SELECT max(id) FROM head)", 1e15),
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_merging_leaves_out_damaged_rows_of_a_job_and_counts_them(
    home: Path, store: tuple[Path, dict[str, Job]], kind: str
) -> None:
    path, jobs = store
    statement, value = DAMAGED[kind]
    run(path, statement, values=(value,))
    answer = call("store", "merge", str(path))
    assert answer.returncode == 1
    assert answer.stderr.count("left out: 1 damaged row of") == 1
    assert f"1 in {kind.split(maxsplit=1)[0]}" in answer.stderr
    assert list(check(StatePaths(home, HERE).store)) == []
    assert call("store", "merge", str(path)).returncode == 0  # both jobs are known by now
    assert call("metrics", jobs[GOOD].id).returncode == 0


def test_an_unreadable_line_keeps_its_place(store: tuple[Path, dict[str, Job]]) -> None:
    path, jobs = store
    run(path, f"UPDATE jobs SET flags = '3' WHERE name = '{BAD}'")
    database = open_to_read(path)
    seqs = [jobs[BAD].seq or 0, jobs[GOOD].seq or 0, 99]
    assert [line.name for line in read_lines(database, seqs)] == [UNREADABLE, GOOD, "(removed)"]
    database.close()


WRONG_SNAPSHOT = f"UPDATE snapshots SET members = x'{pack({'columns': ['pid'], 'rows': [[1]]}).hex()}'"
PROBLEMS: dict[str, tuple[str, str]] = {
    "blocks of text": ("UPDATE blocks SET first_elapsed = 'x', samples = 'y', data = 'abc'", "first_elapsed"),
    "a block of a machine of text": ("INSERT INTO host_blocks VALUES (1, 9, 'x', 'y', 'z', 'q', 'w')", "host_blocks"),
    "no blocks": ("DROP TABLE blocks", "blocks"),
    "no events": ("DROP TABLE events", "events"),
    "no jobs": ("DROP TABLE jobs", "jobs"),
    "no slots": ("ALTER TABLE groups DROP COLUMN slots", "slots"),
    "no kinds of events": ("ALTER TABLE events RENAME COLUMN kind TO sort", "kind"),
    "samples of text": ("UPDATE head SET cpu_user = 'x'", "cpu_user"),
    "samples of bytes": ("UPDATE head SET mem_used = x'ff'", "mem_used"),
    "samples in infinity": ("UPDATE head SET elapsed = 9e999", "elapsed"),
    "samples of a machine of text": ("UPDATE host_head SET cpu_percent = 'x'", "cpu_percent"),
    "a series of text": ("UPDATE series SET sealed_until = 'x'", "sealed_until"),
    "a machine of no time": ("UPDATE hosts SET boot_time = 'x'", "boot_time"),
    "slots of text": ("INSERT INTO groups VALUES ('a', 'many')", "slots"),
    "snapshots of another shape": (WRONG_SNAPSHOT, "snapshots"),
    "snapshots of text at a text": ("UPDATE snapshots SET members = 'x', elapsed = 'x'", "elapsed"),
    "details of another shape": (f"UPDATE host_details SET detail = x'{pack([]).hex()}'", "host_details"),
    "a trigger": ("CREATE TRIGGER t AFTER INSERT ON jobs BEGIN DELETE FROM jobs; END", "trigger"),
}


@pytest.mark.parametrize(("statement", "word"), PROBLEMS.values(), ids=PROBLEMS)
def test_a_check_names_values_that_jobtop_never_writes(
    store: tuple[Path, dict[str, Job]], statement: str, word: str
) -> None:
    path, _ = store
    assert call("store", "check", str(path)).returncode == 0
    run(path, statement)
    for options in ((), ("--json",)):
        code, out, err = call("store", "check", str(path), *options)
        assert (code, err) == (1, "")
        assert word in out


TOO_LARGE = f"hex(zeroblob({MOST_VALUE_BYTES // 2 + 1}))"


@pytest.mark.parametrize(("table", "column", "key"), [("jobs", "note", "seq 1"), ("events", "detail", "id")])
def test_a_value_too_large_for_sqlite_is_named_by_the_check_that_the_error_names(
    store: tuple[Path, dict[str, Job]], table: str, column: str, key: str
) -> None:
    path, jobs = store
    owner = "seq" if table == "jobs" else "job_seq"
    run(path, f"UPDATE {table} SET {column} = {TOO_LARGE} WHERE {owner} = 1")
    code, _, err = call("--store", str(path), "show", f"id:{jobs[BAD].id}")
    assert (code != 0, "too large" in err, f"store check {path}" in err) == (True, True, True), err
    code, out, err = call("store", "check", str(path))
    assert (code, err) == (1, "")
    assert table in out
    assert key in out


def test_a_damaged_block_of_a_job_whose_name_is_not_text_is_named(store: tuple[Path, dict[str, Job]]) -> None:
    path, _ = store
    run(path, "UPDATE jobs SET name = x'ff'", "UPDATE blocks SET data = x'00'")
    code, out, err = call("store", "check", str(path), "--json")
    assert (code, err) == (1, "")
    assert "blocks" in out


@pytest.mark.parametrize("version", range(1, VERSION + 1))
def test_a_store_of_an_older_version_is_sound(home: Path, tmp_path: Path, version: int) -> None:
    path = tmp_path / "old.db"
    statements = [statement for step in MIGRATIONS[:version] for statement in step.split(";")]
    run(path, *statements, f"PRAGMA application_id = {APPLICATION_ID}", f"PRAGMA user_version = {version}")
    assert call("store", "check", str(path)).returncode == 0


TABLES = ("jobs", "jobs", "jobs", "events", "log_marks", "head", "series", "blocks", "snapshots", "hosts")


def read_every_way(database: Database, job_id: str) -> None:
    """All that verbs and the console read of a store, and of one job."""
    jobs = Jobs(database)
    for job in (*jobs.select(Query(limit=None)), *jobs.live_and_recent(10)[0], *jobs.changed_since(0)[0]):
        job.to_json()
    jobs.select(Query(tag="team"))
    for by in ("tool", "name", "tag:team", "user", "month", "param:n"):
        read_figures(database, None, by, prices=Prices(cpu_hour=1.0, gib_hour=1.0, gpu_hour=1.0, kwh=1.0))
    read_lines(database, read_order(database, Query(sort="memory")).seqs)
    group_by_name([read_runs(database)])
    vocabulary(database)
    read_incidents(database, 0.0)
    with suppress(RowDamaged):
        job = jobs.find(job_id)
        jobs.events(job)
        jobs.log_marks(job)
        Snapshots(database).latest(job)
        Snapshots(database).moments(job)
        Curves(database).series(job, ("cpu.percent", "mem.used"), max_points=20)
        Curves(database).frame_at(job, 50.0)
        Curves(database).follow(job, None)
        Curves(database).count(job)
        HostRecord(database).around(job, ("cpu.percent",))
        HostRecord(database).detail_at(job, 50.0)
        LiveTails(database).poll((job.seq or 0,))


@fuzzed("rows", inputs=150)
def test_any_value_in_any_row_loses_at_most_that_row(tmp_path: Path, count: int) -> None:
    path, jobs = made_store(tmp_path / "other")
    connection = sqlite3.connect(path, isolation_level=None)
    database = Database(path, connection)
    connection.execute("PRAGMA foreign_keys = OFF")
    columns = {
        table: [row[1] for row in connection.execute(f"PRAGMA table_info({table})") if not row[5]] for table in TABLES
    }

    def generate(dice: random.Random) -> list[tuple[str, str, object]]:
        tables = [dice.choice(TABLES) for _ in range(dice.randint(1, 3))]
        return [(table, dice.choice(columns[table]), dice.choice(ODD_VALUES)) for table in tables]

    def check_changes(changes: list[tuple[str, str, Any]]) -> None:
        connection.execute("BEGIN")
        database.damaged.clear()
        try:
            for table, column, value in changes:
                bound = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value
                cast = "CAST(? AS TEXT)" if isinstance(value, str) else "?"
                owner = {"jobs": "seq", "hosts": "seq"}.get(table, "job_seq")
                connection.execute(f"UPDATE OR IGNORE {table} SET {column} = {cast} WHERE {owner} = 1", (bound,))
            read_every_way(database, jobs[BAD].id)
            assert GOOD in {job.name for job in Jobs(database).select(Query(limit=None))}
        finally:
            connection.execute("ROLLBACK")

    fuzz("rows", generate, check_changes, count)
    assert list(check(path)) == []
    connection.close()
