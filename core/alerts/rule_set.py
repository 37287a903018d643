"""The rules in force: those that come with jobtop, changed and extended by the configuration. Pure.

A wrong rule is left out with one problem that names its file, field and the nearest valid name; the others stay.
"""

from __future__ import annotations

from jobtop.core.alerts.action_tables import find_action, parse_action
from jobtop.core.alerts.defaults import DEFAULTS
from jobtop.core.alerts.model import BUILT_IN, Action, Rule, Severity
from jobtop.core.alerts.rules import JOB_SCOPES, Place, merged_table, parse_rule
from jobtop.core.config import texts
from jobtop.core.errors import BadValue, ConfigError, did_you_mean
from jobtop.core.metrics import Scope
from jobtop.core.record import fresh, record, replace
from jobtop.core.units import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from jobtop.core.config import ActionTable, Alert, Config

MAX_RULES = 300
MAX_UNTRUSTED_RULES = 20
MAX_NAME_LENGTH = 60


@record
class Problem:
    """What is wrong in a table, in one line. `name` is the rule or action, `rule` whether it is a rule."""

    name: str
    text: str
    origin: str
    is_rule: bool = True


@record
class RuleChange:
    """A table that changes a rule of another origin: a weaker file, or jobtop. `fields` are those that it gives."""

    name: str
    origin: str
    fields: tuple[str, ...]


@record
class RuleSet:
    """All rules, those that are switched off too, all actions by name or short form, and what was wrong."""

    rules: tuple[Rule, ...]
    actions: Mapping[str, Action] = fresh(default_factory=dict)
    problems: tuple[Problem, ...] = ()

    @property
    def in_force(self) -> tuple[Rule, ...]:
        """The rules that are not switched off."""
        return tuple(rule for rule in self.rules if rule.is_enabled)

    def find(self, name: str) -> Rule:
        """Return the rule of a name; BadValue names the nearest one."""
        for rule in self.rules:
            if rule.name == name:
                return rule
        shown = printable(name if len(name) <= MAX_NAME_LENGTH else name[: MAX_NAME_LENGTH - 1] + "…")
        raise BadValue(f'no rule "{shown}"{did_you_mean(name, [rule.name for rule in self.rules])}')


def load_rules(config: Config) -> tuple[tuple[Rule, ...], tuple[str, ...]]:
    """Return the rules in force, and what is wrong, a line each."""
    found = load_rule_set(config)
    return found.in_force, tuple(problem.text for problem in found.problems)


def rule_notices(config: Config) -> tuple[str, ...]:
    """Return one notice that names the first thing that is wrong in rules and actions; none if nothing is."""
    return notices_of(load_rules(config)[1])


def notices_of(problems: Sequence[str]) -> tuple[str, ...]:
    """Return one notice that names the first problem, and how many more there are."""
    more = f" (and {len(problems) - 1} more: jobtop alerts rules)" if len(problems) > 1 else ""
    return (f"{problems[0]}; ignored{more}",) if problems else ()


def load_rule_set(config: Config) -> RuleSet:
    """Merge the rules of jobtop with those of the files, and resolve the actions of each."""
    problems: list[Problem] = []
    actions = dict(_actions(config.actions, problems))
    names = {table.name for table in config.actions}
    rules = _merged(_with_known_actions(config.alerts, actions, names, problems), problems)
    off = config.texts("alerts.off")
    for name in off:
        if name not in rules:
            hint = did_you_mean(name, rules)
            shown = printable(name[:MAX_NAME_LENGTH])
            origin = config.origin("alerts.off")
            problems.append(Problem(name, f'{origin}: alerts.off: no rule "{shown}"{hint}', origin, is_rule=False))
    has_alerts, usual = config.boolean("alerts.enabled"), _usual_actions(config, actions, problems)
    found = []
    for rule, is_trusted, gives_actions in rules.values():
        if not has_alerts or rule.name in off:
            rule = replace(rule, is_enabled=False)  # noqa: PLW2901
        if gives_actions:
            label = f"{rule.origin}: alert.{printable(rule.name)}.actions"
            place = Problem(rule.name, label, rule.origin, is_rule=False)
            words = _known_actions(rule.actions, rule.scope, place, actions, problems)
        else:
            words = usual if is_trusted and rule.severity is not Severity.INFO else ()
        found.append(replace(rule, actions=words))
    return RuleSet(tuple(found), actions, tuple(dict.fromkeys(problems)))


def table_problems(alerts: Iterable[Alert], actions: Iterable[ActionTable], weaker: Sequence[Alert] = ()) -> list[str]:
    """Return what is wrong in the tables of one file, a line each; `weaker` has the alerts that they may change."""
    known: list[Problem] = []
    _merged(weaker, known)
    problems: list[Problem] = []
    _merged((*weaker, *alerts), problems)
    dict(_actions(actions, problems))
    return [problem.text for problem in problems if problem not in known]


def rule_changes(alerts: Iterable[Alert], weaker: Iterable[Alert]) -> list[RuleChange]:
    """Return which rules of weaker files and of jobtop the alerts of one file change."""
    origins = {str(table["name"]): BUILT_IN for table in DEFAULTS} | {alert.name: alert.origin for alert in weaker}
    return [
        RuleChange(alert.name, origins[alert.name], tuple(name for name in alert.fields if name != "name"))
        for alert in alerts
        if alert.name in origins
    ]


def _with_known_actions(
    alerts: Iterable[Alert], actions: Mapping[str, Action], names: Collection[str], problems: list[Problem]
) -> Iterator[Alert]:
    """Yield the tables that name no unknown action; each other one is a problem, and changes nothing.

    `names` are those of all `[[action]]` tables: the rules of a wrong one work without it.
    """
    for alert in alerts:
        words = alert.fields.get("actions", ())
        try:
            for word in texts(words) if words else ():
                if word not in names:
                    find_action(word, actions, alert.origin)
        except BadValue as error:
            label = alert.label or f"{alert.origin}: alert.{printable(alert.name)}"
            problems.append(Problem(alert.name, f"{label}.actions: {error}", alert.origin))
        else:
            yield alert


def default_rules() -> tuple[Rule, ...]:
    """Return the rules that come with jobtop, unchanged."""
    return tuple(rule for rule, _, _ in _merged((), []).values())


def _merged(alerts: Iterable[Alert], problems: list[Problem]) -> dict[str, tuple[Rule, bool, bool]]:
    """Return rules by name, each with whether it is trusted, and whether it names its actions.

    A wrong table leaves the rule as weaker files have it.
    """
    tables: dict[str, Mapping[str, object]] = {str(table["name"]): table for table in DEFAULTS}
    rules = {name: (parse_rule(table, Place(f"default {name}")), True, False) for name, table in tables.items()}
    untrusted = 0
    for alert in alerts:
        known = tables.get(alert.name)
        label = alert.label or f"{alert.origin}: alert.{printable(alert.name)}"
        untrusted += not alert.is_trusted
        if (refusal := _refusal(alert, known is not None, untrusted, len(rules))) is not None:
            problems.append(Problem(alert.name, f"{label}: {refusal}", alert.origin))
            continue
        place = Place(label, alert.origin, alert.directory if known is None else None)
        fields = {"name": alert.name, **alert.fields}
        try:
            rule = parse_rule(fields, place, known)
        except ConfigError as error:
            problems.append(Problem(alert.name, str(error), alert.origin))
            continue
        merged = tables[alert.name] = merged_table(known, fields)
        rules[alert.name] = (rule, alert.is_trusted, "actions" in merged)
    return rules


def _refusal(alert: Alert, is_known: bool, untrusted: int, count: int) -> str | None:
    """Return why a table is not even looked at."""
    if not alert.is_trusted and is_known:
        return "a file that is not trusted changes no other rule (jobtop config trust)"
    if untrusted > MAX_UNTRUSTED_RULES and not alert.is_trusted:
        return f"of a file that is not trusted, {MAX_UNTRUSTED_RULES} rules count (jobtop config trust)"
    return f"there are more than {MAX_RULES} rules" if count >= MAX_RULES and not is_known else None


def _usual_actions(config: Config, actions: dict[str, Action], problems: list[Problem]) -> tuple[str, ...]:
    """Return the actions of rules that name none: `alerts.actions`. What acts on a job needs a rule that says so."""
    origin = config.origin("alerts.actions")
    place = Problem("alerts.actions", f"{origin}: alerts.actions", origin, is_rule=False)
    return _known_actions(config.texts("alerts.actions"), None, place, actions, problems)


def _known_actions(
    words: Iterable[str],
    scope: Scope | None,
    place: Problem,
    actions: dict[str, Action],
    problems: list[Problem],
) -> tuple[str, ...]:
    """Return the words that are actions; one that is not is a problem, and the rule works without it."""
    kept = []
    for word in words:
        try:
            action = find_action(word, actions, place.origin)
            if action is None and scope not in JOB_SCOPES:
                whose = "it has to stand in a rule of jobs" if scope is None else f"the rule is of {scope}"
                raise BadValue(f'"{word}" acts on a job; {whose}')
        except BadValue as error:
            problems.append(replace(place, text=f"{place.text}: {error}"))
            continue
        if action is not None:
            actions[word] = action
        kept.append(word)
    return tuple(kept)


def _actions(tables: Iterable[ActionTable], problems: list[Problem]) -> Iterator[tuple[str, Action]]:
    for table in tables:
        try:
            action = parse_action(table)
        except ConfigError as error:
            problems.append(Problem(table.name, str(error), table.origin, is_rule=False))
        else:
            yield action.name, action
