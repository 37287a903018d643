"""Which stores are meant: those named by --store, else by JOBTOP_STORES, else this host's."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from jobtop.core.errors import UsageError

VARIABLE = "JOBTOP_STORES"
SUFFIX = ".db"


def named_files(words: Sequence[str], variable: str, own: Path, warn: Callable[[str], None]) -> list[Path]:
    """The files that options name, else the variable, each once; none if nothing is named."""
    found = [file for word in words for file in store_files(word)]
    if not words:
        found = list(_standing_files(variable, warn))
    return list(dict.fromkeys(own if _is_same(file, own) else file for file in found))


def store_files(word: str, place: str = "--store") -> list[Path]:
    """The store that is meant, or all that are in a directory."""
    path = Path(os.path.abspath(os.path.expanduser(word)))
    try:
        names = sorted(entry.name for entry in os.scandir(path) if entry.name.endswith(SUFFIX) and entry.is_file())
    except NotADirectoryError:
        return [path]
    except OSError as error:
        problem = "there is no such file or directory" if isinstance(error, FileNotFoundError) else error.strerror
        raise UsageError(f"{place}: {word}: {problem}") from None
    if not names:
        raise UsageError(f"{place}: {word}: there is no store (HOST{SUFFIX}) in this directory")
    return [path / name for name in names]


def _standing_files(variable: str, warn: Callable[[str], None]) -> Iterator[Path]:
    """What the variable names is asked for in every call: what of it is not there now is said and passed over."""
    words = [word for word in variable.split(os.pathsep) if word]
    found = False
    for word in words:
        try:
            files = store_files(word, VARIABLE)
        except UsageError as error:
            warn(f"left out: {error}")
            continue
        found = True
        yield from files
    if words and not found:
        raise UsageError(f"{VARIABLE}: none of the stores it names is there")


def _is_same(file: Path, own: Path) -> bool:
    try:
        return file == own or (file.name == own.name and os.path.samefile(file, own))
    except OSError:
        return False
