"""Actions without a table of their own, such as `bell`, `webhook:https://…` and `mail:ada@example.org`. Pure."""

from __future__ import annotations

import hashlib

from jobtop.core.alerts.model import Action
from jobtop.core.alerts.secrets import ENVIRONMENT, FILE
from jobtop.core.units import printable

PLAIN = ("bell", "log", "desktop")
# The field that the text after the colon is.
FIELDS = {"webhook": "url", "slack": "url", "ntfy": "url", "command": "command", "mail": "to"}
WEB = ("webhook", "slack", "ntfy")
MARK_LENGTH = 8


def short_action(word: str, origin: str) -> Action | None:
    """The action that a word of `actions` stands for; None if it is the name of a table, or acts on the job.

    Its name has no secret in it: the name is stored with each message.
    """
    if word in PLAIN:
        return Action(word, word, {}, origin)
    kind, colon, value = word.partition(":")
    if kind not in FIELDS or not colon or not value:
        return None
    fields = {FIELDS[kind]: (value,) if kind == "command" else value}
    return Action(shown_word(word), kind, fields, origin)


def shown_word(word: str) -> str:
    """A word of `actions` as it may be shown and stored: of an address only the host, and a mark to tell it by."""
    kind, _, value = word.partition(":")
    if kind not in WEB or value.startswith((ENVIRONMENT, FILE)):
        return word
    mark = hashlib.sha256(value.encode("utf-8", "surrogateescape")).hexdigest()[:MARK_LENGTH]
    return f"{kind}:{shown_address(value)}{mark}"


def shown_address(url: str) -> str:
    """An address without the parts that may be secret: user, path and query."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port is not None else ""
    except ValueError:
        return "…"
    return printable(f"{parts.scheme}://{parts.hostname or ''}{port}/…")
