"""The alert rules as the console lists them: what each one looks for, and whether it does so now."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING

from jobtop.core.record import record
from jobtop.tui.palette import Tone

if TYPE_CHECKING:
    from jobtop.core.alerts.model import Rule
    from jobtop.store.alerts.marks import Mark

DAY_SECONDS = 86400.0


class RuleState(IntEnum):
    """Whether a rule is in force, in the order of the list."""

    ACTIVE = 0
    MUTED = 1  # it is evaluated, but sends nothing
    INACTIVE = 2  # this machine cannot supply its metric
    OFF = 3  # switched off


STATE_GLYPHS = {
    RuleState.ACTIVE: ("●", Tone.GREEN),
    RuleState.MUTED: ("‖", Tone.YELLOW),
    RuleState.INACTIVE: ("–", Tone.GREY),
    RuleState.OFF: ("○", Tone.GREY),
}


@record
class RuleRow:
    """One rule as it is listed; `words` says more about its state: until when it is muted, why it is inactive.

    They are empty if there is no more to say.
    """

    rule: Rule
    condition: str
    state: RuleState
    words: str
    is_armed: bool = False

    @property
    def key(self) -> str:
        return self.rule.name


def rule_rows(
    rules: Iterable[tuple[Rule, str | None]], conditions: Sequence[str], marks: Sequence[Mark], now: float
) -> list[RuleRow]:
    """The rows of rules, each with the reason why it is inactive, if any; active ones first."""
    from jobtop.store.alerts.marks import MarkKind, failure_of

    muted = {mark.name: mark for mark in marks if mark.kind is MarkKind.MUTE_RULE}
    armed = {mark.name for mark in marks if mark.kind is MarkKind.ARMED}
    known = [
        (rule, reason or failure_of(rule, marks), condition)
        for (rule, reason), condition in zip(rules, conditions, strict=True)
    ]
    rows = [
        RuleRow(rule, condition, *state_of(rule, reason, muted.get(rule.name), now), rule.name in armed)
        for rule, reason, condition in known
    ]
    return sorted(rows, key=lambda row: row.state in (RuleState.INACTIVE, RuleState.OFF))


def state_of(rule: Rule, reason: str | None, muted: Mark | None, now: float) -> tuple[RuleState, str]:
    """The state of a rule, and its words."""
    if not rule.is_enabled:
        return RuleState.OFF, ""
    if reason is not None:
        return RuleState.INACTIVE, reason
    if muted is not None:
        return RuleState.MUTED, muted_words(muted, now)
    return RuleState.ACTIVE, ""


def muted_words(mark: Mark, now: float) -> str:
    """`until 14:20`, `until 13 Mar 14:20`, or `until unmuted`."""
    if mark.until is None:
        return "until unmuted"
    form = "%H:%M" if mark.until - now < DAY_SECONDS else "%d %b %H:%M"
    return f"until {time.strftime(form, time.localtime(mark.until))}"
