"""A JSON answer as lines that scroll: keys in one colour, values in another."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from jobtop.tui.palette import Tone
from jobtop.tui.widgets.cells import Span, safe_text
from jobtop.tui.widgets.prose import Paragraph

INDENT = 2
DEEPEST = 40


def json_paragraphs(value: Any) -> Sequence[Paragraph]:
    """The lines of `json.dumps(value, indent=2)`; long values are wrapped behind their keys."""
    return tuple(_lines(value, "", 0, ""))


def _lines(value: Any, key: str, depth: int, end: str) -> Iterator[Paragraph]:
    indent = Span(" " * INDENT * depth)
    label = [indent, Span(f"{safe_text(json.dumps(key, ensure_ascii=False))}: ", Tone.BLUE)] if key else [indent]
    if isinstance(value, dict | list) and value and depth < DEEPEST:
        begin, close = ("{", "}") if isinstance(value, dict) else ("[", "]")
        yield Paragraph(begin, Tone.GREY, label)
        parts = list(value.items()) if isinstance(value, dict) else [("", each) for each in value]
        for place, (name, part) in enumerate(parts):
            yield from _lines(part, str(name), depth + 1, "," if place < len(parts) - 1 else "")
        yield Paragraph(close + end, Tone.GREY, [indent])
    else:
        tone = Tone.TEXT if isinstance(value, str) and value else Tone.GREY
        yield Paragraph(safe_text(json.dumps(value, ensure_ascii=False)) + end, tone, label)
