"""Every setting, one row each, the kinds of values, and the layers a value comes from.

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
Kind = Callable[[object], Value]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path
    from typing import TypeVar

    Typed = TypeVar("Typed")

SHORTEST_INTERVAL_SECONDS = 0.1
BY_DEFAULT = "default"
FOREVER = "forever"


def boolean(raw: object) -> bool:
    """true or false, in a few spellings."""
    word = raw.strip().lower() if isinstance(raw, str) else raw
    if word in ("true", "yes", "on", "1", True):
        return True
    if word in ("false", "no", "off", "0", False):
        return False
    raise BadValue(f"{quoted(raw)} is not true or false")


def switch(raw: object) -> bool | None:
    """true, false, or None for auto."""
    if _is_auto(raw):
        return None
    try:
        return boolean(raw)
    except BadValue:
        raise BadValue(f"{quoted(raw)} is not auto, true or false") from None


def duration(raw: object) -> float:
    """Seconds, from text or a plain number."""
    return parse_duration(_number_text(raw, "a duration"))


def interval(raw: object) -> float | None:
    """Seconds between samples, or None for auto."""
    if _is_auto(raw):
        return None
    seconds = duration(raw)
    if seconds < SHORTEST_INTERVAL_SECONDS:
        raise BadValue(f"{quoted(raw)} is too short (the shortest interval is {SHORTEST_INTERVAL_SECONDS}s)")
    return seconds


def lasting(raw: object) -> float:
    """Seconds, without end for `forever`."""
    if isinstance(raw, str) and raw.strip().lower() == FOREVER:
        return float("inf")
    try:
        seconds = duration(raw)
    except BadValue:
        hint = did_you_mean(raw, [FOREVER]) if isinstance(raw, str) else ""
        raise BadValue(f"{quoted(raw)} is neither {FOREVER} nor a duration such as 90d{hint}") from None
    written = str(raw).strip()
    if not written[-1].isalpha():
        raise BadValue(f'{quoted(raw)} has no unit (for days: "{written}d")')
    return seconds


def size(raw: object) -> int:
    """Bytes, from text or a plain number."""
    return parse_size(_number_text(raw, "a size"))


def level(raw: object) -> float:
    """Any finite number."""
    try:
        value = float(_number_text(raw, "a number"))
    except ValueError:
        value = float("nan")
    if not abs(value) < float("inf"):
        raise BadValue(f"{quoted(raw)} is not a number")
    return value


def number(raw: object) -> float:
    """A number that counts something: not below 0."""
    value = level(raw)
    if value < 0:
        raise BadValue(f"{quoted(raw)} is below 0")
    return value


def ratio(raw: object) -> float:
    """A share: more than 0, at most 1; `1%` is 0.01."""
    text = _number_text(raw, "a number").strip()
    value = number(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    if not 0 < value <= 1:
        raise BadValue(f"{quoted(raw)} is not a share (more than 0, at most 1)")
    return value


def text(raw: object) -> str:
    """Text that is not empty."""
    if not isinstance(raw, str) or not raw or "\0" in raw:
        raise BadValue(f"{quoted(raw)} is not a text")
    return raw


def texts(raw: object) -> tuple[str, ...]:
    """A list of texts, or one text with commas."""
    if isinstance(raw, str):
        return tuple(part.strip() for part in raw.split(",") if part.strip())
    if not isinstance(raw, list):
        raise BadValue(f"{quoted(raw)} is not a list")
    return tuple(map(text, raw))


def patterns(raw: object) -> tuple[str, ...]:
    """A list of regular expressions, or one: an expression may have commas."""
    found = ((raw,) if raw else ()) if isinstance(raw, str) else texts(raw)
    for pattern in found:
        from jobtop.core.patterns import compiled

        try:
            compiled(pattern)
        except BadValue as error:
            raise BadValue(f"{quoted(pattern)} {error}") from None
    return found


def choice(*names: str) -> Kind:
    """One of these names."""

    def read(raw: object) -> str:
        word = raw.strip() if isinstance(raw, str) else raw
        if word not in names or not isinstance(word, str):
            raise BadValue(f"{quoted(raw)} is not one of {', '.join(names)}{did_you_mean(str(word), names)}")
        return word

    return read


def several(*names: str) -> Kind:
    """Any of these names."""
    one = choice(*names)

    def read(raw: object) -> tuple[str, ...]:
        found = texts(raw)
        for name in found:
            one(name)
        return found

    return read


def metric(raw: object) -> str:
    """A key of the catalogue."""
    from jobtop.core.metrics import find_metric

    return find_metric(text(raw)).key


@record
class Setting:
    """One key a user can set; its default is written as a user would."""

    key: str
    kind: Kind
    default: str
    doc: str

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return f"JOBTOP_{self.key.replace('.', '_').upper()}"


_MEASURES = ("pss", "fds", "snapshots", "gpu", "net", "cgroup", "pressure", "host")
_COLLECTORS = ("nvidia", "amd", "intel", "drm", "rapl", "docker")
_KEPT = "SLURM_*,PBS_*,CUDA_VISIBLE_DEVICES"

SETTINGS: tuple[Setting, ...] = (
    Setting("monitor.enabled", boolean, "true", "take samples while a job runs"),
    Setting(
        "monitor.interval", interval, "auto", "time between samples; auto: 1 s, after an hour 5 s, after four 10 s"
    ),
    Setting("monitor.granularity", choice("time_series", "summary"), "time_series", "keep curves, or only totals"),
    Setting("monitor.budget", ratio, "0.01", "the share of one core that sampling may cost"),
    Setting("monitor.without", several(*_MEASURES, *_COLLECTORS), "", "what not to measure, such as pss,fds,gpu"),
    Setting(
        "run.ui",
        choice("auto", "always", "never"),
        "auto",
        "open the console for a job; auto: where there is a terminal",
    ),
    Setting("run.grace", duration, "10s", "the time between TERM and KILL when a job is stopped"),
    Setting(
        "run.after_exit", choice("leave", "wait", "kill"), "leave", "what happens to processes a job leaves behind"
    ),
    Setting("run.log_max", size, "256MiB", "the most output that is kept of a job"),
    Setting("run.keep_env", texts, _KEPT, "the environment variables recorded with a job"),
    Setting("run.redact", patterns, "", "regular expressions of what else to hide"),
    Setting("store.dir", text, "", "where the history is kept"),
    Setting("store.network", switch, "auto", "treat the store as on a network file system; auto: ask the kernel"),
    Setting("store.raw_days", number, "7", "the days that every sample of a job is kept"),
    Setting("store.rollup_days", number, "90", "the days that one sample a minute is kept; then the record alone"),
    Setting("store.spec_days", number, "30", "the days that a job can be run again exactly"),
    Setting("store.max_size", size, "2GiB", "the most disk space the history may take, output included; 0: any"),
    Setting("agent.idle", duration, "5m", "how long the agent waits for work before it ends"),
    Setting("cost.kwh", number, "0.30", "the price of a kilowatt-hour"),
    Setting("cost.co2_g_per_kwh", number, "350", "grams of CO2 per kilowatt-hour"),
    Setting("cost.cpu_hour", number, "0", "the price of a core for an hour"),
    Setting("cost.gib_hour", number, "0", "the price of a GiB of memory for an hour"),
    Setting("cost.gpu_hour", number, "0", "the price of a GPU for an hour"),
)
ALERT_FIELDS: Mapping[str, Kind] = {
    "name": text,
    "scope": choice("job", "gpu", "host", "container"),
    "metric": metric,
    "above": level,
    "below": level,
    "for": duration,
    "clear": level,
    "severity": choice("info", "warning", "critical"),
    "actions": texts,
}
RETENTION_FIELDS: Mapping[str, Kind] = {"tag": text, "keep": lasting}
BY_KEY = {setting.key: setting for setting in SETTINGS}
TABLES = ("keys", "alert", "retention")
SECTIONS = (*dict.fromkeys(setting.key.partition(".")[0] for setting in SETTINGS), *TABLES)


@record
class Alert:
    """One `[[alert]]` table: each field that was given, of the kind it has to be."""

    name: str
    fields: Mapping[str, Value]
    origin: str


@record
class KeepRule:
    """One `[[retention]]` table: how long jobs with a tag, `key` or `key=value`, stay whole after their end."""

    tag: str
    seconds: float
    origin: str
    written: str = ""


@record
class Entry:
    """One value as it was found: `base` is what a relative path in it is relative to."""

    key: str
    raw: object
    origin: str
    base: str


@record
class FromFiles:
    """What the configuration files set, the weakest first; `ignored` needs trust, each with key, value and file."""

    entries: tuple[Entry, ...] = ()
    alerts: tuple[Alert, ...] = ()
    retention: tuple[KeepRule, ...] = ()
    keys: Mapping[str, tuple[str, ...]] = fresh(default_factory=dict)
    ignored: tuple[tuple[str, str, str], ...] = ()
    notices: tuple[str, ...] = ()


@record
class Config:
    """What was set and by whom; everything else has its default."""

    values: Mapping[str, Value]
    entries: Mapping[str, Entry]
    alerts: tuple[Alert, ...] = ()
    retention: tuple[KeepRule, ...] = ()
    keys: Mapping[str, tuple[str, ...]] = fresh(default_factory=dict)
    ignored: tuple[tuple[str, str, str], ...] = ()
    notices: tuple[str, ...] = ()

    def value(self, key: str) -> Value:
        """The value of any setting; None is `auto`."""
        setting = find_setting(key)
        return self.values[key] if key in self.values else setting.kind(setting.default)

    def origin(self, key: str) -> str:
        """The file, variable or option that set it, or `default`."""
        return self.entries[key].origin if key in self.entries else BY_DEFAULT

    def rows(self) -> list[tuple[str, str, str]]:
        """Key, value as a user would write it, and origin of every setting, in order."""
        return [(key, self._written(key), self.origin(key)) for key in BY_KEY]

    def boolean(self, key: str) -> bool:
        """A setting that is on or off."""
        return self._typed(key, bool)

    def switch(self, key: str) -> bool | None:
        """A setting that is on, off, or None: auto."""
        return None if self.value(key) is None else self._typed(key, bool)

    def duration(self, key: str) -> float:
        """A setting in seconds."""
        return self._typed(key, float)

    def interval(self, key: str) -> float | None:
        """A setting in seconds, or None: auto."""
        return None if self.value(key) is None else self._typed(key, float)

    def number(self, key: str) -> float:
        """A plain number or a share."""
        return self._typed(key, float)

    def size(self, key: str) -> int:
        """A setting in bytes."""
        return self._typed(key, int)

    def text(self, key: str) -> str:
        """A name or a path."""
        return self._typed(key, str)

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts."""
        return self._typed(key, tuple)

    def _typed(self, key: str, wanted: type[Typed]) -> Typed:
        value = self.value(key)
        if type(value) is not wanted:
            raise TypeError(f"{key} is {value!r}, not of type {wanted.__name__}")
        return value

    def _written(self, key: str) -> str:
        if key not in self.entries:
            return BY_KEY[key].default
        raw, value = self.entries[key].raw, self.values[key]
        if isinstance(value, str | tuple):
            return printable(value if isinstance(value, str) else ",".join(value))
        return printable(raw) if isinstance(raw, str) else str(raw).lower()


def load(cli_sets: Iterable[str], environ: Mapping[str, str], cwd: str | Path, root: str | Path = "/") -> Config:
    """Every layer, the strongest last word; `root` is where `etc` is. Raises ConfigError for what is wrong."""
    files = FromFiles()
    base = os.fspath(cwd)
    names = config_files(environ, base, os.fspath(root))
    if any(map(_may_exist, names)):
        from pathlib import Path

        from jobtop.core.config_files import read_files

        files = read_files([Path(name) for name in names], environ)
    entries = [*files.entries, *_environment_entries(environ, base)]
    entries += [_option_entry(assignment, base) for assignment in cli_sets]
    if not any(entry.key == "store.dir" for entry in entries):
        chosen_by = "JOBTOP_HOME" if environ.get("JOBTOP_HOME") else BY_DEFAULT
        entries.append(Entry("store.dir", state_dir(environ), chosen_by, base))
    values = {entry.key: entry_value(entry, environ) for entry in entries}
    by_key = {entry.key: entry for entry in entries}
    return Config(values, by_key, files.alerts, files.retention, files.keys, files.ignored, files.notices)


def _may_exist(path: str) -> bool:
    """Whether something has that name, or nobody may tell."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def _environment_entries(environ: Mapping[str, str], cwd: str) -> Iterator[Entry]:
    variables = {setting.variable: setting for setting in SETTINGS}
    sections = tuple(f"JOBTOP_{section.upper()}_" for section in SECTIONS if section not in TABLES)
    for name, raw in environ.items():
        if name in variables and raw:
            yield Entry(variables[name].key, raw, name, cwd)
        elif name not in variables and name.startswith(sections):
            raise ConfigError(f"{printable(name)}: unknown setting{did_you_mean(name, variables)}")


def _option_entry(assignment: str, cwd: str) -> Entry:
    key, equals, raw = assignment.partition("=")
    if not equals:
        raise ConfigError(f"--set: {quoted(assignment)} has no value (use KEY=VALUE)")
    return Entry(find_setting(key.strip(), "--set: ").key, raw, "--set", cwd)


def check_setting(key: str, raw: str) -> str:
    """What would set it, unchanged; BadValue if it cannot."""
    find_setting(key).kind(raw)
    return raw


def find_setting(key: str, place: str = "") -> Setting:
    if key not in BY_KEY:
        raise ConfigError(f"{place}{printable(key)}: unknown key{did_you_mean(key, BY_KEY)}")
    return BY_KEY[key]


def entry_value(entry: Entry, environ: Mapping[str, str]) -> Value:
    value = read_value(BY_KEY[entry.key].kind, entry.raw, f"{entry.origin}: {entry.key}")
    if entry.key == "store.dir" and isinstance(value, str):
        return absolute_path(value, entry.base, environ)
    return value


def read_value(kind: Kind, raw: object, place: str) -> Value:
    try:
        return kind(raw)
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
    """A value as an error message shows it."""
    if isinstance(raw, str):
        return f'"{printable(raw if len(raw) <= 60 else raw[:59] + "…")}"'
    if isinstance(raw, list | dict):
        return "a list" if isinstance(raw, list) else "a table"
    # str() of an integer of more than 4300 digits raises ValueError.
    is_huge = isinstance(raw, int) and abs(raw) >= 2**64
    return "a huge number" if is_huge else str(raw).lower()
