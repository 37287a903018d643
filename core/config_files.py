"""What the configuration files set, and how much of `./jobtop.toml` counts before the user trusts it.

Any directory may hold a `jobtop.toml`, also one that another user made. Until it is trusted, only what can do no harm
counts: see `UNTRUSTED_KEYS`. Everything else in it, and everything wrong in it, is a notice and stops nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from jobtop.core.config import (
    ALERT_FIELDS,
    BY_KEY,
    RETENTION_FIELDS,
    SECTIONS,
    TABLES,
    Alert,
    Entry,
    FromFiles,
    KeepRule,
    Kind,
    Value,
    entry_value,
    find_setting,
    lasting,
    quoted,
    read_value,
    texts,
)
from jobtop.core.errors import BadValue, ConfigError, did_you_mean
from jobtop.core.paths import state_dir
from jobtop.core.plain_files import UnsafeFile, read_plain
from jobtop.core.record import record
from jobtop.core.trust import is_trusted_content, trust
from jobtop.core.units import printable

MOST_BYTES = 128 * 1024
MOST_DOTS = 64  # in the keys of a line: tomllib takes time in proportion to their square
NAMED_KEYS = 6
LONGEST_NAME = 60
UNTRUSTED_KEYS = ("run.ui", *(key for key in BY_KEY if key.startswith("cost.")))  # and `[[alert]]` without its actions
REMEDY = "jobtop config trust"

Tables = Mapping[str, object]


@record
class Document:
    """One configuration file that exists; `is_trusted` says whether all of it counts."""

    path: Path
    tables: Tables
    is_trusted: bool = True


def read_files(paths: Sequence[Path], environ: Mapping[str, str]) -> FromFiles:
    """All layers; the first path is the project's file, the last the system's, the strongest comes first."""
    notices: list[str] = []
    project, *trusted = paths
    documents = [
        document
        for path in reversed(trusted)
        if (document := _own_document(path, path == paths[-1], notices)) is not None
    ]
    found = [_settings_of(document) for document in documents]
    if (document := _project_document(project, environ, notices)) is not None:
        known = {alert.name for part in found for alert in part.alerts}
        found.append(_settings_of(document) if document.is_trusted else _harmless_part(document, environ, known))
    return FromFiles(
        tuple(entry for part in found for entry in part.entries),
        tuple({alert.name: alert for part in found for alert in part.alerts}.values()),
        tuple(rule for part in found for rule in part.retention),
        {name: keys for part in found for name, keys in part.keys.items()},
        tuple(row for part in found for row in part.ignored),
        (*notices, *(notice for part in found for notice in part.notices)),
    )


def trust_project(path: Path, environ: Mapping[str, str]) -> None:
    """Let all of a project's file count from now on; ConfigError if anything in it is wrong."""

    def check(content: bytes) -> None:
        found = _settings_of(Document(path, parse_toml(path, content)))
        for entry in found.entries:
            entry_value(entry, environ)

    try:
        trust(path, Path(state_dir(environ)), MOST_BYTES, check)
    except UnsafeFile as unsafe:
        raise ConfigError(f"{path}: {unsafe}") from unsafe


def _own_document(path: Path, is_of_system: bool, notices: list[str]) -> Document | None:
    """A file of the user or of the system: what is wrong with it is an error.

    Who owns a file below /etc is not asked: only root can put it there, and in a user namespace root is not user 0.
    """
    try:
        return Document(path, parse_toml(path, read_plain(path, MOST_BYTES, may_be_owned_by_others=is_of_system)))
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
    """The file of the project: one that cannot be used is a notice, for another user may have put it there."""
    try:
        content = read_plain(path, MOST_BYTES)
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
    """The tables of a file; ConfigError names the line of what is wrong."""
    import tomllib

    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}: line {line}: not UTF-8 text") from error
    for number, words in enumerate(text.split("\n"), 1):
        if words.count(".") > MOST_DOTS and _dots_in_keys(words) > MOST_DOTS:
            raise ConfigError(f"{path}: line {number}: tables are nested too deeply")
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        place = re.search(r" \(at line ([0-9]+), column [0-9]+\)$", str(error))
        line = int(place[1]) if place else content.rstrip().count(b"\n") + 1
        problem = re.sub(r" \(at [^()]*\)$", "", str(error))
        raise ConfigError(f"{path}: line {line}: {_short(problem[:1].lower() + problem[1:], 200)}") from error


def _dots_in_keys(line: str) -> int:
    """The dots of a line that are not in a text; where a text of several lines begins or ends, all of them."""
    if '"""' in line or "'''" in line:
        return line.count(".")
    return re.sub(r""""(?:[^"\\]|\\.)*+"|'[^']*+'""", "", line).count(".")


def _settings_of(document: Document) -> FromFiles:
    """All that a trusted file sets."""
    return FromFiles(
        tuple(_entries(document)), tuple(_alerts(document)), tuple(_keep_rules(document)), dict(_bindings(document))
    )


def _harmless_part(document: Document, environ: Mapping[str, str], known_alerts: Collection[str]) -> FromFiles:
    """What counts of a file that is not trusted, and a line each for what is ignored and for what is wrong."""
    path, ignored, wrong = document.path, dict[str, object](), list[str]()
    entries = tuple(_harmless_entries(document, environ, ignored, wrong))
    alerts = tuple(_harmless_alerts(document, known_alerts, ignored, wrong))
    rows = tuple((_short(key), quoted(raw), str(path)) for key, raw in ignored.items())
    notices = [f"{path}: ignored until trusted ({REMEDY}): {_named(ignored)}"] if ignored else []
    if wrong:
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        notices.append(f"{wrong[0]}; ignored{more}")
    return FromFiles(entries, alerts, ignored=rows, notices=tuple(notices))


def _harmless_entries(
    document: Document, environ: Mapping[str, str], ignored: dict[str, object], wrong: list[str]
) -> Iterator[Entry]:
    for key, raw in _leaves(document.tables):
        if key not in UNTRUSTED_KEYS:
            ignored[key] = raw
            continue
        entry = Entry(key, raw, str(document.path), str(document.path.parent))
        try:
            entry_value(entry, environ)
        except ConfigError as error:
            wrong.append(str(error))
        else:
            yield entry


def _leaves(tables: Tables) -> Iterator[tuple[str, object]]:
    """Key and value of what a file sets, alerts aside; `[keys]` and an unknown section count as one each."""
    for section, table in tables.items():
        if isinstance(table, dict) and section in SECTIONS and section not in TABLES:
            yield from ((f"{section}.{name}", raw) for name, raw in table.items())
        elif section != "alert":
            yield section, table


def _harmless_alerts(
    document: Document, known: Collection[str], ignored: dict[str, object], wrong: list[str]
) -> Iterator[Alert]:
    """Alerts without their actions; one with the name of an alert of the user does not replace that."""
    try:
        tables = [*_labelled_alerts(document)]
    except ConfigError as error:
        wrong.append(str(error))
        return
    for label, table in tables:
        try:
            alert = _alert(document, label, table | ({"actions": []} if "actions" in table else {}))
        except ConfigError as error:
            wrong.append(str(error))
            continue
        if alert.name in known:
            ignored[label] = table
            continue
        if table.get("actions"):
            ignored[f"{label}.actions"] = table["actions"]
        yield alert


def _named(keys: Iterable[str]) -> str:
    """Some of the keys, and how many more there are."""
    names = [*map(_short, keys)]
    more = f" and {len(names) - NAMED_KEYS} more" if len(names) > NAMED_KEYS else ""
    return ", ".join(names[:NAMED_KEYS]) + more


def _short(text: str, longest: int = LONGEST_NAME) -> str:
    return printable(text if len(text) <= longest else text[: longest - 1] + "…")


def _entries(document: Document) -> Iterator[Entry]:
    path = document.path
    for section, table in document.tables.items():
        if section not in SECTIONS:
            names = (*SECTIONS, *BY_KEY)
            raise ConfigError(f"{path}: {_short(section)}: unknown section{did_you_mean(section, names)}")
        if section in TABLES:
            continue
        if not isinstance(table, dict):
            raise ConfigError(f"{path}: {section}: {quoted(table)} is not a table (use [{section}])")
        for name, raw in table.items():
            key = f"{section}.{name}"
            find_setting(key, f"{path}: ")
            yield Entry(key, raw, str(path), str(path.parent))


def _tables(document: Document, section: str) -> list[dict[str, object]]:
    """The tables of a `[[section]]`."""
    tables = document.tables.get(section, [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise ConfigError(f"{document.path}: {section}: {quoted(tables)} is not a list of tables (use [[{section}]])")
    return tables


def _table_fields(table: Tables, kinds: Mapping[str, Kind], place: str) -> dict[str, Value]:
    for name in table:
        if name not in kinds:
            raise ConfigError(f"{place}.{_short(name)}: unknown field{did_you_mean(name, kinds)}")
    return {name: read_value(kinds[name], raw, f"{place}.{name}") for name, raw in table.items()}


def _require(fields: Mapping[str, Value], names: Iterable[str], place: str) -> None:
    for name in names:
        if name not in fields:
            raise ConfigError(f"{place}.{name}: is missing")


def _keep_rules(document: Document) -> Iterator[KeepRule]:
    for position, table in enumerate(_tables(document, "retention"), 1):
        place = f"{document.path}: retention[{position}]"
        fields = _table_fields(table, RETENTION_FIELDS, place)
        _require(fields, RETENTION_FIELDS, place)
        yield KeepRule(str(fields["tag"]), lasting(table["keep"]), str(document.path), str(table["keep"]))


def _alerts(document: Document) -> Iterator[Alert]:
    for label, table in _labelled_alerts(document):
        yield _alert(document, label, table)


def _labelled_alerts(document: Document) -> Iterator[tuple[str, dict[str, object]]]:
    """The tables of `[[alert]]`, each with how messages call it."""
    for position, table in enumerate(_tables(document, "alert"), 1):
        name = table.get("name")
        yield f"alert.{_short(name)}" if isinstance(name, str) else f"alert[{position}]", table


def _alert(document: Document, label: str, table: Tables) -> Alert:
    from jobtop.core.metrics import find_metric

    place = f"{document.path}: {label}"
    fields = _table_fields(table, ALERT_FIELDS, place)
    _require(fields, ("name", "metric"), place)
    if "above" not in fields and "below" not in fields:
        raise ConfigError(f"{place}: needs above or below")
    scope, scopes = fields.get("scope", "job"), find_metric(str(fields["metric"])).scopes
    if scope not in scopes:
        raise ConfigError(f'{place}.metric: "{fields["metric"]}" is of {", ".join(scopes)}, not of {scope}')
    return Alert(str(fields["name"]), fields, str(document.path))


def _bindings(document: Document) -> Iterator[tuple[str, tuple[str, ...]]]:
    table = document.tables.get("keys", {})
    if not isinstance(table, dict):
        raise ConfigError(f"{document.path}: keys: {quoted(table)} is not a table (use [keys])")
    for action, raw in _flat(table):
        try:
            yield action, texts([raw] if isinstance(raw, str) else raw)
        except BadValue as error:
            raise ConfigError(f"{document.path}: keys.{_short(action)}: {error}") from error


def _flat(table: dict[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    """`jobs.stop = "K"` without quotes is a table in a table to TOML."""
    for name, raw in table.items():
        if isinstance(raw, dict):
            yield from _flat(raw, f"{prefix}{name}.")
        else:
            yield prefix + name, raw
