"""What an engine answers about a container, with everything that looks secret hidden."""

from __future__ import annotations

from jobtop.core.redact import HIDDEN, is_secret, redact_command, redact_mapping, redact_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

COMMANDS = frozenset({"Args", "Cmd", "Entrypoint", "Command", "Test", "CreateCommand"})
ENVIRONMENTS = frozenset({"Env"})
DEEPEST = 40


def redacted_answer(answer: Any, patterns: Sequence[str], key: str = "", depth: int = 0) -> Any:
    """Return an engine's answer with secret values hidden: of the environment, in commands, labels and other texts."""
    if depth > DEEPEST:
        return None
    if isinstance(answer, dict):
        return {name: redacted_answer(value, patterns, str(name), depth + 1) for name, value in answer.items()}
    if isinstance(answer, list):
        if key in ENVIRONMENTS:
            return [redacted_variable(each, patterns) if isinstance(each, str) else each for each in answer]
        if key in COMMANDS and all(isinstance(each, str) for each in answer):
            return redact_command(answer, patterns)
        return [redacted_answer(each, patterns, key, depth + 1) for each in answer]
    if isinstance(answer, str):
        return HIDDEN if answer and is_secret(key) else redact_text(answer, patterns)
    return answer


def redacted_variable(assignment: str, patterns: Sequence[str]) -> str:
    name, sign, value = assignment.partition("=")
    return f"{name}{sign}{redact_mapping({name: value}, patterns)[name]}"
