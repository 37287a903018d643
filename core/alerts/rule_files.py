"""Notices changes of the configuration files while jobs run, so that changed rules apply without a restart."""

from __future__ import annotations

import os
import time

from jobtop.core.alerts.model import BUILT_IN
from jobtop.core.alerts.rule_set import RuleSet, load_rule_set
from jobtop.core.config import BY_KEY
from jobtop.core.errors import ConfigError
from jobtop.core.record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from jobtop.core.config import Config

    Signature = tuple[tuple[int, int, int, int] | None, ...]

CHECK_SECONDS = 2.0


class RuleFiles:
    """The rules of a configuration, read again when one of its files has changed.

    A file that became wrong, or a rule in it, leaves the rules as they were: `problems` says why.
    """

    def __init__(self, config: Config, clock: Callable[[], float] = time.monotonic) -> None:
        self.config, self._clock = config, clock
        self._signature = self._read_signature()
        self._checked = clock()
        self.found = load_rule_set(config)
        self.problems = [problem.text for problem in self.found.problems]
        self._untold = [*self.problems]

    def take_problems(self) -> list[str]:
        """Return the problems that were not returned before; at first, those of the start."""
        taken, self._untold = self._untold, []
        return taken

    def changed(self) -> RuleSet | None:
        """Return the new rules if a file has changed and its rules could be read; looks at most every 2 seconds."""
        now = self._clock()
        if now - self._checked < CHECK_SECONDS or self.config.load_again is None:
            return None
        self._checked = now
        signature = self._read_signature()
        if signature == self._signature:
            return None
        self._signature = signature
        try:
            config = self.config.load_again()
        except ConfigError as error:
            self.problems = [f"{error}; the rules stay as they were"]
            self._untold += self.problems
            return None
        found = self._with_former(load_rule_set(config))
        before, self.config = self.config, config
        self.problems = [*config.notices, *(problem.text for problem in found.problems)]
        self._untold += self.problems
        is_same = (found.rules, found.actions) == (self.found.rules, self.found.actions)
        self.found = found
        return None if is_same and _times(before) == _times(config) else found

    def _with_former(self, found: RuleSet) -> RuleSet:
        """Keep the earlier version of each rule whose table has become wrong."""
        wrong = {problem.name for problem in found.problems if problem.is_rule}
        former = {rule.name: rule for rule in self.found.rules if rule.name in wrong and rule.origin != BUILT_IN}
        rules = [former.pop(rule.name, rule) for rule in found.rules]
        kept = {word: action for word, action in self.found.actions.items() if word not in found.actions}
        needed = {word for rule in (*rules, *former.values()) for word in rule.actions}
        actions = {**found.actions, **{word: action for word, action in kept.items() if word in needed}}
        return replace(found, rules=(*rules, *former.values()), actions=actions)

    def _read_signature(self) -> Signature:
        return tuple(map(_signature, self.config.files))


def _times(config: Config) -> tuple[object, ...]:
    """Return the settings of `[alerts]`."""
    return tuple(config.value(key) for key in BY_KEY if key.startswith("alerts."))


def _signature(path: str) -> tuple[int, int, int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size
