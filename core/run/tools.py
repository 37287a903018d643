"""Tools: `[[tool]]` tables of the configuration say how a script of a tool is run. Checked when they are needed. Pure.

A tool has a command, an image, or both: then the command runs in the image. `{script}` in the command is the script,
`{params}` all parameters as JSON, and any other `{name}` the parameter of that name.
"""

from __future__ import annotations

import json
import os
import re

from jobtop.core.config import quoted, text, texts
from jobtop.core.errors import BadValue, ConfigError, did_you_mean
from jobtop.core.paths import absolute_path
from jobtop.core.record import record
from jobtop.core.units import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from jobtop.core.config import Config, ToolTable

SECTION = "tool"
SCRIPT, PARAMS = "script", "params"
VARIABLE = "JOBTOP_PARAMS"  # in the environment of a job of a tool: its parameters as JSON
MOST_PARAMS_BYTES = 100 * 1024  # Linux takes 128 KiB for one variable or argument
MARK = re.compile(r"\{\{|\}\}|\{([^{}]*)\}")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")


@record
class Tool:
    """How the scripts of a tool are run; None: it has no image, or no script to measure it by."""

    name: str
    command: tuple[str, ...]
    image: str | None = None
    benchmark: str | None = None  # an absolute path
    volumes: tuple[str, ...] = ()
    origin: str = ""


def command_words(raw: object) -> tuple[str, ...]:
    """Check the words of a command, and their marks such as {script}."""
    if not isinstance(raw, list):
        raise BadValue(f'{quoted(raw)} is not a list (use ["python", "{{script}}"])')
    words = tuple(map(text, raw))
    if not words:
        raise BadValue('is empty (use ["python", "{script}"])')
    for word in words:
        for match in MARK.finditer(word):
            if match[1] is not None and not NAME.fullmatch(match[1]):
                shown = printable(match[0][:40])
                raise BadValue(f'"{shown}" is not {{script}}, {{params}} or a parameter (write {{{{ for a plain {{)')
    return words


def image_name(raw: object) -> str:
    """Check that a value can name an image."""
    word = text(raw)
    if word.startswith("-") or not word.isprintable() or " " in word:
        raise BadValue(f"{quoted(raw)} is not an image, such as python:3.12")
    return word


FIELDS: Mapping[str, Callable[[object], Any]] = {
    "name": text,
    "command": command_words,
    "image": image_name,
    "benchmark": text,
    "volumes": texts,
}


def parse_tool(table: ToolTable, environ: Mapping[str, str]) -> Tool:
    """Make a tool of a table; ConfigError names the file, the field, what is wrong and the nearest valid name."""
    values: dict[str, Any] = {}
    for field, raw in table.fields.items():
        if field not in FIELDS:
            raise ConfigError(f"{table.label}.{printable(field[:60])}: unknown field{did_you_mean(field, FIELDS)}")
        try:
            values[field] = FIELDS[field](raw)
        except BadValue as error:
            raise ConfigError(f"{table.label}.{field}: {error}") from None
    command, image = values.get("command"), values.get("image")
    if command is None and image is None:
        raise ConfigError(f'{table.label}: needs command = ["python", "{{script}}"], image = "…", or both')
    if image is None and values.get("volumes"):
        raise ConfigError(f"{table.label}.volumes: is for containers: give an image too")
    benchmark = values.get("benchmark")
    return Tool(
        name=table.name,
        command=command or ("{script}",),
        image=image,
        benchmark=None
        if benchmark is None
        else absolute_path(benchmark, os.path.dirname(table.origin) or "/", environ),
        volumes=values.get("volumes", ()),
        origin=table.origin,
    )


def find_tool(config: Config, name: str, environ: Mapping[str, str]) -> Tool | None:
    """The tool of that name, from the strongest file that has it; None if none does."""
    tables = [table for table in config.tools if table.name == name]
    return parse_tool(tables[-1], environ) if tables else None


def required_tool(config: Config, name: str, environ: Mapping[str, str]) -> Tool:
    """The tool of that name; ConfigError says how to set one up."""
    tool = find_tool(config, name, environ)
    if tool is None:
        if files := [file for key, _, file in config.ignored if key == SECTION]:
            raise ConfigError(f'no tool is named "{printable(name[:60])}"; {files[0]} has tools: jobtop config trust')
        hint = did_you_mean(name, [table.name for table in config.tools])
        example = f'[[tool]] name = "{printable(name[:40])}", command = ["python", "{{script}}"]'
        raise ConfigError(f'no tool is named "{printable(name[:60])}"{hint}; add it to config.toml: {example}')
    return tool


def tool_problems(tables: Iterable[ToolTable], environ: Mapping[str, str]) -> list[str]:
    """What is wrong with each table that is wrong."""
    problems = []
    for table in tables:
        try:
            parse_tool(table, environ)
        except ConfigError as error:
            problems.append(str(error))
    return problems


def tool_command(tool: Tool, script: str, params: Mapping[str, Any]) -> tuple[str, ...]:
    """The words to run; the script comes last if no word has it. BadValue if a parameter is missing."""
    values = {SCRIPT: script, PARAMS: params_text(params)}

    def value(match: re.Match[str]) -> str:
        name = match[1]
        if name is None:
            return match[0][0]
        if name not in values and name not in params:
            raise BadValue(f'the tool "{printable(tool.name)}" needs the parameter {name}: --param {name}=VALUE')
        return values[name] if name in values else _word(params[name])

    words = tuple(MARK.sub(value, word) for word in tool.command)
    has_script = any(match[1] == SCRIPT for word in tool.command for match in MARK.finditer(word))
    return words if has_script else (*words, script)


def params_text(params: Mapping[str, Any]) -> str:
    """The parameters as JSON in one line; BadValue if they are no JSON, or too long for the environment."""
    try:
        found = json.dumps(params, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise BadValue(f"params: only what JSON has can be passed to a tool: {error}") from None
    size = len(found.encode("utf-8", "surrogateescape"))
    if size > MOST_PARAMS_BYTES:
        raise BadValue(f"params: {size // 1024} KiB are too long for the environment; put them into a file")
    return found


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
