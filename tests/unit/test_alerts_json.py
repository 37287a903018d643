"""The verbs of `jobtop alerts` that change something say as JSON what they did."""

import json
from pathlib import Path
from typing import Any

import pytest
from endpoints import WebEndpoint

from jobtop.core.alerts.model import Rule, RuleKind, Severity, State, Transition
from jobtop.core.metrics import Scope
from jobtop.core.model import SCHEMA_VERSION, Job, Status
from jobtop.store.alerts.alert_rows import AlertStore, StoredAlert
from jobtop.store.alerts.marks import MarkKind, Marks
from jobtop.store.database import Database
from jobtop.store.jobs import Jobs
from records import call, made_job

RULE = Rule("too long", RuleKind.LEVEL, Scope.JOB, Severity.WARNING, "default", above=0.9)


@pytest.fixture
def job(database: Database) -> Job:
    return Jobs(database).insert(made_job(name="train", status=Status.FAILED, exit_code=1, end_time=1_790_000_100.0))


@pytest.fixture
def alert(database: Database, job: Job) -> StoredAlert:
    change = Transition(RULE, job.id, State.FIRING, 1_790_000_000.0, 1_790_000_000.0, 0.95, "uses 95 %")
    return AlertStore(database).apply([change], lambda _: job.seq or 0)[-1]


def said(*words: str, code: int = 0) -> Any:
    answer = call("alerts", *words, "--json")
    assert (answer.returncode, answer.stderr) == (code, "")
    found = json.loads(answer.stdout)
    for record in found if isinstance(found, list) else [found]:
        assert record["schema_version"] == SCHEMA_VERSION
    return found


@pytest.mark.parametrize("is_all", [True, False])
def test_what_was_acknowledged(job: Job, alert: StoredAlert, is_all: bool) -> None:
    found = said("ack", *(["--all"] if is_all else ["train"]), "--note", "seen")
    assert [(one["id"], one["state"], one["note"]) for one in found["alerts"]] == [(alert.id, "acknowledged", "seen")]
    assert found["failed_jobs"] == [job.id]


def test_what_was_muted_and_unmuted(database: Database, job: Job) -> None:
    muted = said("mute", "host-memory", "train", "host-memory", "--note", "upkeep")
    assert [(one["rule"], one["job_id"], one["note"]) for one in muted] == [
        ("host-memory", None, "upkeep"),
        (None, job.id, "upkeep"),
    ]
    assert said("mute") == muted
    assert said("unmute", "train") == muted[1:]
    assert said("unmute", "--all") == muted[:1]
    assert said("unmute", "--all") == []
    assert Marks(database).all() == []


def test_what_an_armed_rule_will_do(home: Path, database: Database, job: Job, alert: StoredAlert) -> None:
    config = Path.home() / ".config/jobtop/config.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(
        '[[alert]]\nname = "too long"\nmetric = "mem.used"\nabove = "1MiB"\nfilter = "name:train*"\n'
        'steps = [{after = "60m"}, {after = "120m", do = "stop"}]\n'
    )
    armed = said("arm", "too long")
    assert (armed["rule"], armed["is_armed"], armed["filter"]) == ("too long", True, "name:train*")
    assert armed["acts"] == [{"after_seconds": 7200.0, "action": "stop"}]
    assert [one["id"] for one in armed["alerts"]] == [alert.id]
    assert Marks(database).has(MarkKind.ARMED, "too long")
    assert (said("disarm", "too long")["was_armed"], said("disarm", "too long")["was_armed"]) == (True, False)
    assert not Marks(database).has(MarkKind.ARMED, "too long")


def test_whether_a_test_message_was_accepted(home: Path, web: WebEndpoint) -> None:
    address = f"webhook:{web.url('/s3cr3t')}"
    sent = said("try-action", address)
    assert (sent["type"], sent["is_sent"], sent["problem"]) == ("webhook", True, None)
    web.behaviour = 500
    failed = said("try-action", address, code=1)
    assert failed["is_sent"] is False
    assert "500" in failed["problem"]
    assert "s3cr3t" not in json.dumps([sent, failed])
