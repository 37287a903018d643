"""Alerts, messages and marks in the store."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from jobtop.core.alerts.model import Rule, RuleKind, Severity, State, Transition
from jobtop.core.measure.device import Device
from jobtop.core.metrics import Scope
from jobtop.core.model import Job, Status
from jobtop.core.paths import StatePaths
from jobtop.core.procfs import boot_id
from jobtop.core.text.event_text import event_text
from jobtop.store.alerts.alert_rows import AlertStore, StoredAlert
from jobtop.store.alerts.marks import MarkKind, Marks
from jobtop.store.alerts.outbox import Outbox
from jobtop.store.database import Database, open_to_write
from jobtop.store.events import MachineEvents
from jobtop.store.jobs import Jobs
from records import HERE, HOSTILE_TEXTS, made_job, running_job

NOW = 1_700_000_000.0
FULL = Rule("nearly full", RuleKind.LEVEL, Scope.JOB, Severity.WARNING, "default", above=0.9)
IDLE = Rule("gpu idle", RuleKind.LEVEL, Scope.GPU, Severity.INFO, "default", below=0.5)


def change(state: State, owner: Any, at: float = NOW, value: float | None = 0.95, **values: Any) -> Transition:
    rule, text = values.pop("rule", FULL), values.pop("text", f"uses {value} of its memory")
    return Transition(rule, owner, state, at, NOW - 30, value, text, **values)


class Alerts:
    """The alerts of a store with one running job."""

    def __init__(self, database: Database) -> None:
        self.database, self.store, self.jobs = database, AlertStore(database), Jobs(database)
        self.job = self.jobs.insert(running_job(name="train"))
        assert self.job.seq is not None
        self.seq = self.job.seq

    def apply(self, state: State, **values: Any) -> list[StoredAlert]:
        return self.store.apply([change(state, values.pop("owner", self.job.id), **values)], lambda _: self.seq)


@pytest.fixture
def alerts(database: Database) -> Alerts:
    return Alerts(database)


@pytest.fixture
def other_process(database: Database, paths: StatePaths) -> Iterator[Database]:
    with closing(open_to_write(paths)) as other:
        yield other


def test_an_alert_is_pending_then_firing_then_resolved(alerts: Alerts) -> None:
    [pending] = alerts.apply(State.PENDING, values={"mem.used": 3.0})
    assert (pending.state, pending.fired_at, pending.job_name) == (State.PENDING, None, "train")
    assert pending.detail == {"values": {"mem.used": 3.0}}
    assert alerts.jobs.events(alerts.job) == []
    [firing] = alerts.apply(State.FIRING, at=NOW + 5, value=0.97)
    assert (firing.id, firing.state, firing.fired_at, firing.value) == (pending.id, State.FIRING, NOW + 5, 0.97)
    assert firing.owner == alerts.job.id
    assert firing.level == 0.9
    assert firing.began_at == NOW - 30
    [resolved] = alerts.apply(State.RESOLVED, at=NOW + 60, value=0.5, text="uses 0.5")
    assert (resolved.id, resolved.state, resolved.resolved_at) == (pending.id, State.RESOLVED, NOW + 60)
    assert resolved.text == "uses 0.97 of its memory"
    assert alerts.store.open_alerts() == []
    fired, ended = alerts.jobs.events(alerts.job)
    assert (fired.kind, fired.at) == ("alert", NOW + 5)
    assert fired.detail == {"text": firing.text, "severity": "warning", "rule": FULL.name, "alert": firing.id}
    assert event_text(ended.kind, ended.detail) == "alert resolved: uses 0.5"


def test_an_alert_that_never_fired_is_deleted_when_it_resolves(alerts: Alerts) -> None:
    alerts.apply(State.PENDING)
    assert alerts.apply(State.RESOLVED) == []
    assert alerts.store.listing() == []
    assert alerts.jobs.events(alerts.job) == []


def test_the_worst_value_is_the_farthest_from_the_level(alerts: Alerts) -> None:
    for value in (0.95, 0.99, None, 0.92):
        alerts.apply(State.FIRING, value=value)
        alerts.apply(State.FIRING, value=value, rule=IDLE)
    worst = {alert.rule: (alert.value, alert.worst) for alert in alerts.store.open_alerts(alerts.seq)}
    assert worst == {FULL.name: (0.95, 0.99), IDLE.name: (0.95, 0.92)}


def test_numbers_that_the_store_cannot_hold_are_absent(alerts: Alerts) -> None:
    odd = {"value": float("inf"), "values": {"a": float("nan")}, "detail": {"slope": float("-inf"), "n": (1, 2)}}
    [found] = alerts.apply(State.FIRING, **odd)
    assert (found.value, found.worst) == (None, None)
    assert found.detail == {"slope": None, "n": [1, 2], "values": {"a": None}}


def test_only_the_first_firing_adds_an_event(alerts: Alerts) -> None:
    assert len(alerts.apply(State.FIRING)) == 1
    assert alerts.apply(State.FIRING, is_flapping=True) == []
    assert alerts.apply(State.PENDING) == []
    [found] = alerts.store.open_alerts()
    assert (found.state, found.is_flapping) == (State.FIRING, False)
    assert len(alerts.jobs.events(alerts.job)) == 1


def test_two_processes_share_the_one_open_alert_of_a_rule(alerts: Alerts, other_process: Database) -> None:
    transition = change(State.FIRING, None)
    both = [AlertStore(alerts.database), AlertStore(other_process)]
    assert [len(store.apply([transition], lambda _: 0)) for store in both] == [1, 0]
    assert len(alerts.store.open_alerts()) == 1
    assert len(alerts.store.open_of_machine(boot_id())) == 1
    assert len(MachineEvents(alerts.database).of_host()) == 1


def test_engines_that_write_at_once_open_one_alert(alerts: Alerts, paths: StatePaths) -> None:
    start = threading.Barrier(4)
    changed: list[int] = []

    def engine() -> None:
        with closing(open_to_write(paths)) as own:
            start.wait()
            fire = [change(State.FIRING, None)]
            changed.extend(len(AlertStore(own).apply(fire, lambda _: 0)) for _ in range(5))

    threads = [threading.Thread(target=engine) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert (len(changed), sum(changed)) == (20, 1)
    assert len(alerts.store.listing()) == 1


def test_alerts_of_the_host_and_of_devices_have_events_of_their_own(alerts: Alerts) -> None:
    gpu = Device("gpu", "GPU-1")
    [of_host] = alerts.apply(State.FIRING, owner=None)
    [of_device] = alerts.apply(State.FIRING, owner=gpu)
    assert (of_host.owner, of_host.host, of_host.job_id) == (None, HERE, None)
    assert (of_device.owner, of_device.host) == (gpu, HERE)
    assert {alert.id for alert in alerts.store.open_alerts()} == {of_host.id, of_device.id}
    assert alerts.jobs.events(alerts.job) == []


def test_an_acknowledged_alert_stays_acknowledged_until_it_resolves(alerts: Alerts) -> None:
    [alert] = alerts.apply(State.FIRING)
    touch = alerts.jobs.changed_since(0)[1]
    [seen] = alerts.store.acknowledge([alert.id, 99], "ada", "known")
    assert (seen.state, seen.acknowledged_by, seen.note) == (State.ACKNOWLEDGED, "ada", "known")
    assert alerts.jobs.changed_since(touch)[0][0].id == alerts.job.id
    assert alerts.apply(State.FIRING) == []
    assert alerts.store.open_alerts()[0].state is State.ACKNOWLEDGED
    [again] = alerts.store.acknowledge([alert.id], "bob")
    assert (again.acknowledged_by, again.note) == ("ada", "known")
    assert alerts.apply(State.RESOLVED)[0].state is State.RESOLVED
    assert alerts.apply(State.FIRING)[0].acknowledged_at is None


def test_a_pending_alert_that_was_acknowledged_fires_as_acknowledged(alerts: Alerts) -> None:
    [alert] = alerts.apply(State.PENDING)
    assert alerts.store.acknowledge([alert.id], "ada")[0].state is State.PENDING
    assert alerts.apply(State.FIRING)[0].state is State.ACKNOWLEDGED


def test_a_changed_state_is_a_change_of_the_job(alerts: Alerts) -> None:
    touch = alerts.jobs.changed_since(0)[1]
    alerts.apply(State.FIRING)
    changed, touch = alerts.jobs.changed_since(touch)
    assert [job.id for job in changed] == [alerts.job.id]
    alerts.apply(State.FIRING)
    assert alerts.jobs.changed_since(touch)[0] == []


def test_alerts_of_a_deleted_job_are_neither_kept_nor_written(alerts: Alerts) -> None:
    alerts.apply(State.FIRING)
    alerts.jobs.delete(alerts.job)
    assert alerts.store.listing() == []
    assert alerts.apply(State.FIRING) == []


def test_nothing_is_written_if_the_transaction_of_the_caller_fails(alerts: Alerts) -> None:
    def fail() -> None:
        with alerts.database.writing():
            alerts.apply(State.FIRING)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert alerts.store.listing() == []


def test_a_listing_has_open_alerts_first_and_meets_every_condition(alerts: Alerts) -> None:
    alerts.apply(State.FIRING, at=NOW - 900)
    alerts.apply(State.RESOLVED, at=NOW - 800)
    alerts.apply(State.FIRING, at=NOW - 700)
    alerts.apply(State.RESOLVED, at=NOW + 5)
    alerts.apply(State.FIRING, at=NOW - 950, rule=IDLE)
    alerts.apply(State.FIRING, owner=None, at=NOW)

    def listed(**conditions: Any) -> list[int]:
        return [alert.id for alert in alerts.store.listing(**conditions)]

    assert listed() == [4, 3, 2, 1]
    assert listed(states=(State.RESOLVED,)) == [2, 1]
    assert listed(severity=(Severity.INFO,)) == listed(rule="gpu*") == listed(rule="gpu idle") == [3]
    assert listed(rule="[g]pu*") == []
    assert listed(job_seq=alerts.seq) == [3, 2, 1]
    assert listed(since=NOW) == [4, 3, 2]
    assert listed(limit=1) == [4]


def test_counts_of_a_job_tell_active_and_unseen_alerts_apart(alerts: Alerts) -> None:
    alerts.apply(State.PENDING, rule=IDLE)
    assert alerts.store.counts_by_job([alerts.seq]) == {}
    [first] = alerts.apply(State.FIRING)
    alerts.apply(State.RESOLVED)
    alerts.store.acknowledge([first.id], "ada")
    alerts.apply(State.FIRING)
    counts = alerts.store.counts_by_job([alerts.seq, 99])[alerts.seq]
    assert (counts.fired, counts.active, counts.unseen, counts.severity) == (2, 1, 1, Severity.WARNING)


def test_alerts_that_a_killed_engine_left_open_are_resolved(alerts: Alerts) -> None:
    def ended(job: Job) -> Job:
        return made_job(id=job.id, seq=job.seq, status=Status.LOST, settled=True, end_time=NOW)

    alerts.apply(State.FIRING)
    alerts.apply(State.PENDING, rule=IDLE)
    [of_host] = alerts.apply(State.FIRING, owner=None)
    assert alerts.store.resolve_left_open(boot_id(), HERE) == 0
    alerts.jobs.change(alerts.job.id, lambda job: (ended(job), ()))
    assert alerts.store.resolve_left_open(boot_id(), HERE) == 1
    assert [alert.id for alert in alerts.store.open_alerts()] == [of_host.id]
    assert alerts.store.resolve_left_open("the next boot", HERE) == 1
    assert {alert.state for alert in alerts.store.listing()} == {State.RESOLVED}


@pytest.mark.parametrize("text", HOSTILE_TEXTS.values(), ids=HOSTILE_TEXTS)
def test_any_text_is_kept_as_it_is(alerts: Alerts, text: str) -> None:
    rule = Rule(text, RuleKind.EVENT, Scope.JOB, Severity.CRITICAL, "default")
    [alert] = alerts.apply(State.FIRING, text=text, rule=rule, detail={text: text})
    assert alerts.apply(State.FIRING, text=text, rule=rule) == []
    assert (alert.text, alert.rule, alert.detail) == (text, text, {text: text})
    assert alerts.store.acknowledge([alert.id], text, text)[0].note == text
    marks, outbox = Marks(alerts.database), Outbox(alerts.database)
    marks.set(MarkKind.MUTE_RULE, text, by=text, note=text)
    assert marks.is_muted(text, None, NOW)
    number = outbox.add(text, text, text, text, State.FIRING, Severity.INFO, NOW, NOW, [alert.id], {text: text})
    outbox.mark_failed(number, text, NOW)
    [message] = outbox.due(NOW)
    assert (message.key, message.action, message.problem, message.content) == (text, text, text, {text: text})


def test_a_damaged_alert_is_left_out_and_named(alerts: Alerts) -> None:
    alerts.apply(State.FIRING)
    alerts.apply(State.FIRING, rule=IDLE)
    with alerts.database.writing() as connection:
        connection.execute("UPDATE alerts SET state = 'gone', detail = '[' WHERE id = 1")
    assert [alert.rule for alert in alerts.store.open_alerts()] == [IDLE.name]
    assert "alert 1" in (alerts.database.damage() or "")
    assert alerts.store.find(1) is None


def add(outbox: Outbox, key: str, action: str = "slack", ready_at: float = NOW, **values: Any) -> int:
    members = values.pop("members", [1])
    return outbox.add(key, "r", action, "config.toml", State.FIRING, Severity.WARNING, NOW, ready_at, members, **values)


def test_a_message_is_added_once_for_a_key(database: Database) -> None:
    outbox = Outbox(database)
    assert add(outbox, "a") == add(outbox, "a", members=[2])
    assert [message.members for message in outbox.unsent()] == [(1,)]


def test_alerts_join_a_message_until_it_is_composed(database: Database) -> None:
    outbox = Outbox(database)
    number = add(outbox, "a", ready_at=NOW + 30)
    assert [message.id for message in outbox.waiting(NOW)] == [number]
    assert outbox.append_members(number, [2, 1, 3])
    outbox.set_content(number, {"title": "x"})
    assert not outbox.append_members(number, [4])
    found = outbox.find(number)
    assert found is not None
    assert (found.members, found.content) == ((1, 2, 3), {"title": "x"})
    assert not outbox.append_members(99, [4])


def test_a_message_waits_for_earlier_ones_of_its_action(database: Database) -> None:
    outbox = Outbox(database)
    group, first, second, mail = (
        add(outbox, "group", ready_at=NOW + 30),
        add(outbox, "first"),
        add(outbox, "second"),
        add(outbox, "mail", action="mail"),
    )

    def due(at: float) -> list[int]:
        return sorted(message.id for message in outbox.due(at))

    assert due(NOW - 1) == []
    assert due(NOW) == [first, mail]
    outbox.mark_failed(first, "connection refused", NOW + 60)
    assert due(NOW + 40) == [mail]
    outbox.mark_sent(mail, NOW + 41)
    assert outbox.next_due_at() == NOW + 60
    failed = outbox.find(first)
    assert failed is not None
    assert (failed.tries, failed.problem) == (1, "connection refused")
    assert due(NOW + 60) == [first]
    outbox.give_up(first)
    assert due(NOW + 60) == [second]
    outbox.mark_sent(second)
    assert due(NOW + 60) == [group]
    outbox.mark_sent(group)
    assert (outbox.unsent_count(), outbox.next_due_at()) == (0, None)
    assert [message.id for message in outbox.listing()] == [mail, second, first, group]
    given_up = outbox.find(first)
    assert given_up is not None
    assert given_up.given_up_at is not None
    assert given_up.problem == "connection refused"


def test_a_postponed_message_lets_others_pass(database: Database) -> None:
    outbox = Outbox(database)
    quiet, critical = add(outbox, "quiet"), add(outbox, "critical")
    outbox.postpone(quiet, NOW + 9_000)
    assert [message.id for message in outbox.due(NOW)] == [critical]


def test_a_damaged_message_does_not_hold_others_back(database: Database) -> None:
    outbox = Outbox(database)
    add(outbox, "a")
    second = add(outbox, "b")
    with database.writing() as connection:
        connection.execute("UPDATE messages SET members = ? WHERE key = 'a'", (json.dumps(["x"]),))
    assert [message.id for message in outbox.due(NOW)] == [second]


def test_a_mute_counts_until_its_moment(database: Database) -> None:
    marks, now = Marks(database), time.time()
    marks.set(MarkKind.MUTE_RULE, "nearly full", now + 60, "ada")
    marks.set(MarkKind.MUTE_JOB, "0123", None, "ada", "noisy")
    assert marks.is_muted("nearly full", "x", now)
    assert not marks.is_muted("nearly full", "x", now + 61)
    assert marks.is_muted("other", "0123", now + 1e9)
    assert not marks.is_muted("0123", None, now)
    assert [mark.name for mark in marks.all(MarkKind.MUTE_RULE, now + 61)] == []
    assert {mark.name for mark in marks.all()} == {"nearly full", "0123"}
    assert marks.clear(MarkKind.MUTE_JOB, "0123")
    assert not marks.clear(MarkKind.MUTE_JOB, "0123")


def test_a_mute_of_the_past_is_deleted_by_the_next_change(database: Database) -> None:
    marks = Marks(database)
    marks.set(MarkKind.MUTE_RULE, "old", time.time() - 1)
    marks.set(MarkKind.ARMED, "walltime")
    with database.reading() as connection:
        assert connection.execute("SELECT count(*) FROM alert_marks").fetchone()[0] == 1
    assert marks.has(MarkKind.ARMED, "walltime")
    assert marks.names(MarkKind.ARMED) == {"walltime"}
