"""Alerts at the end of a job: open ones are resolved, and how it ended and what it used is judged."""

from __future__ import annotations

import time

from jobtop.core.alerts.evaluator import Evaluator
from jobtop.core.alerts.model import BUILT_IN, Rule, RuleKind, State, Transition
from jobtop.core.metrics import Scope
from jobtop.core.model import Status
from jobtop.core.units import format_duration
from jobtop.lifecycle.alerts.book import Book
from jobtop.lifecycle.alerts.dispatch import Dispatch
from jobtop.store.alerts.alert_rows import AlertStore
from jobtop.store.alerts.marks import Marks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jobtop.core.config import Config
    from jobtop.core.model import Job
    from jobtop.store.alerts.alert_rows import StoredAlert
    from jobtop.store.jobs import Jobs

AT_THE_END = (RuleKind.EVENT, RuleKind.DEVIATION)  # what is judged then; once, also if it fired while the job ran
MOST_PAST = 20  # earlier runs of the same name


def judge_end(jobs: Jobs, done: Job, config: Config) -> list[StoredAlert]:
    """Judge a job that has ended, once; return its alerts that have changed."""
    assert done.seq is not None
    seq, book, at = done.seq, Book(config), time.time()
    evaluator = Evaluator([rule for rule in book.rules if rule.kind in AT_THE_END])
    is_compared = done.status is Status.SUCCESS and any(rule.kind is RuleKind.DEVIATION for rule in book.rules)
    past = jobs.earlier_runs(done, MOST_PAST) if is_compared else []
    found = evaluator.see_end(done, past, at)
    stored = AlertStore(jobs.database)
    with jobs.database.writing():
        known = stored.listing(job_seq=seq)
        judged = {alert.rule for alert in known if alert.kind in AT_THE_END}
        changes = [over(book, alert, at) for alert in known if alert.is_open]
        changes += [change for change in found if change.rule.name not in judged]
        changed = stored.apply(changes, lambda _: seq)
        Marks(jobs.database).set_failed(evaluator.isolation.take_failures())
        Dispatch(lambda: book).tell_of(jobs.database, changed, at)
    return changed


def over(book: Book, alert: StoredAlert, at: float) -> Transition:
    """The change of an open alert when its job ends."""
    rule = book.rule(alert.rule) or Rule(alert.rule, alert.kind, Scope.JOB, alert.severity, BUILT_IN)
    text = f"the job has ended, after {format_duration(max(0.0, at - alert.began_at))}"
    return Transition(rule, alert.owner, State.RESOLVED, at, alert.began_at, None, text, is_flapping=alert.is_flapping)
