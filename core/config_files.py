"""Reads the configuration files, and decides how much of `./jobtop.toml` applies before the user trusts it.

Any directory may contain a `jobtop.toml`, also one that another user made. Until it is trusted, only harmless settings
apply: see `UNTRUSTED_KEYS`. Everything else in it, and every error in it, becomes a notice and stops nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from jobtop.core.config import (
    BY_KEY,
    RETENTION_FIELDS,
    SECTIONS,
    TABLES,
    ActionTable,
    Alert,
    ConfigEntry,
    FileSettings,
    RetentionRule,
    ToolTable,
    Value,
    ValueParser,
    find_setting,
    parse_entry,
    parse_value,
    quoted,
    retention_time,
    texts,
)
from jobtop.core.errors import BadValue, ConfigError, did_you_mean
from jobtop.core.paths import config_files, state_dir
from jobtop.core.plain_files import UnsafeFile, read_plain
from jobtop.core.record import record, replace
from jobtop.core.trust import is_trusted_content, trust
from jobtop.core.units import printable

MAX_FILE_BYTES = 128 * 1024
MAX_KEY_DOTS = 64  # in the keys of one line: tomllib's time grows with their square
MAX_NAMED_KEYS = 6
MAX_NAME_LENGTH = 60
# And `[[alert]]` without actions and without steps that act on the job.
UNTRUSTED_KEYS = ("run.ui", *(key for key in BY_KEY if key.startswith("cost.")))
REMEDY = "jobtop config trust"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jobtop.core.alerts.rule_set import RuleChange

Tables = Mapping[str, object]


@record
class Document:
    """One existing configuration file; `is_trusted` says whether all of it applies."""

    path: Path
    tables: Tables
    is_trusted: bool = True


def read_files(paths: Sequence[Path], environ: Mapping[str, str]) -> FileSettings:
    """Read all files; the paths are ordered from the strongest, the project's file, to the weakest, the system's."""
    notices: list[str] = []
    project, *trusted = paths
    documents = [
        document
        for path in reversed(trusted)
        if (document := _trusted_document(path, path == paths[-1], notices)) is not None
    ]
    found = [_settings_of(document) for document in documents]
    if (document := _project_document(project, environ, notices)) is not None:
        known = {alert.name for part in found for alert in part.alerts}
        found.append(
            _of_project(_settings_of(document), project)
            if document.is_trusted
            else _untrusted_settings(document, environ, known)
        )
    return FileSettings(
        tuple(entry for part in found for entry in part.entries),
        tuple(alert for part in found for alert in part.alerts),
        tuple(rule for part in found for rule in part.retention),
        {name: keys for part in found for name, keys in part.keys.items()},
        tuple(row for part in found for row in part.ignored),
        (*notices, *(notice for part in found for notice in part.notices)),
        tuple(action for part in found for action in part.actions),
        tuple(tool for part in found for tool in part.tools),
    )


def _of_project(settings: FileSettings, path: Path) -> FileSettings:
    """Return settings with alerts that are for jobs in the directory of the project."""
    alerts = tuple(replace(alert, directory=str(path.parent)) for alert in settings.alerts)
    return replace(settings, alerts=alerts)


@record
class ProjectChanges:
    """What a trusted file of a project does: the rules of others that it changes, its settings and its actions.

    `settings` need trust. `replaced` are those of the `actions` that a weaker file has under the same name.
    """

    rules: tuple[RuleChange, ...] = ()
    settings: tuple[str, ...] = ()
    actions: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()


def trust_project(path: Path, environ: Mapping[str, str], root: str = "/") -> ProjectChanges:
    """Trust a project's file as it is now; return what it changes.

    ConfigError if anything in it is wrong. `root` is where `etc` is.
    """
    from jobtop.core.alerts.rule_set import rule_changes, table_problems
    from jobtop.core.run.tools import tool_problems

    parts = _weaker_settings(path, environ, root)
    weaker = [alert for part in parts for alert in part.alerts]
    known = {action.name for part in parts for action in part.actions}
    changes: list[ProjectChanges] = []

    def check(content: bytes) -> None:
        problems: list[str] = []
        found = _settings_of(Document(path, parse_toml(path, content)), problems)
        for entry in found.entries:
            parse_entry(entry, environ)
        problems += table_problems(found.alerts, found.actions, weaker)
        problems += tool_problems(found.tools, environ)
        if problems:
            raise ConfigError(problems[0])
        settings = [entry.key for entry in found.entries if entry.key not in UNTRUSTED_KEYS]
        settings += [f"[{name}]" for name, said in (("keys", found.keys), ("[retention]", found.retention)) if said]
        settings += [f"[[tool]] {tool.name}" for tool in found.tools]
        names = tuple(action.name for action in found.actions)
        rules = tuple(rule_changes(found.alerts, weaker))
        replaced = tuple(name for name in names if name in known)
        changes.append(ProjectChanges(rules, tuple(settings), names, replaced))

    try:
        trust(path, Path(state_dir(environ)), MAX_FILE_BYTES, check)
    except UnsafeFile as unsafe:
        raise ConfigError(f"{path}: {unsafe}") from unsafe
    return changes[-1]


def _weaker_settings(path: Path, environ: Mapping[str, str], root: str) -> list[FileSettings]:
    """Return the settings of the files that a project's file is stronger than, the weakest first."""
    _, *names = config_files(environ, str(path.parent), root)
    documents = (_trusted_document(Path(name), name == names[-1], []) for name in reversed(names))
    return [_settings_of(document) for document in documents if document is not None]


def _trusted_document(path: Path, is_of_system: bool, notices: list[str]) -> Document | None:
    """Read a file of the user or of the system, in which any problem is an error; None if it does not exist.

    The owner of a file below /etc is not checked: only root can put it there, and in a user namespace root is not
    user 0.
    """
    try:
        return Document(path, parse_toml(path, read_plain(path, MAX_FILE_BYTES, may_be_owned_by_others=is_of_system)))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except UnsafeFile as unsafe:
        raise ConfigError(f"{path}: {unsafe}") from unsafe
    except OSError as error:
        if isinstance(error, PermissionError) and not os.path.lexists(path):
            notices.append(f"{path}: ignored, because its directory may not be searched")
            return None
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error


def _project_document(path: Path, environ: Mapping[str, str], notices: list[str]) -> Document | None:
    """Read the project's file; a problem is only a notice, because another user may have put the file there."""
    try:
        content = read_plain(path, MAX_FILE_BYTES)
        is_trusted = is_trusted_content(path, content, Path(state_dir(environ)))
        return Document(path, parse_toml(path, content), is_trusted)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except UnsafeFile as unsafe:
        notices.append(f"{path}: ignored: {unsafe}")
    except OSError as error:
        notices.append(f"{path}: ignored: it cannot be read: {error.strerror}")
    except ConfigError as error:
        notices.append(f"{error}; the file is ignored")
    return None


def parse_toml(path: Path, content: bytes) -> Tables:
    """Parse a file into tables; ConfigError names the line of the problem."""
    import tomllib

    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}: line {line}: not UTF-8 text") from error
    for number, words in enumerate(text.split("\n"), 1):
        if words.count(".") > MAX_KEY_DOTS and _dots_in_keys(words) > MAX_KEY_DOTS:
            raise ConfigError(f"{path}: line {number}: tables are nested too deeply")
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        place = re.search(r" \(at line ([0-9]+), column [0-9]+\)$", str(error))
        line = int(place[1]) if place else content.rstrip().count(b"\n") + 1
        problem = re.sub(r" \(at [^()]*\)$", "", str(error))
        raise ConfigError(f"{path}: line {line}: {_shortened(problem[:1].lower() + problem[1:], 200)}") from error


def _dots_in_keys(line: str) -> int:
    """Count the dots of a line outside quotes; all of them where a multi-line string begins or ends."""
    if '"""' in line or "'''" in line:
        return line.count(".")
    return re.sub(r""""(?:[^"\\]|\\.)*+"|'[^']*+'""", "", line).count(".")


def _settings_of(document: Document, problems: list[str] | None = None) -> FileSettings:
    """Return everything that a trusted file sets; wrong tables and keys are left out, with one notice about them.

    They never stop a job. Where `problems` are asked for, all of them are added there. Fields of alerts, actions and
    tools are checked when they are needed, because `run` needs its settings at once.
    """
    found: list[str] = [] if problems is None else problems
    entries, retention = tuple(_entries(document)), tuple(_retention_rules(document))
    alerts = tuple(Alert(*row) for row in _named_tables(document, "alert", found))
    actions = tuple(ActionTable(*row) for row in _named_tables(document, "action", found))
    tools = tuple(ToolTable(*row) for row in _named_tables(document, "tool", found))
    keys = dict(_key_bindings(document, found))
    return FileSettings(entries, alerts, retention, keys, notices=_problem_notice(found), actions=actions, tools=tools)


def _problem_notice(problems: Sequence[str]) -> tuple[str, ...]:
    """Return one notice that names the first problem, and how many more there are."""
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return (f"{problems[0]}; ignored{more}",) if problems else ()


def _untrusted_settings(document: Document, environ: Mapping[str, str], known_alerts: Collection[str]) -> FileSettings:
    """Return what applies of an untrusted file, with one notice about ignored settings and one about wrong ones."""
    path, ignored, problems = document.path, dict[str, object](), list[str]()
    entries = tuple(_untrusted_entries(document, environ, ignored, problems))
    alerts = tuple(_untrusted_alerts(document, known_alerts, ignored, problems))
    rows = tuple((_shortened(key), quoted(raw), str(path)) for key, raw in ignored.items())
    notices = (f"{path}: ignored until trusted ({REMEDY}): {_key_list(ignored)}",) if ignored else ()
    return FileSettings(entries, alerts, ignored=rows, notices=(*notices, *_problem_notice(problems)))


def _untrusted_entries(
    document: Document, environ: Mapping[str, str], ignored: dict[str, object], problems: list[str]
) -> Iterator[ConfigEntry]:
    for key, raw in _assignments(document.tables):
        if key not in UNTRUSTED_KEYS:
            ignored[key] = raw
            continue
        entry = ConfigEntry(key, raw, str(document.path), str(document.path.parent))
        try:
            parse_entry(entry, environ)
        except ConfigError as error:
            problems.append(str(error))
        else:
            yield entry


def _assignments(tables: Tables) -> Iterator[tuple[str, object]]:
    """Yield key and value of what a file sets, except alerts; `[keys]` and each unknown section are one key."""
    for section, table in tables.items():
        if isinstance(table, dict) and section in SECTIONS and section not in TABLES:
            yield from ((f"{section}.{name}", raw) for name, raw in table.items())
        elif section != "alert":
            yield section, table


def _untrusted_alerts(
    document: Document, known: Collection[str], ignored: dict[str, object], problems: list[str]
) -> Iterator[Alert]:
    """Yield alerts without what acts; one with the name of a known alert is ignored, not replaced."""
    for name, table, origin, label in _named_tables(document, "alert", problems):
        if name in known:
            ignored[label.removeprefix(f"{document.path}: ")] = table
            continue
        harmless, acting = _without_acts(table)
        ignored |= {f"{label.removeprefix(f'{document.path}: ')}.{field}": raw for field, raw in acting.items()}
        yield Alert(name, harmless, origin, label, is_trusted=False, directory=str(document.path.parent))


def _without_acts(table: Tables) -> tuple[dict[str, object], dict[str, object]]:
    """Split a table into what is harmless, and actions and steps that do more than warn."""
    steps = table.get("steps")
    acting = {name: table[name] for name in ("actions",) if table.get(name)}
    if isinstance(steps, list) and any(isinstance(step, dict) and step.get("do", "warn") != "warn" for step in steps):
        acting["steps"] = steps
    return {name: raw for name, raw in table.items() if name not in acting} | {"actions": []}, acting


def _key_list(keys: Iterable[str]) -> str:
    """Return the first keys as text, and how many more there are."""
    names = [*map(_shortened, keys)]
    more = f" and {len(names) - MAX_NAMED_KEYS} more" if len(names) > MAX_NAMED_KEYS else ""
    return ", ".join(names[:MAX_NAMED_KEYS]) + more


def _shortened(text: str, longest: int = MAX_NAME_LENGTH) -> str:
    return printable(text if len(text) <= longest else text[: longest - 1] + "…")


def _entries(document: Document) -> Iterator[ConfigEntry]:
    path = document.path
    for section, table in document.tables.items():
        if section not in SECTIONS:
            names = (*SECTIONS, *BY_KEY)
            raise ConfigError(f"{path}: {_shortened(section)}: unknown section{did_you_mean(section, names)}")
        if section in TABLES:
            continue
        if not isinstance(table, dict):
            raise ConfigError(f"{path}: {section}: {quoted(table)} is not a table (use [{section}])")
        for name, raw in table.items():
            key = f"{section}.{name}"
            find_setting(key, f"{path}: ")
            yield ConfigEntry(key, raw, str(path), str(path.parent))


def _tables(document: Document, section: str) -> list[dict[str, object]]:
    """Return the tables of a `[[section]]`."""
    tables = document.tables.get(section, [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise ConfigError(f"{document.path}: {section}: {quoted(tables)} is not a list of tables (use [[{section}]])")
    return tables


def _table_fields(table: Tables, parsers: Mapping[str, ValueParser], place: str) -> dict[str, Value]:
    """Parse the fields of a table; ConfigError for an unknown one."""
    for name in table:
        if name not in parsers:
            raise ConfigError(f"{place}.{_shortened(name)}: unknown field{did_you_mean(name, parsers)}")
    return {name: parse_value(parsers[name], raw, f"{place}.{name}") for name, raw in table.items()}


def _require(fields: Mapping[str, Value], names: Iterable[str], place: str) -> None:
    for name in names:
        if name not in fields:
            raise ConfigError(f"{place}.{name}: is missing")


def _retention_rules(document: Document) -> Iterator[RetentionRule]:
    for position, table in enumerate(_tables(document, "retention"), 1):
        place = f"{document.path}: retention[{position}]"
        fields = _table_fields(table, RETENTION_FIELDS, place)
        _require(fields, RETENTION_FIELDS, place)
        yield RetentionRule(str(fields["tag"]), retention_time(table["keep"]), str(document.path), str(table["keep"]))


def _named_tables(
    document: Document, section: str, problems: list[str]
) -> Iterator[tuple[str, dict[str, object], str, str]]:
    """Yield name, table, file and label of each `[[section]]` table; one without a name is a problem."""
    try:
        tables = _tables(document, section)
    except ConfigError as error:
        problems.append(str(error))
        return
    seen: set[str] = set()
    for position, table in enumerate(tables, 1):
        name = table.get("name")
        is_named = isinstance(name, str) and bool(name.strip())
        label = f"{section}.{_shortened(str(name))}" if is_named else f"{section}[{position}]"
        place = f"{document.path}: {label}"
        if not is_named:
            what = "is missing" if name is None else f"{quoted(name)} is not a text"
            problems.append(f"{place}.name: {what}")
        elif name in seen:
            problems.append(f"{place}: the name is used twice; the first one counts")
        else:
            seen.add(str(name))
            yield str(name).strip(), table, str(document.path), place


def _key_bindings(document: Document, problems: list[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    table = document.tables.get("keys", {})
    if not isinstance(table, dict):
        problems.append(f"{document.path}: keys: {quoted(table)} is not a table (use [keys])")
        return
    for action, raw in _flattened(table):
        try:
            yield action, texts([raw] if isinstance(raw, str) else raw)
        except BadValue as error:
            problems.append(f"{document.path}: keys.{_shortened(action)}: {error}")


def _flattened(table: dict[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Yield nested keys joined by dots: in TOML, `jobs.stop = "K"` is a table in a table."""
    for name, raw in table.items():
        if isinstance(raw, dict):
            yield from _flattened(raw, f"{prefix}{name}.")
        else:
            yield prefix + name, raw
