"""Reads the alert rules in a thread: from the files of the configuration, and what is muted from the store."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from jobtop.core.metrics import CATALOGUE, Scope
from jobtop.tui.data.alert_rules import RuleRow, rule_rows

if TYPE_CHECKING:
    from pathlib import Path

    from jobtop.core.alerts.model import Rule
    from jobtop.core.alerts.rule_files import RuleFiles
    from jobtop.core.alerts.rule_set import RuleSet
    from jobtop.core.config import Config
    from jobtop.store.alerts.marks import Mark
    from jobtop.store.database import Database
    from jobtop.tui.data.reader import StoreReader
    from jobtop.tui.data.view import MachineView

FEWEST_MOMENTS = 3  # of the machine, before an absent value counts as one that it does not have


class RuleReading:
    """The rules of a configuration; `rules` are those that were read last, by name."""

    def __init__(self, config: Config | None) -> None:
        self._config = config
        self._files: RuleFiles | None = None
        self.rules: Mapping[str, Rule] = {}
        self.problems: Sequence[str] = ()

    @property
    def config(self) -> Config | None:
        """The configuration that counts now."""
        return self._config if self._files is None else self._files.config

    def read(self) -> None:
        """Read the rules if a file has changed; to be called in a thread."""
        if self._config is None:
            return
        if self._files is None:
            from jobtop.core.alerts.rule_files import RuleFiles

            self._files = RuleFiles(self._config)
            self._take(self._files.found)
        elif (found := self._files.changed()) is not None:
            self._take(found)
        self.problems = self._files.problems

    def read_anew(self) -> None:
        """Read the rules again at the next call of `read`: the user has just changed one."""
        if self.config is not None and self.config.load_again is not None:
            self._config, self._files = self.config.load_again(), None

    def _take(self, found: RuleSet) -> None:
        self.rules = {rule.name: rule for rule in found.rules}

    def rows(self, marks: Sequence[Mark], machine: MachineView | None, now: float) -> list[RuleRow]:
        """The rules as they are listed."""
        from jobtop.core.alerts.rules import inactive_reason
        from jobtop.core.text.rule_text import condition_text

        supplied = supplied_by(machine)
        rules = [(rule, inactive_reason(rule, supplied)) for rule in self.rules.values()]
        return rule_rows(rules, [condition_text(rule) for rule, _ in rules], marks, now)


async def read_marks(reader: StoreReader, store: Path) -> list[Mark]:
    """What people decided about rules and jobs; empty if the store cannot be read."""
    from jobtop.core.errors import StoreError

    try:
        return await reader.read(store, _all_marks)
    except (StoreError, OSError):
        return []


def _all_marks(database: Database) -> list[Mark]:
    from jobtop.store.alerts.marks import Marks

    return Marks(database).all()


def supplied_by(machine: MachineView | None) -> dict[Scope, Collection[str]] | None:
    """The keys that this machine has values for, by scope; None as long as that is not known."""
    if machine is None or len(machine.past) < FEWEST_MOMENTS:
        return None
    from jobtop.core.alerts.expressions.extra_keys import BY_EXTRA_KEY

    gpus = machine.detail.get("gpus", {}).values()
    on_gpus = {key for gpu in gpus for key, value in gpu.items() if value is not None}
    host = {key for key, value in machine.values.items() if value is not None} | set(BY_EXTRA_KEY)
    absent = set() if on_gpus else {metric.key for metric in CATALOGUE if metric.key.startswith("gpu.")}
    of_jobs = {metric.key for metric in CATALOGUE if Scope.JOB in metric.scopes} | set(BY_EXTRA_KEY)
    return {Scope.GPU: on_gpus, Scope.HOST: host, Scope.JOB: of_jobs - absent}
