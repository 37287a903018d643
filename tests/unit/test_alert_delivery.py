"""From a rule that fires to what an endpoint gets, by the configuration of a user."""

import time
from pathlib import Path

import pytest
from endpoints import web_endpoint

from jobtop.core.alerts.model import MOMENTARY, State, Transition
from jobtop.core.alerts.rule_set import load_rule_set
from jobtop.core.config import load
from jobtop.core.model import Job, Limits, Status
from jobtop.core.paths import StatePaths
from jobtop.core.run.supervisor import new_id
from jobtop.lifecycle.alerts.book import Book
from jobtop.lifecycle.alerts.composing import compose_stored
from jobtop.lifecycle.alerts.dispatch import Dispatch
from jobtop.lifecycle.alerts.messages import Messages
from jobtop.store.alerts.alert_rows import AlertStore
from jobtop.store.alerts.outbox import Outbox
from jobtop.store.database import Database
from jobtop.store.jobs import Jobs
from records import made_job

SECRET = "T0KEN-s3cr3t-value"


def test_a_stored_alert_reaches_the_address_of_a_short_form(
    paths: StatePaths, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "*")
    with web_endpoint() as web:
        (tmp_path / "config.toml").write_text(
            '[[alert]]\nname = "full"\nmetric = "mem.used / limit.memory"\nabove = "90%"\n'
            f'actions = ["webhook:{web.url(f"/{SECRET}")}"]\n'
        )
        user = tmp_path / "xdg/jobtop"
        user.mkdir(parents=True)
        (tmp_path / "config.toml").rename(user / "config.toml")
        config = load((), {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "xdg")}, str(tmp_path))
        found = load_rule_set(config)
        rule = found.find("full")
        book = Book(config)
        action = book.action(rule.actions[0])
        assert action is not None
        job = Jobs(database).insert(made_job(status=Status.RUNNING, limits=Limits(memory_bytes=8 * 2**30)))
        assert job.seq is not None
        now = time.time()
        fired = Transition(rule, job.id, State.FIRING, now, now - 30, 0.92, "memory 92.0 % of its limit")
        (alert,) = AlertStore(database).apply([fired], lambda _: job.seq or 0)
        Outbox(database).add(
            "key", rule.name, action.name, action.origin, State.FIRING, rule.severity, now, now + 30, [alert.id]
        )
        sender = Messages(paths, None, lambda: book)
        assert sender.close(10.0) == 0
        _, _, content = web.requests[0]
    assert content["key"] == "key"
    assert content["text"] == "memory 92.0 % of its limit"
    assert content["command"] == f"jobtop show {job.id[:8]}"
    assert content["alert"] == f"{content['host']}-full-{alert.id}"
    assert ["level", "90.0 %"] in content["table"]
    assert content["job_ids"] == [job.id]
    for file in Path(paths.names.root).iterdir():
        assert not file.is_file() or SECRET.encode() not in file.read_bytes()


def test_a_deviation_that_is_known_at_the_end_is_told_once(database: Database, tmp_path: Path) -> None:
    user = tmp_path / "xdg/jobtop"
    user.mkdir(parents=True)
    (user / "config.toml").write_text(
        '[[alert]]\nname = "slow"\nkind = "deviation"\nmetric = "duration_seconds"\nfactor = 1.3\nactions = ["log"]\n'
    )
    config = load((), {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "xdg")}, str(tmp_path))
    book, job, now = Book(config), Jobs(database).insert(made_job(status=Status.SUCCESS)), time.time()
    rule = book.rule("slow")
    assert rule is not None
    for state in (State.FIRING, State.RESOLVED):
        change = Transition(rule, job.id, state, now, now, 2.0, "twice as long", detail={MOMENTARY: True})
        Dispatch(lambda: book).tell_of(database, AlertStore(database).apply([change], lambda _: job.seq or 0), now)
    (row,) = Outbox(database).listing()
    assert row.state is State.FIRING
    message = compose_stored(database, row, book.rule, "atlas", now)
    assert message is not None
    assert "resolved" not in str(message)


@pytest.fixture
def full(tmp_path: Path) -> Book:
    """A rule on memory, with an action that waits for more alerts before it sends."""
    user = tmp_path / "xdg/jobtop"
    user.mkdir(parents=True)
    (user / "config.toml").write_text(
        '[[alert]]\nname = "full"\nmetric = "mem.used"\nabove = "1GiB"\nactions = ["desktop"]\n'
    )
    return Book(load((), {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "xdg")}, str(tmp_path)))


def change_state(database: Database, book: Book, job: Job, state: State, at: float) -> None:
    rule = book.rule("full")
    assert rule is not None
    change = Transition(rule, job.id, state, at, at, 2.0**31, "memory 2.0 GiB")
    Dispatch(lambda: book).tell_of(database, AlertStore(database).apply([change], lambda _: job.seq or 0), at)


def test_an_alert_that_is_over_before_its_message_is_sent_is_one_message(database: Database, full: Book) -> None:
    short, long = (Jobs(database).insert(made_job(id=new_id(), status=Status.RUNNING)) for _ in range(2))
    now = time.time()
    change_state(database, full, short, State.FIRING, now)
    change_state(database, full, long, State.FIRING, now + 1)
    change_state(database, full, short, State.RESOLVED, now + 5)
    resolved, firing = Outbox(database).listing()
    assert (firing.state, len(firing.members), resolved.state) == (State.FIRING, 1, State.RESOLVED)
    assert set(firing.members).isdisjoint(resolved.members)
    message = compose_stored(database, resolved, full.rule, "atlas", now + 40)
    assert message is not None
    assert message.text.startswith("over after ")
    assert message.text.endswith("memory 2.0 GiB")
    change_state(database, full, long, State.RESOLVED, now + 6)
    assert {row.state for row in Outbox(database).listing()} == {State.RESOLVED}


def test_an_alert_that_is_over_after_its_message_was_sent_is_two_messages(database: Database, full: Book) -> None:
    job, now = Jobs(database).insert(made_job(status=Status.RUNNING)), time.time()
    change_state(database, full, job, State.FIRING, now)
    outbox = Outbox(database)
    outbox.set_content(outbox.listing()[0].id, {"text": "memory 2.0 GiB"})  # it is being sent
    change_state(database, full, job, State.RESOLVED, now + 5)
    assert [row.state for row in outbox.listing()] == [State.RESOLVED, State.FIRING]
