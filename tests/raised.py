"""Alerts in a store, raised as an engine does."""

import time
from pathlib import Path

from jobtop.core.alerts.model import Rule, State, Transition
from jobtop.core.alerts.rule_set import default_rules
from jobtop.core.model import Job
from jobtop.core.paths import StatePaths
from jobtop.store.alerts.alert_rows import AlertStore, StoredAlert
from jobtop.store.database import open_to_write
from records import HERE

RULES = {rule.name: rule for rule in default_rules()}
TEXT = "memory 92.0 % of its limit (3.7 of 4.0 GiB) for 10s"


def raise_alert(
    home: Path,
    job: Job | None,
    rule: str | Rule = "job-memory-limit",
    state: State = State.FIRING,
    at: float | None = None,
    text: str = TEXT,
    value: float = 0.92,
) -> StoredAlert:
    """Store an alert of a job, or of the host; a resolved one has fired a minute before."""
    found = RULES[rule] if isinstance(rule, str) else rule
    at = time.time() if at is None else at
    owner = None if job is None else job.id
    transition = Transition(found, owner, state, at, at - found.for_seconds, value, text)
    before = [Transition(found, owner, State.FIRING, at - 60, at - 70, value, text)] if state is State.RESOLVED else []
    database = open_to_write(StatePaths(home, HERE))
    try:
        seq = 0 if job is None or job.seq is None else job.seq
        return AlertStore(database).apply([*before, transition], lambda _: seq)[-1]
    finally:
        database.close()
