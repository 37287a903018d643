"""`jobtop doctor`: reports what works on this machine, what does not, what that means, and the remedy."""

import os
import shutil
import sys
import textwrap
from collections.abc import Iterator

import click

from jobtop.cli.app import App
from jobtop.cli.text.tables import format_options, print_records
from jobtop.core.doctor.checks import Finding, State
from jobtop.core.errors import ExitCode
from jobtop.core.model import SCHEMA_VERSION
from jobtop.core.units import printable
from jobtop.lifecycle.doctor import Topics, examine, verdict

GLYPHS = {State.WORKS: "✓", State.FAILS: "✗", State.ABSENT: "–"}
COLORS = {State.WORKS: "32", State.FAILS: "31", State.ABSENT: "2"}
MIN_COLUMNS, MAX_COLUMNS = 60, 100


@click.command()
@format_options
@click.pass_obj
def doctor(app: App, style: str) -> int:
    """Report what works on this machine, what does not, what that means, and the remedy.

    Exit code 1 if something fails that jobtop needs to run or record any job.
    """
    topics = examine(app.paths, app.config.switch("store.network"), sys.stdout.encoding)
    findings = [finding for group in topics.values() for finding in group]
    if style == "table":
        print("\n".join(page(topics, app.uses_color(1), page_width())))
    else:
        print_records(style, [finding_json(topic, finding) for topic, group in topics.items() for finding in group])
    broken = any(finding.essential and finding.state is State.FAILS for finding in findings)
    return ExitCode.BAD_ANSWER if broken else ExitCode.OK


def page(topics: Topics, color: bool, width: int) -> Iterator[str]:
    """Yield headings and findings, each remedy below its finding."""
    findings = [finding for group in topics.values() for finding in group]
    indent = 5 + max(len(finding.name) for finding in findings)
    for topic, group in topics.items():
        yield f"\x1b[1m{topic}\x1b[0m" if color else topic
        for finding in group:
            glyph = f"\x1b[{COLORS[finding.state]}m{GLYPHS[finding.state]}\x1b[0m" if color else GLYPHS[finding.state]
            first, *rest = wrapped(finding.meaning, width - indent, breaking=True)
            yield f" {glyph} {finding.name:{indent - 5}}  {first}"
            yield from (" " * indent + line for line in rest)
            if finding.remedy is not None:
                first, *rest = wrapped(finding.remedy, width - indent - 2, breaking=False)
                yield f"{' ' * indent}→ {first}"
                yield from (" " * (indent + 2) + line for line in rest)
        yield ""
    yield verdict(findings)


def wrapped(text: str, width: int, breaking: bool) -> list[str]:
    return textwrap.wrap(printable(text), width, break_on_hyphens=False, break_long_words=breaking) or [""]


def page_width() -> int:
    columns = shutil.get_terminal_size((80, 24)).columns if os.isatty(1) else 80
    return max(MIN_COLUMNS, min(MAX_COLUMNS, columns))


def finding_json(topic: str, finding: Finding) -> dict[str, object]:
    return {
        "schema_version": SCHEMA_VERSION,
        "topic": topic,
        "name": finding.name,
        "state": str(finding.state),
        "essential": finding.essential,
        "meaning": finding.meaning,
        "remedy": finding.remedy,
    }
