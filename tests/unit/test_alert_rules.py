"""Rules of alerts: what a table may say, what is refused, and how rules merge."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import pytest
from machines import Machine

from jobtop.core.alerts.action_tables import TYPES
from jobtop.core.alerts.defaults import DEFAULTS
from jobtop.core.alerts.expressions.expression import supplying_keys
from jobtop.core.alerts.model import BUILT_IN, Rule, RuleKind, Severity, Step
from jobtop.core.alerts.rule_fields import ALERT_FIELDS, EVENTS, JOB_ACTIONS
from jobtop.core.alerts.rule_files import CHECK_SECONDS, RuleFiles
from jobtop.core.alerts.rule_set import default_rules
from jobtop.core.alerts.rules import Place, inactive_reason, parse_rule
from jobtop.core.alerts.sending_times import sending_times
from jobtop.core.errors import BadValue, ConfigError
from jobtop.core.metrics import Scope, columns
from jobtop.core.record import replace
from support import ROOT

HERE = Place("config.toml: alert.x", "config.toml")
MEMORY = {"name": "x", "metric": "mem.used / limit.memory", "above": "90%"}


def rule(**fields: object) -> Rule:
    return parse_rule({"name": "x", **fields}, HERE)


def test_all_fields_of_a_rule_are_read() -> None:
    found = rule(
        metric="mem.used / limit.memory",
        above="90%",
        clear=0.85,
        cooldown="10m",
        severity="critical",
        filter="name:train*",
        message="{job} uses {value}, {limit.memory} at most; {{ is a brace",
        actions=["bell", "slack"],
        steps=[{"after": "60m"}, {"after": "105m", "do": "signal:USR1"}, {"after": "2h", "do": "stop"}],
        remedy="use less",
        enabled=False,
        **{"for": "30s"},
    )
    assert (found.kind, found.scope, found.severity, found.origin) == ("level", "job", "critical", "config.toml")
    assert (found.above, found.below, found.clear, found.for_seconds, found.cooldown_seconds) == (
        0.9,
        None,
        0.85,
        30,
        600,
    )
    assert (found.filter_text, found.actions, found.remedy) == ("name:train*", ("bell", "slack"), "use less")
    assert found.filter is not None
    assert found.steps == (Step(3600), Step(6300, "signal:USR1"), Step(7200, "stop"))
    assert not found.is_enabled


@pytest.mark.parametrize(
    ("metric", "scope", "level", "expected"),
    [
        ("mem.used / limit.memory", "job", "90%", 0.9),
        ("mem.used / limit.memory", "job", 0.9, 0.9),
        ("mem.used", "job", "4GiB", 4 * 2**30),
        ("mem.used", "job", "512 M", 512 * 2**20),
        ("rate(io.write_bytes)", "job", "100MiB/s", 100 * 2**20),
        ("rate(io.write_bytes)", "job", "100MiB", 100 * 2**20),
        ("rate(mem.used)", "job", "-1KiB/s", -1024),
        ("elapsed", "job", "5m", 300),
        ("cpu.percent", "job", "90%", 90),
        ("gpu.temp", "gpu", "80", 80),
        ("rate(io.pressure)", "host", "30%", 0.3),
        ("load.1", "host", 64, 64),
    ],
)
def test_a_level_may_be_text_with_a_unit(metric: str, scope: str, level: object, expected: float) -> None:
    assert rule(metric=metric, scope=scope, above=level).above == pytest.approx(expected)


def test_each_kind_has_its_defaults() -> None:
    forecast = rule(kind="forecast", metric="mem.used", limit="limit.memory")
    assert (forecast.within_seconds, forecast.window_seconds) == (600, 900)
    assert rule(kind="forecast", metric="mem.used", limit="8GiB", scope="host").limit is not None
    assert rule(kind="forecast", metric="cwd.disk_used", limit="cwd.disk_total").limit is not None
    assert rule(kind="leak", metric="mem.used").window_seconds == 3600
    assert rule(kind="stall").for_seconds == 900
    assert rule(kind="deviation").factor == 1.3
    deviation = rule(kind="deviation", metric="memory_peak_bytes", factor="150%")
    assert deviation.factor == 1.5
    assert deviation.expression is not None
    assert (deviation.expression.text, deviation.expression.measure) == ("memory_peak_bytes", "bytes")
    assert rule(kind="absence", metric="gpu.temp", scope="gpu").window_seconds == 60
    assert rule(kind="event", event="failed").events == ("failed",)
    assert rule(kind="event", event=["failed", "oom_killed"]).events == ("failed", "oom_killed")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"abov": 1}, 'abov: unknown field (did you mean "above"?)'),
        ({"kind": "levle"}, 'kind: "levle"…(did you mean "level"?)'),
        ({"kind": "stall", "above": 1}, "above: is not for rules of the kind stall"),
        ({"metric": "mem.used", "above": 1, "within": "1m"}, "within: is not for rules of the kind level$"),
        ({"metric": "mem.used", "above": 1, "window": "1m"}, "window: is not for rules of the kind level$"),
        ({"metric": "mem.usd", "above": 1}, 'metric: unknown metric "mem.usd" (did you mean "mem.used"?)'),
        ({"metric": "mem.used"}, "needs above or below"),
        ({"metric": "mem.used", "above": 1, "below": 0}, "two rules"),
        ({"metric": "mem.used", "above": 1, "clear": 2}, "clear: 2…bad side"),
        ({"metric": "mem.used", "below": 1, "clear": 0}, "clear: 0…bad side"),
        ({"metric": "mem.used", "above": "90%"}, 'above: "90%" is a share, but the metric is in bytes'),
        ({"metric": "mem.used", "above": "5m"}, 'above: "5m" is in seconds, but the metric is in bytes'),
        ({"name": "a\nb", "metric": "mem.used", "above": 1}, "name: …has a line break"),
        ({"metric": "mem.used", "above": "many"}, 'above: "many" is not a number'),
        ({"metric": "mem.used", "above": True}, "above: true is not a number"),
        ({"metric": "mem.used", "above": float("nan")}, "above: …not a number"),
        ({"metric": "mem.used", "above": 1, "message": "{jobb}"}, 'message: …"{jobb}" (did you mean "job"?)'),
        ({"metric": "mem.used", "above": 1, "message": "{job.__class__}"}, "message: unknown field"),
        ({"metric": "mem.used", "above": 1, "message": "x" * 500}, "message: …400 characters"),
        ({"metric": "mem.used", "above": 1, "filter": "stat:failed"}, "filter: "),
        ({"metric": "mem.used", "above": 1, "filter": "alert:critical"}, "filter: …alert"),
        ({"metric": "mem.used", "above": 1, "scope": "host", "filter": "x"}, "filter: …host"),
        ({"metric": "mem.used", "above": 1, "scope": "host", "steps": [{"after": 1}]}, "steps: …host"),
        ({"metric": "mem.used", "above": 1, "steps": [{"do": "stop"}]}, "steps: …no after"),
        ({"metric": "mem.used", "above": 1, "steps": [{"after": 1, "do": "stopp"}]}, 'did you mean "stop"?'),
        ({"metric": "mem.used", "above": 1, "steps": [{"after": 1, "do": "signal:USR9"}]}, "steps: …signal"),
        ({"metric": "mem.used", "above": 1, "steps": [{"after": 2}, {"after": 1}]}, "steps: …before"),
        ({"metric": "mem.used", "above": 1, "steps": "stop"}, "steps: …list"),
        ({"metric": "mem.used / limit.memory", "above": 90}, 'above: …9000 %…"90%" or 0.9'),
        ({"metric": "cpu.percent", "above": 0.9}, 'above: …90…"0.9%"'),
        ({"kind": "forecast", "metric": "mem.used", "limit": "limit.cpus"}, "limit: …cores…bytes"),
        ({"kind": "forecast", "metric": "mem.used", "limit": "cwd.disk_total"}, "limit: …samples"),
        ({"kind": "event"}, "event: is missing"),
        ({"name": "job-memory-limt", "above": 0.5}, 'did you mean "job-memory-limit"'),
        ({"kind": "event", "event": []}, "event: …no event"),
        ({"kind": "event", "event": ["faild"]}, 'event: "faild"…"failed"'),
        ({"kind": "forecast", "metric": "mem.used"}, "limit: is missing"),
        ({"kind": "forecast", "metric": "mem.used", "limit": "limit.memry"}, 'limit: …"limit.memory"'),
        ({"kind": "forecast", "metric": "mem.used", "limit": 1, "within": 0}, "within: 0 is not above 0"),
        ({"kind": "deviation", "metric": "mem.used"}, "metric: …record"),
        ({"kind": "deviation", "factor": 0.9}, "factor: 0.9…above 1"),
        ({"kind": "stall", "scope": "gpu"}, "scope: …of a job"),
        ({"kind": "stall", "for": "soon"}, 'for: "soon"…duration'),
    ],
)
def test_a_wrong_rule_is_refused_with_its_field(fields: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        rule(**fields)
    text = f"{caught.value}$"
    assert text.startswith("config.toml: alert.x")
    position = 0
    for part in words.split("…"):
        assert part in text[position:], text
        position = text.index(part, position)


def test_a_rule_of_jobtop_can_be_changed_field_by_field(machine: Machine) -> None:
    machine.write(
        machine.user_file,
        "[[alert]]\nname = 'gpu-hot'\nabove = 85\n"
        "[[alert]]\nname = 'host-memory'\nseverity = 'critical'\n"
        "[[alert]]\nname = 'io-wait'\nenabled = false\n"
        "[alerts]\noff = ['store-full', 'gpu-htt']\nactions = ['bell']",
    )
    found = machine.rules()
    before = {rule.name: rule for rule in default_rules()}
    hot = found.find("gpu-hot")
    assert (hot.above, hot.clear, hot.origin) == (85, None, str(machine.user_file))
    assert replace(hot, above=80.0, clear=77.0, origin=BUILT_IN, actions=()) == before["gpu-hot"]
    assert found.find("host-memory").severity is Severity.CRITICAL
    assert found.find("host-memory").above == 0.9
    assert [rule.name for rule in found.rules if not rule.is_enabled] == ["io-wait", "store-full"]
    assert {rule.name for rule in found.rules} - {rule.name for rule in found.in_force} == {"io-wait", "store-full"}
    assert [("gpu-htt" in problem.text, '"gpu-hot"' in problem.text) for problem in found.problems] == [(True, True)]
    assert {rule.actions for rule in found.rules if rule.severity is Severity.INFO} == {()}
    assert {rule.actions for rule in found.rules if rule.severity is not Severity.INFO} == {("bell",)}


def test_alerts_can_be_switched_off_as_a_whole(machine: Machine) -> None:
    machine.write(machine.user_file, "[alerts]\nenabled = false")
    assert machine.rules().in_force == ()
    assert len(machine.rules().rules) == len(DEFAULTS)


def test_a_rule_with_an_unknown_action_is_left_out_and_the_others_stay(machine: Machine) -> None:
    machine.write(
        machine.user_file,
        "[[alert]]\nname = 'a'\nmetric = 'mem.used'\nabove = 1\nactions = ['bel']\n"
        "[[alert]]\nname = 'b'\nmetric = 'mem.used'\nabove = 1\nactions = ['bell']\n"
        "[[alert]]\nname = 'host-memory'\nabove = '50%'\nactions = ['lgo']\n",
    )
    found = machine.rules()
    assert "a" not in {rule.name for rule in found.rules}
    assert found.find("b").actions == ("bell",)
    assert found.find("host-memory").origin == BUILT_IN  # as without the wrong table
    first, second = (problem.text for problem in found.problems)
    assert first == f'{machine.user_file}: alert.a.actions: "bel" is not an action (did you mean "bell"?)'
    assert "host-memory.actions" in second
    assert '"log"' in second


def test_a_wrong_table_leaves_the_rule_as_it_was_and_a_wrong_action_leaves_the_others(machine: Machine) -> None:
    machine.write(
        machine.user_file,
        "[[alert]]\nname = 'gpu-hot'\nabove = 'very'\n"
        "[[alert]]\nname = 'a'\nmetric = 'mem.used'\nabove = 1\nactions = ['mine', 'bell', 'stop', 'webhook:https://x/t0ken']\n"
        "[[action]]\nname = 'slack'\nurl = 'env:X'\n"
        "[[action]]\nname = 'mine'\ntype = 'mial'\n"
        "[[action]]\nname = 'post'\ntype = 'webhook'\nurll = 'x'\n",
    )
    found = machine.rules()
    assert found.find("gpu-hot").origin == BUILT_IN
    assert found.find("a").actions == ("bell", "stop", "webhook:https://x/t0ken")
    texts = [problem.text for problem in found.problems]
    assert len(texts) == 4
    assert all(any(word in text for text in texts) for word in ('"mine"', '"mail"', '"url"', "gpu-hot.above"))
    assert {name: action.type for name, action in found.actions.items()} == {
        "slack": "slack",
        "bell": "bell",
        "webhook:https://x/t0ken": "webhook",
    }
    with pytest.raises(BadValue, match="gpu-hot"):
        found.find("gpu-hott")


def test_a_rule_of_the_host_acts_on_no_job(machine: Machine) -> None:
    machine.write(machine.user_file, "[[alert]]\nname = 'host-memory'\nactions = ['stop', 'bell']")
    found = machine.rules()
    assert found.find("host-memory").actions == ("bell",)
    assert ["stop" in problem.text for problem in found.problems] == [True]


def test_the_usual_actions_are_checked_once_and_act_on_no_job(machine: Machine) -> None:
    machine.write(machine.user_file, "[alerts]\nactions = ['stop', 'bel', 'bell']")
    found = machine.rules()
    assert (found.find("host-memory").actions, found.find("job-failed").actions) == (("bell",), ("bell",))
    assert [word in problem.text for word, problem in zip(("stop", "bell"), found.problems, strict=True)] == [
        True,
        True,
    ]


def test_no_address_of_an_action_is_in_a_problem_or_a_row(machine: Machine) -> None:
    machine.write(
        machine.user_file,
        "[alerts]\nactions = ['webhok:https://t0ken', 'webhook:https://t0ken']\n"
        "[[action]]\nname = 'a'\ntype = 'webhook'\nurl = 'https://t0ken'\nport = 'https://t0ken'\n",
    )
    shown = [problem.text for problem in machine.rules().problems]
    shown += ["/".join(row) for row in machine.load().rows()]
    assert len(machine.rules().problems) >= 2
    assert not [text for text in shown if "t0ken" in text]


def test_rules_of_a_project_are_for_jobs_in_its_directory(machine: Machine) -> None:
    machine.write(
        machine.project_file,
        "[[alert]]\nname = 'a'\nmetric = 'mem.used'\nabove = 1\n[[alert]]\nname = 'gpu-hot'\nabove = 9",
    )
    machine.trust()
    found = machine.rules()
    assert (found.find("a").directory, found.find("gpu-hot").directory) == (str(machine.project), None)
    assert found.find("gpu-hot").above == 9


def test_every_default_has_a_remedy_and_is_valid() -> None:
    rules = default_rules()
    assert len({rule.name for rule in rules}) == len(rules) == len(DEFAULTS)
    assert all(rule.remedy and rule.origin == BUILT_IN and not rule.actions for rule in rules)
    assert {rule.kind for rule in rules} >= {RuleKind.LEVEL, RuleKind.FORECAST, RuleKind.STALL, RuleKind.EVENT}


def test_a_rule_on_what_the_machine_does_not_supply_is_inactive_and_says_why() -> None:
    by_name = {rule.name: rule for rule in default_rules()}
    host = set(columns(Scope.HOST)) - {"io.pressure"}
    supplied = {Scope.HOST: host, Scope.GPU: set[str](), Scope.JOB: set(columns(Scope.JOB)) - {"gpu.util", "cpu.user"}}
    assert "io.pressure" in str(inactive_reason(by_name["io-pressure"], supplied))
    assert "GPU" in str(inactive_reason(by_name["gpu-hot"], supplied))
    assert "gpu.util" in str(inactive_reason(by_name["gpu-idle"], supplied))
    assert inactive_reason(by_name["host-memory"], supplied) is None
    assert inactive_reason(by_name["job-failed"], supplied) is None
    assert inactive_reason(by_name["gpu-hot"], None) is None
    derived = rule(metric="cpu.percent", above=1)
    assert derived.expression is not None
    assert supplying_keys(derived.expression) == ("cpu.user", "cpu.system")
    assert "cpu.user" in str(inactive_reason(derived, supplied))


class Clock:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def rewrite(path: Path, text: str) -> None:
    """Write a file so that its time differs, however fast the test is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    moment = time.time_ns() + hash(text) % 1_000_000_000
    os.utime(path, ns=(moment, moment))


def test_a_changed_file_takes_effect_and_a_wrong_one_leaves_the_rules(machine: Machine) -> None:
    clock = Clock()
    own = "[[alert]]\nname = 'a'\nmetric = 'mem.used'\nabove = {}\n"
    rewrite(machine.user_file, own.format(1))
    files = RuleFiles(machine.load(), clock)
    assert (files.found.find("a").above, files.changed()) == (1, None)

    rewrite(machine.user_file, own.format(2))
    assert files.changed() is None, "it is looked at every two seconds at most"
    clock.now += CHECK_SECONDS
    found = files.changed()
    assert found is not None
    assert (found.find("a").above, files.problems) == (2, [])

    for wrong in (own.format("'x'"), own.format(3)[:-3], "[run]\ngrac = 1"):
        rewrite(machine.user_file, wrong)
        clock.now += CHECK_SECONDS
        assert files.changed() is None
        assert files.found.find("a").above == 2
        assert len(files.problems) == 1
        assert (files.take_problems(), files.take_problems()) == (files.problems, [])

    clock.now += CHECK_SECONDS
    assert files.changed() is None, "the same wrong file is not read again"
    rewrite(machine.user_file, own.format(4))
    clock.now += CHECK_SECONDS
    found = files.changed()
    assert found is not None
    assert (found.find("a").above, files.problems) == (4, [])

    rewrite(machine.user_file, own.format(4) + "[alerts]\nquiet_hours = '1:00-2:00'")
    clock.now += CHECK_SECONDS
    assert files.changed() is not None, "settings of [alerts] count, too"
    assert files.config.text("alerts.quiet_hours") == "1:00-2:00"

    machine.user_file.unlink()
    clock.now += CHECK_SECONDS
    found = files.changed()
    assert found is not None
    assert [rule.name for rule in found.rules] == [str(table["name"]) for table in DEFAULTS]


def test_trust_given_later_takes_effect(machine: Machine) -> None:
    clock = Clock()
    machine.write(machine.project_file, "[[alert]]\nname = 'a'\nmetric = 'mem.used'\nabove = 1\nactions = ['bell']\n")
    files = RuleFiles(machine.load(), clock)
    assert files.found.find("a").actions == ()
    machine.trust()
    clock.now += CHECK_SECONDS
    found = files.changed()
    assert found is not None
    assert found.find("a").actions == ("bell",)


@pytest.mark.parametrize(
    ("hours", "quiet", "loud"),
    [
        ("22:00-07:00", ("22:00", "23:59", "00:00", "06:59"), ("07:00", "21:59", "12:00")),
        ("1:30-2:00", ("01:45",), ("02:00", "01:29")),
    ],
)
def test_quiet_hours_may_pass_midnight(
    machine: Machine, hours: str, quiet: tuple[str, ...], loud: tuple[str, ...]
) -> None:
    times = sending_times(machine.load(f"alerts.quiet_hours={hours}"))

    def moment(clock: str) -> float:
        return time.mktime(time.strptime(f"2026-02-03 {clock}", "%Y-%m-%d %H:%M"))

    assert [times.is_quiet(moment(clock)) for clock in quiet] == [True] * len(quiet)
    assert [times.is_quiet(moment(clock)) for clock in loud] == [False] * len(loud)
    assert {times.quiet_until(moment(clock) + 7.5) is None for clock in quiet} == {False}
    assert all(
        time.strftime("%-H:%M:%S", time.localtime(times.quiet_until(moment(clock) + 7.5))).zfill(8)
        == f"{hours.partition('-')[2]}:00".zfill(8)
        for clock in quiet
    )
    assert times.quiet_until(moment(loud[0])) is None
    assert not sending_times(machine.load()).is_quiet(moment("03:00"))
    assert (times.group_wait_seconds, times.repeat_seconds, times.give_up_seconds) == (30, 4 * 3600, 86400)


@pytest.mark.parametrize("page", ["alerts", "configuration"])
def test_the_rules_in_the_documentation_are_valid(machine: Machine, page: str) -> None:
    text = (ROOT / f"docs/{page}.md").read_text(encoding="utf-8")
    blocks = re.findall(r"(?ms)^```toml\n(.*?)^```$", text)
    assert any("[[alert]]" in block for block in blocks)
    for block in blocks:
        machine.write(machine.user_file, block)
        assert machine.all_notices() == ()


def test_the_documentation_names_every_field_kind_and_event() -> None:
    text = (ROOT / "docs/alerts.md").read_text(encoding="utf-8")
    words = {*ALERT_FIELDS, *map(str, RuleKind), *map(str, Scope), *EVENTS, *JOB_ACTIONS}
    assert [word for word in words if f"`{word}" not in text and f'"{word}' not in text] == []
    fields = set(re.findall(r"`(\w+)`", (ROOT / "docs/configuration.md").read_text(encoding="utf-8")))
    assert {*TYPES, *(name for parsers in TYPES.values() for name in parsers)} <= fields
