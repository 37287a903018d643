"""A `jobtop.toml` that the user did not trust can do no harm, and trust is for one content of one file."""

import json
import os
import stat
import time
from pathlib import Path

import pytest
from machines import HOOK, Machine

from jobtop.core.alerts.model import BUILT_IN
from jobtop.core.alerts.rule_set import RuleChange
from jobtop.core.config import SETTINGS
from jobtop.core.config_files import MAX_FILE_BYTES, UNTRUSTED_KEYS
from jobtop.core.errors import ConfigError, StoreUnavailable
from jobtop.core.trust import trust
from support import Jobtop

OTHER_USER = 4242  # a user id
EVERYTHING = """
[run]
ui = "never"
grace = "0s"
after_exit = "kill"
redact = ["(a+)+$"]
[store]
dir = "hist"
spec_days = 0
max_size = "1M"
raw_days = 0
rollup_days = 0
[cost]
kwh = 9
[keys]
quit = "x"
[[retention]]
tag = "paper"
keep = "1d"
"""


def test_only_what_is_harmless_counts_until_the_file_is_trusted(machine: Machine) -> None:
    nothing = machine.load()
    machine.write(machine.project_file, EVERYTHING)
    loaded = machine.load()
    set_here = {key for key in loaded.entries if loaded.origin(key) == str(machine.project_file)}
    assert set_here == {"run.ui", "cost.kwh"}
    assert (loaded.text("run.ui"), loaded.number("cost.kwh")) == ("never", 9.0)
    assert (loaded.keys, loaded.retention) == ({}, ())
    others = [setting.key for setting in SETTINGS if setting.key not in set_here]
    assert [loaded.value(key) for key in others] == [nothing.value(key) for key in others]


def test_one_line_names_the_file_the_keys_and_the_remedy(machine: Machine) -> None:
    machine.write(machine.project_file, EVERYTHING)
    (notice,) = machine.load().notices
    words = (str(machine.project_file), "run.grace", "run.after_exit", "store.dir", "more", "jobtop config trust")
    assert [word for word in words if word not in notice] == []
    assert len(notice) < 200 + len(str(machine.project_file))


def test_all_of_it_counts_once_it_is_trusted(machine: Machine) -> None:
    machine.write(machine.project_file, EVERYTHING)
    machine.trust()
    loaded = machine.load()
    assert (loaded.duration("run.grace"), loaded.number("store.spec_days"), loaded.notices) == (0.0, 0.0, ())
    assert (loaded.keys, [rule.tag for rule in loaded.retention]) == ({"quit": ("x",)}, ["paper"])
    machine.write(machine.project_file, EVERYTHING + "#")
    assert machine.load().duration("run.grace") == 10.0


def test_a_new_setting_needs_trust_unless_it_is_listed() -> None:
    assert [key for key in UNTRUSTED_KEYS if key.partition(".")[0] != "cost"] == ["run.ui"]


@pytest.mark.parametrize(
    "toml",
    [
        "[run]\ngrac = 1",
        "[rum]\nx = 1",
        "run = 1",
        "[run]\ngrace = 'x'",
        "[run]\nredact = ['(']",
        "keys = 1",
        "[keys]\nquit = 1",
        "retention = 1",
        "[[retention]]\ntg = 1",
        "[cost]\nkwh = 'x'",
        "[run]\nui = 'maybe'",
        "alert = 1",
        "[[alert]]\nname = 'x'",
        "[",
        "a = " + "[" * 100_000,
        "[cost]\nkwh = " + "9" * 5000,
        "x" * 100_000 + " = 1",
        ".".join("a" * 30_000) + " = 1",
    ],
)
def test_what_is_wrong_in_a_file_that_is_not_trusted_is_a_notice_and_trust_refuses_it(
    machine: Machine, toml: str
) -> None:
    machine.write(machine.project_file, toml)
    begun = time.process_time()
    (notice,) = machine.all_notices()
    assert time.process_time() - begun < 1
    assert notice.startswith(str(machine.project_file))
    assert notice.isprintable()
    assert len(notice) < 400 + len(str(machine.project_file))
    with pytest.raises(ConfigError):
        machine.trust()


def test_of_an_alert_with_a_wrong_one_beside_it_the_right_one_counts(machine: Machine) -> None:
    machine.write(machine.project_file, HOOK + "[[alert]]\nname = 'x'\n[cost]\nkwh = 'x'\nco2_g_per_kwh = 1")
    assert [rule.name for rule in machine.own_rules()] == ["busy"]
    assert machine.load().number("cost.co2_g_per_kwh") == 1.0
    assert len(machine.all_notices()) == 3


def test_actions_of_a_project_are_ignored_until_the_file_is_trusted(machine: Machine) -> None:
    machine.write(machine.project_file, HOOK)
    untrusted = machine.load()
    assert machine.own_rules()[0].actions == ()
    assert ["alert.busy.actions" in notice for notice in untrusted.notices] == [True]

    machine.trust()
    assert machine.own_rules()[0].actions == ("webhook:https://example.org",)
    assert machine.load().notices == ()

    machine.write(machine.project_file, HOOK.replace("example", "evil"))
    assert machine.own_rules()[0].actions == ()


def test_an_alert_that_is_not_trusted_does_not_replace_one_of_the_user(machine: Machine) -> None:
    machine.write(machine.user_file, HOOK)
    machine.write(machine.project_file, "[[alert]]\nname = 'busy'\nmetric = 'cpu.percent'\nabove = 1e9")
    loaded = machine.load()
    assert [rule.above for rule in machine.own_rules()] == [90.0]
    assert ["alert.busy" in notice for notice in loaded.notices] == [True]


def test_an_alert_that_is_not_trusted_does_not_change_one_of_jobtop(machine: Machine) -> None:
    machine.write(machine.project_file, "[[alert]]\nname = 'host-memory'\nenabled = false")
    assert (machine.rules().find("host-memory").is_enabled, machine.own_rules()) == (True, [])
    assert ["host-memory" in notice for notice in machine.all_notices()] == [True]
    machine.trust()
    assert (machine.rules().find("host-memory").is_enabled, machine.all_notices()) == (False, ())


def test_a_project_that_changes_rules_of_the_user_can_be_trusted_and_says_which(machine: Machine) -> None:
    machine.write(machine.system_file, "[[alert]]\nname = 'load'\nscope = 'host'\nmetric = 'load.5'\nabove = 64")
    machine.write(machine.user_file, HOOK)
    machine.write(
        machine.project_file,
        "[[alert]]\nname = 'busy'\nabove = 80\n[[alert]]\nname = 'load'\nabove = 8\nfor = '1m'\n"
        "[[alert]]\nname = 'gpu-idle'\nenabled = false\n[[alert]]\nname = 'new'\nmetric = 'mem.used'\nabove = 1",
    )
    assert machine.trust().rules == (
        RuleChange("busy", str(machine.user_file), ("above",)),
        RuleChange("load", str(machine.system_file), ("above", "for")),
        RuleChange("gpu-idle", BUILT_IN, ("enabled",)),
    )
    assert {rule.name: rule.above for rule in machine.own_rules() if rule.is_enabled} == {
        "busy": 80,
        "load": 8,
        "new": 1,
    }
    machine.write(machine.project_file, "[[alert]]\nname = 'busy'\nabove = 'lots'")
    with pytest.raises(ConfigError, match=r"alert\.busy\.above"):
        machine.trust()


def test_the_verb_names_the_rules_that_a_project_changes(jobtop: Jobtop) -> None:
    (jobtop.home / "jobtop.toml").write_text("[[alert]]\nname = 'job-failed'\nactions = ['webhook:https://x/secret']")
    told = jobtop("config", "trust").stdout
    assert ("job-failed" in told, "actions" in told, "secret" in told) == (True, True, False)


ACTING = """
[[alert]]
name = "busy"
metric = "cpu.percent"
above = 90
steps = [{after = "60m"}, {after = "90m", do = "stop"}]
[[action]]
name = "hook"
type = "command"
command = "/bin/sh"
[alerts]
actions = ["command:/bin/sh"]
off = ["host-memory"]
"""


def test_nothing_that_is_not_trusted_acts(machine: Machine) -> None:
    machine.write(machine.user_file, "[alerts]\nactions = ['bell']")
    machine.write(machine.project_file, ACTING)
    found = machine.rules()
    busy = found.find("busy")
    assert (busy.actions, busy.steps, busy.directory) == ((), (), str(machine.project))
    assert found.find("host-memory").actions == ("bell",)
    assert found.find("host-memory").is_enabled
    assert set(found.actions) == {"bell"}
    (notice,) = machine.all_notices()
    assert all(key in notice for key in ("alert.busy.steps", "action", "alerts.actions", "alerts.off"))
    machine.trust()
    found = machine.rules()
    assert [step.do for step in found.find("busy").steps] == ["warn", "stop"]
    assert (found.find("busy").actions, found.find("host-memory").is_enabled) == (("command:/bin/sh",), False)
    assert found.actions["hook"].type == "command"


def test_of_many_rules_that_are_not_trusted_some_count(machine: Machine) -> None:
    tables = [f"[[alert]]\nname = 'n{number}'\nmetric = 'mem.used'\nabove = 1\n" for number in range(100)]
    machine.write(machine.project_file, "".join(tables))
    assert len(machine.own_rules()) == 20
    assert len(machine.all_notices()) == 1


def test_config_lists_what_is_ignored(jobtop: Jobtop) -> None:
    (jobtop.home / "jobtop.toml").write_text(EVERYTHING)
    rows = {row["key"]: row["value"] for row in json.loads(jobtop("config", "--json").stdout)}
    assert (rows["run.grace"], rows["ignored.run.grace"], rows["ignored.keys"]) == ("10s", '"0s"', "a table")
    assert jobtop("config", "trust").returncode == 0
    rows = {row["key"]: row["value"] for row in json.loads(jobtop("config", "--json").stdout)}
    assert (rows["run.grace"], any(key.startswith("ignored.") for key in rows)) == ("0s", False)


def test_a_project_that_is_not_trusted_deletes_no_specs(jobtop: Jobtop) -> None:
    assert jobtop("run", "--quiet", "--", "true").returncode == 0
    (jobtop.home / "jobtop.toml").write_text("[store]\nspec_days = 0\n")
    (jobtop.state / "specs/.swept").unlink(missing_ok=True)  # specs are looked at once a day
    assert jobtop("history").returncode == 0
    assert len([*(jobtop.state / "specs").glob("*.json")]) == 1


def fifo(path: Path) -> None:
    os.mkfifo(path)


def zeros(path: Path) -> None:
    path.symlink_to("/dev/zero")


def huge(path: Path) -> None:
    path.write_bytes(b"\n" * (MAX_FILE_BYTES + 1))


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(2**40)


def directory(path: Path) -> None:
    path.mkdir()


def open_to_all(path: Path) -> None:
    path.write_text("[cost]\nkwh = 7\n")
    path.chmod(0o666)


ODD_FILES = [fifo, zeros, huge, sparse, directory, open_to_all]


@pytest.mark.parametrize("make", ODD_FILES)
def test_a_project_file_that_must_not_be_read_is_ignored_with_a_notice(machine: Machine, make: object) -> None:
    assert callable(make)
    make(machine.project_file)
    loaded = machine.load()
    assert (loaded.number("cost.kwh"), len(loaded.notices)) == (0.3, 1)
    assert loaded.notices[0].startswith(f"{machine.project_file}: ignored")
    with pytest.raises(ConfigError):
        machine.trust()


@pytest.mark.parametrize("layer", ["user_file", "system_file"])
@pytest.mark.parametrize("make", ODD_FILES)
def test_such_a_file_of_the_user_or_the_system_is_an_error(machine: Machine, layer: str, make: object) -> None:
    path: Path = getattr(machine, layer)
    path.parent.mkdir(parents=True)
    assert callable(make)
    make(path)
    assert machine.problem().startswith(f"{path}: ")


def test_a_link_to_a_file_and_a_file_that_the_group_can_write_are_read(machine: Machine) -> None:
    real = machine.root / "real.toml"
    machine.write(real, "[cost]\nkwh = 7\n")
    real.chmod(0o664)
    machine.project_file.symlink_to(real)
    assert (machine.load().number("cost.kwh"), machine.load().notices) == (7.0, ())


def test_a_file_of_another_user_is_not_read(machine: Machine, root: None) -> None:
    for path in (machine.project_file, machine.user_file):
        machine.write(path, "[cost]\nkwh = 7\n")
    os.chown(machine.project_file, OTHER_USER, OTHER_USER)
    assert (machine.load().number("cost.kwh"), machine.load().origin("cost.kwh")) == (7.0, str(machine.user_file))
    assert [str(OTHER_USER) in notice for notice in machine.load().notices] == [True]
    os.chown(machine.user_file, OTHER_USER, OTHER_USER)
    assert str(OTHER_USER) in machine.problem()


def test_a_link_to_a_file_of_another_user_is_not_read(machine: Machine, root: None) -> None:
    real = machine.root / "real.toml"
    machine.write(real, "[cost]\nkwh = 7\n")
    os.chown(real, OTHER_USER, OTHER_USER)
    machine.project_file.symlink_to(real)
    assert (machine.load().number("cost.kwh"), len(machine.load().notices)) == (0.3, 1)


def test_root_owns_files_that_others_use(unprivileged: Jobtop, root: None) -> None:
    (unprivileged.home / "jobtop.toml").write_text("[cost]\nkwh = 7\n")
    rows = {row["key"]: row["value"] for row in json.loads(unprivileged("config", "--json").stdout)}
    assert rows["cost.kwh"] == "7"


@pytest.mark.parametrize("verb", [["history"], ["run", "--", "true"], ["doctor"]])
def test_a_fifo_in_the_directory_stops_no_verb(jobtop: Jobtop, verb: list[str]) -> None:
    fifo(jobtop.home / "jobtop.toml")
    done = jobtop(*verb)
    assert (done.returncode, done.stderr.count("jobtop.toml")) == (0, 1)


def test_a_project_cannot_bring_its_own_trust(machine: Machine) -> None:
    machine.write(machine.project_file, HOOK + '[store]\ndir = "."')
    trust(machine.project_file, machine.project, MAX_FILE_BYTES, lambda _: None)
    assert machine.own_rules()[0].actions == ()


def test_what_was_checked_is_what_is_trusted(machine: Machine) -> None:
    machine.write(machine.project_file, HOOK)

    def change(_: bytes) -> None:
        machine.write(machine.project_file, HOOK.replace("example", "evil"))

    trust(machine.project_file, machine.state, MAX_FILE_BYTES, change)
    assert machine.own_rules()[0].actions == ()
    machine.write(machine.project_file, HOOK)
    assert machine.own_rules()[0].actions == ("webhook:https://example.org",)


def test_trust_is_private_and_adds_to_what_was_trusted(machine: Machine) -> None:
    other = machine.root / "other.toml"
    other.touch()
    machine.project_file.touch()
    trust(other, machine.state, MAX_FILE_BYTES, lambda _: None)
    machine.trust()
    record = machine.state / "trusted.json"
    assert stat.S_IMODE(record.stat().st_mode) == 0o600
    assert set(json.loads(record.read_text())) == {str(other), str(machine.project_file)}
    assert os.listdir(machine.state) == ["trusted.json"]


@pytest.mark.parametrize("content", ["", "[]", "{", '{"x": 1}', "[" * 100_000])
def test_a_damaged_record_of_trust_trusts_nothing_and_is_replaced(machine: Machine, content: str) -> None:
    machine.write(machine.project_file, HOOK)
    machine.write(machine.state / "trusted.json", content)
    assert machine.own_rules()[0].actions == ()
    machine.trust()
    assert machine.own_rules()[0].actions != ()


@pytest.mark.parametrize("mode", [0o666, 0o602])
def test_a_record_of_trust_that_all_can_write_trusts_nothing(machine: Machine, mode: int) -> None:
    machine.write(machine.project_file, HOOK)
    machine.trust()
    (machine.state / "trusted.json").chmod(mode)
    assert machine.own_rules()[0].actions == ()


@pytest.mark.parametrize("make", [fifo, zeros, sparse])
def test_a_record_of_trust_that_must_not_be_read_trusts_nothing(machine: Machine, make: object) -> None:
    machine.write(machine.project_file, HOOK)
    machine.state.mkdir(parents=True)
    assert callable(make)
    make(machine.state / "trusted.json")
    assert machine.own_rules()[0].actions == ()


def test_trusting_what_is_not_there_is_an_error(machine: Machine) -> None:
    with pytest.raises(ConfigError, match=r"jobtop.toml: cannot be read: No such file"):
        machine.trust()


def test_trust_that_cannot_be_kept_is_an_error(machine: Machine) -> None:
    machine.project_file.touch()
    machine.state.parent.mkdir(parents=True)
    machine.state.touch()
    with pytest.raises(StoreUnavailable, match=r"trusted.json: cannot be written: File exists"):
        machine.trust()


def test_trust_names_settings_and_actions_too(machine: Machine) -> None:
    machine.write(machine.user_file, '[[action]]\nname = "hook"\ntype = "webhook"\nurl = "https://a.example"\n')
    machine.write(
        machine.project_file,
        'run.ui = "never"\nalerts.off = ["job-failed"]\nalerts.actions = ["other"]\n[keys]\n"app.quit" = "Q"\n'
        '[[action]]\nname = "hook"\ntype = "webhook"\nurl = "https://b.example"\n'
        '[[action]]\nname = "other"\ntype = "bell"\n',
    )
    changes = machine.trust()
    assert set(changes.settings) == {"alerts.off", "alerts.actions", "[keys]"}
    assert (changes.actions, changes.replaced) == (("hook", "other"), ("hook",))
