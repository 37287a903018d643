"""`jobtop alerts rules` lists every rule with its state and never shows an address; and what a machine supplies."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from jobtop.cli.main import jobtop as command_line
from jobtop.core.alerts.rule_set import default_rules
from jobtop.core.alerts.rules import inactive_reason
from jobtop.core.alerts.supply import supplied_here
from jobtop.core.metrics import Scope

RULES = """
[[alert]]
name = "mine"
metric = "mem.used"
above = "4GiB"
for = "1m"
actions = ["hook", "webhook:https://example.org/t0ken", "signal:USR1"]
steps = [{after = "60m"}, {after = "2h", do = "stop"}]
[[alert]]
name = "broken"
metric = "mem.usd"
above = 1
[[alert]]
name = "gpu-hot"
above = "very"
[[alert]]
name = "io-wait"
enabled = false
[[action]]
name = "hook"
type = "slack"
url = "https://example.org/t0ken"
[alerts]
off = ["store-full"]
"""


@pytest.fixture
def listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[dict[str, Any], str, str]:
    """The rules by name, the table, and what stands on standard error."""
    path = tmp_path / ".config/jobtop/config.toml"
    path.parent.mkdir(parents=True)
    path.write_text(RULES)
    for name, value in (("HOME", str(tmp_path)), ("JOBTOP_HOME", str(tmp_path / "state"))):
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    runner = CliRunner()
    as_json = runner.invoke(command_line, ["alerts", "rules", "--json"], standalone_mode=False)
    as_table = runner.invoke(command_line, ["alerts", "rules"], standalone_mode=False)
    assert (as_json.exception, as_table.exception) == (None, None)
    return {row["name"]: row for row in json.loads(as_json.stdout)}, as_table.stdout, as_table.stderr


def test_every_rule_is_listed_with_its_state(listed: tuple[dict[str, Any], str, str]) -> None:
    rows, table, errors = listed
    assert rows.keys() == {rule.name for rule in default_rules()} | {"mine", "broken"}
    assert (rows["mine"]["state"], rows["mine"]["above"], rows["mine"]["for_seconds"]) == ("active", 4 * 2**30, 60)
    assert (rows["io-wait"]["state"], rows["store-full"]["state"]) == ("off", "off")
    assert rows["broken"]["state"] == "wrong"
    assert '"mem.used"' in rows["broken"]["reason"]
    assert "very" in (rows["gpu-hot"]["reason"] or "")
    assert (rows["job-failed"]["state"], rows["job-failed"]["origin"]) == ("active", "default")
    assert all(name in table for name in rows)
    assert "broken" in errors
    assert errors.count("; ignored") == 2, "each problem has its line"
    assert "wrong: metric: unknown" in table


def test_no_address_of_an_action_is_shown(listed: tuple[dict[str, Any], str, str]) -> None:
    rows, table, errors = listed
    assert rows["mine"]["actions"] == ["hook", "webhook", "signal:USR1"]
    assert rows["mine"]["steps"][1] == {"after_seconds": 7200.0, "do": "stop"}
    assert "stop after 2h00m, warn after 1h00m, hook, webhook" in table
    assert "t0ken" not in json.dumps(rows) + table + errors


def test_a_machine_without_pressure_and_without_gpus_has_inactive_rules(tmp_path: Path) -> None:
    for name, text in {
        "stat": "cpu  1 0 1 9 1 0 0 0\ncpu0 1 0 1 9 1 0 0 0\n",
        "loadavg": "0.1 0.2 0.3 1/2 3\n",
        "meminfo": "MemTotal: 100 kB\nMemAvailable: 50 kB\nCached: 1 kB\n",
        "uptime": "1.0 1.0\n",
    }.items():
        (tmp_path / "proc").mkdir(exist_ok=True)
        (tmp_path / "proc" / name).write_text(text)
    supplied = supplied_here(["nvidia"], str(tmp_path / "proc"), str(tmp_path / "sys"), {})
    assert {"mem.used", "mem.total", "cpu.iowait"} <= supplied[Scope.HOST]
    assert "io.pressure" not in supplied[Scope.HOST]
    inactive = {rule.name for rule in default_rules() if inactive_reason(rule, supplied) is not None}
    gpus = {rule.name for rule in default_rules() if rule.name.startswith("gpu-")}
    assert inactive == {"io-pressure", "swap-thrash"} | gpus
    assert supplied_here(["host"], str(tmp_path / "proc"), str(tmp_path / "sys"), {})[Scope.HOST] == set()
