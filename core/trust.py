"""Remembers which project configuration files the user trusts, by the digest of their content."""

from __future__ import annotations

import hashlib
import json
import os

from jobtop.core.errors import ConfigError, StoreUnavailable
from jobtop.core.paths import make_private_dir
from jobtop.core.plain_files import UnsafeFile, read_plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TRUSTED = "trusted.json"
MAX_RECORD_BYTES = 4 * 1024 * 1024  # of trusted.json: about ten thousand files


def is_trusted_content(path: Path, content: bytes, state: Path) -> bool:
    """Return whether the user trusts this content at this path; `state` must not come from the file itself."""
    return _trusted_digests(state).get(os.path.abspath(path)) == _digest(content)


def trust(path: Path, state: Path, most_bytes: int, check: Callable[[bytes], None]) -> None:
    """Trust a file until its content changes; the content that `check` accepts is the content that is trusted."""
    try:
        content = read_plain(path, most_bytes)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    check(content)
    digests = {**_trusted_digests(state), os.path.abspath(path): _digest(content)}
    unfinished = state / f".{TRUSTED}.{os.getpid()}"
    try:
        make_private_dir(state)
        with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            json.dump(digests, file, indent=1)
        unfinished.replace(state / TRUSTED)
    except OSError as error:
        raise StoreUnavailable(f"{state / TRUSTED}: cannot be written: {error.strerror}") from error


def _trusted_digests(state: Path) -> dict[str, object]:
    """Return digests by path; empty if trusted.json is damaged or not owned by the user."""
    try:
        digests = json.loads(read_plain(state / TRUSTED, MAX_RECORD_BYTES))
    except (OSError, UnsafeFile, ValueError, RecursionError):
        return {}
    return digests if isinstance(digests, dict) else {}


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
