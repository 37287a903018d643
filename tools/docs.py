#!/usr/bin/env python3
"""Writes the generated parts of docs/: verbs, settings, metrics, cases of the self-test, keys of the console, the
Python API.

`.venv/bin/python tools/docs.py` writes them; with `--check` it only prints which are stale, and exits with 1.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from jobtop.cli.main import VERBS, jobtop
from jobtop.core.alerts.expressions.extra_keys import EXTRA_KEYS
from jobtop.core.alerts.rule_set import default_rules as built_in_rules
from jobtop.core.config import MEASUREMENTS, SETTINGS, Setting
from jobtop.core.metrics import Metric, Scope, metrics_of
from jobtop.core.selftest.cases import CASES
from jobtop.core.text.metric_notes import note_of
from jobtop.core.text.rule_text import condition_text
from jobtop.tui.actions import ACTIONS
from jobtop.tui.keymap import shown_key

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT))
from tools.api_reference import api  # noqa: E402

UNUSED = "**accepted, no effect yet**"
TITLES = {
    Scope.JOB: "A job",
    Scope.CONTAINER: "A container",
    Scope.HOST: "The host",
    Scope.GPU: "A GPU",
    Scope.CORE: "A core of the CPU",
    Scope.DISK: "A disk",
    Scope.INTERFACE: "A network interface",
    Scope.NUMA: "A NUMA node",
    Scope.SENSOR: "A sensor: temperature or fan",
    Scope.BATTERY: "A battery",
    Scope.PACKAGE: "A CPU package",
}
PART = r"(<!-- generated: {name} -->\n).*?(<!-- end -->)"


def main() -> int:
    parts = (
        *(("verbs", verbs), ("configuration", settings), ("metrics", metrics), ("accuracy", cases)),
        *(("console", keys), ("alerts", extra_keys), ("alerts", default_rules), ("api", api)),
    )
    stale = []
    for page, make in parts:
        path = ROOT / "docs" / f"{page}.md"
        before = path.read_text(encoding="utf-8")
        after = replace_part(before, make.__name__, "\n".join(make()))
        if after != before:
            stale.append(str(path.relative_to(ROOT)))
        if "--check" not in sys.argv:
            path.write_text(after, encoding="utf-8")
    if stale and "--check" in sys.argv:
        print(f"stale: {', '.join(stale)}; run tools/docs.py", file=sys.stderr)
        return 1
    return 0


def extra_keys() -> Iterator[str]:
    """Yield a table of the keys that only alert rules know."""
    yield "| key | of | what it is |"
    yield "|---|---|---|"
    yield from (f"| `{row.key}` | {', '.join(row.scopes)} | {cell(row.title)} |" for row in EXTRA_KEYS)
    yield ""


def default_rules() -> Iterator[str]:
    """Yield a table of the alert rules that come with jobtop."""
    yield "| name | fires when | severity | what to do |"
    yield "|---|---|---|---|"
    for rule in built_in_rules():
        remedy = cell(rule.remedy or "")
        yield f"| `{rule.name}` | {cell(condition_text(rule))} | {rule.severity} | {remedy} |"
    yield ""


def replace_part(page: str, name: str, text: str) -> str:
    """Return the page with one generated part replaced; SystemExit if the page has no place for it."""
    after, count = re.subn(
        PART.format(name=name), lambda found: f"{found[1]}\n{text}\n{found[2]}", page, flags=re.DOTALL
    )
    if count != 1:
        raise SystemExit(f"there are {count} places for the generated part {name}, not one")
    return after


def verbs() -> Iterator[str]:
    """Yield a section for each verb: its usage, its help text, its options."""
    context = click.Context(jobtop, info_name="jobtop")
    yield from command_lines(jobtop, "jobtop", "[OPTIONS] VERB …")
    for name in VERBS:
        command = jobtop.get_command(context, name)
        assert command is not None
        yield from command_lines(command, f"jobtop {name}", arguments(command))
        if isinstance(command, click.Group):
            for below in command.list_commands(context):
                inner = command.get_command(context, below)
                assert inner is not None
                yield from command_lines(inner, f"jobtop {name} {below}", arguments(inner))


def command_lines(command: click.Command, title: str, usage: str) -> Iterator[str]:
    yield f"## {title}"
    yield ""
    yield f"    {title} {usage}".rstrip()
    yield ""
    for paragraph in re.split(r"\n\s*\n", (command.help or "").strip()):
        lines = [line.strip() for line in paragraph.replace("\b", "").strip().split("\n")]
        yield from [f"    {line}" for line in lines] if "\b" in paragraph else [" ".join(lines)]
        yield ""
    options = [option for option in command.params if isinstance(option, click.Option)]
    if options:
        yield "| option | |"
        yield "|---|---|"
        yield from (f"| `{option_text(option)}` | {cell(option.help or '')} |" for option in options)
        yield ""


def arguments(command: click.Command) -> str:
    has_options = any(isinstance(param, click.Option) for param in command.params)
    names = [argument_text(param) for param in command.params if isinstance(param, click.Argument)]
    return " ".join([*([command.options_metavar or ""] if has_options else []), *names])


def argument_text(argument: click.Argument) -> str:
    """Return the metavar of an argument, or its choices, or its name; in brackets if it is optional."""
    if argument.metavar:
        return argument.metavar
    text = choices(argument) or (argument.name or "").upper()
    return text if argument.required else f"[{text}]"


def option_text(option: click.Option) -> str:
    """Return an option as `-f, --follow` or `--limit N`, escaped for a table."""
    value = "" if option.is_flag else f" {option.metavar or choices(option) or 'D'}"
    return cell(", ".join(option.opts) + value)


def choices(parameter: click.Parameter) -> str:
    kind = parameter.type
    return "|".join(map(str, kind.choices)) if isinstance(kind, click.Choice) else ""


def settings() -> Iterator[str]:
    """Yield a table of all settings, and one of the names that monitor.without accepts."""
    yield "| key | default | what it is |"
    yield "|---|---|---|"
    for row in SETTINGS:
        yield f"| `{row.key}` | {default(row)} | {cell(row.doc)}{'' if row.is_used else f' – {UNUSED}'} |"
    yield ""
    yield "`monitor.without` accepts these names:"
    yield ""
    yield "| name | what is not measured |"
    yield "|---|---|"
    for name, what in MEASUREMENTS.items():
        yield f"| `{name}` | {UNUSED if what is None else cell(what)} |"
    yield ""


def default(setting: Setting) -> str:
    if setting.key == "store.dir":
        return "see below"
    return f"`{cell(setting.default)}`" if setting.default else "nothing"


def metrics() -> Iterator[str]:
    """Yield the catalogue, a table for each scope; only jobs and containers have a fold."""
    for scope, title in TITLES.items():
        rows = metrics_of(scope)
        yield f"## {title}"
        yield ""
        if scope is Scope.CONTAINER and rows == metrics_of(Scope.JOB):
            yield "The same keys as a job has, from the container's cgroup."
        elif scope in (Scope.JOB, Scope.CONTAINER):
            yield "| key | what it is | unit | kind | fold | source | systems | how exact |"
            yield "|---|---|---|---|---|---|---|---|"
            yield from (f"{metric_cells(row)} {row.fold} {note_cells(scope, row)}" for row in rows)
        else:
            yield "| key | what it is | unit | kind | source | systems | how exact |"
            yield "|---|---|---|---|---|---|---|"
            yield from (f"{metric_cells(row)[:-2]} {note_cells(scope, row)}" for row in rows)
        yield ""


def metric_cells(metric: Metric) -> str:
    return f"| `{metric.key}` | {cell(metric.title)} | {metric.unit} | {metric.kind} |"


def note_cells(scope: Scope, metric: Metric) -> str:
    note = note_of(scope, metric.key)
    return f"| {cell(note.source)} | {note.platforms} | {cell(note.accuracy)} |"


def cases() -> Iterator[str]:
    """Yield a table of the cases of the self-test."""
    yield "| case | load |"
    yield "|---|---|"
    yield from (f"| `{case.name}` | {cell(case.title)} |" for case in CASES)
    yield ""


def keys() -> Iterator[str]:
    """Yield a table of all actions of the console."""
    yield "| action | keys | what it does |"
    yield "|---|---|---|"
    for action in ACTIONS:
        names = " ".join(f"`{cell(shown_key(key))}`" for key in action.keys.split(","))
        yield f"| `{action.id}` | {names} | {cell(action.help)} |"
    yield ""


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


if __name__ == "__main__":
    sys.exit(main())
