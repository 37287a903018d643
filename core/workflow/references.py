"""Files and user data in commands: `${files.input.NAME}` is a path, and says that the job reads the file. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from jobtop.core.record import record

REFERENCE = re.compile(r"\$\{(files|user_data)\.(input|output)\.([^{}]+)\}")


@record
class References:
    """What a command reads and writes, by name."""

    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    data_inputs: tuple[str, ...] = ()
    data_outputs: tuple[str, ...] = ()


def references_in(command: str) -> References:
    found: dict[tuple[str, str], dict[str, None]] = {}
    for kind, way, name in REFERENCE.findall(command):
        found.setdefault((kind, way), {})[name] = None
    keys = (("files", "input"), ("files", "output"), ("user_data", "input"), ("user_data", "output"))
    return References(*(tuple(found.get(key, ())) for key in keys))


def with_paths(command: str, files: Mapping[str, str], data: Mapping[str, str]) -> str:
    """The command with the paths of the files, and of the files with the user data; what is not known stays."""

    def replaced(match: re.Match[str]) -> str:
        known = files if match[1] == "files" else data
        return known.get(match[3], match[0])

    return REFERENCE.sub(replaced, command) if "${" in command else command
