"""`jobtop workflow validate`: names all mistakes of workflow files at once."""

import os
import sys
from typing import Any

import click

from jobtop.cli.app import App
from jobtop.cli.text.tables import format_options, print_records
from jobtop.core.errors import ExitCode
from jobtop.core.model import SCHEMA_VERSION
from jobtop.core.units import number_of, printable
from jobtop.core.workflow.hosting import impossible_requests
from jobtop.core.workflow.ordering import depths
from jobtop.core.workflow.reading import Loaded, load


@click.command()
@click.argument("files", metavar="FILE…", nargs=-1, required=True)
@click.option("--any-host", is_flag=True, help="Accept requests for more than this host has, and files not there yet.")
@format_options
@click.pass_obj
def validate(app: App, files: tuple[str, ...], any_host: bool, style: str) -> int:
    """Check workflow files, and name every mistake with its line and key. The exit code is 2 if there is one.

    Unknown keys, wrong values, unknown names, circles, input files that are not there, and requests for more than this
    host has are mistakes. Keys that only matter to Torc's server are named in one warning.
    """
    found = [checked(path, any_host) for path in files]
    if style != "table":
        print_records(style, [to_json(each) for each in found], single=len(found) == 1)
    for each in found:
        if each.workflow is not None:
            for warning in each.workflow.warnings:
                app.warn(f"{printable(each.path)}: {warning}")
        if style == "table":
            for sentence in each.sentences():
                print(sentence, file=sys.stderr)
            if each.workflow is not None:
                print(f"{printable(each.path)}: {summary(each)}")
    return ExitCode.USAGE if any(each.problems for each in found) else ExitCode.OK


def checked(path: str, any_host: bool) -> Loaded:
    found = load(path, None if any_host else os.getcwd())
    return found if any_host else impossible_requests(found)


def summary(found: Loaded) -> str:
    """`20 jobs, 36 dependencies, 3 stages`."""
    jobs = found.workflow.jobs if found.workflow is not None else {}
    after = {name: job.after for name, job in jobs.items()}
    stages = 1 + max(depths(after, list(jobs)).values(), default=0)
    edges = sum(map(len, after.values()))
    return ", ".join((
        number_of(len(jobs), "job"), number_of(edges, "dependency", "dependencies"), number_of(stages, "stage"),
    ))  # fmt: skip


def to_json(found: Loaded) -> dict[str, Any]:
    workflow = found.workflow
    return {
        "schema_version": SCHEMA_VERSION,
        "file": found.path,
        "valid": not found.problems,
        "name": None if workflow is None else workflow.name,
        "jobs": None if workflow is None else len(workflow.jobs),
        "dependencies": None if workflow is None else workflow.edges,
        "problems": [{"line": each.line, "where": each.where, "text": each.text} for each in found.problems],
        "warnings": [] if workflow is None else list(workflow.warnings),
    }
