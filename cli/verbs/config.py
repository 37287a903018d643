"""`jobtop config`: every setting, its value and where it came from; and `config trust`."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from jobtop.cli.app import App
from jobtop.cli.text.tables import Column, format_options, print_shapes, table
from jobtop.core.config import Config
from jobtop.core.config_files import trust_project
from jobtop.core.errors import BadValue
from jobtop.core.paths import PROJECT_CONFIG
from jobtop.core.retention import policy_of, skipped_minutes
from jobtop.core.units import printable


@click.group(invoke_without_command=True)
@format_options
@click.pass_context
def config(ctx: click.Context, style: str) -> int:
    """Print every setting, its value and where it came from.

    Behind them stand the rules of [[retention]] and [[alert]], and what of ./jobtop.toml is ignored until it is
    trusted.
    """
    if ctx.invoked_subcommand is not None:
        return 0
    settings: Config = ctx.obj.config
    rows = [*settings.rows(), *rule_rows(settings)]
    if warning := skipped_minutes(policy_of(settings)):
        ctx.obj.warn(warning)
    if style == "table":
        print(table((Column("KEY"), Column("VALUE", widest=60), Column("FROM", widest=80)), map(words, rows)))
    else:
        print_shapes(style, [{"key": key, "value": value, "origin": origin} for key, value, origin in rows])
    return 0


def rule_rows(settings: Config) -> Iterator[tuple[str, str, str]]:
    """Key, value and origin of every rule, and of what does not count because its file is not trusted."""
    for rule in settings.retention:
        yield f"retention.{printable(rule.tag)}", printable(rule.written), rule.origin
    for alert in settings.alerts:
        fields = {name: value for name, value in alert.fields.items() if name != "name"}
        value = ", ".join(f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in fields.items())
        yield f"alert.{printable(alert.name)}", printable(value), alert.origin
    for key, value, origin in settings.ignored:
        yield f"ignored.{key}", value, origin


def words(row: tuple[str, Any, str]) -> tuple[str, str, str]:
    key, value, origin = row
    return key, value if isinstance(value, str) else json.dumps(value), origin


@config.command("trust")
@click.argument("path", required=False)
@click.pass_obj
def trust_file(app: App, path: str | None) -> int:
    """Let everything in ./jobtop.toml count, as it is now: read it first.

    Until then only run.ui, cost.* and alerts without their actions count, so that no directory you happen to be in
    can delete your history or run a command.
    """
    file = Path(path or PROJECT_CONFIG).absolute()
    if not os.path.lexists(file):
        raise BadValue(f"{file}: there is no such file to trust")
    trust_project(file, app.environ)
    print(f"{file} is trusted as it is now; change it and it is not")
    return 0
