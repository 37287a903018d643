"""Alerts, messages and marks in a store that is merged, checked, described and pruned."""

import json
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from jobtop.core.alerts.model import Rule, RuleKind, Severity, State, Transition
from jobtop.core.measure.device import Device
from jobtop.core.metrics import Scope
from jobtop.core.model import Job, Status
from jobtop.core.paths import StatePaths
from jobtop.core.retention import Policy
from jobtop.store.alerts.alert_rows import AlertStore
from jobtop.store.alerts.marks import MarkKind, Marks
from jobtop.store.alerts.outbox import Outbox
from jobtop.store.database import Database, open_to_write
from jobtop.store.jobs import Jobs
from jobtop.store.samples import hosts
from jobtop.store.upkeep.checking import check
from jobtop.store.upkeep.merging import merge
from jobtop.store.upkeep.retention import Retention
from records import call, made_job

NOW = time.time()
DAY = 86400.0
POLICY = Policy(7 * DAY, 90 * DAY)
GPU = Device("gpu", "0")
RULE = Rule("nearly full", RuleKind.LEVEL, Scope.JOB, Severity.WARNING, "default", above=0.9)


def fire(database: Database, owner: Any, seq: int | None = None, at: float = NOW, is_resolved: bool = False) -> None:
    states = (State.FIRING, State.RESOLVED) if is_resolved else (State.FIRING,)
    changes = [Transition(RULE, owner, state, at, at, 0.95, "uses 95 %") for state in states]
    AlertStore(database).apply(changes, lambda _: seq or 0)


def add_message(database: Database, key: str) -> int:
    return Outbox(database).add(key, "r", "slack", "x", State.FIRING, Severity.INFO, NOW, NOW, [1])


@pytest.fixture
def job(database: Database) -> Job:
    return Jobs(database).insert(made_job(name="train", end_time=NOW))


@pytest.fixture
def other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    """The store of another host, with alerts of a job, of its host and of a device."""
    monkeypatch.setattr(hosts, "boot_id", lambda: "boot of another")
    with closing(open_to_write(StatePaths(tmp_path / "elsewhere", "other"))) as store:
        job = Jobs(store).insert(made_job(name="far", host="other", end_time=NOW))
        for owner in (job.id, None, GPU):
            fire(store, owner, job.seq)
        Marks(store).set(MarkKind.MUTE_RULE, "nearly full", None, "ada")
        add_message(store, "k")
        yield store


def test_alerts_come_along_with_their_owners_and_messages_and_marks_do_not(
    database: Database, job: Job, other: Database
) -> None:
    fire(database, job.id, job.seq)
    done = merge(database, other.path)
    assert (done.problem, done.damaged_rows) == (None, 0)
    found = AlertStore(database).listing()
    owners = {(alert.job_name, alert.host, alert.device) for alert in found}
    assert owners == {("train", job.host, None), ("far", "other", None), (None, "other", None), (None, "other", GPU)}
    assert Outbox(database).unsent_count() == 0
    assert Marks(database).all() == []
    assert merge(database, other.path).damaged_rows == 0
    assert len(AlertStore(database).listing()) == 4


@pytest.mark.parametrize(
    "change",
    ["state = 'dancing'", "severity = 'awful'", "kind = 'x'", "detail = '['", "began_at = 1e300", "fired_at = -1e300"],
)
def test_a_damaged_alert_is_neither_merged_nor_unnamed(database: Database, other: Database, change: str) -> None:
    with other.writing() as connection:
        connection.execute(f"UPDATE alerts SET {change} WHERE job_seq IS NOT NULL")
    assert any("alert 1" in problem.what for problem in check(other.path))
    done = merge(database, other.path)
    assert (done.damaged_rows, done.damaged_tables) == (1, "1 in alerts")
    assert len(AlertStore(database).listing()) == 2


def test_damaged_messages_and_marks_are_named(database: Database, job: Job) -> None:
    fire(database, job.id, job.seq)
    add_message(database, "k")
    Marks(database).set(MarkKind.ARMED, "r")
    assert list(check(database.path)) == []
    with database.writing() as connection:
        connection.execute("UPDATE messages SET members = '{}'")
        connection.execute("UPDATE alert_marks SET until = 1e300")
    problems = [problem.what for problem in check(database.path)]
    assert [problem.partition(":")[0] for problem in problems] == ["message 1", "a mark of alerts"]


def test_old_alerts_of_the_machine_and_done_messages_are_deleted(
    database: Database, paths: StatePaths, job: Job
) -> None:
    old = NOW - 91 * DAY
    for owner in (None, GPU, job.id):
        fire(database, owner, job.seq, at=old, is_resolved=True)
    fire(database, None, at=old)
    fire(database, GPU, is_resolved=True)
    sent, given_up, _unsent = (add_message(database, key) for key in "abc")
    Outbox(database).mark_sent(sent, old)
    Outbox(database).give_up(given_up, at=old)
    Marks(database).set(MarkKind.SEEN, "a job that was deleted")
    Marks(database).set(MarkKind.SEEN, job.id)
    retention = Retention(database, paths, POLICY)
    while retention.step():
        pass
    left = [(alert.owner, alert.state) for alert in AlertStore(database).listing()]
    assert left == [(None, State.FIRING), (GPU, State.RESOLVED), (job.id, State.RESOLVED)]
    assert [message.key for message in Outbox(database).listing()] == ["c"]
    assert [mark.name for mark in Marks(database).all()] == [job.id]


def test_a_deleted_job_takes_its_alerts_and_its_marks_along(database: Database) -> None:
    job = Jobs(database).insert(made_job(name="broken", status=Status.FAILED))
    fire(database, job.id, job.seq, is_resolved=True)
    marks = Marks(database)
    marks.acknowledge_failures([job.id], "ada")
    marks.set(MarkKind.MUTE_JOB, job.id)
    assert call("rm", "broken", "--yes").returncode == 0
    assert AlertStore(database).listing() == []
    assert marks.all() == []


def test_info_counts_alerts_and_their_size(database: Database, job: Job) -> None:
    fire(database, job.id, job.seq)
    info = json.loads(call("store", "info", "--json").stdout)
    assert info["alerts"] == 1
    assert info["bytes_by_kind"]["alerts"] > 0
