"""What the console remembers between runs: the theme, the sort order of tables, and hidden columns."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from jobtop.core.paths import make_private_dir
from jobtop.tui.widgets.columns import Sort

NAME = "console.json"


class Preferences:
    """The remembered choices: read once, written at every change. A damaged file is ignored, and `problem` says so."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.problem: str | None = None
        self._shape = self._read()

    @property
    def theme(self) -> str | None:
        theme = self._shape.get("theme")
        return theme if isinstance(theme, str) else None

    def keep_theme(self, name: str) -> None:
        if name != self.theme:
            self._keep("theme", name)

    def sort(self, table: str) -> Sort | None:
        """The column and direction that a table was last sorted by."""
        match self._table("sort").get(table):
            case [str(key), bool(descending)]:
                return Sort(key, descending)
        return None

    def keep_sort(self, table: str, sort: Sort) -> None:
        if sort != self.sort(table):
            self._keep("sort", {**self._table("sort"), table: list(sort)})

    def hidden(self, table: str) -> frozenset[str]:
        """The keys of the columns that the user has hidden in a table."""
        keys = self._table("hidden").get(table)
        return frozenset(key for key in keys if isinstance(key, str)) if isinstance(keys, list) else frozenset()

    def keep_hidden(self, table: str, keys: Iterable[str]) -> None:
        if (hidden := frozenset(keys)) != self.hidden(table):
            self._keep("hidden", {**self._table("hidden"), table: sorted(hidden)})

    def _table(self, name: str) -> dict[str, Any]:
        table = self._shape.get(name)
        return table if isinstance(table, dict) else {}

    def _keep(self, name: str, value: object) -> None:
        self._shape = {**self._shape, name: value}
        if self._path is not None:
            try:
                _write(self._path, self._shape)
            except OSError as error:
                self.problem = f"{self._path}: cannot be written: {error.strerror}; the change is lost when you leave"

    def _read(self) -> dict[str, Any]:
        try:
            shape = json.loads(self._path.read_bytes()) if self._path is not None else {}
        except FileNotFoundError:
            return {}
        except OSError as error:
            self.problem = f"{self._path}: cannot be read: {error.strerror}"
            return {}
        except (ValueError, RecursionError):
            shape = None
        if not isinstance(shape, dict):
            self.problem = f"{self._path}: is damaged and ignored; the next change overwrites it"
            return {}
        return shape


def _write(path: Path, shape: dict[str, Any]) -> None:
    """Write the whole file or nothing, readable by this user only."""
    make_private_dir(path.parent)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        fd = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with open(fd, "w", encoding="utf-8") as file:
            json.dump(shape, file, indent=1)
        unfinished.replace(path)
    except OSError:
        with suppress(OSError):
            unfinished.unlink()
        raise
