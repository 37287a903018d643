"""A message says what is the matter, what follows and when, what to type and where to look."""

import shlex
from typing import Any

import pytest

from jobtop.core.alerts.expressions.expression import parse
from jobtop.core.alerts.message_text import body_text, from_json, to_json
from jobtop.core.alerts.messages import compose
from jobtop.core.alerts.model import BUILT_IN, Message, Rule, RuleKind, Severity, State, Step
from jobtop.core.clock import local
from jobtop.core.measure.device import Device
from jobtop.core.metrics import Scope
from jobtop.core.model import Job, Limits, Status, Usage
from jobtop.core.record import replace
from jobtop.store.alerts.alert_rows import StoredAlert
from records import HOSTILE_TEXTS, made_job, numbered_id

AT = 1_800_000_000.0
GIB = 2**30
SECRET = "hunter2hunter2"
FULL = Rule(
    "nearly full",
    RuleKind.LEVEL,
    Scope.JOB,
    Severity.WARNING,
    BUILT_IN,
    expression=parse("mem.used / limit.memory", Scope.JOB),
    above=0.9,
)
JOB = made_job(
    id=numbered_id(0x3F8A21B2 << 96),
    command=("python", "train.py", "--password", SECRET),
    status=Status.RUNNING,
    limits=Limits(memory_bytes=8 * GIB, enforced=True),
)


def alert(job: Job | None = JOB, **values: Any) -> StoredAlert:
    fields: dict[str, Any] = {
        "id": 1,
        "job_seq": 1,
        "job_id": job and job.id,
        "job_name": job and job.name,
        "host": "atlas",
        "device": None,
        "rule": "nearly full",
        "kind": RuleKind.LEVEL,
        "severity": Severity.WARNING,
        "state": State.FIRING,
        "began_at": AT - 40,
        "fired_at": AT - 10,
        "resolved_at": None,
        "acknowledged_at": None,
        "acknowledged_by": None,
        "note": None,
        "value": 0.92,
        "worst": 0.94,
        "level": 0.9,
        "text": "memory 92.0 % of its limit",
        "detail": {},
        "is_flapping": False,
        "step": 0,
    }
    return StoredAlert(**fields | values)


def message(
    alerts: list[StoredAlert],
    rule: Rule | None = FULL,
    jobs: tuple[Job, ...] = (JOB,),
    state: State = State.FIRING,
    is_armed: bool = False,
    created_at: float | None = None,
) -> Message:
    severity = Severity.WARNING
    by_id: dict[str, Job] = {job.id: job for job in jobs}
    return compose("key", "nearly full", rule, severity, state, alerts, by_id, "atlas", AT, is_armed, created_at)


def test_a_message_about_one_job_has_a_table_a_command_and_a_place_to_look() -> None:
    told = message([alert()])
    table = dict(told.table)
    assert told.title == "train (3f8a21b2): nearly full"
    assert (table["value"], table["worst"], table["level"]) == ("92.0 %", "94.0 %", "90.0 %")
    assert (table["host"], table["since"]) == ("atlas", local(AT - 40))
    assert told.command == "jobtop stop 3f8a21b2 && jobtop rerun 3f8a21b2 --memory 12G"
    assert told.look == "jobtop show 3f8a21b2"
    assert (told.value, told.level, told.job_ids) == (0.92, 0.9, (JOB.id,))
    assert SECRET not in str(to_json(told))
    assert from_json(to_json(told)) == told
    assert all(words in body_text(told) for words in (told.text, told.command, told.look, "92.0 %"))


def test_a_message_after_the_end_says_who_stopped_the_job() -> None:
    stopped = replace(JOB, status=Status.CANCELLED, reason="stopped by alert nearly full")
    ended = alert(state=State.RESOLVED, began_at=AT - 90, resolved_at=AT - 30)
    for state in (State.FIRING, State.RESOLVED):
        told = message([ended], jobs=(stopped,), state=state)
        assert told.text.endswith("the job has ended: cancelled: stopped by alert nearly full")
        assert dict(told.table)["job ended"] == "cancelled: stopped by alert nearly full"


def test_a_hundred_jobs_are_one_message_with_ten_rows() -> None:
    jobs = tuple(
        made_job(id=numbered_id(number << 96), name=f"job {number}", status=Status.RUNNING) for number in range(1, 101)
    )
    told = message([alert(job) for job in jobs], jobs=jobs)
    assert told.title.startswith("100 jobs: ")
    assert len(told.table) == 11
    assert told.table[-1] == ("…", "and 90 more")
    assert len(told.job_ids) == 100
    assert told.command is None  # a hundred ids are nothing to paste
    assert shlex.split(told.look or "")[-1] == "nearly full"
    few = message([alert(job) for job in jobs[:2]], jobs=jobs)
    assert few.command == "jobtop stop 00000001 00000002"


def test_a_reminder_and_an_end_say_so() -> None:
    assert message([alert(fired_at=AT - 4 * 3600)]).title.endswith(", still firing after 4h00m")
    ended = alert(state=State.RESOLVED, began_at=AT - 90, resolved_at=AT - 30)
    over = message([ended], state=State.RESOLVED)
    assert over.title.endswith(", resolved")
    assert over.text == "over after 1m00s: memory 92.0 % of its limit"
    assert over.command is None
    assert over.consequence is None


def test_a_late_message_says_only_what_is_still_true() -> None:
    fired = AT - 551
    late = message([alert(fired_at=fired, began_at=fired)], created_at=fired)
    assert late.title == "train (3f8a21b2): nearly full"
    ended = alert(fired_at=fired, state=State.RESOLVED, resolved_at=AT - 60)
    over = message([ended], created_at=fired)
    assert over.title == f"train (3f8a21b2): nearly full, over since {local(AT - 60)}"
    assert over.text == f"fired at {local(fired)}, over since {local(AT - 60)}: memory 92.0 % of its limit"
    assert over.command == "jobtop show 3f8a21b2"
    both = message([ended, alert(fired_at=AT - 400)], created_at=AT)
    assert both.title.endswith(", still firing after 6m40s")
    assert "1 of them resolved" in both.text


def test_what_happened_at_one_moment_is_never_resolved() -> None:
    rule = replace(FULL, kind=RuleKind.EVENT, expression=None, above=None, events=("failed",), remedy="look at it")
    job = replace(JOB, status=Status.FAILED)
    values = {"state": State.RESOLVED, "began_at": AT - 551, "fired_at": AT - 551, "resolved_at": AT - 551}
    failed = alert(job, value=None, text="exit code 3", detail={"event": "failed", "momentary": True}, **values)
    for alerts in ([failed], [failed] * 3):
        told = message(alerts, rule, (job,), created_at=AT - 551)
        assert told.title.endswith(": nearly full")
        assert not any(word in str(to_json(told)) for word in ("resolved", "over", "still", "since"))
        assert local(AT - 551) in body_text(told)
    assert message([failed], rule, (job,)).consequence == "Look at it."


def test_only_rules_of_jobtop_about_the_limit_propose_to_start_again_with_more_memory() -> None:
    theirs = replace(FULL, origin="/home/ada/jobtop.toml", expression=parse("mem.used", Scope.JOB))
    used = alert(detail={"values": {"mem.used": 2.0**28}})
    assert message([used], theirs).command == "jobtop show 3f8a21b2"
    assert message([used] * 2, theirs).command == "jobtop show 3f8a21b2"
    other = replace(JOB, id=numbered_id(5 << 96))
    assert message([used, alert(other)], theirs, (JOB, other)).command is None
    ended = replace(JOB, status=Status.SUCCESS)
    assert message([used], theirs, (ended,)).command == "jobtop logs 3f8a21b2 --tail 50"
    assert "--memory" in (message([used]).command or "")


def test_an_alert_has_one_name_from_its_start_to_its_end() -> None:
    ended = alert(id=7, state=State.RESOLVED, resolved_at=AT)
    names = {message([alert(id=7)]).alert, message([ended], state=State.RESOLVED).alert}
    assert names == {"atlas-nearly full-7"}
    assert to_json(message([alert(id=7), alert(id=9)]))["alerts"] == [7, 9]


def test_a_forecast_has_its_deadline() -> None:
    rule = replace(FULL, kind=RuleKind.FORECAST, expression=parse("mem.used", Scope.JOB), above=None)
    told = message([alert(detail={"eta_seconds": 370.0, "limit": 8.0 * GIB})], rule)
    assert "its limit of 8.0 GiB in 6m00s" in (told.consequence or "")
    assert local(AT + 360)[:-3] in (told.consequence or "")
    assert "killed" in (told.consequence or "")


def test_a_step_says_when_the_job_is_stopped_and_whether_it_is() -> None:
    steps = (Step(3600.0), Step(7200.0, "stop"))
    rule = replace(FULL, steps=steps, remedy="use a smaller batch")
    armed = message([alert(began_at=AT - 3600)], rule, is_armed=True).consequence or ""
    assert f"It will be stopped at {local(AT + 3600)}, in 1h00m" in armed
    assert "Use a smaller batch." in armed
    dry = message([alert(began_at=AT - 3600)], rule).consequence or ""
    assert "would be stopped" in dry
    assert "jobtop alerts arm 'nearly full'" in dry


@pytest.mark.parametrize(
    ("event", "changes", "command"),
    [
        ("oom_killed", {"usage": Usage(memory_peak_bytes=2 * GIB)}, "jobtop rerun 3f8a21b2 --memory 12G"),
        ("timeout", {"limits": Limits(timeout_seconds=3600.0)}, "jobtop rerun 3f8a21b2 --timeout 2h00m"),
        ("failed", {}, "jobtop logs 3f8a21b2 --tail 50"),
    ],
)
def test_the_command_after_an_end_fits_the_cause(event: str, changes: dict[str, Any], command: str) -> None:
    rule = replace(FULL, kind=RuleKind.EVENT, expression=None, above=None, events=(event,))
    job = replace(JOB, status=Status.FAILED, **changes)
    assert message([alert(job, detail={"event": event})], rule, (job,)).command == command


def test_the_host_and_a_device_are_named() -> None:
    host = message([alert(None)], replace(FULL, scope=Scope.HOST))
    assert host.title.startswith("atlas: ")
    assert "--sort memory" in (host.command or "")
    device = message([alert(None, device=Device("gpu", "GPU 'x'"))])
    assert device.title.startswith("gpu GPU 'x' of atlas: ")
    assert shlex.split(device.look or "")[4] == "gpu:GPU 'x'"


def test_the_value_of_a_stall_or_an_absence_is_a_time() -> None:
    for kind in (RuleKind.STALL, RuleKind.ABSENCE):
        table = dict(message([alert(value=900.0, worst=None, level=None)], replace(FULL, kind=kind)).table)
        assert table["value"] == "15m00s"


def test_a_rule_that_is_gone_and_a_deleted_job_still_make_a_message() -> None:
    told = message([alert()], None, ())
    assert told.title == "train (3f8a21b2): nearly full"
    assert told.look == "jobtop show 3f8a21b2"


@pytest.mark.parametrize("name", HOSTILE_TEXTS)
def test_hostile_names_stay_one_short_line(name: str) -> None:
    text = HOSTILE_TEXTS[name]
    job = replace(JOB, name=text, command=(text,), user=text)
    told = message([alert(job, text=text, host=text)], replace(FULL, name=text), (job,))
    lines = [told.title, told.text, told.host, *(cell for row in told.table for cell in row)]
    assert all(line.isprintable() or "\u00a0" in line or "\u200d" in line for line in lines)
    assert max(map(len, lines)) <= 500
    assert from_json(to_json(told)) == told


@pytest.mark.parametrize(
    "damage", [{"key": 1}, {"state": "odd"}, {"table": [["a"]]}, {"values": {"a": "b"}}, {"at": "x"}]
)
def test_a_damaged_message_is_refused(damage: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r".+"):
        from_json(to_json(message([alert()])) | damage)
