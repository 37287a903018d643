"""Incidents of a store: failed jobs by their end, alerts of jobs, hosts and devices by the time they were raised."""

from typing import Any

from jobtop.core.alerts.model import Rule, RuleKind, Severity, State, Transition
from jobtop.core.measure.device import Device
from jobtop.core.metrics import Scope
from jobtop.core.model import Job, Queued, Status
from jobtop.store.alerts.alert_rows import AlertStore, StoredAlert
from jobtop.store.alerts.marks import Marks
from jobtop.store.database import Database
from jobtop.store.events import MachineEvents
from jobtop.store.incidents import MOST, read_incidents, unacknowledged_failures
from jobtop.store.jobs import Event, Jobs
from records import HERE, made_job, numbered_id, running_job

SINCE = 1_700_000_000.0


def insert(database: Database, *jobs: Job) -> None:
    with database.writing():
        for job in jobs:
            Jobs(database).insert(job)


def test_failures_since_a_moment_come_newest_first_with_their_reasons(database: Database) -> None:
    insert(
        database,
        made_job(name="long", status=Status.FAILED, start_time=SINCE - 9e5, end_time=SINCE + 5, reason="exit code 1"),
        made_job(name="before", status=Status.FAILED, end_time=SINCE - 1),
        made_job(name="fine", end_time=SINCE + 5),
        made_job(name="told", status=Status.CANCELLED, end_time=SINCE + 5),
        made_job(
            name="never", status=Status.ERROR, start_time=None, end_time=None, submitted_at=SINCE + 9, reason=None
        ),
        running_job(name="live"),
    )
    found = read_incidents(database, SINCE)
    assert [(incident.name, incident.words) for incident in found] == [
        ("never", "exit code 0"),
        ("long", "exit code 1"),
    ]
    assert [incident.severity for incident in found] == [None, None]


def test_a_job_whose_reader_went_away_needs_no_attention(database: Database) -> None:
    insert(
        database,
        made_job(status=Status.FAILED, end_time=SINCE + 1, signal=13, exit_code=None, reason="killed by SIGPIPE"),
        made_job(status=Status.FAILED, end_time=SINCE + 1, exit_code=141, reason="exit code 141"),
    )
    assert read_incidents(database, SINCE) == []


def test_a_failed_attempt_is_listed_until_a_later_one_succeeds(database: Database) -> None:
    third = made_job(name="third", status=Status.FAILED, exit_code=1, end_time=SINCE + 3, queue=Queued(attempt=3))
    second = made_job(
        name="second", status=Status.FAILED, exit_code=1, end_time=SINCE + 2, queue=Queued(retried_by=third.id)
    )
    first = made_job(
        name="first", status=Status.FAILED, exit_code=1, end_time=SINCE + 1, queue=Queued(retried_by=second.id)
    )
    ring = numbered_id(7)
    damaged = made_job(id=ring, name="ring", status=Status.FAILED, end_time=SINCE, queue=Queued(retried_by=ring))
    insert(database, first, second, third, damaged)
    assert [incident.name for incident in read_incidents(database, SINCE)] == ["third", "second", "first", "ring"]
    with database.writing() as connection:
        connection.execute("UPDATE jobs SET status = 'success' WHERE id = ?", (third.id,))
        connection.execute("UPDATE jobs SET queue = 'torn' WHERE id = ?", (ring,))
    assert [incident.name for incident in read_incidents(database, SINCE)] == ["ring"]


def test_alerts_of_jobs_have_their_text_and_severity(database: Database) -> None:
    job = Jobs(database).insert(running_job(name="live"))
    assert job.seq is not None
    details = [{"severity": "critical", "text": "too hot"}, {"name": "rule 2"}, {}]
    Jobs(database).add_events((job.seq, Event(SINCE + at, "alert", detail)) for at, detail in enumerate(details))
    Jobs(database).add_events([(job.seq, Event(SINCE + 9, "started", {})), (job.seq, Event(SINCE - 1, "alert", {}))])
    found = read_incidents(database, SINCE)
    assert [(incident.words, incident.severity, incident.job_id) for incident in found] == [
        ("an alert without words", "warning", job.id),
        ("rule 2", "warning", job.id),
        ("too hot", "critical", job.id),
    ]
    assert len({incident.key for incident in found}) == 3


def test_alerts_of_the_machine_and_of_its_devices_name_their_owner(database: Database) -> None:
    job = Jobs(database).insert(running_job(name="live"))
    Jobs(database).add_events([(job.seq or 0, Event(SINCE + 1, "alert", {"text": "too slow"}))])
    MachineEvents(database).add(
        [
            (None, Event(SINCE + 2, "alert", {"text": "memory is short", "severity": "critical"})),
            (Device("gpu", "0"), Event(SINCE + 3, "alert", {"text": "too hot"})),
            (None, Event(SINCE + 4, "suspended", {})),
            (None, Event(SINCE - 1, "alert", {"text": "long ago"})),
        ]
    )
    found = read_incidents(database, SINCE)
    assert [(incident.name, incident.words, incident.severity, incident.job_id) for incident in found] == [
        (f"{HERE}: gpu 0", "too hot", "warning", None),
        (HERE, "memory is short", "critical", None),
        ("live", "too slow", "warning", job.id),
    ]
    assert [incident.key.startswith("/") for incident in found] == [True, True, False]


def test_a_gpu_that_does_not_answer_is_an_incident(database: Database) -> None:
    gpu = Device("gpu", "1-8f6c77aa")
    MachineEvents(database).add(
        [
            (gpu, Event(SINCE + 1, "gpu_throttled", {"reasons": ["thermal"]})),
            (gpu, Event(SINCE + 2, "gpu_lost", {"reason": "GPU is lost"})),
            (gpu, Event(SINCE + 3, "gpu_found", {})),
        ]
    )
    [incident] = read_incidents(database, SINCE)
    assert (incident.name, incident.severity, incident.job_id) == (f"{HERE}: gpu 1-8f6c77aa", "critical", None)
    assert "GPU is lost" in incident.words


def rule(name: str, kind: RuleKind = RuleKind.LEVEL) -> Rule:
    return Rule(name, kind, Scope.JOB, Severity.WARNING, "default")


def apply(
    database: Database, state: State, owner: str | Device | None, seq: int | None, what: Rule, **values: Any
) -> StoredAlert:
    at = values.pop("at", SINCE + 5)
    transition = Transition(what, owner, state, at, values.pop("began_at", at), 1.0, f"about {what.name}", **values)
    [found] = AlertStore(database).apply([transition], lambda _: seq or 0)
    return found


def test_alerts_of_the_table_come_once_with_their_state(database: Database) -> None:
    job = Jobs(database).insert(running_job(name="live"))
    gpu = Device("gpu", "0")
    first = apply(database, State.FIRING, job.id, job.seq, rule("full"))
    seen = apply(database, State.FIRING, gpu, None, rule("hot"), at=SINCE + 6)
    AlertStore(database).acknowledge([seen.id], "ada")
    apply(database, State.RESOLVED, gpu, None, rule("hot"), at=SINCE + 7)
    apply(database, State.PENDING, job.id, job.seq, rule("not yet"))
    apply(database, State.FIRING, None, None, rule("swap"), at=SINCE - 900)
    found = read_incidents(database, SINCE)
    assert [(one.name, one.state, one.rule, one.is_acknowledged) for one in found] == [
        (f"{HERE}: gpu 0", State.RESOLVED, "hot", True),
        ("live", State.FIRING, "full", False),
        (HERE, State.FIRING, "swap", False),
    ]
    assert (found[1].job_id, found[1].alert_id, found[1].severity) == (job.id, first.id, "warning")
    assert found[1].words == "about full"
    assert len({one.key for one in found}) == 3
    apply(database, State.RESOLVED, None, None, rule("swap"), at=SINCE - 800)
    assert [one.rule for one in read_incidents(database, SINCE)] == ["hot", "full"]


def test_a_failure_and_the_alert_about_it_are_one_incident(database: Database) -> None:
    job = Jobs(database).insert(made_job(name="broken", status=Status.FAILED, end_time=SINCE + 5))
    alert = apply(
        database, State.FIRING, job.id, job.seq, rule("job-failed", RuleKind.EVENT), detail={"event": "failed"}
    )
    slow = apply(database, State.FIRING, job.id, job.seq, rule("slowed", RuleKind.EVENT), detail={"event": "throttled"})
    found = read_incidents(database, SINCE)
    assert {(one.severity, one.alert_id, one.is_acknowledged) for one in found} == {
        (None, None, False),
        ("warning", slow.id, False),
    }
    assert unacknowledged_failures(database) == [job.id]
    AlertStore(database).acknowledge([alert.id], "ada")
    assert unacknowledged_failures(database) == []


def test_an_acknowledged_failure_says_so_and_is_a_change_of_its_job(database: Database) -> None:
    jobs = Jobs(database)
    job = jobs.insert(made_job(status=Status.FAILED, end_time=SINCE + 5))
    touch = jobs.changed_since(0)[1]
    alert = apply(database, State.FIRING, job.id, job.seq, rule("job-failed", RuleKind.EVENT))
    Marks(database).acknowledge_failures([job.id], "ada")
    found = AlertStore(database).find(alert.id)
    assert found is not None
    assert (found.state, found.acknowledged_by) == (State.ACKNOWLEDGED, "ada")
    assert [one.is_acknowledged for one in read_incidents(database, SINCE)] == [True]
    assert [one.id for one in jobs.changed_since(touch)[0]] == [job.id]


def test_a_lost_gpu_with_an_alert_is_one_incident(database: Database) -> None:
    gpu = Device("gpu", "0")
    MachineEvents(database).add([(gpu, Event(SINCE + 5, "gpu_lost", {}))])
    apply(database, State.FIRING, gpu, None, rule("gpu-lost", RuleKind.EVENT), detail={"event": "gpu_lost"})
    assert [one.rule for one in read_incidents(database, SINCE)] == ["gpu-lost"]


def test_only_the_newest_of_very_many_incidents_are_read(database: Database) -> None:
    failed = [made_job(name=f"n{at}", status=Status.FAILED, end_time=SINCE + at) for at in range(MOST + 3)]
    insert(database, *failed)
    found = read_incidents(database, SINCE)
    assert (len(found), found[0].name, found[-1].name) == (MOST, f"n{MOST + 2}", "n3")


def test_incidents_are_found_with_indexes(database: Database) -> None:
    steps: list[str] = []
    with database.reading() as connection:
        connection.set_trace_callback(steps.append)
    read_incidents(database, SINCE)
    with database.reading() as connection:
        connection.set_trace_callback(None)
        plans = [
            row["detail"]
            for step in steps
            if step.startswith("SELECT")
            for row in connection.execute(f"EXPLAIN QUERY PLAN {step}").fetchall()
        ]
    searches = [plan.split(" (")[0] for plan in plans if " USING " in plan and "rowid" not in plan]
    assert [search for search in searches if "PRIMARY" not in search and "autoindex" not in search] == [
        "SEARCH jobs USING INDEX jobs_that_failed",
        "SEARCH alerts USING INDEX alerts_by_job",
        "SCAN alerts USING INDEX alerts_open",
        "SEARCH alerts USING INDEX alerts_by_time",
        "SEARCH events USING INDEX events_of_alerts",
        "SEARCH events USING INDEX events_of_alerts",
        "SEARCH events USING INDEX events_of_device",
        "SEARCH alerts USING INDEX alerts_of_devices",
    ]
    few = ("later", "CONSTANT", "alerts_open")  # the last has only alerts that are not resolved
    assert not [plan for plan in plans if plan.startswith("SCAN") and not any(word in plan for word in few)]
