"""`jobtop workflow graph`: the order in which the jobs of a workflow file run."""

import json
import sys
from collections.abc import Callable

import click

from jobtop.cli.app import App
from jobtop.core.errors import ExitCode
from jobtop.core.model import SCHEMA_VERSION
from jobtop.core.text.workflow_graph import dot_lines, mermaid_lines, stage_lines
from jobtop.core.units import printable
from jobtop.core.workflow.model import Workflow
from jobtop.core.workflow.reading import load

WRITERS: dict[str, Callable[[Workflow], list[str]]] = {
    "text": stage_lines,
    "dot": dot_lines,
    "mermaid": mermaid_lines,
    "json": lambda workflow: [json.dumps(graph_json(workflow), indent=2)],
}


@click.command()
@click.argument("file", metavar="FILE")
@click.option(
    "--format", "style", type=click.Choice(tuple(WRITERS)), default="text", help="Text, or a language for drawings."
)
@click.pass_obj
def graph(app: App, file: str, style: str) -> int:
    """Print the jobs of a workflow file in stages: a job is in the first stage in which it can run.

    --format dot is for Graphviz, mermaid for Markdown pages, json for programs.
    """
    found = load(file)
    if found.workflow is None:
        for sentence in found.sentences():
            print(sentence, file=sys.stderr)
        return ExitCode.USAGE
    for warning in found.workflow.warnings:
        app.warn(f"{printable(file)}: {warning}")
    print("\n".join(WRITERS[style](found.workflow)))
    return ExitCode.OK


def graph_json(workflow: Workflow) -> dict[str, object]:
    jobs = [{"name": job.name, "after": list(job.after), "command": job.command} for job in workflow.jobs.values()]
    return {"schema_version": SCHEMA_VERSION, "name": workflow.name, "jobs": jobs}
