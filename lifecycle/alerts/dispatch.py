"""Decides who is told about alerts with a new state, and adds the messages to the outbox, in the same transaction."""

from __future__ import annotations

import os
import time

from jobtop.core.alerts.model import MOMENTARY, RuleKind, Severity, State, is_ending
from jobtop.core.alerts.rule_fields import is_job_action
from jobtop.store.alerts.alert_rows import AlertStore
from jobtop.store.alerts.marks import MarkKind, Marks
from jobtop.store.alerts.outbox import Outbox

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jobtop.core.alerts.model import Rule
    from jobtop.lifecycle.alerts.book import Book
    from jobtop.store.alerts.alert_rows import StoredAlert
    from jobtop.store.database import Database

LOG = "log"  # the type of action that does not wait for more alerts of its rule


class Dispatch:
    """Adds messages to the outbox. What alerts do to their jobs is collected in `deeds`: job, action and rule."""

    def __init__(self, book: Callable[[], Book], is_interactive: Callable[[str], bool] = lambda _: False) -> None:
        self._book, self._is_interactive = book, is_interactive
        self.deeds: list[tuple[str, str, str]] = []

    def tell_of(self, database: Database, alerts: Sequence[StoredAlert], now: float | None = None) -> None:
        """Add what is to be sent about alerts with a new state."""
        now = time.time() if now is None else now
        book, marks, stored, plan = self._book(), Marks(database), AlertStore(database), Plan(Outbox(database))
        for alert in alerts:
            rule = book.rule(alert.rule)
            if rule is None or alert.state is State.PENDING or marks.is_muted(rule.name, alert.job_id, now):
                continue
            if alert.state is State.RESOLVED:
                if rule.kind is not RuleKind.EVENT and not alert.detail.get(MOMENTARY):
                    plan.tell_of_end(alert)
            elif not stored.was_open_since(alert, now - rule.cooldown_seconds):
                for word in rule.actions:
                    self._do(plan, marks, rule, alert, word)
        plan.carry_out(book, now)

    def remind(self, database: Database, alerts: Sequence[StoredAlert], now: float) -> None:
        """Tell again of alerts that still fire and that no person has acknowledged, every `alerts.repeat` at most."""
        book, marks, plan = self._book(), Marks(database), Plan(Outbox(database))
        for alert in alerts:
            if alert.state is State.FIRING and not marks.is_muted(alert.rule, alert.job_id, now):
                plan.tell_again(alert, now - book.times.repeat_seconds)
        plan.carry_out(book, now)

    def take_step(self, database: Database, rule: Rule, alert: StoredAlert, do: str, now: float) -> None:
        """Take a later step of a rule: warn again, or act on the job."""
        book, marks, plan = self._book(), Marks(database), Plan(Outbox(database))
        if marks.is_muted(rule.name, alert.job_id, now):
            return
        words = [word for word in rule.actions if not is_job_action(word)]
        for word in words if do == "warn" else [do, *words]:
            self._do(plan, marks, rule, alert, word)
        plan.carry_out(book, now)

    def _do(self, plan: Plan, marks: Marks, rule: Rule, alert: StoredAlert, word: str) -> None:
        """Plan a message, or what is done to the job.

        A job is ended or paused only by a rule that a person has armed, and never if a person works in it.
        """
        if not is_job_action(word):
            plan.tell(alert, State.FIRING, word)
        elif alert.job_id is not None and (not is_ending(word) or self._may_end(marks, rule, alert.job_id)):
            self.deeds.append((alert.job_id, word, rule.name))

    def _may_end(self, marks: Marks, rule: Rule, job_id: str) -> bool:
        return marks.has(MarkKind.ARMED, rule.name) and not self._is_interactive(job_id)


class Plan:
    """The messages to add: alerts of one rule that have the same news for the same action become one message."""

    def __init__(self, outbox: Outbox) -> None:
        self.outbox = outbox
        self._groups: dict[tuple[str, State, str], list[StoredAlert]] = {}

    def tell(self, alert: StoredAlert, state: State, word: str) -> None:
        self._groups.setdefault((alert.rule, state, word), []).append(alert)

    def tell_of_end(self, alert: StoredAlert) -> None:
        """Tell those that were told of its start that it is over.

        A message about its start that is not composed yet is not sent: that about its end says both.
        """
        started = [message for message in self.outbox.about(alert) if message.state is State.FIRING]
        for message in started:
            self.outbox.withdraw(message.id, alert.id)
        for word in dict.fromkeys(message.action for message in started):
            self.tell(alert, State.RESOLVED, word)

    def tell_again(self, alert: StoredAlert, before: float) -> None:
        """Tell those that were told last before a moment."""
        newest: dict[str, float] = {}
        for message in self.outbox.about(alert):
            newest[message.action] = max(newest.get(message.action, 0.0), message.created_at)
        for word, told_at in newest.items():
            if told_at <= before:
                self.tell(alert, State.FIRING, word)

    def carry_out(self, book: Book, now: float) -> None:
        """Add each group to a message of its rule that still waits for others, or add a new message."""
        for (rule, state, word), alerts in self._groups.items():
            action = book.action(word)
            if action is None:
                continue
            name, origin = action.name, action.origin
            members = [alert.id for alert in alerts]
            waiting = (
                message.id
                for message in self.outbox.waiting(now)
                if (message.rule, message.action, message.origin) == (rule, name, origin) and message.state is state
            )
            if any(self.outbox.append_members(number, members) for number in waiting):
                continue
            self.outbox.add(
                key=os.urandom(16).hex(),
                rule=rule,
                action=name,
                origin=origin,
                state=state,
                severity=max((alert.severity for alert in alerts), key=list(Severity).index),
                created_at=now,
                ready_at=now + (0.0 if action.type == LOG else book.times.group_wait_seconds),
                members=members,
            )
