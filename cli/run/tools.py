"""`run --tool NAME SCRIPT` and `submit --tool NAME SCRIPT`: finds out whether the words call a configured tool."""

from __future__ import annotations

import os
import shutil

from jobtop.cli.run.launch import TOOL_CALL, monitor_settings
from jobtop.cli.run.options import parse_arguments, unset_value
from jobtop.core.errors import UsageError
from jobtop.core.run.tools import find_tool
from jobtop.core.units import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from jobtop.cli.app import App
    from jobtop.cli.run.options import Option


def with_called_tool(app: App, rows: Sequence[Option], words: Sequence[str], options: dict[str, Any]) -> dict[str, Any]:
    """Return the options with the tool and its script, and with the options behind the script.

    Without --tool the first word may name the tool, but only if it is no program: then it has no other meaning.
    """
    name, is_named = options["tool"], options["tool"] is not None
    if not is_named and not is_program(app, words[0]):
        name, words = words[0], words[1:]
    tool = None if name is None else find_tool(app.config, name, app.environ)
    if tool is None:
        return options
    shown = printable(tool.name)
    others, given = options_among(rows, words, shown)
    if len(others) != 1:
        number = "no script was given" if not others else f"{len(others)} words were given"
        raise UsageError(f'the tool "{shown}" runs one script, and {number} (for a command: --tool {shown} -- COMMAND)')
    if options["shell"] or given.get("shell"):
        raise UsageError(f'--shell is for a command, and "{shown}" is a tool that runs a script')
    repeated = {option.key for option in rows if option.repeated}
    merged = {key: (*options[key], *value) if key in repeated else value for key, value in given.items()}
    app.add_settings(monitor_settings(dict.fromkeys(options) | given))
    options = options | merged | {"tool": tool.name, TOOL_CALL: (tool, others[0])}
    return options if options["image"] is not None else options | {"image": tool.image}


def options_among(rows: Sequence[Option], words: Sequence[str], tool: str) -> tuple[list[str], dict[str, Any]]:
    """Return the words that are no options, and the options that are given among them."""
    others: list[str] = []
    given: dict[str, Any] = {}
    while words:
        if not words[0].startswith("-"):
            others.append(words[0])
            words = words[1:]
            continue
        parsed = parse_arguments(rows, words)
        if parsed is None:
            where = f"among {' '.join(map(printable, words[:3]))}"
            why = f'an option {where} is unknown or has no value (the tool "{tool}" gets values by --param K=V'
            raise UsageError(f"{why}; a command with options of its own follows --)")
        values, words = parsed
        for option in rows:
            if values[option.key] != unset_value(option):
                before = given.get(option.key, ()) if option.repeated else ()
                given[option.key] = (*before, *values[option.key]) if option.repeated else values[option.key]
    return others, given


def is_program(app: App, word: str) -> bool:
    """Return whether a word names a program, as a path or in PATH."""
    return "/" in word or shutil.which(word, path=app.environ.get("PATH", os.defpath)) is not None
