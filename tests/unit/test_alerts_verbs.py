"""`jobtop alerts` and its verbs, on stores made by hand."""

import json
import os
import re
import time
from pathlib import Path
from typing import Any

import pytest

from jobtop.core.alerts.model import Rule, RuleKind, Severity, State, Transition
from jobtop.core.clock import from_iso
from jobtop.core.measure.collectors.proc import identify
from jobtop.core.measure.device import Device
from jobtop.core.metrics import Scope
from jobtop.core.model import Job, Status
from jobtop.core.query.completion import complete
from jobtop.core.run.request import user_name
from jobtop.store.alerts.alert_rows import AlertStore, StoredAlert
from jobtop.store.alerts.marks import MarkKind, Marks
from jobtop.store.alerts.outbox import Outbox
from jobtop.store.database import Database
from jobtop.store.incidents import read_incidents
from jobtop.store.jobs import Jobs
from jobtop.store.leases import now_since_boot
from jobtop.store.listing import vocabulary
from jobtop.store.samples.hosts import HostRecord
from records import HERE, HOSTILE_TEXTS, assert_one_line, call, made_job

NOW = time.time()


def fire(database: Database, owner: str | Device | None, job: Job | None = None, **values: Any) -> StoredAlert:
    """An alert that fired; `resolved` seconds later it was resolved."""
    name, severity = values.pop("rule", "nearly full"), values.pop("severity", Severity.WARNING)
    rule = Rule(name, RuleKind.LEVEL, Scope.JOB, severity, "default", above=0.9)
    at, resolved, text = values.pop("at", NOW - 60), values.pop("resolved", None), values.pop("text", "uses 95 %")
    steps = [(State.FIRING, at), *([(State.RESOLVED, at + resolved)] if resolved is not None else [])]
    changes = [Transition(rule, owner, state, moment, at, 0.95, text, **values) for state, moment in steps]
    return AlertStore(database).apply(changes, lambda _: (job.seq if job else 0) or 0)[-1]


@pytest.fixture
def job(database: Database) -> Job:
    return Jobs(database).insert(made_job(name="train", end_time=time.time()))


def test_active_alerts_come_before_recent_ones(database: Database, job: Job) -> None:
    past = fire(database, job.id, job, rule="old", resolved=30)
    fire(database, None, rule="ancient", at=NOW - 9e5, resolved=1)
    critical = fire(database, Device("gpu", "0"), rule="gpu hot", severity=Severity.CRITICAL, at=time.time() - 3970)
    answer = call("alerts")
    assert answer.returncode == 0
    title, first, second = answer.stdout.splitlines()
    assert title.split() == ["ID", "STATE", "SEVERITY", "RULE", "WHEN", "OF", "FOR", "WHAT"]
    assert first.split()[:6] == [str(critical.id), "firing", "▲", "critical", "gpu", "hot"]
    assert "gpu 0" in first
    assert re.search(r"\b1h[01]\dm\b", first), "4,000 seconds, and what the tests before took"
    assert second.split()[:2] == [str(past.id), "resolved"]
    assert f"{job.id[:8]} train" in second
    assert len(call("alerts", "--all").stdout.splitlines()) == 4


def test_an_open_alert_of_a_host_that_nothing_measures_says_since_when(database: Database, job: Job) -> None:
    fire(database, None, rule="host-memory")
    fire(database, Device("gpu", "0"), rule="gpu-hot")
    fire(database, None, rule="load", resolved=5)
    fire(database, job.id, job, rule="much")
    record, me = HostRecord(database), identify(os.getpid())

    def since() -> dict[str, str | None]:
        return {row["rule"]: row["not_measured_since"] for row in json.loads(call("alerts", "--json").stdout)}

    assert set(since().values()) == {None}, "it was never measured"
    assert record.lease(me)
    record.keep_detail(now_since_boot() - 120, {"load": 1})
    assert set(since().values()) == {None}, "this process measures it"
    assert "not measured" not in call("alerts").stdout
    record.release(me)
    found = since()
    assert (found["load"], found["much"], found["host-memory"]) == (None, None, found["gpu-hot"])
    assert abs((from_iso(found["host-memory"]) or 0.0) - (time.time() - 120)) < 60
    assert call("alerts").stdout.count("firing, not measured since ") == 2
    sql = "INSERT INTO leases (name, boot, pid, start, until) VALUES ('host', ?, ?, 1, ?)"
    with database.writing() as connection:  # of a process that was killed
        connection.execute(sql, (me.boot, me.pid, now_since_boot() + 60))
    assert since() == found


def test_an_alert_about_a_moment_has_happened_and_was_not_resolved(database: Database, job: Job) -> None:
    fire(database, job.id, job, rule="job-failed", text="failed", resolved=0, detail={"momentary": True})
    words = call("alerts").stdout.splitlines()[1].split()
    assert (words[1], words[-2:]) == ("happened", ["–", "failed"])
    assert "happened △ job-failed: failed\n" in call("show", "train").stdout
    assert json.loads(call("alerts", "--json").stdout)[0]["state"] == "resolved"


def test_the_list_takes_conditions(database: Database, job: Job) -> None:
    fire(database, job.id, job)
    fire(database, None, rule="swap", severity=Severity.CRITICAL)

    def rules(*options: str) -> list[str]:
        return [alert["rule"] for alert in json.loads(call("alerts", *options, "--json").stdout)]

    assert sorted(rules()) == ["nearly full", "swap"]
    assert rules("--severity", "critical") == rules("--rule", "s*") == ["swap"]
    assert rules("--job", job.id[:8]) == rules("--job", "train") == ["nearly full"]
    assert rules("--state", "resolved") == []
    assert len(rules("--limit", "1")) == 1
    assert "only 1 alert" in call("alerts", "--limit", "1").stderr
    assert "No matching" in call("alerts", "list", "--state", "resolved").stdout
    assert_one_line(call("alerts", "--state", "gone").stderr, "--state")
    assert call("alerts", "--job", "nothing").returncode == 2


def test_the_record_of_an_alert_has_its_owner_its_values_and_its_messages(database: Database, job: Job) -> None:
    alert = fire(database, job.id, job, values={"mem.used": 3.0})
    number = Outbox(database).add(
        "k", alert.rule, "slack", "x", State.FIRING, Severity.WARNING, NOW, NOW, [alert.id], {"secret": "hidden"}
    )
    Outbox(database).mark_failed(number, "connection refused", NOW + 300)
    [found] = json.loads(call("alerts", "--json").stdout)
    assert (found["job_id"], found["host"], found["device"]) == (job.id, HERE, None)
    assert (found["value"], found["level"], found["detail"]) == (0.95, 0.9, {"values": {"mem.used": 3.0}})
    [message] = found["messages"]
    assert (message["action"], message["state"], message["tries"]) == ("slack", "waiting", 1)
    assert "hidden" not in json.dumps(found)
    header = call("alerts", "--format", "csv").stdout.splitlines()[0]
    assert header.startswith("schema_version,id,rule,kind")
    assert call("alerts", "--rule", "x", "--format", "csv").stdout.splitlines()[0].split(",") == list(found)


def configure(text: str) -> None:
    config = Path.home() / ".config/jobtop/config.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(text)


def test_messages_that_wait_without_a_try_say_what_for(home: Path, database: Database) -> None:
    minutes = [time.strftime("%H:%M", time.localtime(NOW + seconds)) for seconds in (-3600, 3600)]
    action = '[[action]]\nname = "team"\ntype = "slack"\nurl = "https://example.org"\n'
    configure(f'{action}[alerts]\nactions = ["team"]\nquiet_hours = "{"-".join(minutes)}"\n')
    outbox = Outbox(database)
    for key, name, severity in (("a", "team", "warning"), ("b", "team", "info"), ("c", "team", "critical")):
        outbox.add(key, "r", name, "x", State.FIRING, Severity(severity), NOW, NOW, [1])
    outbox.add("d", "r", "t", "x", State.FIRING, Severity.CRITICAL, NOW, NOW, [1])
    quiet, gone = call("alerts").stdout.splitlines()[1:]
    assert quiet == f'2 messages for "team" wait for the end of the quiet hours ({minutes[1]})'
    assert gone == '1 message for "t" waits: this action is not configured any more; given up after 1d00h'


def test_messages_that_could_not_be_sent_and_mutes_are_named_last(home: Path, database: Database, job: Job) -> None:
    fire(database, job.id, job)
    configure(
        '[[action]]\nname = "slack"\ntype = "slack"\nurl = "https://example.org"\n[alerts]\nactions = ["slack", "log"]'
    )
    outbox = Outbox(database)
    for key, action in (("a", "slack"), ("b", "slack"), ("c", "mail"), ("d", "log")):
        outbox.add(key, "r", action, "x", State.FIRING, Severity.WARNING, NOW, NOW, [1])
    outbox.mark_failed(1, "connection refused", time.time() + 245)
    outbox.give_up(3, "no such host")
    Marks(database).set(MarkKind.MUTE_RULE, "gpu idle", time.time() + 7205, "ada")
    waiting, given_up, muted = call("alerts").stdout.splitlines()[2:]
    assert waiting.startswith('2 messages wait for "slack": connection refused; next try in 4m0')
    assert given_up == '1 message for "mail": no such host; given up'
    assert muted.startswith('muted: rule "gpu idle" until ')


def test_an_acknowledged_alert_names_the_person_and_the_note(database: Database, job: Job) -> None:
    alert = fire(database, job.id, job)
    answer = call("alerts", "ack", str(alert.id), "--note", "known since Monday")
    assert (answer.returncode, answer.stdout) == (0, f"acknowledged {alert.id} nearly full, {job.id[:8]} train\n")
    line = call("alerts").stdout.splitlines()[1]
    assert "acknowledged" in line.split()
    assert f"by {user_name()}: known since Monday" in line


def test_a_job_is_acknowledged_with_its_failure_and_its_alerts(database: Database) -> None:
    failed = Jobs(database).insert(made_job(name="broken", status=Status.FAILED, end_time=NOW))
    alert = fire(database, failed.id, failed, resolved=5)
    answer = call("alerts", "ack", failed.id[:8])
    assert f"acknowledged {alert.id} " in answer.stdout
    assert f"the failure of {failed.id[:8]} broken" in answer.stdout
    assert [incident.is_acknowledged for incident in read_incidents(database, NOW - 900)] == [True, True]


def test_everything_is_acknowledged_at_once(database: Database, job: Job) -> None:
    fire(database, job.id, job)
    fire(database, None, rule="swap", resolved=3)
    Jobs(database).insert(made_job(status=Status.TIMEOUT, end_time=NOW - 9e6))
    assert call("alerts", "ack", "--all").stdout == "acknowledged 2 alerts and 1 failed job\n"
    assert call("alerts", "ack", "--all").stdout == "acknowledged 0 alerts and 0 failed jobs\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("ack",), "no alert given"),
        (("ack", "--all", "3"), "cannot be combined"),
        (("ack", "77"), "no alert 77"),
        (("ack", "#77"), "#77"),
        (("ack", "train"), "has not failed"),
        (("ack", "nothing"), "nothing"),
        (("lst",), "did you mean"),
        (("mute", "host-memry"), "host-memory"),
        (("mute", "--for", "2h"), "no rule"),
        (("mute", "host-memory", "--for", "0"), "--for"),
        (("unmute",), "--all"),
        (("unmute", "host-memory"), "is muted"),
        (("unmute", "train"), "not muted"),
        (("arm", "host-memry"), "host-memory"),
        (("arm", "host-memory"), "only warns"),
        (("disarm", "host-memry"), "host-memory"),
    ],
)
def test_wrong_words_are_refused_in_one_line(database: Database, job: Job, words: tuple[str, ...], said: str) -> None:
    answer = call("alerts", *words)
    assert answer.returncode == 2
    assert_one_line(answer.stderr, said)


def test_a_rule_and_a_job_are_muted_for_a_time(database: Database, job: Job) -> None:
    marks = Marks(database)
    answer = call("alerts", "mute", "host-memory", "train", "--for", "2h", "--note", "maintenance")
    assert answer.returncode == 0
    assert marks.is_muted("host-memory", None, time.time())
    assert marks.is_muted("another", job.id, time.time() + 7000)
    assert not marks.is_muted("another", job.id, time.time() + 7300)
    listed = call("alerts", "mute").stdout.splitlines()
    assert len(listed) == 3
    assert f"muted: job {job.id[:8]} train until " in call("alerts").stdout
    assert "maintenance" in listed[1]
    found = json.loads(call("alerts", "mute", "--json").stdout)
    assert {(one["rule"], one["job_id"], one["by"]) for one in found} == {
        ("host-memory", None, user_name()),
        (None, job.id, user_name()),
    }
    assert call("alerts", "unmute", "train", "host-memory").stdout.count("unmuted") == 2
    assert marks.all() == []
    assert "Nothing is muted" in call("alerts", "mute").stdout


def test_a_mute_without_a_time_holds_until_it_is_taken_back(home: Path) -> None:
    assert call("alerts", "mute", "host-memory").returncode == 0
    assert json.loads(call("alerts", "mute", "--json").stdout)[0]["until"] is None
    assert 'muted: rule "host-memory" until unmuted' in call("alerts").stdout
    assert "unmuted" in call("alerts", "unmute", "--all").stdout


def test_an_armed_rule_says_what_it_does_to_which_jobs(home: Path, database: Database, job: Job) -> None:
    config = Path.home() / ".config/jobtop/config.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(
        '[[alert]]\nname = "too long"\nmetric = "mem.used"\nabove = "1MiB"\nfilter = "name:train*"\n'
        'steps = [{after = "60m"}, {after = "120m", do = "stop"}]\n'
    )
    fire(database, job.id, job, rule="too long", at=time.time() - 3600)
    remedy = "not armed: jobtop alerts arm 'too long'"
    assert [remedy in call("alerts", *words).stdout for words in ((), ("rules",))] == [True, True]
    answer = call("alerts", "arm", "too long")
    assert answer.returncode == 0, answer.stderr
    assert "stops jobs after 2h" in answer.stdout
    assert "name:train*" in answer.stdout
    assert "interactive" in answer.stdout
    assert f"{job.id[:8]} train: firing for 1h" in answer.stdout
    assert "next in 59m" in answer.stdout or "next in 1h" in answer.stdout
    assert "disarm 'too long'" in answer.stdout
    assert Marks(database).has(MarkKind.ARMED, "too long")
    assert call("alerts").stdout.splitlines()[-1] == 'armed: rule "too long": stops jobs after 2h00m'
    armed = {row["name"]: row["armed"] for row in json.loads(call("alerts", "rules", "--json").stdout)}
    assert (armed["too long"], armed["job-failed"]) == (True, False)
    assert "active, armed" in call("alerts", "rules").stdout
    assert "not armed" not in call("alerts").stdout + call("alerts", "rules").stdout
    rules = config.read_text()
    config.write_text(rules.replace(', {after = "120m", do = "stop"}', ""))
    assert "it only warns now" in call("alerts").stdout.splitlines()[-1]
    config.write_text("")
    assert "no such rule in force here (jobtop alerts disarm 'too long')" in call("alerts").stdout.splitlines()[-1]
    config.write_text(rules)
    assert "disarmed" in call("alerts", "disarm", "too long").stdout
    assert not Marks(database).has(MarkKind.ARMED, "too long")
    assert "was not armed" in call("alerts", "disarm", "too long").stdout


def test_nothing_is_acknowledged_if_one_word_is_wrong(database: Database, job: Job) -> None:
    alert = fire(database, job.id, job)
    assert call("alerts", "ack", str(alert.id), "77").returncode == 2
    assert AlertStore(database).open_alerts()[0].state is State.FIRING


@pytest.mark.parametrize("text", HOSTILE_TEXTS.values(), ids=HOSTILE_TEXTS)
def test_any_text_is_printed_on_its_line(database: Database, text: str) -> None:
    job = Jobs(database).insert(made_job(name=text))
    alert = fire(database, job.id, job, rule=text, text=text)
    call("alerts", "ack", str(alert.id), "--note", text)
    Marks(database).set(MarkKind.MUTE_RULE, text, None, text)
    Outbox(database).add(text, text, text, text, State.FIRING, Severity.INFO, NOW, NOW, [alert.id])
    Outbox(database).mark_failed(1, text, NOW)
    answer = call("alerts")
    assert answer.returncode == 0
    assert len(answer.stdout.splitlines()) == 4
    assert answer.stdout.isprintable() or not set(answer.stdout) & set("\x1b\x9b\u202e\r")
    assert json.loads(call("alerts", "--json").stdout)[0]["text"] == text


def test_the_history_finds_jobs_by_their_alerts(database: Database) -> None:
    jobs = {
        name: Jobs(database).insert(made_job(name=name, end_time=time.time()))
        for name in ("calm", "full", "hot", "begun")
    }
    fire(database, jobs["full"].id, jobs["full"], resolved=3)
    fire(database, jobs["hot"].id, jobs["hot"], rule="gpu [hot]", severity=Severity.CRITICAL)
    rule = Rule("later", RuleKind.LEVEL, Scope.JOB, Severity.INFO, "default")
    begun = Transition(rule, jobs["begun"].id, State.PENDING, NOW, NOW, 1.0, "not yet")
    AlertStore(database).apply([begun], lambda _: jobs["begun"].seq or 0)

    def names(*words: str) -> list[str]:
        answer = call("history", *words, "--json")
        assert answer.stderr == ""
        return sorted(job["name"] for job in json.loads(answer.stdout))

    assert names("alert:any") == names("alert:critical,warning") == ["full", "hot"]
    assert names("alert:critical") == names("alert:firing") == names("alert:gpu*") == ["hot"]
    assert names("alert=gpu [hot]") == names("alert:*[hot]") == ["hot"]
    assert names("alert:resolved", "name:f*") == names("alert:nearly*") == ["full"]
    assert names("alert:pending") == ["begun"]
    assert names("!alert:any") == ["begun", "calm"]
    assert 'No rule is named "job-faild" (did you mean "job-failed"?).' in call("history", "alert:job-faild").stdout
    assert "did you mean" not in call("history", "alert:job-failed").stdout
    assert names("alert=later") == names("alert:nothing") == []
    assert json.loads(call("stats", "alert:any", "--json").stdout)["total_jobs"] == 2
    assert_one_line(call("queue", "alert:any").stderr, "history")


def test_rules_with_alerts_complete_a_filter(database: Database, job: Job) -> None:
    fire(database, job.id, job, rule="gpu idle")
    found = complete("alert:", 6, vocabulary(database))
    assert found[:3] == ["alert:info", "alert:warning", "alert:critical"]
    assert found[-1] == 'alert:"gpu idle"'


def test_a_job_shows_its_alerts_and_the_history_counts_them(database: Database, job: Job) -> None:
    first = fire(database, job.id, job, resolved=3)
    fire(database, job.id, job, rule="gpu hot", text="GPU 0 is at 91 °C", severity=Severity.CRITICAL)
    Jobs(database).insert(made_job(name="calm"))
    call("alerts", "ack", str(first.id), "--note", "known")
    page = call("show", "train").stdout
    (line,) = [line for line in page.splitlines() if line.startswith("  alerts ")]
    assert "▲ gpu hot: GPU 0 is at 91 °C" in line
    assert "△ nearly full: uses 95 %" in page
    assert "GPU 0 is at 91 °C [gpu hot]" in page.partition("timeline")[2]
    assert "known" in page
    shown = json.loads(call("show", "train", "--json").stdout)["alerts"]
    assert [(alert["rule"], alert["state"]) for alert in shown] == [("gpu hot", "firing"), ("nearly full", "resolved")]
    assert json.loads(call("show", "calm", "--json").stdout)["alerts"] == []
    assert "  alerts " not in call("show", "calm").stdout
    table = call("history", "--columns", "name,alerts").stdout
    assert [line.split() for line in table.splitlines()] == [["NAME", "ALERTS"], ["calm", "–"], ["train", "▲2"]]
    csv = call("history", "--columns", "name,alerts", "--format", "csv").stdout
    assert csv.splitlines() == ["name,alerts", "calm,0", "train,2"]


def test_alerts_of_another_store_are_read(database: Database, job: Job) -> None:
    fire(database, job.id, job)
    path = str(database.path)
    assert "nearly full" in call("alerts", "list", "--store", path, "--json").stdout
    assert "nearly full" in call("alerts", "--store", path, "--json").stdout
    assert "nearly full" in call("--store", path, "alerts", "--json").stdout
