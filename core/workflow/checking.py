"""Collects all mistakes of a workflow file, each with its line and key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from jobtop.core.errors import BadValue, did_you_mean
from jobtop.core.units import printable
from jobtop.core.workflow.document import Document
from jobtop.core.workflow.fields import Parser
from jobtop.core.workflow.model import Place, Problem

MOST_PROBLEMS = 1000


class Checker:
    """The mistakes of one document so far, and what to call the places where they are."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.problems: list[Problem] = []
        self.warnings: list[str] = []

    def blame(self, place: Place, text: str) -> None:
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(Problem(text, self.name_of(place), self.document.line(place)))

    def name_of(self, place: Place) -> str:
        """`jobs.train.depends_on`: an entry of a list is called by its name, or counted from 1."""
        words: list[str] = []
        value: Any = self.document.value
        for key in place:
            if isinstance(key, int):
                value = value[key] if isinstance(value, list) and key < len(value) else None
                name = value.get("name") if isinstance(value, dict) else None
                words.append(printable(name) if isinstance(name, str) and name else f"#{key + 1}")
            else:
                value = value.get(key) if isinstance(value, dict) else None
                words.append(printable(key))
        return ".".join(words)

    def value_at(self, place: Place) -> Any:
        """What the document has at a place that was read."""
        value = self.document.value
        for key in place:
            value = value[key]
        return value

    def table(
        self, value: Any, place: Place, parsers: Mapping[str, Parser], required: Iterable[str] = ()
    ) -> dict[str, Any] | None:
        """The values of a table that are right; None if it is no table."""
        if not isinstance(value, dict):
            self.blame(place, "has to be a table")
            return None
        found: dict[str, Any] = {}
        for key, said in value.items():
            parser = parsers.get(key)
            if parser is None:
                self.blame((*place, key), f"this key is not known{did_you_mean(key, parsers)}")
            elif said is not None:
                try:
                    found[key] = parser(said)
                except BadValue as error:
                    self.blame((*place, key), str(error))
        for key in required:
            if value.get(key) is None:
                self.blame(place, f'the key "{key}" is missing')
        return found

    def entries(
        self, values: Iterable[Any], place: Place, parsers: Mapping[str, Parser], required: Iterable[str]
    ) -> list[tuple[Place, dict[str, Any]]]:
        """The entries of a list that have all that they need, with their places."""
        found = []
        for index, value in enumerate(values):
            here = (*place, index)
            entry = self.table(value, here, parsers, required)
            if entry is not None and all(key in entry for key in required):
                found.append((here, entry))
        return found
