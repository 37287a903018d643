"""Every setting, one row each, the parsers of their values, and the layers that values come from.

`--set KEY=VALUE` > `JOBTOP_SECTION_KEY` > `./jobtop.toml` > the user's `config.toml` > `/etc/jobtop/config.toml`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping

from jobtop.core.errors import BadValue, ConfigError, did_you_mean
from jobtop.core.paths import absolute_path, config_files, state_dir
from jobtop.core.record import fresh, record
from jobtop.core.units import parse_duration, parse_size, printable

Value = bool | int | float | str | tuple[str, ...] | None
ValueParser = Callable[[object], Value]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path
    from typing import TypeVar

    Typed = TypeVar("Typed")

SHORTEST_INTERVAL_SECONDS = 0.1
DEFAULT_ORIGIN = "default"
FOREVER = "forever"
LONGEST_NAME = 60


def boolean(raw: object) -> bool:
    """Parse true or false, in a few spellings."""
    word = raw.strip().lower() if isinstance(raw, str) else raw
    if word in ("true", "yes", "on", "1", True):
        return True
    if word in ("false", "no", "off", "0", False):
        return False
    raise BadValue(f"{quoted(raw)} is not true or false")


def switch(raw: object) -> bool | None:
    """Parse true or false; None for auto."""
    if _is_auto(raw):
        return None
    try:
        return boolean(raw)
    except BadValue:
        raise BadValue(f"{quoted(raw)} is not auto, true or false") from None


def duration(raw: object) -> float:
    """Parse a duration, as text or as a plain number, into seconds."""
    return parse_duration(_number_text(raw, "a duration"))


def interval(raw: object) -> float | None:
    """Parse the time between samples into seconds; None for auto."""
    if _is_auto(raw):
        return None
    seconds = duration(raw)
    if seconds < SHORTEST_INTERVAL_SECONDS:
        raise BadValue(f"{quoted(raw)} is too short (the shortest interval is {SHORTEST_INTERVAL_SECONDS}s)")
    return seconds


def retention_time(raw: object) -> float:
    """Parse how long data is kept into seconds; `forever` is infinity."""
    if isinstance(raw, str) and raw.strip().lower() == FOREVER:
        return float("inf")
    try:
        seconds = duration(raw)
    except BadValue:
        hint = did_you_mean(raw, [FOREVER]) if isinstance(raw, str) else ""
        raise BadValue(f"{quoted(raw)} is neither {FOREVER} nor a duration such as 90d{hint}") from None
    plain = str(raw).strip()
    if not plain[-1].isalpha():
        raise BadValue(f'{quoted(raw)} has no unit (for days: "{plain}d")')
    return seconds


def size(raw: object) -> int:
    """Parse a size, as text or as a plain number, into bytes."""
    return parse_size(_number_text(raw, "a size"))


def finite_number(raw: object) -> float:
    """Parse any finite number."""
    try:
        value = float(_number_text(raw, "a number"))
    except ValueError:
        value = float("nan")
    if not abs(value) < float("inf"):
        raise BadValue(f"{quoted(raw)} is not a number")
    return value


def non_negative_number(raw: object) -> float:
    """Parse a finite number that is not below 0."""
    value = finite_number(raw)
    if value < 0:
        raise BadValue(f"{quoted(raw)} is below 0")
    return value


def ratio(raw: object) -> float:
    """Parse a share above 0 and at most 1; `1%` is 0.01."""
    text = _number_text(raw, "a number").strip()
    value = non_negative_number(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    if not 0 < value <= 1:
        raise BadValue(f"{quoted(raw)} is not a share (more than 0, at most 1)")
    return value


def text(raw: object) -> str:
    """Check that a value is text, and not empty."""
    if not isinstance(raw, str) or not raw or "\0" in raw:
        raise BadValue(f"{quoted(raw)} is not a text")
    return raw


def texts(raw: object) -> tuple[str, ...]:
    """Parse a list of texts, or one text with commas."""
    if isinstance(raw, str):
        return tuple(part.strip() for part in raw.split(",") if part.strip())
    if not isinstance(raw, list):
        raise BadValue(f"{quoted(raw)} is not a list")
    return tuple(map(text, raw))


def short_text(raw: object) -> str:
    """Check that a value is a short text in one line; it may be empty."""
    if not isinstance(raw, str) or not (raw.isprintable() and len(raw) <= LONGEST_NAME):
        raise BadValue(f"{quoted(raw)} is not a text of at most {LONGEST_NAME} characters")
    return raw.strip()


def prices(raw: object) -> tuple[str, ...]:
    """Parse names with prices, a table or a list of NAME=PRICE, into texts of that form."""
    pairs = [*_flat_pairs(raw)] if isinstance(raw, dict) else [entry.rpartition("=")[::2] for entry in texts(raw)]
    for name, price in pairs:
        if not short_text(name):
            raise BadValue(f"{quoted(price)} has no name (use NAME=PRICE)")
        non_negative_number(price)
    return tuple(f"{name}={price}" for name, price in pairs)


def _flat_pairs(table: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Yield names and values of a table: without quotes, `m5.large` is a table in a table."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flat_pairs(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def quiet_hours(raw: object) -> str:
    """Check a daily time such as `22:00-07:00`; it may be empty, and it may pass midnight."""
    word = short_text(raw)
    ends = [part.partition(":") for part in word.split("-")]
    if word and not (len(ends) == 2 and all(_is_time(hour, minute) for hour, _, minute in ends)):
        raise BadValue(f"{quoted(raw)} is not a time of the day such as 22:00-07:00")
    return word


def _is_time(hour: str, minute: str) -> bool:
    is_digits = hour.isascii() and minute.isascii() and hour.isdigit() and minute.isdigit()
    return is_digits and len(hour) <= 2 and len(minute) == 2 and int(hour) < 24 and int(minute) < 60


def shown_action(word: str) -> str:
    """Return an action as verbs show it: of `webhook:ADDRESS`, which may be a secret, only `webhook`."""
    name, _, _ = word.partition(":")
    return word if name in ("signal", "interval") else name


def patterns(raw: object) -> tuple[str, ...]:
    """Parse a list of regular expressions, or a single one, which may contain commas."""
    found = ((raw,) if raw else ()) if isinstance(raw, str) else texts(raw)
    for pattern in found:
        from jobtop.core.patterns import compile_pattern

        try:
            compile_pattern(pattern)
        except BadValue as error:
            raise BadValue(f"{quoted(pattern)} {error}") from None
    return found


def choice(*names: str) -> ValueParser:
    """Return a parser that accepts one of these names."""

    def read(raw: object) -> str:
        word = raw.strip() if isinstance(raw, str) else raw
        if word not in names or not isinstance(word, str):
            raise BadValue(f"{quoted(raw)} is not one of {', '.join(names)}{did_you_mean(str(word), names)}")
        return word

    return read


def choices(*names: str) -> ValueParser:
    """Return a parser that accepts a list of these names."""
    check_one = choice(*names)

    def read(raw: object) -> tuple[str, ...]:
        found = texts(raw)
        for name in found:
            check_one(name)
        return found

    return read


@record
class Setting:
    """One key that a user can set; its default is text, as a user would write it.

    With `is_used` False the key is accepted and checked, and has no effect yet.
    """

    key: str
    parse: ValueParser
    default: str
    doc: str
    is_used: bool = True

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return f"JOBTOP_{self.key.replace('.', '_').upper()}"


# The names that monitor.without accepts, with what each leaves out; None: accepted, but nothing measures that yet.
MEASUREMENTS: Mapping[str, str | None] = {
    "cgroup": "the cgroup of each job, and all that it counts",
    "pss": "memory with shared pages counted once (then `mem.used` of several processes is known only from a cgroup)",
    "fds": "the number of open files",
    "files": "the files that a job reads and writes most, in its record",
    "snapshots": "the lists of processes",
    "threads": "the busiest threads in the lists of processes",
    "pressure": "the kernel's stall times of jobs",
    "host": "the samples of the machine",
    "devices": "the space of each disk, NUMA nodes, temperatures, fans and batteries",
    "gpu": "all GPUs",
    "nvidia": "NVIDIA's GPUs",
    "rapl": "the energy of the CPU",
    "amd": "AMD's GPUs",
    "intel": "Intel's GPUs",
    "drm": "all GPUs but NVIDIA's",
    "network": "the network traffic of each job",
    "net": "the same as `network`",
    **dict.fromkeys(("docker",)),
}
_KEEP_ENV_DEFAULT = "SLURM_*,PBS_*,CUDA_VISIBLE_DEVICES"

SETTINGS: tuple[Setting, ...] = (
    Setting("monitor.enabled", boolean, "true", "take samples while a job runs"),
    Setting(
        "monitor.interval", interval, "auto", "time between samples; auto: 1 s, after an hour 5 s, after four 10 s"
    ),
    Setting("monitor.granularity", choice("time_series", "summary"), "time_series", "keep curves, or only totals"),
    Setting(
        "monitor.budget",
        ratio,
        "0.01",
        "the share of one core that sampling may use; 0.05 for jobs with an interval that was asked for",
    ),
    Setting("monitor.without", choices(*MEASUREMENTS), "", "what not to measure, such as pss,fds,gpu"),
    Setting(
        "run.ui",
        choice("auto", "always", "never"),
        "auto",
        "open the console for a job; auto: where there is a terminal",
    ),
    Setting(
        "run.when_done",
        choice("auto", "stay", "leave"),
        "auto",
        "close the console when the job of `jobtop run` ends; auto: unless a key was pressed",
    ),
    Setting(
        "run.pty",
        choice("auto", "always", "never"),
        "auto",
        "give a job its own terminal: if standard output is one (auto), always, or never",
    ),
    Setting("run.unbuffer", boolean, "true", "set PYTHONUNBUFFERED=1 for queued and detached jobs"),
    Setting("run.grace", duration, "10s", "the time between SIGTERM and SIGKILL when a job is stopped"),
    Setting(
        "run.after_exit", choice("leave", "wait", "kill"), "leave", "what happens to processes that outlive the job"
    ),
    Setting("run.log_max", size, "256MiB", "the largest size of a job's kept output"),
    Setting("run.keep_env", texts, _KEEP_ENV_DEFAULT, "the environment variables recorded with a job"),
    Setting("run.redact", patterns, "", "regular expressions of other text to hide"),
    Setting("store.dir", text, "", "where the history is kept"),
    Setting("store.network", switch, "auto", "treat the store as on a network file system; auto: ask the kernel"),
    Setting("store.raw_days", non_negative_number, "7", "how many days every sample of a job is kept"),
    Setting(
        "store.rollup_days",
        non_negative_number,
        "90",
        "how many days one sample per minute is kept; then only the record",
    ),
    Setting("store.spec_days", non_negative_number, "30", "how many days the exact command and environment are kept"),
    Setting("store.max_size", size, "2GiB", "the largest size of the history, output included; 0: no limit"),
    Setting("agent.idle", duration, "5m", "how long the agent waits for work before it exits"),
    Setting("cost.kwh", non_negative_number, "0.30", "the price of a kilowatt-hour; without effect until it is set"),
    Setting("cost.co2_g_per_kwh", non_negative_number, "350", "grams of CO2 per kilowatt-hour"),
    Setting("cost.cpu_hour", non_negative_number, "0", "the price of a core for an hour"),
    Setting("cost.gib_hour", non_negative_number, "0", "the price of a GiB of memory for an hour"),
    Setting("cost.gpu_hour", non_negative_number, "0", "the price of a GPU for an hour"),
    Setting("cost.watts_per_core", non_negative_number, "0", "estimate energy that is not measured: watts of a core"),
    Setting("cost.currency", short_text, "", "the currency of the prices, such as EUR"),
    Setting("cost.instance", short_text, "", "the machine in cost.prices that jobs pay for as a whole"),
    Setting("cost.prices", prices, "", "prices of machines for an hour, such as m5.large=0.096"),
    Setting("alerts.enabled", boolean, "true", "evaluate alert rules"),
    Setting("alerts.off", texts, "", "the names of rules that are switched off, such as io-wait,gpu-underused"),
    Setting("alerts.actions", texts, "", "the actions of rules of severity warning and critical that name none"),
    Setting("alerts.group_wait", duration, "30s", "how long a message waits for others of the same rule"),
    Setting("alerts.repeat", duration, "4h", "how often the message of an open alert is sent again; 0: never"),
    Setting(
        "alerts.quiet_hours",
        quiet_hours,
        "",
        "when only critical alerts send messages, such as 22:00-07:00 (local time)",
    ),
    Setting("alerts.give_up", duration, "24h", "how long a message that cannot be delivered is tried again"),
)
RETENTION_FIELDS: Mapping[str, ValueParser] = {"tag": text, "keep": retention_time}
BY_KEY = {setting.key: setting for setting in SETTINGS}
TABLES = ("keys", "alert", "action", "retention", "tool")
SECTIONS = (*dict.fromkeys(setting.key.partition(".")[0] for setting in SETTINGS), *TABLES)


@record
class Alert:
    """One `[[alert]]` table as it stands in a file; core/alerts/ checks its fields when the rules are needed.

    `label` names it in messages. A rule of a project's file is for jobs in its `directory`.
    """

    name: str
    fields: Mapping[str, object]
    origin: str
    label: str = ""
    is_trusted: bool = True
    directory: str | None = None


@record
class ActionTable:
    """One `[[action]]` table as it stands in a file; core/alerts/ checks its fields when the actions are needed."""

    name: str
    fields: Mapping[str, object]
    origin: str
    label: str = ""


@record
class ToolTable:
    """One `[[tool]]` table as it stands in a file; core/run/tools.py checks its fields when the tool is needed."""

    name: str
    fields: Mapping[str, object]
    origin: str
    label: str = ""


@record
class RetentionRule:
    """One `[[retention]]` table: how long all data of jobs with a tag (`key` or `key=value`) is kept after they end."""

    tag: str
    seconds: float
    origin: str
    text: str = ""


@record
class ConfigEntry:
    """One value as it was found, with its origin; a relative path in it is relative to `base`."""

    key: str
    raw: object
    origin: str
    base: str


@record
class FileSettings:
    """What the configuration files set, weakest first; `ignored` has key, value and file of what needs trust."""

    entries: tuple[ConfigEntry, ...] = ()
    alerts: tuple[Alert, ...] = ()
    retention: tuple[RetentionRule, ...] = ()
    keys: Mapping[str, tuple[str, ...]] = fresh(default_factory=dict)
    ignored: tuple[tuple[str, str, str], ...] = ()
    notices: tuple[str, ...] = ()
    actions: tuple[ActionTable, ...] = ()
    tools: tuple[ToolTable, ...] = ()


@record
class Config:
    """The values that were set, with their origins; every other setting has its default.

    `alerts`, `actions` and `tools` are tables of files, weakest first, not checked yet: see `core/alerts/rule_set.py`
    and `core/run/tools.py`.
    `load_again` reads the same layers once more.
    """

    values: Mapping[str, Value]
    entries: Mapping[str, ConfigEntry]
    alerts: tuple[Alert, ...] = ()
    retention: tuple[RetentionRule, ...] = ()
    keys: Mapping[str, tuple[str, ...]] = fresh(default_factory=dict)
    ignored: tuple[tuple[str, str, str], ...] = ()
    notices: tuple[str, ...] = ()
    actions: tuple[ActionTable, ...] = ()
    files: tuple[str, ...] = ()
    load_again: Callable[[], Config] | None = None
    tools: tuple[ToolTable, ...] = ()

    def value(self, key: str) -> Value:
        """Return the value of any setting; None is `auto`."""
        setting = find_setting(key)
        return self.values[key] if key in self.values else setting.parse(setting.default)

    def origin(self, key: str) -> str:
        """Return the file, variable or option that set a key, or `default`."""
        return self.entries[key].origin if key in self.entries else DEFAULT_ORIGIN

    def is_set(self, key: str) -> bool:
        """Return whether a file, a variable or an option sets this key."""
        return key in self.entries

    @property
    def has_own_rules(self) -> bool:
        """Whether the user has set any alert rules, actions, or rules that are off."""
        return bool(self.alerts or self.actions or self.is_set("alerts.off") or self.is_set("alerts.actions"))

    def rows(self) -> list[tuple[str, str, str]]:
        """Return key, value as a user would write it, and origin of every setting, in order."""
        return [(key, self._value_text(key), self.origin(key)) for key in BY_KEY]

    def boolean(self, key: str) -> bool:
        """Return a setting that is on or off."""
        return self._typed(key, bool)

    def switch(self, key: str) -> bool | None:
        """Return a setting that is on or off; None for auto."""
        return None if self.value(key) is None else self._typed(key, bool)

    def duration(self, key: str) -> float:
        """Return a setting in seconds."""
        return self._typed(key, float)

    def interval(self, key: str) -> float | None:
        """Return a setting in seconds; None for auto."""
        return None if self.value(key) is None else self._typed(key, float)

    def number(self, key: str) -> float:
        """Return a plain number or a share."""
        return self._typed(key, float)

    def size(self, key: str) -> int:
        """Return a setting in bytes."""
        return self._typed(key, int)

    def text(self, key: str) -> str:
        """Return a name or a path."""
        return self._typed(key, str)

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of texts."""
        return self._typed(key, tuple)

    def _typed(self, key: str, wanted: type[Typed]) -> Typed:
        value = self.value(key)
        if type(value) is not wanted:
            raise TypeError(f"{key} is {value!r}, not of type {wanted.__name__}")
        return value

    def _value_text(self, key: str) -> str:
        if key not in self.entries:
            return BY_KEY[key].default
        raw, value = self.entries[key].raw, self.values[key]
        if key == "alerts.actions" and isinstance(value, tuple):
            return printable(",".join(map(shown_action, value)))
        if isinstance(value, str | tuple):
            return printable(value if isinstance(value, str) else ",".join(value))
        return printable(raw) if isinstance(raw, str) else str(raw).lower()


def load(cli_sets: Iterable[str], environ: Mapping[str, str], cwd: str | Path, root: str | Path = "/") -> Config:
    """Read all layers, of which the strongest wins; `root` is where `etc` is. Raises ConfigError for a wrong value."""
    files = FileSettings()
    base = os.fspath(cwd)
    names = config_files(environ, base, os.fspath(root))
    if any(map(_may_exist, names)):
        from pathlib import Path

        from jobtop.core.config_files import read_files

        files = read_files([Path(name) for name in names], environ)
    entries = [*files.entries, *_environment_entries(environ, base)]
    cli_sets = tuple(cli_sets)
    entries += [_option_entry(assignment, base) for assignment in cli_sets]
    if not any(entry.key == "store.dir" for entry in entries):
        chosen_by = "JOBTOP_HOME" if environ.get("JOBTOP_HOME") else DEFAULT_ORIGIN
        entries.append(ConfigEntry("store.dir", state_dir(environ), chosen_by, base))
    values = {entry.key: parse_entry(entry, environ) for entry in entries}
    by_key = {entry.key: entry for entry in entries}
    return Config(
        *(values, by_key, files.alerts, files.retention, files.keys, files.ignored, files.notices, files.actions),
        files=(*names, f"{state_dir(environ)}/trusted.json"),
        load_again=lambda: load(cli_sets, environ, cwd, root),
        tools=files.tools,
    )


def _may_exist(path: str) -> bool:
    """Return whether a path exists, or may exist in a directory that cannot be searched."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def _environment_entries(environ: Mapping[str, str], cwd: str) -> Iterator[ConfigEntry]:
    variables = {setting.variable: setting for setting in SETTINGS}
    sections = tuple(f"JOBTOP_{section.upper()}_" for section in SECTIONS if section not in TABLES)
    for name, raw in environ.items():
        if name in variables and raw:
            yield ConfigEntry(variables[name].key, raw, name, cwd)
        elif name not in variables and name.startswith(sections):
            raise ConfigError(f"{printable(name)}: unknown setting{did_you_mean(name, variables)}")


def _option_entry(assignment: str, cwd: str) -> ConfigEntry:
    key, equals, raw = assignment.partition("=")
    if not equals:
        raise ConfigError(f"--set: {quoted(assignment)} has no value (use KEY=VALUE)")
    return ConfigEntry(find_setting(key.strip(), "--set: ").key, raw, "--set", cwd)


def check_setting(key: str, raw: str) -> str:
    """Return the text unchanged if it is a valid value of the setting; BadValue if not."""
    find_setting(key).parse(raw)
    return raw


def find_setting(key: str, place: str = "") -> Setting:
    if key not in BY_KEY:
        raise ConfigError(f"{place}{printable(key)}: unknown key{did_you_mean(key, BY_KEY)}")
    return BY_KEY[key]


def parse_entry(entry: ConfigEntry, environ: Mapping[str, str]) -> Value:
    value = parse_value(BY_KEY[entry.key].parse, entry.raw, f"{entry.origin}: {entry.key}")
    if entry.key == "store.dir" and isinstance(value, str):
        return absolute_path(value, entry.base, environ)
    return value


def parse_value(parse: ValueParser, raw: object, place: str) -> Value:
    try:
        return parse(raw)
    except BadValue as error:
        raise ConfigError(f"{place}: {error}") from error


def _is_auto(raw: object) -> bool:
    return isinstance(raw, str) and raw.strip().lower() == "auto"


def _number_text(raw: object, wanted: str) -> str:
    if isinstance(raw, str):
        return raw
    if isinstance(raw, bool) or not isinstance(raw, int | float):
        raise BadValue(f"{quoted(raw)} is not {wanted}")
    return quoted(raw)


def quoted(raw: object) -> str:
    """Return a value as error messages show it."""
    if isinstance(raw, str):
        return f'"{printable(raw if len(raw) <= 60 else raw[:59] + "…")}"'
    if isinstance(raw, list | dict):
        return "a list" if isinstance(raw, list) else "a table"
    # str() of an integer of more than 4300 digits raises ValueError.
    is_huge = isinstance(raw, int) and abs(raw) >= 2**64
    return "a huge number" if is_huge else str(raw).lower()
