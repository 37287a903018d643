"""Reads attributes of /sys: small files that the kernel ends with a new line. Content without one is torn."""

from __future__ import annotations

import errno
import os

from jobtop.core.record import record

LONGEST = 65536  # bytes: a page, which is the most that an attribute can have
LONGEST_NAME = 128
# The kernel has no such attribute, or the driver says that the hardware has no such value.
NOT_THERE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENODATA, errno.EOPNOTSUPP})


@record
class Attribute:
    """The text of an attribute without spaces around it; None with a `problem`, which names the file.

    `is_there` is False if this machine has no such value; otherwise it has one, which may be unknown now.
    """

    text: str | None
    problem: str | None = None
    is_there: bool = True

    @property
    def number(self) -> int | None:
        """A whole number, which may be negative; None if the text is something else."""
        digits = "" if self.text is None else self.text.removeprefix("-")
        return int(self.text or "") if digits.isdigit() and digits.isascii() and len(digits) < 20 else None

    @property
    def name(self) -> str | None:
        """A name that can be shown, with single spaces; None if the text is something else."""
        text = " ".join((self.text or "").split())
        return text if text.isascii() and text.isprintable() and 0 < len(text) <= LONGEST_NAME else None


def read_attribute(path: str) -> Attribute:
    """An attribute as it is now."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            content = os.read(fd, LONGEST)
        finally:
            os.close(fd)
    except OSError as error:
        return Attribute(None, f"{path}: {os.strerror(error.errno or 0)}", error.errno not in NOT_THERE)
    if not content.strip():
        return Attribute(None, f"{path}: empty")
    if not content.endswith(b"\n"):
        return Attribute(None, f"{path}: torn")
    return Attribute(content.decode("utf-8", "replace").strip())


def read_number(path: str) -> int | None:
    """The whole number in an attribute; None if it is not known."""
    return read_attribute(path).number


def read_name(path: str) -> str | None:
    """The name in an attribute; None if it is not known."""
    return read_attribute(path).name
