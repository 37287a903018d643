"""`jobtop alerts`: the group of its verbs; without a verb it lists alerts."""

from jobtop.cli.verb_group import verb_group

VERBS = {
    "list": "listing:list_",
    "rules": "rules:rules",
    "ack": "ack:ack",
    "mute": "mute:mute",
    "unmute": "mute:unmute",
    "arm": "arm:arm",
    "disarm": "arm:disarm",
    "send": "send:send",
    "try-action": "try_action:try_action",
    "test": "replay:test",
}


@verb_group("jobtop.cli.verbs.alerts", VERBS, default="list", reads_stores=("list", "test"))
def alerts() -> None:
    """List alerts, acknowledge and mute them, send messages that wait, and let rules act on jobs.

    Without a verb, alerts are listed.
    """
