"""Settings come from the strongest layer that has them, and what is wrong is named exactly."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from machines import HOOK, Machine

from jobtop.core.config import SETTINGS, Config, Setting, Value
from jobtop.core.errors import ConfigError
from support import Jobtop


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("monitor.enabled", True),
        ("monitor.interval", None),
        ("monitor.granularity", "time_series"),
        ("monitor.budget", 0.01),
        ("monitor.without", ()),
        ("run.ui", "auto"),
        ("run.grace", 10.0),
        ("run.after_exit", "leave"),
        ("run.log_max", 256 * 2**20),
        ("run.keep_env", ("SLURM_*", "PBS_*", "CUDA_VISIBLE_DEVICES")),
        ("run.redact", ()),
        ("store.network", None),
        ("store.raw_days", 7.0),
        ("store.rollup_days", 90.0),
        ("store.spec_days", 30.0),
        ("store.max_size", 2 * 2**30),
        ("agent.idle", 300.0),
        ("cost.kwh", 0.30),
        ("cost.co2_g_per_kwh", 350.0),
        ("cost.cpu_hour", 0.0),
        ("cost.gib_hour", 0.0),
        ("cost.gpu_hour", 0.0),
    ],
)
def test_the_defaults_are_those_of_the_design(machine: Machine, key: str, value: Value) -> None:
    loaded = machine.load()
    assert loaded.value(key) == value
    assert type(loaded.value(key)) is type(value)
    assert loaded.origin(key) == "default"


def test_the_history_is_in_the_state_directory_unless_told_otherwise(machine: Machine) -> None:
    assert machine.load().text("store.dir") == str(machine.state)
    assert machine.load().origin("store.dir") == "default"
    machine.environ["JOBTOP_HOME"] = "/srv/jt"
    assert machine.load().text("store.dir") == "/srv/jt"
    assert machine.load().origin("store.dir") == "JOBTOP_HOME"


def test_each_layer_is_stronger_than_the_one_before(machine: Machine) -> None:
    assert machine.load().duration("run.grace") == 10
    for seconds, path in enumerate([machine.system_file, machine.user_file, machine.project_file], 1):
        machine.write(path, f'[run]\ngrace = "{seconds}s"')
        if path == machine.project_file:
            machine.trust()
        assert machine.load().duration("run.grace") == seconds
        assert machine.load().origin("run.grace") == str(path)
    machine.environ["JOBTOP_RUN_GRACE"] = "4s"
    assert machine.load().duration("run.grace") == 4
    assert machine.load().origin("run.grace") == "JOBTOP_RUN_GRACE"
    assert machine.load("run.grace=5s").duration("run.grace") == 5
    assert machine.load("run.grace=5s").origin("run.grace") == "--set"
    assert machine.load("run.grace=5s", "run.grace=6s").duration("run.grace") == 6


def test_layers_complete_each_other(machine: Machine) -> None:
    machine.write(machine.system_file, "[cost]\nkwh = 0.5\n[store]\nnetwork = false")
    machine.write(machine.project_file, "[cost]\ncpu_hour = 2")
    loaded = machine.load()
    assert [loaded.number("cost.kwh"), loaded.number("cost.cpu_hour"), loaded.switch("store.network")] == [
        0.5,
        2.0,
        False,
    ]


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.key)
def test_every_setting_has_a_variable_and_a_sentence(machine: Machine, setting: Setting) -> None:
    special = {"cost.prices": "pss=1", "alerts.quiet_hours": "22:00-07:00"}
    default = setting.default or special.get(setting.key, "pss")
    machine.environ[setting.variable] = default
    assert setting.variable == "JOBTOP_" + setting.key.upper().replace(".", "_")
    assert machine.load().origin(setting.key) == setting.variable
    assert setting.doc


def test_an_empty_or_foreign_variable_is_ignored(machine: Machine) -> None:
    machine.environ |= {"JOBTOP_RUN_GRACE": "", "JOBTOP_JOB_ID": "x", "JOBTOP_STORES": "y", "JOBTOP_ELSE": "z"}
    assert machine.load().duration("run.grace") == 10


def test_a_variable_like_a_setting_that_is_none_is_named_with_the_nearest(machine: Machine) -> None:
    machine.environ["JOBTOP_RUN_GRAC"] = "3s"
    with pytest.raises(ConfigError, match="JOBTOP_RUN_GRAC: unknown setting"):
        machine.load()


@pytest.mark.parametrize(
    ("key", "toml", "value"),
    [
        ("monitor.enabled", "false", False),
        ("monitor.enabled", '"yes"', True),
        ("monitor.interval", '"auto"', None),
        ("monitor.interval", '"500ms"', 0.5),
        ("monitor.interval", "2", 2.0),
        ("monitor.granularity", '"summary"', "summary"),
        ("monitor.budget", "1", 1.0),
        ("monitor.budget", '"2%"', 0.02),
        ("monitor.without", '["pss", "fds"]', ("pss", "fds")),
        ("monitor.without", '"pss, fds"', ("pss", "fds")),
        ("store.network", "true", True),
        ("run.grace", "0", 0.0),
        ("run.grace", "1.5", 1.5),
        ("run.log_max", "4096", 4096),
        ("run.log_max", '"1GiB"', 2**30),
        ("run.keep_env", "[]", ()),
        ("run.redact", "['a{2,3}', 'b']", ("a{2,3}", "b")),
        ("run.redact", "'a{2,3}'", ("a{2,3}",)),
        ("store.dir", '"/data"', "/data"),
        ("store.dir", '"~/data"', "HOME/data"),
        ("store.network", "false", False),
        ("cost.kwh", "1_000.5", 1000.5),
    ],
)
def test_a_file_may_write_values_as_toml_or_as_text(machine: Machine, key: str, toml: str, value: Value) -> None:
    section, name = key.split(".")
    machine.write(machine.user_file, f"[{section}]\n{name} = {toml}")
    expected = value.replace("HOME", machine.environ["HOME"]) if isinstance(value, str) else value
    assert machine.load().value(key) == expected


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("monitor.enabled", "off", False),
        ("store.network", "auto", None),
        ("monitor.without", "pss,fds", ("pss", "fds")),
        ("run.keep_env", "", ()),
        ("run.redact", "a{2,3}", ("a{2,3}",)),
        ("run.redact", "", ()),
        ("run.redact", "x=y", ("x=y",)),
    ],
)
def test_an_option_sets_any_key_from_text(machine: Machine, key: str, text: str, value: Value) -> None:
    assert machine.load(f"{key}={text}").value(key) == value
    assert machine.load(f" {key} ={text}").value(key) == value


@pytest.mark.parametrize(
    ("where", "expected"), [("file", "{project}/hist"), ("variable", "{project}/hist"), ("option", "{project}/hist")]
)
def test_a_relative_store_is_below_what_named_it(machine: Machine, where: str, expected: str) -> None:
    machine.write(machine.project_file, '[store]\ndir = "hist"' if where == "file" else "")
    machine.trust()
    machine.environ |= {"JOBTOP_STORE_DIR": "hist"} if where == "variable" else {}
    loaded = machine.load(*(["store.dir=hist"] if where == "option" else []))
    assert loaded.text("store.dir") == expected.format(project=machine.project)


def test_a_store_of_the_users_file_is_below_that_file(machine: Machine) -> None:
    machine.write(machine.user_file, '[store]\ndir = "hist"')
    assert machine.load().text("store.dir") == str(machine.user_file.parent / "hist")


def says(text: str, message: str) -> bool:
    """Whether a text begins with a message, in which `…` stands for any words."""
    return re.match(".*".join(map(re.escape, message.split("…"))), text) is not None


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("run.grac=1", 'run.grac: unknown key…"run.grace"'),
        ("zzz=1", "zzz: unknown key"),
        ("\x1b[2J=1", "\\x1b[2J: unknown key"),
        ("run.grace", '"run.grace" …KEY=VALUE'),
        ("run.grace=x", 'run.grace: "x" …duration…1h30m'),
        ("run.log_max=x", 'run.log_max: "x" …size…8GiB'),
        ("monitor.enabled=maybe", 'monitor.enabled: "maybe" …true or false'),
        ("store.network=maybe", 'store.network: "maybe" …auto'),
        ("monitor.interval=50ms", 'monitor.interval: "50ms" …0.1s'),
        ("monitor.budget=0", 'monitor.budget: "0" …share'),
        ("monitor.budget=200%", 'monitor.budget: "200%" …share'),
        ("run.after_exit=kil", 'run.after_exit: "kil" …leave, wait, kill…"kill"'),
        ("cost.kwh=-1", 'cost.kwh: "-1" …below 0'),
        ("cost.kwh=nan", 'cost.kwh: "nan" …number'),
        ("cost.kwh=1e999", 'cost.kwh: "1e999" …number'),
        ("cost.kwh=x", 'cost.kwh: "x" …number'),
        ("store.dir=", 'store.dir: "" …text'),
        ("store.dir=a\0b", 'store.dir: "a\\x00b" …text'),
    ],
)
def test_a_wrong_option_is_named_with_its_remedy(machine: Machine, assignment: str, message: str) -> None:
    assert says(machine.problem(assignment), f"--set: {message}")


def test_a_wrong_name_in_a_list_and_a_wrong_pattern_are_named(machine: Machine) -> None:
    assert says(machine.problem("monitor.without=ps"), '--set: monitor.without: "ps" …"pss"')
    assert says(machine.problem("run.redact=("), '--set: run.redact: "(" …regular expression…missing )')


def test_a_wrong_variable_is_named(machine: Machine) -> None:
    machine.environ["JOBTOP_RUN_GRACE"] = "soon"
    assert says(machine.problem(), 'JOBTOP_RUN_GRACE: run.grace: "soon" …duration')


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ('[run]\ngrac = "1s"', 'run.grac: unknown key…"run.grace"'),
        ("[run.grace]\nx = 1", "run.grace: a table …duration"),
        ('[run."\\u001b[2J"]', "run.\\x1b[2J: unknown key"),
        ("[rum]\ngrace = 1", 'rum: unknown section…"run"'),
        ("grace = 1", 'grace: unknown section…"run.grace"'),
        ("run = 1", "run: 1 …[run]"),
        ("[run]\ngrace = true", "run.grace: true …duration"),
        ("[run]\ngrace = [1]", "run.grace: a list …duration"),
        ("[run]\ngrace = nan", 'run.grace: "nan" …duration…1h30m'),
        ("[run]\nlog_max = 1979-05-27", "run.log_max: 1979-05-27 …size"),
        ("[run]\nafter_exit = 3", "run.after_exit: 3 …leave, wait, kill"),
        ("[run]\nkeep_env = 3", "run.keep_env: 3 …list"),
        ("[run]\nkeep_env = [3]", "run.keep_env: 3 …text"),
        ("[run]\nredact = [3]", "run.redact: 3 …text"),
        (f"[store]\nnetwork = 0x{'f' * 9000}", "store.network: a huge number …auto"),
        ("[monitor]\nbudget = true", "monitor.budget: true …number"),
    ],
)
@pytest.mark.parametrize("layer", ["user_file", "system_file"])
def test_what_is_wrong_in_a_file_is_named_with_the_file(machine: Machine, layer: str, toml: str, message: str) -> None:
    path: Path = getattr(machine, layer)
    machine.write(path, toml)
    assert says(machine.problem(), f"{path}: {message}")


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"[run]\n\ngrace 5", 3),
        (b'[run]\ngrace = "5', 2),
        (b"[run]\ngrace =\n\n", 2),
        (b"[run]\n# \xff\n", 2),
        (b"[run]\ngrace = " + b"[" * 100_000, 2),
        (b"[run]\ngrace = 1\ngrace = 2\n", 3),
        (b"[run]\ngrace = " + b"9" * 5000, 2),
    ],
)
def test_a_syntax_error_names_file_and_line(machine: Machine, content: bytes, line: int) -> None:
    machine.write(machine.user_file, "")
    machine.user_file.write_bytes(content)
    assert machine.problem().startswith(f"{machine.user_file}: line {line}: ")


def test_a_file_that_cannot_be_read_is_an_error_that_names_it(machine: Machine) -> None:
    machine.user_file.mkdir(parents=True)
    assert "not a regular file" in machine.problem()


def test_a_directory_that_may_not_be_searched_only_earns_a_notice(unprivileged: Jobtop) -> None:
    config = unprivileged.home / ".config"
    (config / "jobtop").mkdir(parents=True)
    file = config / "jobtop/config.toml"
    file.touch()
    file.chmod(0)
    assert unprivileged("config").returncode == (2 if file.owner() == "root" else 0)
    config.chmod(0)
    done = unprivileged("config")
    assert (done.returncode, str(file) in done.stderr) == (0, True)


def test_a_file_where_a_directory_should_be_means_no_file(machine: Machine) -> None:
    machine.write(machine.root / "home/.config", "x")
    assert machine.load().notices == ()


def test_a_byte_order_mark_does_no_harm(machine: Machine) -> None:
    machine.project_file.write_bytes(b"\xef\xbb\xbf[run]\ngrace = 3\n")
    machine.trust()
    assert machine.load().duration("run.grace") == 3


def test_rows_show_every_setting_as_a_user_would_write_it(machine: Machine) -> None:
    machine.write(
        machine.user_file, '[store]\nnetwork = false\n[run]\ngrace = 90\nkeep_env = ["A", "B"]\nredact = ["\\u001b"]'
    )
    rows = {key: (value, origin) for key, value, origin in machine.load("monitor.interval=2s").rows()}
    assert list(rows) == [setting.key for setting in SETTINGS]
    assert rows["store.network"] == ("false", str(machine.user_file))
    assert rows["run.grace"][0] == "90"
    assert rows["run.keep_env"][0] == "A,B"
    assert rows["run.redact"][0] == "\\x1b"
    assert rows["monitor.interval"] == ("2s", "--set")
    assert rows["run.log_max"] == ("256MiB", "default")


def test_what_rows_show_can_be_set_again(machine: Machine) -> None:
    loaded = machine.load()
    again = machine.load(*(f"{key}={value}" for key, value, _ in loaded.rows()))
    assert [again.value(setting.key) for setting in SETTINGS] == [loaded.value(setting.key) for setting in SETTINGS]


READERS: list[tuple[str, Callable[[Config], Value], Value]] = [
    ("monitor.enabled", lambda loaded: loaded.boolean("monitor.enabled"), True),
    ("store.network", lambda loaded: loaded.switch("store.network"), None),
    ("run.grace", lambda loaded: loaded.duration("run.grace"), 10.0),
    ("monitor.interval", lambda loaded: loaded.interval("monitor.interval"), None),
    ("cost.kwh", lambda loaded: loaded.number("cost.kwh"), 0.3),
    ("run.log_max", lambda loaded: loaded.size("run.log_max"), 2**28),
    ("run.after_exit", lambda loaded: loaded.text("run.after_exit"), "leave"),
    ("run.redact", lambda loaded: loaded.texts("run.redact"), ()),
]


@pytest.mark.parametrize(("key", "read", "value"), READERS, ids=[key for key, _, _ in READERS])
def test_access_is_typed(machine: Machine, key: str, read: Callable[[Config], Value], value: Value) -> None:
    assert read(machine.load()) == value


def test_auto_gives_way_to_a_value(machine: Machine) -> None:
    loaded = machine.load("monitor.interval=2s", "store.network=on")
    assert loaded.interval("monitor.interval") == 2
    assert loaded.switch("store.network") is True


def test_access_by_the_wrong_type_or_name_fails_loudly(machine: Machine) -> None:
    with pytest.raises(TypeError, match=r"^run.grace is 10.0, not of type int"):
        machine.load().size("run.grace")
    with pytest.raises(ConfigError, match=r'^run.grac: unknown key \(did you mean "run.grace"\?\)$'):
        machine.load().value("run.grac")


def test_key_bindings_are_kept_and_the_stronger_layer_wins(machine: Machine) -> None:
    machine.write(machine.user_file, '[keys]\nquit = "q"\nhelp = ["?", "f1"]\ncomma = ","')
    machine.write(machine.project_file, '[keys]\nquit = "x"')
    machine.trust()
    assert machine.load().keys == {"quit": ("x",), "help": ("?", "f1"), "comma": (",",)}


def test_alerts_are_kept_with_their_kinds_and_the_stronger_layer_wins(machine: Machine) -> None:
    machine.write(
        machine.user_file,
        HOOK + 'for = "30s"\nclear = 80\nseverity = "critical"\nscope = "host"\n'
        '[[alert]]\nname = "idle"\nscope = "gpu"\nmetric = "gpu.util"\nbelow = -1.5',
    )
    busy, idle = machine.own_rules()
    assert (busy.origin, busy.name, busy.scope, busy.severity) == (str(machine.user_file), "busy", "host", "critical")
    assert busy.actions == ("webhook:https://example.org",)
    assert (busy.above, busy.clear, busy.for_seconds) == (90.0, 80.0, 30.0)
    assert (idle.scope, idle.below, idle.expression and idle.expression.text) == ("gpu", -1.5, "gpu.util")
    machine.write(machine.project_file, '[[alert]]\nname = "busy"\nmetric = "mem.used"\nabove = 1')
    machine.trust()
    busy, idle = machine.own_rules()
    assert (busy.expression and busy.expression.text, busy.above, busy.clear) == ("mem.used", 1.0, None)
    assert (busy.severity, busy.for_seconds, idle.name) == ("critical", 30.0, "idle")


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ("alert = 1", "alert: 1 …[[alert]]"),
        ("alert = [1]", "alert: a list …[[alert]]"),
        ("[alert]\nname = 'x'", "alert: a table …[[alert]]"),
        (HOOK + "sope = 1", 'alert.busy.sope: unknown field…"scope"'),
        (
            HOOK + "scope = 'jab'",
            'alert.busy.scope: "jab" …job, container, host, gpu…"job"',
        ),
        (HOOK + "for = 'x'", 'alert.busy.for: "x" …duration'),
        (HOOK + "clear = 'x'", 'alert.busy.clear: "x" …number'),
        (HOOK + "[[alert]]\nmetric = 'cpu.percent'\nabove = 1", "alert[2].name: …missing"),
        ("[[alert]]\nname = 'x'\nabove = 1", "alert.x.metric: …missing"),
        ("[[alert]]\nname = 'x'\nmetric = 'mem.used'", "alert.x: …above or below"),
        (
            "[[alert]]\nname = 'x'\nmetric = 'gpu.utl'",
            'alert.x.metric: …"gpu.utl"…"gpu.util"',
        ),
        ("[[alert]]\nname = 'x'\nmetric = 'load.1'\nabove = 1", 'alert.x.metric: "load.1" …job…host'),
        ("[[alert]]\nname = 1\nmetric = 'temp'", "alert[1].name: 1 …text"),
        ("keys = 1", "keys: 1 …[keys]"),
        ("[keys]\nquit = 1", "keys.quit: 1 …list"),
        ("[keys]\nquit = ['']", 'keys.quit: "" …text'),
    ],
)
@pytest.mark.parametrize("layer", ["user_file", "system_file"])
def test_a_wrong_alert_or_key_is_named_and_the_rest_of_the_file_applies(
    machine: Machine, layer: str, toml: str, message: str
) -> None:
    path: Path = getattr(machine, layer)
    machine.write(path, f"{toml}\n[run]\ngrace = 3")
    (notice,) = machine.all_notices()
    assert says(notice, f"{path}: {message}")
    assert notice.endswith("; ignored")
    assert machine.load().duration("run.grace") == 3


def test_valid_alerts_and_keys_apply_beside_wrong_ones(machine: Machine) -> None:
    machine.write(machine.user_file, HOOK + "[[alert]]\nname = 'x'\n[[alert]]\n[keys]\nquit = 'q'\nhelp = 1")
    assert ([rule.name for rule in machine.own_rules()], machine.load().keys) == (["busy"], {"quit": ("q",)})
    of_files, of_rules = machine.all_notices()
    assert "and 1 more" in of_files
    assert "alert.x" in of_rules


def test_a_project_file_with_a_wrong_alert_or_key_is_not_trusted(machine: Machine) -> None:
    for toml in ("[[alert]]\nname = 'x'", "[keys]\nhelp = 1"):
        machine.write(machine.project_file, toml)
        with pytest.raises(ConfigError):
            machine.trust()


@pytest.mark.parametrize(
    "given", ["24:00-07:00", "22:00", "22-7", "22:00-07:60", "a:b-c:d", "1:00-2:00-3:00", "²2:00-07:00"]
)
def test_quiet_hours_are_two_times_of_the_day(machine: Machine, given: str) -> None:
    assert machine.load("alerts.quiet_hours=22:00-7:00").text("alerts.quiet_hours") == "22:00-7:00"
    assert "22:00-07:00" in machine.problem(f"alerts.quiet_hours={given}")


def test_rules_of_what_is_kept_come_from_all_files(machine: Machine) -> None:
    machine.write(machine.user_file, '[[retention]]\ntag = "project=llm"\nkeep = "90d"')
    machine.write(machine.project_file, '[[retention]]\ntag = "paper"\nkeep = "forever"')
    machine.trust()
    found = {(rule.tag, rule.seconds, rule.origin) for rule in machine.load().retention}
    assert found == {
        ("project=llm", 90 * 86400.0, str(machine.user_file)),
        ("paper", float("inf"), str(machine.project_file)),
    }


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ("retention = 1", "retention: 1 …[[retention]]"),
        ("[[retention]]\ntg = 'x'", 'retention[1].tg: unknown field…"tag"'),
        ("[[retention]]\ntag = 'x'", "retention[1].keep: …missing"),
        ("[[retention]]\nkeep = '1d'", "retention[1].tag: …missing"),
        (
            "[[retention]]\ntag = 'x'\nkeep = 'for ever'",
            'retention[1].keep: "for ever" …duration…"forever"',
        ),
        (
            "[[retention]]\ntag = 'x'\nkeep = 180",
            'retention[1].keep: 180 …unit…"180d"',
        ),
        (
            "[[retention]]\ntag = 'x'\nkeep = '1.5'",
            'retention[1].keep: "1.5" …unit…"1.5d"',
        ),
        (
            "[[retention]]\ntag = 'x'\nkeep = true",
            "retention[1].keep: true …duration",
        ),
        ("[[retension]]\ntag = 'x'", 'retension: unknown section…"retention"'),
    ],
)
def test_a_wrong_rule_of_what_is_kept_is_named(machine: Machine, toml: str, message: str) -> None:
    machine.write(machine.user_file, toml)
    assert says(machine.problem(), f"{machine.user_file}: {message}")


def test_without_files_nothing_heavy_is_imported(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from jobtop.core.config import load\n"
        "config = load([], {'HOME': sys.argv[1]}, Path(sys.argv[1]), Path(sys.argv[1])); config.rows()\n"
        "config.duration('run.grace')\n"
        "print({'tomllib', 'json', 'hashlib', 'difflib', 'jobtop.core.metrics'} & set(sys.modules))"
    )
    path = os.pathsep.join(filter(None, sys.path))
    command = [sys.executable, "-c", script, str(tmp_path)]
    done = subprocess.run(command, env={"PYTHONPATH": path}, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout == "set()\n"


def test_rules_are_not_checked_while_settings_are_loaded(machine: Machine) -> None:
    machine.write(machine.user_file, HOOK + "[[action]]\nname = 'x'\n[alerts]\noff = ['io-wait']")
    program = "import sys; from jobtop.core.config import load; loaded = load((), {'HOME': sys.argv[1]}, '/', '/x')\n"
    program += "print(len(loaded.alerts), [name for name in sys.modules if 'alerts' in name or 'metrics' in name])"
    command = [sys.executable, "-c", program, machine.environ["HOME"]]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("1 []\n", "")
