"""Changes the command of an earlier job: other arguments, or another value of a parameter. Pure."""

from __future__ import annotations

import os
import re

from jobtop.core.run.request import INTERPRETERS, script_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

CODE_OPTIONS = ("-c", "-m", "-e")  # the next word is what the interpreter runs
SHELL_VALUE = r"""'[^']*'|"[^"]*"|[^\s;|&'"]+"""


def is_shell_line(command: Sequence[str]) -> bool:
    """Whether the command is `sh -c LINE`, as --shell makes it."""
    return len(command) == 3 and os.path.basename(command[0]) in ("sh", "bash", "zsh") and command[1] == "-c"


def replace_arguments(command: Sequence[str], arguments: Sequence[str]) -> tuple[str, ...]:
    """The command with other arguments: the program stays, and so does the script or module of an interpreter."""
    return (*command[: arguments_start(command)], *arguments)


def arguments_start(command: Sequence[str]) -> int:
    """The index of the first word after the program and its script: `python -u train.py | --lr 0.1`."""
    if os.path.basename(command[0]).rstrip("0123456789.") not in INTERPRETERS:
        return 1
    for index, word in enumerate(command[1:], 1):
        if word in CODE_OPTIONS:
            return min(index + 2, len(command))
    script = script_of(tuple(command))
    return 1 if script is None else command.index(script, 1) + 1


def parameter_value(command: Sequence[str], name: str) -> str | None:
    """The value that the command line gives a parameter: `--lr 0.1`, `--lr=0.1` or `lr=0.1`; None if it has none."""
    if is_shell_line(command):
        found = shell_pattern(name).search(command[2])
        return None if found is None else found[2].strip("'\"")
    place = _place(command, name)
    return None if place is None else command[place[0]][place[1] :]


def with_parameter(command: Sequence[str], name: str, value: str) -> tuple[str, ...] | None:
    """The command with another value of a parameter; None if the command line does not have the parameter."""
    if is_shell_line(command):
        import shlex

        line, count = shell_pattern(name).subn(lambda found: found[1] + shlex.quote(value), command[2])
        return (*command[:2], line) if count else None
    place = _place(command, name)
    if place is None:
        return None
    index, start = place
    return (*command[:index], command[index][:start] + value, *command[index + 1 :])


def _place(command: Sequence[str], name: str) -> tuple[int, int] | None:
    """The index of the word that has the value of a parameter, and where in the word the value starts.

    The last one counts, as for most programs.
    """
    names = {name, name.replace("_", "-")}
    options = {dashes + spelled for spelled in names for dashes in ("-", "--")}
    for index in range(len(command) - 1, 0, -1):
        key, equals, _ = command[index].partition("=")
        if equals and (key in options or key.lstrip("+") in names):
            return index, len(key) + 1
        if command[index - 1] in options and index > 1 and _is_value(command[index]):
            return index, 0
    return None


def _is_value(word: str) -> bool:
    """Whether a word behind an option can be its value: no other option, but a negative number may be."""
    return not word.startswith("-") or word[1:2].isdigit() or word[1:2] == "."


def shell_pattern(name: str) -> re.Pattern[str]:
    """What a parameter looks like in a shell command line."""
    spelled = "|".join(sorted({re.escape(name), re.escape(name.replace("_", "-"))}))
    return re.compile(rf"(?<!\S)(--?(?:{spelled})(?:=|\s+(?!-[^\d.]))|\+*(?:{spelled})=)({SHELL_VALUE})")
