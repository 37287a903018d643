"""The levels of alert rules on the charts of a job."""

from pathlib import Path

import pytest
from raised import RULES, raise_alert

from jobtop.core.alerts.model import Rule, Severity
from jobtop.core.alerts.rules import Place, parse_rule
from jobtop.core.record import replace
from jobtop.tui.palette import Tone
from jobtop.tui.screens.job.thresholds import thresholds
from records import kept_jobs, running_job

GIB = 2**30


def rule(**fields: object) -> Rule:
    return parse_rule({"name": "mine", **fields}, Place("test"))


def test_a_share_of_the_memory_limit_is_drawn_in_bytes_of_that_limit() -> None:
    [line] = thresholds(["mem.used"], RULES, (), 4 * GIB)
    assert line.value == pytest.approx(3.6 * GIB)
    assert line.label == "job-memory-limit 90 %"
    assert line.tone is Tone.VERMILION
    assert thresholds(["mem.used"], RULES, (), None) == ()
    assert thresholds(["io.read_bytes"], RULES, (), 4 * GIB) == ()


@pytest.mark.parametrize(
    ("metric", "key", "level", "value"),
    [
        ("cpu.percent", "cpu.percent", 90, 90.0),
        ("mem.used", "mem.used", "2GiB", 2.0 * GIB),
        ("gpu.util", "gpu.util", "50%", 50.0),
        ("rate( io.write_bytes )", "io.write_bytes", "1MiB/s", 2.0**20),
    ],
)
def test_a_plain_metric_is_drawn_on_its_chart(metric: str, key: str, level: object, value: float) -> None:
    [line] = thresholds([key], {"mine": rule(metric=metric, above=level)}, (), None)
    assert line.value == value


@pytest.mark.parametrize("fields", [{"filter": "name:train*"}, {"enabled": False}, {"scope": "host"}])
def test_a_rule_that_may_not_be_about_the_job_has_no_line(fields: dict[str, object]) -> None:
    assert thresholds(["cpu.percent"], {"mine": rule(metric="cpu.percent", above=90, **fields)}, (), None) == ()


def test_the_line_of_an_alert_is_at_the_level_of_that_time(home: Path) -> None:
    [job] = kept_jobs(home, running_job())
    old = replace(RULES["job-memory-limit"], above=0.5, filter_text="name:x")
    alert = raise_alert(home, job, old)
    [line] = thresholds(["mem.used"], {old.name: replace(old, above=0.9, is_enabled=False)}, (alert,), 4 * GIB)
    assert line.value == 2 * GIB
    assert line.label == "job-memory-limit 50 %"


def test_a_chart_has_two_lines_at_most_the_most_severe_ones() -> None:
    levels = [(Severity.INFO, 10), (Severity.CRITICAL, 90), (Severity.WARNING, 50)]
    made = [rule(name=str(level), metric="cpu.percent", above=level, severity=str(word)) for word, level in levels]
    lines = thresholds(["cpu.percent"], {found.name: found for found in made}, (), None)
    assert [line.value for line in lines] == [90.0, 50.0]
