"""The deliverer of a process, from its configuration: which actions it knows, what messages say, when it is quiet."""

from __future__ import annotations

import time

from jobtop.core.alerts.sending_times import sending_times
from jobtop.lifecycle.alerts.composing import compose_stored
from jobtop.lifecycle.alerts.delivering import Deliverer
from jobtop.store.database import open_to_write

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from jobtop.core.alerts.model import Action, Message, Rule
    from jobtop.core.alerts.rule_set import RuleSet
    from jobtop.core.config import Config
    from jobtop.core.paths import StatePaths
    from jobtop.store.alerts.outbox import Outgoing
    from jobtop.store.database import Database

PATIENCE_SECONDS = 5.0  # for other writers of the store; a try that fails is repeated


def open_deliverer(paths: StatePaths, config: Config, found: Callable[[], RuleSet]) -> Deliverer:
    """A deliverer that has not started yet: `wake` starts it. `found` returns the rules and actions as they are now."""
    times, network = sending_times(config), config.switch("store.network")

    def compose(database: Database, row: Outgoing) -> Message | None:
        return compose_stored(database, row, lambda name: rule_named(found(), name), paths.host, time.time())

    return Deliverer(
        lambda: open_to_write(paths, network, PATIENCE_SECONDS),
        lambda name, origin: action_named(found(), name, origin),
        compose,
        paths.names.log,
        is_quiet=times.is_quiet,
        give_up_seconds=times.give_up_seconds,
    )


def action_named(found: RuleSet, name: str, origin: str) -> Action | None:
    """The action of this name and file; an action of the same name in another file is another one."""
    return next((action for action in found.actions.values() if (action.name, action.origin) == (name, origin)), None)


def rule_named(found: RuleSet, name: str) -> Rule | None:
    """The rule of this name; None if it is gone."""
    return next((rule for rule in found.rules if rule.name == name), None)
