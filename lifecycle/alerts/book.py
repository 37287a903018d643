"""The alert rules and actions of a configuration, as the engine and the end of a job use them."""

from __future__ import annotations

from jobtop.core.alerts.rule_files import RuleFiles
from jobtop.core.alerts.sending_times import sending_times
from jobtop.core.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobtop.core.alerts.model import Action, Rule
    from jobtop.core.alerts.rule_set import RuleSet
    from jobtop.core.config import Config


class Book:
    """Rules by name, actions by name; `read_again` notices changed files."""

    def __init__(self, config: Config) -> None:
        self._files = RuleFiles(as_of_now(config))
        self._use(self._files.found)

    def _use(self, found: RuleSet) -> None:
        self.rules: Sequence[Rule] = found.in_force
        self._by_name = {rule.name: rule for rule in self.rules}
        self._actions = found.actions
        self.times = sending_times(self._files.config)

    @property
    def config(self) -> Config:
        """The configuration as it was last read."""
        return self._files.config

    @property
    def problems(self) -> Sequence[str]:
        """What is wrong in the files, a line each."""
        return self._files.problems

    def take_problems(self) -> Sequence[str]:
        """What is wrong in the files and was not told yet, a line each."""
        return self._files.take_problems()

    def read_again(self) -> bool:
        """Use the files as they are now; whether something has changed."""
        found = self._files.changed()
        if found is None:
            return False
        self._use(found)
        return True

    @property
    def has_messages(self) -> bool:
        """Whether any rule sends messages."""
        return any(word in self._actions for rule in self.rules for word in rule.actions)

    def rule(self, name: str) -> Rule | None:
        """The rule of this name, if it is in force."""
        return self._by_name.get(name)

    def action(self, word: str) -> Action | None:
        """The action that a word of a rule or a name in the store means; None if it is not configured any more."""
        if word in self._actions:
            return self._actions[word]
        return next((action for action in self._actions.values() if action.name == word), None)


def as_of_now(config: Config) -> Config:
    """The configuration as its files are now, which an agent may have read long ago; this one if they are wrong."""
    try:
        return config if config.load_again is None else config.load_again()
    except (ConfigError, OSError):
        return config
