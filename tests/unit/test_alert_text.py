"""The line of an alert, and message templates."""

from __future__ import annotations

from typing import Any

import pytest
from alerting import FIRST_JOB, NOON, feed, job, rule, sample, watching

from jobtop.core.measure.device import Device
from jobtop.core.metrics import Scope
from jobtop.core.text.alert_text import fill_template, level_text, owner_label, resolved_text
from records import HOSTILE_TEXTS

GIB = 2**30
SHARE = {"mem.used": 7.4 * GIB, "limit.memory": 8.0 * GIB}


@pytest.mark.parametrize(
    ("metric", "scope", "fields", "value", "values", "seconds", "text"),
    [
        (
            *("mem.used / limit.memory", Scope.JOB, {"above": 0.9, "for_seconds": 30.0}, 0.925, SHARE, 30.0),
            "memory 92.5 % of its limit (7.4 of 8.0 GiB) for 30s",
        ),
        (
            *("cpu.percent", Scope.JOB, {"above": 300.0, "for_seconds": 60.0}, 350.0, {"cpu.percent": 350.0}, 60.0),
            "CPU 350 % above 300 % for 1m00s",
        ),
        (
            *("rate(io.pressure)", Scope.HOST, {"above": 0.3}, 0.4, {"io.pressure": 0.4}, 0.0),
            "stalled for I/O 40.0 % of the time, above 30.0 %",
        ),
        (
            *("gpu.util", Scope.JOB, {"below": 50.0, "for_seconds": 300.0}, 3.0, {"gpu.util": 3.0}, 300.0),
            "GPU utilisation 3.0 % below 50.0 % for 5m00s",
        ),
        ("gpu.throttled", Scope.GPU, {"above": 0.0}, 1, {"gpu.throttled": 1}, 0.0, "slowed down by heat or power"),
        ("mem.used * 2", Scope.JOB, {"above": 1.0 * GIB}, 2.0 * GIB, {}, 0.0, "mem.used * 2 2.0 GiB above 1.0 GiB"),
    ],
)
def test_a_line_says_what_is_the_matter(
    metric: str, scope: Scope, fields: dict[str, Any], value: float, values: dict[str, float], seconds: float, text: str
) -> None:
    assert level_text(rule(metric, scope, **fields), value, values, seconds) == text


def test_a_resolved_alert_says_the_value_and_how_long_it_lasted() -> None:
    assert resolved_text(rule("mem.used / limit.memory"), 0.61, 250.0) == "memory back to 61.0 % after 4m10s"
    assert resolved_text(rule("gpu.throttled", Scope.GPU), 0, 5.0) == "slowed down by heat or power: over after 5s"


def test_the_host_and_devices_are_named() -> None:
    assert owner_label(Device("gpu", "0-8f6c77aa")) == "GPU 0"
    assert owner_label(Device("disk", "s\nda")) == "disk s\\nda"
    assert owner_label(None) == "host"


def message_of(template: str, **fields: Any) -> str:
    """The text of an alert of a job with these fields."""
    evaluator = watching(rule("mem.used / limit.memory", above=0.9, message=template), jobs=[job(**fields)])
    [change] = evaluator.see_jobs([(FIRST_JOB, sample(1.0, mem__used=7.4 * GIB, limit__memory=8 * GIB))], NOON)
    return change.text


def test_a_template_is_filled_with_known_fields() -> None:
    template = "{rule}: {job} ({id}) on {host}: {value} above {level}, {mem.used} of {limit.memory}"
    assert message_of(template) == "much: train (00000000) on here: 92.5 % above 90.0 %, 7.4 GiB of 8.0 GiB"


def test_the_age_of_a_job_can_be_in_a_message() -> None:
    assert message_of("after {elapsed}", start_time=NOON - 600) == "after 10m00s"


@pytest.mark.parametrize(
    "template",
    ["{job.__class__}", "{job.name}", "{0}", "{}", "{job!r}", "{value:>9999999}", "{unknown}", "{", "}", "{{job"],
)
def test_a_template_reads_nothing_else(template: str) -> None:
    assert fill_template(template, {"job": "train", "value": "1"}) in (template, template.replace("{{", "{"))


def test_braces_are_written_twice() -> None:
    assert fill_template("{{{job}}}", {"job": "train"}) == "{train}"


def test_a_value_is_not_filled_again() -> None:
    assert message_of("{job}", name="{value}") == "{value}"


@pytest.mark.parametrize("name", HOSTILE_TEXTS.values(), ids=HOSTILE_TEXTS)
def test_hostile_names_stay_one_short_printable_line(name: str) -> None:
    text = message_of("look: {job} {mem.used}", name=name)
    assert len(text) < 2000
    assert not any(ord(character) < 32 or 0x7F <= ord(character) < 0xA0 for character in text)
    text.encode()


def test_the_host_is_named_in_its_alerts() -> None:
    evaluator = watching(rule("mem.used / mem.total", Scope.HOST, above=0.9))
    values = {"mem.used": 60 * GIB, "mem.total": 64 * GIB}
    [change] = evaluator.see_host(values, values, 1.0, NOON)
    assert change.text == "host: memory 93.8 % (60.0 of 64.0 GiB)"


def test_a_job_that_ends_says_so() -> None:
    evaluator = watching(rule())
    list(feed(evaluator, [101]))
    [change] = evaluator.leave(FIRST_JOB, NOON + 61)
    assert "ended" in change.text
    assert "1m00s" in change.text
