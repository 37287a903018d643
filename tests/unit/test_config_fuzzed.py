"""Whatever a configuration file, a variable, an option or the record of trust holds: a value, a notice or one error."""

import random
from contextlib import suppress
from pathlib import Path

from machines import HOOK, Machine

from fuzzing import ODD_NUMBERS, ODD_WORDS, fuzz, fuzzed, mutated
from jobtop.core.alerts.model import BUILT_IN, Rule
from jobtop.core.alerts.rule_fields import ALERT_FIELDS
from jobtop.core.alerts.rule_set import default_rules, load_rule_set, rule_notices
from jobtop.core.config import RETENTION_FIELDS, SETTINGS
from jobtop.core.config_files import MAX_FILE_BYTES, UNTRUSTED_KEYS
from jobtop.core.errors import JobtopError

WHOLE = f"""# everything a file can set
{HOOK}
[run]
ui = "never"
grace = "1h30m"
redact = ["corp-[0-9]{{4}}", "(?<=key=)\\\\w+"]
keep_env = ["A", "B*"]
[store]
dir = "~/hist"
max_size = "1.5G"
spec_days = 1e1
[monitor]
interval = "auto"
without = ["pss", "fds"]
budget = "2%"
[cost]
kwh = 0x1f
cpu_hour = 1_000.5
[keys]
quit = ["x", "ctrl+c"]
jobs.stop = "K"
[[alert]]
name = "job-memory-limit"
above = "95%"
steps = [{{after = "60m"}}, {{after = "2h", do = "stop"}}]
message = "{{job}} uses {{value}} of {{limit.memory}}"
filter = "name:train* tag:nightly"
[[alert]]
name = "soon"
kind = "forecast"
metric = "mem.used + 2 * mem.swap"
limit = "min(limit.memory, 8GiB)"
within = "10m"
[[action]]
name = "hook"
type = "webhook"
url = "env:HOOK"
headers = {{a = "b"}}
[alerts]
off = ["io-wait"]
actions = ["hook", "mail:a@example.org"]
quiet_hours = "22:00-07:00"
[[retention]]
tag = "a=b"
keep = "forever"
""".encode()
VALUES = (
    *ODD_NUMBERS,
    *("true", "[]", "{}", '""', "'x'", '["a", 1]', "{a = {b = 1}}", "1979-05-27T07:32:00Z", "07:32:00", '"auto"'),
    *('"10s"', '"1G"', '"50%"', '"forever"', '"(a+)+$"', '"\\u0000"', "[[[]]]", '"""a\nb"""', "'''", '"\\ud800"'),
)
KEYS = (
    *(setting.key for setting in SETTINGS),
    *(f"alert.{name}" for name in ALERT_FIELDS),
    *(f"action.{name}" for name in ("name", "type", "url", "command", "to", "headers", "port", "tls")),
    *(f"retention.{name}" for name in RETENTION_FIELDS),
    *("keys.quit", "keys.a.b.c", "x", "run", "a.b", '"".""', "alert", "retention", "keys"),
)

DEFAULT_RULES = default_rules()


def acts(rule: Rule) -> bool:
    """Whether a rule acts on its job."""
    return any(step.do != "warn" for step in rule.steps)


LARGE = (
    "a.",
    "[",
    "{a=",
    "[a.b]\n",
    "[[alert]]\n",
    "x=1\n",
    '"a".',
    "\n",
    "=",
    "'''",
    "9",
    "a=1\na=2\n",
    "[a]\nb.c=1\n",
)


def written(dice: random.Random) -> bytes:
    """A file: a whole one damaged, keys with odd values, or something large of one kind."""
    way = dice.random()
    if way < 0.5:
        return mutated(dice, WHOLE, 6)
    if way < 0.99:
        lines = []
        for _ in range(dice.randint(1, 6)):
            key, value = dice.choice(KEYS), dice.choice(VALUES)
            section, _, name = key.rpartition(".")
            header = (
                f"[[{section}]]" if section in ("alert", "action", "retention") else f"[{section}]" if section else ""
            )
            lines.append(dice.choice([f"{key} = {value}", f"{header}\n{name} = {value}", f"{name} = {value}"]))
        return "\n".join(lines).encode("utf-8", "surrogatepass")
    unit = dice.choice(
        ["a.", "[", "{a=", "[a.b]\n", "[[alert]]\n", "x=1\n", '"a".', "\n", "=", "'''", "9", "a=1\na=2\n"]
    )
    return (unit * dice.randint(1, MAX_FILE_BYTES // len(unit)) + "=1").encode()


@fuzzed("configuration", inputs=600)
def test_no_file_does_more_than_it_may(tmp_path: Path, count: int) -> None:
    machine = Machine(tmp_path)
    defaults = machine.load()
    others = [setting.key for setting in SETTINGS if setting.key not in UNTRUSTED_KEYS]

    def check(content: bytes) -> None:
        machine.user_file.unlink(missing_ok=True)
        machine.project_file.write_bytes(content)
        loaded = machine.load()  # without trust nothing is an error
        assert [loaded.value(key) for key in others] == [defaults.value(key) for key in others]
        assert (loaded.keys, loaded.retention) == ({}, ())
        found = load_rule_set(loaded)
        assert found.actions == {}
        assert not any(rule.actions or acts(rule) for rule in found.rules)
        assert [rule for rule in found.rules if rule.origin == BUILT_IN] == [*DEFAULT_RULES]
        notices = (*loaded.notices, *rule_notices(loaded))
        assert len(notices) <= 3
        assert all(len(notice) < 1000 for notice in notices)
        for key, value, origin in (*loaded.rows(), *loaded.ignored):
            assert key.isprintable()
            assert value.isprintable()
            assert origin
        machine.user_file.parent.mkdir(parents=True, exist_ok=True)
        machine.project_file.rename(machine.user_file)
        load_rule_set(machine.load())

    fuzz("configuration", written, check, count)


@fuzzed("configuration", inputs=300)
def test_no_trusted_file_variable_or_option_ends_in_another_error(tmp_path: Path, count: int) -> None:
    machine = Machine(tmp_path)

    def generate(dice: random.Random) -> tuple[bytes, bytes, dict[str, str], list[str]]:
        words = [*ODD_WORDS, *ODD_NUMBERS, "auto", "1d", "(a|a)*b", "[", "\udce9", "pss,fds", "~/x"]
        record = mutated(dice, b'{"/project/jobtop.toml": "00"}', 3)
        variables = {dice.choice(SETTINGS).variable: dice.choice(words) for _ in range(dice.randint(0, 2))}
        options = [f"{dice.choice(KEYS)}{dice.choice('=~')}{dice.choice(words)}" for _ in range(dice.randint(0, 2))]
        return written(dice), record, variables, options

    def check(value: tuple[bytes, bytes, dict[str, str], list[str]]) -> None:
        content, record, variables, options = value
        machine.state.mkdir(parents=True, exist_ok=True)
        (machine.state / "trusted.json").write_bytes(record)
        machine.project_file.write_bytes(content)
        machine.environ = {"HOME": machine.environ["HOME"]} | variables
        with suppress(JobtopError):
            machine.trust()
        load_rule_set(machine.load(*options))

    fuzz("configuration", generate, check, count)
