"""Which configuration files of projects a user trusts, as they were when that was said."""

from __future__ import annotations

import hashlib
import json
import os

from jobtop.core.errors import ConfigError, StoreUnavailable
from jobtop.core.paths import make_private_dir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

TRUSTED = "trusted.json"


def is_trusted(path: Path, state: Path) -> bool:
    """Whether the file, as it is now, was trusted by this user; `state` is never a directory the file chose."""
    try:
        return is_trusted_content(path, path.read_bytes(), state)
    except OSError:
        return False


def is_trusted_content(path: Path, content: bytes, state: Path) -> bool:
    return _trusted_digests(state).get(os.path.abspath(path)) == _digest(content)


def trust(path: Path, state: Path) -> None:
    """Remember the file as it is now: its actions count until it changes."""
    try:
        digests = {**_trusted_digests(state), os.path.abspath(path): _digest(path.read_bytes())}
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    unfinished = state / f".{TRUSTED}.{os.getpid()}"
    try:
        make_private_dir(state)
        with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            json.dump(digests, file, indent=1)
        unfinished.replace(state / TRUSTED)
    except OSError as error:
        raise StoreUnavailable(f"{state / TRUSTED}: cannot be written: {error.strerror}") from error


def _trusted_digests(state: Path) -> dict[str, object]:
    try:
        digests = json.loads((state / TRUSTED).read_bytes())
    except (OSError, ValueError):
        return {}
    return digests if isinstance(digests, dict) else {}


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
