"""`jobtop config`: prints every setting with its value and origin; and `config trust`."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from jobtop.cli.app import App
from jobtop.cli.text.tables import TableColumn, format_options, print_records, table
from jobtop.core.alerts.model import BUILT_IN
from jobtop.core.alerts.rule_set import RuleChange
from jobtop.core.config import Config, shown_action
from jobtop.core.config_files import ProjectChanges, trust_project
from jobtop.core.errors import BadValue
from jobtop.core.paths import PROJECT_CONFIG
from jobtop.core.retention import policy_warning, read_policy
from jobtop.core.units import printable


@click.group(invoke_without_command=True)
@format_options
@click.pass_context
def config(ctx: click.Context, style: str) -> int:
    """Print every setting, its value and where it came from.

    The rules of [[retention]] and [[alert]], the actions and the tools follow, and the parts of ./jobtop.toml that are
    ignored because it is not trusted.
    """
    if ctx.invoked_subcommand is not None:
        return 0
    settings: Config = ctx.obj.config
    rows = [*settings.rows(), *rule_rows(settings)]
    if warning := policy_warning(read_policy(settings)):
        ctx.obj.warn(warning)
    if style == "table":
        print(
            table(
                (TableColumn("KEY"), TableColumn("VALUE", widest=60), TableColumn("FROM", widest=80)),
                map(table_row, rows),
            )
        )
    else:
        print_records(style, [{"key": key, "value": value, "origin": origin} for key, value, origin in rows])
    return 0


def rule_rows(settings: Config) -> Iterator[tuple[str, str, str]]:
    """Yield key, value and origin of every rule, and of every entry ignored because its file is not trusted."""
    for rule in settings.retention:
        yield f"retention.{printable(rule.tag)}", printable(rule.text), rule.origin
    for alert in settings.alerts:
        fields = {name: field_text(name, value) for name, value in alert.fields.items() if name != "name"}
        value = ", ".join(f"{name} = {text}" for name, text in fields.items())
        yield f"alert.{printable(alert.name)}", printable(value), alert.origin
    for action in settings.actions:
        yield f"action.{printable(action.name)}", printable(str(action.fields.get("type", action.name))), action.origin
    for tool in settings.tools:
        fields = {name: field_text(name, value) for name, value in tool.fields.items() if name != "name"}
        value = ", ".join(f"{printable(name)} = {text}" for name, text in fields.items())
        yield f"tool.{printable(tool.name)}", printable(value), tool.origin
    for key, value, origin in settings.ignored:
        yield f"ignored.{key}", value, origin


def field_text(name: str, value: object) -> str:
    """Return a field of a rule as text; the address of an action may be a secret and is not shown."""
    if name == "actions" and isinstance(value, list | str):
        value = [shown_action(str(word)) for word in (value.split(",") if isinstance(value, str) else value)]
    return json.dumps(value, ensure_ascii=False, default=str)


def table_row(row: tuple[str, Any, str]) -> tuple[str, str, str]:
    key, value, origin = row
    return key, value if isinstance(value, str) else json.dumps(value), origin


@config.command("trust", short_help="Trust ./jobtop.toml as it is now.")
@click.argument("path", required=False)
@click.pass_obj
def trust_file(app: App, path: str | None) -> int:
    """Trust ./jobtop.toml as it is now, so that all its settings apply: read it first.

    Before that, only run.ui, cost.* and alerts without their actions apply, so that no directory you happen to be in
    can delete your history or run a command.
    """
    file = Path(path or PROJECT_CONFIG).absolute()
    if not os.path.lexists(file):
        raise BadValue(f"{file}: there is no such file to trust")
    changes = trust_project(file, app.environ)
    print(f"{file} is trusted until it changes")
    for line in (*map(change_text, changes.rules), *setting_lines(changes)):
        print(f"  {line}")
    return 0


def setting_lines(changes: ProjectChanges) -> Iterator[str]:
    """Yield a line about the settings of a project that need trust, and one about its actions."""
    if changes.settings:
        yield f"it sets {', '.join(map(printable, changes.settings))}"
    new = [name for name in changes.actions if name not in changes.replaced]
    if new:
        yield f"it adds the actions {', '.join(map(printable, new))}"
    if changes.replaced:
        yield f"in its jobs these actions replace yours of the same name: {', '.join(map(printable, changes.replaced))}"


def change_text(change: RuleChange) -> str:
    """Return one line about a rule that a project changes; values may be secrets and are not shown."""
    of = "that comes with jobtop" if change.origin == BUILT_IN else f"of {change.origin}"
    fields = ", ".join(map(printable, change.fields))
    return f'it changes the rule "{printable(change.name)}" {of}: {fields or "nothing"}'
