"""The message that `jobtop alerts try-action` sends. Pure."""

from __future__ import annotations

from jobtop.core.alerts.model import Message, Severity, State

RULE = "try-action"


def trial_message(key: str, host: str, at: float) -> Message:
    """A message about nothing, which says so."""
    return Message(
        key=key,
        severity=Severity.INFO,
        state=State.FIRING,
        rule=RULE,
        title="jobtop: a test message",
        text="This is a test. No alert has fired.",
        host=host,
        at=at,
        table=(("host", host),),
        look="jobtop alerts",
    )
