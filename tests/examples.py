"""Runs the Python examples of a page of documentation, one after the other, and says what they made."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from support import Jobtop

FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
# Examples share their names, as a reader who tries them one after the other does.
RUNNER = """
import json, sys
def known(value):
    try:
        json.dumps(value)
    except TypeError:
        return False
    return True
names = {"__name__": "__main__"}
examples = json.load(sys.stdin)
made = []
for source in examples:
    before = dict(names)
    exec(compile(source, "<example>", "exec"), names)
    made.append({k: v for k, v in names.items() if v is not before.get(k, names) and k[0] != "_" and known(v)})
sys.stdout.flush()
print("\\n" + json.dumps(made))
"""


def fenced(path: Path, language: str) -> list[str]:
    """The examples in a language, in their order."""
    return [text for word, text in FENCE.findall(path.read_text(encoding="utf-8")) if word == language]


def run_examples(
    jobtop: Jobtop, examples: list[str], env: Mapping[str, str] | None = None
) -> tuple[list[dict[str, Any]], str]:
    """The plain values that each example has given names to, and what all of them printed."""
    finished = subprocess.run(
        [jobtop.python, "-c", RUNNER],
        input=json.dumps(examples),
        env={**jobtop.env, **(env or {})},
        cwd=jobtop.home,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert finished.returncode == 0, finished.stderr
    *printed, made = finished.stdout.splitlines()
    found: list[dict[str, Any]] = json.loads(made)
    return found, "\n".join(printed)


def shape(value: object) -> object:
    """The keys of nested dicts, without what they lead to."""
    return {key: shape(item) for key, item in value.items()} if isinstance(value, dict) else None


def has_shape(value: Any, shown: Any) -> bool:
    """Whether a value has every key that was shown, at every depth; an empty dict may have any."""
    if not isinstance(shown, dict):
        return not isinstance(value, dict)
    return isinstance(value, dict) and all(key in value and has_shape(value[key], shown[key]) for key in shown)
