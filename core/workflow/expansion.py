"""Makes many jobs or files of one entry with parameters. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from jobtop.core.errors import BadValue, did_you_mean
from jobtop.core.record import record
from jobtop.core.units import printable
from jobtop.core.workflow.checking import Checker
from jobtop.core.workflow.model import Place
from jobtop.core.workflow.parameters import Combination, combinations, parameter_values, placeholders, substitute


@record
class Expanded:
    """One job or file of an entry: its name, and the combinations of parameters that it stands for."""

    name: str
    combinations: tuple[Combination, ...]
    entry: dict[str, Any]
    place: Place

    def text(self, key: str) -> str:
        """A text of the entry; BadValue if it differs between the combinations, which have one name."""
        said = self.entry[key]
        found = {substitute(said, values): values for values in self.combinations}
        if len(found) > 1:
            missing = sorted(placeholders(said) - placeholders(str(self.entry["name"])))
            words = " and ".join(f"{{{name}}}" for name in missing)
            raise BadValue(f"differs between entries of one name: put {words} into the name too")
        return next(iter(found))

    def words(self, key: str) -> list[str]:
        """A list of the entry, for all of its combinations, each word once."""
        said = self.entry.get(key) or ()
        return list(dict.fromkeys(substitute(word, values) for word in said for values in self.combinations))


def expand(
    entries: Iterable[tuple[Place, dict[str, Any]]], shared: Mapping[str, Any], checker: Checker, what: str
) -> dict[str, Expanded]:
    """All jobs or files, by name; two of one name are a mistake."""
    found: dict[str, Expanded] = {}
    for place, entry in entries:
        try:
            chosen = _combinations(place, entry, shared, checker)
            named: dict[str, list[Combination]] = {}
            for values in chosen:
                named.setdefault(substitute(entry["name"], values), []).append(values)
        except BadValue as error:
            checker.blame(place, str(error))
            continue
        for name, group in named.items():
            if name in found:
                checker.blame(place, f'there is another {what} "{printable(name)}"')
            else:
                found[name] = Expanded(name, tuple(group), entry, place)
    return found


def _combinations(
    place: Place, entry: Mapping[str, Any], shared: Mapping[str, Any], checker: Checker
) -> list[Combination]:
    chosen: dict[str, Any] = {}
    for name in entry.get("use_parameters") or ():
        if name in shared:
            chosen[name] = shared[name]
        else:
            hint = did_you_mean(name, shared)
            checker.blame((*place, "use_parameters"), f'there is no parameter "{printable(name)}"{hint}')
    chosen |= entry.get("parameters") or {}
    values = {}
    for name, said in chosen.items():
        try:
            values[name] = parameter_values(said)
        except BadValue as error:
            checker.blame((*place, "parameters", name), str(error))
    return combinations(values, entry.get("parameter_mode") == "zip")
