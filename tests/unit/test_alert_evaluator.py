"""What the evaluator judges: rules and the jobs they are for, the host, devices, events, ends, detectors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from alerting import FIRST_JOB, NOON, feed, ids, job, rule, sample, told, watching

from jobtop.core.alerts.detector import Finding, Indifferent, Reading
from jobtop.core.alerts.evaluator import Evaluator
from jobtop.core.alerts.expressions.expression import parse
from jobtop.core.alerts.job_events import end_text, end_words
from jobtop.core.alerts.model import BUILT_IN, Rule, RuleKind, Severity, State, Transition
from jobtop.core.alerts.state_machine import Verdict
from jobtop.core.measure.device import Device
from jobtop.core.metrics import Scope
from jobtop.core.model import Job, Sample, Status
from jobtop.core.query.filter import parse as parse_filter
from jobtop.core.record import replace

FIRING, PENDING, RESOLVED = State.FIRING, State.PENDING, State.RESOLVED
Owner = str | Device | None
GPU = Device("gpu", "0-8f6c77aa")


def names(changes: Iterable[Transition]) -> list[tuple[str, Owner, State]]:
    return [(change.rule.name, change.owner, change.state) for change in changes]


def filtered(text: str, **fields: Any) -> Rule:
    return rule(filter=parse_filter(text, NOON), filter_text=text, **fields)


def opened(of: Rule, state: State = FIRING, owner: Owner = FIRST_JOB) -> Transition:
    """An alert that an earlier engine has opened."""
    return Transition(of, owner, state, NOON - 50, NOON - 60, 120.0, "much")


def test_two_rules_of_one_job_have_states_of_their_own() -> None:
    evaluator = watching(rule(), rule(name="more", above=200.0))
    changes = names(feed(evaluator, [150, 250, 150, 150, 50, 50]))
    assert changes == [
        ("much", FIRST_JOB, FIRING),
        ("more", FIRST_JOB, FIRING),
        ("more", FIRST_JOB, RESOLVED),
        ("much", FIRST_JOB, RESOLVED),
    ]


def break_rule(evaluator: Evaluator, name: str) -> None:
    """Let every call of a rule raise."""

    def fail(*_: object) -> Any:
        raise ZeroDivisionError("division by \x1b zero")

    watch: Any = evaluator._watches[name, None]
    watch.tripped = watch.is_for = watch.take = watch.take_once = watch.see_values = fail


def test_a_rule_that_raises_costs_its_own_alerts_only() -> None:
    of_host = [rule(name=name, scope=Scope.HOST) for name in ("host", "bad host")]
    evaluator = watching(rule(name="bad"), rule(), *of_host)
    assert [name for name, _, _ in names(feed(evaluator, [101]))] == ["bad", "much"]
    break_rule(evaluator, "bad")
    break_rule(evaluator, "bad host")
    assert names(feed(evaluator, [50, 50], start=1.0)) == [("bad", FIRST_JOB, RESOLVED), ("much", FIRST_JOB, RESOLVED)]
    assert names(evaluator.see_host({"mem.used": 1}, {"mem.used": 101}, 1.0, NOON + 3)) == [("host", None, FIRING)]
    failures = [(failed.name, reason) for failed, reason in evaluator.isolation.take_failures()]
    assert [name for name, _ in failures] == ["bad", "bad host"]
    assert all("ZeroDivisionError" in reason and reason.isprintable() for _, reason in failures)
    assert evaluator.isolation.take_failures() == []
    assert names(feed(evaluator, [101], start=5.0)) == [("much", FIRST_JOB, FIRING)]
    evaluator.set_rules([rule(name="bad", above=90.0), rule(), *of_host])  # a change of the rule tries it again
    assert names(feed(evaluator, [102], start=6.0)) == [("bad", FIRST_JOB, FIRING)]


def test_a_rule_on_the_end_of_jobs_that_raises_leaves_the_others() -> None:
    rules = [
        Rule(name, RuleKind.EVENT, Scope.JOB, Severity.WARNING, BUILT_IN, events=("failed",))
        for name in ("bad", "good")
    ]
    evaluator = watching(*rules)
    break_rule(evaluator, "bad")
    ended = replace(job(), status=Status.FAILED, exit_code=3)
    assert [name for name, _, _ in names(evaluator.see_end(ended, (), NOON))] == ["good", "good"]
    assert [failed.name for failed, _ in evaluator.isolation.take_failures()] == ["bad"]


def test_jobs_have_states_of_their_own() -> None:
    first, second = ids(2)
    evaluator = watching(rule(), jobs=[job(first), job(second)])
    changes = evaluator.see_jobs([(first, sample(1.0, mem__used=50)), (second, sample(1.0, mem__used=101))], NOON)
    assert names(changes) == [("much", second, FIRING)]


def test_a_filter_chooses_jobs() -> None:
    first, second = ids(2)
    evaluator = watching(filtered("name:train*"), jobs=[job(first, name="train-1"), job(second, name="other")])
    batch = [(key, sample(1.0, mem__used=101)) for key in (first, second)]
    assert names(evaluator.see_jobs(batch, NOON)) == [("much", first, FIRING)]


def test_a_filter_on_the_age_of_a_job_is_applied_again() -> None:
    evaluator = watching(filtered("time>1h"), jobs=[job(start_time=NOON - 3000)])
    assert told(feed(evaluator, [101])) == []
    assert evaluator.slow(NOON + 900) == []
    assert names(feed(evaluator, [101], start=901.0)) == [("much", FIRST_JOB, FIRING)]


@pytest.mark.parametrize(("cwd", "is_meant"), [("/data/a", True), ("/data/a/b", True), ("/data/ab", False)])
def test_a_rule_of_a_project_is_for_jobs_in_its_directory(cwd: str, is_meant: bool) -> None:
    evaluator = watching(rule(directory="/data/a"), jobs=[job(cwd=cwd)])
    assert bool(list(feed(evaluator, [101]))) is is_meant


def test_a_rule_for_containers_leaves_other_jobs_out() -> None:
    first, second = ids(2)
    evaluator = watching(rule(scope=Scope.CONTAINER), jobs=[job(first, kind="container"), job(second)])
    batch = [(key, sample(1.0, mem__used=101)) for key in (first, second)]
    assert names(evaluator.see_jobs(batch, NOON)) == [("much", first, FIRING)]


IDLE = sample(1.0, mem__used=101, cpu__user=5.0, cpu__system=1.0).values


def feed_idle(evaluator: Evaluator, seconds: range) -> list[tuple[State, float]]:
    """Feed the samples of an idle job: all have the same values, in one object."""
    return told(
        change
        for second in seconds
        for change in evaluator.see_jobs([(FIRST_JOB, Sample(float(second), IDLE))], NOON + second)
    )


def test_idle_jobs_fire_and_resolve_like_others() -> None:
    assert feed_idle(watching(rule(for_seconds=5.0)), range(1, 20)) == [(FIRING, 6.0)]
    assert feed_idle(watching(rule("cpu.percent", below=1.0, for_seconds=5.0)), range(1, 20)) == [(FIRING, 7.0)]
    assert feed_idle(watching(rule("elapsed", above=15.0)), range(1, 20)) == [(FIRING, 16.0)]
    evaluator = watching(rule("cpu.percent", above=50.0))
    busy = [(FIRST_JOB, sample(float(at), cpu__user=float(at), cpu__system=0.0)) for at in (1, 2)]
    assert told(change for one in busy for change in evaluator.see_jobs([one], NOON)) == [(FIRING, 0.0)]
    assert feed_idle(evaluator, range(3, 10)) == [(RESOLVED, 5.0)]


def test_a_new_rule_judges_a_job_that_has_been_idle() -> None:
    evaluator = watching(rule(name="other", above=1000.0))
    assert feed_idle(evaluator, range(1, 20)) == []
    evaluator.set_rules([rule(name="other", above=1000.0), rule()])
    assert feed_idle(evaluator, range(20, 30)) == [(FIRING, 20.0)]


def test_a_changed_rule_judges_a_job_that_has_been_idle() -> None:
    evaluator = watching(rule(above=1000.0))
    assert feed_idle(evaluator, range(1, 20)) == []
    evaluator.set_rules([rule(above=100.0)])
    assert feed_idle(evaluator, range(20, 30)) == [(FIRING, 20.0)]


def test_a_rate_is_judged_again_after_a_gap_of_an_idle_job() -> None:
    evaluator = watching(rule("cpu.percent", below=1.0, for_seconds=50.0))
    assert feed_idle(evaluator, range(1, 20)) == []
    assert feed_idle(evaluator, range(500, 560)) == [(PENDING, 526.0), (FIRING, 551.0)]


def test_a_disabled_rule_is_silent() -> None:
    assert list(feed(watching(rule(is_enabled=False)), [101])) == []


def test_samples_of_unknown_jobs_are_ignored() -> None:
    assert list(feed(Evaluator([rule()]), [101])) == []


def test_the_end_of_a_job_ends_its_alerts() -> None:
    evaluator = watching(rule(), rule(name="later", for_seconds=60.0))
    assert told(feed(evaluator, [101])) == [(FIRING, 1.0)]
    assert names(evaluator.leave(FIRST_JOB, NOON + 2)) == [("much", FIRST_JOB, RESOLVED)]
    assert evaluator.leave(FIRST_JOB, NOON + 3) == []
    assert list(feed(evaluator, [101], start=4.0)) == []


def test_an_open_alert_of_an_earlier_engine_does_not_fire_again() -> None:
    evaluator = Evaluator([rule()])
    evaluator.join(job(), [opened(rule())])
    changes = list(feed(evaluator, [101, 101, 50, 50]))
    assert told(changes) == [(RESOLVED, 4.0)]
    assert changes[0].began_at == NOON - 60


def test_an_acknowledged_alert_of_an_earlier_engine_continues() -> None:
    evaluator = Evaluator([rule()])
    evaluator.join(job(), [opened(rule(), State.ACKNOWLEDGED)])
    assert told(feed(evaluator, [101, 50, 50])) == [(RESOLVED, 3.0)]


def test_a_pending_alert_of_an_earlier_engine_fires_or_is_taken_back() -> None:
    lasting = rule(for_seconds=20.0)
    evaluator = Evaluator([lasting])
    evaluator.join(job(), [opened(lasting, PENDING)])
    assert told(feed(evaluator, [101] * 25)) == [(FIRING, 21.0)]
    evaluator = Evaluator([lasting])
    evaluator.join(job(), [opened(lasting, PENDING)])
    changes = list(feed(evaluator, [50]))
    assert told(changes) == [(RESOLVED, 1.0)]
    assert changes[0].detail["never_fired"] is True


def test_an_open_alert_of_a_rule_that_is_gone_ends() -> None:
    evaluator = Evaluator([rule(name="other")])
    evaluator.join(job(), [opened(rule())])
    assert names(feed(evaluator, [101])) == [("much", FIRST_JOB, RESOLVED), ("other", FIRST_JOB, FIRING)]


def test_an_open_alert_of_a_rule_that_is_not_for_the_job_any_more_ends() -> None:
    evaluator = Evaluator([filtered("name:other")])
    evaluator.join(job(), [opened(rule())])
    assert names(feed(evaluator, [101])) == [("much", FIRST_JOB, RESOLVED)]


def test_other_rules_keep_the_states_of_unchanged_ones() -> None:
    evaluator = watching(rule(for_seconds=10.0), rule(name="dropped"))
    assert names(feed(evaluator, [101] * 6)) == [("dropped", FIRST_JOB, FIRING)]
    changes = evaluator.set_rules([rule(for_seconds=10.0), rule(name="new", above=1000.0)])
    assert names(changes) == [("dropped", FIRST_JOB, RESOLVED)]
    assert told(feed(evaluator, [101] * 6, start=7.0)) == [(FIRING, 11.0)]
    assert evaluator.set_rules([rule(for_seconds=10.0)]) == []
    assert told(feed(evaluator, [101] * 6, start=13.0)) == []


def test_a_rule_read_again_with_its_filter_is_the_same() -> None:
    evaluator = watching(filtered("name:train", for_seconds=10.0))
    assert told(feed(evaluator, [101] * 6)) == []
    later = replace(filtered("name:train", for_seconds=10.0), filter=parse_filter("name:train", NOON + 99))
    assert evaluator.set_rules([later]) == []
    assert told(feed(evaluator, [101] * 6, start=7.0)) == [(FIRING, 11.0)]


def test_a_changed_level_judges_an_open_alert_anew() -> None:
    evaluator = watching(rule())
    assert told(feed(evaluator, [150])) == [(FIRING, 1.0)]
    assert evaluator.set_rules([rule(above=400.0)]) == []
    assert told(feed(evaluator, [150, 150], start=2.0)) == [(RESOLVED, 3.0)]


def test_a_rule_for_other_jobs_ends_the_alerts_of_those_it_leaves() -> None:
    evaluator = watching(rule())
    assert told(feed(evaluator, [150])) == [(FIRING, 1.0)]
    assert names(evaluator.set_rules([filtered("name:other")])) == [("much", FIRST_JOB, RESOLVED)]


def test_host_rules_see_the_host() -> None:
    evaluator = Evaluator([rule("mem.used / mem.total", Scope.HOST, above=0.9, for_seconds=3.0)])
    changes = []
    for second in range(1, 10):
        used = 95 if second < 6 else 50
        values = {"mem.used": used, "mem.total": 100}
        changes += evaluator.see_host(values, values, 1.0, NOON + second)
    assert [(change.owner, change.state, change.at - NOON) for change in changes] == [
        (None, FIRING, 4.0),
        (None, RESOLVED, 9.0),
    ]


def test_rates_of_the_host_come_from_both_samples() -> None:
    evaluator = Evaluator([rule("rate(io.pressure)", Scope.HOST, above=0.3)])
    assert evaluator.see_host({"io.pressure": 1.0}, {"io.pressure": 1.2}, 1.0, NOON) == []
    changes = evaluator.see_host({"io.pressure": 1.2}, {"io.pressure": 1.6}, 1.0, NOON + 1)
    assert [round(change.value or 0, 6) for change in changes] == [0.4]


def test_device_rules_see_devices_of_their_kind() -> None:
    evaluator = Evaluator([rule("gpu.temp", Scope.GPU, above=80.0, for_seconds=2.0)])
    other = Device("gpu", "1-11111111")
    changes = []
    for second in range(1, 5):
        changes += evaluator.see_device(GPU, 1000.0 + second, {"gpu.temp": 85.0}, NOON + second)
        changes += evaluator.see_device(other, 1000.0 + second, {"gpu.temp": 60.0}, NOON + second)
        changes += evaluator.see_device(Device("disk", "sda"), 1000.0 + second, {"gpu.temp": 99.0}, NOON + second)
    assert [(change.owner, change.at - NOON) for change in changes] == [(GPU, 3.0)]
    assert changes[0].text.startswith("GPU 0: ")


def test_a_device_that_vanishes_ends_its_alerts_by_a_clock_that_cannot_be_set() -> None:
    evaluator = Evaluator([rule("gpu.temp", Scope.GPU, above=80.0)])
    assert len(evaluator.see_device(GPU, 5.0, {"gpu.temp": 85.0}, NOON)) == 1
    assert evaluator.slow(NOON + 86400) == []  # the clock was set
    changes = [(step, change) for step in range(60) for change in evaluator.slow(NOON + 86410 + 10 * step)]
    assert [(step, change.state) for step, change in changes] == [(26, RESOLVED)]
    assert "no values" in changes[0][1].text


def test_another_engine_can_take_over_the_host() -> None:
    hot = rule("gpu.temp", Scope.GPU, above=80.0)
    evaluator, second = Evaluator([hot]), Evaluator([hot])
    fired = evaluator.see_device(GPU, 5.0, {"gpu.temp": 85.0}, NOON)
    evaluator.leave_host()
    second.resume(fired)
    assert second.see_device(GPU, 6.0, {"gpu.temp": 85.0}, NOON + 1) == []
    changes = [
        change
        for second_number in (7, 8)
        for change in second.see_device(GPU, float(second_number), {"gpu.temp": 60.0}, NOON + second_number)
    ]
    assert names(changes) == [("much", GPU, RESOLVED)]


def test_values_that_are_no_series_are_judged() -> None:
    evaluator = watching(rule("cwd.disk_used / cwd.disk_total", above=0.95))
    full, empty = ({"cwd.disk_used": used, "cwd.disk_total": 100} for used in (97, 10))
    assert list(feed(evaluator, [5, 5])) == []
    assert names(evaluator.see_extra(FIRST_JOB, full, NOON + 60)) == [("much", FIRST_JOB, FIRING)]
    assert evaluator.see_extra(FIRST_JOB, empty, NOON + 120) == []
    assert names(evaluator.see_extra(FIRST_JOB, empty, NOON + 180)) == [("much", FIRST_JOB, RESOLVED)]


def event_rule(*words: str, name: str = "event", scope: Scope = Scope.JOB) -> Rule:
    return Rule(name, RuleKind.EVENT, scope, Severity.CRITICAL, BUILT_IN, events=words)


def test_an_event_fires_once_and_its_opposite_ends_it() -> None:
    evaluator = watching(event_rule("throttled", scope=Scope.GPU), event_rule("gpu_lost", name="job"))
    assert names(evaluator.see_event(GPU, "gpu_throttled", {"reasons": ["heat"]}, NOON)) == [("event", GPU, FIRING)]
    assert evaluator.see_event(GPU, "gpu_throttled", {"reasons": ["heat", "power"]}, NOON + 1) == []
    assert evaluator.slow(NOON + 9000) == []
    assert names(evaluator.see_event(GPU, "gpu_unthrottled", {}, NOON + 9001)) == [("event", GPU, RESOLVED)]
    lost = evaluator.see_event(FIRST_JOB, "gpu_lost", {"gpu": GPU.name, "reason": "fell off"}, NOON + 9002)
    assert names(lost) == [("job", FIRST_JOB, FIRING)]
    assert "does not answer" in lost[0].text


def test_an_event_without_an_end_is_over_when_it_does_not_come_again() -> None:
    evaluator = watching(event_rule("oom_killed"))
    assert len(evaluator.see_event(FIRST_JOB, "oom_killed", {}, NOON)) == 1
    ended = [step for step in range(100) for change in evaluator.slow(NOON + 10 * step) if change.state is RESOLVED]
    assert ended == [61]


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"status": Status.FAILED, "exit_code": 3}, "failed"),
        ({"status": Status.FAILED, "signal": 9, "flags": ("oom_killed",)}, "oom_killed"),
        ({"status": Status.TIMEOUT}, "timeout"),
        ({"status": Status.LOST}, "lost"),
        ({"status": Status.ERROR}, "error"),
        (
            {
                "status": Status.FAILED,
                "findings": {"evidence": [{"kind": "disk_full", "text": "No space left", "source": "output"}]},
            },
            "disk_full",
        ),
    ],
)
def test_the_end_of_a_job_fires_the_rule_on_the_most_exact_word(fields: dict[str, Any], word: str) -> None:
    built_in = {
        "job-failed": ("failed", "error"),
        "job-timeout": ("timeout",),
        "job-lost": ("lost",),
        "job-oom-killed": ("oom_killed",),
        "disk-full": ("disk_full",),  # the name of a rule that comes with jobtop
    }
    evaluator = watching(*(event_rule(*words, name=name) for name, words in built_in.items()))
    changes = evaluator.see_end(replace(job(), **fields), (), NOON + 5)
    name = next(name for name, words in built_in.items() if word in words)
    assert names(changes) == [(name, FIRST_JOB, FIRING), (name, FIRST_JOB, RESOLVED)]
    assert all(change.detail["momentary"] for change in changes)
    assert evaluator.leave(FIRST_JOB, NOON + 6) == []


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"status": Status.FAILED, "exit_code": 124, "reason": "exit code 124"}, "failed with exit code 124 after 20s"),
        ({"status": Status.FAILED, "signal": 9, "reason": "killed by SIGKILL"}, "failed after 20s: killed by SIGKILL"),
        ({"status": Status.TIMEOUT, "reason": "stopped after its timeout of 20s"}, "timed out after 20s"),
        (
            {"status": Status.TIMEOUT, "reason": "stopped after its timeout of 20s; had to be killed: x (1)"},
            "timed out after 20s: had to be killed: x (1)",
        ),
    ],
)
def test_how_a_job_ended_is_said_once(fields: dict[str, Any], text: str) -> None:
    [word, *_] = end_words(ended := replace(job(), duration_seconds=20.0, **fields))
    assert end_text(ended, word) == text


def test_rules_of_users_fire_on_every_word_they_name() -> None:
    evaluator = watching(event_rule("oom_killed", name="job-oom-killed"), event_rule("failed", name="mine"))
    killed = replace(job(), status=Status.FAILED, flags=("oom_killed",))
    fired = [name for name, _, state in names(evaluator.see_end(killed, (), NOON)) if state is FIRING]
    assert fired == ["job-oom-killed", "mine"]


def test_a_job_that_ended_well_but_left_something_behind() -> None:
    evaluator = watching(event_rule("success", name="done"), event_rule("left_running", name="left"))
    left = replace(job(), status=Status.SUCCESS, flags=("left_running",), duration_seconds=90.0)
    changes = evaluator.see_end(left, (), NOON)
    assert [change.text for change in changes if change.state is FIRING] == [
        "succeeded after 1m30s",
        "ended, and left descendants running, after 1m30s",
    ]


def test_a_job_that_ended_well_fires_nothing() -> None:
    evaluator = watching(event_rule("failed", "timeout", "lost", "error", "oom_killed"))
    for status in (Status.SUCCESS, Status.CANCELLED):
        assert evaluator.see_end(replace(job(), status=status), (), NOON) == []


class LargeMemory(Indifferent):
    """A detector that finds a job bad above 100 bytes of memory, and remembers its calls."""

    def __init__(self) -> None:
        self.calls: list[object] = []

    def join(self, job: Job) -> None:
        self.calls.append(("join", job.id))

    def leave(self, owner: Owner) -> None:
        self.calls.append(("leave", owner))

    def feed(self, owner: Owner, moment: float, value: float) -> None:
        self.calls.append(("feed", owner))

    def set_past(self, job_id: str, past: Sequence[Job]) -> None:
        self.calls.append(("past", job_id))

    def look(self, readings: Sequence[Reading], now: float) -> Iterable[Finding]:
        self.calls.append([(reading.owner, reading.moment, reading.value, reading.limit) for reading in readings])
        for reading in readings:
            is_bad = (reading.get("mem.used") or 0) > 100
            yield Finding(reading.owner, Verdict.BAD if is_bad else Verdict.GOOD, reading.value, "large")

    def look_back(self, job: Job, past: Sequence[Job]) -> Finding | None:
        return Finding(job.id, Verdict.BAD, text="larger than usual") if past else None


def test_a_detector_judges_readings_and_the_evaluator_keeps_the_states(monkeypatch: pytest.MonkeyPatch) -> None:
    detector = LargeMemory()
    monkeypatch.setattr("jobtop.core.alerts.rule_watch.open_detector", lambda _: detector)
    leak = Rule(
        "leak",
        RuleKind.LEAK,
        Scope.JOB,
        Severity.WARNING,
        BUILT_IN,
        parse("mem.used", Scope.JOB),
        limit=parse("limit.memory", Scope.JOB),
        for_seconds=15.0,
    )
    evaluator = watching(leak)
    changes = []
    for step in range(1, 9):
        used = 150 if step < 5 else 50
        evaluator.see_jobs([(FIRST_JOB, sample(10.0 * step, mem__used=used, limit__memory=200))], NOON + 10 * step)
        changes += evaluator.slow(NOON + 10 * step)
    assert told(changes)[:2] == [(PENDING, 20.0), (FIRING, 30.0)]
    assert [change.state for change in changes] == [PENDING, FIRING, RESOLVED]
    assert detector.calls[:2] == [("join", FIRST_JOB), [(FIRST_JOB, 10.0, 150, 200)]]
    ended = evaluator.see_end(job(), [job()], NOON + 99)
    assert [(change.state, change.text) for change in ended][:1] == [(FIRING, "larger than usual")]
    evaluator.leave(FIRST_JOB, NOON + 100)
    assert detector.calls[-1] == ("leave", FIRST_JOB)
