"""Secrets of actions: `env:NAME` and `file:PATH`, read when a message is sent, never kept and never printed."""

from __future__ import annotations

import os
import stat

from jobtop.core.errors import JobtopError
from jobtop.core.paths import absolute_path
from jobtop.core.redact import HIDDEN
from jobtop.core.units import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

ENVIRONMENT, FILE = "env:", "file:"
MOST_BYTES = 16 * 1024
SHORTEST_PART = 6  # shorter parts of an address are words such as "api", not tokens
OTHERS = stat.S_IRWXG | stat.S_IRWXO


class SecretUnavailable(JobtopError):  # noqa: N818 — as in core/errors.py
    """A secret cannot be read; the text names the variable or the file, never the value."""


class Secrets:
    """Reads secrets, and hides in texts those that it has read."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.environ = environ
        self._read: set[str] = set()

    def value(self, word: str, base: str = "/") -> str:
        """The secret that `env:NAME` or `file:PATH` names; any other word is the value itself.

        A relative path is relative to `base`.
        """
        if word.startswith(ENVIRONMENT):
            value = self._variable(word.removeprefix(ENVIRONMENT))
        elif word.startswith(FILE):
            value = read_secret(absolute_path(word.removeprefix(FILE), base, self.environ))
        else:
            return word
        self.remember(value)
        return value

    def remember(self, value: str) -> None:
        """Hide this value, and the parts of an address that may be tokens, from now on."""
        from urllib.parse import unquote

        parts = value.split("://", 1)[-1].replace("?", "/").replace("&", "/").replace("=", "/").split("/")
        tokens = [part for part in parts[1:] if len(part) >= SHORTEST_PART]
        self._read.update(filter(None, (value, *tokens, *map(unquote, tokens))))

    def hide(self, text: str) -> str:
        """The text without any secret that was read."""
        for value in sorted(self._read, key=len, reverse=True):
            text = text.replace(value, HIDDEN)
        return text

    def _variable(self, name: str) -> str:
        value = self.environ.get(name, "")
        if not value:
            raise SecretUnavailable(
                f"the environment variable {printable(name)} is not set where this message is sent"
                " (set it before jobtop starts, or use file:PATH)"
            )
        return value


def read_secret(path: str) -> str:
    """The first line of a file that only this user can read; check and read use the same open file.

    A symbolic link of another user is not followed: it would choose which of this user's files is sent.
    """
    shown = printable(path)
    try:
        if os.lstat(path).st_uid not in (0, os.geteuid()):
            raise SecretUnavailable(f"{shown}: {_foreign(os.lstat(path).st_uid)}")
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError as error:
        raise SecretUnavailable(f"{shown}: the secret cannot be read: {os.strerror(error.errno or 0)}") from None
    try:
        if problem := _problem(os.fstat(descriptor)):
            raise SecretUnavailable(f"{shown}: {problem}")
        content = os.read(descriptor, MOST_BYTES)
    except OSError as error:
        raise SecretUnavailable(f"{shown}: the secret cannot be read: {os.strerror(error.errno or 0)}") from None
    finally:
        os.close(descriptor)
    line = content.decode("utf-8", "replace").strip().partition("\n")[0].strip()
    if not line:
        raise SecretUnavailable(f"{shown}: it is empty; write the secret into its first line")
    return line


def _problem(status: os.stat_result) -> str | None:
    if not stat.S_ISREG(status.st_mode):
        return "a secret has to be in a regular file"
    if status.st_uid not in (0, os.geteuid()):
        return _foreign(status.st_uid)
    if status.st_mode & OTHERS:
        return "other users may read or change it; chmod 600 takes that away"
    if status.st_size > MOST_BYTES:
        return f"it is larger than {MOST_BYTES // 1024} KiB; a secret is one line"
    return None


def _foreign(uid: int) -> str:
    return f"it belongs to the user with the id {uid}; use a file of your own"
