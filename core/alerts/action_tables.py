"""Makes actions of `[[action]]` tables and of short forms such as `webhook:https://…`, each field checked. Pure."""

from __future__ import annotations

from jobtop.core.alerts.actions.addresses import shown_word
from jobtop.core.alerts.model import Action
from jobtop.core.alerts.rule_fields import JOB_ACTIONS, job_action, one_of, rule_name
from jobtop.core.config import boolean, duration, quoted, shown_action, text, texts
from jobtop.core.errors import BadValue, ConfigError, did_you_mean
from jobtop.core.units import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jobtop.core.config import ActionTable

    Parser = Callable[[object], object]

TLS = ("starttls", "tls", "none")
METHODS = ("POST", "PUT", "PATCH")


def port(raw: object) -> int:
    """Check the number of a port."""
    if isinstance(raw, bool) or not isinstance(raw, int) or not 0 < raw < 65536:
        raise BadValue(f"{quoted(raw)} is not a port (1 to 65535)")
    return raw


def tls(raw: object) -> str | bool:
    """Check how a connection is encrypted."""
    if isinstance(raw, str):
        one_of(raw.lower(), TLS, f"one of {', '.join(TLS)}")
        return raw.lower()
    return boolean(raw)


def method(raw: object) -> str:
    word = text(raw).upper()
    one_of(word, METHODS, f"one of {', '.join(METHODS)}")
    return word


def headers(raw: object) -> dict[str, str]:
    """Check a table of texts."""
    if not isinstance(raw, dict) or not all(isinstance(value, str) for value in raw.values()):
        raise BadValue(f'{quoted(raw)} is not a table of texts (use {{Authorization = "env:TOKEN"}})')
    return raw


def template(raw: object) -> object:
    """Check that a template is JSON, as text or as a table, with known placeholders."""
    from jobtop.core.alerts.actions.payloads import check_template

    if problem := check_template(raw if isinstance(raw, dict | list) else text(raw)):
        raise BadValue(problem)
    return raw


def words(raw: object) -> object:
    """Check a text, or a list of texts that is not empty."""
    if isinstance(raw, str):
        return text(raw)
    found = texts(raw)
    if not found:
        raise BadValue("the list is empty")
    return found


WEB: dict[str, Parser] = {"url": text, "token": text, "headers": headers, "timeout": duration}
TYPES: dict[str, dict[str, Parser]] = {
    "webhook": WEB | {"method": method, "template": template},
    "slack": WEB,
    "ntfy": WEB,
    "mail": {
        "to": words,
        "from": text,
        "server": text,
        "port": port,
        "user": text,
        "password": text,
        "tls": tls,
        "timeout": duration,
    },
    "command": {"command": words, "timeout": duration},
    "desktop": {"timeout": duration},
    "log": {},
    "bell": {},
}
TYPE_WORDS = ", ".join(TYPES)
REQUIRED = {"webhook": "url", "slack": "url", "ntfy": "url", "mail": "to", "command": "command"}


def parse_action(table: ActionTable) -> Action:
    """Make an action of a table; ConfigError names the file, the field and the nearest valid name."""
    fields = dict(table.fields)
    place = table.label or f"{table.origin}: action.{printable(table.name)}"
    try:
        name = rule_name(fields.pop("name", table.name))
    except BadValue as error:
        raise ConfigError(f"{place}.name: {error}") from error
    if ":" in name or name in JOB_ACTIONS:
        raise ConfigError(f"{place}.name: {quoted(name)} is a word for an action on the job; use another name")
    raw_type = fields.pop("type", name if name in TYPES else None)
    if not isinstance(raw_type, str) or raw_type not in TYPES:
        what = "is missing" if raw_type is None else f"{quoted(raw_type)} is not a type of action"
        hint = did_you_mean(raw_type, TYPES) if isinstance(raw_type, str) else ""
        raise ConfigError(f"{place}.type: {what}{hint or f' (use {TYPE_WORDS})'}")
    return Action(name, raw_type, _fields(fields, raw_type, place), table.origin)


def _fields(fields: Mapping[str, object], kind: str, place: str) -> dict[str, object]:
    parsers = TYPES[kind]
    parsed: dict[str, object] = {}
    for name, raw in fields.items():
        if name not in parsers:
            shown = printable(name if len(name) <= 60 else name[:59] + "…")
            raise ConfigError(f"{place}.{shown}: unknown field of {kind}{did_you_mean(name, parsers)}")
        try:
            parsed[name] = parsers[name](raw)
        except BadValue as error:
            raise ConfigError(f"{place}.{name}: {error}") from error
    if kind in REQUIRED and REQUIRED[kind] not in parsed:
        raise ConfigError(f"{place}.{REQUIRED[kind]}: is missing")
    return parsed


def find_action(word: str, actions: Mapping[str, Action], origin: str) -> Action | None:
    """Return the action that a word of `actions` means: a name, or a short form; None for an action on the job.

    BadValue names the nearest valid word. It shows no more of a short form than its type.
    """
    if word in actions:
        return actions[word]
    kind, _, value = word.partition(":")
    if kind in JOB_ACTIONS:
        job_action(word)
        return None
    if kind not in TYPES:
        names = (*actions, *TYPES, *JOB_ACTIONS)
        raise BadValue(f"{quoted(shown_action(word))} is not an action{did_you_mean(kind, names)}")
    needed = REQUIRED.get(kind)
    if bool(value.strip()) != (needed is not None):
        problem = (
            f"needs more: use {kind}:{(needed or '').upper()}, or an [[action]] table" if needed else "is one word"
        )
        raise BadValue(f"{quoted(kind)} {problem}")
    fields: dict[str, object] = {needed: value.strip()} if needed else {}
    if kind == "command":
        fields = {"command": (value.strip(),)}
    return Action(shown_word(word), kind, fields, origin)  # the name is stored with each message
