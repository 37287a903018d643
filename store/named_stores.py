"""Selects the stores to read: those named by --store, else by JOBTOP_STORES, else this host's."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from jobtop.core.errors import UsageError

VARIABLE = "JOBTOP_STORES"
SUFFIX = ".db"


def selected_stores(options: Sequence[str], variable: str, own_store: Path, warn: Callable[[str], None]) -> list[Path]:
    """Return the files named by options, else by the variable, each once; empty if nothing is named."""
    found = [file for option in options for file in store_files(option)]
    if not options:
        found = list(_stores_from_variable(variable, warn))
    return list(dict.fromkeys(own_store if _is_same_file(file, own_store) else file for file in found))


def store_files(word: str, place: str = "--store") -> list[Path]:
    """Return the store at this path, or all stores of this directory."""
    path = expanded_path(word)
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


def expanded_path(word: str) -> Path:
    """Return the absolute path that a user wrote, `~` expanded."""
    return Path(os.path.abspath(os.path.expanduser(word)))


def _stores_from_variable(variable: str, warn: Callable[[str], None]) -> Iterator[Path]:
    """Yield the stores that the variable names; warn about missing ones, since the variable applies to every call."""
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
        raise UsageError(f"{VARIABLE}: none of the stores that it names exists")


def _is_same_file(file: Path, own: Path) -> bool:
    try:
        return file == own or (file.name == own.name and os.path.samefile(file, own))
    except OSError:
        return False
