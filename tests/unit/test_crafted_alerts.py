"""A store from another source can have any alert, message or mark: a bad row is left out, and no verb fails."""

import json
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from crafted import GOOD, made_store, run
from fuzzing import ODD_VALUES
from jobtop.core.alerts.model import State
from jobtop.core.model import Job
from jobtop.core.paths import StatePaths
from jobtop.store.alerts.alert_rows import AlertStore
from jobtop.store.alerts.marks import Marks
from jobtop.store.alerts.outbox import Outbox
from jobtop.store.database import open_to_read, open_to_write
from jobtop.store.incidents import read_incidents
from jobtop.store.upkeep.checking import check
from jobtop.store.upkeep.merging import merge
from records import HERE, call

NOW = time.time()
TABLES = ("alerts", "messages", "alert_marks")
SOUND: dict[str, dict[str, object]] = {
    "alerts": {
        "rule": "sound",
        "kind": "level",
        "severity": "warning",
        "state": "firing",
        "text": "a sound alert",
        "began_at": NOW - 60,
        "fired_at": NOW - 50,
        "detail": "{}",
        "flapping": 0,
        "step": 0,
        "job_seq": 2,
        "host_seq": None,
        "device_seq": None,
        "value": 1.0,
        "worst": 1.0,
        "level": 0.5,
        **dict.fromkeys(("resolved_at", "acknowledged_at", "acknowledged_by", "note")),
    },
    "messages": {
        "key": "k",
        "rule": "sound",
        "action": "slack",
        "origin": "x",
        "state": "firing",
        "severity": "warning",
        "created_at": NOW,
        "ready_at": NOW,
        "next_try_at": NOW,
        "tries": 1,
        "problem": "refused",
        "sent_at": None,
        "given_up_at": None,
        "members": "[1]",
        "content": "{}",
    },
    "alert_marks": {"kind": "mute_rule", "name": "sound", "at": NOW, "until": None, "by": "ada", "note": None},
}
VERBS = (
    *(("alerts",), ("alerts", "--json"), ("alerts", "list", "--all"), ("alerts", "list", "--format", "csv")),
    *(("alerts", "list", "--rule", "s*"), ("alerts", "list", "--job", GOOD), ("show", GOOD), ("show", GOOD, "--json")),
    *(("history", "alert:any"), ("history", "alert:firing"), ("history", "alert:s*"), ("history", "!alert:critical")),
    *(("history", "--columns", "name,alerts"), ("stats", "alert:any"), ("queue",)),
)


def insert(connection: sqlite3.Connection, table: str, row: dict[str, object]) -> None:
    values = [value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value for value in row.values()]
    places = ["CAST(? AS TEXT)" if isinstance(value, str) else "?" for value in row.values()]
    sql = f"INSERT OR IGNORE INTO {table} ({', '.join(row)}) VALUES ({', '.join(places)})"
    connection.execute(sql, values)


@pytest.fixture
def hostile(home: Path, tmp_path: Path) -> tuple[Path, Job]:
    """A store with one sound row in each table, and one for each odd value in each column."""
    path, jobs = made_store(tmp_path / "other")
    loose = "replace(replace(sql, ' NOT NULL', ''), 'CHECK (iif', 'CHECK (1 OR iif')"
    names = ", ".join(f"'{table}'" for table in TABLES)
    run(
        path,
        "PRAGMA writable_schema = ON",
        f"UPDATE sqlite_master SET sql = {loose} WHERE name IN ({names})",
        "PRAGMA writable_schema = RESET",
    )
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        for table, sound in SOUND.items():
            insert(connection, table, sound | ({"fired_at": NOW} if table == "alerts" else {}))
            for column in sound:
                for number, value in enumerate(ODD_VALUES):
                    unique = {"key": f"{column} {number}"} if table == "messages" else {}
                    unique |= {"name": f"{column} {number}"} if table == "alert_marks" else {}
                    insert(connection, table, sound | unique | {column: value})
        connection.execute("COMMIT")
    return path, jobs[GOOD]


def test_only_bad_rows_are_left_out_and_no_verb_fails(hostile: tuple[Path, Job]) -> None:
    path, _ = hostile
    for verb in VERBS:
        answer = call("--store", str(path), *verb)
        assert answer.returncode == 0, (verb, answer.stderr[:500])
        assert "bug in jobtop" not in answer.stderr
        assert "Traceback" not in answer.stderr
    found = json.loads(call("--store", str(path), "alerts", "list", "--all", "--json").stdout)
    assert 1 in [alert["id"] for alert in found]
    assert {alert["state"] for alert in found} <= set(State)


def test_what_reads_alerts_reads_the_sound_ones(hostile: tuple[Path, Job]) -> None:
    path, job = hostile
    with closing(open_to_read(path)) as database:
        assert any(incident.alert_id == 1 for incident in read_incidents(database, NOW - 900))
        assert AlertStore(database).counts_by_job([job.seq or 0])
        assert any(message.key == "k" for message in Outbox(database).unsent())
        assert "sound" in [mark.name for mark in Marks(database).all()]
        assert database.damaged


def test_bad_rows_are_named_and_not_merged(hostile: tuple[Path, Job], tmp_path: Path) -> None:
    path, _ = hostile
    assert any(problem.where == "row" and "alert " in problem.what for problem in check(path))
    with closing(open_to_write(StatePaths(tmp_path / "into", HERE))) as into:
        done = merge(into, path, HERE)
        assert (done.problem, done.added) == (None, 2)
        assert AlertStore(into).listing(limit=None)
        assert into.damaged == {}
        assert list(check(into.path)) == []
