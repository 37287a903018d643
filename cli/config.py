"""`jobtop config`: every setting, its value and where that came from; and the word that a file may be obeyed."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from jobtop.cli.app import App
from jobtop.cli.output import Column, format_options, print_shapes, table
from jobtop.core.config import Config
from jobtop.core.errors import BadValue
from jobtop.core.paths import PROJECT_CONFIG, state_dir
from jobtop.core.retention import policy_of, skipped_minutes
from jobtop.core.trust import trust
from jobtop.core.units import printable


@click.group(invoke_without_command=True)
@format_options
@click.pass_context
def config(ctx: click.Context, style: str) -> int:
    """Print every setting, its value and where it came from; behind them the rules of [[retention]] and [[alert]]."""
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
    """Key, value and origin of every rule: how long jobs with a tag are kept, and what is to be watched."""
    for rule in settings.retention:
        yield f"retention.{printable(rule.tag)}", printable(rule.written), rule.origin
    for alert in settings.alerts:
        fields = {name: value for name, value in alert.fields.items() if name != "name"}
        value = ", ".join(f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in fields.items())
        yield f"alert.{printable(alert.name)}", printable(value), alert.origin


def words(row: tuple[str, Any, str]) -> tuple[str, str, str]:
    key, value, origin = row
    return key, value if isinstance(value, str) else json.dumps(value), origin


@config.command("trust")
@click.argument("path", required=False)
@click.pass_obj
def trust_file(app: App, path: str | None) -> int:
    """Let the actions in ./jobtop.toml, as it is now, be carried out."""
    file = Path(path or PROJECT_CONFIG).absolute()
    if not file.is_file():
        raise BadValue(f"{file}: there is no such file to trust")
    _ = app.config  # a file that is wrong is not to be trusted: this says what is
    trust(file, state_dir(app.environ))
    print(f"{file} is trusted as it is now; change it and it is not")
    return 0
