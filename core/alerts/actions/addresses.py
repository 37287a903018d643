"""Addresses of actions as they may be shown and stored: an address may be a secret. Pure."""

from __future__ import annotations

from jobtop.core.alerts.secrets import ENVIRONMENT, FILE
from jobtop.core.units import printable

WEB = ("webhook", "slack", "ntfy")
MARK_LENGTH = 6


def shown_word(word: str) -> str:
    """A word of `actions` as it may be shown and stored: of an address only the host, and a mark to tell it by."""
    kind, colon, value = word.partition(":")
    if kind not in WEB or not colon or value.startswith((ENVIRONMENT, FILE)):
        return word
    from hashlib import sha256

    mark = sha256(value.encode("utf-8", "surrogatepass")).hexdigest()[:MARK_LENGTH]
    return f"{kind}:{shown_address(value)} #{mark}"


def shown_address(url: str) -> str:
    """An address without the parts that may be secret: user, path and query."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port is not None else ""
    except ValueError:
        return "…"
    return printable(f"{parts.scheme}://{parts.hostname or ''}{port}/…")
